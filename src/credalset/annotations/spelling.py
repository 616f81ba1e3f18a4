"""What labels are called: first renamed, then tidied."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from credalset.annotations.naming import as_mark, tidied
from credalset.annotations.table import SEVERAL, is_missing


class Spelling:
    """Gives labels the names they go by, one by one or in lists of several, and takes note of those it meets.

    Old names are compared as they would stand in a text file, so that ``"5"`` renames the number 5 too; with ``tidy``
    case and spaces do not count. New names are tidied like all others.

    Examples
    --------
    >>> Spelling({"y": "Yes"}, tidy=True)(["Y ", "yes", None, ["NO"]])
    ['yes', 'yes', None, ['no']]
    """

    def __init__(self, rename: Mapping[Any, Hashable] | None, tidy: bool) -> None:
        if not isinstance(rename, Mapping | None):
            raise TypeError(f"rename must map old names to new ones, {{'old': 'new'}}, but is {rename!r}.")
        self.rename, self.tidy = rename or {}, tidy
        self.new: dict[Any, Hashable] = {}
        for old, new in self.rename.items():
            if self.new.setdefault(self._mark(old), new) != new:
                raise ValueError(f"rename has two names for {old!r}, which it meets in several spellings. Keep one.")
        self.met: dict[Any, None] = {}

    def __call__(self, labels: list[Any]) -> list[Any]:
        """Return labels by their new names."""
        return [self._spell(label) for label in labels] if self.new or self.tidy else labels

    def check(self) -> None:
        """Refuse to rename what no label is called: most likely it is misspelt."""
        idle = [old for old in self.rename if self._mark(old) not in self.met]
        if idle:
            wrong, known = (", ".join(map(repr, names[:5])) for names in (idle, list(self.met)))
            raise ValueError(
                f"rename names {wrong}, which no label is called; the labels are {known}. "
                "Write them as they stand there, or leave them out."
            )

    def _mark(self, label: Any) -> Any:
        mark = as_mark(label)
        if mark is None:  # bytes, tuples and dates are compared as they are
            return label if isinstance(label, Hashable) and not is_missing(label) else None
        return tidied(mark) if self.tidy else mark

    def _spell(self, label: Any) -> Any:
        if isinstance(label, SEVERAL):
            return [self._spell(each) for each in label]
        mark = self._mark(label)
        if mark is not None:
            self.met[mark] = None
        found = self.new.get(mark, label) if mark is not None else label
        return (tidied(found) or None if isinstance(found, str) else found) if self.tidy else found
