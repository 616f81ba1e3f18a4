"""Ordinal votes: scores take positions and order from their scale."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.scores import Normalized, Wasserstein
from credalset.votes.files import read_vote_table, write_vote_table

LEVELS, OTHER, N = ["low", "medium", "high"], ["high", "low", "medium"], 120
ITEMS, POSITIONS = [f"t{i}" for i in range(N)], (0.0, 1.0, 5.0)
RNG = np.random.default_rng(0)
TRUTH = RNG.dirichlet(np.ones(3), N)
COUNTS = pd.DataFrame(RNG.multinomial(9, TRUTH), ITEMS, LEVELS)
SCALE = dict(zip(LEVELS, POSITIONS, strict=True))
SCALED = cs.Annotations.from_counts(COUNTS, scale=SCALE)
FRAME = pd.DataFrame(0.7 * TRUTH + 0.3 * RNG.dirichlet(np.ones(3), N), ITEMS, LEVELS)
TURNED, X = FRAME[OTHER], np.log(FRAME).add_prefix("x_")
FOLDS = np.arange(N) % 3


def reference(score: Any = None, prediction: Any = FRAME) -> Any:
    return cs.conformalize(
        np.asarray(prediction), COUNTS.to_numpy(), score or Wasserstein(POSITIONS)
    )


def without_names(votes: cs.Annotations) -> cs.Annotations:
    """The same votes on items without names."""
    return cs.Annotations.from_counts(votes.counts, classes=votes.classes, scale=SCALE)


@pytest.mark.parametrize(
    "prediction", [FRAME.to_numpy(), FRAME, TURNED], ids=["array", "frame", "turned"]
)
@pytest.mark.parametrize("votes", [SCALED, SCALED.reorder(OTHER)], ids=["sorted", "turned"])
def test_votes_give_an_ordinal_score_its_positions(prediction: Any, votes: Any) -> None:
    if isinstance(prediction, np.ndarray):
        # Without names of items on either side; the classes of the array are named beside it.
        names = list(votes.classes or ())
        in_order, votes = votes is SCALED, without_names(votes)
        if not in_order:
            with pytest.raises(ValueError, match="votes are on the scale 'low', 'medium', 'high'"):
                cs.conformalize(prediction, votes, "ws", classes=names)
            return
        made, expected = cs.conformalize(prediction, votes, "ws", classes=names), reference()
        assert (made.score, made.classes) == (expected.score, tuple(LEVELS))
        return
    made, expected = cs.conformalize(prediction, votes, "ws"), reference()
    assert (made.score, made.classes) == (expected.score, tuple(LEVELS))
    assert made.threshold(0.1) == expected.threshold(0.1) != reference("ws").threshold(0.1)
    sets = made.predict_set(TURNED, 0.1)
    np.testing.assert_array_equal(sets.upper(), expected.predict_set(FRAME.to_numpy(), 0.1).upper())
    assert sets.classes == tuple(LEVELS)
    assert sets.contains(votes).mean() >= 0.9


def test_a_new_order_of_the_columns_is_told() -> None:
    with pytest.warns(
        cs.CredalSetWarning, match="predictions are put into the order of the scale, 'low'"
    ):
        cs.conformalize(TURNED, SCALED, "ws")


def test_the_order_of_the_classes_is_shown() -> None:
    assert "score ws (low < medium < high)" in repr(cs.conformalize(TURNED, SCALED, "ws"))
    assert "score ws (high < low < medium)" in repr(cs.conformalize(TURNED, COUNTS, "ws"))
    assert "<" not in repr(reference())


def test_positions_of_the_score_win() -> None:
    assert cs.conformalize(TURNED, SCALED, Wasserstein((0, 1, 2))).threshold(0.1) == reference(
        "ws"
    ).threshold(0.1)
    assert cs.conformalize(TURNED, SCALED, Normalized("ws")).score == Normalized(
        Wasserstein(POSITIONS)
    )
    assert cs.conformalize(TURNED, SCALED, "tv").classes == tuple(OTHER), (
        "an order matters to ordinal scores only"
    )


def test_names_of_columns_of_arrays_do_not_reorder_them() -> None:
    """New predictions may come without the names, and would be in another order."""
    with pytest.raises(ValueError, match="scale"):
        cs.conformalize(TURNED.to_numpy(), without_names(SCALED), "ws", classes=OTHER)


def test_other_calibrations_take_the_scale() -> None:
    cross = cs.cross_conformalize(TURNED, SCALED, FOLDS, "ws")
    assert (cross.score, cross.classes) == (Wasserstein(POSITIONS), tuple(LEVELS))
    sets = cross.predict_set([TURNED] * 3, 0.1)
    expected = cs.cross_conformalize(
        FRAME.to_numpy(), COUNTS.to_numpy(), FOLDS, Wasserstein(POSITIONS)
    )
    np.testing.assert_array_equal(
        sets.threshold, expected.predict_set([FRAME.to_numpy()] * 3, 0.1).threshold
    )
    assert cs.labels.conformalize(TURNED, SCALED, score="ws").score == Wasserstein(POSITIONS)
    for prediction in (None, TURNED):
        noise = cs.epsilon_from_counts(SCALED.reorder(OTHER), 0.1, "ws", predictions=prediction)
        plain = None if prediction is None else FRAME.to_numpy()
        assert noise == cs.epsilon_from_counts(
            COUNTS.to_numpy(), 0.1, Wasserstein(POSITIONS), predictions=plain
        )


def test_classifiers_take_order_and_positions_of_the_scale(tmp_path: Path) -> None:
    """The classes_ of scikit-learn's classifiers are in alphabetical order."""
    fitted = LogisticRegression().fit(X, COUNTS.idxmax(axis=1))
    assert fitted.classes_.tolist() == OTHER
    clf = cs.ConformalCredalClassifier(fitted, "ws").conformalize(X, SCALED)
    predicted = pd.DataFrame(fitted.predict_proba(X), ITEMS, OTHER)[LEVELS].to_numpy()
    expected = reference(prediction=predicted)
    assert clf.classes_.tolist() == LEVELS == list(clf.calibration_.classes or ())
    assert clf.calibration_.threshold(0.1) == expected.threshold(0.1)
    np.testing.assert_array_equal(clf.predict_proba(X), predicted)
    assert clf.predict(X).tolist() == fitted.predict(X).tolist()
    clf.save(tmp_path / "model")
    for model in (clf, cs.load(tmp_path / "model", trusted=[])):
        np.testing.assert_array_equal(
            model.predict_set(X).upper(), expected.predict_set(predicted).upper()
        )
        assert model.evaluate(X, SCALED, 0.1)[0]["coverage"] >= 0.9
    both = clf.compare(X, SCALED, [Wasserstein(POSITIONS), "kl"])
    prefit = cs.ConformalCredalClassifier(fitted).compare(X, SCALED, ["ws", "kl"])
    assert [row["threshold"] for row in both] == [row["threshold"] for row in prefit]
    assert clf.classes_.tolist() == LEVELS


def test_cross_calibrated_classifiers_take_order_and_positions_of_the_scale() -> None:
    clf = cs.ConformalCredalClassifier(LogisticRegression(), "ws")
    made = [
        clf.cross_conformalize(X, votes, FOLDS).calibration_
        for votes in (SCALED, SCALED.reorder(OTHER))
    ]
    assert [each.classes for each in made] == [tuple(LEVELS)] * 2
    np.testing.assert_allclose(made[0].scores, made[1].scores, rtol=1e-6)
    assert clf.predict_set(X).contains(SCALED).mean() >= 0.9


def test_saved_calibrations_and_votes_keep_positions(tmp_path: Path) -> None:
    cs.conformalize(TURNED, SCALED, "ws").save(tmp_path / "made")
    assert cs.load(tmp_path / "made").score == Wasserstein(POSITIONS)
    path = str(tmp_path / "votes.parquet")
    rows = [("a", 1, "low"), ("a", 2, "high"), ("b", 1, "medium")]
    table = pd.DataFrame(rows, columns=["task", "worker", "label"])
    write_vote_table(cs.Annotations.from_table(table, scale=SCALE).reorder(OTHER), path)
    for votes in (read_vote_table(path), cs.Annotations.read(path)):
        assert (votes.classes, votes.scale) == (tuple(LEVELS), POSITIONS)
    assert cs.Annotations.read(path, scale=LEVELS).scale == (0.0, 1.0, 2.0)
