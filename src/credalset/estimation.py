"""Averages over items from many predictions and few votes: prediction-powered inference.

The predictions say what the average would be if they were right; the items with votes say how wrong
they are on average. The items are the units: votes on one item are averaged first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import stats

from credalset._batch import Batch, Names, read
from credalset._display import join_names, plural, table_text
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import as_distributions, as_numbers, as_probability, check_choice

__all__ = ["Estimated", "estimate"]

SMALLEST_SAMPLE = 5  # items with votes, in each stratum or group
NOTHING = 1e-9  # standard errors below are rounding errors


@dataclass(frozen=True, eq=False, repr=False)
class Estimated:
    r"""Estimated averages with confidence intervals.

    Attributes
    ----------
    names : tuple
        What is estimated: the share of each class, then the mean if classes have values.
    value, lower, upper : ndarray of shape (R,)
        Estimates and bounds of the intervals; shares of classes lie in [0, 1].
    error : ndarray of shape (R,)
        Standard errors.
    votes_alone : ndarray of shape (R,)
        Estimates from the votes alone.
    error_alone : ndarray of shape (R,)
        Their standard errors.
    power : ndarray of shape (R,)
        The factor λ in [0, 1] by which predictions count: 0 where they do not help.
    level : float
        Confidence level of each interval.
    n_items : int
        Number of items with predictions, with or without votes.
    n_voted : int
        Number of items with votes.
    n_votes : float or None
        Number of votes; None if only distributions are known.
    population : str
        ``"like"`` or ``"these"``.
    groups : dict
        The same for each group.
    """

    names: Names
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    error: FloatArray
    votes_alone: FloatArray
    error_alone: FloatArray
    power: FloatArray
    level: float
    n_items: int
    n_voted: int
    n_votes: float | None
    population: str
    groups: dict[Any, Estimated]
    _spread: FloatArray  # (R, 3): variance of residuals, within items, of the predictions' mean

    @property
    def gain(self) -> FloatArray:
        """Share of further votes that the predictions replace: 0.5 is half as many votes again."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.error > NOTHING, (self.error_alone / self.error) ** 2 - 1.0, 0.0)

    def items_for(self, width: float, votes_per_item: int = 1) -> FloatArray:
        r"""Return how many items need votes for intervals of a width, for each estimate.

        It is $n = (S^2_\text{between} + s^2_\text{within} / m) / ((w / 2z)^2 - \lambda^2
        \operatorname{Var} f / N)$ for m votes an item and as many predictions as now; infinite
        where no number of votes is enough.

        Parameters
        ----------
        width : float
            Width w of the interval.
        votes_per_item : int
            Votes on each of these items. The votes in hand must include items with two votes if it
            differs from theirs.

        Returns
        -------
        ndarray of shape (R,)
        """
        z = float(stats.norm.ppf(0.5 + self.level / 2))
        variance, within, of_mean = self._spread.T
        per_item = (self.n_votes or self.n_voted) / self.n_voted
        if votes_per_item != round(per_item) and np.isnan(within).any():
            raise ValueError(
                f"votes_per_item is {votes_per_item}, but all items have one vote, which does not "
                "tell how much votes on an item differ. Use 1, or collect two votes on some items."
            )
        between = variance - np.nan_to_num(within) / per_item
        needed = np.maximum(between, 0.0) + np.nan_to_num(within) / votes_per_item
        if np.isnan(within).any():
            needed = variance
        left = (width / (2 * z)) ** 2 - of_mean
        with np.errstate(divide="ignore"):
            return np.where(left > 0, np.ceil(needed / np.where(left > 0, left, 1.0)), np.inf)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per estimate, those of groups last."""
        fields = ("value", "lower", "upper", "error", "votes_alone", "gain", "power")
        found = []
        for group, one in [(None, self), *self.groups.items()]:
            columns = {name: getattr(one, name).tolist() for name in fields}
            for row, name in enumerate(one.names):
                known = {} if not self.groups else {"group": group}
                values = {field: column[row] for field, column in columns.items()}
                found.append({"estimate": name, **known, **values, "n_voted": one.n_voted})
        return found

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        which = "these items" if self.population == "these" else "items like these"
        votes = "" if self.n_votes is None else f", {self.n_votes:.0f} votes"
        head = (
            f"Averages over {which}: {plural(self.n_items, 'prediction')}, "
            f"{self.n_voted} items with votes{votes}"
        )
        cells = []
        for row in self.rows():
            cell = {"estimate": str(row["estimate"])}
            if self.groups:
                cell["group"] = "all" if row["group"] is None else str(row["group"])
            cell |= {
                "value": f"{row['value']:.3f}",
                f"{self.level:.0%} interval": f"{row['lower']:.3f} to {row['upper']:.3f}",
                "votes alone": f"{row['votes_alone']:.3f}",
                "gain in votes": f"{row['gain']:.0%}",
                "items": str(row["n_voted"]),
            }
            cells.append(cell)
        headings = list(cells[0])
        texts = [list(cell.values()) for cell in cells]
        return f"{head}\n{table_text(headings, texts, left=1 + bool(self.groups))}"

    def __repr__(self) -> str:
        values = ", ".join(f"{n}: {v:.3f}" for n, v in zip(self.names, self.value, strict=True))
        return f"Estimated({values}; {self.n_voted} of {self.n_items} items with votes)"


def estimate(
    predictions: Any,
    votes: Any,
    level: float = 0.95,
    *,
    population: Literal["like", "these"] = "like",
    values: Any = None,
    groups: Any = None,
    strata: Any = None,
    clusters: Any = None,
    weights: Any = None,
    minus: tuple[Any, Any] | None = None,
) -> Estimated:
    r"""Estimate the average votes over items, from predictions on all and votes on some of them.

    The share of a class among the votes of the n items with votes, v̄, is corrected by the
    predictions f of N further items, each class k with a power $\lambda_k$ of its own:

    $$\hat\theta = \bar v + \lambda (\bar f_U - \bar f_L), \qquad
      \widehat{\operatorname{Var}} = \lambda^2 \frac{\operatorname{Var} f_U}{N} +
      \frac{\operatorname{Var}(v - \lambda f_L)}{n}.$$

    λ minimises this variance, within [0, 1], so that predictions which do not help do no harm. The
    estimate is right on average whatever the predictions are, if the items with votes are a random
    sample, and if no vote was used to make the prediction of its own item: pass ``pool.oof_`` of a
    `JudgePool`, not its ``predict_proba``.

    Parameters
    ----------
    predictions : array or data frame of shape (M, K)
        Predicted distributions of all items.
    votes : array or data frame of shape (M, K), or Annotations
        Votes on some of the items: rows of zeros, or items that are not named, have none.
    level : float
        Confidence level of each interval.
    population : {"like", "these"}
        Whether the averages are over all items of which these are a random sample, or over the
        items with predictions themselves, whose number is then known. The latter intervals are
        narrower if a good part of the items has two or more votes each.
    values : sequence of K numbers, series or dict, optional
        Value of each class, such as its rating. The mean value is then estimated, too.
    groups : sequence of M keys, optional
        Groups of items, each of which is also estimated alone.
    strata : sequence of M keys, optional
        Groups within each of which the items with votes were drawn at random, at any rate.
    clusters : sequence of M keys, optional
        Items that belong together, such as those of one document. The clusters are then the units
        whose number makes intervals narrow.
    weights : sequence of M numbers, optional
        One over the probability with which each item was chosen to get votes, if these differ.
    minus : tuple of predictions and votes, optional
        Predictions and votes of another system on the same items: the differences are estimated,
        paired by item.

    Returns
    -------
    Estimated
        Arrays ``value``, ``lower``, ``upper`` per class, and the mean; prints as a table.

    Notes
    -----
    Intervals of shares are Wilson's, with the number of votes that would give the same standard
    error, because shares near 0 and 1 are skew; those of means and differences are symmetric. Both
    use quantiles of Student's t. Where the votes on an item resemble each other, intervals of rare
    shares are a little short: a share of 0.03 was covered in 92.3 to 93 % of 1 000 simulations with
    200 items of three votes, for ``population="like"``.

    For ``population="these"``, with m votes an item, the variance is $(1 - n/M) s_e^2 / n +
    s_\text{within}^2 / (m M)$, where e = v − λf; with one vote an item the first factor is left
    out.

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan, Zrnic, "Prediction-powered inference", Science 2023;
    Angelopoulos, Duchi, Zrnic, "PPI++: Efficient prediction-powered inference", 2023; Zrnic and
    Candès, "Cross-prediction-powered inference", PNAS 2024.

    Examples
    --------
    >>> import credalset as cs
    >>> panel = cs.datasets.make_judge_panel(2000, n_votes=1, random_state=0)
    >>> votes = panel.counts * 1
    >>> votes[300:] = 0  # people vote on 300 items only
    >>> print(cs.estimate(panel.prediction, votes))
    Averages over items like these: 2000 predictions, 300 items with votes, 300 votes
    estimate  value    95% interval  votes alone  gain in votes  items
    --------  -----  --------------  -----------  -------------  -----
    0         0.329  0.285 to 0.376        0.323            37%    300
    1         0.306  0.262 to 0.353        0.303            32%    300
    2         0.366  0.320 to 0.414        0.373            38%    300
    """
    as_probability(level, "level")
    check_choice(population, "population", ("like", "these"))
    batch, prediction, share, counts = _read_pair(predictions, votes, "")
    classes = batch.classes or tuple(range(batch.n_classes))
    is_voted = ~np.isnan(share[:, 0])
    if minus is not None:
        share, prediction, is_voted = _subtract(batch, minus, share, prediction, is_voted)
    number = _read_values(batch, values)
    names: Names = (*classes, "mean") if number is not None else classes
    if number is not None:
        share = np.column_stack([share, share @ number])
        prediction = np.column_stack([prediction, prediction @ number])
    sample = _Sample(
        share,
        prediction,
        is_voted,
        None if counts is None or minus is not None else counts,
        number,
        _keys(batch, strata, "strata"),
        _keys(batch, clusters, "clusters"),
        _read_weights(batch, weights, is_voted),
    )
    is_share = np.array([minus is None and name < len(classes) for name in range(len(names))])
    found = _estimate(sample, names, is_share, level, population)
    parts = {}
    if groups is not None:
        column = batch.keys(groups, "groups")
        for key in dict.fromkeys(column):
            rows = np.flatnonzero([each == key for each in column])
            part = sample.take(rows)
            if part.is_voted.sum() < SMALLEST_SAMPLE:
                raise ValueError(
                    f"groups: {key!r} has votes on {plural(int(part.is_voted.sum()), 'item')}, "
                    f"but at least {SMALLEST_SAMPLE} are needed. Merge small groups, or collect "
                    "votes there."
                )
            parts[key] = _estimate(part, names, is_share, level, population)
    object.__setattr__(found, "groups", parts)
    return found


# --- reading ---


def _read_pair(
    predictions: Any, votes: Any, more: str, classes: Names | None = None
) -> tuple[Batch, FloatArray, FloatArray, FloatArray | None]:
    """Return the batch, predictions, shares of votes (NaN without) and counts."""
    batch = read(predictions, classes, name=f"predictions{more}")
    prediction = as_distributions(batch.values, batch.name)
    found = batch.votes(votes, f"votes{more}", partial=True)
    return batch, prediction, found.distributions, found.counts


def _subtract(
    batch: Batch,
    minus: Any,
    share: FloatArray,
    prediction: FloatArray,
    is_voted: AnyArray,
) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Return the differences of two systems on the same items."""
    if not isinstance(minus, tuple) or len(minus) != 2:
        raise TypeError("minus must be a tuple of predictions and votes of the other system.")
    other, theirs, their_share, _ = _read_pair(*minus, " of minus", batch.classes)
    if other.items != batch.items:
        rows = None if other.items is None else batch.per_item(range(len(batch)), "predictions")
        position = {item: row for row, item in enumerate(other.items or ())}
        missing = [item for item in batch.items or () if item not in position]
        if rows is None or batch.items is None or missing:
            raise ValueError(
                "minus must hold predictions for the same items, named alike"
                + (f"; it has no {join_names(missing)}." if missing else ".")
            )
        order = [position[item] for item in batch.items]
        theirs = theirs[order]
        their_share = their_share[order]
    if len(theirs) != len(prediction):
        raise ValueError(
            f"minus has {len(theirs)} items, but predictions has {len(prediction)}. Pass the same."
        )
    both = is_voted & ~np.isnan(their_share[:, 0])
    return share - their_share, prediction - theirs, both


def _read_values(batch: Batch, values: Any) -> FloatArray | None:
    if values is None:
        return None
    if isinstance(values, dict):
        known = batch.classes or tuple(range(batch.n_classes))
        missing = [name for name in known if name not in values]
        if missing:
            raise ValueError(f"values has no {join_names(missing)}. Give every class a number.")
        values = [values[name] for name in known]
        number = as_numbers(values, "values")
    else:
        number = batch.per_class(values, "values")
    if number.shape != (batch.n_classes,) or not np.isfinite(number).all():
        raise ValueError(
            f"values must hold one finite number for each of the {batch.n_classes} classes."
        )
    return number


def _keys(batch: Batch, keys: Any, name: str) -> IntArray | None:
    """Return a number for each key."""
    if keys is None:
        return None
    numbers: dict[Any, int] = {}
    column = batch.keys(keys, name)
    return np.array([numbers.setdefault(key, len(numbers)) for key in column], dtype=np.int64)


def _read_weights(batch: Batch, weights: Any, is_voted: AnyArray) -> FloatArray | None:
    if weights is None:
        return None
    found = as_numbers(batch.per_item(weights, "weights"), "weights")
    if found.shape != (len(batch),):
        raise ValueError(f"weights must hold one number for each of the {len(batch)} items.")
    if not (np.isfinite(found[is_voted]) & (found[is_voted] > 0)).all():
        raise ValueError(
            "weights must be positive and finite where items have votes. Pass one over the "
            "probability with which an item was chosen."
        )
    return found


# --- estimating ---


@dataclass(frozen=True, eq=False)
class _Sample:
    """Votes v and predictions f of M items, R numbers each."""

    v: FloatArray
    f: FloatArray
    is_voted: AnyArray
    counts: FloatArray | None
    number: FloatArray | None
    strata: IntArray | None
    clusters: IntArray | None
    weights: FloatArray | None

    def take(self, rows: Sequence[int] | IntArray) -> _Sample:
        """Return some of the items."""
        parts: dict[str, Any] = {
            name: array[rows]
            for name, array in vars(self).items()
            if array is not None and name != "number"
        }
        return replace(self, **parts)

    def within(self) -> FloatArray:
        """Return the variance of one vote within items, per estimate; NaN with single votes."""
        unknown = np.full(self.v.shape[1], np.nan)
        if self.counts is None:
            return unknown
        m = self.counts[self.is_voted].sum(axis=1)
        if (m < 2).any():
            return unknown
        v = self.v[self.is_voted]
        spread = v * (1.0 - v)
        if self.number is not None:
            shares = v[:, :-1]
            spread[:, -1] = shares @ self.number**2 - v[:, -1] ** 2
        return np.asarray((spread * (m / (m - 1.0))[:, None]).mean(axis=0))

    def within_items(self) -> FloatArray:
        """Return the mean variance of an item's share that is due to its number of votes."""
        unknown = np.full(self.v.shape[1], np.nan)
        one = self.within()
        if self.counts is None or np.isnan(one).any():
            return unknown
        m = self.counts[self.is_voted].sum(axis=1)
        return np.asarray(one * np.mean(1.0 / m))


def _estimate(
    sample: _Sample, names: Names, is_share: AnyArray, level: float, population: str
) -> Estimated:
    n = int(sample.is_voted.sum())
    if n < SMALLEST_SAMPLE:
        raise ValueError(
            f"votes has votes on {plural(n, 'item')} of predictions, but at least "
            f"{SMALLEST_SAMPLE} are needed; some fifty are a good start."
        )
    power = _best_power(sample, population)
    value, variance, freedom = _corrected(sample, power, population)
    alone, variance_alone, _ = _corrected(sample, np.zeros_like(power), population)
    error = np.sqrt(variance)
    quantile = float(stats.t.ppf(0.5 + level / 2, freedom))
    lower = value - quantile * error
    upper = value + quantile * error
    if sample.number is not None:
        lower[-1], upper[-1] = _mean_bounds(sample, value[-1], lower[-1], upper[-1], quantile, n)
    clipped = np.clip(value, 0.0, 1.0)
    low, high = wilson_bounds(clipped, error, quantile, n)
    lower = np.where(is_share, low, lower)
    upper = np.where(is_share, high, upper)
    residual = sample.v[sample.is_voted] - power * sample.f[sample.is_voted]
    rest = sample.f[~sample.is_voted]
    of_mean = power**2 * rest.var(axis=0, ddof=1) / len(rest) if len(rest) > 1 else 0.0 * power
    of_mean = of_mean if population == "like" else 0.0 * power
    spread = np.column_stack([residual.var(axis=0, ddof=1), sample.within(), of_mean])
    votes = None if sample.counts is None else float(sample.counts[sample.is_voted].sum())
    return Estimated(
        names,
        np.where(is_share, clipped, value),
        lower,
        upper,
        error,
        alone,
        np.sqrt(variance_alone),
        power,
        level,
        len(sample.v),
        n,
        votes,
        population,
        {},
        spread,
    )


def _best_power(sample: _Sample, population: str) -> FloatArray:
    """Return the power of each estimate that minimises its variance, within [0, 1].

    The variance is a parabola in the power, known from three points.
    """
    n_estimates = sample.v.shape[1]
    if population == "like" and sample.is_voted.all():
        return np.zeros(n_estimates)
    points = (0.0, 0.5, 1.0)
    v0, v1, v2 = (_corrected(sample, np.full(n_estimates, p), population)[1] for p in points)
    square = 2.0 * (v2 - 2.0 * v1 + v0)
    slope = v2 - v0 - square
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(square > 0, -slope / (2.0 * square), 0.0)
    return np.clip(np.nan_to_num(best), 0.0, 1.0)


def _corrected(
    sample: _Sample, power: FloatArray, population: str
) -> tuple[FloatArray, FloatArray, float]:
    """Return estimates, their variances and the degrees of freedom.

    Each item adds its influence to the estimate; the variance is the sum of squares of influences,
    of clusters if there are any.
    """
    n_items, n_estimates = sample.v.shape
    strata = np.zeros(n_items, np.int64) if sample.strata is None else sample.strata
    is_like = population == "like"
    value = np.zeros(n_estimates)
    influence = np.zeros((n_items, n_estimates))
    means = []
    extra = np.zeros(n_estimates)
    freedom = 0
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        voted = rows[sample.is_voted[rows]]
        if len(voted) < 2:
            raise ValueError(
                "strata: a stratum has fewer than two items with votes. Merge strata, or collect "
                "votes there."
            )
        weight = np.ones(len(voted)) if sample.weights is None else sample.weights[voted]
        weight = weight / weight.sum()
        # Chosen items that are not a simple random sample leave others that are none either.
        rest = rows if sample.weights is not None or not is_like else rows[~sample.is_voted[rows]]
        if not len(rest):
            rest = rows
        share = len(rows) / n_items
        residual = sample.v[voted] - power * sample.f[voted]
        mean = weight @ residual
        further = sample.f[rest].mean(axis=0)
        own = mean + power * further
        value += share * own
        means.append((share, own))
        n = len(voted)
        off = share * weight[:, None] * (residual - mean) * np.sqrt(n / (n - 1.0))
        if is_like:
            small = np.sqrt(len(rest) / max(len(rest) - 1.0, 1.0))
            influence[voted] += off
            influence[rest] += share * power * (sample.f[rest] - further) * small / len(rest)
        else:
            within = sample.take(rows).within_items()
            known = np.nan_to_num(within)
            is_simple = ~np.isnan(within) & (sample.weights is None)
            factor = np.where(is_simple, 1.0 - n / len(rows), 1.0)
            influence[voted] += off * np.sqrt(factor)
            extra += share**2 * np.where(is_simple, known / len(rows), 0.0)
        freedom += n - 1
    if is_like and len(means) > 1:  # the shares of strata are those of a sample
        extra += sum(share * (own - value) ** 2 for share, own in means) / n_items
    if sample.clusters is not None:
        n_clusters = int(sample.clusters.max()) + 1
        summed = np.zeros((n_clusters, n_estimates))
        np.add.at(summed, sample.clusters, influence)
        counted = len(np.unique(sample.clusters[sample.is_voted]))
        if counted < 2:
            raise ValueError("clusters: votes are on one cluster only. At least two are needed.")
        influence = summed * np.sqrt(counted / (counted - 1.0))
        freedom = counted - 1
    return value, np.square(influence).sum(axis=0) + extra, float(max(freedom, 1))


def _mean_bounds(
    sample: _Sample, value: float, lower: float, upper: float, quantile: float, n: int
) -> tuple[float, float]:
    """Return the bounds of the mean value, which has no standard error if all votes are the same.

    Then the share of other votes is at most Wilson's bound, and their values are within the range.
    """
    if upper - lower > NOTHING or sample.number is None:
        return lower, upper
    others = quantile**2 / (n + quantile**2)
    lowest = float(sample.number.min())
    highest = float(sample.number.max())
    return value + others * (lowest - value), value + others * (highest - value)


def wilson_bounds(
    share: FloatArray, error: FloatArray, quantile: float, n: int
) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's bounds of shares, for the number of votes that has their standard errors.

    A share of (nearly) 0 or 1 has no standard error to tell: there it is the number of items.
    """
    near = np.clip(share, 0.5 / n, 1.0 - 0.5 / n)
    with np.errstate(divide="ignore"):
        votes = np.where(error > NOTHING, near * (1.0 - near) / error**2, float(n))
    shrink = 1.0 + quantile**2 / votes
    centre = (share + quantile**2 / (2.0 * votes)) / shrink
    half = quantile * np.sqrt(share * (1.0 - share) / votes + quantile**2 / (4.0 * votes**2))
    low = np.maximum(centre - half / shrink, 0.0)
    high = np.minimum(centre + half / shrink, 1.0)
    return np.minimum(low, share), np.maximum(high, share)
