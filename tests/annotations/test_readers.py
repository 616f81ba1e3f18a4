"""Every reader on a small file made after its tool's documentation, with the odd cases that users report."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from credalset import Annotations
from credalset.annotations.readers import READERS, open_votes, sniff
from credalset.annotations.readers.source import BATCH
from credalset.exceptions import FileFormatError

FILES = Path(__file__).parent / "files"

KINDS = {
    "label_studio.json": "label-studio",
    "label_studio_min.json": "label-studio-min",
    "label_studio_min.csv": "label-studio-min",
    "doccano": "doccano",
    "doccano_all.jsonl": "doccano",
    "doccano_old.jsonl": "doccano",
    "argilla.jsonl": "argilla",
    "argilla_records.json": "argilla",
    "lists.jsonl": "lists",
    "prodigy.jsonl": "prodigy",
    "prodigy_binary.jsonl": "prodigy",
    "lewidi_2023.json": "lewidi",
    "lewidi_2025.json": "lewidi",
    "lewidi_several.json": "lewidi",
    "crowd_kit.csv": "crowd-kit",
    "crowd_kit_old.tsv": "crowd-kit",
    "long.csv": "long",
    "long.jsonl": "long",
    "wide.csv": "wide",
    "wide_codes.tsv": "wide",
}


def votes_of(path, **options):
    """The long table, as a list of rows."""
    return [
        row
        for batch in open_votes(path, **options).batches()
        for row in zip(batch["task"], batch.get("worker", [None] * len(batch["task"])), batch["label"], strict=True)
    ]


def written(tmp_path, name, content):
    path = tmp_path / name
    if isinstance(content, list) and name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(line) + "\n" for line in content), encoding="utf-8")
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# --- recognising ---


def test_every_example_is_listed():
    assert {path.name for path in FILES.iterdir()} == set(KINDS)
    assert set(KINDS.values()) == set(READERS)


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_recognised(name):
    found = sniff(FILES / name)
    assert found.kind == KINDS[name]
    assert found.sure >= 0.7
    assert str(found) == f"{'certainly' if found.sure >= 0.95 else 'probably'} {found.kind}: {found.why}"


@pytest.mark.parametrize("name", KINDS)
def test_only_one_reader_is_that_sure(name):
    from credalset.annotations.readers.source import Source

    source = Source.open(FILES / name)
    guesses = sorted((g.sure for g in (r.recognise(source) for r in READERS.values()) if g is not None), reverse=True)
    assert len(guesses) == 1 or guesses[0] - guesses[1] >= 0.1


def test_a_kind_that_is_given_is_taken(tmp_path):
    path = written(tmp_path, "votes.csv", "task,worker,label\n1,ann,a\n1,bob,b\n")
    votes = Annotations.read(path, kind="long")
    assert votes.origin == "votes.csv, read as long; task from 'task', worker from 'worker', label from 'label'"
    assert Annotations.read(path) == votes
    with pytest.raises(ValueError, match=r"kind must be one of 'label-studio', .*'wide', but is 'excel'"):
        Annotations.read(path, kind="excel")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.json",
            [1, 2, 3],
            r"a.json is of no kind that is recognised: it starts with \[1\].*kind=\.\.\. \(label-studio",
        ),
        ("a.json", {"x": 1}, r"it holds objects with the keys \['x'\]"),
        ("a.csv", "x,y\n1,2\n", r"it holds a table with the columns \['x', 'y'\].*task=\.\.\., worker="),
        ("a.json", [], r"no kind that is recognised"),
        ("a.jsonl", [{"task": 1, "label": ["a"]}], r"It is perhaps long: .*Name the kind"),
    ],
)
def test_what_nobody_knows(tmp_path, name, content, message):
    with pytest.raises(FileFormatError, match=message):
        sniff(written(tmp_path, name, content))


def test_a_tie_is_not_decided_by_the_order_of_readers(tmp_path, monkeypatch):
    from dataclasses import replace

    path = written(tmp_path, "votes.csv", "task,worker,label\n1,ann,a\n1,bob,b\n")
    twin = replace(READERS["crowd-kit"], kind="twin")
    monkeypatch.setitem(READERS, "twin", twin)
    with pytest.raises(
        FileFormatError, match=r"could be of two kinds: certainly crowd-kit: .*; certainly twin: .*kind="
    ):
        sniff(path)


@pytest.mark.parametrize(
    ("name", "option"),
    [("prodigy.jsonl", "weight"), ("wide.csv", "label"), ("lewidi_2023.json", "worker"), ("doccano", "time")],
)
def test_what_a_kind_has_no_choice_of(name, option):
    with pytest.raises(ValueError, match=rf"{option}='x': files of kind '{KINDS[name]}' have no choice of {option}"):
        Annotations.read(FILES / name, **{option: "x"})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("label_studio.json", {"task": "data.nr"}, r"Record 0 has no field 'data.nr', only \['id', 'data'"),
        ("label_studio.json", {"worker": "boss"}, r"label_studio.json has nothing under worker='boss'"),
        ("label_studio.json", {"label": "topic"}, r"label_studio.json has nothing under label='topic'"),
        ("argilla.jsonl", {"label": "topic"}, r"argilla.jsonl has nothing under label='topic'"),
        ("prodigy.jsonl", {"task": "meta.id"}, r"Record 0 has no field 'meta.id'"),
        ("lewidi_2023.json", {"task": "nr"}, r"Record 0 has no field 'nr'"),
    ],
)
def test_names_that_lead_nowhere(name, options, message):
    with pytest.raises(ValueError, match=message):
        Annotations.read(FILES / name, **options)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="colour"):
        Annotations.read(FILES / "long.csv", colour="red")
    with pytest.raises(ValueError, match="missing must be one of 'error', 'drop', but is 'keep'"):
        Annotations.read(FILES / "long.csv", missing="keep")
    with pytest.raises(ValueError, match="duplicates must be one of"):
        Annotations.read(FILES / "long.csv", duplicates="all")


# --- Label Studio ---


def test_label_studio():
    votes = Annotations.read(FILES / "label_studio.json")
    assert votes.items == (1, 2, 3, 4)
    assert votes.classes == ("negativ", "neutral", "positiv")
    # 1: 10, and 11, listed twice; 2: a user who is gone; 3: skipped; 4: the later word of 10, nothing from 11
    assert votes.counts.tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert votes.workers == ("10", "11", "unknown 1")
    assert votes.origin.endswith(
        "left out: 2 cancelled, 1 earlier by the same worker, 1 ground truth, 1 listed again, 1 without a label"
    )


def test_label_studio_long_table():
    rows = votes_of(FILES / "label_studio.json")
    assert rows[:2] == [(1, 10, "positiv"), (1, 11, "neutral")]
    assert rows[2] == (2, "unknown 1", "negativ")
    assert [row[2] for row in rows if row[0] == 4] == ["negativ", "positiv"]


def test_label_studio_fields_by_name():
    votes = Annotations.read(FILES / "label_studio.json", task="data.uid", duplicates="first")
    assert votes.items == ("r-001", "r-002", "r-003", "r-004")
    assert votes.counts.tolist()[3] == [0, 0, 1]  # the first by time, though not in the file
    workers = Annotations.read(FILES / "label_studio.json", worker="completed_by.email").workers
    assert workers[:2] == ("unknown 1", "eve@example.org")


def task(*results, **fields):
    annotations = [{"id": i, "completed_by": i, "result": result} for i, result in enumerate(results)]
    return {"id": 1, "data": {}, "annotations": annotations, **fields}


def choice(*labels, name="q", **value):
    return {"from_name": name, "type": "choices", "value": {"choices": list(labels), **value}}


def test_label_studio_several_choices(tmp_path):
    path = written(tmp_path, "e.json", [task([choice("a", "b")], [choice("b")], [choice()])])
    with pytest.raises(ValueError, match=r"e.json: the vote by 0 on task 1 holds 2 labels .*one_vs_rest='a'"):
        Annotations.read(path)
    assert Annotations.read(path, one_vs_rest="a").counts.tolist() == [[2, 1]]
    assert votes_of(path, one_vs_rest="b") == [(1, 0, "b"), (1, 1, "b"), (1, 2, "not b")]
    with pytest.raises(ValueError, match="leave classes out"):
        Annotations.read(path, one_vs_rest="a", classes=["a", "b"])
    with pytest.raises(ValueError, match=r"one_vs_rest='c' is not among the labels, which are \['a', 'b'\]"):
        Annotations.read(path, one_vs_rest="c")


def test_label_studio_several_questions(tmp_path):
    path = written(tmp_path, "e.json", [task([choice("a", name="x"), choice("b", name="y")])])
    with pytest.raises(ValueError, match=r"several questions, such as 'x' and 'y'. Read one at a time: label='x'"):
        Annotations.read(path)
    assert votes_of(path, label="y") == [(1, 0, "b")]


def test_label_studio_ratings_and_taxonomies(tmp_path):
    rating = [{"from_name": "stars", "type": "rating", "value": {"rating": 4}}]
    other = [{"from_name": "stars", "type": "rating", "value": {"rating": 2}}]
    votes = Annotations.read(written(tmp_path, "r.json", [task(rating, other)]), classes=[1, 2, 3, 4, 5])
    assert votes.positions == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert votes.counts.tolist() == [[0, 1, 0, 1, 0]]
    path = [{"from_name": "tax", "type": "taxonomy", "value": {"taxonomy": [["Eukarya", "Fox"]]}}]
    assert votes_of(written(tmp_path, "t.json", [task(path)])) == [(1, 0, "Eukarya / Fox")]


def test_label_studio_choices_about_a_part_are_no_votes(tmp_path):
    path = written(tmp_path, "e.json", [task([choice("a", start=0, end=3), choice("b")])])
    votes = open_votes(path)
    assert [batch["label"] for batch in votes.batches()] == [["b"]]
    assert "1 about a part of the item" in votes.describe()


def test_label_studio_of_old_and_odd_makes(tmp_path):
    old = [
        {"id": 5, "data": {}, "completions": [{"result": [choice("a")], "skipped": True}, {"result": [choice("b")]}]}
    ]
    assert votes_of(written(tmp_path, "old.json", old)) == [(5, "unknown 1", "b")]
    lone = {k: v for k, v in task([choice("a")]).items() if k != "id"}
    assert votes_of(written(tmp_path, "lone.json", lone)) == [(0, 0, "a")]
    ids = written(tmp_path, "ids.json", [{"id": 1, "data": {}, "annotations": [12, 13]}])
    with pytest.raises(FileFormatError, match="annotations as ids only"):
        Annotations.read(ids)
    none = written(tmp_path, "none.json", [{"id": 1, "data": {}}])
    with pytest.raises(FileFormatError, match="task 0 has no list of annotations, only"):
        Annotations.read(none, kind="label-studio")


def test_label_studio_a_file_per_task(tmp_path):
    for number in (1, 2):
        written(tmp_path, f"{number}.json", task([choice("ab"[number - 1])], id=number))
    assert votes_of(tmp_path) == [(1, 0, "a")]  # annotations of different files with one id are one
    votes = Annotations.read(tmp_path, classes=["a", "b"])
    assert votes.items == (1, 2)
    assert votes.origin.startswith(f"2 files in {tmp_path}, certainly label-studio")


def test_label_studio_min():
    votes = Annotations.read(FILES / "label_studio_min.json")
    assert votes.items == (1, 2, 3, 4)
    assert votes.counts.tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert "1 listed again, 1 without a label" in votes.origin
    assert "ground truth cannot be told apart" in votes.origin


def test_label_studio_csv():
    votes = Annotations.read(FILES / "label_studio_min.csv")
    assert votes.items == (1, 2)
    assert votes.classes == (1, 4, 5)
    assert votes.ordered
    assert votes.workers == ("ann@example.org", "bob@example.org")


MARKS = {"annotation_id": 1, "created_at": None, "updated_at": None, "lead_time": 1.0}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "x", "id": 1, "a": "u", "b": "v", "annotator": 1, **MARKS}, r"could be any of \['a', 'b'\]"),
        ({"text": "x", "id": 1, "annotator": 1, **MARKS}, r"was not found among \['text', 'id', 'annotator'"),
        (
            {"id": 1, "box": [{"x": 1, "rectanglelabels": ["a"]}], "annotator": 1, **MARKS},
            r"question was not found among .*label=",
        ),
    ],
)
def test_label_studio_min_needs_one_question(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        Annotations.read(written(tmp_path, "min.json", [row]))


def test_label_studio_min_several_choices(tmp_path):
    rows = [{"id": 1, "q": {"choices": ["a", "b"]}, "annotator": {"id": 3, "email": "x"}, **MARKS}]
    rows += [{"id": 1, "q": "b", "annotator": 4, **MARKS, "annotation_id": 2}]
    path = written(tmp_path, "min.json", rows)
    with pytest.raises(ValueError, match=r"2 labels for one vote"):
        Annotations.read(path)
    assert votes_of(path, one_vs_rest="a") == [(1, 3, "a"), (1, 4, "not a")]
    assert votes_of(path, one_vs_rest="a", label="q") == [(1, 3, "a"), (1, 4, "not a")]


# --- doccano ---


def test_doccano_a_file_per_annotator(tmp_path):
    votes = Annotations.read(FILES / "doccano")
    assert votes.items == (7, 8, 9)
    assert votes.workers == ("ann", "bob")
    assert votes.classes == ("economy", "politics", "sport")
    assert votes.counts.tolist() == [[0, 0, 2], [1, 1, 0], [0, 0, 0]]
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for file in (FILES / "doccano").iterdir():
            archive.write(file, file.name)
        archive.writestr("__MACOSX/._ann.jsonl", "rubbish")
    assert Annotations.read(tmp_path / "export.zip") == votes
    assert Annotations.read(str(FILES / "doccano" / "[ab]*.jsonl")) == votes


def test_doccano_shared_labels(tmp_path):
    with pytest.raises(
        ValueError, match=r"task 8 the labels \['economy', 'politics'\] without saying who .*Share annotations"
    ):
        Annotations.read(FILES / "doccano_all.jsonl")
    assert Annotations.read(FILES / "doccano_all.jsonl", one_vs_rest="sport").counts.tolist() == [[0, 1], [1, 0]]
    lines = [{"id": 1, "text": "x", "label": ["a"]}, {"id": 2, "text": "y", "label": ["b"]}]
    shared = Annotations.read(written(tmp_path, "all.jsonl", lines))
    assert shared.workers is None
    assert shared.counts.tolist() == [[1, 0], [0, 1]]
    assert Annotations.read(written(tmp_path, "ann.jsonl", lines)).workers == ("ann",)


def test_doccano_of_old_makes():
    votes = Annotations.read(FILES / "doccano_old.jsonl")
    assert votes.classes == (2, 3)
    assert votes.workers == (1, 2)
    assert votes.counts.tolist() == [[1, 1], [0, 1], [0, 0]]


def test_doccano_csv_joins_labels(tmp_path):
    path = written(tmp_path, "ann.csv", "id,text,label,Comments\n1,x,a,\n2,y,a#b,\n3,z,,\n")
    assert votes_of(path, kind="doccano", one_vs_rest="b") == [("1", "ann", "not b"), ("2", "ann", "b")]


@pytest.mark.parametrize(
    "line",
    [
        {"id": 1, "text": "Peter", "label": [[0, 5, "PER"]]},
        {"id": 1, "text": "Peter", "annotations": [{"label": 1, "start_offset": 0, "end_offset": 5, "user": 1}]},
    ],
)
def test_doccano_spans_are_refused(tmp_path, line):
    path = written(tmp_path, "ann.jsonl", [line])
    with pytest.raises(FileFormatError, match="no kind that is recognised"):
        Annotations.read(path)
    with pytest.raises(FileFormatError, match="holds spans of text, not labels of documents"):
        Annotations.read(path, kind="doccano")


# --- Argilla ---


def test_argilla_flat():
    votes = Annotations.read(FILES / "argilla.jsonl")
    assert votes.items == ("r1", "r2", "r3")
    assert votes.counts.tolist() == [[1, 1], [1, 0], [0, 0]]
    assert votes.workers == ("u1", "u2")
    assert votes.origin.endswith("left out: 1 discarded, 1 draft")


def test_argilla_nested():
    with pytest.raises(ValueError, match=r"several questions, such as 'stars' and 'comment'"):
        Annotations.read(FILES / "argilla_records.json")
    votes = Annotations.read(FILES / "argilla_records.json", label="stars", ordered=True, classes=range(1, 6))
    assert votes.counts.tolist() == [[0, 0, 0, 1, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def response(user, value, status="submitted"):
    return {"user_id": user, "value": value, "status": status}


OLD = [
    {"external_id": "a", "q": [response("u1", "yes")], "q-suggestion": "no"},
    {"external_id": "b", "q": [response("u1", "no"), response("u2", "yes", "discarded")], "q-suggestion": None},
]


def test_argilla_before_version_two(tmp_path):
    """Feedback datasets: a list of objects in JSON, and an object of lists in Parquet written by older libraries."""
    rows = [("a", "u1", "yes"), ("b", "u1", "no")]
    assert votes_of(written(tmp_path, "old.jsonl", OLD)) == rows
    turned = [{**row, "q": {key: [r[key] for r in row["q"]] for key in row["q"][0]}} for row in OLD]
    pq.write_table(pa.Table.from_pylist(turned), tmp_path / "old.parquet")
    assert votes_of(tmp_path / "old.parquet") == rows
    pq.write_table(pa.Table.from_pylist(OLD), tmp_path / "list.parquet")
    assert votes_of(tmp_path / "list.parquet") == rows


def test_argilla_folder_with_settings(tmp_path):
    records = [json.loads(line) for line in (FILES / "argilla.jsonl").read_text(encoding="utf-8").splitlines()]
    (tmp_path / "data").mkdir()
    (tmp_path / ".argilla").mkdir()
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "data" / "train-00000-of-00001.parquet")
    written(tmp_path, "README.md", "# card")
    options = [{"value": name, "text": name, "description": None} for name in ("pos", "neg", "mixed")]
    settings = {"questions": [{"name": "label", "settings": {"type": "label_selection", "options": options}}]}
    written(tmp_path / ".argilla", "settings.json", settings)
    votes = Annotations.read(tmp_path)
    assert votes.classes == ("pos", "neg", "mixed")
    assert votes.counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    written(tmp_path / ".argilla", "settings.json", {"questions": [{}]})
    assert "settings.json could not be understood" in Annotations.read(tmp_path).origin
    rating = {
        "questions": [
            {"name": "label", "settings": {"type": "rating", "options": [{"value": "pos"}, {"value": "neg"}]}}
        ]
    }
    written(tmp_path / ".argilla", "settings.json", rating)
    assert Annotations.read(tmp_path).ordered


def test_argilla_answers_that_are_no_labels(tmp_path):
    ranking = [
        {
            "id": 1,
            "q.responses": [[{"rank": 1, "value": "a"}]],
            "q.responses.users": ["u"],
            "q.responses.status": ["submitted"],
        }
    ]
    with pytest.raises(FileFormatError, match=r"'q' asks for rankings or spans"):
        Annotations.read(written(tmp_path, "r.jsonl", ranking))
    several = [{"id": 1, "q.responses": [["a", "b"], []], "q.responses.users": ["u", None], "q.responses.status": None}]
    path = written(tmp_path, "s.jsonl", several)
    with pytest.raises(ValueError, match="2 labels for one vote"):
        Annotations.read(path)
    assert votes_of(path, one_vs_rest="a") == [(1, "u", "a"), (1, "unknown 1", "not a")]


# --- lists of labels ---


def test_lists():
    votes = Annotations.read(FILES / "lists.jsonl")
    assert votes.items == ("a", "b", "c", "d")
    assert votes.counts.tolist() == [[1, 2], [0, 0], [0, 0], [0, 1]]
    assert votes.origin.endswith("left out: 1 earlier by the same worker, 1 without a label")
    assert Annotations.read(FILES / "lists.jsonl", duplicates="keep").counts.tolist()[3] == [1, 1]


def test_lists_of_codes_with_names(tmp_path):
    """The Hugging Face library writes class names beside the codes; -1 means no label."""
    table = pa.table({"uid": [5, 6], "labels": [[0, 2, -1], [2]], "annotator_ids": [[1, 2, 3], [1]]})
    feature = {"feature": {"names": ["no", "maybe", "yes"], "_type": "ClassLabel"}, "_type": "Sequence"}
    noted = {"huggingface": json.dumps({"info": {"features": {"labels": feature}}})}
    pq.write_table(table.replace_schema_metadata(noted), tmp_path / "hf.parquet")
    votes = Annotations.read(tmp_path / "hf.parquet")
    assert votes.classes == ("no", "maybe", "yes")
    assert votes.counts.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert votes.items == (5, 6)
    with (
        pa.OSFile(str(tmp_path / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    plain = Annotations.read(tmp_path / "data-00000-of-00001.arrow")
    assert plain.classes == (-1, 0, 2)  # without the note, codes are codes


def test_lists_without_annotators(tmp_path):
    path = written(tmp_path, "l.jsonl", [{"id": 1, "answers": ["a", "b"]}, {"id": 2, "answers": None}])
    votes = Annotations.read(path, kind="lists")
    assert votes.workers is None
    assert votes.counts.tolist() == [[1, 1], [0, 0]]
    named = Annotations.read(path, kind="lists", label="answers", task="id")
    assert named == votes


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"id": 1, "labels": ["a"], "annotators": ["x", "y"]}, {}, r"task 1 has 1 labels, but 2 annotators"),
        ({"id": 1, "labels": "a"}, {"label": "labels"}, r"'labels' must hold lists, but holds 'a'"),
        ({"id": 1, "x": ["a"]}, {}, r"no column of lists was found among \['id', 'x'\]"),
    ],
)
def test_lists_refused(tmp_path, row, options, message):
    with pytest.raises(ValueError, match=message):
        Annotations.read(written(tmp_path, "l.jsonl", [row]), kind="lists", **options)


# --- Prodigy ---


def test_prodigy_choices():
    votes = Annotations.read(FILES / "prodigy.jsonl")
    assert votes.classes == ("SPORT", "POLITICS", "OTHER")  # the options in their order, whether chosen or not
    assert votes.items == (101, 102, 103)
    assert votes.counts.tolist() == [
        [1, 1, 0],
        [0, 1, 0],
        [0, 0, 0],
    ]  # 102: the later answer, though earlier in the file
    assert votes.origin.endswith("left out: 1 earlier by the same worker, 1 ignored, 1 rejected, 1 without a label")
    assert Annotations.read(FILES / "prodigy.jsonl", task="text").items == ("Tor! ⚽", "Wahl", "???")


def test_prodigy_an_empty_choice_is_an_answer_to_a_question():
    rows = votes_of(FILES / "prodigy.jsonl", one_vs_rest="SPORT")
    assert rows[-1] == (103, "news-ann", "not SPORT")


def test_prodigy_yes_or_no(tmp_path):
    votes = Annotations.read(FILES / "prodigy_binary.jsonl")
    assert votes.classes == ("not SPORT", "SPORT")
    assert votes.counts.tolist() == [[1, 1], [1, 0], [0, 0]]
    assert "sessions have no names" in votes.origin
    assert Annotations.read(FILES / "prodigy_binary.jsonl", one_vs_rest="SPORT") == votes
    lines = [json.loads(line) for line in (FILES / "prodigy_binary.jsonl").read_text(encoding="utf-8").splitlines()]
    path = written(tmp_path, "two.jsonl", [*lines, {**lines[0], "label": "POLITICS", "answer": "reject"}])
    with pytest.raises(ValueError, match=r"several labels, such as 'SPORT' and 'POLITICS'.*one_vs_rest='SPORT'"):
        Annotations.read(path)
    assert Annotations.read(path, one_vs_rest="SPORT") == votes


def test_prodigy_odd_lines(tmp_path):
    base = {"_input_hash": 1, "answer": "accept"}
    path = written(
        tmp_path, "p.jsonl", [{**base, "accept": ["a"]}, {**base, "accept": ["b"]}, {**base, "answer": None}]
    )
    assert votes_of(path) == [(1, "unknown 1", "a"), (1, "unknown 2", "b")]  # without sessions, each line is a vote
    spans = written(tmp_path, "ner.jsonl", [{**base, "text": "x", "spans": []}])
    with pytest.raises(FileFormatError, match=r"line 1 has neither options nor a label"):
        Annotations.read(spans)
    several = written(tmp_path, "m.jsonl", [{**base, "accept": ["a", "b"], "_session_id": "s"}])
    with pytest.raises(ValueError, match=r"the vote by 's' on task 1 holds 2 labels"):
        Annotations.read(several)


# --- LeWiDi ---


def test_lewidi_second_edition():
    votes = Annotations.read(FILES / "lewidi_2023.json")
    assert votes.items == ("1", "2", "3")
    assert votes.classes == (0, 1)
    assert not votes.ordered
    assert votes.counts.tolist() == [[1, 2], [3, 0], [0, 0]]
    assert votes.workers == ("Ann1", "Ann2", "Ann3")


def test_lewidi_third_edition_keeps_unused_levels():
    votes = Annotations.read(FILES / "lewidi_2025.json")
    assert votes.classes == (0, 1, 2, 3, 4, 5, 6)
    assert votes.positions == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert votes.counts.tolist() == [[0, 0, 2, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1]]


def test_lewidi_scales_that_the_soft_label_hides(tmp_path):
    item = {"annotations": "-3,0,1", "annotators": "Ann1,Ann2,Ann3", "soft_label": {"0.0": 0.67, "1.0": 0.33}}
    votes = Annotations.read(written(tmp_path, "convabuse.json", {"7": item}))
    assert votes.positions == (-3.0, 0.0, 1.0)
    two = {**item, "annotations": "0,0,1", "soft_label": {"0": 0.67, "1": 0.33}}
    assert not Annotations.read(
        written(tmp_path, "mp.json", {"7": item | two, "8": {**two, "soft_label": {"0.0": 1}}})
    ).ordered


def test_lewidi_several_labels():
    with pytest.raises(
        ValueError, match=r"vote by 'Ann2' on task '138448' holds 2 labels.*one_vs_rest='contradiction'"
    ):
        Annotations.read(FILES / "lewidi_several.json")
    assert Annotations.read(FILES / "lewidi_several.json", one_vs_rest="neutral").counts.tolist() == [[1, 2]]


def test_lewidi_likert_scale_below_zero(tmp_path):
    item = {
        "annotations": {"Ann1": "-3", "Ann2": "0"},
        "annotators": "Ann1,Ann2",
        "soft_label": {str(k): 0 for k in range(-5, 6)},
    }
    votes = Annotations.read(written(tmp_path, "p.json", {"7": item}))
    assert votes.positions == tuple(map(float, range(-5, 6)))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            {"annotations": "0,1", "annotators": "Ann1", "soft_label": {}},
            r"item '7' has 2 annotations, but 1 annotators",
        ),
        ({"annotators": "Ann1", "soft_label": {}}, r"item '7' has no annotations"),
    ],
)
def test_lewidi_refused(tmp_path, item, message):
    with pytest.raises(FileFormatError, match=message):
        Annotations.read(written(tmp_path, "p.json", {"7": item}), kind="lewidi")


# --- tables ---


def test_crowd_kit():
    votes = Annotations.read(FILES / "crowd_kit.csv")
    assert votes.classes == ("cat", "cat, or dog", "dog")
    assert votes.counts.tolist() == [[1, 0, 1], [0, 0, 1], [0, 1, 0]]
    old = Annotations.read(FILES / "crowd_kit_old.tsv")
    assert old.classes == (0, 1)
    assert old.workers == ("w1", "w2")


def test_crowd_kit_odd_tables(tmp_path):
    pairs = written(tmp_path, "pairs.csv", "task,worker,label,left,right\n1,a,x,x,y\n")
    with pytest.raises(ValueError, match=r"compares pairs"):
        Annotations.read(pairs)
    holes = written(tmp_path, "holes.csv", "task,worker,label\n1,a,x\n1,b,\n2,a,y\n3,b,\n")
    with pytest.raises(ValueError, match=r"label column has 2 value\(s\) that are missing .* row 1"):
        Annotations.read(holes)
    kept = Annotations.read(holes, missing="drop")
    assert kept.counts.tolist() == [[1, 0], [0, 1], [0, 0]]
    with pytest.raises(
        ValueError, match=r"holes.csv has 2 votes without task, worker or label \(in rows 1, 3; .* leave them out"
    ):
        votes_of(holes)
    assert len(votes_of(holes, missing="drop")) == 2
    nobody = written(tmp_path, "nobody.csv", "task,worker,label\n1,a,x\n1,,y\n,b,y\n")
    with pytest.raises(ValueError, match=r"nobody.csv has 2 votes without task, worker or label \(in rows 1, 2;"):
        votes_of(nobody)
    assert votes_of(nobody, missing="drop") == [("1", "a", "x")]
    long = written(tmp_path, "long.csv", "task,worker,label\n" + "1,a,x\n" * BATCH + "1,a,\n" * 31)
    with pytest.raises(ValueError, match=rf"31 votes .* \(in rows {BATCH}, .*{BATCH + 4}, …; the first is 0\)"):
        votes_of(long)


def test_long_table_of_mechanical_turk():
    votes = Annotations.read(FILES / "long.csv")
    assert votes.items == ("3A0", "3B1")
    assert votes.counts.tolist() == [[1, 1], [0, 1]]  # the later vote of A1 stands first in the file
    assert votes.origin.endswith(
        "task from 'HITId', worker from 'WorkerId', label from 'Answer.sentiment', time from 'SubmitTime'; "
        "left out: 1 earlier by the same worker"
    )


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_long_tables_of_every_format(tmp_path, format):
    rows = [("a", "ann", 1, 0.5), ("a", "bob", 2, 1.0), ("b", "ann", 2, 0.25)]
    records = [dict(zip(("Dokument", "Wer", "Urteil", "Gewicht"), row, strict=True)) for row in rows]
    path = tmp_path / f"votes.{format}"
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif format in ("csv", "tsv"):
        split = "," if format == "csv" else "\t"
        lines = [split.join(records[0]), *(split.join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        written(tmp_path, path.name, records)
    with pytest.raises(FileFormatError, match=r"Dokument.*Name the kind.*task="):
        Annotations.read(path)
    names = {"kind": "long", "task": "Dokument", "worker": "Wer", "label": "Urteil"}
    votes = Annotations.read(path, **names)
    assert (votes.items, votes.classes) == (("a", "b"), (1, 2))
    assert votes.counts.tolist() == [[1, 1], [0, 1]]
    weighted = Annotations.read(path, **names, weight="Gewicht", classes=[1, 2, 3], ordered=True)
    assert weighted.weights.tolist() == [[0.5, 1.0, 0.0], [0.0, 0.25, 0.0]]
    assert weighted.positions == (1.0, 2.0, 3.0)
    texts = Annotations.read(path, **names, classes=["1", "2"])
    assert texts.classes == ("1", "2")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id,answer,response", {}, r"'answer' and 'response' could all be the label. Say which: label='answer'"),
        ("a,b,c", {}, r"None of the columns \['a', 'b', 'c'\] is known to be the task"),
        ("id,b,c", {}, r"None of the columns .* is known to be the label"),
        ("id,label", {"worker": "who"}, r"worker='who' is no column; there are \['id', 'label'\]"),
        ("item,unit,label", {}, r"'item' and 'unit' could all be the task"),
    ],
)
def test_columns_that_stay_open(tmp_path, columns, options, message):
    path = written(tmp_path, "t.csv", columns + "\n" + ",".join("1" * len(columns.split(","))) + "\n")
    with pytest.raises(ValueError, match=f"t.csv: {message}"):
        Annotations.read(path, kind="long", **options)


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("INPUT:image\tOUTPUT:result\tASSIGNMENT:task_id\tASSIGNMENT:worker_id", "task_id worker_id result"),  # Toloka
        ("_unit_id\t_worker_id\t_created_at\tsentiment", "unit_id worker_id sentiment created_at"),  # Appen
        ("Item ID\tRater\tScore", "ID Rater Score"),
        ("doc\tsubmitted_at\tcategory", "doc category submitted_at"),
    ],
)
def test_column_names_of_other_platforms(tmp_path, header, roles):
    path = written(tmp_path, "t.tsv", header + "\n" + "\t".join("1" * len(header.split("\t"))) + "\n")
    votes = open_votes(path)
    assert votes.kind == "long"
    list(votes.batches())
    assert all(part in note for part, note in zip(roles.split(), votes.log.notes[0].split(", "), strict=True))


def test_the_only_column_left_is_the_label(tmp_path):
    path = written(tmp_path, "t.csv", "uid,rater,Stimmung\nx,1,gut\nx,2,schlecht\n")
    assert Annotations.read(path).classes == ("gut", "schlecht")


def test_guessed_times_that_make_no_sense(tmp_path):
    path = written(tmp_path, "t.csv", "task,worker,label,date\n1,a,x,May 1st\n1,a,y,April 1st\n1,b,x,\n")
    votes = Annotations.read(path)
    assert votes.counts.tolist() == [[1, 1]]
    assert "times were not understood" in votes.origin
    with pytest.raises(ValueError, match="time must hold numbers"):
        Annotations.read(path, time="date")


def test_long_table_of_objects(tmp_path):
    path = written(tmp_path, "t.jsonl", [{"task": 1, "worker": 2, "label": {"a": 1}}])
    with pytest.raises(FileFormatError, match="column 'label' holds objects"):
        Annotations.read(path, kind="long")
    named = written(tmp_path, "u.jsonl", [{"task": [1], "worker": 2, "label": "a"}])
    with pytest.raises(TypeError, match=r"u.jsonl: a task cannot be named by unhashable type: 'list'"):
        Annotations.read(named, kind="long")


def test_nan_in_parquet_is_missing(tmp_path):
    pq.write_table(pa.table({"task": [1, 1], "worker": [1, 2], "label": [1.0, float("nan")]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="missing"):
        Annotations.read(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="without task, worker or label"):
        votes_of(tmp_path / "t.parquet")
    assert votes_of(tmp_path / "t.parquet", missing="drop") == [(1, 1, 1.0)]
    votes = Annotations.read(tmp_path / "t.parquet", missing="drop", classes=[0, 1])
    assert votes.counts.tolist() == [[0, 1]]


def test_tasks_without_votes_have_a_say_in_their_type(tmp_path):
    path = written(tmp_path, "t.csv", "task,worker,label\n1,a,x\n2,a,y\nx7,a,\n")
    assert Annotations.read(path, missing="drop").items == ("1", "2", "x7")


def test_a_question_about_a_number(tmp_path):
    path = written(tmp_path, "t.jsonl", [{"task": 1, "worker": w, "label": x} for w, x in enumerate([3, 4, 3])])
    votes = Annotations.read(path, one_vs_rest=3)
    assert votes.classes == ("not 3", 3)
    assert votes.counts.tolist() == [[1, 2]]
    assert [str(batch["label"].to_pylist()) for batch in open_votes(path, one_vs_rest=3).record_batches()] == [
        "['3', 'not 3', '3']"
    ]


def test_wide_table():
    votes = Annotations.read(FILES / "wide.csv")
    assert votes.items == (7, 8, 9, 10)
    assert votes.workers == ("Ann", "Bob", "Çelik")
    assert votes.counts.tolist() == [[2, 0], [0, 2], [0, 0], [1, 2]]
    two = Annotations.read(FILES / "wide.csv", worker=["Ann", "Bob"])
    assert two.counts.tolist() == [[2, 0], [0, 1], [0, 0], [1, 1]]
    by_text = Annotations.read(FILES / "wide.csv", task="text", worker=["Ann", "Bob"])
    assert by_text.items[1] == "Wuff 🐶"


def test_wide_table_of_codes(tmp_path):
    votes = Annotations.read(FILES / "wide_codes.tsv", empty=["", "-1"])
    assert votes.items == ("a", "b", "c")
    assert votes.classes == (0, 1, 2)
    assert votes.counts.tolist() == [[1, 1, 0], [0, 0, 2], [1, 0, 0]]
    table = pa.table({"item": ["a", "b"], "rater 1": [0.0, float("nan")], "rater 2": [-1.0, 2.0]})
    pq.write_table(table, tmp_path / "w.parquet")
    assert Annotations.read(tmp_path / "w.parquet", empty=["-1"], classes=[0, 1, 2]).counts.tolist() == [
        [1, 0, 0],
        [0, 0, 1],
    ]


def test_wide_table_refused(tmp_path):
    path = written(tmp_path, "w.csv", "id,a,b\n1,x,y\n2,y,x\n")
    with pytest.raises(ValueError, match=r"no column 'c', only \['id', 'a', 'b'\]"):
        Annotations.read(path, kind="wide", worker=["a", "c"])
    with pytest.raises(ValueError, match=r"no column 'nr'"):
        Annotations.read(path, kind="wide", task="nr")
    with pytest.raises(FileFormatError, match="no kind that is recognised"):
        Annotations.read(written(tmp_path, "counts.csv", "id,cat,dog\n1,3,0\n2,0,3\n"))  # counts, not votes


def test_wide_and_long_agree(tmp_path):
    long = written(tmp_path, "long.csv", "id,who,label\n1,Ann,a\n1,Bob,b\n2,Bob,b\n")
    wide = written(tmp_path, "wide.csv", "id,Ann,Bob\n1,a,b\n2,,b\n")
    assert Annotations.read(long, worker="who") == Annotations.read(wide, kind="wide")
