"""Words on standard error: notes and messages."""

from __future__ import annotations

import re
from typing import Any

from rich.console import Console

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: Any) -> str:
    """Return a text with control characters escaped; names in files cannot control the terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def say(text: str) -> None:
    """Print words to standard error, so that data can be piped."""
    Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True).print(
        visible(text)
    )


def note(sentence: str) -> None:
    """Print a note to standard error."""
    say(f"note: {sentence}")
