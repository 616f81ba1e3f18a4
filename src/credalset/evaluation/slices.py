"""Coverage by slice, and a search for the slice with the worst coverage.

Coverage is guaranteed on average; slices show where it is higher or lower. All functions take
``covered``, one boolean per item as from ``sets.contains(Y)``, and features of the items by name.
Do not pass features that depend on the labels, such as the winning vote: coverage differs between
such slices for every model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from credalset._batch import Batch, item_names
from credalset._display import Estimate, proportion
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray, RandomState
from credalset._validation import as_generator, as_positive_int, as_probability

MAX_KEYS = 12  # most frequent values of a feature that get a slice each; all others share one
OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Slice:
    """Items with the same value of a feature, and the observed coverage among them.

    Attributes
    ----------
    feature : str
        Name of the feature.
    value : str
        Value, or range of values, of the feature.
    coverage : Estimate
        Share of the items that are covered, with its exact binomial interval.
    members : ndarray of N bool
        Whether each item belongs to the slice.
    """

    feature: str
    value: str
    coverage: Estimate
    members: BoolArray = field(repr=False)


@dataclass(frozen=True, eq=False)
class WorstSlice:
    """Slice with the worst coverage on one half of the items, and its coverage on the other half.

    Attributes
    ----------
    conditions : tuple of (feature, value)
        One or two conditions that the items of the slice meet.
    found : Estimate
        Coverage on the half that was searched. It is biased downwards, because the worst of many
        slices was selected.
    measured : Estimate
        Coverage on the other half. It is unbiased, and its interval is valid.
    n_candidates : int
        Number of slices that were compared.
    members : ndarray of N bool
        Whether each item of both halves belongs to the slice.
    """

    conditions: tuple[tuple[str, str], ...]
    found: Estimate
    measured: Estimate
    n_candidates: int
    members: BoolArray = field(repr=False)


def slice_coverage(
    covered: ArrayLike, features: Mapping[str, ArrayLike], *, n_bins: int = 4, level: float = 0.95
) -> list[Slice]:
    """Return the observed coverage for every value of each feature.

    Coverage is guaranteed on average; slices show where it is higher or lower. Do not pass features
    that depend on the labels, such as the label with most votes: coverage differs between such
    slices for every model.

    Parameters
    ----------
    covered : array of N bool
        Whether the label distribution of each item is in its set, as returned by
        ``sets.contains(Y)``.
    features : mapping from names to arrays of shape (N,)
        Features of the items, matched with ``covered`` by name if both have names. Texts,
        booleans and whole numbers with few values give one slice per value: one for each of the
        twelve most frequent values, and one for all others together. Other numbers are divided
        into bins of equal counts; NaN has a slice of its own.
    n_bins : int
        Number of bins of a numeric feature.
    level : float
        Confidence level of each interval. For intervals that hold simultaneously, divide 1 − level
        by the number of slices.

    Returns
    -------
    list of Slice
        The slices of all features, in the order of the features.

    Examples
    --------
    >>> for part in slice_coverage([True, True, False, True], {"source": ["a", "a", "b", "b"]}):
    ...     print(part.feature, part.value, part.coverage)
    source a 1.0000 [0.1581, 1.0000] (n=2)
    source b 0.5000 [0.0126, 0.9874] (n=2)
    """
    hits, columns = _check(covered, features)
    return measure_slices(hits, columns, as_positive_int(n_bins, "n_bins"), level)


def divide(column: AnyArray, bins: int = 4) -> list[tuple[str, BoolArray]]:
    """Return the values of a feature of N items, and which items have each of them."""
    return list(_bins(column, bins) if _is_numeric(column, bins) else _keys(column))


def measure_slices(
    hits: BoolArray, columns: Mapping[str, AnyArray], bins: int = 4, level: float = 0.95
) -> list[Slice]:
    """Return the coverage for every value of each feature, of items that are read."""
    return [
        Slice(name, value, proportion(int(hits[members].sum()), int(members.sum()), level), members)
        for name, column in columns.items()
        for value, members in divide(column, bins)
    ]


def worst_slice(
    covered: ArrayLike,
    features: Mapping[str, ArrayLike],
    *,
    min_share: float = 0.1,
    n_bins: int = 8,
    level: float = 0.95,
    random_state: RandomState = 0,
) -> WorstSlice | None:
    """Search half of the items for the slice with the worst coverage; measure it on the others.

    Candidates are the values of each feature, every range between its quantiles if it is numeric,
    and every combination of a candidate of one feature with one of another, if they contain at
    least a share ``min_share`` of the half. With the miss rate r of the whole half, the function
    selects the slice whose m misses among n items have the smallest probability P(X ≥ m) under
    Binomial(n, r). The coverage on the searched half is biased downwards; the coverage on the other
    half is not. Cauchois, Gupta, Duchi (*Knowing what you know*, JMLR 2021) search slabs in the
    same way.

    Parameters
    ----------
    covered, features, level
        As in `slice_coverage`.
    min_share : float
        Smallest share of the items that a slice may contain.
    n_bins : int
        Number of bins of a numeric feature. The ranges begin and end at the edges of these bins.
    random_state : int, Generator or None
        Seed of the split into halves.

    Returns
    -------
    WorstSlice or None
        The slice. None if all or none of the items of the searched half are covered, or if no slice
        is large enough.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(400) / 400
    >>> worst = worst_slice(x < 0.9, {"x": x})
    >>> worst.conditions, worst.measured < 0.5
    ((('x', '0.8725 and above'),), True)
    """
    hits, columns = _check(covered, features)
    share = as_probability(min_share, "min_share")
    bins = as_positive_int(n_bins, "n_bins")
    return find_worst(hits, columns, share, bins, random_state, level)


def find_worst(
    hits: BoolArray,
    columns: Mapping[str, AnyArray],
    share: float = 0.1,
    bins: int = 8,
    random_state: RandomState = 0,
    level: float = 0.95,
) -> WorstSlice | None:
    """Return the slice with the worst coverage, among items that are read."""
    half = as_generator(random_state).permutation(len(hits)) < (len(hits) + 1) // 2
    found = [
        (name, value, members)
        for name, column in columns.items()
        for value, members in (
            _ranges(column, half, bins) if _is_numeric(column, bins) else _keys(column)
        )
    ]
    if not found or hits[half].all() or not hits[half].any():
        return None
    names = [part[:2] for part in found]
    masks = np.array([part[2] for part in found])
    pair, n_candidates = _least_likely(
        masks[:, half], ~hits[half], [name for name, _ in names], share
    )
    if n_candidates == 0:
        return None
    members = masks[pair[0]] & masks[pair[1]]
    seen = [
        proportion(int(hits[members & part].sum()), int((members & part).sum()), level)
        for part in (half, ~half)
    ]
    return WorstSlice(
        tuple(names[i] for i in dict.fromkeys(pair)), seen[0], seen[1], n_candidates, members
    )


def _least_likely(
    masks: BoolArray, missed: BoolArray, features: list[str], share: float
) -> tuple[tuple[int, int], int]:
    """Return the pair of slices, masks (S, n), of least likely misses, and the number of pairs.

    A slice paired with itself is a single slice; other pairs are of different features.
    """
    from scipy.stats import binom

    inside = masks.astype(np.float32)  # whole numbers below 2²⁴: exact
    n = inside @ inside.T
    misses = (inside * missed) @ inside.T
    of = np.array(features)
    allowed = np.triu(of[:, None] != of[None, :]) | np.eye(len(of), dtype=bool)
    allowed &= n >= max(share * len(missed), 1.0)
    if not allowed.any():
        return (0, 0), 0
    chance = np.full(n.shape, np.inf)
    chance[allowed] = binom.logsf(misses[allowed] - 1.0, n[allowed], missed.mean())
    i, j = np.unravel_index(int(chance.argmin()), chance.shape)
    return (int(i), int(j)), int(allowed.sum())


def _check(
    covered: ArrayLike, features: Mapping[str, ArrayLike]
) -> tuple[BoolArray, dict[str, AnyArray]]:
    hits = np.asarray(covered)
    if hits.dtype != bool or hits.ndim != 1:
        raise TypeError("covered must hold one boolean per item, as sets.contains(Y) gives.")
    batch = Batch(hits, 0, item_names(covered, "covered"), name="covered")
    columns = {
        str(name): np.asarray(batch.per_item(values, f"features[{name!r}]"))
        for name, values in features.items()
    }
    for name, column in columns.items():
        if column.shape != hits.shape:
            raise ValueError(
                f"features[{name!r}] must hold one value for each of the {len(hits)} items, "
                f"but has shape {column.shape}."
            )
    return hits, columns


def _is_numeric(column: AnyArray, n_bins: int) -> bool:
    return column.dtype.kind == "f" or (
        column.dtype.kind in "iu" and len(np.unique(column)) > max(n_bins, 4)
    )


def _keys(column: AnyArray) -> Iterator[tuple[str, BoolArray]]:
    """Yield the values of a feature and the items that have them."""
    texts = np.array([str(value) for value in column.tolist()], dtype=object)
    values, counts = np.unique(texts, return_counts=True)
    if len(values) > MAX_KEYS + 1:
        kept = values[np.argsort(-counts, kind="stable")[:MAX_KEYS]]
    else:  # numbers are sorted by size, others as texts
        kept = np.unique(column).astype(str) if column.dtype.kind in "iu" else values
    yield from ((str(value), texts == value) for value in kept)
    if len(kept) < len(values):
        yield OTHERS, ~np.isin(texts, kept)


def _edges(values: AnyArray, n_bins: int) -> FloatArray:
    """Return the lower edges of equal-count bins without the first; equal values are in one bin."""
    n = len(values)
    starts = np.sort(values)[np.arange(min(n_bins, n)) * n // min(n_bins, max(n, 1))]
    return np.unique(starts)[1:].astype(np.float64)


def _bins(column: AnyArray, n_bins: int) -> Iterator[tuple[str, BoolArray]]:
    """Yield bins of equal counts and the items in them."""
    known = column == column
    edges = _edges(column[known], n_bins)
    place = np.searchsorted(edges, column, side="right")
    for b in range(len(edges) + 1):
        members = known & (place == b)
        if members.any():
            low = float(column[members].min())
            high = float(column[members].max())
            yield _range_text(low, high), members
    if not known.all():
        yield "not known", ~known


def _range_text(low: float, high: float) -> str:
    """Write the ends of a bin with as many digits as tell them apart.

    Examples
    --------
    >>> _range_text(0.25, 1.0), _range_text(3.0801, 3.0803), _range_text(2.0, 2.0)
    ('0.25 to 1', '3.0801 to 3.0803', '2')
    """
    for digits in range(3, 17):
        first, last = f"{low:.{digits}g}", f"{high:.{digits}g}"
        if first != last:
            return f"{first} to {last}"
    return f"{low:.3g}"


def _ranges(column: AnyArray, half: BoolArray, n_bins: int) -> Iterator[tuple[str, BoolArray]]:
    """Yield ranges between edges that depend on the searched half only."""
    known = column == column
    edges = _edges(column[half & known], n_bins)
    place = np.where(known, np.searchsorted(edges, column, side="right"), -1)
    for low in range(len(edges) + 1):
        for high in range(low, len(edges) + 1):
            if low == 0 and high == len(edges):
                continue
            if low == 0:
                text = f"below {edges[high]:.4g}"
            elif high == len(edges):
                text = f"{edges[low - 1]:.4g} and above"
            else:
                text = f"from {edges[low - 1]:.4g} to below {edges[high]:.4g}"
            yield text, (place >= low) & (place <= high)
