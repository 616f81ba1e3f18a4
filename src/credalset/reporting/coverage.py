"""The coverage part of the page: verdict, curve over levels, slices and the worst slice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import AnyArray, BoolArray
from credalset.metrics import Estimate, proportion
from credalset.reporting.inputs import Items, Source
from credalset.reporting.measures import Measures
from credalset.slices import Slice, WorstSlice, slice_coverage, worst_slice
from credalset.verdict import Verdict, coverage_band, judge

CURVE = tuple(round(0.02 * i, 2) for i in range(1, 26))  # levels of the curve, 0.02 to 0.5
FEW = 10  # items below which a curve is a staircase of chance
FEWEST = 60  # items below which no search for a worst slice is worth its name


@dataclass(frozen=True)
class CurvePoint:
    """Observed coverage at one level, and what chance allows there."""

    alpha: float
    observed: Estimate
    band: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Coverage:
    """Everything the page says about coverage.

    Attributes
    ----------
    verdict : Verdict
        Promise against observation at the page's own level.
    truth : Estimate or None
        Coverage of true distributions, if they are known.
    covered : ndarray of N bool
        Items whose votes lie in their set; False without votes.
    curve : list of CurvePoint
        Coverage at other levels; empty where sets are given.
    slices : list of Slice
        Coverage by feature, among items with votes; their members are rows of those items.
    before : list of Slice
        The same slices, had all items one threshold; empty where they have.
    low : list of bool
        Which slices are below the promise even if all of them are looked at together.
    worst : WorstSlice or None
        What the search found.
    reused : str
        What to say if the model or its calibration has had some of these items; else nothing.
    """

    verdict: Verdict
    truth: Estimate | None
    covered: BoolArray
    curve: list[CurvePoint]
    slices: list[Slice]
    before: list[Slice]
    low: list[bool]
    worst: WorstSlice | None
    reused: str


def look_at(source: Source, measures: Measures, alpha: float | None, seed: int) -> Coverage:
    """Compare sets with the votes their items got."""
    sets, items = measures.sets, measures.items
    there, voted = items.votes.there, items.votes.covered_by(sets)
    covered = np.zeros(len(sets), dtype=bool)
    covered[there] = voted
    keys = source.group_keys(sets, items.groups)
    voted_keys = None if keys is None else [key for key, has in zip(keys, there.tolist(), strict=True) if has]
    verdict = judge(source.calibration, voted, alpha, groups=voted_keys)
    truth = None
    if items.truth is not None:
        hits = sets.contains(items.truth)
        truth = proportion(int(hits.sum()), len(hits))
        if verdict.status == "unseen":
            verdict = judge(source.calibration, hits, alpha, groups=keys, of_truth=True)
    features = _features(measures, there)
    slices = slice_coverage(voted, features) if len(voted) else []
    plain = source.with_one_threshold(sets, alpha) if len(voted) else None
    return Coverage(
        verdict,
        truth,
        covered,
        _curve(source, items, voted_keys),
        slices,
        [] if plain is None else slice_coverage(items.votes.covered_by(plain), features),
        _low(slices, None if alpha is None else 1.0 - alpha),
        worst_slice(voted, features, random_state=seed) if len(voted) >= FEWEST else None,
        "" if source.calibration is None or not len(voted) else source.calibration.reuse(items.names),
    )


def _curve(source: Source, items: Items, keys: list[object] | None) -> list[CurvePoint]:
    if source.predict is None or items.votes.there.sum() < FEW:
        return []
    points = []
    for alpha in CURVE:
        try:
            hits = items.votes.covered_by(source.predict(alpha))
        except ValueError:  # a level that the noise model cannot serve
            continue
        observed = proportion(int(hits.sum()), len(hits))
        points.append(CurvePoint(alpha, observed, coverage_band(source.calibration, alpha, len(hits), groups=keys)))
    return points


def _features(measures: Measures, there: BoolArray) -> dict[str, AnyArray]:
    """What coverage is looked at by: nothing that was read off the labels themselves."""
    items, features = measures.items, dict[str, AnyArray]()
    if items.groups is not None:
        features[items.grouped_by] = np.array([str(key) for key in items.groups], dtype=object)[there]
    names = np.array(items.classes, dtype=object)
    features["predicted class"] = names[measures.sets.center.argmax(axis=1)][there]
    features["width of the set"] = np.nan_to_num(measures.width[there], nan=0.0).round(6)
    n_votes = items.votes.n_votes
    if n_votes is not None and len(np.unique(n_votes[there])) > 1:
        features["number of votes"] = n_votes[there]
    return features | {name: values[there] for name, values in items.features.items()}


def _low(slices: list[Slice], promised: float | None, level: float = 0.95) -> list[bool]:
    """Tell which slices stay below the promise with intervals that hold for all slices at once (Bonferroni)."""
    if promised is None:
        return [False] * len(slices)
    strict = 1.0 - (1.0 - level) / max(len(slices), 1)
    seen = [part.coverage for part in slices]
    return [x.n > 0 and proportion(round(float(x) * x.n), x.n, strict).high < promised for x in seen]
