from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from credalset.scores import InnerProduct, KullbackLeibler, Score, TotalVariation, Wasserstein
from credalset.simplex import grid
from tests.conftest import random_predictions


def some_sets(score: Score, n: int = 5, n_classes: int = 3):
    rng = np.random.default_rng(3)
    prediction = random_predictions(score, n, n_classes, rng)
    labels = rng.dirichlet(np.ones(n_classes), n)
    return score.region(prediction, np.quantile(score(prediction, labels), [0.2, 0.4, 0.6, 0.8, 1.0][:n]))


def test_three_ways_of_asking_for_members_agree(score: Score) -> None:
    sets = some_sets(score)
    candidates = np.random.default_rng(0).dirichlet(np.ones(3), 11)
    every = sets.contains(candidates, broadcast=True)
    assert every.shape == (5, 11)
    assert every.any()
    assert not every.all()
    for m, candidate in enumerate(candidates):
        assert np.array_equal(sets.contains(np.tile(candidate, (5, 1))), every[:, m])
    assert np.array_equal(sets.contains(np.tile(candidates, (5, 1, 1))), every)


def test_efficiency_is_the_share_of_the_grid(score: Score) -> None:
    sets = some_sets(score)
    assert sets.efficiency(0.02) == pytest.approx(sets.contains(grid(3, 0.02), broadcast=True).mean(axis=1), abs=0)
    assert some_sets(score, n_classes=4).efficiency(0.1).shape == (5,)


def test_efficiency_needs_little_memory() -> None:
    """800 sets against 20 301 points would be 400 megabytes as one array of floats."""
    sets = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(3), 800), 0.3)
    tracemalloc.start()
    sets.efficiency()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


def test_slices_are_sets_again(score: Score) -> None:
    sets = some_sets(score)
    candidates = np.random.default_rng(0).dirichlet(np.ones(3), 7)
    every = sets.contains(candidates, broadcast=True)
    for key in (3, -1, slice(1, 4), [0, 4, 4], np.array([True, False, True, False, False]), slice(0, 0)):
        rows = np.atleast_1d(np.arange(5)[key])
        part = sets[key]
        assert type(part) is type(sets)
        assert len(part) == len(rows)
        assert np.array_equal(part.contains(candidates, broadcast=True), every[rows])
    assert [float(s.threshold[0]) for s in sets] == sets.threshold.tolist()
    with pytest.raises(IndexError, match="set 5 is out of range: the batch holds 5 sets"):
        sets[5]
    with pytest.raises(TypeError, match="one axis"):
        sets[0, 1]


def test_per_instance_thresholds_are_kept_apart() -> None:
    sets = TotalVariation().region([[0.5, 0.5], [0.5, 0.5]], [0.1, 0.4])
    assert sets.contains([[0.8, 0.2], [0.8, 0.2]]).tolist() == [False, True]


def test_repr_tells_what_one_holds() -> None:
    assert repr(Wasserstein().region([[0.5, 0.5]], 0.25)) == (
        "CredalSet: 1 Wasserstein ball over 2 classes, threshold 0.25 (score ws)"
    )
    text = repr(InnerProduct().region([[0.5, 0.5], [0.9, 0.1]], [0.2, 0.3]))
    assert text == "CredalSet: 2 half-spaces over 2 classes, thresholds 0.2 to 0.3, 1 empty (score inner)"
    assert "0 half-spaces" in repr(InnerProduct().region(np.empty((0, 2)), 0.2))


def test_rows_and_columns_for_tables() -> None:
    import pandas as pd

    sets = TotalVariation().region([[0.7, 0.3], [0.1, 0.9]], [0.1, 0.2])
    frame = pd.DataFrame(sets.to_dict())
    assert frame["prediction_1"].tolist() == [0.3, 0.9]
    assert sets.to_rows()[1] == {
        "set": 1,
        "score": "tv",
        "prediction_0": 0.1,
        "prediction_1": 0.9,
        "threshold": 0.2,
        "radius": 0.2,
    }


@pytest.mark.parametrize(
    ("candidates", "broadcast", "message"),
    [
        (np.full((3, 3), 1 / 3), False, "distribution has 3 rows, but there are 2 sets"),
        (np.full((2, 4), 1 / 4), False, "4 classes"),
        (np.full((3, 1, 3), 1 / 3), False, "candidates for each of the 2 sets"),
        (np.full(3, 1 / 3), False, r"has shape \(3,\). Use array\[None, :\]"),
        (np.full((2, 1, 3), 1 / 3), True, "must have shape"),
        (np.full((2, 3), 0.5), False, "are neither .row 0 sums to 1.5"),
        (np.full((2, 3), np.nan), False, "NaN or infinity"),
        ([[0.5, 0.6, -0.1]] * 2, False, "negative values"),
    ],
)
def test_bad_candidates(candidates: np.ndarray, broadcast: bool, message: str) -> None:
    sets = TotalVariation().region(np.full((2, 3), 1 / 3), 0.1)
    with pytest.raises(ValueError, match=message):
        sets.contains(candidates, broadcast=broadcast)


def test_decisions_do_not_depend_on_the_unit_or_origin_of_utility() -> None:
    sets = TotalVariation().region([[0.6, 0.3, 0.1]], 0.01)
    for utility in (1e-11 * np.eye(3), 1e11 + np.eye(3), 5.0 + np.eye(3)):
        for rule in ("e-admissible", "maximal", "interval-dominance", "gamma-maximin"):
            assert sets.decide(rule, utility).tolist() == [[True, False, False]]


def test_a_point_set_decides_by_its_point() -> None:
    sets = KullbackLeibler().region([[0.500001, 0.499999]], 0.0)
    assert sets.decide("e-admissible").tolist() == sets.decide("maximal").tolist() == [[True, False]]


@pytest.mark.parametrize("key", [None, 1.5, True, [[0, 1]]])
def test_keys_that_are_no_index(key: object) -> None:
    with pytest.raises(TypeError, match="one axis"):
        TotalVariation().region(np.full((2, 3), 1 / 3), 0.1)[key]
