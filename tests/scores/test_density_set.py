"""Level sets of mixtures of Dirichlets against SciPy's densities, dense grids and plain Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import dirichlet

import credalset as cs
from credalset.scores import NegativeLogDensity
from credalset.scores.density import mixture as density
from credalset.scores.density import proposals as density_proposals
from credalset.sets import box
from credalset.simplex import grid

SCORE = NegativeLogDensity()
THRESHOLDS = (-2.0, -0.7, 1.0)


def mixtures(n: int, n_classes: int, n_components: int = 4, seed: int = 0) -> np.ndarray:
    """Mixtures with concentrations below and above one."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_components), n)
    theta = np.exp(rng.normal(0.0, 1.3, (n, n_components, n_classes)))
    return np.concatenate([weights[..., None], theta], axis=-1)


def log_density(mixture: np.ndarray, points: np.ndarray, pull: float = 1e-3) -> np.ndarray:
    """Independent log density of one mixture (C, K + 1) at points (M, K)."""
    y = (points + pull) / (1.0 + points.shape[1] * pull)
    y /= y.sum(axis=1, keepdims=True)
    return np.log(sum(part[0] * dirichlet(part[1:]).pdf(y.T) for part in mixture))


# --- score ---


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_score_is_the_negative_log_density(n_classes: int) -> None:
    predictions = mixtures(20, n_classes)
    labels = np.random.default_rng(1).dirichlet(np.full(n_classes, 0.5), 20)
    labels[0] = np.eye(n_classes)[0]
    expected = [-float(np.squeeze(log_density(m, y[None]))) for m, y in zip(predictions, labels, strict=True)]
    assert SCORE(predictions, labels) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_mixture_of_one_is_a_dirichlet() -> None:
    rng = np.random.default_rng(0)
    theta = 1.0 + rng.gamma(2.0, 3.0, (30, 4))
    labels = rng.dirichlet(np.ones(4), 30)
    single = np.concatenate([np.ones((30, 1, 1)), theta[:, None, :]], axis=-1)
    score = NegativeLogDensity(pull=0.0)
    assert score(single, labels) == pytest.approx(score(theta, labels), rel=1e-10)
    assert score.best_fit(score.check_prediction(single)) == pytest.approx(score.best_fit(theta), abs=1e-6)
    sets, balls = score.region(single, -1.0), score.region(theta, -1.0)
    assert np.array_equal(sets.contains(labels), balls.contains(labels))
    assert np.array_equal(sets.is_empty(), balls.is_empty())
    for ours, exact in zip(sets.envelope(), balls.envelope(), strict=True):
        assert ours == pytest.approx(exact, abs=1e-5), "for a single component the envelopes are exact"
    value, error = sets.volume(return_error=True)
    assert np.all(np.abs(value - balls.volume()) <= 5 * error + 1e-12)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_score_and_region_agree_to_the_last_bit(threshold: float) -> None:
    predictions = mixtures(15, 3)
    points = np.random.default_rng(2).dirichlet(np.ones(3), (15, 50))
    sets = SCORE.region(predictions, threshold)
    many = sets.contains(points)
    for j in range(50):
        one = SCORE(predictions, points[:, j]) <= threshold
        assert np.array_equal(many[:, j], one)
        assert np.array_equal(sets[3:9].contains(points[3:9, j]), one[3:9])
    scores = SCORE(predictions, points[:, 0])
    assert SCORE.region(predictions, scores).contains(points[:, 0]).all(), "closed sets hold their edge"


def test_bits_do_not_depend_on_the_batch() -> None:
    predictions, labels = mixtures(200, 5), np.random.default_rng(3).dirichlet(np.ones(5), 200)
    together = SCORE(predictions, labels)
    assert np.array_equal(together, [SCORE(predictions[i : i + 1], labels[i : i + 1])[0] for i in range(200)])


# --- region ---


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_volume_and_samples_against_monte_carlo(n_classes: int, threshold: float) -> None:
    sets = SCORE.region(mixtures(8, n_classes), threshold)
    points = np.random.default_rng(4).dirichlet(np.ones(n_classes), 40_000)
    member = sets.contains(points, broadcast=True)
    share = member.mean(axis=1)
    value, error = sets.volume(return_error=True, n_rays=8000)
    noise = np.sqrt(share * (1 - share) / 40_000 + error**2) + 1e-4
    assert np.all(np.abs(value - share) < 5 * noise)
    drawn = sets.sample(400, random_state=0)
    full = ~sets.is_empty()
    assert sets[full].contains(drawn[full]).all()
    for i in np.flatnonzero(member.sum(axis=1) > 400):
        inside = points[member[i]]
        spread = inside.std(axis=0) * np.sqrt(1 / 400 + 1 / len(inside)) + 1e-9
        assert np.all(np.abs(drawn[i].mean(axis=0) - inside.mean(axis=0)) < 5 * spread)


@pytest.mark.parametrize("radius", [0.1, 1e-3, 1e-6])
def test_small_sets_around_a_peak(radius: float) -> None:
    """A mixture of one, read without a pull, is a Dirichlet, whose level sets have exact volumes."""
    theta = np.array([[3.0, 3.0, 3.0], [8.0, 3.0, 2.0], [1.2, 1.0, 40.0]])
    score = NegativeLogDensity(pull=0.0)
    lowest = score(theta, score.best_fit(theta))
    single = np.concatenate([np.ones((3, 1, 1)), theta[:, None, :]], axis=-1)
    sets, balls = score.region(single, lowest + radius), score.region(theta, lowest + radius)
    value, error = sets.volume(return_error=True)
    assert np.all(error < 0.1 * value)
    assert np.all(np.abs(value - balls.volume()) < 5 * error)
    drawn = sets.sample(50, random_state=0)
    assert sets.contains(drawn).all()
    assert all(len(np.unique(points, axis=0)) > 40 for points in drawn)


def test_corners_over_many_classes() -> None:
    """One sure class and nine that hug zero: plain draws from such a density hardly ever meet its level set."""
    mixture = np.array([[[1.0, 5.0, *[0.1] * 9]]])
    label = np.zeros((1, 10))
    label[0, :2] = 0.96, 0.04
    sets = SCORE.region(mixture, SCORE(mixture, label))
    logs = [sets.log_volume(return_error=True, random_state=seed, n_rays=2000) for seed in range(6)]
    values = np.array([log.value[0] for log in logs])
    errors = np.array([log.standard_error[0] for log in logs])
    assert np.all(errors < 0.4)
    assert np.all(np.abs(values - np.log(np.exp(values).mean())) < 4 * errors)
    drawn = sets.sample(50, random_state=0)
    assert sets.contains(drawn).all()
    assert len(np.unique(drawn[0], axis=0)) > 40


def test_proposals_integrate_to_one() -> None:
    """Any weight other than 1/q would not give the simplex its volume of one."""
    rng = np.random.default_rng(12)
    for n_classes in (2, 5):
        mixture = SCORE.mixture(SCORE.check_prediction(mixtures(5, n_classes)))
        peak, height = density.highest_points(mixture)
        for drop in (0.5, 5.0):
            proposal = density_proposals.prepare(mixture, peak, height - drop)
            for multiple in density_proposals.MULTIPLES:
                drawn = density_proposals.propose(proposal, np.full(5, multiple), 4_000, rng)
                weights = np.exp(drawn.log_weights)
                noise = weights.std(axis=1) / np.sqrt(4_000)
                assert np.all(np.abs(weights.mean(axis=1) - 1.0) < 5 * noise + 1e-9)
                assert drawn.points.sum(axis=-1) == pytest.approx(np.ones((5, 4_000)))
                assert drawn.points.min() >= 0


def test_everything_has_volume_one_exactly() -> None:
    wide = np.array([[[1 - 1e-9, 1e4, 1e4], [1e-9, 1.0, 1.0]]])
    sets = SCORE.region(wide, 25.0)
    assert list(sets.volume(return_error=True)) == [1.0, 0.0]
    flat = np.array([[[1.0, 1.0, 1.0, 1.0]]])
    corners = SCORE.region(flat, SCORE(flat, SCORE.best_fit(SCORE.check_prediction(flat))) + 3.0)
    assert np.array_equal(corners.upper(), np.ones((1, 3)))


def test_draws_that_repeat_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("credalset.scores.density.score.MIN_POOL", 4)
    monkeypatch.setattr("credalset.scores.density.score.POOL_PER_DRAW", 1)
    monkeypatch.setattr("credalset.scores.density.score.SECOND_POOL", 1)
    with pytest.warns(cs.CredalSetWarning, match="some of their 50 draws repeat"):
        SCORE.region(mixtures(2, 6), -3.0).sample(50, random_state=0)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_envelopes_hold_every_member_and_little_else(threshold: float) -> None:
    sets = SCORE.region(mixtures(20, 3), threshold)
    points = grid(3, 0.01)
    member = sets.contains(points, broadcast=True)
    lower, upper = sets.envelope()
    slack = []
    for i in np.flatnonzero(member.any(axis=1)):
        inside = points[member[i]]
        assert np.all(lower[i] <= inside.min(axis=0) + 1e-12)
        assert np.all(upper[i] >= inside.max(axis=0) - 1e-12)
        slack.append(upper[i] - inside.max(axis=0))
    assert np.median(slack) < 0.01, "the grid itself accounts for up to 0.01"


@pytest.mark.parametrize("n_classes", [3, 6])
def test_the_box_bounds_expectations_and_entropies_of_samples(n_classes: int) -> None:
    sets = SCORE.region(mixtures(10, n_classes, seed=5), 0.0)
    drawn = sets.sample(500, random_state=0)
    utility = np.random.default_rng(6).normal(size=n_classes)
    values = drawn @ utility
    assert np.all(sets.upper_expectation(utility) >= values.max(axis=1) - 1e-9)
    assert np.all(sets.lower_expectation(utility) <= values.min(axis=1) + 1e-9)
    entropies = -np.where(drawn > 0, drawn * np.log(np.maximum(drawn, 1e-300)), 0.0).sum(axis=-1)
    bounds = sets.entropy_bounds()
    assert np.all(bounds.upper >= entropies.max(axis=1) - 1e-9)
    assert np.all(bounds.lower <= entropies.min(axis=1) + 1e-9)
    assert np.all(bounds.lower_gap >= 0)
    assert np.all(sets.smallest_peak() <= drawn.max(axis=-1).min(axis=1) + 1e-9)
    tops = np.eye(n_classes, dtype=bool)[drawn.argmax(axis=-1)].any(axis=1)
    for rule in ("e-admissible", "maximal", "interval-dominance"):
        assert np.all(sets.decide(rule) | ~tops), "an action that is best for some member survives"


def test_the_peak_is_found() -> None:
    predictions = mixtures(40, 3, n_components=6, seed=7)
    points = grid(3, 0.005)
    best = SCORE(predictions, SCORE.best_fit(SCORE.check_prediction(predictions)))
    for mixture, score in zip(predictions, best, strict=True):
        assert score <= SCORE(np.repeat(mixture[None], len(points), axis=0), points).min() + 1e-9


def test_monomial_peak_against_a_grid() -> None:
    rng = np.random.default_rng(8)
    points = 0.01 + 0.97 * grid(3, 0.01)
    for powers in [*rng.normal(0.0, 2.0, (30, 3)), np.array([-1.0, -2.0, -3.0]), np.array([0.001, 5.0, 5.0])]:
        found = density.monomial_peak(powers[None], 0.01)[0]
        assert found.sum() == pytest.approx(1.0)
        assert found.min() >= 0.01 - 1e-12
        assert powers @ np.log(found) >= (np.log(points) @ powers).max() - 1e-12


def test_box_against_linear_programming() -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng(9)
    lower = rng.uniform(0.0, 0.15, (20, 5))
    upper = np.minimum(lower + rng.uniform(0.1, 0.7, (20, 5)), 1.0)
    upper[upper.sum(axis=1) < 1.0] = 1.0
    utility = rng.normal(size=(20, 5))
    value, point = box.support(lower, upper, utility)
    flat = box.most_even(lower, upper)
    for i in range(20):
        best = linprog(-utility[i], A_eq=np.ones((1, 5)), b_eq=[1.0], bounds=list(zip(lower[i], upper[i], strict=True)))
        assert value[i] == pytest.approx(-best.fun, abs=1e-9)
        cost = np.append(np.zeros(5), 1.0)
        below = np.hstack([np.eye(5), -np.ones((5, 1))])
        limits = [*zip(lower[i], upper[i], strict=True), (None, None)]
        peak = linprog(cost, below, np.zeros(5), np.append(np.ones(5), 0.0)[None], [1.0], limits)
        assert flat[i].max() == pytest.approx(peak.fun, abs=1e-9)
    assert point.sum(axis=1) == pytest.approx(np.ones(20))


def test_largest_above_bounds_every_distribution_above() -> None:
    rng = np.random.default_rng(10)
    predictions = mixtures(30, 4)
    lower = rng.dirichlet(np.ones(4), 30) * rng.uniform(0.2, 0.95, (30, 1))
    bound = SCORE.largest_above(SCORE.check_prediction(predictions), lower)
    spare = 1.0 - lower.sum(axis=1, keepdims=True)
    worst = np.full(30, -np.inf)
    for _ in range(500):
        worst = np.maximum(worst, SCORE(predictions, lower + spare * rng.dirichlet(np.full(4, 0.4), 30)))
    assert np.all(bound >= worst - 1e-9)
    assert np.median(bound - worst) < 1.0


# --- manners ---


def test_whole_simplex_and_empty_sets() -> None:
    predictions = mixtures(3, 3)
    whole = SCORE.region(predictions, np.inf)
    assert whole.volume() == pytest.approx(np.ones(3))
    assert whole.contains(np.tile(np.eye(3)[0], (3, 1))).all()
    empty = SCORE.region(predictions, -50.0)
    assert empty.is_empty().all()
    assert (empty.volume() == 0).all()
    assert np.isnan(empty.lower()).all()


def test_sizes_and_slices() -> None:
    sets = SCORE.region(mixtures(5, 3), 0.0)
    assert repr(sets).startswith("CredalSet: 5 density sets over 3 classes, threshold 0")
    assert sets[2:4].n_classes == 3
    assert len(sets[[0, 4]]) == 2
    assert sets.to_dict()["prediction_0"] == pytest.approx(SCORE.mean(SCORE.check_prediction(mixtures(5, 3)))[:, 0])
    assert sets[1].volume()[0] == pytest.approx(sets.volume()[1], rel=0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m[:, :, :2], r"shape \(N, components, 1 \+ classes\)"),
        (lambda m: np.where(np.arange(4) == 0, -m, m), "weights .* not negative and sum to one, but those of row 0"),
        (lambda m: m * np.array([0.5, 1.0, 1.0, 1.0]), "weights .* sum to one"),
        (
            lambda m: m * np.array([1.0, 0.0, 1.0, 1.0]),
            "concentrations .* from 1e-08 to 1e\\+10, but they go from 0 to",
        ),
        (lambda m: m * np.array([1.0, np.nan, 1.0, 1.0]), "NaN"),
        (lambda m: m * np.array([1.0, 1e306, 1.0, 1.0]), "Clip them"),
        (lambda m: np.where(m > 0, "a", "b"), "prediction must hold numbers, but holds text"),
    ],
)
def test_mixtures_that_are_none(change: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        SCORE.region(change(mixtures(2, 3)), 0.0)  # type: ignore[operator]


def test_predictions_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"both need one row per item"):
        SCORE(mixtures(2, 3), np.full((2, 4), 0.25))
    with pytest.raises(ValueError, match="Use NegativeLogDensity with pull > 0"):
        NegativeLogDensity(pull=0.0).region(mixtures(2, 3), 0.0)
    with pytest.raises(ValueError, match="mixtures over 3 classes, but 4 are expected"):
        cs.conformalize(mixtures(30, 4), np.full((30, 4), 0.25), "density").predict_set(mixtures(2, 3), 0.1)
    with pytest.raises(ValueError, match="pull must be a finite number of at least 0"):
        NegativeLogDensity(pull=-1.0)
    with pytest.raises(ValueError, match="convex"):
        cs.conformalize(mixtures(30, 3), np.full((30, 3), 1 / 3), "density", noise=cs.UnbiasedVotes())


def test_coverage() -> None:
    """Labels drawn from the mixtures themselves are covered at the nominal rate."""
    rng = np.random.default_rng(11)
    predictions = mixtures(4000, 3)
    labels = np.array([rng.dirichlet(m[rng.choice(4, p=m[:, 0]), 1:]) for m in predictions])
    labels /= labels.sum(axis=1, keepdims=True)
    calibration = cs.conformalize(predictions[:2000], labels[:2000], "density")
    covered = calibration.predict_set(predictions[2000:], 0.1).contains(labels[2000:]).mean()
    low, high = calibration.coverage_distribution(0.1).interval(0.999)
    assert low - 0.02 < covered < high + 0.02
