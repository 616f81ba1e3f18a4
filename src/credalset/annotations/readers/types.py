"""One type per column: text tables write numbers as text, and exports mix numbers and names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from credalset.annotations.table import is_missing

WHOLE_TEXT = re.compile(r"-?(0|[1-9]\d{0,17})(\.0+)?")
DECIMAL_TEXT = re.compile(r"-?\d{1,15}\.\d{1,15}")


class ColumnType:
    """The narrowest type that holds every value seen: whole number, number, truth value, or text.

    Texts that are all numbers become numbers where ``number_texts`` says so; 007 and 1e5 stay texts.

    Examples
    --------
    >>> kind = ColumnType(number_texts=True)
    >>> kind.see(["1.0", "2", None])
    >>> [kind(value) for value in ["1.0", "2", None]]
    [1, 2, None]
    >>> kind.see(["n/a"])
    >>> kind("1.0")
    '1.0'
    """

    def __init__(self, number_texts: bool = False, keep_text: bool = False) -> None:
        self.number_texts, self.keep_text = number_texts and not keep_text, keep_text
        self.whole = self.number = self.truth = True

    def see(self, values: Iterable[Any]) -> None:
        """Take note of values."""
        for value in values:
            if is_missing(value):
                continue
            self.truth = self.truth and isinstance(value, bool)
            whole, number = self._numeric(value)
            self.whole = self.whole and whole
            self.number = self.number and number

    def _numeric(self, value: Any) -> tuple[bool, bool]:
        """Tell whether a value is a whole number, and whether it is a number."""
        if isinstance(value, bool):
            return False, False
        if isinstance(value, str):
            whole = self.number_texts and WHOLE_TEXT.fullmatch(value) is not None
            return whole, whole or (self.number_texts and DECIMAL_TEXT.fullmatch(value) is not None)
        if isinstance(value, int):
            fits = -(2**63) <= value < 2**63
            return fits, fits
        return isinstance(value, float) and value.is_integer(), isinstance(value, float)

    @property
    def name(self) -> str:
        """Return "bool", "int", "float" or "str"."""
        if self.keep_text:
            return "str"
        return "bool" if self.truth else "int" if self.whole else "float" if self.number else "str"

    def __call__(self, value: Any) -> Any:
        """Convert a value that was seen; a missing one is None."""
        if is_missing(value):
            return None
        if self.name == "int":
            return int(float(value)) if isinstance(value, str) and "." in value else int(value)
        if self.name == "float":
            return float(value)
        return value if self.name == "bool" else as_text(value)


def as_text(value: Any) -> str:
    """Write a value as text, whole numbers without a point."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
