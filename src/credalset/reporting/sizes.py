"""How large sets are, by score and level, so that a reader can choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from credalset import metrics
from credalset.metrics import Estimate
from credalset.metrics.size import evenly
from credalset.reporting.inputs import Items, Source
from credalset.sets import CredalSet

MANY = 300  # items, spread evenly, of which sizes are averaged
FEWER = 100  # of which volumes are, which take longest
VOLUMES_UP_TO = 12  # classes; beyond, a share of the simplex says nothing to anyone


@dataclass(frozen=True)
class Size:
    """Coverage and size of the sets of one score at one level, each with its interval.

    Attributes
    ----------
    score : str
        Name of the score.
    alpha : float or None
        Level, if it is known.
    coverage : Estimate
        Share of the items with votes that are covered.
    width : Estimate
        Mean of ½ Σ (upper − lower).
    epistemic : Estimate
        Mean difference of the normalised entropies.
    labels : Estimate
        Mean number of labels that could be the most probable one.
    decided : Estimate
        Share of the items with at most one such label.
    volume : Estimate or None
        Mean share of the simplex, up to twelve classes.
    empty : float
        Share of sets that have no member: they cover nothing, and leave nothing open.
    whole : bool
        Whether every set is the whole simplex: too few calibration items for this level.
    """

    score: str
    alpha: float | None
    coverage: Estimate
    width: Estimate
    epistemic: Estimate
    labels: Estimate
    decided: Estimate
    volume: Estimate | None
    empty: float
    whole: bool


def compare_sizes(sources: Sequence[Source], items: Items, levels: Sequence[float]) -> list[Size]:
    """Measure the sets of several calibrations at several levels, those at which each has sets."""
    return [size for source in sources for size in _sizes_of(source, items, levels)]


def told_apart(sizes: Sequence[Sequence[Size]]) -> list[Size]:
    """Return the sizes of several calibrations, numbered where others before them have the same score."""
    result: list[Size] = []
    for i, own in enumerate(sizes):
        before = sum(bool(other) and bool(own) and other[0].score == own[0].score for other in sizes[:i])
        result += [replace(size, score=f"{size.score} ({before + 1})") if before else size for size in own]
    return result


def _sizes_of(source: Source, items: Items, levels: Sequence[float]) -> list[Size]:
    assert source.predict is not None
    found, problem = [], None
    for alpha in levels:
        try:
            found.append(measure(source.predict(alpha), items, alpha))
        except ValueError as error:  # below what its noise model can serve
            problem = error
    if problem is not None and not found:
        raise problem
    return found


def measure(sets: CredalSet, items: Items, alpha: float | None) -> Size:
    """Measure one batch of sets, an even selection of them if they are many."""
    hits = items.votes.covered_by(sets)
    return Size(
        sets.score.name,
        alpha,
        metrics.proportion(int(hits.sum()), len(hits)),
        **metrics.mean_sizes(sets, max_sets=MANY),
        volume=metrics.mean_volume(evenly(sets, FEWER)) if sets.n_classes <= VOLUMES_UP_TO and len(sets) else None,
        empty=float(sets.is_empty().mean()) if len(sets) else 0.0,
        whole=len(sets) > 0 and bool(np.isposinf(sets.radius).all()),
    )
