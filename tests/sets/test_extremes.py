"""The ends of the range of doubles: radii, utilities, concentrations and positions, for every registered score.

Nothing raises, nothing warns (warnings are errors in tests), nothing is NaN for a set that has members; and volumes
follow the power law of the radius that the geometry says.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import Hellinger, NegativeLogDensity, RelativeLikelihood, Score, Wasserstein
from credalset.sets.credal_set import CredalSet
from credalset.sets.magnify import magnify
from tests.conftest import SCORES

POLYTOPES = {"tv", "ws", "inner", "intervals", "normalized-tv", "normalized-ws", "normalized-inner"}
TINIEST = 5e-324


def special_centers(n_classes: int) -> np.ndarray:
    eye, flat = np.eye(n_classes), np.full(n_classes, 1.0 / n_classes)
    small, smallest = flat.copy(), flat.copy()
    small[0], smallest[0] = 1e-300, TINIEST
    sharp = np.r_[0.7, np.full(n_classes - 1, 0.3 / (n_classes - 1))]
    return np.stack(
        [eye[0], eye[-1], flat, eye[:2].mean(axis=0), small / small.sum(), smallest / smallest.sum(), sharp]
    )


def extreme_thresholds(score: Score, prediction: np.ndarray) -> dict[str, np.ndarray]:
    n_classes = prediction.shape[1]
    best = score(prediction, score.best_fit(score.check_prediction(prediction)))
    corners = np.stack([score(prediction, np.tile(corner, (len(prediction), 1))) for corner in np.eye(n_classes)])
    largest = np.where(np.isfinite(corners), corners, 50.0).max(axis=0)
    return {
        "the smallest": best + TINIEST,
        "tiny": best + 1e-300,
        "just below the largest": np.maximum(np.nextafter(largest, -np.inf), best),
        "the largest": largest,
    }


def answers(sets: CredalSet, name: str) -> dict[str, np.ndarray]:
    utility = np.arange(sets.n_classes)
    bounds = sets.entropy_bounds()
    found = {
        "lower": sets.lower(),
        "upper": sets.upper(),
        "least entropy": bounds.lower,
        "largest entropy": bounds.upper,
        "gap": bounds.lower_gap,
        "peak": sets.smallest_peak(),
        "upper expectation": sets.upper_expectation(utility),
        "lower expectation": sets.lower_expectation(utility),
        "volume": sets.volume(),
        "draws": sets.sample(3, random_state=0),
        "maximal": sets.decide("maximal"),
        "e-admissible": sets.decide("e-admissible"),
    }
    if name in POLYTOPES and sets.n_classes <= 3:
        found["vertices"] = np.concatenate([sets.vertices(i) for i in range(len(sets))])
    return found


@pytest.mark.parametrize(
    ("name", "n_classes"),
    [
        (name, n_classes)
        for name in SCORES
        for n_classes in ([3] if name.startswith("normalized") or name == "kl-nats" else [2, 3, 5])
        if name != "prototypes"  # whose parts are these
    ],
)
def test_extreme_radii(name: str, n_classes: int) -> None:
    score, centers = SCORES[name], special_centers(n_classes)
    prediction = centers if score.order == "first" else 1.0 + 4.0 * centers
    for size, threshold in extreme_thresholds(score, prediction).items():
        sets = score.region(prediction, threshold)
        assert not sets.is_empty().any()
        for question, answer in answers(sets, name).items():
            assert np.isfinite(answer).all(), (size, question)
            assert answer.min() >= -1e-12, (size, question)
        assert not np.isnan(sets.log_volume()).any()


@pytest.mark.parametrize("n_classes", [2, 3, 6, 17])
@pytest.mark.parametrize("name", ["tv", "ws", "kl-nats", "so", "hellinger", "inner"])
def test_volumes_follow_their_power_law(name: str, n_classes: int) -> None:
    """Inside the simplex and about a corner a volume is a power of the radius, down to the smallest radius there is."""
    score = SCORES[name]
    inside, corner = special_centers(n_classes)[[6, 0]]
    curved = name in {"kl-nats", "so", "hellinger"}
    cases = [] if name == "inner" else [(inside, 0.5 * (n_classes - 1) if curved else n_classes - 1.0)]
    cases += [] if name == "kl-nats" else [(corner, n_classes - 1.0)]
    for center, power in cases:
        prediction = center[None] if score.order == "first" else 1.0 + center[None]
        radii = np.array([1e-25, 1e-100, 1e-250, 1e-300, TINIEST])
        sets = score.region(np.tile(prediction, (5, 1)), radii)
        value, error = sets.log_volume(return_error=True)
        expected = power * (np.log(radii) - np.log(radii[0]))
        assert value - value[0] == pytest.approx(expected, rel=1e-9, abs=5 * np.hypot(error, error[0]).max() + 1e-6)


@pytest.mark.parametrize("score", [SCORES["kl-nats"], RelativeLikelihood(), Hellinger()], ids=lambda s: s.name)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_tiny_masses_and_tiny_radii_together(score: Score, n_classes: int) -> None:
    """Masses of the order of the radius: the same volume, rescaled, as of a ball that doubles can hold."""
    center = np.array([1.0 - 3e-9, 3e-9]) if n_classes == 2 else np.array([0.4, 0.6 - 3e-9, 3e-9])
    shrunk = center.copy()
    shrunk[-1] = 3e-9 * 2.0**-900
    shrunk[-2] += 3e-9
    radii = np.array([1e-9, 1e-9 * 2.0**-900])
    prediction = np.stack([center, shrunk])
    if score.order == "second":
        sets = score.region(1.0 + prediction, radii)  # weight one, radius −log(1 − threshold)
        sets = type(sets)(sets.score, sets.prediction, radii, center=prediction, radius=radii)
    else:
        sets = score.region(prediction, radii)
    value, error = sets.log_volume(return_error=True)
    power = 1.0 + 0.5 * (n_classes - 2)
    assert value[0] - value[1] == pytest.approx(power * 900 * np.log(2.0), abs=5 * np.hypot(*error) + 1e-6)


def test_magnifying_keeps_volumes() -> None:
    """Magnify balls that need no magnifying, and compare."""
    score = SCORES["kl-nats"]
    center = np.array([[0.6, 0.3, 0.1], [0.5, 0.5 - 1e-12, 1e-12], [1.0 - 2e-12, 1e-12, 1e-12]])
    sets = score.region(center, np.full(3, 1e-12))
    larger, radius, log_factor = magnify(sets.center, sets.radius, below=1e-6, ratio=1e4)
    assert (radius > 1e-7).all()
    value = score.region(larger, radius).log_volume() + log_factor
    assert value == pytest.approx(sets.log_volume(), abs=1e-3)


# --- utilities, concentrations, positions ---


@pytest.mark.parametrize("scale", [1e308, 1e-308, 1e-320])
def test_extreme_utilities(score: Score, scale: float) -> None:
    centers = special_centers(4)[[2, 6]]
    sets = score.region(centers if score.order == "first" else 1.0 + 4.0 * centers, 0.6)
    utility = np.array([1.0, -1.0, 0.5, 0.0])
    for side in ("upper_expectation", "lower_expectation"):
        plain, point = getattr(sets, side)(utility, return_distribution=True)
        value, attained = getattr(sets, side)(scale * utility, return_distribution=True)
        # 1e-320 has three digits itself
        tolerance = 2e-3 if scale < 1e-310 else 1e-12
        assert value / scale == pytest.approx(plain, rel=tolerance, abs=tolerance, nan_ok=True)
        if scale > 1e-310:
            assert attained == pytest.approx(point, abs=1e-9, nan_ok=True)
    matrix = np.stack([utility, -utility, 0.1 * np.ones(4)])
    for rule in ("e-admissible", "maximal", "interval-dominance", "gamma-maximin", "gamma-maximax"):
        assert np.array_equal(sets.decide(rule, scale * matrix), sets.decide(rule, matrix)) or scale < 1e-310


@pytest.mark.parametrize("score", [RelativeLikelihood(), NegativeLogDensity()], ids=lambda s: s.name)
def test_extreme_concentrations(score: Score) -> None:
    with pytest.raises(ValueError, match=r"prediction must hold Dirichlet concentrations of at most 1e\+100.*1e\+306"):
        score(np.full((1, 3), 1e306), np.full((1, 3), 1 / 3))
    sets = score.region(np.array([[1e99, 2.0, 1.0], [1e100, 1e100, 1e100]]), 0.5)
    for answer in (sets.lower(), sets.upper(), np.stack(list(sets.entropy_bounds()), axis=1)):
        assert np.isfinite(answer[~sets.is_empty()]).all()


@pytest.mark.parametrize(
    "positions",
    [(-1e308, 0.0, 1e308), (0.0, 1e-310, 1.0), (0.0, 1e-120, 2e-120), (0.0, 1.0, 1e200), (0.0, 1e-10, 1e10)],
)
def test_positions_beyond_doubles_are_refused(positions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"positions must lie between 1e-100 and 1e\+100 apart.* but neighbours are"):
        Wasserstein(positions)


@pytest.mark.parametrize(
    "positions", [(0.0, 1e-7, 1e7), (0.0, 1e-99, 2e-99, 3e-99, 4e-99), (0, 1e99, 2e99, 3e99, 4e99)]
)
def test_positions_of_extreme_spread(positions: tuple[float, ...]) -> None:
    centers = special_centers(len(positions))
    for radius in (0.1 * positions[1], 0.1 * positions[-1]):
        sets = Wasserstein(positions).region(centers, radius)
        for question, answer in answers(sets, "curved").items():
            assert np.isfinite(answer).all(), question
