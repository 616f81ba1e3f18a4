"""Show examples with prompts as sessions, so that copying leaves prompts and output out."""

from __future__ import annotations

import re
from typing import Any

#: a block of Python that begins with a prompt; the style sheet hides prompts and output in copies
SESSION = re.compile(r"^(\s*```)python(\n\s*>>> )", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Have these blocks highlighted as sessions."""
    return SESSION.sub(r"\1pycon\2", markdown)
