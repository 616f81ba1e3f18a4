"""Render formulas to MathML while the site is built, so that pages need no script and no network.

Punctuation after a formula and short words of code (options, names) are kept from being broken across lines.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
ENDING = re.compile(r"(</math>)</span>([.,;:)]+)")
NOTHING = re.compile(r'\s+–\s+<div class="doc-md-description">\s*</div>')  # after a type that says it all
WORD = re.compile(r"<code>([^<>\s]{1,24})</code>")


def _to_mathml(match: re.Match[str]) -> str:
    display = "block" if match["open"] == "[" else "inline"
    mathml = convert(html.unescape(match["latex"]).strip(), display=display)
    return f'<{match["tag"]} class="math">{mathml}</{match["tag"]}>'


def on_page_content(content: str, **_: Any) -> str:
    """Replace every arithmatex element of a page, docstrings included."""
    content = ENDING.sub(r"\1\2</span>", FORMULA.sub(_to_mathml, content))
    return WORD.sub(r'<code class="word">\1</code>', NOTHING.sub("", content))
