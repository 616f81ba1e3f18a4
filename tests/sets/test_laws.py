"""Laws of every kind of set: what belongs to it, and that its answers are attained by members and exceeded by none.

The members that answers are held against come from ``contains`` alone, that is from the score: none of the geometry
under test has a hand in them. Every law runs over the registry in `tests.sets.makers`, on a few sets and on thousands,
which take other ways through the code.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import REGISTRY
from credalset.scores.density import DensitySet
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.conftest import SCORES
from tests.sets.makers import KINDS

CLASSES = (2, 3, 10)
MANY = 2000  # of ten classes: more than a block, and enough for threads
each_kind = pytest.mark.parametrize("kind", KINDS)
#: every kind at every number of classes; thousands of those that have another way for many
MANY_KINDS = [kind for kind in SCORES if SCORES[kind].name != "normalized" and kind not in ("brier", "kl-nats")]
each_case = pytest.mark.parametrize(
    ("kind", "n_classes", "n"),
    [*((kind, k, 6) for kind in KINDS for k in CLASSES), *((kind, 10, MANY) for kind in MANY_KINDS)],
)


def make(kind: str, n_classes: int, n: int = 6, seed: int = 0) -> CredalSet:
    sets = KINDS[kind](n_classes, n, seed)
    return sets[~sets.is_empty()]  # exact cross-conformal sets of inner products can be


def start_of(sets: CredalSet) -> np.ndarray:
    """A member of each set: its centre, or the distribution that fits best."""
    inside = sets.contains(sets.center)
    best = sets.center if inside.all() else sets.score.best_fit(sets.prediction)
    start = np.where(inside[:, None], sets.center, best)
    assert sets.contains(start).all()
    return start


def rim(sets: CredalSet, n_targets: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Members just inside and points just outside along ways from a member to corners and elsewhere, (N, M, K) each.

    Asks ``contains`` only. Where the whole way belongs to the set, both are its end.
    """
    rng = np.random.default_rng(seed)
    k = sets.n_classes
    corners = np.eye(k)[rng.permutation(k)[: min(k, 3)]]
    targets = np.concatenate([corners, rng.dirichlet(np.full(k, 0.5), n_targets)])
    start = start_of(sets)[:, None]
    step = targets[None] - start
    low, high = np.zeros((*step.shape[:2], 1)), np.ones((*step.shape[:2], 1))
    low = np.where(sets.contains(legal(start + step))[..., None], 1.0, low)
    for _ in range(34):
        middle = 0.5 * (low + high)
        inside = sets.contains(legal(start + middle * step))[..., None]
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return legal(start + low * step), legal(start + high * step)


def legal(points: np.ndarray) -> np.ndarray:
    points = np.maximum(points, 0.0)
    return points / points.sum(axis=-1, keepdims=True)


def slack_of(sets: CredalSet) -> np.ndarray:
    return 1e-9 * (1.0 + np.abs(sets.radius))


def test_every_score_and_every_set_is_under_the_laws() -> None:
    kinds = {type(make(kind, 3)) for kind in KINDS}
    assert {type(score) for score in SCORES.values()} == set(REGISTRY.values())
    assert {DensitySet} <= kinds
    assert {type(SCORES[name].region(make(name, 3).prediction, 0.5)) for name in SCORES} < kinds


@each_kind
@pytest.mark.parametrize("n_classes", CLASSES)
def test_a_member_is_within_the_radius_and_nothing_else_is(kind: str, n_classes: int) -> None:
    """``contains`` asks the score, all geometry the divergence and the radius: they must mean the same set."""
    sets = make(kind, n_classes)
    inside, outside = rim(sets, 3)
    shared = np.broadcast_to(sample_uniform(8, n_classes, 1), (len(sets), 8, n_classes))
    points = np.concatenate([inside, outside, 0.999 * inside + 0.001 * start_of(sets)[:, None], shared], axis=1)
    divergence, limit = sets._divergence(points), sets.radius[:, None]
    member = sets.contains(points)
    clear = np.abs(divergence - limit) > slack_of(sets)[:, None]
    assert np.array_equal((divergence <= limit)[clear], member[clear])
    assert (clear & member).any()
    assert (clear & ~member).any()
    beyond = sets._divergence(outside)
    crossed = ~sets.contains(outside) & np.isfinite(beyond)  # at a corner the way may end before it leaves
    tolerance = 1e-6 * (1.0 + np.abs(np.broadcast_to(limit, beyond.shape)))
    assert (np.abs(sets._divergence(inside) - limit)[crossed] <= tolerance[crossed]).all()
    assert (np.abs(beyond - limit)[crossed] <= tolerance[crossed]).all()
    assert crossed.any()


def answers_exceed(sets: CredalSet, members: np.ndarray, step: int = 1, slack: float = 1e-9) -> None:
    """No member of every set, or of every n-th, goes beyond any answer."""
    some = np.s_[::step, None]
    lower, upper = sets.envelope()
    assert (members >= lower[some] - slack).all()
    assert (members <= upper[some] + slack).all()
    least, most = sets.entropy_bounds()
    entropies = entropy_of_valid(members)
    assert (entropies >= least[some] - slack).all()
    assert (entropies <= most[some] + slack).all()
    utility = np.random.default_rng(1).normal(size=(len(sets), sets.n_classes))
    values = np.einsum("nmk,nk->nm", members, utility[::step])
    assert (values <= sets.upper_expectation(utility)[some] + slack).all()
    assert (values >= sets.lower_expectation(utility)[some] - slack).all()
    peaks = members.max(axis=2)
    assert (peaks >= sets.smallest_peak()[some] - slack).all()
    is_top = (members >= peaks[..., None]).any(axis=1)
    assert (sets.decide()[::step] >= is_top).all()


@each_case
def test_no_member_exceeds_an_answer(kind: str, n_classes: int, n: int) -> None:
    sets, step = make(kind, n_classes, n), 1 if n < MANY else 20
    answers_exceed(sets, rim(sets[::step], 6)[0], step)


@each_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_member_on_a_grid_exceeds_an_answer(kind: str, n_classes: int) -> None:
    sets = make(kind, n_classes, seed=1)
    points = grid(n_classes, 0.001 if n_classes == 2 else 0.02)
    inside = sets.contains(points, broadcast=True)
    assert inside.any()
    start = start_of(sets)
    answers_exceed(sets, np.where(inside[..., None], points, start[:, None]))


@each_case
def test_answers_are_attained_by_members(kind: str, n_classes: int, n: int) -> None:
    """To rounding: the points that come with answers belong to the set, by its score, and have the values claimed."""
    sets = make(kind, n_classes, n)
    bounds = sets.entropy_bounds(return_distributions=True)
    assert bounds.lower_distribution is not None
    assert bounds.upper_distribution is not None
    found = {"least": bounds.lower_distribution}
    assert entropy_of_valid(found["least"]) == pytest.approx(bounds.lower + bounds.lower_gap, abs=1e-9)
    if sets.hull is None:
        utility = np.random.default_rng(2).normal(size=(len(sets), n_classes))
        for name, ask in (("high", sets.upper_expectation), ("low", sets.lower_expectation)):
            value, found[name] = ask(utility, return_distribution=True)
            assert (found[name] * utility).sum(axis=1) == pytest.approx(value, rel=1e-9, abs=1e-12)
        found["most"] = bounds.upper_distribution
        assert entropy_of_valid(found["most"]) == pytest.approx(bounds.upper - bounds.upper_gap, abs=1e-9)
        lower, upper = sets.envelope()
        for k in range(min(n_classes, 3)):
            unit = np.eye(n_classes)[k]
            value, found[f"upper {k}"] = sets.upper_expectation(unit, return_distribution=True)
            assert value == pytest.approx(upper[:, k], abs=1e-9)
            value, found[f"lower {k}"] = sets.lower_expectation(unit, return_distribution=True)
            assert value == pytest.approx(lower[:, k], abs=1e-9)
    for name, point in found.items():
        assert (point >= 0).all(), name
        assert point.sum(axis=1) == pytest.approx(1.0, abs=1e-12), name
        assert is_nearly_member(sets, point).all(), name


def is_nearly_member(sets: CredalSet, points: np.ndarray) -> np.ndarray:
    """Whether points (N, K) are members, or would be if they were moved toward one by a little."""
    drawn_in = points + 1e-6 * (start_of(sets) - points)
    return sets.contains(points) | sets.contains(legal(drawn_in))


@pytest.mark.parametrize("kind", [*SCORES, "mixture"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_answers_grow_with_the_threshold(kind: str, n_classes: int) -> None:
    base = make(kind, n_classes, 1)
    best = sets_score(base, start_of(base))
    rise = (base.threshold - best) * np.linspace(0.05, 1.5, 9)
    sets = base.score.region(np.repeat(base.prediction, 9, axis=0), best + rise)
    least, most = sets.entropy_bounds()
    lower, upper = sets.envelope()
    utility = np.random.default_rng(4).normal(size=n_classes)
    growing = [upper, -lower, most[:, None], -least[:, None], -sets.smallest_peak()[:, None]]
    growing += [sets.upper_expectation(utility)[:, None], sets.decide().astype(float)]
    if sets.answers()["volume"] == "exact":
        growing.append(np.asarray(sets.volume())[:, None])
    for values in growing:
        assert (np.diff(values, axis=0) >= -1e-9).all()
    pool = sample_uniform(300, n_classes, 5)
    assert (np.diff(sets.contains(pool, broadcast=True).astype(int), axis=0) >= 0).all()


def sets_score(sets: CredalSet, points: np.ndarray) -> np.ndarray:
    return sets.score(sets.prediction, points)


@pytest.mark.parametrize("kind", [*SCORES, "mixture"])
@pytest.mark.parametrize("n_classes", CLASSES)
def test_sets_are_empty_below_the_smallest_score(kind: str, n_classes: int) -> None:
    base = make(kind, n_classes, 3)
    best_fit = base.score.best_fit(base.prediction)
    least = sets_score(base, best_fit)
    there = base.score.region(base.prediction, least + 1e-9)
    assert not there.is_empty().any()
    assert there.contains(best_fit).all()
    gone = base.score.region(base.prediction, least - 1e-6)
    assert gone.is_empty().all()
    assert not gone.contains(np.concatenate([best_fit, sample_uniform(50, n_classes, 0)]), broadcast=True).any()
    assert np.isnan(gone.envelope()).all()
    bounds, parts = gone.entropy_bounds(), gone.uncertainty()
    for values in (
        bounds.lower,
        bounds.upper,
        parts.total,
        parts.epistemic,
        gone.upper_expectation(np.ones(n_classes)),
    ):
        assert np.isnan(values).all()
    assert (gone.volume() == 0.0).all()
    assert not gone.decide().any()


@pytest.mark.parametrize("kind", [*SCORES, "mixture"])
@pytest.mark.parametrize("n_classes", CLASSES)
def test_an_infinite_threshold_gives_the_whole_simplex(kind: str, n_classes: int) -> None:
    base = make(kind, n_classes, 3)
    sets = base.score.region(base.prediction, np.inf)
    assert sets.contains(np.concatenate([np.eye(n_classes), sample_uniform(20, n_classes, 0)]), broadcast=True).all()
    assert (sets.lower() == 0.0).all()
    assert (sets.upper() == 1.0).all()
    bounds, parts = sets.entropy_bounds("K"), sets.uncertainty()
    assert (bounds.lower == 0.0).all()
    assert (bounds.upper == 1.0).all()
    assert (parts.epistemic == 1.0).all()
    assert not parts.epistemic_gap.any()
    assert (sets.smallest_peak() == 1 / n_classes).all()
    assert (sets.volume() == 1.0).all()
    assert sets.decide().all()
    assert sets.decide("maximal").all()
    utility = np.arange(n_classes, dtype=float)
    assert (sets.upper_expectation(utility) == n_classes - 1).all()
    assert (sets.lower_expectation(utility) == 0.0).all()


@pytest.mark.parametrize("kind", [*MANY_KINDS, "brier"])
def test_many_sets_answer_as_few_do(kind: str) -> None:
    """Thousands at once, as few, and one by one: other code may run, the answers are the same.

    Normalised scores have the regions of the others, at other thresholds.
    """
    many = make(kind, 10, MANY if kind != "brier" else 20)  # whose questions are answered one set at a time
    rows = np.r_[0:3, len(many) // 2 : len(many) // 2 + 3, len(many) - 3 : len(many)]
    few = many[rows]
    utility = np.random.default_rng(5).normal(size=10)
    questions = {
        "envelope": lambda sets: np.stack(sets.envelope(), axis=1),
        "expectation": lambda sets: sets.upper_expectation(utility),
        "entropies": lambda sets: np.stack(list(sets.entropy_bounds()), axis=1),
        "peak": lambda sets: sets.smallest_peak(),
        "labels": lambda sets: sets.decide().astype(float),
        "maximal": lambda sets: sets.decide("maximal").astype(float),
    }
    for name, question in questions.items():
        together = question(many)
        assert together[rows] == pytest.approx(question(few), rel=1e-9, abs=1e-11), name
    assert np.array_equal(many.contains(many.center)[rows], few.contains(few.center))
    if (many := make(kind, 3, MANY)).answers()["volume"] == "exact":
        assert many.log_volume()[rows] == pytest.approx(many[rows].log_volume(), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("kind", [kind for kind in SCORES if "prototypes" not in kind])
def test_how_arrays_are_stored_does_not_matter(kind: str) -> None:
    """Single precision is the same numbers with fewer digits; rows, columns and strides are the same numbers."""
    sets = make(kind, 4)
    p = np.asarray(sets.prediction)
    single = p.astype(np.float32)
    ways = [np.asfortranarray(p), np.repeat(p, 2, axis=1)[:, ::2], p[::-1][::-1]]
    exact = single.astype(np.float64)
    if sets.score.order == "first":
        rows = exact[:, 0] if exact.ndim == 3 else exact  # before the sides
        rows /= rows.sum(axis=1, keepdims=True)

    def answers(stored: np.ndarray) -> list[np.ndarray]:
        found = sets.score.region(stored, sets.threshold)
        bounds = found.entropy_bounds()
        return [found.lower(), bounds.lower, bounds.upper, found.contains(found.center)]

    expected = answers(p)
    for way in ways:
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(answers(way), expected, strict=True))
    for there, here in zip(answers(single), answers(exact), strict=True):
        assert there == pytest.approx(here, rel=1e-9, abs=1e-9, nan_ok=True)
