"""Levels and their positions, weights, times, several labels at once, and who voted."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import credalset as cs
from credalset import Annotations

RATINGS = [("t1", "ann", 1), ("t1", "bob", 3), ("t2", "ann", 5)]


# --- scales ---


def test_unused_levels_stay_and_numbers_are_positions():
    votes = Annotations.from_table(RATINGS, classes=[1, 2, 3, 4, 5], ordered=True)
    assert votes.counts.tolist() == [[1, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    assert votes.ordered
    assert votes.positions == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert repr(votes).startswith("Annotations(2 items, 5 levels: 1, 2, 3, 4, 5;")


@pytest.mark.parametrize(
    ("classes", "positions"),
    [
        (["low", "middle", "high"], (0.0, 1.0, 2.0)),
        (["-1", "0", "2.5"], (-1.0, 0.0, 2.5)),
        ([0.5, 1, 10], (0.5, 1.0, 10.0)),
        ([False, True], (0.0, 1.0)),
        (["1", "two"], (0.0, 1.0)),
    ],
)
def test_positions_of_levels(classes, positions):
    counts = np.ones((2, len(classes)), dtype=int)
    assert Annotations.from_counts(counts, classes=classes, ordered=True).positions == positions
    assert Annotations.from_counts(counts, classes=classes).positions is None
    assert not Annotations.from_counts(counts, classes=classes).ordered


def test_positions_given_outright_reach_the_score():
    votes = Annotations.from_counts([[5, 0, 0], [0, 0, 5]], classes=["a", "b", "c"], positions=[0, 1, 10])
    assert votes.positions == (0.0, 1.0, 10.0)
    score = cs.scores.Wasserstein(positions=votes.positions)
    assert score([[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]) * 9 == pytest.approx(
        score([[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]), rel=1e-12
    )


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(pd.Categorical(["high", "low"], categories=["low", "middle", "high"], ordered=True)),
        pa.DictionaryArray.from_arrays([2, 0], ["low", "middle", "high"], ordered=True),
    ],
    ids=["pandas", "arrow"],
)
def test_ordered_categories_are_a_scale(labels):
    votes = Annotations.from_table({"task": [1, 2], "label": labels})
    assert votes.positions == (0.0, 1.0, 2.0)
    assert Annotations.from_table({"task": [1, 2], "label": labels}, ordered=False).positions is None


def test_plain_categories_are_none():
    labels = pd.Series(pd.Categorical(["high", "low"], categories=["low", "high"]))
    assert Annotations.from_table({"task": [1, 2], "label": labels}).positions is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"positions": [0, 1]}, ValueError, r"positions must be 3 .* one per class, but is \[0.0, 1.0\]"),
        ({"positions": [0, 1, 1]}, ValueError, r"strictly increasing"),
        ({"positions": [0, 1, np.inf]}, ValueError, r"finite"),
        ({"positions": "abc"}, TypeError, r"positions must be 3 increasing numbers, but is 'abc'"),
        ({"positions": [0, 1, 2], "ordered": False}, ValueError, r"Leave one of them out"),
        ({"ordered": "yes"}, TypeError, r"ordered must be True, False or None, but is 'yes'"),
        ({"ordered": True, "classes": [3, 1, 2]}, ValueError, r"order of their scale, but they are \[3, 1, 2\]"),
    ],
)
def test_scales_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        Annotations.from_counts([[1, 1, 1]], **options)


def test_positions_follow_their_classes():
    votes = Annotations.from_table(RATINGS, classes=[1, 3, 5], ordered=True)
    assert votes[[1]].positions == (1.0, 3.0, 5.0)
    swapped = votes.reorder([5, 1, 3])
    assert swapped.positions == (5.0, 1.0, 3.0)
    assert swapped.reorder([1, 3, 5]) == votes
    assert votes != Annotations.from_table(RATINGS, classes=[1, 3, 5])


def test_numbers_as_text_are_sorted_as_numbers():
    rows = [("t", w, x) for w, x in enumerate(["10", "9", "-1"])]
    assert Annotations.from_table(rows).classes == ("-1", "9", "10")
    assert Annotations.from_table([*rows, ("t", 9, "x")]).classes == ("-1", "10", "9", "x")


# --- weights ---


@pytest.mark.parametrize(
    "frame", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_weighted_votes(frame):
    table = frame({"task": [1, 1, 1, 2], "worker": [1, 2, 3, 1], "label": list("abba"), "trust": [0.5, 1.0, 0.25, 0.0]})
    votes = Annotations.from_table(table, weight="trust")
    assert votes.weights.tolist() == [[0.5, 1.25], [0.0, 0.0]]
    assert not votes.has_counts
    np.testing.assert_allclose(votes[:1].distributions, [[0.5 / 1.75, 1.25 / 1.75]], rtol=1e-15)
    with pytest.raises(ValueError, match=r"1 item has no votes \(first: 2\)"):
        _ = votes.distributions
    assert votes.drop_empty().items == (1,)
    for attribute in ("counts", "n_votes"):
        with pytest.raises(ValueError, match=r"counts are unknown: these votes have weights.*\.weights"):
            getattr(votes, attribute)
    assert repr(votes) == "Annotations(2 items, 2 classes: 'a', 'b'; weighted votes, total weight 1.75)"


def test_weights_of_one_are_not_counts_either():
    rows = {"task": [1, 1], "label": ["a", "b"], "w": [1, 1]}
    weighted, plain = Annotations.from_table(rows, weight="w"), Annotations.from_table(rows)
    assert weighted != plain
    np.testing.assert_array_equal(weighted.weights, plain.weights)
    np.testing.assert_array_equal(weighted.distributions, plain.distributions)
    with pytest.raises(ValueError, match="needs annotation counts"):
        cs.conformalize([[0.5, 0.5]], weighted, noise=cs.AnnotatorSampling())


def test_a_matrix_of_weights():
    votes = Annotations.from_counts([[0.5, 1.5], [0, 0]], classes=["a", "b"], weighted=True)
    assert votes.weights.tolist() == [[0.5, 1.5], [0.0, 0.0]]
    assert votes.drop_empty().distributions.tolist() == [[0.25, 0.75]]
    assert votes.reorder(["b", "a"]).weights.tolist() == [[1.5, 0.5], [0.0, 0.0]]
    with pytest.raises(ValueError, match="negative"):
        Annotations.from_counts([[0.5, -0.5]], weighted=True)
    with pytest.raises(ValueError, match="NaN"):
        Annotations.from_counts([[0.5, np.nan]], weighted=True)


@pytest.mark.parametrize("weight", [-1.0, np.inf, "0.5"])
def test_weights_are_checked(weight):
    table = {"task": [1, 1], "label": ["a", "b"], "w": [1.0, weight]}
    with pytest.raises(ValueError, match=r"weight must hold finite numbers of at least 0, but holds"):
        Annotations.from_table(table, weight="w")


def test_missing_weights_are_missing_values():
    table = {"task": [1, 1], "label": ["a", "b"], "w": [1.0, None]}
    with pytest.raises(ValueError, match=r"weight column has 1 value\(s\) that are missing"):
        Annotations.from_table(table, weight="w")
    assert Annotations.from_table(table, weight="w", missing="drop").weights.tolist() == [[1.0, 0.0]]


def test_weighted_annotations_calibrate():
    rng = np.random.default_rng(0)
    weights = rng.gamma(1.0, size=(300, 3))
    votes = Annotations.from_counts(weights, weighted=True)
    prediction = rng.dirichlet(np.ones(3), 300)
    by_weights = cs.conformalize(prediction, votes, "tv")
    by_shares = cs.conformalize(prediction, weights / weights.sum(axis=1, keepdims=True), "tv")
    assert by_weights.threshold(0.1) == pytest.approx(by_shares.threshold(0.1), rel=1e-12)


# --- several labels ---

SEVERAL = [("t", "ann", ["x", "y"]), ("t", "bob", ["y"]), ("u", "ann", []), ("u", "bob", ["z"])]


@pytest.mark.parametrize(
    "rows",
    [
        SEVERAL,
        {"task": ["t"], "label": [{"x", "y"}]},
        {"task": ["t"], "label": [frozenset({"x", "y"})]},
        {"task": ["t"], "label": np.array([["x", "y"], []], dtype=object)[:1]},
        pa.table({"task": ["t"], "label": [["x", "y"]]}),
        pl.DataFrame({"task": ["t"], "label": [["x", "y"]]}),
        pd.DataFrame({"task": ["t"], "label": [np.array(["x", "y"])]}),
    ],
    ids=["rows", "set", "frozenset", "object", "arrow", "polars", "pandas"],
)
def test_several_labels_are_refused_with_the_remedy(rows):
    with pytest.raises(ValueError, match=r"Row 0 of label holds 2 labels for one vote: \[.*one_vs_rest='"):
        Annotations.from_table(rows)


def test_one_question_per_label():
    expected = {"x": [[1, 1], [2, 0]], "y": [[0, 2], [2, 0]], "z": [[2, 0], [1, 1]]}
    for label, counts in expected.items():
        votes = Annotations.from_table(SEVERAL, one_vs_rest=label)
        assert votes.classes == (f"not {label}", label)
        assert votes.counts.tolist() == counts
    assert Annotations.from_table(RATINGS, one_vs_rest=3).classes == ("not 3", 3)
    assert Annotations.from_table(RATINGS, one_vs_rest=3).counts.tolist() == [[1, 1], [1, 0]]


def test_lists_of_one_label_are_that_label():
    rows = [("t", "ann", ["x"]), ("t", "bob", ["y"]), ("u", "bob", [])]
    with pytest.raises(ValueError, match=r"label column has 1 value\(s\) that are missing"):
        Annotations.from_table(rows)
    assert Annotations.from_table(rows, missing="drop").counts.tolist() == [[1, 1], [0, 0]]


def test_questions_are_checked():
    with pytest.raises(ValueError, match=r"one_vs_rest='w' is not among the labels, which are \['x', 'y', 'z'\]"):
        Annotations.from_table(SEVERAL, one_vs_rest="w")
    with pytest.raises(ValueError, match="leave classes out"):
        Annotations.from_table(SEVERAL, one_vs_rest="x", classes=["x", "y"])


def test_missing_labels_answer_no_question():
    rows = [("t", "ann", "x"), ("t", "bob", None)]
    assert Annotations.from_table(rows, one_vs_rest="x", missing="drop").counts.tolist() == [[0, 1]]


# --- times ---

T = datetime.datetime


@pytest.mark.parametrize(
    "times",
    [
        [2, 1],
        [2.5, -1.0],
        ["2024-05-01T12:00:00Z", "2024-05-01T13:00:00+02:00"],
        ["2024-05-01T12:00:00.5", "2024-05-01T12:00:00"],
        [T(2024, 5, 2), T(2024, 5, 1)],
        [datetime.date(2024, 5, 2), datetime.date(2024, 5, 1)],
        [T(2024, 5, 1, 12, tzinfo=datetime.UTC), T(2024, 5, 1, 11)],
        np.array(["2024-05-02", "2024-05-01"], dtype="datetime64[ns]"),
        pd.to_datetime(["2024-05-02", "2024-05-01"]),
        [1, None],
    ],
    ids=repr,
)
def test_the_latest_vote_counts_whatever_the_order_of_rows(times):
    table = {"task": [1, 1, 1], "worker": ["w", "w", "v"], "label": list("aba"), "at": [*times, times[0]]}
    assert Annotations.from_table(table, time="at").counts.tolist() == [[2, 0]]
    assert Annotations.from_table(table, time="at", duplicates="first").counts.tolist() == [[1, 1]]
    assert Annotations.from_table(table).counts.tolist() == [[1, 1]]


def test_times_that_are_none():
    table = {"task": [1, 1], "worker": ["w", "w"], "label": list("ab"), "at": ["May 1st", "May 2nd"]}
    with pytest.raises(ValueError, match=r"time must hold numbers, dates or ISO 8601 texts .* but holds 'May 1st'"):
        Annotations.from_table(table, time="at")


# --- who voted ---


def test_votes_move_with_their_items_and_classes():
    rng = np.random.default_rng(0)
    rows = [(int(t), f"w{w}", int(x)) for t, w, x in rng.integers(0, [9, 5, 3], (60, 3))]
    votes = Annotations.from_table(rows, items=range(9), classes=[0, 1, 2])
    part = votes[[7, 2, 2, 5]].reorder([2, 0, 1])
    ballots = part._ballots
    counted = np.zeros((4, 3), dtype=int)
    np.add.at(counted, (ballots.item, ballots.label), 1)
    np.testing.assert_array_equal(counted, part.counts)
    last = {(t, w): x for t, w, x in rows}
    told = [
        (part.items[i], part.workers[w], part.classes[k])
        for i, w, k in zip(ballots.item, ballots.worker, ballots.label, strict=True)
    ]
    wanted = [(t, w, last[t, w]) for t in (7, 2, 2, 5) for w in votes.workers if (t, w) in last]
    assert sorted(told) == sorted(wanted)
    assert pickle.loads(pickle.dumps(part)) == part


def test_workers_are_unknown_without_their_column():
    assert Annotations.from_table([("t", "a"), ("t", "b")]).workers is None
    assert Annotations.from_counts([[1, 2]]).workers is None
    assert Annotations.from_table(RATINGS, worker=None).workers is None
    assert Annotations.from_table(RATINGS).workers == ("ann", "bob")
