"""Names of items and classes are matched where both sides have them;
positions count only where they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from credalset._batch import Labels, class_names, find_rows, item_names, match_names, take_names

import credalset as cs

COUNTS = pd.DataFrame([[3, 1, 0], [0, 0, 4]], index=["t1", "t2"], columns=["no", "yes", "maybe"])


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


def test_labels_follow_the_names_that_are_given() -> None:
    found = read_labels(COUNTS, items=["t2", "t1"], classes=["maybe", "no", "yes"])
    assert found.counts is not None
    assert found.counts.tolist() == [[4, 0, 0], [0, 3, 1]]
    assert (found.items, found.classes) == (("t2", "t1"), ("maybe", "no", "yes"))
    np.testing.assert_allclose(found.distributions, [[1, 0, 0], [0, 0.75, 0.25]])


def test_positions_count_where_one_side_has_no_names() -> None:
    found = read_labels(COUNTS.to_numpy(), items=["b", "a"], classes=["x", "y", "z"])
    assert found.counts is not None
    assert found.counts.tolist() == COUNTS.to_numpy().tolist()
    assert (found.items, found.classes) == (("b", "a"), ("x", "y", "z"))
    assert read_labels(COUNTS).items == ("t1", "t2")


def test_names_that_do_not_match_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"1 item of X has no Y: .t3.*votes\.items"):
        read_labels(COUNTS, items=["t1", "t3"], name="Y", like="X")
    with pytest.raises(ValueError, match=r"Y and X name different classes"):
        read_labels(COUNTS, classes=["no", "yes", "perhaps"], name="Y", like="X")
    with pytest.raises(ValueError, match=r"Y has 2 rows, but X has 3 items"):
        read_labels(COUNTS.to_numpy(), items=["a", "b", "c"], name="Y", like="X")
    with pytest.raises(ValueError, match="Y has 3 classes"):
        read_labels(COUNTS, n_classes=4, name="Y")


def test_labels_of_further_items_are_not_used() -> None:
    found = read_labels(COUNTS, items=["t2"], name="Y", like="X")
    assert (found.items, len(found)) == (("t2",), 1)
    np.testing.assert_array_equal(found.counts, COUNTS.loc[["t2"]])
    X = pd.DataFrame({"x": [1.0]}, index=["t2"])
    assert match_names(("t1", "t2"), tuple(X.index), "items", "Y", "X").tolist() == [1]
    with pytest.raises(ValueError, match="repeat"):
        match_names(("a", "b", "a"), ("a",), "items", "Y", "X")


def test_repeated_names_count_only_in_the_same_order() -> None:
    assert match_names(("a", "a", "b"), ("a", "a", "b"), "items", "Y", "X") is None
    with pytest.raises(ValueError, match="repeat"):
        match_names(("a", "b", "a"), ("a", "a", "b"), "items", "Y", "X")


def test_annotations_beside_predictions_without_names() -> None:
    """They have an order of their own, so that rows of an array would get the votes on
    other items.
    """
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
        with pytest.raises(ValueError, match=r"names of items .*'no', 'yes'"):
            call(votes)
        call(votes.counts)
    assert sets.contains(votes, broadcast=True).shape == (2, 2)


def test_labels_with_names_beside_features_without() -> None:
    """Issue 25, item 6: matching by position only if the caller asks for it,
    by passing an array.
    """
    assert read_labels(COUNTS).items == ("t1", "t2")
    with pytest.raises(
        ValueError, match=r"Y has names of items .*votes\.align\(X\.index\)\.counts"
    ):
        read_labels(COUNTS, name="Y", like="X", by_position=False)
    assert len(read_labels(COUNTS.to_numpy(), by_position=False)) == 2
    assert len(read_labels(COUNTS, items=["t2", "t1"], by_position=False)) == 2


def test_rows_numbered_in_another_order_beside_rows_without_names() -> None:
    numbered = COUNTS.reset_index(drop=True)
    for labels, items in ((numbered.iloc[::-1], None), (numbered, (1, 0))):
        with pytest.warns(cs.CredalSetWarning, match="Y and X are matched by position"):
            read_labels(labels, items=items, name="Y", like="X")


def test_counts_and_distributions_are_told_apart_by_whole_numbers() -> None:
    shares = read_labels([[0.5, 0.5], [1, 0]])
    assert shares.counts is None
    with pytest.raises(ValueError, match="FewVotes needs annotation counts, but labels"):
        shares.votes("labels", "FewVotes")
    assert read_labels([[1, 0], [0, 1]]).votes("labels", "FewVotes").tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="Y must hold label distributions"):
        read_labels([[0.5, 0.9]], name="Y")


def test_masked_values_are_refused() -> None:
    """Issue 25, item 5: a masked entry is missing, not the number below the mask."""
    masked = np.ma.array([[3, 1], [2, 2]], mask=[[0, 0], [0, 1]])
    with pytest.raises(ValueError, match="Y has masked values"):
        read_labels(masked, name="Y")
    with pytest.raises(ValueError, match="prediction has masked values"):
        cs.conformalize(np.ma.array([[0.5, 0.5]], mask=[[0, 1]]), [[3, 1]])
    with pytest.raises(ValueError, match="groups has masked values"):
        per_item(np.ma.array([1, 2], mask=[0, 1]), None, "groups")
    row = np.ma.array([1, 0], mask=[0, 1])
    for name, call in {
        "Y": lambda: read_labels([row, row], name="Y"),
        "counts": lambda: cs.Annotations(counts=masked),
        "items": lambda: cs.Annotations.from_counts([[3, 1], [2, 2]], items=row),
        "classes": lambda: cs.Annotations.from_counts([[3, 1], [2, 2]], classes=row),
        "folds": lambda: cs.cross_conformalize([[0.5, 0.5]] * 2, [[3, 1]] * 2, row),
    }.items():
        with pytest.raises(ValueError, match=f"{name} has masked values"):
            call()
    assert read_labels(np.ma.array([[3, 1]])).counts is not None


def test_scales_move_with_their_columns() -> None:
    labels = Labels(np.full((1, 3), 1 / 3), None, None, ("low", "mid", "high"), (0.0, 1.0, 2.0))
    assert labels.scale_order(has_names=False) is None
    moved = read_labels(labels, classes=["high", "low", "mid"])
    assert moved.scale == (2.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="Y are on the scale 'low', 'mid', 'high'"):
        moved.scale_order(False, "Y")
    assert moved.in_scale_order().classes == ("low", "mid", "high")


def test_classes_numbered_in_another_order_beside_classes_without_names() -> None:
    """Counters of labels make frames whose columns come as the labels did."""
    counts = pd.DataFrame([{2: 3, 0: 1, 1: 2}, {0: 5, 1: 1, 2: 1}])
    prediction = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    for one, other in ((prediction, counts), (counts.div(counts.sum(axis=1), axis=0), prediction)):
        with pytest.warns(cs.CredalSetWarning, match="classes"):
            cs.conformalize(one, other, "tv")
    calibration = cs.conformalize(prediction, counts[[0, 1, 2]], "tv")
    with pytest.warns(cs.CredalSetWarning, match="classes"):
        calibration.predict_set(counts.div(counts.sum(axis=1), axis=0), alpha=0.5)
    cs.conformalize(prediction, counts.to_numpy(), "tv", classes=[2, 0, 1]).predict_set(
        prediction, alpha=0.5
    )
    np.testing.assert_array_equal(read_labels(counts, classes=[0, 1, 2]).counts, counts[[0, 1, 2]])


def test_rows_of_labels_keep_their_names() -> None:
    part = read_labels(COUNTS)[[1]]
    assert part.items == ("t2",)
    assert take_names(("a", "b", "c"), np.array([True, False, True])) == ("a", "c")
    assert take_names(("a", "b", "c"), -1) == ("c",)
    assert take_names(None, [0]) is None


def test_predictions_follow_the_classes_by_name() -> None:
    frame = pd.DataFrame([[0.2, 0.8]], columns=["b", "a"])
    assert order_columns(frame, ("a", "b")).to_numpy().tolist() == [[0.8, 0.2]]
    assert order_columns(pl.from_pandas(frame), ("a", "b")).tolist() == [[0.8, 0.2]]
    assert order_columns(frame, None) is frame
    assert order_columns(frame, (0, 1)) is frame
    with pytest.raises(ValueError, match="prediction and labels name different classes"):
        order_columns(frame, ("a", "c"))


def test_columns_per_item_follow_the_items_by_name() -> None:
    groups = pd.Series({"t3": "z", "t2": "y", "t1": "x"})
    assert per_item(groups, ("t1", "t2"), "groups").tolist() == ["x", "y"]
    assert per_item(groups, ("t1", "t2", "t3"), "groups").tolist() == ["x", "y", "z"]
    assert per_item(groups, None, "groups") is groups
    assert per_item(["x", "y"], ("t1", "t2"), "groups") == ["x", "y"]
    with pytest.raises(ValueError, match="1 item of prediction has no groups"):
        per_item(groups, ("t1", "t2", "t9"), "groups")


def test_columns_numbered_in_another_order_than_the_items() -> None:
    with pytest.warns(cs.CredalSetWarning, match="groups and prediction are matched by position"):
        per_item(pd.Series(["x", "y"]), (1, 0), "groups")


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
