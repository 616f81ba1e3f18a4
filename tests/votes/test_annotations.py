"""Tables, options and what one can do with votes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from dataclasses import FrozenInstanceError, replace
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, train_test_split

import credalset as cs
from credalset import Annotations, CredalSetWarning
from credalset.votes.tables import SYNONYMS

nan = float("nan")
ROWS = [
    ("t1", "ann", "cat"),
    ("t1", "bob", "dog"),
    ("t1", "eve", "cat"),
    ("t2", "ann", "dog"),
    ("t2", "bob", "dog"),
]
FRAME = pd.DataFrame(ROWS, columns=["task", "worker", "label"])
COUNTS = [[2, 1], [0, 2]]


def warned(make) -> tuple[Annotations, list[str]]:
    """The votes, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        votes = make()
    return votes, [str(each.message) for each in caught if each.category is CredalSetWarning]


# --- long tables ---


@pytest.mark.parametrize(
    "table",
    [
        FRAME,
        pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME),
        FRAME.to_dict("list"),
        FRAME.to_dict("records"),
        ROWS,
        {name: FRAME[name].to_numpy() for name in FRAME},
        FRAME.astype("category"),
        FRAME.astype("string"),
    ],
    ids=[
        "pandas",
        "polars",
        "arrow",
        "columns",
        "dicts",
        "tuples",
        "arrays",
        "categories",
        "strings",
    ],
)
def test_every_library_gives_the_same_votes(table) -> None:
    votes = Annotations.from_table(table)
    assert votes.counts.tolist() == COUNTS
    assert votes.counts.dtype == np.int64
    assert (votes.classes, votes.items, votes.workers) == (
        ("cat", "dog"),
        ("t1", "t2"),
        ("ann", "bob", "eve"),
    )
    assert (votes.notes, votes.scale, votes.origin) == ((), None, None)
    np.testing.assert_allclose(votes.distributions, [[2 / 3, 1 / 3], [0, 1]])


@pytest.mark.parametrize(
    "names", [("Task", "WORKER", "Label"), ("item_id", "Annotator ID", "annotation")]
)
def test_columns_are_found_by_a_short_list_of_names(names) -> None:
    votes = Annotations.from_table(FRAME.set_axis(names, axis=1).assign(text="x"))
    assert votes.counts.tolist() == COUNTS
    assert votes.workers == ("ann", "bob", "eve")


def test_columns_are_named_by_the_caller() -> None:
    table = FRAME.set_axis(["picture", "who", "said"], axis=1)
    assert (
        Annotations.from_table(table, task="picture", worker="who", label="said").counts.tolist()
        == COUNTS
    )
    assert Annotations.from_table(table, task="picture", label="said").workers is None
    for role, given_ in (("task", {"label": "said"}), ("label", {"task": "picture"})):
        with pytest.raises(ValueError, match=rf"of the {role} .* with {role}"):
            Annotations.from_table(table, **given_)
    with pytest.raises(ValueError, match=r"label names .*colour"):
        Annotations.from_table(FRAME, label="colour")


def test_the_list_of_names_is_short_and_unambiguous() -> None:
    names = [name for synonyms in SYNONYMS.values() for name in synonyms]
    assert len(names) == len(set(names)) <= 30
    both = FRAME.assign(id=range(5), rating=1)
    assert Annotations.from_table(both).counts.tolist() == COUNTS, (
        "the first name of the list is taken"
    )


def test_values_in_memory_keep_their_type() -> None:
    votes = Annotations.from_table([(7, 1, 3), (7, 2, 5), ("07", 1, 3)])
    assert (votes.items, votes.workers, votes.classes) == ((7, "07"), (1, 2), (3, 5))
    assert all(type(name) is int for name in (*votes.classes, *votes.workers))
    numpy = Annotations.from_table({"task": np.array([1, 2]), "label": np.array([0.5, 1.5])})
    assert numpy.classes == (0.5, 1.5)
    assert type(numpy.items[0]) is int


@pytest.mark.parametrize("missing", [None, nan, pd.NA, pd.NaT, "", np.ma.masked])
def test_rows_without_a_label_or_a_task_are_dropped_and_counted(missing) -> None:
    rows = [*ROWS, ("t1", "max", missing), (missing, "max", "cat"), ("t3", "max", missing)]
    votes, said = warned(lambda: Annotations.from_table(rows))
    assert votes.counts.tolist() == COUNTS
    assert votes.notes == (
        "1 item without votes left out",
        "1 vote dropped: without a task",
        "2 votes dropped: without a label",
    )
    assert len(said) == 1
    assert "2 votes dropped: without a label" in said[0]


@pytest.mark.parametrize("name", ["NA", "null", "nan", "N/A", "None", " "])
def test_names_that_look_missing_are_names(name) -> None:
    votes = Annotations.from_table([("t1", "ann", name), ("t1", name, "x"), (name, "ann", "x")])
    assert set(votes.classes) == {name, "x"}
    assert votes.items == ("t1", name)
    assert votes.workers == ("ann", name)
    assert votes.notes == ()


def test_masked_values_are_missing() -> None:
    """Issue 25, item 5."""
    labels = np.ma.array([1, 2, 1, 2], mask=[0, 0, 0, 1])
    votes = Annotations.from_table({"task": [1, 1, 2, 2], "worker": list("abab"), "label": labels})
    assert votes.counts.tolist() == [[1, 1], [1, 0]]
    wide = Annotations.from_wide(np.ma.array([[1, 2], [1, 1]], mask=[[0, 0], [0, 1]]))
    assert wide.counts.tolist() == [[1, 1], [1, 0]]


def test_votes_without_a_worker_are_votes_of_different_workers() -> None:
    votes, said = warned(
        lambda: Annotations.from_table([("t", None, "a"), ("t", None, "b"), ("t", "ann", "a")])
    )
    assert votes.counts.tolist() == [[2, 1]]
    assert votes.workers == ("ann",)
    assert votes.notes == ("2 votes without a worker, counted as votes of different workers",)
    assert said == []
    assert [row["votes"] for row in votes.agreement(n_resamples=0).workers] == [1]


# --- repeated votes ---


def test_rows_repeated_without_a_column_of_workers_are_noted() -> None:
    table = {
        "task": ["a", "a", "a", "b"],
        "label": ["x", "x", "y", "x"],
        "date": ["1.1.2025", "2.1.2025", None, None],
    }
    votes = Annotations.from_table({name: table[name] for name in ("task", "label")})
    assert votes.notes == (
        "1 row repeated exactly, counted as votes of different workers, who have no column",
    )
    assert votes.counts.tolist() == [[2, 1], [1, 0]]
    assert not Annotations.from_table(table).notes, "at different times"
    assert not Annotations.from_table(table | {"worker": ["u", "v", "w", "u"]}).notes
    assert not Annotations.from_records({"a": ["x", "x", "y"]}).notes


REPEATED = {
    "task": ["t", "t", "u", "t"],
    "worker": ["ann", "ann", "ann", "bob"],
    "label": ["new", "old", "old", "old"],
}


def test_repeated_votes_go_by_the_order_of_the_rows_without_times() -> None:
    votes, said = warned(lambda: Annotations.from_table(REPEATED))
    assert votes.counts.tolist() == [[0, 2], [0, 1]]
    assert votes.notes == (
        "1 vote replaced by the worker's later vote on the same task, by the order of the rows",
    )
    assert len(said) == 1
    assert "1 vote replaced" in said[0]


@pytest.mark.parametrize(
    "times",
    [
        [2, 1, 0, 0],
        ["2025-01-02", "2025-01-01", None, ""],
        ["2024-05-01T12:00:00Z", "2024-05-01T13:00:00+02:00", None, None],
        [datetime(2025, 1, 2), datetime(2025, 1, 1), None, None],
        [date(2025, 1, 2), date(2025, 1, 1), None, None],
        np.array(["2025-01-02", "2025-01-01", "NaT", "NaT"], dtype="datetime64[ns]"),
        pd.to_datetime(pd.Series(["2025-01-02", "2025-01-01", None, None])),
        ["1707211060", "1707211040.5", "", ""],
    ],
    ids=[
        "numbers",
        "dates",
        "zones",
        "datetimes",
        "plain dates",
        "datetime64",
        "timestamps",
        "number texts",
    ],
)
def test_repeated_votes_are_settled_by_time(times) -> None:
    """A column of dates decides, not the order of the file."""
    votes, said = warned(lambda: Annotations.from_table(REPEATED | {"time": times}))
    assert votes.counts.tolist() == [[1, 1], [0, 1]]
    assert votes.notes == ("1 vote replaced by the worker's later vote on the same task, by time",)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("dayfirst", "counts"),
    [(True, [[1, 1], [0, 1]]), (False, [[0, 2], [0, 1]])],
    ids=["day", "month"],
)
@pytest.mark.parametrize(
    "times", [("1.12.2024", "12.11.2024"), ("01/12/2024 09:30", "12/11/2024 08:00:30 PM")]
)
def test_dates_that_are_not_iso_need_dayfirst(dayfirst, counts, times) -> None:
    table = REPEATED | {"date": [*times, None, None]}
    with pytest.raises(ValueError, match=r"time holds .*dayfirst"):
        Annotations.from_table(table)
    assert Annotations.from_table(table, dayfirst=dayfirst).counts.tolist() == counts


def test_times_that_decide_nothing_are_not_read() -> None:
    assert Annotations.from_table(FRAME.assign(date="whenever")).counts.tolist() == COUNTS
    assert Annotations.from_table(FRAME.assign(date="whenever")).table["time"] == ["whenever"] * 5


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 4)),
        min_size=1,
    )
)
def test_counting_is_what_a_dictionary_does(rows) -> None:
    latest: dict[tuple[int, int], tuple[int, str]] = {}
    for task, worker, label, time in rows:
        if (task, worker) not in latest or time >= latest[task, worker][0]:
            latest[task, worker] = (time, label)
    names = ("task", "worker", "label", "time")
    votes = Annotations.from_table(
        [dict(zip(names, row, strict=True)) for row in rows], classes=["a", "b"]
    )
    items = list(dict.fromkeys(row[0] for row in rows))
    wanted = np.zeros((len(items), 2), dtype=int)
    for (task, _), (_, label) in latest.items():
        wanted[items.index(task), "ab".index(label)] += 1
    assert votes.items == tuple(items)
    assert votes.counts.tolist() == wanted.tolist()
    again = Annotations.from_table(votes.table, classes=["a", "b"])
    assert again == votes


# --- labels: classes, rename, tidy, empty, unknown ---


def test_classes_give_the_order_and_unused_ones() -> None:
    votes = Annotations.from_table(FRAME, classes=["dog", "fox", "cat"])
    assert votes.counts.tolist() == [[1, 0, 2], [2, 0, 0]]
    declared = FRAME.assign(label=pd.Categorical(FRAME["label"], categories=["fox", "dog", "cat"]))
    assert Annotations.from_table(declared).classes == ("fox", "dog", "cat")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "1"], ("1", "9", "10")),
        ([10, 9, 1], (1, 9, 10)),
        (["b", "a", "10"], ("10", "a", "b")),
    ],
)
def test_classes_are_sorted(labels, classes) -> None:
    assert Annotations.from_records({"t": labels}).classes == classes


def test_unknown_labels_are_refused_or_dropped_and_counted() -> None:
    with pytest.raises(ValueError, match=r"label holds 2 votes for 'cat'.*unknown"):
        Annotations.from_table(FRAME, classes=["dog", "fox"])
    votes, said = warned(
        lambda: Annotations.from_table(FRAME, classes=["dog", "fox"], unknown="drop")
    )
    assert votes.counts.tolist() == [[1, 0], [2, 0]]
    assert votes.notes == ("2 votes dropped: for labels not among the classes ('cat')",)
    assert len(said) == 1


def test_several_labels_in_one_vote() -> None:
    rows = [*ROWS, ("t2", "eve", ["cat", "dog"]), ("t2", "max", ["cat"]), ("t2", "may", [])]
    with pytest.raises(ValueError, match=r"label holds several labels.*unknown"):
        Annotations.from_table(rows)
    votes = Annotations.from_table(rows, unknown="drop")
    assert votes.counts.tolist() == [[2, 1], [1, 2]]
    assert len(votes.notes) == 2
    with pytest.raises(TypeError, match="label holds values"):
        Annotations.from_table([*ROWS, ("t2", "eve", {"cat": 1})])


def test_rename_and_tidy() -> None:
    labels = ["Yes", "yes ", "NO", "n", "y"]
    table = {"task": list("aabbb"), "label": labels}
    assert Annotations.from_table(table).n_classes == 5
    assert Annotations.from_table(table, tidy=True).classes == ("n", "no", "y", "yes")
    votes = Annotations.from_table(table, tidy=True, rename={"N": "no", "y": "yes"})
    assert (votes.classes, votes.counts.tolist()) == (("no", "yes"), [[0, 2], [2, 1]])
    assert votes.notes == ("5 votes renamed or tidied",)
    spelled = Annotations.from_table(
        table, tidy=True, rename={"N": "No", "y": "Yes"}, classes=["Yes", "No"]
    )
    assert spelled.counts.tolist() == [[2, 0], [1, 2]]
    with pytest.raises(ValueError, match="rename"):
        Annotations.from_table(table, rename={"maybe": "yes"})
    assert Annotations.from_records(
        {"t": [1, 2, 3]}, rename={"1": "one", 2: "one", 3: "x"}
    ).counts.tolist() == [[2, 1]]


def test_further_marks_of_an_empty_cell() -> None:
    votes = Annotations.from_table(
        [*ROWS, ("t1", "max", "?"), ("t1", "may", -1)], empty=["?", "-1"]
    )
    assert votes.counts.tolist() == COUNTS
    assert votes.notes == ("2 votes dropped: without a label",)
    assert Annotations.from_wide([[0, 1], [-1, 1]], empty=[-1]).counts.tolist() == [[1, 1], [0, 1]]
    tidy = Annotations.from_records({"a": ["Yes", "no", "N/A ", "n/a"]}, empty=["n/a"], tidy=True)
    assert (tidy.classes, tidy.counts.tolist()) == (("no", "yes"), [[1, 1]])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"unknown": "keep"}, ValueError),
        ({"rename": ["a"]}, TypeError),
        ({"empty": "?"}, TypeError),
        ({"classes": "cat"}, TypeError),
        ({"classes": ["cat", "cat"]}, ValueError),
        ({"classes": ["cat"]}, ValueError),
        ({"scale": ["cat", "dog", "cat"]}, ValueError),
        ({"scale": ["cat", "fox"], "classes": ["cat", "dog"]}, ValueError),
    ],
    ids=str,
)
def test_options_are_checked(options, error) -> None:
    with pytest.raises(error, match=next(iter(options))):
        Annotations.from_table(FRAME, **options)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("votes.csv", TypeError),
        (3, TypeError),
        ([("t", "a")], TypeError),
        ({"task": [1, 2], "label": [1]}, ValueError),
        (pd.DataFrame([[1, 2, 3]], columns=["task", "label", "label"]), ValueError),
    ],
    ids=["path", "number", "pairs", "ragged", "twice"],
)
def test_what_is_not_a_table(table, error) -> None:
    with pytest.raises(error, match="table"):
        Annotations.from_table(table)


def test_one_label_is_not_enough() -> None:
    with pytest.raises(ValueError, match="classes must be at least two"):
        Annotations.from_table([("t", "ann", "a")])


# --- scales ---


@pytest.mark.parametrize(
    ("options", "classes", "scale"),
    [
        ({"scale": ["low", "mid", "high"]}, ("low", "mid", "high"), (0.0, 1.0, 2.0)),
        ({"scale": {"high": 9, "low": 0, "mid": 2}}, ("low", "mid", "high"), (0.0, 2.0, 9.0)),
        (
            {"classes": ["low", "mid", "high"], "scale": True},
            ("low", "mid", "high"),
            (0.0, 1.0, 2.0),
        ),
        ({}, ("high", "low"), None),
    ],
    ids=["names", "positions", "classes", "none"],
)
def test_scales(options, classes, scale) -> None:
    votes = Annotations.from_records({"t": ["low", "high"]}, **options)
    assert (votes.classes, votes.scale) == (classes, scale)


def test_levels_that_are_numbers_stand_at_them() -> None:
    votes = Annotations.from_records({"t": [1, 5, 2]}, scale=True)
    assert votes.scale == (1.0, 2.0, 5.0)
    assert cs.scores.Wasserstein(positions=votes.scale).positions == (1.0, 2.0, 5.0)
    with pytest.raises(ValueError, match="scale must be in increasing order"):
        Annotations.from_records({"t": [1, 5, 2]}, scale=[5, 2, 1])


def test_ordered_categories_are_a_scale() -> None:
    levels = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"task": [1, 1], "label": pd.Series(["high", "low"], dtype=levels)})
    arrow = pa.table({"task": [1, 1], "label": pa.array(frame["label"])})
    for table in (frame, arrow):
        votes = Annotations.from_table(table)
        assert (votes.classes, votes.scale) == (("low", "mid", "high"), (0.0, 1.0, 2.0))
        assert Annotations.from_table(table, scale=False).scale is None


# --- wide tables and records ---

WIDE = pd.DataFrame({"ann": ["cat", None, "cat"], "bob": ["dog", "dog", ""]}, index=["a", "b", "c"])


@pytest.mark.parametrize(
    "table",
    [
        WIDE,
        WIDE.reset_index(names="item"),
        pl.from_pandas(WIDE.reset_index(names="Task ID")),
        WIDE.rename_axis("id"),
    ],
    ids=["index", "column", "polars", "named index"],
)
def test_wide_tables(table) -> None:
    votes = Annotations.from_wide(table)
    assert (votes.items, votes.classes, votes.workers) == (
        ("a", "b", "c"),
        ("cat", "dog"),
        ("ann", "bob"),
    )
    assert votes.counts.tolist() == [[1, 1], [0, 1], [1, 0]]
    assert votes.notes == ()


def test_wide_tables_take_columns_by_name() -> None:
    table = WIDE.reset_index(names="what").assign(text=["x", "y", "z"])
    votes = Annotations.from_wide(table, task="what", worker=["bob", "ann"])
    assert votes.counts.tolist() == [[1, 1], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match=r"task names .*who"):
        Annotations.from_wide(table, task="who")
    with pytest.raises(ValueError, match="worker names 'eve'"):
        Annotations.from_wide(table, worker=["eve"])
    for odd in (3, [[1, 2], [1]], [1, 2]):
        with pytest.raises((TypeError, ValueError), match="table"):
            Annotations.from_wide(odd)


def test_codes_stay_whole_numbers_beside_empty_cells() -> None:
    for table in (np.array([[0, nan], [2, 0], [nan, nan]]), [[0, nan], [2, 0], [nan, nan]]):
        votes = Annotations.from_wide(table)
        assert votes.classes == (0, 2)
        assert all(type(name) is int for name in votes.classes)
        assert votes.items is None
        assert votes.counts.tolist() == [[1, 0], [1, 1], [0, 0]], (
            "items without names keep their positions"
        )


def test_items_with_names_and_without_votes_are_left_out_and_noted() -> None:
    votes = Annotations.from_wide(WIDE.assign(ann=None, bob=["x", None, "y"]))
    assert votes.items == ("a", "c")
    assert votes.notes == ("1 item without votes left out",)


def test_records() -> None:
    assert Annotations.from_records(FRAME.to_dict("records")).counts.tolist() == COUNTS
    assert (
        Annotations.from_records(
            {"t1": ["cat", "dog", "cat"], "t2": ["dog", "dog"]}
        ).counts.tolist()
        == COUNTS
    )
    assert (
        Annotations.from_records({"t1": {"cat": 2, "dog": 1}, "t2": {"dog": 2}}).counts.tolist()
        == COUNTS
    )
    unused = Annotations.from_records({"t1": {"dog": 0, "cat": 2}})
    assert (unused.classes, unused.counts.tolist()) == (("dog", "cat"), [[0, 2]]), (
        "labels nobody chose are classes"
    )
    for odd in ({"t": 3}, {"t": "cat"}, {"t": {"cat": 1.5}}, {"t": {"cat": -1}}):
        with pytest.raises((TypeError, ValueError), match=r"records\['t'\]"):
            Annotations.from_records(odd)


# --- counts ---


def test_from_counts() -> None:
    plain = Annotations.from_counts(np.array(COUNTS, dtype=np.uint8))
    assert (plain.classes, plain.items, plain.workers) == (None, None, None)
    frame = pd.DataFrame(COUNTS, index=["t1", "t2"], columns=["cat", "dog"])
    assert Annotations.from_counts(frame) == Annotations.from_table(FRAME)
    assert Annotations.from_counts(
        COUNTS, classes=["cat", "dog"], items=["t1", "t2"]
    ) == Annotations.from_table(FRAME)
    assert Annotations.from_counts(frame, scale={"dog": 0, "cat": 4}).scale == (4.0, 0.0)
    for odd in ([[1, -1]], [[0.5, 1]], [[1]], [["a", "b"]]):
        with pytest.raises((TypeError, ValueError), match="counts"):
            Annotations.from_counts(odd)
    for name in ("classes", "items"):
        with pytest.raises(ValueError, match=name):
            Annotations.from_counts(COUNTS, **{name: ["a", "a"]})
    with pytest.raises(ValueError, match="long table"):
        _ = plain.table


def test_items_without_votes_have_no_distribution() -> None:
    votes = Annotations.from_counts([[1, 0], [0, 0]], items=["a", "b"])
    with pytest.raises(ValueError, match=r"votes holds 1 item .*'b'.*drop_empty"):
        _ = votes.distributions
    assert votes.drop_empty().items == ("a",)


# --- what one can do with them ---

SCALED = Annotations.from_table(
    {
        "task": list("aabbcc"),
        "worker": list("xyxyxy"),
        "label": list("lmhlmm"),
        "time": [1, 2, 3, 4, 5, 6],
    },
    scale=["l", "m", "h"],
)


@pytest.mark.parametrize(
    "key", [0, -1, slice(1, 3), [2, 0], [1, 1], np.array([True, False, True]), [], np.int64(1)]
)
def test_indexing_by_position(key) -> None:
    part = SCALED[key]
    rows = np.atleast_1d(np.arange(3)[np.array(key, dtype=int) if isinstance(key, list) else key])
    assert part.counts.tolist() == SCALED.counts[rows].tolist()
    assert part.items == tuple("abc"[row] for row in rows)
    assert (part.scale, part.workers, part.classes) == (
        SCALED.scale,
        SCALED.workers,
        SCALED.classes,
    )
    assert part.table["task"] == [name for name in part.items for _ in range(2)]
    assert sorted(part.table["label"]) == sorted(
        label for row in rows for label in np.array(SCALED.table["label"])[2 * row : 2 * row + 2]
    )


def test_indexing_by_name_is_select() -> None:
    assert SCALED.select(["c", "a"]) == SCALED[[2, 0]]
    for key in ("a", ["a"], 0.5):
        with pytest.raises(TypeError, match="select"):
            SCALED[key]
    with pytest.raises(IndexError):
        SCALED[7]
    with pytest.raises(ValueError, match="items has 1 of 2 names"):
        SCALED.select(["a", "z"])


def test_align_puts_votes_into_the_order_of_a_frame() -> None:
    X = pd.DataFrame(np.zeros((4, 2)), index=["c", "z", "a", "c"])
    aligned = SCALED.align(X.index)
    assert aligned.counts.tolist() == [[0, 2, 0], [0, 0, 0], [1, 1, 0], [0, 2, 0]]
    assert aligned.items == ("c", "z", "a", "c")
    assert aligned.notes == ("1 item without votes", "votes on 1 other item dropped")
    assert (aligned.scale, aligned.workers) == (SCALED.scale, SCALED.workers)
    assert aligned.table["task"] == ["c", "c", "a", "a", "c", "c"]
    assert aligned.table["time"] == [5, 6, 1, 2, 5, 6]
    with pytest.raises(ValueError, match=r"items .*1, 2"):
        SCALED.align([1, 2])


def test_reorder_moves_the_scale_and_the_votes() -> None:
    moved = SCALED.reorder(["h", "l", "m"])
    assert moved.counts.tolist() == SCALED.counts[:, [2, 0, 1]].tolist()
    assert moved.scale == (2.0, 0.0, 1.0)
    assert moved.table == SCALED.table
    wider = replace(SCALED, scale=None).reorder(["new", "h", "l", "m"])
    assert wider.counts[:, 0].tolist() == [0, 0, 0]
    for odd in (["h", "l"], ["h", "l", "m", "m"], ["h", "l", "m", "new"]):
        with pytest.raises(ValueError, match="classes"):
            SCALED.reorder(odd)


def test_frames() -> None:
    assert SCALED.to_frame().loc["c", "m"] == 2
    assert Annotations.from_counts(SCALED.to_frame(), scale=["l", "m", "h"]) == SCALED
    assert SCALED.to_frame("distributions").loc["a", "l"] == 0.5
    assert Annotations.from_table(SCALED.to_frame("votes"), scale=["l", "m", "h"]) == SCALED
    with pytest.raises(ValueError, match="values"):
        SCALED.to_frame("shares")


def test_scikit_learn_splits_votes() -> None:
    first, second = train_test_split(SCALED, test_size=1, random_state=0)
    assert sorted((*first.items, *second.items)) == ["a", "b", "c"]
    assert [SCALED[rows].items for rows, _ in KFold(3).split(SCALED)] == [
        ("b", "c"),
        ("a", "c"),
        ("a", "b"),
    ]
    assert np.asarray(SCALED).tolist() == SCALED.counts.tolist()
    assert SCALED.shape == (3, 3)


def test_votes_do_not_change() -> None:
    source = np.array(COUNTS)
    votes = Annotations.from_counts(source)
    source[:] = 0
    assert votes.counts.tolist() == COUNTS
    with pytest.raises(ValueError, match="read-only"):
        votes.counts[0, 0] = 5
    with pytest.raises(FrozenInstanceError):
        votes.items = ("a", "b")
    assert copy.deepcopy(SCALED) == pickle.loads(pickle.dumps(SCALED)) == SCALED
    assert SCALED[::-1] != SCALED
    assert replace(SCALED, scale=None) != SCALED
    assert SCALED != 3


def test_repr() -> None:
    assert repr(Annotations.from_table(FRAME)) == (
        "Annotations(2 items, 2 classes: 'cat', 'dog'; 5 votes, 2 to 3 per item)"
    )
    assert repr(SCALED) == "Annotations(3 items, 3 levels: 'l', 'm', 'h'; 6 votes, 2 per item)"


# --- the walk ---


def test_counting_walks_through_few_files_and_imports_no_table_library() -> None:
    """Files are those of the package: a clone may have its name, and hold the environment too."""
    code = (
        "import sys, credalset, credalset.votes.annotations as a\n"
        "from pathlib import Path\n"
        "home = str(Path(credalset.__file__).parent)\n"
        "files = set()\n"
        "def note(frame, event, _):\n"
        "    path = Path(frame.f_code.co_filename)\n"
        "    if event == 'call' and str(path).startswith(home): files.add(path.name)\n"
        "rows = {'task': [1, 1, 1], 'worker': [1, 2, 2], 'label': ['a', 'b', 'a']}\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "sys.setprofile(note); a.Annotations.from_table(rows); sys.setprofile(None)\n"
        "print(sorted(files), sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    walked = [
        "_display.py",
        "_validation.py",
        "annotations.py",
        "counting.py",
        "exceptions.py",
        "tables.py",
    ]
    assert done.stdout.strip() == f"{walked} []"
