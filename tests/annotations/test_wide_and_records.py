"""Wide tables and plain records give the counts that the long table gives; wide tables elsewhere are noticed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset import Annotations
from credalset.annotations import looks_wide
from credalset.exceptions import CredalSetWarning

nan = float("nan")
TEXTS = {"ann": ["cat", "dog", None], "bob": ["cat", None, None], "eve": [None, "cat", None]}
CODES = {"ann": [0, 1, None], "bob": [0, None, None], "eve": [None, 0, None]}


def as_array(columns):
    return np.array([[nan if cell is None else cell for cell in row] for row in zip(*columns.values(), strict=True)])


WIDE = {
    "dict": lambda columns: columns,
    "pandas": pd.DataFrame,
    "pandas-object": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas-nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "pyarrow": pa.table,
    "rows": lambda columns: [list(row) for row in zip(*columns.values(), strict=True)],
}


# --- from_wide ---


@pytest.mark.parametrize("kind", WIDE)
def test_wide_tables_of_texts(kind):
    votes = Annotations.from_wide(WIDE[kind](TEXTS))
    assert votes.classes == ("cat", "dog")
    assert votes.counts.tolist() == [[2, 0], [1, 1], [0, 0]]
    assert votes.items == (0, 1, 2)
    assert votes.workers == ((0, 1, 2) if kind == "rows" else ("ann", "bob", "eve"))


@pytest.mark.parametrize("kind", [*WIDE, "array"])
def test_wide_tables_of_codes(kind):
    table = as_array(CODES) if kind == "array" else WIDE[kind](CODES)
    votes = Annotations.from_wide(table)
    assert votes.classes == (0, 1)
    assert [type(name) for name in votes.classes] == [int, int]
    assert votes.counts.tolist() == [[2, 0], [1, 1], [0, 0]]
    assert Annotations.from_wide(table, classes=["cat", "dog"]).classes == ("cat", "dog")
    assert Annotations.from_wide(table, classes=["cat", "dog"]) == Annotations.from_wide(WIDE["dict"](TEXTS))


def test_codes_beyond_the_classes_and_half_names_are_unknown_labels():
    with pytest.raises(ValueError, match=r"label column has 3 value\(s\) that are not in classes .*first: 0"):
        Annotations.from_wide([[0, 2], [1, nan]], classes=["cat", "dog"])
    with pytest.raises(ValueError, match=r"not in classes \(first: 'fox'"):
        Annotations.from_wide([["cat", "fox"]], classes=["cat", "dog"])
    kept = Annotations.from_wide([["cat", "fox"]], classes=["cat", "dog"], unknown="drop")
    assert kept.counts.tolist() == [[1, 0]]


def test_numbers_that_are_classes_themselves_are_no_codes():
    votes = Annotations.from_wide([[1, 2], [2, nan]], classes=[1, 2, 3])
    assert votes.counts.tolist() == [[1, 1, 0], [0, 1, 0]]


def test_where_the_items_are_named():
    frame = pd.DataFrame({"ann": ["a", "b"], "bob": ["b", None]}, index=["x", "y"])
    assert Annotations.from_wide(frame).items == ("x", "y")
    named = frame.reset_index(names="item_id")
    assert Annotations.from_wide(named).items == ("x", "y")  # a usual name
    odd = frame.reset_index(names="Dokument")
    assert Annotations.from_wide(odd, task="Dokument") == Annotations.from_wide(frame)
    assert Annotations.from_wide(frame, items=["y", "x"]).items == ("y", "x")
    with pytest.raises(ValueError, match=r"no column 'nr', only \['ann', 'bob'\]"):
        Annotations.from_wide(frame, task="nr")
    with pytest.raises(ValueError, match=r"items must be distinct, but 'x' occurs more than once"):
        Annotations.from_wide(pd.DataFrame({"a": ["u", "v"], "b": ["v", "u"]}, index=["x", "x"]))


def test_nan_beside_texts_is_an_empty_cell():
    for table in ([["cat", nan], ["dog", "cat"]], (("cat", nan), ("dog", "cat"))):
        assert Annotations.from_wide(table).counts.tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ValueError, match="row per item and a column per annotator"):
        Annotations.from_wide([["cat"], ["dog", "cat"]])


@pytest.mark.parametrize("mark", [-1, "NA", ""])
def test_marks_of_empty_cells(mark):
    labels = ("a", "b") if isinstance(mark, str) else (0, 1)
    votes = Annotations.from_wide([[labels[0], mark], [labels[1], labels[1]]], empty=[mark])
    assert votes.counts.tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ([1, 2, 3], ValueError, r"row per item and a column per annotator, .* which this list has not"),
        ("abc", ValueError, r"row per item and a column per annotator"),
        ({"a": [1], "b": [1, 2]}, ValueError, r"columns of one length, but they have \[1, 2\]"),
        ({"task": [1, 2]}, ValueError, r"no column besides 'task'"),
        ({"ann": [["a", "b"]], "bob": [["a"]]}, ValueError, r"2 labels for one vote: \['a', 'b'\].*one_vs_rest='a'"),
    ],
)
def test_wide_refuses(table, error, message):
    with pytest.raises(error, match=message):
        Annotations.from_wide(table)


def test_several_labels_in_a_cell_as_one_question():
    votes = Annotations.from_wide({"ann": [["a", "b"], []], "bob": [["b"], ["a"]]}, one_vs_rest="a")
    assert votes.classes == ("not a", "a")
    assert votes.counts.tolist() == [[1, 1], [1, 1]]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=3, max_size=3), min_size=1, max_size=12))
def test_wide_counts_what_is_in_the_cells(rows):
    votes = Annotations.from_wide(rows, classes=["a", "b", "c"])
    assert votes.counts.tolist() == [[Counter(row)[name] for name in "abc"] for row in rows]
    who = [votes.workers[w] for w in votes._ballots.worker]
    assert who == [w for row in rows for w, label in enumerate(row) if label is not None]


# --- from_records ---


def test_a_list_of_votes():
    rows = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")]
    records = [dict(zip(("task", "worker", "label"), row, strict=True)) for row in rows]
    assert Annotations.from_records(records) == Annotations.from_table(rows)
    assert Annotations.from_records(records).workers == ("ann", "bob")
    renamed = [{"id": t, "who": w, "choice": x} for t, w, x in rows]
    assert Annotations.from_records(iter(renamed), task="id", worker="who", label="choice").counts.tolist() == [
        [1, 1],
        [1, 0],
    ]
    assert Annotations.from_records([{"task": 1, "label": "a"}, {"task": 1, "label": "b"}]).counts.tolist() == [[1, 1]]
    weighed = [{"task": 1, "label": "a", "w": 0.5}, {"task": 1, "label": "b", "w": 1.5}]
    assert Annotations.from_records(weighed, weight="w").distributions.tolist() == [[0.25, 0.75]]


def test_counts_by_class():
    expected = Annotations.from_counts([[3, 1], [0, 2]], classes=["cat", "dog"], items=["t1", "t2"])
    by_item = {"t1": {"cat": 3, "dog": 1}, "t2": {"dog": 2}}
    assert Annotations.from_records(by_item) == expected
    assert Annotations.from_records({name: Counter(row) for name, row in by_item.items()}) == expected
    assert Annotations.from_records(list(by_item.values()), items=["t1", "t2"]) == expected
    assert Annotations.from_records(by_item, items=["t2", "t1"]).counts.tolist() == [[0, 2], [3, 1]]
    assert Annotations.from_records(by_item, classes=["dog", "fox", "cat"]).counts.tolist() == [[1, 0, 3], [2, 0, 0]]
    assert Annotations.from_records({"t": {1: 2, 3: 1}}, classes=[1, 2, 3], ordered=True).positions == (1.0, 2.0, 3.0)


def test_labels_by_item():
    votes = Annotations.from_records({"t1": ["b", "a", "b"], "t2": [], "t3": ("a",)})
    assert votes.items == ("t1", "t2", "t3")
    assert votes.counts.tolist() == [[1, 2], [0, 0], [1, 0]]
    assert votes.workers is None


def test_fractions_of_votes_need_to_be_said():
    records = {"t1": {"cat": 0.5, "dog": 1.5}}
    with pytest.raises(ValueError, match=r"whole-number"):
        Annotations.from_records(records)
    votes = Annotations.from_records(records, weighted=True)
    assert not votes.has_counts
    assert votes.distributions.tolist() == [[0.25, 0.75]]


def test_no_records():
    assert len(Annotations.from_records([], classes=["a", "b"])) == 0
    assert len(Annotations.from_records({}, classes=["a", "b"])) == 0


@pytest.mark.parametrize(
    ("records", "error", "message"),
    [
        ("abc", TypeError, r"records cannot be a str. Pass a list of votes"),
        (3, TypeError, r"records cannot be a int"),
        ([("t", "w", "a")], TypeError, r"records must hold dicts, but holds \('t', 'w', 'a'\)"),
        ([{"task": 1, "label": "a"}, {"task": 2}], ValueError, r"label column has 1 value.*row 1.*Fill them in"),
        ([{"cat": "two"}], TypeError, r"records\[0\] must hold numbers of votes, but holds 'two'"),
        ({"t": {"cat": True}}, TypeError, r"records\['t'\] must hold numbers of votes, but holds True"),
        ({"t": {"cat": 1}, "u": ["cat"]}, TypeError, r"records\['u'\] must hold numbers of votes, but holds \['cat'\]"),
        ({"t": "cat"}, TypeError, r"records\['t'\] must be a list of labels or a dict of counts, but is 'cat'"),
        ({"t": {"cat": -1, "dog": 2}}, ValueError, r"negative"),
    ],
)
def test_records_refused(records, error, message):
    with pytest.raises(error, match=message):
        Annotations.from_records(records)


def test_a_class_that_was_not_given():
    with pytest.raises(ValueError, match=r"records hold 'fox', which is not in classes \['cat', 'dog'\]"):
        Annotations.from_records({"t": {"fox": 1}}, classes=["cat", "dog"])


# --- wide tables where they do not belong ---


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (TEXTS, "cells hold texts (first: 'cat')"),
        (pd.DataFrame(TEXTS), "cells hold texts (first: 'cat')"),
        (pl.DataFrame(TEXTS), "cells hold texts (first: 'cat')"),
        (pa.table(TEXTS), "cells hold texts (first: 'cat')"),
        ([["a", "b"]], "cells hold texts (first: 'a')"),
        (pd.DataFrame(CODES), "some cells are empty and the others hold whole numbers"),
        (as_array(CODES), "some cells are empty and the others hold whole numbers"),
        (pl.DataFrame(CODES), "some cells are empty and the others hold whole numbers"),
        ([[0, -1], [2, 2]], "a cell holds -1, which often stands for an empty one"),
        (
            pd.DataFrame({"Annotator 1": [0, 1], "Annotator 2": [1, 1]}),
            "its columns are called 'Annotator 1', 'Annotator 2'",
        ),
        ({"rater_1": [1, 2], "rater_2": [2, 2]}, "its columns are called 'rater_1', 'rater_2'"),
    ],
)
def test_wide_tables_are_noticed(table, reason):
    assert looks_wide(table) == reason
    with pytest.raises((TypeError, ValueError), match=r"wide table.*Annotations.from_wide"):
        Annotations.from_counts(table if not isinstance(table, dict) else pd.DataFrame(table))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(TEXTS),
        pd.DataFrame(CODES),
        pd.DataFrame(CODES).convert_dtypes(),
        pl.DataFrame(CODES),
        as_array(CODES),
        pd.DataFrame({"rater 1": [1, 2, 2], "rater 2": [2, 2, 1], "rater 3": [1, 1, 1]}),
    ],
    ids=["texts", "codes", "nullable", "polars", "array", "names"],
)
def test_wide_tables_are_noticed_wherever_labels_go(table):
    prediction = np.full((3, 3), 1 / 3)
    named = pd.DataFrame(prediction, columns=["a", "b", "c"])
    classifier = cs.SoftLabelClassifier(LogisticRegression())
    for call in (
        lambda: cs.conformalize(prediction, table, "tv"),
        lambda: cs.conformalize(named, table, "tv"),
        lambda: classifier.fit(np.zeros((3, 2)), table),
        lambda: cs.metrics.coverage(cs.scores.TotalVariation().region(prediction, 0.5), table),
    ):
        with pytest.raises((TypeError, ValueError), match=r"wide table.*Annotations.from_wide"):
            call()


@pytest.mark.parametrize(
    "table",
    [
        [[3, 1], [0, 4]],
        np.array([[0.5, 0.5], [0.25, 0.75]]),
        np.array([[0.5, nan]]),
        pd.DataFrame([[3, 1]], columns=["cat", "dog"]),
        pd.DataFrame([[3, 1]], columns=["user", "worker"]),
        Annotations.from_counts([[1, 2]]),
        [1, 2, 3],
        "abc",
        None,
        [[1], [2]],
        [[1, 2], [3]],
        np.zeros((0, 3)),
    ],
)
def test_what_does_not_look_wide(table):
    assert looks_wide(table) == ""


def test_a_refusal_keeps_the_first_fault_and_offers_both_remedies():
    with pytest.raises(ValueError, match=r"counts contains NaN .* row 0.*from_wide; if .* fill in 0"):
        Annotations.from_counts([[1, nan], [2, 0]])
    with pytest.raises(TypeError, match=r"counts must hold numbers, but holds text.*from_wide"):
        Annotations.from_counts([["cat", "dog"]])
    with pytest.raises(ValueError, match=r"negative values in row 0.*often stands for an empty one"):
        Annotations.from_counts([[1, -1]])


JUDGED = pd.DataFrame(
    {
        "answer_id": [f"A{i}" for i in range(8)],
        "answer": [f"a text of its own, number {i}" for i in range(8)],
        "domain": ["law", "cooking"] * 4,
        "gpt": ["helpful", "Partly", "harmful", "helpful"] * 2,
        "claude": ["helpful ", "partly", None, "harmful"] * 2,
        "anna": [None, "helpful", "harmful", "partly"] * 2,
    }
)


def test_texts_and_topics_beside_annotators_are_not_votes(tmp_path: Path) -> None:
    """A text column called answer made a long table of it, a topic counted as an annotator, and ids were dropped."""
    JUDGED.to_csv(tmp_path / "judged.csv", index=False)
    read = Annotations.read(tmp_path / "judged.csv", tidy=True)
    assert read.classes == ("harmful", "helpful", "partly")
    assert read.items == tuple(JUDGED["answer_id"])
    assert read.counts.sum() == 20
    assert read.origin is not None
    assert "not read: 'answer', 'domain'" in read.origin
    with pytest.warns(CredalSetWarning, match=r"columns 'answer', 'domain' are not read.*worker=\[\.\.\.\]"):
        made = Annotations.from_wide(JUDGED, tidy=True)
    assert made == read
    named = Annotations.from_wide(JUDGED, worker=["gpt", "anna"], tidy=True)
    assert named.counts.sum() == 14


def test_an_annotator_with_few_votes_of_a_rare_label_is_read(tmp_path: Path) -> None:
    rare = JUDGED.assign(ben=["off-topic"] + [None] * 7)
    rare.to_csv(tmp_path / "rare.csv", index=False)
    assert "off-topic" in Annotations.read(tmp_path / "rare.csv", tidy=True).classes


def test_several_annotators_of_a_wide_table_on_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from credalset.commands import app

    JUDGED.to_csv(tmp_path / "judged.csv", index=False)
    for names in (["--worker", "gpt,anna"], ["--worker", "gpt", "--worker", "anna"]):
        out = str(tmp_path / "votes.csv")
        result = CliRunner().invoke(app, ["import", str(tmp_path / "judged.csv"), "-o", out, "--kind", "wide", *names])
        assert result.exit_code == 0, result.output
        assert set(pd.read_csv(out)["worker"]) == {"gpt", "anna"}
