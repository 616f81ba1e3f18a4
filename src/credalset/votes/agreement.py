r"""Agreement of annotators beyond chance, with confidence intervals over items.

Item i has $m_i$ votes, $c_{ik}$ of them for class k. Two votes on an item agree if both are for the
same class.

- Percent agreement: the probability that two votes on an item agree, averaged over the items with
  at least two votes, $p_a = \operatorname{mean}_i \sum_k c_{ik}(c_{ik} - 1) / (m_i (m_i - 1))$.
- Fleiss' κ and Gwet's AC1: $(p_a - p_e) / (1 - p_e)$, where the chance agreement $p_e$ is $\sum_k
  \pi_k^2$ for κ and $\sum_k \pi_k (1 - \pi_k) / (K - 1)$ for AC1, with $\pi_k$ the mean share of
  class k over the items with a vote. For items with unequal numbers of votes this is Gwet's
  generalisation; with equal numbers it is Fleiss (1971).
- Krippendorff's α: $1 - D_o / D_e$, observed over expected disagreement among the votes on items
  with at least two votes, where every pair of votes on an item has the weight $1 / (m_i - 1)$. For
  nominal classes, the disagreement of two different classes is 1; for ordinal classes, it is the
  squared number of votes between them.

An item with one vote contributes to $\pi$ only. K is the number of classes, including those without
votes.

References
----------
Joseph L. Fleiss. *Measuring Nominal Scale Agreement among Many Raters.* Psychological Bulletin 76,
1971. Klaus Krippendorff. *Computing Krippendorff's Alpha-Reliability.* 2011. Kilem L. Gwet.
*Computing Inter-Rater Reliability and Its Variance in the Presence of High Agreement.* British
Journal of Mathematical and Statistical Psychology 61, 2008; *Handbook of Inter-Rater Reliability*,
4th edition, 2014.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._display import Estimate, Rows, number_text, plural, table_text
from credalset._html import MOST_ROWS, html_table
from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_probability
from credalset.exceptions import need

__all__ = ["Agreement", "measure_agreement", "per_worker", "resample", "statistics"]

if TYPE_CHECKING:
    from credalset.votes.annotations import Annotations

TITLES = {
    "percent": "percent agreement",
    "kappa": "Fleiss' kappa",
    "alpha": "Krippendorff's alpha",
    "alpha_ordinal": "Krippendorff's alpha, ordinal",
    "ac1": "Gwet's AC1",
}
MAX_CLASSES = 12  # rows of the printed tables
MAX_WORKERS = 10
BLOCK = 1 << 22  # numbers in a block of resamples: 32 MB of doubles


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of annotators, which prints as a table.

    Undefined statistics, such as κ of a single class, are NaN.

    Attributes
    ----------
    percent : Estimate
        Percent agreement.
    kappa : Estimate
        Fleiss' κ.
    alpha : Estimate
        Krippendorff's α for nominal classes.
    ac1 : Estimate
        Gwet's AC1.
    alpha_ordinal : Estimate or None
        Krippendorff's α for ordinal classes, if the votes have a scale.
    classes : list of dict
        One row per class: its ``share`` of all votes; ``agreement``, the probability that a second
        vote is for the class given that the first is; ``kappa`` and ``alpha`` of the class against
        all others. The list prints as a table.
    n_items : int
        Number of items.
    n_votes : int
        Number of votes.
    n_paired : int
        Number of items with at least two votes.
    level : float
        Confidence level of the intervals.

    Examples
    --------
    >>> from credalset import Annotations
    >>> rows = [(1, "ann", "a"), (1, "bob", "a"), (2, "ann", "b"), (2, "bob", "b"),
    ...         (3, "ann", "a"), (3, "bob", "b")]
    >>> print(Annotations.from_table(rows).agreement(n_resamples=0))
    Agreement: 3 items, 6 votes, 3 items with at least two
    <BLANKLINE>
                           value  95% interval
    --------------------  ------  ------------
    percent agreement     0.6667             -
    Fleiss' kappa         0.3333             -
    Krippendorff's alpha  0.4444             -
    Gwet's AC1            0.3333             -
    <BLANKLINE>
    class   share  agreement  95% interval   kappa   alpha
    -----  ------  ---------  ------------  ------  ------
    'a'    0.5000     0.6667             -  0.3333  0.4444
    'b'    0.5000     0.6667             -  0.3333  0.4444
    <BLANKLINE>
    worker  votes  agreement  95% interval   kappa
    ------  -----  ---------  ------------  ------
    'ann'       3     0.6667             -  0.3333
    'bob'       3     0.6667             -  0.3333
    """

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
    _measure_workers: Callable[[], Rows] | None = field(default=None, repr=False)

    @cached_property
    def workers(self) -> Rows | None:
        """One row per annotator.

        ``votes`` on items with at least two, ``agreement`` with the others, and ``kappa``.

        It is None if the annotators are not known.
        """
        return None if self._measure_workers is None else self._measure_workers()

    @property
    def overall(self) -> dict[str, Estimate]:
        """Statistics of all votes, by name."""
        return {name: getattr(self, name) for name in TITLES if getattr(self, name) is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: value, low and high of each statistic, None if undefined.

        Returns
        -------
        dict
        """
        tables = {"classes": self.classes, "workers": self.workers}
        plain = {
            name: None if rows is None else [_plain(row) for row in rows]
            for name, rows in tables.items()
        }
        sizes = {name: getattr(self, name) for name in ("level", "n_items", "n_votes", "n_paired")}
        return {"schema_version": 1, **sizes, "overall": _plain(self.overall), **plain}

    def to_frame(self) -> Any:
        """Return the statistics of all votes, with their intervals, as a pandas data frame.

        Returns
        -------
        pandas data frame
            One row per statistic, with the columns ``value``, ``low`` and ``high``.
        """
        rows = {name: (float(value), value.low, value.high) for name, value in self.overall.items()}
        return need("pandas").DataFrame.from_dict(
            rows, orient="index", columns=["value", "low", "high"]
        )

    def __str__(self) -> str:
        interval = f"{100 * self.level:g}% interval"
        overall = [[TITLES[name], *_with_bounds(value)] for name, value in self.overall.items()]
        parts = [
            f"Agreement: {plural(self.n_items, 'item')}, {plural(self.n_votes, 'vote')}, "
            f"{plural(self.n_paired, 'item')} with at least two",
            table_text(["", "value", interval], overall, left=1),
            _table("class", self.classes[:MAX_CLASSES], interval, len(self.classes) - MAX_CLASSES),
        ]
        if self.workers and len(self.workers) > MAX_WORKERS:
            lowest = sorted(self.workers, key=_lowest_first)[:MAX_WORKERS]
            shown = _table("worker", lowest, interval, 0)
            parts.append(f"{shown}\n… the {MAX_WORKERS} lowest of {len(self.workers)} workers")
        elif self.workers:
            parts.append(_table("worker", self.workers, interval, 0))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        """Return tables of the statistics, of the classes and of the first workers."""
        size = f"{plural(self.n_items, 'item')}, {plural(self.n_votes, 'vote')}"
        title = f"Agreement: {size}, {plural(self.n_paired, 'item')} with at least two"
        overall = [[TITLES[name], *_with_bounds(value)] for name, value in self.overall.items()]
        parts = [html_table(title, ["", "value", f"{100 * self.level:g}% interval"], overall)]
        for name, found in (("classes", self.classes), ("workers", self.workers)):
            if found:
                headings = list(found[0])
                rows = [[_text(row[key]) for key in headings] for row in found[:MOST_ROWS]]
                parts.append(html_table(name, headings, rows, n_rows=len(found)))
        return "\n".join(parts)

    __repr__ = __str__


def _lowest_first(row: dict[str, Any]) -> tuple[bool, float]:
    """Order rows by agreement; those without one come last."""
    return math.isnan(row["agreement"]), row["agreement"]


def _table(what: str, rows: list[dict[str, Any]], interval: str, more: int) -> str:
    second = "share" if what == "class" else "votes"
    after = [name for name in ("kappa", "alpha") if rows and name in rows[0]]
    cells = [
        [f"{row[what]!r:.24}", number_text(row[second]), *_with_bounds(row["agreement"])]
        + [number_text(float(row[name])) for name in after]
        for row in rows
    ]
    text = table_text([what, second, "agreement", interval, *after], cells, left=1)
    return text + (f"\n… and {more} more" if more > 0 else "")


def _with_bounds(value: Estimate) -> tuple[str, str]:
    bounds = (
        "-" if math.isnan(value.low) else f"{number_text(value.low)} to {number_text(value.high)}"
    )
    return number_text(float(value)), bounds


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Estimate):
        return {
            name: _plain(one)
            for name, one in (("value", float(value)), ("low", value.low), ("high", value.high))
        }
    if isinstance(value, float) and math.isnan(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def measure_agreement(
    votes: Annotations, level: float, n_resamples: int, random_state: RandomState
) -> Agreement:
    """Measure agreement; see `Annotations.agreement`."""
    level = as_probability(level, "level")
    if (
        isinstance(n_resamples, bool)
        or not isinstance(n_resamples, int | np.integer)
        or n_resamples < 0
    ):
        raise ValueError(
            f"n_resamples must be a whole number of at least 0, but is {n_resamples!r}."
        )
    counts = votes.counts
    sizes = votes.n_votes
    if not (sizes >= 2).any():
        raise ValueError(
            "votes must have at least one item with two votes, but no item has more than one."
        )
    for_items, for_workers = as_generator(random_state).spawn(2)
    # With few votes per item there are few patterns of counts, however many items.
    patterns, frequency = np.unique(counts[sizes > 0], axis=0, return_counts=True)
    order = None if votes.scale is None else np.argsort(votes.scale)
    values = statistics(patterns, frequency[None, :].astype(np.float64), order)
    drawn = [
        statistics(patterns, weight, order)
        for weight in resample(frequency, n_resamples, for_items)
    ]
    found = {
        name: _estimates(v[0], [block[name] for block in drawn], level, len(votes))
        for name, v in values.items()
    }
    per_class = [name for name in found if name.startswith("class_")]
    shares = counts.sum(axis=0) / counts.sum()
    classes = Rows()
    for k, label in enumerate(votes.classes or range(votes.n_classes)):
        row = {name.removeprefix("class_"): found[name][k] for name in per_class}
        classes.append({"class": label, "share": float(shares[k]), **row})
    workers = None
    if votes.ballots is not None and votes.workers is not None:
        seed = int(for_workers.integers(2**63))
        workers = partial(per_worker, votes, level, int(n_resamples), seed)
    return Agreement(
        **{name: estimates[0] for name, estimates in found.items() if name not in per_class},
        classes=classes,
        n_items=len(votes),
        n_votes=int(sizes.sum()),
        n_paired=int((sizes >= 2).sum()),
        level=level,
        _measure_workers=workers,
    )


def _estimates(value: FloatArray, drawn: list[FloatArray], level: float, n: int) -> list[Estimate]:
    """Return statistics with percentiles over the resamples in which they are defined."""
    values = np.atleast_1d(value)
    resampled = np.concatenate(drawn or [np.empty(0)]).reshape(-1, len(values))
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = []
    for x, column in zip(values, resampled.T, strict=True):
        known = column[~np.isnan(column)]
        low, high = np.quantile(known, tails) if len(known) else (np.nan, np.nan)
        found.append(Estimate(x, low, high, n))
    return found


def statistics(
    counts: IntArray, weight: FloatArray, order: IntArray | None
) -> dict[str, FloatArray]:
    """Compute every statistic for B weightings (B, U) of U patterns of counts.

    Those per class have shape (B, K).
    """
    c = counts.astype(np.float64)
    n_classes = counts.shape[1]
    m = c.sum(axis=1)
    paired = m >= 2
    more = np.where(paired, m - 1, 1.0)  # other votes on the item
    # agreeing pairs, each with the weight 1 / (m - 1)
    same = np.where(paired, ((c * c).sum(axis=1) - m) / more, 0.0)
    # pairs of a vote for class k and one for another class
    apart = np.where(paired[:, None], c * (m[:, None] - c) / more[:, None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = weight @ paired
        share = (weight @ (c / m[:, None])) / weight.sum(axis=1, keepdims=True)
        observed = weight @ (same / m) / pairs
        votes = weight @ (c * paired[:, None])
        total = votes.sum(axis=1)
        unequal = weight @ apart
        class_pairs = 2 * (weight @ (apart / m[:, None])) / pairs[:, None]
        found = {
            "percent": observed,
            "kappa": _beyond(observed, (share**2).sum(axis=1)),
            "alpha": 1
            - (total - weight @ same) * (total - 1) / (total**2 - (votes**2).sum(axis=1)),
            "ac1": _beyond(observed, (share * (1 - share)).sum(axis=1) / (n_classes - 1)),
            "class_agreement": 1 - unequal / votes,
            "class_kappa": 1 - class_pairs / (2 * share * (1 - share)),
            "class_alpha": 1 - (total[:, None] - 1) * unequal / (votes * (total[:, None] - votes)),
        }
        if order is not None:
            found["alpha_ordinal"] = _ordinal_alpha(c[:, order], weight, votes[:, order])
    return found


def _beyond(observed: FloatArray, chance: FloatArray) -> FloatArray:
    return (observed - chance) / (1 - chance)


def _ordinal_alpha(c: FloatArray, weight: FloatArray, votes: FloatArray) -> FloatArray:
    """Krippendorff's α with squared distances of mean ranks, for columns in scale order."""
    total = votes.sum(axis=1)
    m = c.sum(axis=1)
    rank = (np.cumsum(votes, axis=1) - votes / 2) / total[:, None]
    squares = m * (rank**2 @ c.T) - (rank @ c.T) ** 2  # over pairs of votes on an item, (B, U)
    more = np.where(m >= 2, m - 1, 1.0)
    observed = (weight * np.where(m >= 2, 2 * squares / more, 0.0)).sum(axis=1)
    expected = 2 * (total * (votes * rank**2).sum(axis=1) - (votes * rank).sum(axis=1) ** 2)
    varied = (votes > 0).sum(axis=1) > 1  # α is undefined for votes for a single class
    return np.where(varied, 1 - (total - 1) * observed / expected, np.nan)


def per_worker(votes: Annotations, level: float, n_resamples: int, seed: int) -> Rows:
    """Compare each annotator with the others on the same items.

    Agreement is the share of the others' votes that equal the annotator's, averaged over the
    annotator's items, which the interval resamples. κ corrects it for chance, that is for the
    agreement of the annotator's distribution of classes with that of all votes.
    """
    assert votes.ballots is not None
    m = votes.n_votes
    codes = votes.ballots.codes[m[votes.ballots.codes[:, 0]] >= 2]
    item, worker, label = codes[np.argsort(codes[:, 1], kind="stable")].T
    agreed = (votes.counts[item, label] - 1) / (m[item] - 1)
    everyone = votes.counts[m >= 2].sum(axis=0)
    names = votes.workers or ()
    start = np.searchsorted(worker, np.arange(len(names) + 1))
    rows = Rows()
    for name, first, last in zip(names, start[:-1], start[1:], strict=True):
        mine = slice(first, last)
        n = int(last - first)
        if n == 0:
            nothing = Estimate(np.nan, np.nan, np.nan, 0)
            rows.append({"worker": name, "votes": 0, "agreement": nothing, "kappa": np.nan})
            continue
        # The votes of a worker share few values, so that resamples are drawn by value.
        distinct, frequency = np.unique(agreed[mine], return_counts=True)
        # The same numbers for each worker, so that their order does not matter.
        random = np.random.default_rng(seed)
        drawn = [weight @ distinct / n for weight in resample(frequency, n_resamples, random)]
        value = distinct @ frequency / n
        chance = everyone[label[mine]].sum() / (n * everyone.sum())
        kappa = float((value - chance) / (1 - chance)) if chance < 1 else np.nan
        agreement = _estimates(np.array(value), drawn, level, n)[0]
        rows.append({"worker": name, "votes": n, "agreement": agreement, "kappa": kappa})
    return rows


def resample(
    frequency: IntArray, n_resamples: int, random: np.random.Generator
) -> Iterator[FloatArray]:
    """Draw as many items as there are, with replacement; yield pattern frequencies (B, U)."""
    n = int(frequency.sum())
    share = frequency / n
    block = max(1, BLOCK // len(frequency))
    for done in range(0, n_resamples, block):
        size = min(block, n_resamples - done)
        yield random.multinomial(n, share, size=size).astype(np.float64)


def _text(value: Any) -> str:
    return number_text(float(value)) if isinstance(value, float) else str(value)
