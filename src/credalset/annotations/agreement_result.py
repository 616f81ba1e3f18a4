"""The result of `Annotations.agreement`: numbers with intervals, and a table of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from credalset._estimate import Estimate
from credalset._guessing import Hinting
from credalset._text import Rows, number_text, table_text
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


@dataclass(frozen=True, eq=False)
class Agreement(Hinting):
    """How much annotators agree; printed, a table. A statistic that is not defined is NaN: κ of one class only.

    Attributes
    ----------
    percent, kappa, alpha, ac1 : Estimate
        Percent agreement, Fleiss' κ, Krippendorff's α (nominal) and Gwet's AC1; numbers with ``low`` and ``high``.
    alpha_ordinal, alpha_interval, ac2 : Estimate or None
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
                           value       95% interval
    --------------------  ------  -----------------
    percent agreement     0.6667   0.0000 to 1.0000
    Fleiss' kappa         0.3333  -1.0000 to 1.0000
    Krippendorff's alpha  0.4444  -0.6667 to 1.0000
    Gwet's AC1            0.3333  -1.0000 to 1.0000
    <BLANKLINE>
    class   share  agreement      95% interval   kappa   alpha
    -----  ------  ---------  ----------------  ------  ------
    'a'    0.5000     0.6667  0.0000 to 1.0000  0.3333  0.4444
    'b'    0.5000     0.6667  0.0000 to 1.0000  0.3333  0.4444
    <BLANKLINE>
    worker  votes  agreement      95% interval   kappa
    ------  -----  ---------  ----------------  ------
    'ann'       3     0.6667  0.0000 to 1.0000  0.3333
    'bob'       3     0.6667  0.0000 to 1.0000  0.3333
    """

    _hints: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("cohen_kappa", "fleiss", "fleiss_kappa"), "It is .kappa, of Fleiss."),
        **dict.fromkeys(("krippendorff", "krippendorff_alpha"), "It is .alpha, or .alpha_ordinal for ordered classes."),
        **dict.fromkeys(("ci", "interval", "low", "high"), "Each number has its own: .alpha.low and .alpha.high."),
        **dict.fromkeys(("annotators", "per_worker", "raters"), "They are .workers."),
        "per_class": "It is .classes.",
        "summary": "Print it, or ask to_frame().",
    }

    percent: Estimate
    kappa: Estimate
    alpha: Estimate
    ac1: Estimate
    classes: Rows
    n_items: int
    n_votes: int
    n_paired: int
    level: float
    alpha_ordinal: Estimate | None = None
    alpha_interval: Estimate | None = None
    ac2: Estimate | None = None
    _measure_workers: Callable[[], Rows] | None = field(default=None, repr=False)

    @cached_property
    def workers(self) -> Rows | None:
        """Per annotator: ``votes`` on items with others, ``agreement`` with these, and ``kappa``; None if unknown.

        Measured when first asked for.
        """
        return None if self._measure_workers is None else self._measure_workers()

    def _overall(self) -> dict[str, Estimate]:
        return {name: getattr(self, name) for name in TITLES if getattr(self, name) is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: a statistic is its value, low and high; one that is undefined is None."""
        rows = {"classes": self.classes, "workers": self.workers}
        return {
            "schema_version": 1,
            "level": self.level,
            "n_items": self.n_items,
            "n_votes": self.n_votes,
            "n_paired": self.n_paired,
            "overall": {name: _plain(value) for name, value in self._overall().items()},
            **{
                name: None if table is None else [{key: _plain(value) for key, value in row.items()} for row in table]
                for name, table in rows.items()
            },
        }

    def to_frame(self) -> Any:
        """Return the statistics of all votes as a pandas frame, with their intervals; see also `classes`, `workers`."""
        rows = {name: (float(value), value.low, value.high) for name, value in self._overall().items()}
        return need("pandas").DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])

    def __str__(self) -> str:
        interval = f"{100 * self.level:g}% interval"
        overall = [[TITLES[name], *_with_bounds(value)] for name, value in self._overall().items()]
        classes = [
            [_name(row["class"]), number_text(row["share"]), *_with_bounds(row["agreement"]), *_beyond_chance(row)]
            for row in self.classes[:MOST_CLASSES]
        ]
        parts = [
            f"Agreement: {self.n_items} items, {self.n_votes} votes, {self.n_paired} items with at least two",
            table_text(["", "value", interval], overall, left=1),
            table_text(["class", "share", "agreement", interval, "kappa", "alpha"], classes, left=1),
        ]
        if len(self.classes) > MOST_CLASSES:
            parts[-1] += f"\n… and {len(self.classes) - MOST_CLASSES} more classes"
        if self.workers:
            few = len(self.workers) <= 2 * MOST_WORKERS
            shown = self.workers if few else sorted(self.workers, key=_agreement)[:MOST_WORKERS]
            workers = [
                [_name(row["worker"]), str(row["votes"]), *_with_bounds(row["agreement"]), *_beyond_chance(row)]
                for row in shown
            ]
            parts.append(table_text(["worker", "votes", "agreement", interval, "kappa"], workers, left=1))
            parts[-1] += "" if few else f"\n… the {len(shown)} lowest of {len(self.workers)} workers"
        return "\n\n".join(parts)

    __repr__ = __str__


def _agreement(row: dict[str, Any]) -> float:
    value = float(row["agreement"])
    return math.inf if math.isnan(value) else value


def _with_bounds(value: Estimate) -> tuple[str, str]:
    bounds = "-" if math.isnan(value.low) else f"{number_text(value.low)} to {number_text(value.high)}"
    return number_text(float(value)), bounds


def _beyond_chance(row: dict[str, Any]) -> list[str]:
    return [number_text(float(row[name])) for name in ("kappa", "alpha") if name in row]


def _name(name: object) -> str:
    text = repr(getattr(name, "item", lambda: name)())
    return text if len(text) <= WIDEST_NAME else text[: WIDEST_NAME - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return {"value": _plain(float(value)), "low": _plain(value.low), "high": _plain(value.high)}
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    plain = getattr(value, "item", lambda: str(value))()
    return plain if isinstance(plain, bool | int | float | str) else str(plain)
