"""Numbers and tables as plain text, the same way everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from credalset.exceptions import need

MOST_ROWS = 50  # of a list that prints as a table


def number_text(value: Any, decimals: int = 4, significant: int | None = None, missing: str = "-") -> str:
    """Write a number with a fixed number of decimals; one below a thousandth by its significant digits.

    Parameters
    ----------
    value : object
        A float; anything else is written as it is, and None or NaN as ``missing``.
    decimals, significant : int
        Digits after the point, and digits of a number too small for them (by default as many).
    missing : str
        What to write where there is no number.

    Examples
    --------
    >>> [number_text(x) for x in (0.12345, 0.00012345, 0.0, float("inf"), None, 3)]
    ['0.1235', '1.234e-04', '0.0000', 'inf', '-', '3']
    >>> [number_text(x, decimals=3, significant=1) for x in (0.12345, 0.00012345)]
    ['0.123', '1e-04']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing
    if not isinstance(value, float):
        return str(value)
    if 0.0 < abs(value) < 1e-3:
        return f"{value:.{(significant or decimals) - 1}e}"
    return f"{value:.{decimals}f}"


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0) -> str:
    """Write a table with aligned columns; the first ``left`` columns to the left, the others to the right.

    Examples
    --------
    >>> print(table_text(["score", "coverage"], [["tv", "0.9"], ["hellinger", "0.89"]], left=1))
    score      coverage
    ---------  --------
    tv              0.9
    hellinger      0.89
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    sides = ["<" if i < left else ">" for i in range(len(widths))]
    lines = [headings, ["-" * width for width in widths], *rows]
    aligned = ([f"{t:{s}{w}}" for t, s, w in zip(line, sides, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in aligned)


class Rows(list[dict[str, Any]]):
    """A list of plain rows that prints as a table; numbers with an interval are printed with it.

    Examples
    --------
    >>> Rows([{"method": "plan", "items": 3, "width": 0.5}, {"method": "random", "items": 12, "width": None}])
    method  items  width
    ------  -----  -----
    plan        3  0.500
    random     12      -
    """

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the rows as columns, ready for a data frame."""
        names = list(dict.fromkeys(name for row in self for name in row))
        return {name: [row.get(name) for row in self] for name in names}

    def to_frame(self) -> Any:
        """Return the rows as a pandas frame."""
        return need("pandas").DataFrame(list(self))

    def __str__(self) -> str:
        names, more = list(self.to_dict()), len(self) - MOST_ROWS
        lines = [[_cell(row.get(name)) for name in names] for row in self[:MOST_ROWS]]
        return table_text(names, lines, left=1) + (f"\n… and {more} more" if more > 0 else "") if self else "no rows"

    def __repr__(self) -> str:
        return str(self)


def _cell(value: Any) -> str:
    return repr(value) if hasattr(value, "low") else number_text(value, decimals=3, significant=2)
