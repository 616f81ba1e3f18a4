"""Labels that are spelt in several ways, misspelt, or no labels at all; and classes with a spelling of their own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas
import pytest

from credalset import Annotations
from credalset.annotations.odd_labels import find_slips
from credalset.exceptions import CredalSetWarning

LABELS = ["low", "Emergency", "emergency ", "middle", "high"]
ROWS = [(f"t{i % 20}", f"w{i // 20}", LABELS[i % 5]) for i in range(200)]
SCALE = ["low", "middle", "high", "Emergency"]


def said(rows: list[tuple[str, str, str]], **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CredalSetWarning)
        Annotations.from_table(rows, **options)
    return [str(each.message) for each in caught]


def test_tidied_labels_are_spelt_as_the_classes(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("task,worker,label\n" + "\n".join(map(",".join, ROWS)))
    made = Annotations.from_table(ROWS, tidy=True, classes=SCALE, unknown="drop", ordered=True)
    for votes in (made, Annotations.read(path, tidy=True, classes=SCALE, unknown="drop", ordered=True)):
        assert votes.classes == tuple(SCALE)
        assert votes.counts.sum(axis=0).tolist() == [40, 40, 40, 80]
        assert votes.agreement(n_resamples=0).n_votes == 200


def test_classes_that_tidying_cannot_tell_apart() -> None:
    with pytest.raises(ValueError, match="classes, tidied, must be distinct, but 'high' occurs more than once"):
        Annotations.from_table(ROWS, tidy=True, classes=["High", *SCALE])


def test_unknown_labels_are_listed_with_what_helps() -> None:
    with pytest.raises(ValueError, match=r"'emergency ' in row 2\)\. Some differ only in case or spaces: pass tidy"):
        Annotations.from_table(ROWS, classes=SCALE)
    odd = [*ROWS, ("t1", "z", "hgih"), ("t2", "z", "none")]
    with pytest.raises(ValueError, match=r"2 value.*first: 'hgih' in row 200, then 'none'\)\. Correct them"):
        Annotations.from_table(odd, classes=SCALE, tidy=True)


def test_slips_and_marks_are_noticed() -> None:
    found = said([*ROWS, ("t1", "z", "midle"), ("t2", "z", "?")])
    assert len(found) == 3
    assert "'midle' (1 times) beside 'middle'" in found[1]
    assert "Merge them as they are read, rename={'midle': 'middle'}." in found[1]
    with pytest.warns(CredalSetWarning, match=r"Merge them with votes\.rename\(\{'midle': 'middle'\}\)"):
        Annotations.from_counts(pandas.DataFrame([[40, 1], [60, 0]], columns=["middle", "midle"]))
    assert "'?' is counted as a class" in found[2]
    rest = said([*ROWS, ("t2", "z", "?")], empty=("", "?"), missing="drop", tidy=True)
    assert rest == []


@pytest.mark.parametrize(
    ("classes", "votes"),
    [
        (["likely", "unlikely"], [900, 10]),  # two letters
        (["grade 1", "grade 2"], [900, 10]),  # numbers
        (["bad", "bed"], [900, 1]),  # short
        (["form", "from"], [900, 800]),  # both frequent
        ([1, 2], [900, 1]),
    ],
)
def test_what_is_no_slip(classes: list[object], votes: list[int]) -> None:
    assert find_slips(classes, votes) == []


@pytest.mark.parametrize("slip", ["middel", "midle", "middlle", "middlr"])
def test_every_kind_of_slip(slip: str) -> None:
    assert find_slips(["middle", slip], [500, 2]) == [(slip, 2, "middle")]


def test_marks_are_a_list() -> None:
    with pytest.raises(TypeError, match=r"empty must be a list .* but is '\?': \['\?'\]"):
        Annotations.from_table(ROWS, empty="?")


def test_labels_are_renamed_wherever_votes_are_read() -> None:
    odd = [*ROWS, ("t1", "z", "midle"), ("t2", "z", "MIDLE")]
    votes = Annotations.from_table(odd, rename={"midle": "middle"}, tidy=True, classes=SCALE, ordered=True)
    assert votes.counts.sum(axis=0).tolist() == [40, 42, 40, 80]
    wide = {"id": ["a", "b"], "ann": ["Helpful", "harmful"], "bob": ["partially", "?"]}
    scale = ["Harmful", "Partly", "Helpful"]
    read = Annotations.from_wide(wide, tidy=True, rename={"partially": "partly"}, empty=["?"], classes=scale)
    assert read.counts.tolist() == [[0, 1, 1], [1, 0, 0]]
    with pytest.raises(ValueError, match=r"rename names 'mitle', which no label is called; the labels are"):
        Annotations.from_table(ROWS, rename={"mitle": "middle"})
    with pytest.raises(TypeError, match="rename must map old names to new ones"):
        Annotations.from_table(ROWS, rename="middle")


def scale_in(kind: str, labels: list[str | None]) -> Any:
    levels = ["Low", "Mid", "High", "Extreme", "?"]
    if kind == "pandas":
        return pandas.DataFrame({"task": range(len(labels)), "label": pandas.Categorical(labels, levels, ordered=True)})
    arrow = pytest.importorskip("pyarrow")
    codes = arrow.array([levels.index(label) for label in labels], arrow.int32())
    column = arrow.DictionaryArray.from_arrays(codes, arrow.array(levels), ordered=True)
    return arrow.table({"task": list(range(len(labels))), "label": column})


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_a_declared_scale_stays_one(kind: str) -> None:
    table = scale_in(kind, ["High", "Low", "Mid", "?", "High"])
    votes = Annotations.from_table(table, empty=["?"], missing="drop")
    assert votes.classes == ("Low", "Mid", "High", "Extreme")
    assert votes.ordered
    assert votes.counts.sum(axis=0).tolist() == [1, 1, 2, 0]
    tidied = Annotations.from_table(table, empty=["?"], missing="drop", tidy=True, rename={"Mid": "middle"})
    assert tidied.classes == ("low", "middle", "high", "extreme")
    assert tidied.ordered


def test_cells_of_spaces_are_no_label(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("task,worker,label\na,x,yes\na,y,  \nb,x,no\n")
    votes = Annotations.read(tmp_path / "v.csv", tidy=True, missing="drop")
    assert votes.classes == ("no", "yes")
    wide = {"id": ["a", "b"], "x": ["yes", " "], "y": [" ", "no"]}
    assert Annotations.from_wide(wide, tidy=True, missing="drop").classes == ("no", "yes")
    with pytest.raises(ValueError, match="that are missing"):
        Annotations.from_table({"task": ["a", "b", "b"], "label": ["yes", " ", "no"]}, tidy=True)


def test_names_that_tidying_makes_one() -> None:
    with pytest.raises(ValueError, match="rename has two names for 'y'"):
        Annotations.from_table([("a", "b", "y")], rename={"Y": "yes", "y": "maybe"}, tidy=True)
    rows = [("t", "a", (1, 2)), ("t", "b", b"x")]
    votes = Annotations.from_table(rows, rename={(1, 2): "pair", b"x": "bytes"})
    assert votes.classes == ("bytes", "pair")
    asked = Annotations.from_table([("t", "a", "High "), ("t", "b", "low")], one_vs_rest="HIGH", tidy=True)
    assert asked.classes == ("not high", "high")


def test_a_column_that_looks_like_annotators_is_not_passed_over(tmp_path: Path) -> None:
    rows = [(f"t{i % 40}", f"p{(i // 40 + i) % 9}", "de" if i % 40 < 20 else "en", LABELS[i % 5]) for i in range(200)]
    table = pandas.DataFrame(rows, columns=["post_id", "nickname", "language", "label"])
    with pytest.warns(CredalSetWarning, match=r"no column is known to name the annotators.*worker='nickname'"):
        Annotations.from_table(table, tidy=True)
    table.to_csv(tmp_path / "v.csv", index=False)
    with pytest.warns(CredalSetWarning, match=r"v.csv: no column .* worker='nickname', or worker=None"):
        Annotations.read(tmp_path / "v.csv", tidy=True)
    for options in ({"worker": None}, {"worker": "nickname"}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", CredalSetWarning)
            Annotations.from_table(table, tidy=True, **options)
            Annotations.from_table(table.drop(columns="nickname"), tidy=True)
    named = table.rename(columns={"nickname": "moderator"})
    assert Annotations.from_table(named, tidy=True).workers is not None
