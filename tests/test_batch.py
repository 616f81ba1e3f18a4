"""Names of items and classes are matched where both sides have them.

What has no names follows the order in which the caller gave the predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import credalset as cs
from credalset._batch import (
    class_names,
    find_rows,
    item_names,
    match_names,
    read,
    read_votes,
    take_names,
)

COUNTS = pd.DataFrame([[3, 1, 0], [0, 0, 4]], index=["t1", "t2"], columns=["no", "yes", "maybe"])
SHARES = pd.DataFrame(
    [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], index=["t2", "t1"], columns=["maybe", "no", "yes"]
)


def test_names_of_frames_tables_and_arrays() -> None:
    assert item_names(COUNTS) == ("t1", "t2")
    assert class_names(COUNTS) == ("no", "yes", "maybe")
    for table in (pl.from_pandas(COUNTS), pa.Table.from_pandas(COUNTS, preserve_index=False)):
        assert item_names(table) is None
        assert class_names(table) == ("no", "yes", "maybe")
    for nameless in (
        COUNTS.to_numpy(),
        COUNTS.to_numpy().tolist(),
        pd.DataFrame(COUNTS.to_numpy()),
    ):
        assert (item_names(nameless), class_names(nameless)) == (None, None)


def test_an_index_that_is_not_the_default_one_holds_names() -> None:
    frame = pd.DataFrame(np.eye(4))
    assert item_names(frame.iloc[:2]) is None
    assert item_names(frame.iloc[[2, 0]]) == (2, 0)
    assert item_names(frame.iloc[2:]) == (2, 3)


def test_names_are_plain_values() -> None:
    names = item_names(pd.Series([1.0, 2.0], index=np.array([np.int64(5), np.int64(7)])))
    assert names == (5, 7)
    assert all(type(name) is int for name in names)


def test_columns_that_share_a_name_are_refused() -> None:
    with pytest.raises(ValueError, match="prediction names a class twice"):
        class_names(pd.DataFrame([[1, 2]], columns=["a", "a"]), "prediction")


def test_votes_follow_the_names_of_the_predictions() -> None:
    found = read(SHARES).votes(COUNTS)
    assert found.counts is not None
    assert found.counts.tolist() == [[4, 0, 0], [0, 3, 1]]
    assert (found.items, found.classes) == (("t2", "t1"), ("maybe", "no", "yes"))
    np.testing.assert_allclose(found.distributions, [[1, 0, 0], [0, 0.75, 0.25]])


def test_votes_without_names_follow_the_predictions_as_they_were_given() -> None:
    """Predictions whose columns are put into another order take the votes with them."""
    batch = read(SHARES, classes=["no", "yes", "maybe"])
    assert batch.values[0].tolist() == [0.3, 0.5, 0.2]
    found = batch.votes([[4, 0, 0], [0, 3, 1]])
    assert found.counts is not None
    assert found.counts.tolist() == [[0, 0, 4], [3, 1, 0]]
    assert (found.items, found.classes) == (("t2", "t1"), ("no", "yes", "maybe"))
    assert read_votes(COUNTS).items == ("t1", "t2")


def test_names_that_do_not_match_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"1 item of X has no Y: .t3.*votes\.items"):
        read(SHARES.rename({"t2": "t3"}), name="X").votes(COUNTS, "Y")
    with pytest.raises(ValueError, match=r"Y and X name different classes: there is no 'no' in X"):
        read(SHARES.rename(columns={"no": "perhaps"}), name="X").votes(COUNTS, "Y")
    with pytest.raises(ValueError, match=r"Y must have one row for each item of X"):
        read(SHARES.iloc[:1], name="X").votes(COUNTS.to_numpy(), "Y")
    with pytest.raises(ValueError, match="Y has 3 classes"):
        read(np.ones((2, 4)) / 4, name="X").votes(COUNTS.to_numpy(), "Y")


def test_a_class_that_nobody_voted_for_has_no_votes() -> None:
    found = read(SHARES).votes(COUNTS[["no", "maybe"]])
    assert found.counts is not None
    assert found.counts.tolist() == [[4, 0, 0], [0, 3, 0]]


def test_votes_on_further_items_are_not_used() -> None:
    found = read(SHARES.loc[["t2"]], name="X").votes(COUNTS, "Y")
    assert (found.items, len(found), found.n_unmatched) == (("t2",), 1, 1)
    np.testing.assert_array_equal(found.counts, COUNTS.loc[["t2"], list(SHARES.columns)])
    rows = match_names(("t1", "t2"), ("t2",), "items", "Y", "X")
    assert rows is not None
    assert rows.tolist() == [1]
    with pytest.raises(ValueError, match="repeat"):
        match_names(("a", "b", "a"), ("a",), "items", "Y", "X")


def test_repeated_names_count_only_in_the_same_order() -> None:
    assert match_names(("a", "a", "b"), ("a", "a", "b"), "items", "Y", "X") is None
    with pytest.raises(ValueError, match="repeat"):
        match_names(("a", "b", "a"), ("a", "a", "b"), "items", "Y", "X")


def test_names_beside_predictions_without_names_are_refused() -> None:
    """They have an order of their own: rows of an array would get the votes on other items."""
    votes = cs.Annotations.from_counts([[3, 1], [0, 4]], items=["t1", "t2"], classes=["no", "yes"])
    prediction = np.array([[0.5, 0.5], [0.2, 0.8]])
    calibration = cs.conformalize(prediction, votes.counts)
    crowd = cs.DirichletCrowd(max_iter=5).fit(prediction, votes.counts)
    sets = calibration.predict_set(prediction, alpha=0.5)
    calls: list[Any] = [
        lambda labels: cs.conformalize(prediction, labels),
        lambda labels: cs.evaluate(calibration, prediction, labels, alpha=0.5),
        lambda labels: cs.metrics.coverage(sets, labels),
        lambda labels: sets.contains(labels),
        lambda labels: crowd.predict(prediction, labels),
        lambda labels: cs.report(calibration, prediction, labels, None, alpha=0.5),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"names its (items|classes) .*without names"):
            call(votes)
        call(votes.counts)


def test_rows_and_columns_numbered_in_another_order_are_refused() -> None:
    """Counters of labels make frames whose columns come as the labels did."""
    numbered = pd.DataFrame(COUNTS.to_numpy())
    with pytest.raises(ValueError, match="names its items"):
        read(np.ones((2, 3)) / 3).votes(numbered.iloc[::-1])
    counts = pd.DataFrame([{2: 3, 0: 1, 1: 2}, {0: 5, 1: 1, 2: 1}])
    prediction = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    with pytest.raises(ValueError, match="names its classes"):
        cs.conformalize(prediction, counts, "tv")
    shares = counts.div(counts.sum(axis=1), axis=0)
    calibration = cs.conformalize(prediction, counts[[0, 1, 2]], "tv")
    with pytest.raises(ValueError, match="names of classes"):
        calibration.predict_set(shares, alpha=0.5)
    named = cs.conformalize(shares, counts[[0, 1, 2]], "tv")
    assert named.classes == (2, 0, 1)


def test_counts_and_distributions_are_told_apart_by_whole_numbers() -> None:
    shares = read_votes([[0.5, 0.5], [1, 0]])
    assert shares.counts is None
    with pytest.raises(ValueError, match="FewVotes needs annotation counts, but labels"):
        shares.votes("labels", "FewVotes")
    assert read_votes([[1, 0], [0, 1]]).votes("labels", "FewVotes").tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="Y must hold label distributions"):
        read_votes([[0.5, 0.9]], name="Y")


def test_masked_values_are_refused() -> None:
    """A masked entry is missing, not the number below the mask."""
    masked = np.ma.array([[3, 1], [2, 2]], mask=[[0, 0], [0, 1]])
    row = np.ma.array([1, 0], mask=[0, 1])
    for name, call in {
        "Y": lambda: read_votes(masked, name="Y"),
        "predictions": lambda: cs.conformalize(np.ma.array([[0.5, 0.5]], mask=[[0, 1]]), [[3, 1]]),
        "groups": lambda: read([[0.5, 0.5]] * 2).per_item(
            np.ma.array([1, 2], mask=[0, 1]), "groups"
        ),
        "votes": lambda: read_votes([row, row]),
        "counts": lambda: cs.Annotations(counts=masked),
        "items": lambda: cs.Annotations.from_counts([[3, 1], [2, 2]], items=row),
        "classes": lambda: cs.Annotations.from_counts([[3, 1], [2, 2]], classes=row),
        "folds": lambda: cs.cross_conformalize([[0.5, 0.5]] * 2, [[3, 1]] * 2, row),
    }.items():
        with pytest.raises(ValueError, match=f"{name} has masked values"):
            call()
    assert read_votes(np.ma.array([[3, 1]])).counts is not None


def test_scales_move_with_their_columns() -> None:
    votes = cs.Annotations.from_counts(
        [[1, 2, 3]], items=["a"], classes=["low", "mid", "high"], scale=["low", "mid", "high"]
    )
    shares = pd.DataFrame([[0.2, 0.3, 0.5]], index=["a"], columns=["high", "low", "mid"])
    moved = read(shares).votes(votes)
    assert moved.scale == (2.0, 0.0, 1.0)
    order = moved.scale_order()
    assert order is not None
    assert moved.reorder(order).classes == ("low", "mid", "high")
    assert read_votes(votes).scale_order() is None


def test_rows_of_votes_keep_their_names() -> None:
    part = read_votes(COUNTS)[[1]]
    assert part.items == ("t2",)
    assert take_names(("a", "b", "c"), np.array([True, False, True])) == ("a", "c")
    assert take_names(("a", "b", "c"), -1) == ("c",)
    assert take_names(None, [0]) is None


def test_predictions_follow_the_classes_by_name() -> None:
    frame = pd.DataFrame([[0.2, 0.8]], columns=["b", "a"])
    for table in (frame, pl.from_pandas(frame)):
        assert read(table, ("a", "b")).values.tolist() == [[0.8, 0.2]]
    assert read(frame).classes == ("b", "a")
    assert read(frame.to_numpy(), ("b", "a")).values.tolist() == [[0.2, 0.8]]
    with pytest.raises(ValueError, match="predictions and classes name different classes"):
        read(frame, ("a", "c"))


def test_values_per_item_follow_the_items_by_name() -> None:
    batch = read(SHARES)
    groups = pd.Series({"t3": "z", "t2": "y", "t1": "x"})
    assert batch.per_item(groups, "groups").tolist() == ["y", "x"]
    assert batch.per_item(["x", "y"], "groups") == ["x", "y"]
    with pytest.raises(ValueError, match="1 item of predictions has no groups"):
        batch.per_item(groups.drop("t2"), "groups")
    with pytest.raises(ValueError, match="groups names its items"):
        read(SHARES.to_numpy()).per_item(groups, "groups")


def test_a_mapping_is_matched_by_item() -> None:
    """Its keys were taken for the values, so that every item was a cluster of its own."""
    batch = read(pd.DataFrame([[0.5, 0.5]] * 3, index=["a", "b", "c"]))
    assert batch.column({"c": 3, "a": 1, "b": 2, "d": 4}, "groups") == [1, 2, 3]
    with pytest.raises(ValueError, match="1 item of predictions has no groups: 'c'"):
        batch.column({"a": 1, "b": 2}, "groups")
    with pytest.raises(ValueError, match="groups names its items"):
        read([[0.5, 0.5]]).column({"a": 1}, "groups")
    with pytest.raises(TypeError, match="groups is a set"):
        batch.column({"a", "b", "c"}, "groups")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_every_item_has_a_key(missing: Any) -> None:
    """Missing clusters were one cluster, or each its own, by the way they were written."""
    with pytest.raises(ValueError, match=r"clusters has a missing value \(first: row 1\)"):
        read([[0.5, 0.5]] * 2).keys(["x", missing], "clusters")


def test_a_default_index_beside_the_same_numbers_in_another_order_is_refused() -> None:
    batch = read(SHARES.set_axis([1, 0]))
    with pytest.raises(ValueError, match="groups has the default index"):
        batch.per_item(pd.Series(["x", "y"]), "groups")


def test_rows_by_name() -> None:
    assert find_rows(["c", "a"], ("a", "b", "c")).tolist() == [2, 0]
    with pytest.raises(ValueError, match="items has 1 of 2 names"):
        find_rows(["c", "x"], ("a", "b", "c"))
    with pytest.raises(ValueError, match="no names"):
        find_rows(["c"], None)
    with pytest.raises(ValueError, match="occurs twice"):
        find_rows(["a"], ("a", "a"))
    with pytest.raises(TypeError, match="items must be a list of names"):
        find_rows("abc", ("a", "b", "c"))


def test_costs_are_matched_on_both_sides() -> None:
    names = ["a", "b", "c"]
    turned = ["c", "a", "b"]
    costs = pd.DataFrame([[0.0, 1.0, 2.0], [1.0, 0.0, 5.0], [3.0, 1.0, 0.0]], names, names)
    shares = pd.DataFrame(np.full((2, 3), 1 / 3), columns=names)
    expected = costs.to_numpy()
    for given in (costs, costs.loc[turned, turned], costs.loc[turned], expected):
        np.testing.assert_array_equal(read(shares).square(given, "loss"), expected)
    # Without names they are in the order in which the caller gave the classes.
    batch = read(shares[turned], names)
    np.testing.assert_array_equal(
        batch.square(costs.loc[turned, turned].to_numpy(), "loss"), expected
    )
    with pytest.raises(ValueError, match="only its rows or only its columns"):
        read(shares).square(costs.reset_index(drop=True), "loss")
    with pytest.raises(ValueError, match="cannot be matched"):
        read(shares.to_numpy()).square(costs, "loss")
