"""Render formulas to MathML while the site is built, so that pages need no script and no network.

Punctuation after a formula, short words of code (options, names) and a number with its sign are
kept from being broken across lines; cells of prose are marked, so that a column of code beside them
leaves them room.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">'
    r"\s*\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]\s*</(?P=tag)>",
    re.DOTALL,
)
ENDING = re.compile(r"(</math>)</span>([.,;:)]+)")
NOTHING = re.compile(
    r'\s+–\s+<div class="doc-md-description">\s*</div>'
)  # after a type that says it all
PARENTHESIS = re.compile(r"(?<=</code>)\s+\)")  # after the default of a parameter
SPREAD = re.compile(r"(±|\(se) (?=\d)")
PROSE = re.compile(r"<td(?=[^>]*>[^<]{18})")
WORD = re.compile(r"<code>([^<>\s]{1,24})</code>")


def _to_mathml(match: re.Match[str]) -> str:
    display = "block" if match["open"] == "[" else "inline"
    mathml = convert(html.unescape(match["latex"]).strip(), display=display)
    return f'<{match["tag"]} class="math">{mathml}</{match["tag"]}>'


def on_page_content(content: str, **_: Any) -> str:
    """Replace every arithmatex element of a page, docstrings included."""
    content = ENDING.sub(r"\1\2</span>", FORMULA.sub(_to_mathml, content))
    content = PARENTHESIS.sub(")", NOTHING.sub("", content))
    content = PROSE.sub('<td class="prose"', SPREAD.sub("\\1\N{NO-BREAK SPACE}", content))
    return WORD.sub(r'<code class="word">\1</code>', content)
