"""Render formulas to MathML while the site is built, so that pages need no script and no network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)


def _to_mathml(match: re.Match[str]) -> str:
    display = "block" if match["open"] == "[" else "inline"
    mathml = convert(html.unescape(match["latex"]).strip(), display=display)
    return f'<{match["tag"]} class="math">{mathml}</{match["tag"]}>'


def on_page_content(content: str, **_: Any) -> str:
    """Replace every arithmatex element of a page, docstrings included."""
    return FORMULA.sub(_to_mathml, content)
