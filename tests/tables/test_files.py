"""Tables in files: every format there and back, a batch at a time, and nothing half-written."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import credalset as cs

pa = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

from credalset.tables.files import kind_of, read_table, table_writer  # noqa: E402

ROWS = {"task": ["007", 'é,\n"x"', "c"], "p": [0.25, 1.0, 0.0], "labels": [["a", "b"], [], ["b"]]}
FILES = [
    "x.csv",
    "x.tsv",
    "x.jsonl",
    "x.parquet",
    "x.csv.gz",
    "x.tsv.zst",
    "x.jsonl.gz",
    "x.ndjson.zst",
    "x.parquet.gz",
]


def batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(ROWS)


def write(path: Path, times: int = 1) -> None:
    with table_writer(str(path), batch().schema) as put:
        for _ in range(times):
            put(batch())


@pytest.mark.parametrize("name", FILES)
def test_there_and_back(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, times=3)
    table = read_table(str(tmp_path / name), text=["task"])
    found = pa.Table.from_batches(list(table.batches)).to_pydict()
    assert found["task"] == ROWS["task"] * 3
    assert found["p"] == ROWS["p"] * 3
    joined = ["a|b", "", "b"] if "sv" in name else ROWS["labels"]
    assert [x or "" for x in found["labels"]] == joined * 3 if "sv" in name else found["labels"] == joined * 3
    assert os.listdir(tmp_path) == [name]


def test_folders_and_patterns_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_hidden.csv", "notes.txt"):
        (tmp_path / name).write_text(f"task,p\n{name},1\n")
    for path in (str(tmp_path), str(tmp_path / "[ab].csv")):
        found = [x for part in read_table(path).batches for x in part.column("task").to_pylist()]
        assert found == ["a.csv", "b.csv"]


def test_two_suffixes_of_one_format(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.pq"):
        write(tmp_path / name)
    (tmp_path / "made.json").write_text("{}")
    assert sum(part.num_rows for part in read_table(str(tmp_path)).batches) == 6


def test_files_of_one_table_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,p\nx,1\n")
    (tmp_path / "b.csv").write_text("task,q\nx,1\n")
    with pytest.raises(ValueError, match=r"b\.csv has the columns"):
        list(read_table(str(tmp_path)).batches)


def test_batches_are_bounded(tmp_path: Path) -> None:
    for name in ("x.csv", "x.jsonl", "x.parquet"):
        write(tmp_path / name, times=50)
        sizes = [part.num_rows for part in read_table(str(tmp_path / name), batch_rows=40).batches]
        assert max(sizes) <= 40
        assert sum(sizes) == 150


def test_standard_streams(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with table_writer("-", batch().schema, "csv") as put:
        put(batch())
    printed = capfdbinary.readouterr().out
    assert printed.startswith(b'"task","p","labels"')

    class Stdin:
        buffer = io.BytesIO(printed)

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert sum(part.num_rows for part in read_table("-", "csv").batches) == 3


def fail_half_way(path: Path) -> None:
    with table_writer(str(path), batch().schema) as put:
        put(batch())
        raise RuntimeError("half-way")


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    for name in ("x.csv", "x.jsonl.gz", "x.parquet"):
        (tmp_path / name).write_bytes(b"before")
        with pytest.raises(RuntimeError, match="half-way"):
            fail_half_way(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"before"
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"", "is empty"),
        ("x.jsonl", b"", "is empty"),
        ("x.parquet", b"", "is not a readable parquet file: Parquet file size is 0 bytes"),
        ("x.jsonl", b'{"task": \n', "is not a readable jsonl file"),
        ("x.parquet", b"PAR1 and then nothing", "is not a readable parquet file"),
        ("x.csv", b"a,b\n1,2\n3\n", "is not a readable csv file: .*[Ee]xpected 2 columns"),
        ("x.csv.gz", b"not gzip at all", "is not a readable csv file"),
        ("x.xlsx", b"whatever", "its format is not known"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_table(str(tmp_path / name)).batches)


def test_truncated_parquet(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": list(range(10000))}), tmp_path / "x.parquet")
    whole = (tmp_path / "x.parquet").read_bytes()
    (tmp_path / "x.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"x\.parquet is not a readable parquet file"):
        list(read_table(str(tmp_path / "x.parquet")).batches)


def test_missing_files_and_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_table(str(tmp_path / "nothing.csv"))
    with pytest.raises(ValueError, match="is no format"):
        kind_of("x.csv", "excel")


@pytest.mark.parametrize(
    ("mark", "quarter"), [(";", "0,25"), (";", "0.25"), ("\t", "0.25"), ("|", ".25")], ids=["; ,", "; .", "tab", "bar"]
)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_the_csv_of_spreadsheets_in_half_the_world(tmp_path: Path, mark: str, quarter: str, suffix: str) -> None:
    text = "task;a;b\nt1;X;X\n".replace(";", mark).replace("X", quarter).encode()
    path = tmp_path / f"p.{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == "csv.gz" else text)
    (batch,) = read_table(str(path), text=["task"]).batches
    assert batch.to_pylist() == [{"task": "t1", "a": 0.25, "b": 0.25}]


def test_semicolons_inside_fields_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('task,a,text\nt1,0.5,"1,5; 2; 3; 4"\n')
    (batch,) = read_table(str(tmp_path / "p.csv"), text=["task"]).batches
    assert batch.to_pylist() == [{"task": "t1", "a": 0.5, "text": "1,5; 2; 3; 4"}]


@pytest.mark.parametrize(
    ("early", "late"),
    [("1", "0.5"), ("0.5", "1"), ("[1, 0]", "[0.5, 0.5]"), ("null", "0.5"), ('"2024-01-01"', '"soon"')],
)
def test_json_lines_may_change_their_type_after_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: str, late: str
) -> None:
    monkeypatch.setattr("credalset.tables.files.BLOCK", 64)
    rows = [f'{{"task": "2024-01-{day:02}", "x": {early if day < 7 else late}}}' for day in range(1, 13)]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    table = read_table(str(tmp_path / "x.jsonl"), text=["task"])
    found = [row for batch in table.batches for row in batch.to_pylist()]
    assert [row["task"] for row in found] == [f"2024-01-{day:02}" for day in range(1, 13)], "names, no dates"
    assert found[-1]["x"] == json.loads(late)
    assert len(found) == 12


def test_columns_to_keep_whose_type_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty so far, then words: they are kept. Numbers, then others: a sentence, not a traceback."""
    made = cs.conformalize(np.full((50, 2), 0.5), np.full((50, 2), 2), classes=["a", "b"])
    monkeypatch.setattr("credalset.tables.files.BLOCK", 64)
    rows = [{"task": f"t{i}", "a": 0.5, "b": 0.5} for i in range(8)]
    for first, then, kept in ((None, "words", True), (1, 0.5, False)):
        lines = [json.dumps(row | {"note": first if i < 4 else then}) for i, row in enumerate(rows)]
        (tmp_path / "new.jsonl").write_text("\n".join(lines))
        table = read_table(str(tmp_path / "new.jsonl"))
        scorer = cs.Scorer(made, ask=["width"], keep=["note"]).for_input(table.schema)
        if kept:
            found = [note for batch in scorer.map_batches(table.batches) for note in batch.to_pydict()["note"]]
            assert found == [None] * 4 + ["words"] * 4
        else:
            with pytest.raises(ValueError, match="column 'note' changes its type on the way, from int64 to double"):
                list(scorer.map_batches(table.batches))


def test_groups_that_nobody_calibrated_are_told_once() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([1, 1], 200)
    made = cs.conformalize(truth, rng.multinomial(5, truth), groups=["en", "de"] * 100, classes=["a", "b"])
    batch = pa.RecordBatch.from_pydict({"task": ["x"], "a": [0.5], "b": [0.5], "lang": ["EN"]})
    scorer = cs.Scorer(made, groups="lang", ask=["width"])
    with pytest.warns(
        cs.CredalSetWarning, match="no calibration item has the group 'EN'; there are 'en', 'de'"
    ) as told:
        list(scorer.map_batches([batch, batch]))
    assert len(told) == 1
