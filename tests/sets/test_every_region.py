"""Every public measure of every registered region against brute force that only asks ``contains``.

The oracles know nothing of the closed forms: grids and samples judged by membership, a polar quadrature for areas,
duality gaps for entropies, the generic fallbacks, and linear programs for decisions.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from credalset.scores import Score
from credalset.sets import generic, rays
from credalset.sets.credal_set import CredalSet
from credalset.sets.max_min import max_min
from credalset.sets.rays import estimate_log_volume
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.conftest import SCORES, random_predictions

POLYTOPES = {"tv", "ws", "inner", "intervals"}
#: one score of each geometry; others give the same regions at other thresholds, as `tests.scores.test_normalized` and
#: `test_a_base_is_a_unit` say, and are under the laws of `tests.sets.test_laws` themselves
REGIONS = [name for name in SCORES if not name.startswith("normalized") and name != "kl-nats"]


def make_sets(
    name: str, n_classes: int, n: int = 6, seed: int = 0, levels: tuple[float, float] = (0.1, 0.8)
) -> CredalSet:
    """Sets of mixed size: thresholds at quantiles of the scores of uniform distributions."""
    score, rng = SCORES[name], np.random.default_rng(0)
    prediction = random_predictions(score, n, n_classes, rng)
    pool = sample_uniform(400, n_classes, rng)
    spread = np.array([score(np.repeat(p[None], 400, axis=0), pool) for p in prediction])
    wanted = np.linspace(*levels, n)
    return score.region(prediction, [np.quantile(row, level) for row, level in zip(spread, wanted, strict=True)])


def test_a_base_is_a_unit() -> None:
    bits, nats = make_sets("kl", 4), make_sets("kl-nats", 4)
    again = SCORES["kl-nats"].region(bits.prediction, bits.threshold * np.log(SCORES["kl"].base))
    assert again.radius == pytest.approx(bits.radius, rel=1e-15)
    assert type(bits) is type(nats)


def members(sets: CredalSet, points: np.ndarray) -> list[np.ndarray]:
    return [points[row] for row in sets.contains(points, broadcast=True)]


@pytest.fixture(params=REGIONS, ids=str)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_against_a_dense_grid(name: str) -> None:
    """K = 3: the grid's best member can miss the true optimum by the grid step, and must never beat it."""
    sets, step = make_sets(name, 3), 0.004
    inside = members(sets, grid(3, step))
    lower, upper = sets.lower(), sets.upper()
    least, most = sets.entropy_bounds()
    utility = np.random.default_rng(1).normal(size=(6, 3))
    low_u, high_u = sets.lower_expectation(utility), sets.upper_expectation(utility)
    peak = sets.smallest_peak()
    for i, found in enumerate(inside):
        slack = 3 * step
        for value, best in [(upper[i], found.max(axis=0)), (-lower[i], (-found).max(axis=0))]:
            assert (best <= value + 1e-9).all()
            assert (value <= best + slack).all()
        values = found @ utility[i]
        reach = slack * np.ptp(utility[i])
        assert low_u[i] - 1e-9 <= values.min() <= low_u[i] + reach
        assert high_u[i] - reach <= values.max() <= high_u[i] + 1e-9
        entropies = entropy_of_valid(found)
        rough = slack * (1 + abs(np.log(slack)))  # entropy is steep near the edge: h(x) ≤ x(1 − log x)
        assert least[i] - 1e-9 <= entropies.min() <= least[i] + 3 * rough
        assert most[i] - 3 * rough <= entropies.max() <= most[i] + 1e-9
        assert peak[i] - 1e-9 <= found.max(axis=1).min() <= peak[i] + slack


def polar_area(one: CredalSet, n_angles: int = 4000) -> float:
    """Area of a convex set at K = 3 as a fraction of the simplex, by asking ``contains`` along rays."""
    origin = one.sample(200, random_state=0)[0].mean(axis=0)
    axes = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    angles = 2 * np.pi * np.arange(n_angles) / n_angles
    directions = np.cos(angles)[:, None] * axes[0] + np.sin(angles)[:, None] * axes[1]
    low, high = np.zeros(n_angles), np.full(n_angles, 1.5)
    for _ in range(40):
        middle = 0.5 * (low + high)
        points = origin + middle[:, None] * directions
        legal = (points >= 0).all(axis=1)
        safe = np.where(legal[:, None], points, origin)
        good = legal & one.contains(safe / safe.sum(axis=1, keepdims=True), broadcast=True)[0]
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return float(0.5 * (low**2).sum() * 2 * np.pi / n_angles / (np.sqrt(3) / 2))


def test_area_at_three_classes(name: str) -> None:
    sets = make_sets(name, 3)
    value, error = sets.volume(return_error=True)
    exact = np.array([polar_area(one) for one in sets])
    for i in range(len(sets)):
        assert value[i] == pytest.approx(exact[i], rel=1e-3, abs=max(1e-9, 5 * error[i]))
    if name != "inner":  # whose sets are no stars about their centres
        estimate, error = estimate_log_volume(sets, np.random.default_rng(0), n_rays=2000)
        assert (np.abs(estimate - np.log(exact)) <= 5 * error + 1e-4).all(), "rays agree"
        assert (error < 0.2).all()


@pytest.mark.parametrize("n_classes", [4, 7])
def test_volume_by_counting(name: str, n_classes: int) -> None:
    sets = make_sets(name, n_classes, levels=(0.2, 0.9))
    points = sample_uniform(200_000, n_classes, 5)
    share = sets.contains(points, broadcast=True).mean(axis=1)
    volume = sets.volume(return_error=True)
    assert volume.method in {"exact", "estimate"}
    noise = np.sqrt(share * (1 - share) / len(points) + volume.standard_error**2)
    assert (np.abs(volume.value - share) <= 5 * noise + 1e-6).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
def test_no_sampled_member_beats_a_bound(name: str, n_classes: int) -> None:
    sets = make_sets(name, n_classes)
    sample = sets.sample(400, random_state=0)
    assert sets.contains(sample).all()
    assert (sample >= sets.lower()[:, None] - 1e-9).all()
    assert (sample <= sets.upper()[:, None] + 1e-9).all()
    least, most = sets.entropy_bounds()
    entropies = entropy_of_valid(sample)
    assert (entropies >= least[:, None] - 1e-9).all()
    assert (entropies <= most[:, None] + 1e-9).all()
    utility = np.random.default_rng(1).normal(size=n_classes)
    assert (sample @ utility <= sets.upper_expectation(utility)[:, None] + 1e-9).all()
    assert (sample @ utility >= sets.lower_expectation(utility)[:, None] - 1e-9).all()
    assert (sample.max(axis=-1) >= sets.smallest_peak()[:, None] - 1e-9).all()


@pytest.mark.parametrize("n_classes", [2, 3, 6, 12])
def test_attaining_distributions(name: str, n_classes: int) -> None:
    sets = make_sets(name, n_classes)
    bounds = sets.entropy_bounds(return_distributions=True)
    utility = np.random.default_rng(2).normal(size=(6, n_classes))
    value, point = sets.upper_expectation(utility, return_distribution=True)
    low_value, low_point = sets.lower_expectation(utility, return_distribution=True)
    assert (point * utility).sum(axis=1) == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert (low_point * utility).sum(axis=1) == pytest.approx(low_value, rel=1e-9, abs=1e-12)
    assert entropy_of_valid(bounds.upper_distribution) == pytest.approx(bounds.upper, rel=1e-9, abs=1e-12)
    assert entropy_of_valid(bounds.lower_distribution) == pytest.approx(bounds.lower + bounds.lower_gap, abs=1e-9)
    for members_found in (point, low_point, bounds.lower_distribution, bounds.upper_distribution):
        assert (members_found >= 0).all()
        assert members_found.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
        slack = 1e-9 * (1 + np.abs(sets.radius))
        assert (sets._divergence(members_found[:, None])[:, 0] <= sets.radius + slack).all()


@pytest.mark.parametrize("n_classes", [3, 6, 20])
def test_the_largest_entropy_is_optimal(name: str, n_classes: int) -> None:
    """Entropy is concave: λ is optimal if and only if no member lies uphill, max ⟨∇H(λ), v − λ⟩ = 0."""
    sets = make_sets(name, n_classes)
    point = sets.entropy_bounds(return_distributions=True).upper_distribution
    assert point is not None
    slope = -np.log(np.maximum(point, 1e-300))
    uphill = sets.upper_expectation(slope) - (slope * point).sum(axis=1)
    assert (uphill <= 1e-8 * (1 + np.abs(slope).max(axis=1))).all()


@pytest.mark.parametrize("n_classes", [3, 6])
def test_no_local_search_finds_less_entropy(name: str, n_classes: int) -> None:
    sets = make_sets(name, n_classes)
    bounds = sets.entropy_bounds()
    found, _ = generic._descend(sets)
    slope = np.random.default_rng(0).normal(size=(36, n_classes))
    each_six_times = sets[np.tile(np.arange(6), 6)]
    for _ in range(40):
        _, point = each_six_times.upper_expectation(slope, return_distribution=True)
        slope = np.log(np.maximum(point, 1e-300))
    found = np.minimum(found, entropy_of_valid(point).reshape(6, 6).min(axis=0))
    assert (bounds.lower <= found + 1e-9).all()
    if name != "hellinger" and not ("brier" in name and n_classes > 3):
        assert bounds.lower_gap == pytest.approx(0.0, abs=1e-12), "exact, hence attained by a member"


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_closed_forms_against_the_generic_defaults(name: str, n_classes: int) -> None:
    sets = make_sets(name, n_classes, n=4)
    lower, upper = generic.envelope(sets)
    assert sets.lower() == pytest.approx(lower, abs=1e-9)
    assert sets.upper() == pytest.approx(upper, abs=1e-9)
    least, most = sets.entropy_bounds()
    low, high, _ = generic.min_entropy(sets)
    assert (low <= least + 1e-9).all()
    assert (least <= high + 1e-9).all()
    if name not in POLYTOPES:  # on flat faces the generic ascent settles slowly
        assert most == pytest.approx(generic.max_entropy(sets)[0], abs=1e-8)
    peak = sets.smallest_peak()
    for one, value in zip(sets[:3], peak, strict=False):
        low, high = max_min(one, -np.eye(n_classes), tolerance=1e-6)
        assert -high - 1e-9 <= value <= -low + 1e-9


@pytest.mark.parametrize("n_classes", [3, 5])
def test_vertices(name: str, n_classes: int) -> None:
    from scipy.spatial import ConvexHull

    sets = make_sets(name, n_classes)
    if name not in POLYTOPES:
        with pytest.raises(TypeError, match="has a curved boundary and no vertices"):
            sets.vertices(0)
        return
    for i in range(len(sets)):
        corners = sets.vertices(i)
        assert corners.max(axis=0) == pytest.approx(sets.upper()[i], abs=1e-9)
        assert corners.min(axis=0) == pytest.approx(sets.lower()[i], abs=1e-9)
        hull = ConvexHull(corners[:, 1:])
        assert len(hull.vertices) == len(corners), "each corner once, and no other point"
        fraction = hull.volume * np.prod(np.arange(1, n_classes))
        value, error = sets[i].volume(return_error=True)
        assert abs(fraction - value[0]) <= 1e-9 + 5 * error[0]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_decisions(name: str, n_classes: int) -> None:
    sets = make_sets(name, n_classes, n=5, levels=(0.02, 0.5))
    kept = {rule: sets.decide(rule) for rule in ("e-admissible", "maximal", "interval-dominance")}
    assert (kept["e-admissible"] <= kept["maximal"]).all()
    assert (kept["maximal"] <= kept["interval-dominance"]).all()
    assert (sets.decide("gamma-maximin") <= kept["maximal"]).all()
    sample = sets.sample(500, random_state=0)
    for k in range(n_classes):
        is_top = (sample[..., [k]] >= sample).all(axis=-1).any(axis=1)
        assert (kept["e-admissible"][:, k] >= is_top).all()
        for i in range(len(sets)):
            advantages = np.delete(np.eye(n_classes)[k] - np.eye(n_classes), k, axis=0)
            low, high = max_min(sets[i], advantages, tolerance=1e-7, sign_only=True)
            if low > 1e-7 or high < -1e-7:  # otherwise the class is best at the very edge of the set
                assert kept["e-admissible"][i, k] == (low > 0)
    assert np.array_equal(sets.decide("gamma-maximin").any(axis=1), np.ones(5, dtype=bool))


def test_general_utilities(name: str) -> None:
    """Three actions over four classes, against expectations of sampled members."""
    sets = make_sets(name, 4)
    utility = np.array([[1.0, 0.0, 0.0, -2.0], [0.0, 1.0, 0.5, 0.0], [0.4, 0.4, 0.4, 0.4]])
    admissible = sets.decide("e-admissible", utility)
    assert (admissible <= sets.decide("maximal", utility)).all()
    values = sets.sample(500, random_state=0) @ utility.T
    best = (values >= values.max(axis=-1, keepdims=True)).any(axis=1)
    assert (best <= admissible).all()
    for i, a in np.argwhere(~admissible):
        assert max_min(sets[int(i)], utility[a] - np.delete(utility, a, axis=0), sign_only=True)[1] < 1e-9


def test_measures_grow_with_the_threshold(score: Score) -> None:
    prediction = random_predictions(score, 1, 4, np.random.default_rng(3))
    scores = score(np.repeat(prediction, 500, axis=0), sample_uniform(500, 4, 0))
    spread = np.quantile(scores, np.linspace(0.05, 0.95, 12))
    sets = score.region(np.repeat(prediction, 12, axis=0), spread)
    lower, upper = sets.entropy_bounds()
    for growing in (sets.upper(), -sets.lower(), upper[:, None], -lower[:, None], -sets.smallest_peak()[:, None]):
        assert (np.diff(growing, axis=0) >= -1e-9).all()


@pytest.mark.parametrize(
    ("score_name", "n_classes"), [*((name, 3) for name in SCORES), *((name, k) for name in REGIONS for k in (2, 7))]
)
def test_degenerate_sets(score_name: str, n_classes: int) -> None:
    """Corners, zeros, points, everything and nothing: finite answers where there are members, NaN where not."""
    score = SCORES[score_name]
    first = np.stack([np.eye(n_classes)[0], np.full(n_classes, 1 / n_classes), np.eye(n_classes)[:2].mean(axis=0)])
    prediction = first if score.order == "first" else np.concatenate([1 + 4 * first[[0, 2]], np.ones((1, n_classes))])
    best = score(prediction, score.best_fit(score.check_prediction(prediction)))
    for threshold in (best, best + 1e-12, best + 0.05, best + 1e6, np.full(3, np.inf)):
        sets = score.region(prediction, threshold)
        assert not sets.is_empty().any()
        lower, upper = sets.entropy_bounds(base="K")
        for values in (sets.lower(), sets.upper(), lower, upper, sets.smallest_peak()):
            assert np.isfinite(values).all()
            assert (values >= -1e-12).all()
            assert (values <= 1 + 1e-12).all()
        assert (lower <= upper + 1e-12).all()
        volume, error = sets.volume(return_error=True)
        assert np.isfinite(volume).all()
        assert np.isfinite(error).all()
        assert np.isfinite(sets.sample(5, random_state=0)).all()
        assert sets.decide("maximal").any(axis=1).all()
        assert np.isfinite(sets.upper_expectation(np.arange(n_classes))).all()
    nothing = score.region(prediction, best - 1.0)
    assert nothing.is_empty().all()
    assert np.isnan(nothing.lower()).all()
    assert np.isnan(nothing.entropy_bounds()[1]).all()
    assert (nothing.volume() == 0).all()
    assert not nothing.decide("maximal").any()
    assert np.isnan(nothing.sample(2)).all()


def test_whole_simplex(score: Score) -> None:
    sets = score.region(random_predictions(score, 2, 4, np.random.default_rng(0)), np.inf)
    assert (sets.volume() == 1).all()
    assert (sets.lower() == 0).all()
    assert (sets.upper() == 1).all()
    assert sets.entropy_bounds(base="K")[1].tolist() == [1.0, 1.0]
    assert sets.vertices(0).shape == (4, 4)
    assert (
        sets.decide("e-admissible", np.array([[1, 0, 0, 0], [0.2, 0.2, 0.2, 0.2], [0.1, 0.1, 0.1, 0.1]])).tolist()
        == [[True, True, False]] * 2
    )


def test_uncertainty_families(score: Score) -> None:
    sets = make_sets(next(k for k, v in SCORES.items() if v is score), 4)
    for family in ("entropy", "zero-one"):
        parts = sets.uncertainty(family=family)
        assert parts.total == pytest.approx(parts.aleatoric + parts.epistemic)
        assert (parts.aleatoric >= -1e-12).all()
        assert (parts.epistemic >= -1e-12).all()
    if type(sets).__name__ == "TotalVariationBall":
        parts = sets.uncertainty(family="hartley")
        assert parts.total == pytest.approx(parts.aleatoric + parts.epistemic)
    else:
        with pytest.raises(TypeError, match="generalised Hartley"):
            sets.uncertainty(family="hartley")
    with pytest.raises(ValueError, match="family must be one of entropy, zero-one, hartley"):
        sets.uncertainty(family="gini")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.upper_expectation([1, 2]), r"utility must have shape \(3,\) or \(2, 3\), but has shape \(2,\)"),
        (lambda s: s.upper_expectation([1, 2, np.nan]), "utility contains NaN"),
        (lambda s: s.decide("best"), "rule must be one of e-admissible"),
        (lambda s: s.decide("maximal", [[1, 2]]), r"utility must have shape \(n_actions, 3\)"),
        (lambda s: s.entropy_bounds(base="bits"), "base must be None"),
        (lambda s: s.sample(0), "n must be at least 1"),
        (lambda s: s.volume(random_state="x"), "random_state must be a seed"),
    ],
)
def test_bad_questions(call, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call(SCORES["tv"].region(np.full((2, 3), 1 / 3), 0.2))


def test_direction_integrals_against_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    sharpness = np.array([3.0, 100.0, 1e4, 1e7])
    for k in (3, 10, 50):
        center = rng.dirichlet(np.full(k, 0.5), 4)
        toward = rays._dirichlet(center, sharpness, 5, rng) - center[:, None]
        directions = toward / np.abs(toward).max(axis=-1, keepdims=True)
        edge = rays.edge_distance(center[:, None], directions)
        found = rays.log_direction_integral(directions, edge, center, sharpness[:, None] * center)
        for i, j in np.ndindex(found.shape):

            def log_integrand(t: np.ndarray, g=center[i], s=sharpness[i], d=directions[i, j], k=k) -> np.ndarray:
                powers = s * g * np.log(np.maximum(g + t[:, None] * d, 1e-300))
                return powers.sum(axis=1) + (k - 2) * np.log(t)

            t = np.linspace(0.0, edge[i, j], 10_001)[1:]
            logs = log_integrand(t)
            seen, top = t[logs > logs.max() - 40.0], logs.max()
            area, _ = quad(
                lambda x, f=log_integrand, top=top: np.exp(f(np.array([x]))[0] - top),
                seen[0] - t[0],
                min(seen[-1] + t[0], edge[i, j]),
                points=[t[logs.argmax()]],
                limit=200,
            )
            assert found[i, j] == pytest.approx(np.log(area) + top, abs=1e-6)
