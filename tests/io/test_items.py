"""Tables of items: which columns are read, and which items have votes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import credalset as cs
from credalset.io.items import (
    ItemTable,
    read_items,
    select_features,
    select_predictions,
    select_texts,
    select_voted,
)

VOTES = cs.Annotations.from_counts(
    [[1, 2], [3, 0], [0, 0], [1, 1]], classes=["no", "yes"], items=["a", "b", "c", "d"]
)


def table(*items: str) -> ItemTable:
    return ItemTable(items, np.tile([0.25, 0.75], (len(items), 1)), ("yes", "no"))


def test_items_without_votes_are_left_out_and_counted() -> None:
    found = select_voted(table("d", "x", "a"), VOTES)
    assert found.table.items == ("d", "a")
    assert "1 item without votes left out (first: 'x')." in found.notes
    assert any("'b'" in note and "1 item without a row" in note for note in found.notes)


def test_items_without_votes_can_stay() -> None:
    found = select_voted(table("d", "x", "a"), VOTES, keep=True)
    assert found.table.items == ("d", "x", "a")
    assert "1 item without votes kept (first: 'x')." in found.notes


def test_only_the_first_five_are_named() -> None:
    (note, _) = select_voted(table("a", *(f"x{i}" for i in range(99))), VOTES).notes
    assert note.startswith("99 items without votes")
    assert "'x4'" in note
    assert "'x5'" not in note


def test_tables_without_a_common_item_are_refused() -> None:
    with pytest.raises(ValueError, match="no item is in both tables"):
        select_voted(table("x", "y"), VOTES)


def columns(*names: str, classes: Any = None) -> Any:
    return partial(select_predictions, columns=list(names) or None, classes=classes)


def write(tmp_path: Path, text: str) -> str:
    (tmp_path / "p.csv").write_text(text)
    return str(tmp_path / "p.csv")


def test_reading_items_with_groups_weights_and_words(tmp_path: Path) -> None:
    path = write(tmp_path, "id;text;yes;no;side;w\n007;words;0,25;0,75;1;1,5\nNA;more;1;0;1.0;2\n")
    found = read_items(path, extra={"groups": "side", "weights": "w"})
    assert found.items == ("007", "NA")
    assert found.names == ("yes", "no")
    assert found.values.tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert found.extra["groups"].tolist() == ["1", "1.0"], "groups are texts"
    assert found.extra["weights"].tolist() == [1.5, 2.0]
    assert "'text'" in found.notes[0]
    assert read_items(path, partial(select_texts, name="text"), extra={}).values.tolist() == [
        "words",
        "more",
    ]


def test_rows_without_a_value_are_counted_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "task,yes,no\na,1,0\nb,,1\n,1,0\nd,half,0\n")
    with pytest.raises(ValueError, match=r"p\.csv.*'task'.*row 3"):
        read_items(path, strict=True)
    with pytest.raises(ValueError, match="'half' in row 4"):
        read_items(path)
    found = read_items(write(tmp_path, "task,yes,no\na,1,0\nb,,1\n,1,0\n"))
    assert found.items == ("a",)
    assert found.notes == (f"2 rows of {path} without a value left out.",)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("task,yes\na,1\na,0\n", {}, "'a'"),
        ("name,yes,no\na,1,0\n", {}, "with id"),
        ("task,yes,no\na,1,0\n", {"id": "nr"}, "'nr'"),
        ("task,yes,no\na,1,0\n", {"extra": {"groups": "side"}}, "'side'"),
        ("task,yes,no\na,1,0\n", {"select": columns(classes=["yes", "maybe"])}, "'maybe'"),
        ("task,words,more\na,b,c\n", {}, "columns=…"),
        ("task,yes,no\n", {}, "no rows"),
    ],
)
def test_bad_tables_name_the_file_and_the_column(
    text: str, options: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        read_items(write(tmp_path, text), **options)


def test_lists_beside_the_named_columns_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(
        '{"task": "a", "gpt": {"probs": {"no": 0.25, "yes": 0.75}, "list": [1, 0]}, '
        '"claude": {"labels": ["yes"]}}\n'
    )
    path = str(tmp_path / "p.jsonl")
    for classes in (None, ["no", "yes"]):
        found = read_items(path, columns("gpt.probs", classes=classes))
        assert (found.names, found.values.tolist()) == (("no", "yes"), [[0.25, 0.75]])
    with pytest.raises(ValueError, match=r"'gpt\.probs\.yes', which is none of the classes"):
        read_items(path, columns("gpt.probs", classes=["no", "maybe"]))
    found = read_items(path, columns("gpt.list"))
    assert (found.names, found.values.tolist()) == (None, [[1.0, 0.0]]), (
        "one of two columns of lists"
    )


def test_columns_of_objects_and_what_is_beside_them(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"task": "a", "p": {"no": 0.25, "yes": 0.75}, "age": 9}\n')
    path = str(tmp_path / "p.jsonl")
    assert read_items(path, columns("p", classes=["yes", "no"])).values.tolist() == [
        [0.75, 0.25]
    ], "order of classes"
    assert read_items(path).names == ("no", "yes")
    features = read_items(
        write(tmp_path, "task,petal.width,petal.length,age\na,1,2,3\n"), select_features
    )
    assert features.names == ("petal.width", "petal.length", "age"), (
        "features are not left out for a dot in a name"
    )
