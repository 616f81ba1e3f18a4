r"""How much annotators agree, beyond chance, with intervals over items.

Item i has $m_i$ votes, $c_{ik}$ of them for class k. A pair of votes on one item agrees if both are for the same class.

- Percent agreement: the chance that two votes on an item agree, averaged over the items with at least two votes,
  $p_a = \operatorname{mean}_i \sum_k c_{ik}(c_{ik} - 1) / (m_i (m_i - 1))$.
- Fleiss' κ and Gwet's AC1: $(p_a - p_e) / (1 - p_e)$, where chance is $\sum_k \pi_k^2$ for κ and
  $\sum_k \pi_k (1 - \pi_k) / (K - 1)$ for AC1, with $\pi_k$ the mean share of class k over the items with a vote.
  For items with unequal numbers of votes this is Gwet's generalisation; with equal numbers it is Fleiss (1971).
- Krippendorff's α: $1 - D_o / D_e$, observed over expected disagreement among the votes on items with at least two,
  every pair on an item counted with $1 / (m_i - 1)$. Nominal: any two classes differ by 1. Interval: by the squared
  distance of their positions. Ordinal: by the squared number of votes between them.
- Gwet's AC2: AC1 with quadratic weights $1 - (x_k - x_l)^2 / (x_K - x_1)^2$ on the positions.

Votes that are not there are handled as each statistic defines: an item with one vote tells nothing of agreement, but
counts in $\pi$. K is the number of classes, used or not.

References
----------
Joseph L. Fleiss. *Measuring Nominal Scale Agreement among Many Raters.* Psychological Bulletin 76, 1971.
Klaus Krippendorff. *Computing Krippendorff's Alpha-Reliability.* 2011.
Kilem L. Gwet. *Computing Inter-Rater Reliability and Its Variance in the Presence of High Agreement.* British Journal
of Mathematical and Statistical Psychology 61, 2008; *Handbook of Inter-Rater Reliability*, 4th edition, 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from credalset._estimate import Estimate
from credalset._text import Rows
from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_probability
from credalset.annotations.agreement_result import Agreement
from credalset.annotations.ballots import Ballots

if TYPE_CHECKING:
    from credalset.annotations.votes import Annotations

Statistics = dict[str, FloatArray]

# Numbers in a block of resamples: 32 MB of doubles.
BLOCK = 1 << 22
# A multinomial draw for one pattern takes about as long as drawing this many single items.
PATTERN_COST = 20


def measure_agreement(votes: Annotations, level: float, n_resamples: int, random_state: RandomState) -> Agreement:
    """Measure agreement; see `Annotations.agreement`."""
    if isinstance(level, str):
        raise TypeError(
            f"level is the confidence of the intervals, such as 0.95, but is {level!r}. For a scale of levels read the "
            "votes with ordered=True, and classes=[...] in their order: agreement() then has alpha_ordinal, too."
        )
    level = as_probability(level, "level")
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int | np.integer) or n_resamples < 0:
        raise ValueError(f"n_resamples must be a whole number of at least 0, but is {n_resamples!r}.")
    if votes._weighted:
        raise ValueError(
            "agreement compares votes that count alike, but these have weights. Count them without: leave weight out."
        )
    counts = votes.counts
    sizes = counts.sum(axis=1)
    if not (sizes >= 2).any():
        raise ValueError("agreement needs at least one item with two votes, but no item has more than one.")
    for_items, for_workers = as_generator(random_state).spawn(2)
    patterns = Patterns.group(counts[sizes > 0], votes.positions)
    values = patterns.statistics(np.bincount(patterns.item)[None, :].astype(np.float64))
    resampled = [patterns.statistics(drawn) for drawn in resample(patterns.item, n_resamples, for_items)]
    found = {
        name: _with_interval(value[0], [block[name] for block in resampled], level, len(votes))
        for name, value in values.items()
    }
    per_class = [name.removeprefix("class_") for name in found if name.startswith("class_")]
    overall = {name: statistics[0] for name, statistics in found.items() if not name.startswith("class_")}
    shares = counts.sum(axis=0) / counts.sum()
    return Agreement(
        **overall,
        classes=Rows(
            {"class": label, "share": float(shares[k]), **{name: found[f"class_{name}"][k] for name in per_class}}
            for k, label in enumerate(votes.classes)
        ),
        n_items=len(votes),
        n_votes=int(sizes.sum()),
        n_paired=int((sizes >= 2).sum()),
        level=level,
        _measure_workers=None
        if votes._ballots is None
        else partial(per_worker, votes._ballots, counts, level, int(n_resamples), for_workers),
    )


def _with_interval(value: FloatArray, resampled: list[FloatArray], level: float, n: int) -> list[Estimate]:
    """Return the statistic, one per class where there are several, with percentiles over the resamples.

    Resamples in which a statistic is undefined do not count.
    """
    values = np.atleast_1d(value)
    drawn = np.concatenate(resampled or [np.empty(0)]).reshape(-1, len(values))
    found = []
    for x, column in zip(values, drawn.T, strict=True):
        known = column[~np.isnan(column)]
        low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else (np.nan, np.nan)
        found.append(Estimate(x, low, high, n))
    return found


@dataclass(frozen=True)
class Patterns:
    """Items grouped by their counts: with few votes there are few patterns, however many items.

    Statistics are sums over items, so resampling items is resampling the frequencies of patterns.
    """

    counts: FloatArray  # (U, K), every row with at least one vote
    item: IntArray  # (n,) pattern of each item
    positions: tuple[float, ...] | None

    @classmethod
    def group(cls, counts: IntArray, positions: tuple[float, ...] | None) -> Patterns:
        """Group the items."""
        # Equal rows have equal products with a random vector; unequal ones almost never do, which is checked.
        key = counts @ np.random.default_rng(0).integers(2**62, size=counts.shape[1])
        _, first, item = np.unique(key, return_index=True, return_inverse=True)
        if not np.array_equal(counts[first][item], counts):
            _, first, item = np.unique(counts, axis=0, return_index=True, return_inverse=True)
        item = item.reshape(-1)  # NumPy 2.0 gives it two axes
        return cls(counts[first].astype(np.float64), item, positions)

    def statistics(self, weight: FloatArray) -> Statistics:
        """Compute every statistic for B weightings (B, U) of the patterns; those per class have shape (B, K)."""
        c, n_classes = self.counts, self.counts.shape[1]
        m = c.sum(axis=1)
        paired = m >= 2
        more = np.where(paired, m - 1, 1.0)  # votes that each vote of an item meets
        same = np.where(paired, ((c * c).sum(axis=1) - m) / more, 0.0)  # agreeing votes, each with 1 / (m - 1)
        apart = np.where(paired[:, None], c * (m[:, None] - c) / more[:, None], 0.0)  # votes for k that meet others
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
                "alpha": 1 - (total - weight @ same) * (total - 1) / (total**2 - (votes**2).sum(axis=1)),
                "ac1": _beyond(observed, (share * (1 - share)).sum(axis=1) / (n_classes - 1)),
                "class_agreement": 1 - unequal / votes,
                "class_kappa": 1 - class_pairs / (2 * share * (1 - share)),
                "class_alpha": 1 - (total[:, None] - 1) * unequal / (votes * (total[:, None] - votes)),
            }
            if self.positions is not None:
                found |= self._on_scale(weight, np.array(self.positions), share, votes, pairs)
        return found

    def _on_scale(
        self, weight: FloatArray, x: FloatArray, share: FloatArray, votes: FloatArray, pairs: FloatArray
    ) -> Statistics:
        """Compute the statistics that know how far classes are apart."""
        # Statistics do not change with origin and unit; numbers around one half keep their digits.
        x = (x - x.min()) / (x.max() - x.min())
        middle = (np.cumsum(votes, axis=1) - votes / 2) / votes.sum(axis=1, keepdims=True)  # mean rank of each level
        m = self.counts.sum(axis=1)
        spread = self._spread(x[None, :])
        agreed = 1 - (weight @ (spread[0] / m)) / pairs
        quadratic = 1 - (x[:, None] - x) ** 2
        chance = quadratic.sum() / (len(x) * (len(x) - 1)) * (share * (1 - share)).sum(axis=1)
        return {
            "alpha_ordinal": _scaled_alpha((weight * self._spread(middle)).sum(axis=1), votes, middle),
            "alpha_interval": _scaled_alpha(weight @ spread[0], votes, np.broadcast_to(x, votes.shape)),
            "ac2": _beyond(agreed, chance),
        }

    def _spread(self, x: FloatArray) -> FloatArray:
        """Sum squared distances over ordered pairs of votes, divided by m − 1: (B, U) for positions (B, K)."""
        m = self.counts.sum(axis=1)
        squares = m * (x**2 @ self.counts.T) - (x @ self.counts.T) ** 2
        return np.where(m >= 2, 2 * squares / np.where(m >= 2, m - 1, 1.0), 0.0)


def _beyond(observed: FloatArray, chance: FloatArray) -> FloatArray:
    return (observed - chance) / (1 - chance)


def _scaled_alpha(observed: FloatArray, votes: FloatArray, x: FloatArray) -> FloatArray:
    total = votes.sum(axis=1)
    expected = 2 * (total * (votes * x**2).sum(axis=1) - (votes * x).sum(axis=1) ** 2)
    varied = (votes > 0).sum(axis=1) > 1  # votes for one class only do not differ, whatever rounding says
    return np.where(varied, 1 - (total - 1) * observed / expected, np.nan)


def per_worker(ballots: Ballots, counts: IntArray, level: float, n_resamples: int, random: np.random.Generator) -> Rows:
    """Compare each annotator with the others on the same items.

    Agreement is the share of the others' votes that are the annotator's, averaged over the annotator's items, which are
    what the interval resamples. κ corrects it for chance: for how often the annotator's own use of the classes would
    meet the votes of all.
    """
    m = counts.sum(axis=1)
    item, size = ballots.item, len(ballots.workers)
    met = np.flatnonzero(m[item] >= 2)
    met = met[np.argsort(ballots.worker[met], kind="stable")]
    item, label, worker = item[met], ballots.label[met], ballots.worker[met]
    agreed = (counts[item, label] - 1) / (m[item] - 1)
    votes = np.bincount(worker, minlength=size)
    everyone = counts[m >= 2].sum(axis=0)
    use = np.bincount(worker.astype(np.int64) * len(everyone) + label, minlength=size * len(everyone)).reshape(size, -1)
    rows, seed = Rows(), int(random.integers(2**63))  # each draws from the same stream: their order must not matter
    for name, own, used in zip(ballots.workers, np.split(agreed, np.cumsum(votes)[:-1]), use, strict=True):
        own = np.sort(own)  # as must that of their items
        value = own.mean() if len(own) else np.nan
        chance = used @ everyone / (len(own) * everyone.sum()) if len(own) else np.nan
        distinct, pattern = np.unique(own, return_inverse=True)
        stream = np.random.default_rng(seed)
        drawn = [weight @ distinct / len(own) for weight in resample(pattern, n_resamples, stream)] if len(own) else []
        rows.append(
            {
                "worker": name,
                "votes": len(own),
                "agreement": _with_interval(np.array(value), drawn, level, len(own))[0],
                "kappa": float((value - chance) / (1 - chance)) if chance < 1 else np.nan,
            }
        )
    return rows


def resample(pattern: IntArray, n_resamples: int, random: np.random.Generator) -> Iterator[FloatArray]:
    """Draw as many items as there are, with replacement; yield blocks of frequencies (B, U) of their patterns."""
    pattern = np.sort(pattern)  # the order of the items must not matter
    frequency = np.bincount(pattern)
    n, size = len(pattern), len(frequency)
    few = size * PATTERN_COST < n
    block = max(1, BLOCK // (size if few else n))
    for done in range(0, n_resamples, block):
        rows = min(block, n_resamples - done)
        if few:
            drawn = random.multinomial(n, frequency / n, size=rows)
        else:
            chosen = pattern[random.integers(n, size=(rows, n), dtype=np.int32)] + np.arange(rows)[:, None] * size
            drawn = np.bincount(chosen.ravel(), minlength=rows * size).reshape(rows, size)
        yield drawn.astype(np.float64)
