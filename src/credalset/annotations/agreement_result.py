"""The result of `Annotations.agreement`: numbers with intervals, and a table of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from credalset._text import Rows
from credalset.exceptions import need

TITLES = {
    "percent": "percent agreement",
    "kappa": "Fleiss' kappa",
    "alpha": "Krippendorff's alpha",
    "alpha_ordinal": "Krippendorff's alpha, ordinal",
    "alpha_interval": "Krippendorff's alpha, interval",
    "ac1": "Gwet's AC1",
    "ac2": "Gwet's AC2, quadratic",
}
MOST_CLASSES = 12
MOST_WORKERS = 5
WIDEST_NAME = 24


class Statistic(float):
    """A number that carries the bounds of its interval, ``low`` and ``high``."""

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Statistic:
        """Create the statistic; it behaves like the plain number ``value``."""
        self = super().__new__(cls, value)
        self.low, self.high = float(low), float(high)
        return self

    def __repr__(self) -> str:
        return f"{self:.4f} [{self.low:.4f}, {self.high:.4f}]"

    def __reduce__(self) -> tuple[type[Statistic], tuple[float, float, float]]:
        return Statistic, (float(self), self.low, self.high)


@dataclass(frozen=True, eq=False)
class Agreement:
    """How much annotators agree; printed, a table. A statistic that is not defined is NaN: κ of one class only.

    Attributes
    ----------
    percent, kappa, alpha, ac1 : Statistic
        Percent agreement, Fleiss' κ, Krippendorff's α (nominal) and Gwet's AC1; numbers with ``low`` and ``high``.
    alpha_ordinal, alpha_interval, ac2 : Statistic or None
        For ordered classes: α that knows the order of the levels or their positions, and AC2 with quadratic weights.
    classes : Rows, a list of dict that prints as a table
        Per class: its ``share`` of all votes; ``agreement``, the chance that a second vote is for the class if the
        first is; ``kappa`` and ``alpha`` of the class against all others.
    n_items, n_votes, n_paired : int
        Items, votes, and items with at least two votes.
    level : float
        Confidence level of the intervals.

    Examples
    --------
    >>> from credalset import Annotations
    >>> rows = [(1, "ann", "a"), (1, "bob", "a"), (2, "ann", "b"), (2, "bob", "b"), (3, "ann", "a"), (3, "bob", "b")]
    >>> print(Annotations.from_table(rows).agreement())
    Agreement: 3 items, 6 votes, 3 items with at least two
    <BLANKLINE>
                           value  95% interval
    percent agreement     0.6667  0.0000 to 1.0000
    Fleiss' kappa         0.3333  -1.0000 to 1.0000
    Krippendorff's alpha  0.4444  -0.6667 to 1.0000
    Gwet's AC1            0.3333  -1.0000 to 1.0000
    <BLANKLINE>
    class   share  agreement  95% interval        kappa   alpha
    'a'    0.5000     0.6667  0.0000 to 1.0000   0.3333  0.4444
    'b'    0.5000     0.6667  0.0000 to 1.0000   0.3333  0.4444
    <BLANKLINE>
    worker  votes  agreement  95% interval        kappa
    'ann'       3     0.6667  0.0000 to 1.0000   0.3333
    'bob'       3     0.6667  0.0000 to 1.0000   0.3333
    """

    percent: Statistic
    kappa: Statistic
    alpha: Statistic
    ac1: Statistic
    classes: Rows
    n_items: int
    n_votes: int
    n_paired: int
    level: float
    alpha_ordinal: Statistic | None = None
    alpha_interval: Statistic | None = None
    ac2: Statistic | None = None
    _measure_workers: Callable[[], Rows] | None = field(default=None, repr=False)

    @cached_property
    def workers(self) -> Rows | None:
        """Per annotator: ``votes`` on items with others, ``agreement`` with these, and ``kappa``; None if unknown.

        Measured when first asked for.
        """
        return None if self._measure_workers is None else self._measure_workers()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: a statistic is its value, low and high; one that is undefined is None."""
        overall = {name: _plain(getattr(self, name)) for name in TITLES if getattr(self, name) is not None}
        rows = {"classes": self.classes, "workers": self.workers}
        return {
            "schema_version": 1,
            "level": self.level,
            "n_items": self.n_items,
            "n_votes": self.n_votes,
            "n_paired": self.n_paired,
            "overall": overall,
            **{
                name: None if table is None else [{key: _plain(value) for key, value in row.items()} for row in table]
                for name, table in rows.items()
            },
        }

    def to_frame(self) -> Any:
        """Return the statistics of all votes as a pandas frame, with their intervals; see also `classes`, `workers`."""
        found = {name: getattr(self, name) for name in TITLES if getattr(self, name) is not None}
        rows = {name: (float(value), value.low, value.high) for name, value in found.items()}
        return need("pandas").DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])

    def __str__(self) -> str:
        head = f"Agreement: {self.n_items} items, {self.n_votes} votes, {self.n_paired} items with at least two"
        interval = f"{100 * self.level:g}% interval"
        overall = [("", "value", interval)]
        for name, title in TITLES.items():
            statistic = getattr(self, name)
            if statistic is not None:
                overall.append((title, _number(statistic), _bounds(statistic)))
        classes = [("class", "share", "agreement", interval, "kappa", "alpha")]
        for row in self.classes[:MOST_CLASSES]:
            numbers = (_number(row["share"]), _number(row["agreement"]), _bounds(row["agreement"]))
            classes.append((_name(row["class"]), *numbers, _number(row["kappa"]), _number(row["alpha"])))
        parts = [
            head,
            _table(overall, "<><"),
            _table(classes, "<>><>>") + _more(len(self.classes), MOST_CLASSES, "classes"),
        ]
        return "\n\n".join([*parts, *self._worker_table(interval)])

    __repr__ = __str__

    def _worker_table(self, interval: str) -> list[str]:
        if not self.workers:
            return []
        rows = [("worker", "votes", "agreement", interval, "kappa")]
        shown = (
            self.workers
            if len(self.workers) <= 2 * MOST_WORKERS
            else sorted(self.workers, key=_agreement)[:MOST_WORKERS]
        )
        for row in shown:
            numbers = (_number(row["agreement"]), _bounds(row["agreement"]), _number(row["kappa"]))
            rows.append((_name(row["worker"]), str(row["votes"]), *numbers))
        rest = len(self.workers) - len(shown)
        return [_table(rows, "<>><>") + (f"\n… the {len(shown)} lowest of {len(self.workers)} workers" if rest else "")]


def _agreement(row: dict[str, Any]) -> float:
    value = float(row["agreement"])
    return math.inf if math.isnan(value) else value


def _table(rows: Sequence[tuple[str, ...]], align: str) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _more(size: int, shown: int, what: str) -> str:
    return f"\n… and {size - shown} more {what}" if size > shown else ""


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _bounds(statistic: Statistic) -> str:
    return "-" if math.isnan(statistic.low) else f"{statistic.low:.4f} to {statistic.high:.4f}"


def _name(name: object) -> str:
    text = repr(getattr(name, "item", lambda: name)())
    return text if len(text) <= WIDEST_NAME else text[: WIDEST_NAME - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, Statistic):
        return {"value": _plain(float(value)), "low": _plain(value.low), "high": _plain(value.high)}
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    plain = getattr(value, "item", lambda: str(value))()
    return plain if isinstance(plain, bool | int | float | str) else str(plain)
