"""Thresholds that follow features: the linear programme, and its promise by counting every case."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import credalset as cs
from credalset.calibration import conditional
from credalset.calibration.conditional import conditional_quantiles


def with_constant(columns: Any) -> Any:
    return np.column_stack([np.ones(len(columns)), columns]).astype(float)


def problem(seed: int, n: int = 40, d: int = 3, n_new: int = 6) -> tuple[Any, Any, Any]:
    """Scores and features: by seed, continuous or with ties, numbers or groups."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n) if seed % 2 else rng.integers(0, 5, n) / 4.0
    both = rng.normal(size=(n + n_new, d)) if seed % 4 < 2 else rng.random((n + n_new, d)) < 0.4
    return scores, with_constant(both[:n]), with_constant(both[n:])


# --- the linear programme ---


def fit(
    scores: Any, features: Any, alpha: float, weights: Any, direction: Any
) -> tuple[float, Any]:
    """Quantile regression by the textbook, less direction · β:
    the smallest direction · β of all optima, and one.
    """
    n, d = features.shape
    cost = np.concatenate([-(1 - alpha) * direction, weights * (1 - alpha), weights * alpha])
    both = np.hstack([features, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    first = linprog(cost, A_eq=both, b_eq=scores, bounds=bounds, method="highs")
    if first.status == 3:
        return math.inf, None
    limit = first.fun + 1e-9 * max(1.0, abs(first.fun))
    goal = np.concatenate([direction, np.zeros(2 * n)])
    best = linprog(
        goal, A_ub=cost[None], b_ub=[limit], A_eq=both, b_eq=scores, bounds=bounds, method="highs"
    )
    return float(best.fun), first.x[:d]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_thresholds_solve_the_linear_programme(seed, alpha):
    scores, features, new = problem(seed)
    expected = [fit(scores, features, alpha, np.ones(40), phi)[0] for phi in new]
    np.testing.assert_allclose(
        conditional_quantiles(scores, features, alpha, new), expected, atol=1e-6
    )
    assert np.isfinite(expected).any()


@pytest.mark.parametrize("seed", range(4))
def test_weights_enter_the_programme(seed):
    scores, features, new = problem(seed, d=2)
    rng = np.random.default_rng(seed)
    weights, own = rng.integers(0, 3, 40).astype(float), rng.random(6)
    expected = [
        fit(scores, features, 0.2, weights, w * phi)[0] / w for phi, w in zip(new, own, strict=True)
    ]
    for unit in (1.0, 1e-9):
        found = conditional_quantiles(scores, features, 0.2, new, unit * weights, unit * own)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    repeated = np.repeat(np.arange(40), weights.astype(int))
    ones = conditional_quantiles(scores, features, 0.2, new, weights, np.ones(6))
    np.testing.assert_allclose(
        conditional_quantiles(scores[repeated], features[repeated], 0.2, new), ones, atol=1e-9
    )


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_refitting_with_every_imputed_score_finds_the_same_threshold(seed):
    """The definition of the paper: a score belongs to the set if the fit that counts it
    in does not stay below it.
    """
    scores, features, new = problem(seed, n=30, d=2)
    for phi, threshold in zip(new, conditional_quantiles(scores, features, 0.2, new), strict=True):
        both = np.vstack([features, phi])
        for imputed in (threshold - 0.3, threshold - 1e-4, threshold + 1e-4, threshold + 0.3):
            if not math.isfinite(imputed):
                continue
            _, beta = fit(np.append(scores, imputed), both, 0.2, np.ones(31), np.zeros(3))
            assert (imputed <= phi @ beta + 1e-7) == (imputed <= threshold)


def test_optima_far_from_the_start_are_found_too(monkeypatch):
    """Few items near the start, and a new item of great weight:
    some items far away change sides.
    """
    scores, features, new = problem(1, n=300, d=2)
    everything = conditional_quantiles(scores, features, 0.1, new, None, np.full(6, 8.0))
    monkeypatch.setattr(conditional, "NEAR", 2)
    monkeypatch.setattr(conditional, "BLOCK", 64)
    found = conditional_quantiles(scores, features, 0.1, new, None, np.full(6, 8.0))
    np.testing.assert_allclose(found, everything, atol=1e-9)
    expected = [fit(scores, features, 0.1, np.ones(300), 8 * phi)[0] / 8 for phi in new]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_no_score_for_what_was_never_seen():
    scores, features, _ = problem(1)
    wide = np.column_stack([features, np.zeros(40)])  # nobody is in the last group
    found = conditional_quantiles(scores, wide, 0.2, np.array([[1, 0, 0, 0, 0], [1, 0, 0, 0, 1.0]]))
    assert np.isfinite(found[0])
    assert found[1] == math.inf
    far = conditional_quantiles(scores, features, 0.2, np.array([[1.0, 50.0, 0.0, 0.0]]))
    assert far[0] == math.inf


@pytest.mark.parametrize("n_infinite", [1, 3, 8])
def test_infinite_scores_are_never_reached(n_infinite):
    scores, features, new = problem(1)
    scores[:n_infinite] = math.inf
    large = np.where(np.isinf(scores), 1e3, scores)
    found = conditional_quantiles(scores, features, 0.2, new)
    expected = conditional_quantiles(large, features, 0.2, new)
    reached = expected < 2
    np.testing.assert_allclose(found[reached], expected[reached], atol=1e-6)
    assert np.isinf(found[~reached]).all()


# --- what it means for sets ---


def crowd(n: int, seed: int, n_votes: int = 10) -> tuple[Any, Any, Any]:
    """Predictions that are worse for some kinds of items, votes, and three kinds that overlap."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(3, 0.7), n)
    kinds = np.column_stack([rng.random(n) < 0.3, rng.random(n) < 0.2, rng.random(n) < 0.5])
    doubt = np.clip(0.05 + kinds @ [0.35, 0.45, 0.1], 0.0, 1.0)[:, None]
    prediction = (1 - doubt) * truth + doubt * rng.dirichlet(np.ones(3), n)
    return prediction, rng.multinomial(n_votes, truth), kinds


def test_without_features_it_is_plain_calibration():
    prediction, counts, _ = crowd(199, 0)
    plain = cs.conformalize(prediction, counts)
    constant = cs.conformalize(prediction, counts, groups=cs.Conditional(np.ones((199, 1))))
    for alpha in (0.05, 0.1, 0.2, 0.25):
        found = constant.thresholds(prediction[:5], alpha, groups=np.ones((5, 1)))
        np.testing.assert_array_equal(found, plain.threshold(alpha))


def test_groups_that_do_not_overlap_get_their_own_thresholds():
    prediction, counts, kinds = crowd(400, 1)
    keys = kinds[:, 0] + 2 * kinds[:, 1]
    dummies = keys[:, None] == np.arange(4)
    own = cs.conformalize(prediction, counts, "kl", groups=keys)
    linear = cs.conformalize(prediction, counts, "kl", groups=cs.Conditional(dummies))
    for alpha in (0.1, 0.2):
        expected = own.thresholds(prediction, alpha, groups=keys)
        np.testing.assert_array_equal(
            linear.thresholds(prediction, alpha, groups=dummies), expected
        )


def leave_one_out(covered: Any, features: Any) -> Any:
    """Coverage of each item by a calibration on all others:
    each is as likely as any to be the new one.
    """
    n = len(features)
    return np.array(
        [covered(np.delete(np.arange(n), last), last) for last in range(n)], dtype=float
    )


@pytest.mark.parametrize(("seed", "n_votes"), [(0, 5), (1, 2)])
def test_no_group_of_any_population_falls_short(seed, n_votes):
    """The promise is a mean over who is the new item,
    so it must hold for every list of items to the last one.
    """
    prediction, counts, kinds = crowd(45, seed, n_votes)
    size = np.random.default_rng(seed).random(45)
    features = np.column_stack([kinds, size])

    def is_covered(rest: Any, last: int) -> bool:
        calibration = cs.conformalize(
            prediction[rest], counts[rest], groups=cs.Conditional(features[rest])
        )
        sets = calibration.predict_set(prediction[[last]], 0.2, groups=features[[last]])
        return bool(sets.contains(counts[[last]] / n_votes)[0])

    covered = leave_one_out(is_covered, features)
    for f in (np.ones(45), *kinds.T, *~kinds.T, size, size.max() - size, 1.0 + kinds[:, 0] - size):
        assert (f * covered).sum() >= 0.8 * f.sum() - 1e-9
    assert covered.mean() < 0.93  # and not by covering everything


def test_label_sets_keep_it_too():
    prediction, counts, kinds = crowd(45, 3, 4)

    def share(rest: Any, last: int) -> float:
        calibration = cs.labels.conformalize(
            prediction[rest], counts[rest], groups=cs.Conditional(kinds[rest])
        )
        return float(
            calibration.predict_set(prediction[[last]], 0.2, groups=kinds[[last]]).share(
                counts[[last]]
            )[0]
        )

    covered = leave_one_out(share, kinds)
    for f in (np.ones(45), *kinds.T, *~kinds.T):
        assert (f * covered).sum() >= 0.8 * f.sum() - 1e-9
    assert covered.mean() < 0.93


def coverage_by_kind(n_repetitions: int, n: int, n_new: int, conditional: bool) -> tuple[Any, Any]:
    """Covered and counted items of each kind over fresh calibrations."""
    covered, counted = np.zeros(3), np.zeros(3)
    for seed in range(n_repetitions):
        prediction, counts, kinds = crowd(n + n_new, seed)
        groups, new = (cs.Conditional(kinds[:n]), kinds[n:]) if conditional else (None, None)
        calibration = cs.conformalize(prediction[:n], counts[:n], groups=groups)
        hits = calibration.predict_set(prediction[n:], 0.1, groups=new).contains(counts[n:] / 10)
        covered += kinds[n:][hits].sum(axis=0)
        counted += kinds[n:].sum(axis=0)
    return covered, counted


def test_kinds_that_overlap_are_all_covered_where_plain_calibration_fails():
    covered, counted = coverage_by_kind(40, 200, 50, conditional=True)
    error = np.sqrt(0.09 * (1 / counted + 1 / (40 * 200 * counted / counted.max())))
    assert (covered / counted >= 0.9 - 3.5 * error).all()
    assert (
        covered / counted <= 0.9 + 8 / 200 + 3.5 * error
    ).all()  # four coefficients, each may touch an item
    plain, counted = coverage_by_kind(40, 200, 50, conditional=False)
    assert (plain / counted)[1] < 0.8


@pytest.mark.slow
def test_kinds_that_overlap_are_all_covered_over_many_repetitions():
    covered, counted = coverage_by_kind(1000, 300, 100, conditional=True)
    error = np.sqrt(0.09 * (1 / counted + 1 / (1000 * 60)))
    assert (covered / counted >= 0.9 - 3.5 * error).all()


def test_votes_as_draws_keep_their_promise_for_the_truth():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.7, 0.7], 900)
    is_hard = rng.random(900) < 0.3
    prediction = np.where(is_hard[:, None], 0.5, 0.9 * truth + 0.05)
    counts, columns = rng.multinomial(30, truth), is_hard[:, None]
    noise = cs.AnnotatorSampling(0.5)
    calibration = cs.conformalize(
        prediction[:600], counts[:600], noise=noise, groups=cs.Conditional(columns[:600])
    )
    hits = calibration.predict_set(prediction[600:], 0.1, groups=columns[600:]).contains(
        truth[600:]
    )
    assert hits[is_hard[600:]].mean() >= 0.9
    keys = is_hard.astype(int)
    own = cs.conformalize(prediction[:600], counts[:600], noise=noise, groups=keys[:600])
    expected = own.thresholds(prediction[600:], 0.1, groups=keys[600:])
    np.testing.assert_allclose(
        calibration.thresholds(prediction[600:], 0.1, groups=columns[600:]), expected, atol=1e-9
    )


# --- names and refusals ---


def test_columns_are_matched_by_name():
    import pandas as pd

    prediction, counts, kinds = crowd(200, 0)
    frame = pd.DataFrame(kinds.astype(float), columns=["long", "rare", "old"])
    calibration = cs.conformalize(prediction, counts, groups=cs.Conditional(frame))
    assert calibration.features == ("long", "rare", "old")
    expected = calibration.thresholds(prediction[:20], 0.2, groups=kinds[:20])
    for new in (
        frame[["old", "long", "rare"]][:20],
        cs.Conditional(frame[["rare", "old", "long"]][:20]),
    ):
        np.testing.assert_array_equal(
            calibration.thresholds(prediction[:20], 0.2, groups=new), expected
        )
    with pytest.raises(ValueError, match="'late'"):
        calibration.thresholds(
            prediction[:20], 0.2, groups=frame[:20].rename(columns={"old": "late"})
        )


def test_what_is_refused():
    prediction, counts, kinds = crowd(50, 0)
    conditional = cs.Conditional(kinds)
    calibration = cs.conformalize(prediction, counts, groups=conditional)
    with pytest.raises(ValueError, match="groups is missing"):
        calibration.predict_set(prediction)
    with pytest.raises(
        ValueError,
        match=r"groups must hold 3 features of each of 50 items, but has shape \(50, 2\)",
    ):
        calibration.predict_set(prediction, groups=kinds[:, :2])
    for call in (
        lambda: calibration.p_values(prediction, counts, groups=kinds),
        lambda: calibration.coverage_distribution(0.1),
        lambda: calibration.threshold(0.1),
        lambda: cs.Stream(calibration, 0.1),
        lambda: cs.conformalize(prediction, counts, groups=conditional, noise=cs.UnbiasedVotes()),
        lambda: cs.cross_conformalize(prediction, counts, np.arange(50) % 5, groups=conditional),
        lambda: cs.conformalize(prediction, counts, groups=conditional[:20]),
        lambda: cs.Conditional([1, 2, 3]),
        lambda: cs.Conditional([[np.nan]]),
        lambda: cs.Conditional(kinds, names=["one"]),
    ):
        with pytest.raises(ValueError, match=r"features|thresholds"):
            call()
    with pytest.raises(TypeError, match="features must hold numbers"):
        cs.Conditional([["a"], ["b"]])
