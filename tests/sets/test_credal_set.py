"""The one set class: selecting, membership, tables, files, and what it owns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import credalset as cs
from credalset.scores import InnerProduct, KullbackLeibler, Score, TotalVariation, Wasserstein
from credalset.sets import CredalSet
from tests.conftest import random_predictions

CENTERS = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.4, 0.4, 0.2]])


def some_sets() -> CredalSet:
    return TotalVariation().region(CENTERS, [0.1, 0.2, 0.3])


def named_sets() -> CredalSet:
    import dataclasses

    return dataclasses.replace(some_sets(), classes=("x", "y", "z"), items=("a", "b", "c"))


def test_selections_are_batches_again(score: Score) -> None:
    prediction = score.check_prediction(random_predictions(score, 5, 3, np.random.default_rng(0)))
    best = score.evaluate_rows(prediction, score.best_fit(prediction))
    sets = score._region(prediction, best + 0.2)
    for key, rows in [
        (1, [1]),
        (-1, [4]),
        (slice(1, 4), [1, 2, 3]),
        ([3, 0], [3, 0]),
        (np.arange(5) > 2, [3, 4]),
    ]:
        part = sets[key]
        assert len(part) == len(rows)
        np.testing.assert_array_equal(part.threshold, sets.threshold[rows])
        np.testing.assert_allclose(part.lower(), sets.lower()[rows], atol=1e-9)
    assert [len(one) for one in sets] == [1] * 5
    assert len(sets[[]]) == 0


@pytest.mark.parametrize("key", [None, True, 1.5, "a", [[0, 1]], (0, 1.5), ["a"]])
def test_keys_that_are_not_positions(key: object) -> None:
    with pytest.raises(TypeError, match="position"):
        named_sets()[key]


def test_positions_out_of_range() -> None:
    with pytest.raises(IndexError):
        some_sets()[3]


def test_names_select() -> None:
    picked = named_sets().select(["c", "a"])
    assert picked.items == ("c", "a")
    np.testing.assert_array_equal(picked.threshold, [0.3, 0.1])
    assert named_sets()[1:].items == ("b", "c")
    with pytest.raises(ValueError, match="items"):
        named_sets().select(["d"])
    with pytest.raises(ValueError, match="items"):
        some_sets().select(["a"])


def test_membership_of_every_shape() -> None:
    sets = some_sets()
    rows = sets.contains(CENTERS[[0, 0, 0]])
    np.testing.assert_array_equal(rows, [True, False, True])
    np.testing.assert_array_equal(sets.contains(CENTERS, broadcast=True)[:, 0], rows)
    blocks = np.repeat(CENTERS[None, :2], 3, axis=0)
    np.testing.assert_array_equal(sets.contains(blocks), sets.contains(CENTERS[:2], broadcast=True))
    np.testing.assert_array_equal(
        sets.contains([[7, 2, 1], [0, 0, 5], [5, 4, 1]]), [True, True, True]
    )  # counts


@pytest.mark.parametrize(
    "candidates",
    [CENTERS[:2], CENTERS[:, :2], np.ones((2, 1, 3)) / 3, "text", [[0.5, 0.1, 0.1]] * 3],
)
def test_candidates_that_do_not_fit(candidates: object) -> None:
    with pytest.raises((ValueError, TypeError), match="distribution"):
        some_sets().contains(candidates)


def test_candidates_are_matched_by_name() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(CENTERS, index=["a", "b", "c"], columns=["x", "y", "z"])
    assert named_sets().contains(frame).all()
    assert named_sets().contains(frame.loc[["c", "a", "b"], ["z", "x", "y"]]).all()


def test_sets_own_their_memory() -> None:
    """Refilling a buffer must not change sets made before."""
    for score in (TotalVariation(), KullbackLeibler(), InnerProduct()):
        buffer, threshold = CENTERS.copy(), np.array([0.4, 0.4, 0.7])
        sets = score.region(buffer, threshold)
        before = sets.lower(), sets.contains(CENTERS), sets.threshold.copy()
        buffer[:] = 1.0 / 3.0
        threshold[:] = 0.0
        for found, expected in zip(
            (sets.lower(), sets.contains(CENTERS), sets.threshold), before, strict=True
        ):
            np.testing.assert_array_equal(found, expected)
    labels = np.repeat(CENTERS, 20, axis=0)
    calibration, buffer = cs.conformalize(labels, np.roll(labels, 1, axis=0)), CENTERS.copy()
    sets = calibration.predict_set(buffer, alpha=0.2)
    before = sets.lower()
    buffer[:] = 1.0 / 3.0
    np.testing.assert_array_equal(sets.lower(), before)


def test_masked_values_are_refused() -> None:
    masked = np.ma.masked_array(CENTERS, mask=[[True, False, False], [False] * 3, [False] * 3])
    with pytest.raises(ValueError, match="prediction"):
        TotalVariation().region(masked, 0.1)
    with pytest.raises(ValueError, match="distribution"):
        some_sets().contains(masked)
    assert len(TotalVariation().region(np.ma.masked_array(CENTERS), 0.1)) == 3


def test_bad_utilities() -> None:
    for utility in ([1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, np.nan, 0.0], [np.inf, 0.0, 0.0]):
        with pytest.raises(ValueError, match="utility"):
            some_sets().upper_expectation(utility)
    with pytest.raises(ValueError, match="utility"):
        some_sets().decide(utility=[[1.0, 0.0]])
    with pytest.raises(ValueError, match="rule"):
        some_sets().decide("best")


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_extreme_utilities(size: float) -> None:
    utility = np.array([3.0, -1.0, 0.5])
    expected = some_sets().upper_expectation(utility)
    np.testing.assert_allclose(
        some_sets().upper_expectation(size * utility), size * expected, rtol=1e-12
    )


def test_empty_batches_and_empty_sets() -> None:
    none = TotalVariation().region(np.empty((0, 3)), 0.1)
    assert len(none) == 0
    assert none.lower().shape == (0, 3)
    assert none.decide().shape == (0, 3)
    assert none.volume().shape == (0,)
    empty = TotalVariation().region(CENTERS, [-1.0, 0.1, np.inf])
    np.testing.assert_array_equal(empty.is_empty(), [True, False, False])
    assert np.isnan(empty.entropy_bounds().lower[0])
    assert np.isnan(empty.sample(3, random_state=0)[0]).all()
    assert empty.volume()[0] == 0.0
    assert "1 empty" in repr(empty)


def test_whole_simplices_answer_everything(score: Score) -> None:
    prediction = random_predictions(score, 2, 3, np.random.default_rng(0))
    sets = score.region(prediction, np.inf)
    np.testing.assert_array_equal(sets.envelope(), np.stack([np.zeros((2, 3)), np.ones((2, 3))]))
    np.testing.assert_allclose(sets.entropy_bounds("K"), [[0.0, 0.0], [1.0, 1.0]])
    assert sets.decide().all()
    np.testing.assert_array_equal(sets.volume(), 1.0)


def test_answers_depend_neither_on_earlier_questions_nor_on_neighbours(score: Score) -> None:
    """The entropies of a single set exchanged its classes;
    expectations were scaled by the utilities of all rows.
    """
    rng = np.random.default_rng(3)
    prediction = score.check_prediction(random_predictions(score, 20, 3, rng))
    best, utility = (
        score.evaluate_rows(prediction, score.best_fit(prediction)),
        rng.normal(size=(20, 3)),
    )
    sets = score._region(prediction, best + 0.05 + 0.1 * rng.random(20))
    center, entropies, value = (
        sets.center.copy(),
        sets.entropy_bounds(),
        sets.upper_expectation(utility),
    )
    for i in range(20):
        one = sets[i]
        np.testing.assert_allclose(
            [bound[0] for bound in one.entropy_bounds()], [e[i] for e in entropies], atol=1e-12
        )
        one.volume(), one.decide(), one.sample(2, random_state=0)
        np.testing.assert_array_equal(one.center[0], center[i])
        np.testing.assert_array_equal(sets.center, center)
        np.testing.assert_allclose(
            one.envelope(), [bound[[i]] for bound in sets.envelope()], atol=1e-15
        )
        assert one.upper_expectation(utility[i])[0] == pytest.approx(value[i], abs=1e-15)


def test_entropy_units() -> None:
    nats = some_sets().entropy_bounds()
    for base, unit in (("K", np.log(3)), (2, np.log(2))):
        np.testing.assert_allclose(some_sets().entropy_bounds(base).upper, nats.upper / unit)
    parts = some_sets().uncertainty()
    np.testing.assert_allclose(parts.total, parts.aleatoric + parts.epistemic)
    with pytest.raises(ValueError, match="base"):
        some_sets().entropy_bounds(base=0.5)


def test_tables() -> None:
    pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = named_sets().to_frame(alpha=0.1)
    assert list(frame.index) == ["a", "b", "c"]
    np.testing.assert_allclose(frame["lower_x"], named_sets().lower()[:, 0])
    assert frame["labels"].tolist() == named_sets().labels()
    table = named_sets().to_frame(items=["d", "e", "f"], ask=["width", "labels"], kind="pyarrow")
    np.testing.assert_allclose(table["width"].to_numpy(), named_sets().width())
    assert table["item"].to_pylist() == ["d", "e", "f"]
    assert table["labels"].to_pylist() == named_sets().labels()
    for options, argument in [
        ({"ask": ["size"]}, "ask"),
        ({"items": ["a"]}, "items"),
        ({"kind": "sql"}, "kind"),
    ]:
        with pytest.raises(ValueError, match=argument):
            named_sets().to_frame(**options)


def test_saved_sets_come_back(score: Score, tmp_path: Path) -> None:
    prediction = score.check_prediction(random_predictions(score, 4, 3, np.random.default_rng(0)))
    sets = score._region(
        prediction, score.evaluate_rows(prediction, score.best_fit(prediction)) + 0.1
    )
    sets.save(tmp_path / "sets")
    back = cs.load(tmp_path / "sets")
    assert back.score == score
    np.testing.assert_array_equal(back.threshold, sets.threshold)
    np.testing.assert_array_equal(back.lower(), sets.lower())


def test_names_come_back(tmp_path: Path) -> None:
    named_sets().save(tmp_path / "sets")
    back = cs.load(tmp_path / "sets")
    assert (back.classes, back.items) == (("x", "y", "z"), ("a", "b", "c"))


def test_results_print_a_table() -> None:
    text = repr(named_sets().uncertainty())
    assert text.startswith("Uncertainty of 3 sets (exact)")
    assert "mean" in text
    frame = named_sets().uncertainty().to_frame()
    assert list(frame.index) == ["a", "b", "c"]


def test_ties_take_no_linear_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second class reaches the first at exactly this threshold;
    cutting planes would converge to zero for long.
    """
    monkeypatch.setattr("credalset.sets.modes.linprog", None)
    sets = Wasserstein(positions=(0, 1, 3, 4, 9)).region([[0.45, 0.35, 0.1, 0.05, 0.05]], 0.05)
    assert sets.labels() == [[0, 1]]


@pytest.mark.parametrize("name", ["tv", "kl", "inner"])
def test_answers_are_quick(name: str) -> None:
    """Bounds ten times as wide as what is measured on a quiet machine."""
    import time

    rng = np.random.default_rng(0)
    for n_classes, n, limits in ((10, 4000, (100, 200, 100)), (100, 400, (1000, 2000, 2000))):
        sets = cs.get_score(name).region(
            rng.dirichlet(np.full(n_classes, 0.5), n), {"inner": 0.9}.get(name, 0.3)
        )
        for ask, limit in zip(
            (sets.envelope, sets.entropy_bounds, sets.decide), limits, strict=True
        ):
            start = time.process_time()
            ask()
            assert (time.process_time() - start) / n < limit * 1e-6


def test_arrays_of_sets_and_calibrations_are_read_only() -> None:
    """Writing into what they hand out changed their answers; arrays of the caller stay writable."""
    prediction = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    for name in ("tv", "kl", "ws", "inner", "brier", "hellinger"):
        sets = cs.get_score(name).region(prediction, 0.2)
        calibration = cs.conformalize(prediction, [[1, 2, 0], [0, 1, 3]], score=name)
        for array in (
            sets.threshold,
            sets.center,
            sets[:1].center,
            sets.radius,
            sets.prediction,
            calibration.scores,
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 9.0
    prediction[0] = [0.6, 0.3, 0.1]
