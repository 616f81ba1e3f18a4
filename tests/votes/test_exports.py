"""Every tool's export, from a small file made after its documentation,
with the odd cases that users report.
"""

from __future__ import annotations

import bz2
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from credalset import Annotations
from credalset.exceptions import FileFormatError
from credalset.votes.exports import KINDS

FILES = Path(__file__).parent / "files"
Row = tuple[Any, ...]


def written(tmp_path: Path, name: str, content: Any) -> Path:
    path = tmp_path / name
    if isinstance(content, list) and name.endswith(".jsonl"):
        content = "".join(json.dumps(line) + "\n" for line in content)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def rows_of(path: Path, **options: Any) -> list[Row]:
    table = Annotations.read(path, **options).table
    return list(zip(table["task"], table["worker"], table["label"], strict=True))


# --- every tool ---

EXAMPLES = {
    "by_worker.json": (
        "by-worker",
        {},
        ("t1", "t2", "t3", "t4", "t5"),
        [[1, 1], [2, 0], [1, 1], [0, 1], [2, 0]],
    ),
    "inspect.json": (
        "inspect",
        {},
        ("r0", "r1", "r2", "r3", "r4"),
        [[3, 0], [2, 1], [3, 0], [0, 3], [2, 0]],
    ),
    "label_studio.json": ("label-studio", {}, ("1", "2", "4"), [[0, 1, 1], [1, 0, 0], [1, 0, 0]]),
    "label_studio_min.json": (
        "label-studio-min",
        {},
        ("1", "2", "4"),
        [[0, 1, 1], [1, 0, 0], [0, 1, 0]],
    ),
    "label_studio_min.csv": ("label-studio-min", {}, ("1", "2"), [[0, 1, 1], [1, 0, 0]]),
    "doccano": ("doccano", {}, ("7", "8"), [[0, 0, 2], [1, 1, 0]]),
    "doccano_old.jsonl": ("doccano", {}, ("1", "2"), [[1, 1], [0, 1]]),
    "argilla.jsonl": ("argilla", {}, ("r1", "r2"), [[1, 1], [1, 0]]),
    "argilla_records.json": ("argilla", {"label": "stars"}, ("r1", "r2"), [[0, 1, 1], [1, 0, 0]]),
    "lists.jsonl": ("lists", {}, ("a", "d"), [[1, 2], [0, 1]]),
    "prodigy.jsonl": ("prodigy", {}, ("101", "102"), [[1, 1, 0], [0, 1, 0]]),
    "prodigy_binary.jsonl": ("prodigy", {}, ("101", "102"), [[1, 1], [1, 0]]),
    "lewidi_2023.json": ("lewidi", {}, ("1", "2"), [[1, 2], [3, 0]]),
    "lewidi_2025.json": (
        "lewidi",
        {},
        ("10", "11"),
        [[0, 0, 2, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1]],
    ),
    "lewidi_several.json": ("lewidi", {"unknown": "drop"}, ("138448",), [[1, 0, 1]]),
    "crowd_kit.csv": ("long", {}, ("t1", "t2", "t3"), [[1, 0, 1], [0, 0, 1], [0, 1, 0]]),
    "crowd_kit_old.tsv": (
        "long",
        {},
        ("https://example.org/1.jpg", "https://example.org/2.jpg"),
        [[1, 1], [0, 1]],
    ),
    "long.csv": ("long", {"label": "Answer.sentiment"}, ("3A0", "3B1"), [[1, 1], [0, 1]]),
    "long.jsonl": (
        "long",
        {"task": "example", "worker": "coder", "label": "code"},
        ("1", "2"),
        [[1, 1], [1, 0]],
    ),
    "wide_codes.tsv": ("wide", {"kind": "wide", "empty": ["-1"]}, ("a", "b", "c"), None),
    "wide.csv": (
        "wide",
        {"kind": "wide", "worker": ["Ann", "Bob", "Çelik"]},
        ("7", "8", "10"),
        [[2, 0], [0, 2], [1, 2]],
    ),
    "doccano_all.jsonl": ("lists", {"kind": "lists"}, ("7", "8"), [[0, 0, 1], [1, 1, 0]]),
}


def test_every_example_is_listed() -> None:
    assert {path.name for path in FILES.iterdir()} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    kind, options, items, counts = EXAMPLES[name]
    votes = Annotations.read(FILES / name, **options)
    assert votes.origin is not None
    assert f", read as {kind}" in votes.origin
    assert votes.items == items
    assert counts is None or votes.counts.tolist() == counts
    assert votes.classes is not None
    assert all(isinstance(name, str) for name in (*votes.classes, *items, *(votes.workers or ())))
    again = Annotations.from_table(votes.table, classes=votes.classes)
    assert again.counts.tolist() == votes.counts.tolist()


def test_a_kind_may_be_named() -> None:
    path = FILES / "crowd_kit.csv"
    assert (
        Annotations.read(path, "crowd-kit")
        == Annotations.read(path, kind="long")
        == Annotations.read(path)
    )
    with pytest.raises(ValueError, match=f"kind must be one of {', '.join(KINDS)}"):
        Annotations.read(path, kind="excel")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("label_studio.json", {"task": "data.nr"}),
        ("label_studio.json", {"worker": "boss"}),
        ("label_studio.json", {"label": "topic"}),
        ("argilla.jsonl", {"label": "topic"}),
        ("prodigy.jsonl", {"task": "meta.id"}),
        ("long.csv", {"label": "topic"}),
    ],
)
def test_names_that_lead_nowhere(name: str, options: dict[str, str]) -> None:
    with pytest.raises(
        ValueError, match=next(f"{role} names .*'{field}'" for role, field in options.items())
    ):
        Annotations.read(FILES / name, **options)


# --- names are texts ---

TEXTS = [
    "1.1",
    "1.10",
    "007",
    "7",
    "7.0",
    "12345678901234567890.0",
    "NA",
    "null",
    "nan",
    "N/A",
    "1e5",
    "True",
]


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "json", "parquet"])
@pytest.mark.parametrize("role", ["task", "worker", "label"])
def test_names_are_the_texts_in_the_file(tmp_path: Path, format: str, role: str) -> None:
    records = [{"task": "t", "worker": "w", "label": "x"} | {role: text} for text in TEXTS]
    records.append({"task": "t", "worker": "v", "label": "y"})
    path = tmp_path / f"votes.{format}"
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif format in ("csv", "tsv"):
        split = "," if format == "csv" else "\t"
        lines = [
            split.join(("task", "worker", "label")),
            *(split.join(row.values()) for row in records),
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        written(tmp_path, path.name, records)
    votes = Annotations.read(path)
    assert votes.classes is not None
    found = {"task": votes.items, "worker": votes.workers, "label": votes.classes}[role]
    assert set(TEXTS) <= set(found or ())
    assert votes.counts.sum() == len(records) if role != "label" else True


def test_numbers_in_json_keep_their_digits(tmp_path: Path) -> None:
    text = '[{"task": 1.1, "worker": 1, "label": 2}, {"task": 1.10, "worker": 1, "label": true}]'
    votes = Annotations.read(written(tmp_path, "v.json", text))
    assert (votes.items, votes.workers, votes.classes) == (("1.1", "1.10"), ("1",), ("2", "true"))


def test_missing_is_the_empty_cell_only(tmp_path: Path) -> None:
    path = written(tmp_path, "v.csv", "task,worker,label\n1,a,NA\n1,b,\n1,c,x\n,d,x\n")
    votes = Annotations.read(path)
    assert votes.classes == ("NA", "x")
    assert votes.notes == ("1 vote dropped: without a task", "1 vote dropped: without a label")
    assert Annotations.read(path, empty=["NA"], classes=["x", "y"]).counts.tolist() == [[1, 0]]


def test_classes_and_scales_are_given_as_texts_or_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "v.csv", "task,worker,label\n1,a,5\n1,b,10\n")
    votes = Annotations.read(path, classes=[10, 5])
    assert (votes.classes, votes.counts.tolist()) == (("10", "5"), [[1, 1]])
    assert Annotations.read(path, scale=[1, 5, 10]).scale == (1.0, 5.0, 10.0)
    assert Annotations.read(path, rename={"5": "five", 10: "ten"}).classes == ("five", "ten")


def test_dates_in_files(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "v.csv",
        "task,worker,label,date\n1,a,new,01.12.2024\n1,a,old,12.11.2024\n1,b,old,\n",
    )
    with pytest.raises(ValueError, match="dayfirst"):
        Annotations.read(path)
    votes = Annotations.read(path, dayfirst=True)
    assert votes.counts.tolist() == [[1, 1]]
    assert votes.table["time"] == ["2024-12-01T00:00:00", None]
    with pytest.raises(ValueError, match=r"time holds '31.12.2024', but dayfirst is False"):
        Annotations.read(
            written(tmp_path, "w.csv", "task,label,date\n1,a,31.12.2024\n1,b,\n"), dayfirst=False
        )


# --- files ---


@pytest.mark.parametrize(
    "data",
    [
        "task;worker;label\n1;ann;größer\n1;bob;kleiner, oder\n".encode(),
        'task,worker,label\n1,ann,größer\n1,bob,"kleiner, oder"\n'.encode("utf-8-sig"),
        "task\tworker\tlabel\n1\tann\tgrößer\n1\tbob\tkleiner, oder\n".encode("utf-16"),
        gzip.compress('task,worker,label\n1,ann,größer\n1,bob,"kleiner, oder"\n'.encode(), mtime=0),
        bz2.compress('task,worker,label\n1,ann,größer\n1,bob,"kleiner, oder"\n'.encode()),
    ],
    ids=["semicolons", "mark", "utf-16", "gzip", "bzip2"],
)
def test_tables_of_every_making(tmp_path: Path, data: bytes) -> None:
    suffix = ".gz" if data[:2] == b"\x1f\x8b" else ".bz2" if data[:2] == b"BZ" else ""
    path = tmp_path / f"votes.csv{suffix}"
    path.write_bytes(data)
    assert rows_of(path) == [("1", "ann", "größer"), ("1", "bob", "kleiner, oder")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_json_of_every_encoding(tmp_path: Path, encoding: str) -> None:
    text = '{"task": 1, "worker": 2, "label": "größer"}\n{"task": 1, "worker": 3, "label": "x"}'
    path = tmp_path / "votes.jsonl"
    path.write_bytes(text.encode(encoding))
    named = {"encoding": encoding} if encoding == "latin-1" else {}
    assert Annotations.read(path, **named).classes == ("größer", "x")
    if named:
        with pytest.raises(FileFormatError, match="encoding"):
            Annotations.read(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        '[{"task": 1, "label": ',
        '{"task": 1}\n{"task": ',
        "[1, 2]",
        '[{"a": 1}] 7',
        "3",
        "[" * 100_000,
    ],
    ids=["empty", "cut", "cut lines", "numbers", "more", "number", "deep"],
)
def test_damaged_json(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"votes\.json"):
        Annotations.read(written(tmp_path, "votes.json", content))


def test_objects_are_not_names(tmp_path: Path) -> None:
    for role in ("task", "label"):
        record = {"task": 1, "worker": 2, "label": "a"} | {role: {"a": 1}}
        with pytest.raises(FileFormatError, match=f"{role} holds objects"):
            Annotations.read(written(tmp_path, "t.jsonl", [record, record]), kind="long")


def test_a_wide_file_says_which_columns_are_annotators(tmp_path: Path) -> None:
    votes = Annotations.read(written(tmp_path, "w.csv", "id,Ann,Bob\n1,a,b\n2,,b\n"), kind="wide")
    assert votes.origin == "w.csv, read as wide; annotators 'Ann', 'Bob'; items are named by 'id'"
    long = Annotations.read(
        written(tmp_path, "l.csv", "id,who,label\n1,Ann,a\n1,Bob,b\n2,Bob,b\n"), worker="who"
    )
    assert long == votes


# --- Label Studio ---


def test_label_studio_drops_what_is_not_a_vote() -> None:
    votes = Annotations.read(FILES / "label_studio.json")
    # 1: 10, and 11, listed twice; 2: a user who is gone; 3: skipped; 4: the later word of 10,
    # nothing from 11
    assert votes.classes == ("negativ", "neutral", "positiv")
    assert votes.workers == ("10", "11")
    assert votes.notes == (
        "1 vote without a worker, counted as votes of different workers",
        "1 item without votes left out",
        "2 votes dropped: cancelled",
        "1 vote dropped: marked as ground truth",
        "1 vote dropped: listed twice",
        "1 vote dropped: without a label",
        "1 vote replaced by the worker's later vote on the same task, by time",
    )


def test_label_studio_fields_by_name() -> None:
    assert Annotations.read(FILES / "label_studio.json", task="data.uid").items == (
        "r-001",
        "r-002",
        "r-004",
    )
    assert Annotations.read(FILES / "label_studio.json", worker="completed_by.email").workers == (
        "eve@example.org",
    )


def task(*results: Any, **fields: Any) -> dict[str, Any]:
    annotations = [
        {"id": i, "completed_by": i, "result": result} for i, result in enumerate(results)
    ]
    return {"id": 1, "data": {}, "annotations": annotations, **fields}


def choice(*labels: str, name: str = "q", **value: Any) -> dict[str, Any]:
    return {"from_name": name, "type": "choices", "value": {"choices": list(labels), **value}}


def test_label_studio_several_choices_and_questions(tmp_path: Path) -> None:
    path = written(
        tmp_path, "e.json", [task([choice("a", "b")], [choice("b")], [choice()], [choice("a")])]
    )
    with pytest.raises(ValueError, match=r"label holds several labels .*unknown"):
        Annotations.read(path)
    votes = Annotations.read(path, unknown="drop")
    assert votes.counts.tolist() == [[1, 1]]
    assert votes.notes == (
        "1 vote dropped: without a label",
        "1 vote dropped: for labels not among the classes (('a', 'b'))",
    )
    two = written(
        tmp_path,
        "q.json",
        [task([choice("a", name="x"), choice("b", name="y")], [choice("c", name="y")])],
    )
    with pytest.raises(ValueError, match=r"several questions, such as 'x' and 'y'.*label"):
        Annotations.read(two)
    assert rows_of(two, label="y") == [("1", "0", "b"), ("1", "1", "c")]


def test_label_studio_ratings_taxonomies_and_regions(tmp_path: Path) -> None:
    stars = [[{"from_name": "stars", "type": "rating", "value": {"rating": n}}] for n in (4, 2)]
    votes = Annotations.read(written(tmp_path, "r.json", [task(*stars)]))
    assert (votes.classes, votes.scale) == (("2", "4"), (2.0, 4.0))
    assert Annotations.read(tmp_path / "r.json", scale=range(1, 6)).counts.tolist() == [
        [0, 1, 0, 1, 0]
    ]
    tax = [
        [{"from_name": "t", "type": "taxonomy", "value": {"taxonomy": [["Eukarya", kind]]}}]
        for kind in ("Fox", "Owl")
    ]
    assert Annotations.read(written(tmp_path, "t.json", [task(*tax)])).classes == (
        "Eukarya / Fox",
        "Eukarya / Owl",
    )
    part = written(
        tmp_path, "e.json", [task([choice("a", start=0, end=3), choice("b")], [choice("a")])]
    )
    assert Annotations.read(part).notes == ("1 vote dropped: about a part of the item",)


def test_label_studio_of_old_and_odd_makes(tmp_path: Path) -> None:
    completions = [
        {"result": [choice("a")], "skipped": True},
        {"result": [choice("b")]},
        {"result": [choice("c")]},
    ]
    old = written(tmp_path, "old.json", [{"id": 5, "data": {}, "completions": completions}])
    assert rows_of(old) == [("5", None, "b"), ("5", None, "c")]
    lone = {k: v for k, v in task([choice("a")], [choice("b")]).items() if k != "id"}
    assert Annotations.read(written(tmp_path, "lone.json", lone)).items == ("0",)
    ids = written(tmp_path, "ids.json", [{"id": 1, "data": {}, "annotations": [12, 13]}])
    with pytest.raises(FileFormatError, match="annotations"):
        Annotations.read(ids)


def test_label_studio_a_file_per_task(tmp_path: Path) -> None:
    for number in (1, 2):
        one = task([choice("ab"[number - 1])], id=number)
        one["annotations"][0]["id"] = number
        written(tmp_path, f"{number}.json", one)
    assert Annotations.read(tmp_path).counts.tolist() == [[1, 0], [0, 1]]


MARKS = {"annotation_id": 1, "created_at": None, "updated_at": None, "lead_time": 1.0}


def test_label_studio_min_needs_one_question(tmp_path: Path) -> None:
    assert "1 vote dropped: listed twice" in Annotations.read(FILES / "label_studio_min.json").notes
    path = written(tmp_path, "m.json", [{"id": 1, "a": "u", "b": "v", "annotator": 1, **MARKS}])
    with pytest.raises(ValueError, match=r"label: m.json .*\['a', 'b'\]"):
        Annotations.read(path)
    rows = [{"id": 1, "q": {"choices": ["a"]}, "annotator": {"id": 3, "email": "x"}, **MARKS}]
    rows += [{"id": 1, "q": "b", "annotator": 4, **MARKS, "annotation_id": 2}]
    assert rows_of(written(tmp_path, "n.json", rows)) == [("1", "3", "a"), ("1", "4", "b")]


# --- doccano ---


def test_doccano_a_file_per_annotator(tmp_path: Path) -> None:
    votes = Annotations.read(FILES / "doccano")
    assert (votes.workers, votes.classes) == (("ann", "bob"), ("economy", "politics", "sport"))
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for file in (FILES / "doccano").iterdir():
            archive.write(file, file.name)
        archive.writestr("__MACOSX/._ann.jsonl", "rubbish")
    assert Annotations.read(tmp_path / "export.zip") == votes
    assert Annotations.read(str(FILES / "doccano" / "[ab]*.jsonl")) == votes


def test_doccano_shared_labels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"without saying who chose which.*kind"):
        Annotations.read(FILES / "doccano_all.jsonl")
    lines = [{"id": 1, "text": "x", "label": ["a"]}, {"id": 2, "text": "y", "label": ["b"]}]
    assert Annotations.read(written(tmp_path, "all.jsonl", lines)).workers is None
    assert Annotations.read(written(tmp_path, "ann.jsonl", lines)).workers == ("ann",)


@pytest.mark.parametrize(
    "line",
    [
        {"id": 1, "text": "Peter", "label": [[0, 5, "PER"]]},
        {
            "id": 1,
            "text": "Peter",
            "annotations": [{"label": 1, "start_offset": 0, "end_offset": 5, "user": 1}],
        },
    ],
)
def test_doccano_spans_are_refused(tmp_path: Path, line: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match="spans of text"):
        Annotations.read(written(tmp_path, "ann.jsonl", [line]))


# --- Argilla ---


def response(user: str, value: Any, status: str = "submitted") -> dict[str, Any]:
    return {"user_id": user, "value": value, "status": status}


OLD = [
    {"external_id": "a", "q": [response("u1", "yes")], "q-suggestion": "no"},
    {
        "external_id": "b",
        "q": [response("u1", "no"), response("u2", "yes", "discarded")],
        "q-suggestion": None,
    },
]


def test_argilla_layouts(tmp_path: Path) -> None:
    """Feedback datasets: a list of objects in JSON,
    and an object of lists in Parquet written by older libraries.
    """
    assert Annotations.read(FILES / "argilla.jsonl").notes[1:] == (
        "1 vote dropped: draft",
        "1 vote dropped: discarded",
    )
    with pytest.raises(ValueError, match="several questions, such as 'stars' and 'comment'"):
        Annotations.read(FILES / "argilla_records.json")
    rows = [("a", "u1", "yes"), ("b", "u1", "no")]
    assert rows_of(written(tmp_path, "old.jsonl", OLD)) == rows
    turned = [{**row, "q": {key: [r[key] for r in row["q"]] for key in row["q"][0]}} for row in OLD]
    for name, table in (("turned", turned), ("list", OLD)):
        pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
        assert rows_of(tmp_path / f"{name}.parquet") == rows


def test_argilla_folder_with_settings(tmp_path: Path) -> None:
    records = [
        json.loads(line)
        for line in (FILES / "argilla.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / ".argilla").mkdir()
    pq.write_table(
        pa.Table.from_pylist(records), tmp_path / "data" / "train-00000-of-00001.parquet"
    )
    written(tmp_path, "README.md", "# card")
    for kind, scale in (("label_selection", None), ("rating", (0.0, 1.0, 2.0))):
        options = [{"value": name, "text": name} for name in ("pos", "neg", "mixed")]
        settings = {
            "questions": [{"name": "label", "settings": {"type": kind, "options": options}}]
        }
        written(tmp_path / ".argilla", "settings.json", settings)
        votes = Annotations.read(tmp_path)
        assert (votes.classes, votes.scale) == (("pos", "neg", "mixed"), scale)
        assert votes.counts.tolist() == [[1, 1, 0], [0, 1, 0]]
    written(tmp_path / ".argilla", "settings.json", {"questions": [{}]})
    with pytest.raises(FileFormatError, match="settings"):
        Annotations.read(tmp_path)


def test_argilla_answers_that_are_not_labels(tmp_path: Path) -> None:
    ranking = [{"id": 1, "q.responses": [[{"rank": 1, "value": "a"}]], "q.responses.users": ["u"]}]
    with pytest.raises(FileFormatError, match="rankings or spans"):
        Annotations.read(written(tmp_path, "r.jsonl", ranking))


# --- lists of labels ---


def test_lists_of_codes_with_names(tmp_path: Path) -> None:
    """The Hugging Face library writes class names beside the codes; -1 means no label."""
    table = pa.table(
        {"uid": [5, 6], "labels": [[0, 2, -1], [2]], "annotator_ids": [[1, 2, 3], [1]]}
    )
    feature = {
        "feature": {"names": ["no", "maybe", "yes"], "_type": "ClassLabel"},
        "_type": "Sequence",
    }
    noted = {"huggingface": json.dumps({"info": {"features": {"labels": feature}}})}
    pq.write_table(table.replace_schema_metadata(noted), tmp_path / "hf.parquet")
    votes = Annotations.read(tmp_path / "hf.parquet")
    assert (votes.classes, votes.items) == (("no", "maybe", "yes"), ("5", "6"))
    assert votes.counts.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert votes.notes == ("1 vote dropped: without a label",)
    pq.write_table(table, tmp_path / "plain.parquet")
    assert Annotations.read(tmp_path / "plain.parquet").classes == ("-1", "0", "2"), (
        "without the note, codes are codes"
    )


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"id": 1, "labels": ["a"], "annotators": ["x", "y"]}, {}),
        ({"id": 1, "labels": "a"}, {"label": "labels"}),
        ({"id": 1, "x": ["a"]}, {}),
    ],
)
def test_lists_refused(tmp_path: Path, row: dict[str, Any], options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"l\.jsonl"):
        Annotations.read(written(tmp_path, "l.jsonl", [row]), kind="lists", **options)


# --- Prodigy ---


def test_prodigy_choices() -> None:
    votes = Annotations.read(FILES / "prodigy.jsonl")
    assert votes.classes == ("SPORT", "POLITICS", "OTHER"), (
        "the options in their order, whether chosen or not"
    )
    assert votes.notes == (
        "1 item without votes left out",
        "1 vote dropped: ignored by the annotator",
        "1 vote dropped: rejected by the annotator",
        "1 vote dropped: without a label",
        "1 vote replaced by the worker's later vote on the same task, by time",
    )
    assert Annotations.read(FILES / "prodigy.jsonl", task="text").items == ("Tor! ⚽", "Wahl")


def test_prodigy_yes_or_no(tmp_path: Path) -> None:
    votes = Annotations.read(FILES / "prodigy_binary.jsonl")
    assert votes.classes == ("not SPORT", "SPORT")
    lines = [
        json.loads(line)
        for line in (FILES / "prodigy_binary.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    path = written(
        tmp_path, "two.jsonl", [*lines, {**lines[0], "label": "POLITICS", "answer": "reject"}]
    )
    with pytest.raises(ValueError, match="several questions, such as 'SPORT' and 'POLITICS'"):
        Annotations.read(path)
    assert Annotations.read(path, label="SPORT") == votes


def test_prodigy_odd_lines(tmp_path: Path) -> None:
    base = {"_input_hash": 1, "answer": "accept"}
    lines = [{**base, "accept": ["a"]}, {**base, "accept": ["b"]}, {**base, "answer": None}]
    votes = Annotations.read(written(tmp_path, "p.jsonl", lines))
    assert votes.counts.tolist() == [[1, 1]], "without sessions, each line is a vote"
    with pytest.raises(FileFormatError, match="neither options nor a label"):
        Annotations.read(written(tmp_path, "ner.jsonl", [{**base, "text": "x", "spans": []}]))


# --- LeWiDi ---


def test_lewidi_editions(tmp_path: Path) -> None:
    second = Annotations.read(FILES / "lewidi_2023.json")
    assert (second.classes, second.scale, second.workers) == (
        ("0", "1"),
        None,
        ("Ann1", "Ann2", "Ann3"),
    )
    third = Annotations.read(FILES / "lewidi_2025.json")
    assert third.scale == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert third.notes == ("1 vote dropped: without a label",)
    item = {
        "annotations": "-3,0,1",
        "annotators": "Ann1,Ann2,Ann3",
        "soft_label": {"0.0": 0.67, "1.0": 0.33},
    }
    hidden = Annotations.read(written(tmp_path, "convabuse.json", {"7": item}))
    assert (hidden.classes, hidden.scale) == (("-3", "0", "1"), (-3.0, 0.0, 1.0))
    with pytest.raises(FileFormatError, match="item '7'"):
        Annotations.read(written(tmp_path, "p.json", {"7": item | {"annotators": "Ann1"}}))
    with pytest.raises(ValueError, match="label holds several labels"):
        Annotations.read(FILES / "lewidi_several.json")


# --- logs of Inspect, made by inspect-ai 0.3.285 with its mock model, without events ---

INSPECT = FILES / "inspect.json"


def test_graders_of_inspect_are_workers() -> None:
    with pytest.warns(match="1 vote dropped: without a label"):
        votes = Annotations.read(INSPECT)
    assert votes.workers == ("match", "model_graded_qa", "model_graded_qa1")
    assert votes.classes == ("C", "I")


def test_answers_in_inspect_are_of_the_model() -> None:
    found = rows_of(INSPECT, label="answer")
    assert found[:2] == [
        ("r0", "mockllm/writer", "negative"),
        ("r1", "mockllm/writer", "positive"),
    ]


def of_inspect(tmp_path: Path, **changes: Any) -> Path:
    log = json.loads(INSPECT.read_text(encoding="utf-8")) | changes
    return written(tmp_path, "log.json", log)


def sample(name: str, epoch: int, **scores: Any) -> dict[str, Any]:
    return {"id": name, "epoch": epoch, "scores": scores}


def test_repeated_answers_in_inspect_are_items_of_their_own(tmp_path: Path) -> None:
    grade = {"value": "C", "answer": "yes"}
    samples = [sample("a", 1, strict=grade), sample("a", 2, strict=grade)]
    path = of_inspect(tmp_path, samples=samples)
    grades = [("a (epoch 1)", "strict", "C"), ("a (epoch 2)", "strict", "C")]
    assert rows_of(path, classes=["C", "I"]) == grades
    answers = {worker for _, worker, _ in rows_of(path, label="answer", classes=["yes", "no"])}
    assert answers == {"mockllm/writer (epoch 1)", "mockllm/writer (epoch 2)"}


def test_answers_of_several_models_in_inspect_are_graded_by_themselves(tmp_path: Path) -> None:
    for model in ("x", "y"):
        log = json.loads(INSPECT.read_text(encoding="utf-8"))
        log["eval"]["model"] = model
        log["samples"] = [sample("a", 1, strict={"value": "CI"[model == "y"]})]
        written(tmp_path, f"{model}.json", log)
    assert rows_of(tmp_path) == [("x: a", "strict", "C"), ("y: a", "strict", "I")]


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([], {}, "holds no samples"),
        ([sample("a", 1, s={"value": {"tone": 1, "style": 2}})], {}, "several values .tone, style"),
        (
            [sample("a", 1, s={"answer": "x"}, t={"answer": "y"})],
            {"label": "answer"},
            "different answers",
        ),
        ([sample("a", 1, s={"value": "C"})], {"task": "uid"}, "task names 'uid'"),
    ],
)
def test_logs_of_inspect_that_say_no_votes(
    tmp_path: Path, samples: Any, options: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Annotations.read(of_inspect(tmp_path, samples=samples), **options)


def test_one_of_several_grades_of_inspect(tmp_path: Path) -> None:
    samples = [sample(name, 1, s={"value": {"tone": name, "style": "z"}}) for name in "ab"]
    path = of_inspect(tmp_path, samples=samples)
    assert rows_of(path, label="value.tone") == [("a", "s", "a"), ("b", "s", "b")]


def test_archives_of_inspect_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(FileFormatError, match="inspect log convert"):
        Annotations.read(path)
