"""Annotations: every kind of table gives the counts that a plain Counter gives, and bad input is told so."""

from __future__ import annotations

import copy
import datetime
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credalset.annotations import Annotations

BUILDERS = {
    "dict": lambda columns: columns,
    "arrays": lambda columns: {name: np.array(values, dtype=object) for name, values in columns.items()},
    "pandas": pd.DataFrame,
    "pandas-object": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas-nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas-shuffled-index": lambda columns: pd.DataFrame(columns, index=range(len(columns["task"]), 0, -1)),
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "pyarrow": pa.table,
    "pyarrow-batch": lambda columns: pa.RecordBatch.from_pydict(columns),
    "rows": lambda columns: list(zip(*columns.values(), strict=True)),
}

CROWD = {
    "task": ["img3", "img3", "img3", "img1", "img1", "img2"],
    "worker": ["w1", "w2", "w3", "w1", "w2", "w3"],
    "label": ["dog", "cat", "dog", "cat", "cat", "bird"],
}


@pytest.fixture(params=BUILDERS)
def build(request):
    return BUILDERS[request.param]


def with_row(task, worker, label, columns=CROWD):
    return {
        "task": [*columns["task"], task],
        "worker": [*columns["worker"], worker],
        "label": [*columns["label"], label],
    }


# --- from_table: counting -------------------------------------------------------------------------------------


def test_counts_classes_and_items(build):
    votes = Annotations.from_table(build(CROWD))
    assert votes.classes == ("bird", "cat", "dog")
    assert votes.items == ("img3", "img1", "img2")
    assert votes.counts.dtype == np.int64
    assert votes.counts.tolist() == [[0, 1, 2], [0, 2, 0], [1, 0, 0]]
    assert votes.n_votes.tolist() == [3, 2, 1]
    np.testing.assert_allclose(votes.distributions, [[0, 1 / 3, 2 / 3], [0, 1, 0], [1, 0, 0]], rtol=1e-15)
    assert (len(votes), votes.n_classes, votes.has_counts) == (3, 3, True)


def brute_force(rows, classes, items, duplicates):
    """Count with a dictionary per (task, worker), the way one would by hand."""
    ballots: dict[tuple[object, object], list[object]] = {}
    for task, worker, label in rows:
        ballots.setdefault((task, worker), []).append(label)
    tally: Counter[tuple[object, object]] = Counter()
    for (task, _), labels in ballots.items():
        counted = {"last": labels[-1:], "first": labels[:1], "keep": labels}[duplicates]
        tally.update((task, label) for label in counted)
    return [[tally[item, name] for name in classes] for item in items]


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(-3, 4), st.sampled_from("uvw"), st.sampled_from("abcd")), max_size=40),
    duplicates=st.sampled_from(["last", "first", "keep"]),
    kind=st.sampled_from(["dict", "pandas", "polars", "pyarrow", "rows"]),
)
def test_agrees_with_counting_by_hand(rows, duplicates, kind):
    columns = dict(zip(("task", "worker", "label"), map(list, zip(*rows, strict=True)), strict=False))
    columns = columns or {"task": [], "worker": [], "label": []}
    votes = Annotations.from_table(BUILDERS[kind](columns), classes=list("abcd"), duplicates=duplicates)
    assert votes.items == tuple(dict.fromkeys(columns["task"]))
    assert votes.counts.tolist() == brute_force(rows, "abcd", votes.items, duplicates)


def test_custom_column_names_and_unrelated_columns():
    frame = pd.DataFrame({"id": ["x", "x"], "rater": [1, 2], "score": [5, 4], "text": ["…", "…"]})
    votes = Annotations.from_table(frame, task="id", worker="rater", label="score")
    assert (votes.items, votes.classes, votes.counts.tolist()) == (("x",), (4, 5), [[1, 1]])


def test_given_classes_and_items_set_the_order(build):
    votes = Annotations.from_table(build(CROWD), classes=["dog", "fox", "cat", "bird"], items=["img1", "img2", "img3"])
    assert votes.classes == ("dog", "fox", "cat", "bird")
    assert votes.counts.tolist() == [[0, 0, 2, 0], [0, 0, 0, 1], [2, 0, 1, 0]]


@pytest.mark.parametrize(
    "names", [("a", "b"), iter(["a", "b"]), np.array(["a", "b"]), pd.Index(["a", "b"]), pl.Series(["a", "b"])]
)
def test_names_may_come_in_any_container(names):
    assert Annotations.from_table([("t", "w", "b")], classes=names).classes == ("a", "b")


def test_numeric_labels_that_pandas_turned_into_floats_match_integer_classes():
    frame = pd.DataFrame({"task": [1, 1, 2], "worker": [1, 2, 1], "label": [0.0, np.nan, 2.0]})
    votes = Annotations.from_table(frame, classes=[0, 1, 2], missing="drop")
    assert votes.counts.tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "column",
    [
        list,
        pl.Series,
        pa.array,
        lambda values: pd.Series(values, dtype="Int64"),
        lambda values: np.array(values, dtype=object),
    ],
    ids=["list", "polars", "pyarrow", "pandas-nullable", "object"],
)
def test_large_identifiers_next_to_a_missing_one_keep_every_digit(column):
    table = {"task": column([2**60, 2**60 + 1, None]), "worker": [1, 1, 1], "label": ["a", "b", "a"]}
    assert Annotations.from_table(table, missing="drop").items == (2**60, 2**60 + 1)


def test_times_as_items():
    days = np.array(["2024-01-02", "2024-01-01", "NaT"], dtype="datetime64[ns]")
    table = {"task": days, "worker": [1, 2, 3], "label": ["a", "b", "a"]}
    with pytest.raises(ValueError, match=r"task column has 1 value\(s\) that are missing .* in row 2"):
        Annotations.from_table(table)
    assert Annotations.from_table(table, missing="drop").items == tuple(days[:2])
    frame = Annotations.from_table(pd.DataFrame(table), missing="drop")
    assert frame.items == (datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 1))


def test_a_million_votes_are_counted_without_losing_one():
    rng = np.random.default_rng(0)
    table = {name: rng.integers(0, high, 10**6) for name, high in (("task", 10**5), ("worker", 500), ("label", 4))}
    votes = Annotations.from_table(table, duplicates="keep")
    expected = np.zeros((10**5, 4), dtype=np.int64)
    np.add.at(expected, (table["task"], table["label"]), 1)
    np.testing.assert_array_equal(votes.counts, expected[list(votes.items)])


# --- from_table: class order ----------------------------------------------------------------------------------

ANSWERS = ["low", "middle", "high"]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(pd.Categorical(["high", "low"], categories=ANSWERS)),
        pd.Series(pd.Categorical(["high", "low"], categories=ANSWERS, ordered=True)),
        pd.Categorical(["high", "low"], categories=ANSWERS),
        pl.Series(["high", "low"], dtype=pl.Enum(ANSWERS)),
        pa.DictionaryArray.from_arrays([2, 0], ANSWERS, ordered=True),
        pa.chunked_array([pa.DictionaryArray.from_arrays([i], ANSWERS, ordered=True) for i in (2, 0)]),
    ],
    ids=["pandas", "pandas-ordered", "categorical", "polars-enum", "arrow", "arrow-chunks"],
)
def test_category_order_is_class_order(labels):
    votes = Annotations.from_table({"task": [1, 2], "worker": [1, 1], "label": labels})
    assert votes.classes == ("low", "middle", "high")
    assert votes.counts.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "labels",
    [pl.Series(["b", "a"], dtype=pl.Categorical), pa.array(["b", "a"]).dictionary_encode()],
    ids=["polars-categorical", "arrow-unordered"],
)
def test_categories_without_an_order_are_sorted(labels):
    assert Annotations.from_table({"task": [1, 2], "label": labels}).classes == ("a", "b")


def test_categories_with_missing_labels():
    labels = pd.Categorical(["b", None], categories=["b", "a"])
    votes = Annotations.from_table(pd.DataFrame({"task": [1, 1], "label": labels}), missing="drop")
    assert (votes.classes, votes.counts.tolist()) == (("b", "a"), [[1, 0]])


def test_labels_without_a_common_order():
    rows = [("t", "w1", "a"), ("t", "w2", 1)]
    with pytest.raises(TypeError, match=r"label column mixes types .*\(int, str\).*pass classes="):
        Annotations.from_table(rows)
    assert Annotations.from_table(rows, classes=["a", 1]).counts.tolist() == [[1, 1]]


@pytest.mark.parametrize(("rows", "seen"), [([("t", "w", "yes")], "1"), ([], "0")])
def test_fewer_than_two_classes(rows, seen):
    with pytest.raises(ValueError, match=rf"at least 2, but there are {seen}.*Pass classes="):
        Annotations.from_table(rows)
    with pytest.raises(ValueError, match=r"at least 2, but there are 1"):
        Annotations.from_table(rows, classes=["yes"])
    assert Annotations.from_table(rows, classes=["no", "yes"]).counts.shape == (len(rows), 2)


# --- from_table: several votes, unknown, missing, empty -------------------------------------------------------


@pytest.mark.parametrize(("duplicates", "img1"), [("last", [0, 1, 1]), ("first", [0, 2, 0]), ("keep", [0, 2, 1])])
def test_several_votes_of_one_worker_on_one_task(build, duplicates, img1):
    votes = Annotations.from_table(build(with_row("img1", "w1", "dog")), duplicates=duplicates)
    assert votes.counts.tolist() == [[0, 1, 2], img1, [1, 0, 0]]


def test_the_last_vote_counts_by_default():
    rows = [("t", "w", "a"), ("t", "w", "b"), ("t", "w", "a"), ("t", "v", "b")]
    assert Annotations.from_table(rows).counts.tolist() == [[1, 1]]


@pytest.mark.parametrize("label", ["cat", "dog"])
def test_repeated_votes_refused_even_if_they_agree(build, label):
    table = with_row("img1", "w1", label)
    with pytest.raises(ValueError, match=r"1 further vote\(s\).*worker 'w1' on task 'img1' in row 6.*duplicates="):
        Annotations.from_table(build(table), duplicates="error")
    assert Annotations.from_table(build(CROWD), duplicates="error").n_votes.sum() == 6


def test_same_worker_on_other_tasks_is_no_duplicate():
    rows = [("t1", "w", "a"), ("t2", "w", "b"), ("t1", "v", "a")]
    assert Annotations.from_table(rows, duplicates="error").counts.tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(
    "without_worker",
    [
        {"task": ["t", "t"], "label": ["a", "b"]},
        pd.DataFrame({"task": ["t", "t"], "label": ["a", "b"]}),
        pl.DataFrame({"task": ["t", "t"], "label": ["a", "b"]}),
        pa.table({"task": ["t", "t"], "label": ["a", "b"]}),
        [("t", "a"), ("t", "b")],
    ],
    ids=["dict", "pandas", "polars", "pyarrow", "rows"],
)
@pytest.mark.parametrize("worker", ["worker", None])
def test_without_workers_every_row_is_a_vote(without_worker, worker):
    for duplicates in ("last", "first", "keep"):
        votes = Annotations.from_table(without_worker, worker=worker, duplicates=duplicates)
        assert votes.counts.tolist() == [[1, 1]]
    with pytest.raises(ValueError, match=r"duplicates='error' needs to know who voted.*no worker column"):
        Annotations.from_table(without_worker, worker=worker, duplicates="error")


def test_worker_none_ignores_a_worker_column(build):
    votes = Annotations.from_table(build(with_row("img1", "w1", "dog")), worker=None)
    assert votes.n_votes.tolist() == [3, 3, 1]


def test_unknown_labels(build):
    table = build(with_row("img1", "w9", "brid"))
    with pytest.raises(
        ValueError, match=r"label column has 1 value\(s\) that are not in classes \(first: 'brid' in row 6"
    ):
        Annotations.from_table(table, classes=["bird", "cat", "dog"])
    dropped = Annotations.from_table(table, classes=["bird", "cat", "dog"], unknown="drop")
    assert dropped == Annotations.from_table(build(CROWD))


def test_unknown_tasks(build):
    with pytest.raises(
        ValueError, match=r"task column has 3 value\(s\) that are not in items .*'img3'.*unknown='drop'"
    ):
        Annotations.from_table(build(CROWD), items=["img1", "img2"])
    votes = Annotations.from_table(build(CROWD), items=["img2", "img1"], unknown="drop")
    assert votes.counts.tolist() == [[1, 0, 0], [0, 2, 0]]


def test_an_unusable_row_does_not_overrule_a_usable_one():
    rows = [("t", "w", "a"), ("t", "w", "skip"), ("t", "w", None)]
    votes = Annotations.from_table(rows, classes=["a", "b"], unknown="drop", missing="drop")
    assert votes.counts.tolist() == [[1, 0]]


@pytest.mark.parametrize("column", ["task", "worker", "label"])
@pytest.mark.parametrize("position", [0, 6])
def test_missing_values(build, column, position):
    row = {"task": "img1", "worker": "w9", "label": "dog", column: None}
    table = {name: [*values[:position], row[name], *values[position:]] for name, values in CROWD.items()}
    with pytest.raises(
        ValueError,
        match=rf"{column} column has 1 value\(s\) that are missing \(first: .* row {position}\).*missing='drop'",
    ):
        Annotations.from_table(build(table))
    votes = Annotations.from_table(build(table), missing="drop", items=["img3", "img1", "img2"])
    assert votes == Annotations.from_table(build(CROWD))


@pytest.mark.parametrize("nothing", [None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr)
def test_every_kind_of_nothing_is_missing(nothing):
    table = {"task": ["t", "t", "t"], "worker": [1, 2, 3], "label": ["a", nothing, "b"]}
    for source in (table, pd.DataFrame(table, dtype=object)):
        with pytest.raises(ValueError, match=r"label column has 1 value\(s\) that are missing"):
            Annotations.from_table(source)
        assert Annotations.from_table(source, missing="drop").counts.tolist() == [[1, 1]]


def test_empty_string_is_a_label():
    assert Annotations.from_table([("t", "w", ""), ("t", "v", "a")]).classes == ("", "a")


def test_items_without_votes_stay_and_distributions_refuse_them(build):
    votes = Annotations.from_table(build(CROWD), items=["img1", "img7", "img2", "img3", "img9"])
    assert votes.n_votes.tolist() == [2, 0, 1, 3, 0]
    with pytest.raises(ValueError, match=r"2 items have no votes \(first: 'img7'\).*drop_empty"):
        _ = votes.distributions
    kept = votes.drop_empty()
    assert kept.items == ("img1", "img2", "img3")
    assert kept.distributions.sum(axis=1).tolist() == [1.0, 1.0, 1.0]


def test_an_item_that_loses_all_its_votes_stays_visible():
    rows = [("t1", "w", "a"), ("t2", "w", "skip"), ("t3", "w", None), ("t4", None, "b")]
    votes = Annotations.from_table(rows, classes=["a", "b"], unknown="drop", missing="drop")
    assert votes.items == ("t1", "t2", "t3", "t4")
    assert votes.n_votes.tolist() == [1, 0, 0, 0]


# --- from_table: tables that cannot be read -------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["task", "worker", "label"])
@pytest.mark.parametrize("kind", [kind for kind in BUILDERS if kind != "rows"])
def test_missing_column(kind, argument):
    with pytest.raises(ValueError, match=rf"no column 'annotator', only \['task'.*{argument}="):
        Annotations.from_table(BUILDERS[kind](CROWD), **{argument: "annotator"})


def test_a_wide_table_is_told_where_to_go():
    with pytest.raises(ValueError, match=r"no column 'task', only \['ann', 'bob'\].*Annotations.from_wide"):
        Annotations.from_table({"ann": ["a"], "bob": ["b"]})


@pytest.mark.parametrize("table", [None, 3, iter([("t", "w", "a")]), pl.DataFrame(CROWD).lazy()])
def test_what_is_no_table(table):
    with pytest.raises(TypeError, match=r"table cannot be a \w+. Pass a pandas, polars or pyarrow table"):
        Annotations.from_table(table)


@pytest.mark.parametrize("rows", [["abc", "def"], [("t", "w", "a"), ("t", "a")], [1, 2], [("t",)]])
def test_what_are_no_rows(rows):
    with pytest.raises(ValueError, match=r"table is a list whose elements are not all rows of 3"):
        Annotations.from_table(rows)


def test_columns_of_different_length():
    with pytest.raises(ValueError, match=r"one length, but they have {'task': 2, 'label': 3}"):
        Annotations.from_table({"task": [1, 2], "label": [1, 2, 3]})


def test_a_name_that_stands_for_two_columns():
    frame = pd.DataFrame([["t", "w", "a", "b"]], columns=["task", "worker", "label", "label"])
    with pytest.raises(ValueError, match=r"label='label' must name one column"):
        Annotations.from_table(frame)


@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_values_that_do_not_hash(column):
    row = {"task": "t", "worker": "w", "label": "a"} | {column: {"a": 1}}
    with pytest.raises(TypeError, match=rf"{column} holds values that do not hash .*dict.*numbers or strings"):
        Annotations.from_table([tuple(row.values())])


@pytest.mark.parametrize(
    ("option", "value"), [("duplicates", "mean"), ("unknown", "keep"), ("missing", None), ("missing", "fill")]
)
def test_options_are_checked(option, value):
    with pytest.raises(ValueError, match=rf"{option} must be one of '.*but is {value!r}"):
        Annotations.from_table(CROWD, **{option: value})


@pytest.mark.parametrize("argument", ["classes", "items"])
@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["a", "b", "a"], ValueError, r"must be distinct, but 'a' occurs more than once"),
        (["a", None], ValueError, r"contains a missing value"),
        (["a", np.nan], ValueError, r"contains a missing value"),
        ("ab", TypeError, r"must be a list of names, but is 'ab'"),
        (3, TypeError, r"must be a list of names, but is 3"),
        ([["a"], ["b"]], TypeError, r"do not hash"),
    ],
)
def test_names_are_checked(argument, names, error, message):
    with pytest.raises(error, match=rf"{argument} {message}" if "hash" not in message else message):
        Annotations.from_table([("a", "w", "a"), ("b", "w", "b")], **{argument: names})
    with pytest.raises(error, match=message):
        Annotations.from_counts([[1, 0], [0, 1]], **{argument: names})


def test_reading_tables_imports_no_table_library():
    code = (
        "import sys; from credalset.annotations import Annotations\n"
        "Annotations.from_table({'task': [1, 1], 'worker': [1, 2], 'label': ['a', 'b']}).distributions\n"
        "print(sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- from_counts ----------------------------------------------------------------------------------------------

COUNTS = [[3, 1, 0], [0, 0, 5]]


@pytest.mark.parametrize("dtype", [int, np.uint8, np.float32, object])
def test_from_counts(dtype):
    votes = Annotations.from_counts(np.array(COUNTS, dtype=dtype))
    assert (votes.classes, votes.items) == ((0, 1, 2), (0, 1))
    assert votes.counts.dtype == np.int64
    assert votes.counts.tolist() == COUNTS
    assert votes.distributions.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]]


def test_from_counts_reads_names_from_data_frames():
    frame = pd.DataFrame(COUNTS, columns=["e", "n", "c"], index=["x", "y"])
    votes = Annotations.from_counts(frame)
    assert (votes.classes, votes.items) == (("e", "n", "c"), ("x", "y"))
    for table in (pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        other = Annotations.from_counts(table, items=["x", "y"])
        assert other == votes


def test_given_names_reorder_those_of_a_data_frame():
    frame = pd.DataFrame(COUNTS, columns=["e", "n", "c"], index=["x", "y"])
    votes = Annotations.from_counts(frame, classes=["c", "e", "n"], items=["y", "x"])
    assert votes.counts.tolist() == [[5, 0, 0], [0, 3, 1]]
    assert (votes.classes, votes.items) == (("c", "e", "n"), ("y", "x"))


def test_given_names_replace_default_ones():
    votes = Annotations.from_counts(pd.DataFrame(COUNTS), classes=["e", "n", "c"], items=["x", "y"])
    assert votes == Annotations.from_counts(COUNTS, classes=["e", "n", "c"], items=["x", "y"])
    permuted = Annotations.from_counts(pd.DataFrame(COUNTS), classes=[2, 0, 1])
    assert permuted.counts.tolist() == [[0, 3, 1], [5, 0, 0]]


def test_given_names_that_contradict_a_data_frame():
    frame = pd.DataFrame(COUNTS, columns=["e", "n", "c"], index=[7, 9])
    with pytest.raises(ValueError, match=r"classes \['e', 'n', 'x'\] do not match .*\['e', 'n', 'c'\]"):
        Annotations.from_counts(frame, classes=["e", "n", "x"])
    with pytest.raises(ValueError, match=r"items \['a', 'b'\] do not match .*\[7, 9\]"):
        Annotations.from_counts(frame, items=["a", "b"])


def test_from_counts_keeps_empty_items():
    votes = Annotations.from_counts([[1, 2], [0, 0]], items=["a", "b"])
    assert votes.n_votes.tolist() == [3, 0]
    with pytest.raises(ValueError, match=r"1 item has no votes \(first: 'b'\)"):
        _ = votes.distributions


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ([[0, 0], [1, -1]], ValueError, r"counts contains negative values in row 1"),
        ([[1, 2], [0.5, 0.5]], ValueError, r"counts must hold whole-number .* row 1"),
        ([[1, np.nan]], ValueError, r"counts contains NaN or infinity in row 0"),
        ([1, 2, 3], ValueError, r"counts must have shape \(n_items, n_classes\)"),
        ([[1], [2]], ValueError, r"counts must have at least 2 classes"),
        ([["a", "b"]], TypeError, r"counts must hold numbers"),
        ([[1, 1e300]], ValueError, r"counts holds 1e\+300, too large"),
    ],
)
def test_from_counts_refuses(counts, error, message):
    with pytest.raises(error, match=message):
        Annotations.from_counts(counts)


def test_from_counts_names_must_fit_in_number():
    with pytest.raises(ValueError, match=r"classes holds 2 names, but 3 are needed"):
        Annotations.from_counts(COUNTS, classes=["a", "b"])
    with pytest.raises(ValueError, match=r"items holds 3 names, but 2 are needed"):
        Annotations.from_counts(COUNTS, items=["a", "b", "c"])


# --- from_distributions ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    counts=st.lists(st.lists(st.integers(0, 60), min_size=4, max_size=4).filter(any), min_size=1, max_size=8),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_counts_come_back_from_distributions(counts, dtype):
    known = Annotations.from_counts(counts)
    again = Annotations.from_distributions(known.distributions.astype(dtype), n_votes=known.n_votes)
    assert again == known


def test_one_number_of_votes_for_all():
    votes = Annotations.from_distributions([[0.98, 0.02], [0.5, 0.5]], n_votes=50, classes=["no", "yes"])
    assert votes.counts.tolist() == [[49, 1], [25, 25]]


def test_without_numbers_of_votes_counts_are_unknown():
    given_ = np.array([[0.2, 0.8], [1 / 3, 2 / 3]])
    votes = Annotations.from_distributions(given_, items=["a", "b"])
    np.testing.assert_array_equal(votes.distributions, given_)
    assert not votes.has_counts
    assert votes.drop_empty() == votes
    assert votes.select(["b"]).distributions.tolist() == [[1 / 3, 2 / 3]]
    assert votes.to_dict("distributions") == {"item": ["a", "b"], 0: [0.2, 1 / 3], 1: [0.8, 2 / 3]}
    for attribute in ("counts", "n_votes"):
        with pytest.raises(ValueError, match=r"counts are unknown.*Pass n_votes"):
            getattr(votes, attribute)


def test_data_frame_rows_and_votes_move_together():
    frame = pd.DataFrame([[0.5, 0.5], [0.0, 1.0]], columns=["no", "yes"], index=["a", "b"])
    votes = Annotations.from_distributions(frame, n_votes=[4, 3], items=["b", "a"])
    assert votes.counts.tolist() == [[0, 3], [2, 2]]


@pytest.mark.parametrize(
    ("n_votes", "message"),
    [
        (51, r"n_votes does not fit distributions: in 1 row\(s\).*row 0: \[49.98, 1.02\]"),
        ([50, 50], r"n_votes must be one whole number or one per item \(1\), but has shape \(2,\)"),
        (["many"], r"n_votes must be one whole number .* dtype <U4"),
        (True, r"n_votes must be one whole number .* dtype bool"),
        (0, r"n_votes must hold whole numbers of at least 1"),
        (12.5, r"n_votes must hold whole numbers"),
        (np.nan, r"n_votes must hold whole numbers"),
        (np.inf, r"n_votes must hold whole numbers"),
    ],
)
def test_numbers_of_votes_are_checked(n_votes, message):
    with pytest.raises(ValueError, match=message):
        Annotations.from_distributions([[0.98, 0.02]], n_votes=n_votes)


def test_shares_too_small_for_one_vote_do_not_round_to_no_votes():
    with pytest.raises(ValueError, match=r"n_votes does not fit distributions"):
        Annotations.from_distributions(np.full((1, 2000), 1 / 2000), n_votes=1)


def test_from_distributions_refuses_what_does_not_sum_to_one():
    with pytest.raises(ValueError, match=r"distributions must hold probability distributions"):
        Annotations.from_distributions([[0.5, 0.6]])


# --- what one can do with them --------------------------------------------------------------------------------


@pytest.fixture
def five():
    return Annotations.from_counts([[1, 0], [2, 0], [3, 1], [0, 4], [5, 5]], classes=["no", "yes"], items=list("abcde"))


@pytest.mark.parametrize(
    ("key", "items"),
    [
        (0, "a"),
        (-1, "e"),
        (np.int64(2), "c"),
        (slice(1, 3), "bc"),
        (slice(None, None, -2), "eca"),
        ([3, 0], "da"),
        ([1, 1, 4], "bbe"),
        ([], ""),
        (np.array([True, False, False, True, False]), "ad"),
        (pd.Series([False, True, False, False, False]), "b"),
    ],
    ids=repr,
)
def test_indexing_by_position(five, key, items):
    part = five[key]
    assert isinstance(part, Annotations)
    assert part.items == tuple(items)
    assert part.counts.tolist() == [five.counts["abcde".index(name)].tolist() for name in items]
    assert part.classes == five.classes


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (["a", "x"], ValueError, r"1 name\(s\) that are not among the 5 known items"),
        (("a", "b"), TypeError, r"Use .select\(items\)"),
        (1.5, TypeError, r"but got 1.5"),
        ([[0, 1]], TypeError, r"1-d array"),
        ([True, False], ValueError, r"mask has length 2, but there are 5 items"),
        (5, IndexError, r"out of bounds"),
        ([0, -6], IndexError, r"out of bounds"),
    ],
    ids=repr,
)
def test_indexing_refuses(five, key, error, message):
    with pytest.raises(error, match=message):
        five[key]


def test_iteration_ends_after_the_last_item(five):
    assert [part.items for part in five] == [("a",), ("b",), ("c",), ("d",), ("e",)]


def test_select_by_name(five):
    assert five.select(["d", "b"]) == five[[3, 1]]
    assert len(five.select([])) == 0
    with pytest.raises(ValueError, match=r"items has 2 name\(s\) that are not among the 5 known items \(first: 'x'"):
        five.select(["a", "x", "y"])
    with pytest.raises(TypeError, match=r"items must be a list of names, but is 'abc'"):
        five.select("abc")
    with pytest.raises(ValueError, match=r"items repeat here"):
        five[[0, 0]].select(["a"])


def test_reorder_permutes_columns_with_their_names(five):
    swapped = five.reorder(["yes", "no"])
    assert swapped.classes == ("yes", "no")
    np.testing.assert_array_equal(swapped.counts, five.counts[:, ::-1])
    assert swapped.reorder(five.classes) == five
    with pytest.raises(ValueError, match=r"classes must be the names \['no', 'yes'\] in some order"):
        five.reorder(["no", "maybe"])
    with pytest.raises(ValueError, match=r"classes must be the names"):
        five.reorder(["no"])


def test_drop_empty_keeps_order():
    votes = Annotations.from_counts([[0, 0], [1, 0], [0, 0], [0, 2]], items=list("abcd")).drop_empty()
    assert (votes.items, votes.counts.tolist()) == (("b", "d"), [[1, 0], [0, 2]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_to_dict_round_trips_through_a_data_frame(five, frame):
    table = frame(five.to_dict())
    if frame is pd.DataFrame:
        assert Annotations.from_counts(table.set_index("item")) == five
    else:
        assert Annotations.from_counts(table.drop("item"), items=table["item"]) == five


def test_to_dict_options(five):
    assert five.to_dict("distributions", item="id")["no"] == [1.0, 1.0, 0.75, 0.0, 0.5]
    with pytest.raises(ValueError, match=r"item='no' is also the name of a class"):
        five.to_dict(item="no")
    with pytest.raises(ValueError, match=r"values must be one of 'counts', 'distributions', but is 'votes'"):
        five.to_dict("votes")


def test_nothing_handed_out_or_in_can_change_them():
    source = np.array([[0.25, 0.75]])
    votes = Annotations.from_distributions(source)
    source[:] = 0.5
    votes.distributions[:] = 0.5
    assert votes.distributions.tolist() == [[0.25, 0.75]]
    counted = Annotations.from_counts([[1, 3]])
    counted.counts[:] = 0
    counted.distributions[:] = 0
    assert counted.counts.tolist() == [[1, 3]]
    with pytest.raises(FrozenInstanceError):
        counted.classes = ("a", "b")


def test_equality(five):
    assert five == copy.deepcopy(five)
    assert five == pickle.loads(pickle.dumps(five))
    assert five != five.reorder(["yes", "no"])
    assert five != five[::-1]
    assert five != Annotations.from_counts(five.counts + 1, classes=five.classes, items=five.items)
    assert five != Annotations.from_distributions(five.distributions, classes=five.classes, items=five.items)
    assert five != "five"
    with pytest.raises(TypeError, match="unhashable"):
        hash(five)


@pytest.mark.parametrize(
    ("votes", "text"),
    [
        (Annotations.from_counts(COUNTS), "2 items, 3 classes: 0, 1, 2; 9 votes, 4 to 5 per item"),
        (Annotations.from_counts([[1, 0]]), "1 item, 2 classes: 0, 1; 1 vote, 1 per item"),
        (
            Annotations.from_counts([[1, 1], [0, 0]]),
            "2 items, 2 classes: 0, 1; 2 votes, 0 to 2 per item, 1 without votes",
        ),
        (Annotations.from_counts([[1] * 10]), "1 item, 10 classes: 0, 1, 2, 3, 4, 5, …; 10 votes, 10 per item"),
        (Annotations.from_table([], classes=["a", "b"]), "0 items, 2 classes: 'a', 'b'; 0 votes"),
        (
            Annotations.from_distributions([[0.5, 0.5]]),
            "1 item, 2 classes: 0, 1; label distributions, vote counts unknown",
        ),
    ],
)
def test_repr(votes, text):
    assert repr(votes) == f"Annotations({text})"
