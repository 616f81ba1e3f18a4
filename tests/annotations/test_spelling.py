"""Labels of a file under other names: renamed, then tidied, then counted; whatever the file and whoever voted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from credalset import Annotations
from credalset.annotations.readers import open_votes

ROWS = "task,worker,label\na,ann,Y\na,bob,yes \na,eve,no\nb,ann,n\nb,bob,no\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "votes.csv").write_text(ROWS)
    return tmp_path / "votes.csv"


def test_labels_of_one_name_are_one_class_and_ballots_follow(path: Path) -> None:
    votes = Annotations.read(path, rename={"Y": "yes", "yes ": "yes", "n": "no"})
    assert votes.classes == ("no", "yes")
    assert votes.counts.tolist() == [[1, 2], [2, 0]]
    plain = Annotations.read(path, classes=["Y", "yes ", "no", "n"])
    later = plain.rename({"Y": "yes", "yes ": "yes", "n": "no"}).reorder(["no", "yes"])
    assert votes.agreement(n_resamples=0).to_dict() == later.agreement(n_resamples=0).to_dict()


def test_names_are_changed_before_they_are_tidied_and_compared_as_tidied(path: Path) -> None:
    votes = Annotations.read(path, rename={"y": "YES", "N ": "No"}, tidy=True, classes=["no", "yes"])
    assert votes.counts.tolist() == [[1, 2], [2, 0]]
    asked = Annotations.read(path, rename={"y": "Yes", "n": "no"}, tidy=True, one_vs_rest="yes")
    assert asked.counts.tolist() == [[1, 2], [2, 0]]
    assert [batch["label"] for batch in open_votes(path, rename={"Y": "yes"}).batches()] == [
        ["yes", "yes ", "no", "n", "no"]
    ]


@pytest.mark.parametrize("new", [5, "5"])
def test_numbers_are_renamed_as_they_are_written(tmp_path: Path, new: Any) -> None:
    records = [{"task": "a", "worker": w, "label": label} for w, label in enumerate([5, 6, 5, 4])]
    (tmp_path / "votes.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "votes.csv").write_text("task,worker,label\na,0,5\na,1,6\na,2,5\na,3,4\n")
    for name in ("votes.jsonl", "votes.csv"):
        votes = Annotations.read(tmp_path / name, rename={"6": new})
        assert list(map(str, votes.classes)) == ["4", "5"]
        assert votes.counts.tolist() == [[1, 3]]


def test_choices_that_were_offered_are_renamed_and_tidied_too(tmp_path: Path) -> None:
    options = [{"id": text, "text": text} for text in ("Yes", "No", "Perhaps")]
    records = [
        {"_input_hash": i, "_annotator_id": who, "options": options, "accept": [said], "answer": "accept"}
        for i in range(2)
        for who, said in (("ann", "Yes"), ("bob", "No"))
    ]
    (tmp_path / "db.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert Annotations.read(tmp_path / "db.jsonl").classes == ("Yes", "No", "Perhaps")
    assert Annotations.read(tmp_path / "db.jsonl", tidy=True).classes == ("yes", "no", "perhaps")
    merged = Annotations.read(tmp_path / "db.jsonl", rename={"Perhaps": "No"})
    assert (merged.classes, merged.counts.tolist()) == (("Yes", "No"), [[1, 1], [1, 1]])


def test_what_cannot_be_renamed_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"rename names 'ja', which no label is called; the labels are 'Y', 'yes ', "):
        Annotations.read(path, rename={"ja": "yes"})
    with pytest.raises(TypeError, match=r"rename must map old names to new ones, \{'old': 'new'\}, but is 'Y=yes'"):
        Annotations.read(path, rename="Y=yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"empty must be a list of texts, but is 'n/a'. Write empty=\['', 'n/a'\]"):
        Annotations.read(path, empty="n/a")


def test_votes_for_other_labels_are_counted_as_left_out(path: Path) -> None:
    votes = Annotations.read(path, classes=["no", "yes "], unknown="drop")
    assert votes.counts.tolist() == [[1, 1], [1, 0]]
    assert votes.origin is not None
    assert votes.origin.endswith("left out: 2 for other labels")


def test_times_that_are_asked_for_must_be_understood_by_all(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("task,worker,label,when\na,ann,x,02.01.2025 14:45\na,bob,y,2025-01-02\n")
    told = (
        r"time must hold .* but holds '02.01.2025 14:45'. Convert them before: pd.to_datetime\(table\['when'\], "
        r"dayfirst=True\) reads dates such as 02.01.2025. Leave time out only if the rows stand in the order"
    )
    with pytest.raises(ValueError, match=told):
        Annotations.read(tmp_path / "v.csv", time="when")
    with pytest.raises(ValueError, match=told):
        list(open_votes(tmp_path / "v.csv", time="when").batches())
    (tmp_path / "n.csv").write_text("task,worker,label,when\na,ann,x,1700000000.5\na,ann,y,1600000000\na,bob,y,\n")
    assert Annotations.read(tmp_path / "n.csv", time="when").counts.tolist() == [[1, 1]]
    assert sum(len(batch["time"]) for batch in open_votes(tmp_path / "n.csv", time="when").batches()) == 3
