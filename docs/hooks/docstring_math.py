"""Let formulas in docstrings keep the notation editors and ``help()`` readers know (``:math:``, ``.. math::``)."""

from __future__ import annotations

import re
from typing import Any

import griffe

INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^\.\. math::[ \t]*(.*(?:\n(?:[ \t]+.*)?)*?)(?=\n\S|\Z)", re.MULTILINE)


def to_dollars(text: str) -> str:
    """Rewrite reStructuredText formulas as the dollar notation of the site."""
    text = BLOCK.sub(lambda match: f"$$\n{match[1].strip()}\n$$\n", text)
    return INLINE.sub(lambda match: f"${match[1]}$", text)


class DocstringMath(griffe.Extension):
    """Apply `to_dollars` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one object's docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = to_dollars(obj.docstring.value)
