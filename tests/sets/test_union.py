"""Unions of sets against brute force that only asks ``contains``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from credalset.outline import area, is_convex, outline, outlines
from credalset.scores import InnerProduct, KullbackLeibler, TotalVariation
from credalset.sets import UnionSet, generic
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.conftest import SCORES, random_predictions
from tests.sets.makers import crossed, mixtures

BASES = ["tv", "kl", "inner", "so", "density", "hellinger", "ws", "normalized-kl"]
GRID = grid(3, 0.004)


def union(names: tuple[str, ...], n_classes: int, n: int = 5, seed: int = 0, level: float = 0.15) -> UnionSet:
    """Unions of regions of several scores; thresholds at quantiles of the scores of uniform points."""
    rng = np.random.default_rng(seed)
    pool = sample_uniform(400, n_classes, rng)
    parts = []
    for name in names:
        score = SCORES[name]
        prediction = score.check_prediction(random_predictions(score, n, n_classes, rng))
        spread = score.evaluate_pairs(prediction, pool[None])
        spread = np.where(np.isinf(spread), spread[np.isfinite(spread)].max(), spread)
        wanted = level * rng.random(n)
        parts.append(score.region(prediction, [np.quantile(row, q) for row, q in zip(spread, wanted, strict=True)]))
    return UnionSet.of(*parts)


def with_empty_parts() -> UnionSet:
    """Five unions of three KL balls, of which one, two or all are empty in some."""
    g = np.random.default_rng(3).dirichlet(np.ones(3), (3, 5))
    radii = np.array([[0.1, 0.1, -0.1, -0.1, 0.1], [0.05, -0.1, -0.2, -0.1, np.inf], [0.1, -1.0, 0.02, -0.1, -1.0]])
    return UnionSet.of(*(KullbackLeibler().region(a, t) for a, t in zip(g, radii, strict=True)))


@pytest.mark.parametrize("names", [("kl",) * 3, *[(base, "kl") for base in BASES], ("tv", "inner", "so", "ws")])
def test_against_a_dense_grid(names: tuple[str, ...]) -> None:
    """The grid's best member can miss the optimum by the grid step, and must never beat it."""
    sets, step = union(names, 3), 0.012
    held = sets.contains(GRID, broadcast=True)
    assert np.array_equal(held, np.any([part.contains(GRID, broadcast=True) for part in sets.parts], axis=0))
    lower, upper = sets.envelope()
    least, most = sets.entropy_bounds()
    utility = np.random.default_rng(1).normal(size=(len(sets), 3))
    low, high = sets.lower_expectation(utility), sets.upper_expectation(utility)
    peak, tops = sets.smallest_peak(), sets.decide()
    rough = 3 * step * (1 + abs(np.log(step)))
    for i in range(len(sets)):
        found = GRID[held[i]]
        values, entropies = found @ utility[i], entropy_of_valid(found)
        for answer, best, slack in [
            (upper[i], found.max(axis=0), step),
            (-lower[i], -found.min(axis=0), step),
            (high[i], values.max(), step * np.ptp(utility[i])),
            (-low[i], -values.min(), step * np.ptp(utility[i])),
            (most[i], entropies.max(), rough),
            (-least[i], -entropies.min(), rough),
            (-peak[i], -found.max(axis=1).min(), step),
        ]:
            assert (best <= answer + 1e-6).all()
            assert (answer <= best + slack).all()
        seen = (found == found.max(axis=1, keepdims=True)).any(axis=0)
        closest = [(GRID[held[i]].max(axis=1) - GRID[held[i]][:, k]).min() for k in range(3)]
        assert (seen <= tops[i]).all(), "a label that is on top in a member is admissible"
        assert (tops[i] <= (np.array(closest) < step)).all(), "and no other is"


def members_of(sets: CredalSet, n: int = 400) -> np.ndarray:
    drawn = sets.sample(n, random_state=0)
    assert sets.contains(drawn).all()
    return drawn


@pytest.mark.parametrize("n_classes", [2, 5, 9])
def test_sampled_members_do_not_go_beyond_and_attaining_ones_do(n_classes: int) -> None:
    sets = union(("kl", "tv", "kl", "inner"), n_classes)
    drawn = members_of(sets)
    assert (drawn >= sets.lower()[:, None] - 1e-9).all()
    assert (drawn <= sets.upper()[:, None] + 1e-9).all()
    bounds = sets.entropy_bounds(return_distributions=True)
    entropies = entropy_of_valid(drawn)
    assert (entropies >= bounds.lower[:, None] - 1e-9).all()
    assert (entropies <= bounds.upper[:, None] + 1e-9).all()
    assert (drawn.max(axis=-1) >= sets.smallest_peak()[:, None] - 1e-9).all()
    utility = np.random.default_rng(2).normal(size=(len(sets), n_classes))
    value, point = sets.upper_expectation(utility, return_distribution=True)
    assert (np.einsum("nmk,nk->nm", drawn, utility) <= value[:, None] + 1e-9).all()
    assert (point * utility).sum(axis=1) == pytest.approx(value, abs=1e-9)
    assert entropy_of_valid(bounds.upper_distribution) == pytest.approx(bounds.upper, abs=1e-9)
    assert entropy_of_valid(bounds.lower_distribution) == pytest.approx(bounds.lower, abs=1e-9)
    for attaining in (point, bounds.lower_distribution, bounds.upper_distribution):
        assert (sets._divergence(attaining[:, None])[:, 0] <= sets.radius + 1e-9).all()
    assert bounds.method == "exact"


@pytest.mark.parametrize("n_classes", [4, 5])
def test_no_local_search_over_a_part_does_better(n_classes: int) -> None:
    sets = union(("kl", "so", "hellinger"), n_classes, n=3)
    found = np.min([generic._descend(part)[0] for part in sets.parts], axis=0)
    assert (sets.entropy_bounds().lower <= found + 1e-9).all()
    steepest = np.max([generic.max_entropy(part)[0] for part in sets.parts], axis=0)
    assert sets.entropy_bounds().upper == pytest.approx(steepest, abs=1e-6)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_decisions_are_those_of_members_not_of_the_hull(n_classes: int) -> None:
    sets = union(("kl", "tv", "inner"), n_classes, n=4, level=0.05)
    rng = np.random.default_rng(0)
    for utility in (None, rng.normal(size=(4, n_classes))):
        matrix = np.eye(n_classes) if utility is None else utility
        kept = {rule: sets.decide(rule, utility) for rule in ("e-admissible", "maximal", "interval-dominance")}
        assert (kept["e-admissible"] <= kept["maximal"]).all()
        assert (kept["maximal"] <= kept["interval-dominance"]).all()
        by_part = np.any([part.decide("e-admissible", utility) for part in sets.parts], axis=0)
        assert np.array_equal(kept["e-admissible"], by_part)
        values = members_of(sets) @ matrix.T
        assert ((values >= values.max(axis=-1, keepdims=True)).any(axis=1) <= kept["e-admissible"]).all()
        for a in range(len(matrix)):
            best = np.min([sets.upper_expectation(matrix[a] - row) for b, row in enumerate(matrix) if b != a], axis=0)
            assert np.array_equal(kept["maximal"][:, a], best >= -1e-10)
        low = np.column_stack([sets.lower_expectation(row) for row in matrix])
        assert np.array_equal(sets.decide("gamma-maximin", utility), low >= low.max(axis=1, keepdims=True) - 1e-10)


def test_an_action_of_the_hull_alone_is_not_admissible() -> None:
    """Between two sure guesses lies the tie at which hedging pays; no member is there."""
    corner = [TotalVariation().region([g], 0.05) for g in ([0.95, 0.05], [0.05, 0.95])]
    hedge = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    sets = UnionSet.of(*corner)
    assert sets.decide("e-admissible", hedge).tolist() == [[True, True, False]]
    assert sets.decide("maximal", hedge).tolist() == [[True, True, True]]


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_volume_by_counting(n_classes: int) -> None:
    sets = union(("kl", "tv", "kl", "hellinger"), n_classes, level=0.4)
    share = sets.contains(sample_uniform(200_000, n_classes, 5), broadcast=True).mean(axis=1)
    volume = sets.volume(return_error=True)
    noise = np.sqrt(share * (1 - share) / 200_000)
    assert (np.abs(volume.value - share) <= 5 * np.hypot(noise, volume.standard_error) + 1e-12).all()
    assert volume.method == ("exact" if n_classes == 2 else "estimate")
    assert sets.answers()["volume"] == volume.method
    # Exact volumes of the parts leave the error of Karp and Luby's method alone.
    assert n_classes != 3 or (volume.standard_error <= volume.value * (np.sqrt(3 / 1024) + 0.05)).all()


def test_karp_luby_error_is_within_its_bound_and_honest() -> None:
    """Copies of one ball: every draw counts the same; nested balls: as many kinds of draws as there are parts."""
    g = np.array([[0.5, 0.3, 0.2]])
    same = UnionSet.of(*[KullbackLeibler().region(g, 0.1)] * 8)
    value, error = same.volume(return_error=True)
    assert value == pytest.approx(same.parts[0].volume(), rel=1e-12)
    assert error == pytest.approx(0.0, abs=1e-12)
    nested = UnionSet.of(*(KullbackLeibler().region(g, 0.1 * 0.8**c) for c in range(4)))
    runs = np.array([nested.volume(random_state=seed, n_rays=64)[0] for seed in range(40)])
    truth = nested.parts[0].volume()[0]
    assert runs.std() <= truth * np.sqrt(3 / 64)
    assert abs(runs.mean() - truth) <= 4 * runs.std() / np.sqrt(40)
    _, stated = nested.volume(return_error=True, n_rays=64)
    assert 0.5 * runs.std() < stated[0] < 2 * runs.std()


def test_draws_are_uniform() -> None:
    """Overlapping parts must not be drawn from twice as often where they overlap."""
    balls = [KullbackLeibler().region([g], t) for g, t in (([0.5, 0.3, 0.2], 0.2), ([0.4, 0.4, 0.2], 0.3))]
    sets = UnionSet.of(*balls)
    fine = grid(3, 0.002)
    inside = fine[sets.contains(fine, broadcast=True)[0]]
    in_both = np.all([ball.contains(inside, broadcast=True)[0] for ball in balls], axis=0).mean()
    drawn = sets.sample(4000, random_state=0)[0]
    share = np.all([ball.contains(drawn, broadcast=True)[0] for ball in balls], axis=0).mean()
    assert abs(share - in_both) <= 4 * np.sqrt(in_both * (1 - in_both) / 4000) + 0.005


def test_empty_parts_and_whole_simplices() -> None:
    sets = with_empty_parts()
    assert sets.is_empty().tolist() == [False, False, False, True, False]
    assert sets[1].volume() == pytest.approx(sets[1].parts[0].volume(), rel=1e-12)
    assert sets[2].upper() == pytest.approx(sets[2].parts[2].upper())
    assert np.isnan(sets[3].upper()).all()
    assert np.isnan(sets[3].sample(2)).all()
    assert sets[3].volume().tolist() == [0.0]
    assert not sets[3].decide().any()
    assert (sets[4].volume(), sets[4].upper().min()) == (1.0, 1.0)
    assert sets.contains(GRID, broadcast=True).any(axis=1).tolist() == [True, True, True, False, True]
    distance = sets[:3]._divergence(np.broadcast_to(GRID, (3, *GRID.shape)))
    assert np.array_equal(distance <= sets.radius[:3, None], sets[:3].contains(GRID, broadcast=True))
    assert np.array_equal([one.upper() for one in sets], [row[None] for row in sets.upper()], equal_nan=True)


def test_parts_without_volume_are_drawn_all_the_same() -> None:
    """Points, and a ball on an edge of the simplex."""
    points = KullbackLeibler().region([[0.2, 0.3, 0.5]], 0.0), KullbackLeibler().region([[0.7, 0.2, 0.1]], 0.0)
    edge = KullbackLeibler().region([[0.5, 0.5, 0.0]], 0.1)
    sets = UnionSet.of(*points, edge)
    drawn = members_of(sets, 60)[0]
    assert (drawn[:, 2] == 0).mean() == pytest.approx(1 / 3, abs=0.25)
    assert sets.volume().tolist() == [0.0]
    assert len(np.unique(drawn[drawn[:, 2] > 0], axis=0)) == 2


def test_one_part_is_that_part() -> None:
    ball = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(5), 4), 0.1)
    one = UnionSet.of(ball)
    assert one.shape == ball.shape
    for ask in (lambda s: s.envelope(), lambda s: s.entropy_bounds(), lambda s: s.decide(), lambda s: s.volume()):
        assert np.array_equal(np.array(list(ask(one))), np.array(list(ask(ball))))
    assert np.array_equal(one.sample(7, random_state=0), ball.sample(7, random_state=0))
    tv = TotalVariation().region([[0.5, 0.3, 0.2]], 0.1)
    assert np.array_equal(UnionSet.of(tv).vertices(0), tv.vertices(0))
    assert one.answers() == ball.answers()


def test_the_triangle_draws_parts_that_do_not_meet() -> None:
    balls = [KullbackLeibler().region([g], t) for g, t in (([0.8, 0.1, 0.1], 0.05), ([0.1, 0.8, 0.1], 0.05))]
    apart, single = UnionSet.of(*balls), UnionSet.of(balls[0])
    assert len(outline(apart)) == 2
    assert area(outline(apart)) == pytest.approx(apart.volume()[0], rel=2e-3)
    assert [len(loops) for loops in outlines(apart)] == [2]
    assert (is_convex(apart), is_convex(single)) == (False, True)
    assert area(outline(single)) == pytest.approx(single.volume()[0], rel=1e-3)
    half = UnionSet.of(balls[0], InnerProduct().region([[0.1, 0.1, 0.8]], 0.5))
    assert area(outline(half)) == pytest.approx(half.volume(n_rays=20_000)[0], rel=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnionSet.of(), "a union needs at least one batch of sets"),
        (lambda: UnionSet.of(mixtures(2, 3)), "a density set need not be convex"),
        (lambda: UnionSet.of(crossed(SCORES["tv"], 2, 3)), "a cross-conformal set need not be convex"),
        (
            lambda: UnionSet.of(TotalVariation().region([[0.5, 0.5]], 0.1), TotalVariation().region(np.eye(2), 0.1)),
            "one has 2 sets over 2 classes and another 1 over 2",
        ),
        (lambda: with_empty_parts().vertices(0), "a union is no polytope and has no vertices"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()
