"""One road for files: the same table in every format, encoding and compression;
bad files get a sentence.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import threading
import time
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

pa = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

import credalset as cs  # noqa: E402
from credalset._files import quote_formula  # noqa: E402
from credalset.exceptions import FileFormatError  # noqa: E402
from credalset.io import files  # noqa: E402
from credalset.io.items import (  # noqa: E402
    Records,
    find_id,
    read_items,
    select_features,
    select_predictions,
    select_texts,
)
from credalset.io.tables import read_records, read_table, table_writer, write_table  # noqa: E402
from credalset.votes.files import read_vote_table  # noqa: E402
from tests.io.children import memory_of_reading  # noqa: E402

ROWS = [
    ("007", 0.25, 0.75),
    ("1.10", 0.5, 0.5),
    ("1.1", 1.0, 0.0),
    ("NA", 0.125, 0.875),
    ("naïve", 0.0, 1.0),
]
COMMAS = [(task, str(yes).replace(".", ","), str(no).replace(".", ",")) for task, yes, no in ROWS]
CSV = "task,yes,no\n" + "".join(f"{task},{yes},{no}\n" for task, yes, no in ROWS)
JSONL = "".join(f'{{"task": "{task}", "yes": {yes}, "no": {no}}}\n' for task, yes, no in ROWS)
NESTED = "".join(
    f'{{"task": "{t}", "probs": {{"yes": {yes}, "no": {no}}}}}\n' for t, yes, no in ROWS
)


def frame() -> Any:
    return pa.table(
        {"task": [r[0] for r in ROWS], "yes": [r[1] for r in ROWS], "no": [r[2] for r in ROWS]}
    )


def parquet_bytes(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


FILES: dict[str, bytes] = {
    "a.csv": CSV.encode(),
    "utf8-bom.csv": b"\xef\xbb\xbf" + CSV.encode(),
    "utf16.csv": CSV.encode("utf-16"),
    "utf16.jsonl": JSONL.encode("utf-16"),
    "semicolons.csv": CSV.replace(",", ";").encode(),
    "decimal-commas.csv": (
        "task;yes;no\n" + "".join(f"{t};{y};{n}\n" for t, y, n in COMMAS)
    ).encode(),
    "tabs.csv": CSV.replace(",", "\t").encode(),
    "a.tsv": CSV.replace(",", "\t").encode(),
    "quoted.csv": CSV.replace("naïve", '"naïve"').replace("\n", "\r\n").encode(),
    "a.csv.gz": gzip.compress(CSV.encode()),
    "a.csv.bz2": bz2.compress(CSV.encode()),
    "a.csv.xz": lzma.compress(CSV.encode()),
    "a.jsonl": JSONL.encode(),
    "a.jsonl.bz2": bz2.compress(JSONL.encode()),
    "a.json": f"[{JSONL.strip().replace(chr(10), ',' + chr(10))}]".encode(),
    "lines.json": JSONL.encode(),
    "pretty.json": json.dumps(
        [dict(zip(("task", "yes", "no"), row, strict=True)) for row in ROWS], indent=2
    ).encode(),
    "nested.jsonl": NESTED.encode(),
    "lists.jsonl": "".join(f'{{"task": "{t}", "p": [{y}, {n}]}}\n' for t, y, n in ROWS).encode(),
    "a.parquet": parquet_bytes(frame()),
    "a.parquet.gz": gzip.compress(parquet_bytes(frame())),
    "nested.parquet": parquet_bytes(
        pa.table({"task": [r[0] for r in ROWS], "probs": [{"yes": r[1], "no": r[2]} for r in ROWS]})
    ),
    "lists.parquet": parquet_bytes(
        pa.table({"task": [r[0] for r in ROWS], "p": [list(r[1:]) for r in ROWS]})
    ),
    "no-suffix": CSV.encode(),
    "json-no-suffix": JSONL.encode(),
}


def read(path: Any) -> tuple[list[str | None], np.ndarray]:
    table = read_table(path)
    found = select_predictions(table.schema, ["task"], classes=["yes", "no"])
    batches = [Records(batch, (), str(path)) for batch in table.batches]
    items = [item for batch in batches for item in batch.texts("task")]
    return items, np.concatenate([batch.numbers(found.columns) for batch in batches])


@pytest.mark.parametrize("name", FILES)
def test_the_same_table_in_every_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    items, values = read(tmp_path / name)
    assert items == [row[0] for row in ROWS]
    assert values.tolist() == [list(row[1:]) for row in ROWS]


@pytest.mark.parametrize(
    "name", ["a.csv", "utf16.csv", "a.csv.bz2", "semicolons.csv", "a.jsonl", "pretty.json"]
)
def test_the_same_file_as_votes(name: str, tmp_path: Path) -> None:
    """Worker ids and labels are texts, also "1.1" and "1.10"; NA is a name."""
    votes = [("1.1", "07", "1.0"), ("1.10", "7", "1"), ("1.10", "NA", "NA")]
    rows = [dict(zip(("task", "worker", "label"), row, strict=True)) for row in votes]
    text = "task,worker,label\n" + "".join(f"{','.join(row)}\n" for row in votes)
    text = text.replace(",", ";") if "semi" in name else text
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    contents = (
        json.dumps(rows) if name.endswith(".json") else lines if name.endswith(".jsonl") else text
    )
    data = contents.encode("utf-16" if "16" in name else "utf-8")
    (tmp_path / name).write_bytes(bz2.compress(data) if name.endswith("bz2") else data)
    found = cs.Annotations.read(tmp_path / name)
    assert found.items == ("1.1", "1.10")
    assert set(found.classes or ()) == {"1.0", "1", "NA"}
    assert found.workers == ("07", "7", "NA")


def test_numbers_in_json_keep_their_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"task": 1.10, "yes": 1}\n{"task": 1.1, "yes": 1e-3}\n{"task": 100.0, "yes": 0}\n'
    )
    assert [
        row["task"]
        for batch in read_table(tmp_path / "a.jsonl").batches
        for row in batch.to_pylist()
    ] == [
        "1.10",
        "1.1",
        "100.0",
    ]


@pytest.mark.parametrize("start", [b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf\n"])
def test_ids_after_blank_lines_are_texts(start: bytes, tmp_path: Path) -> None:
    for name, mark in (("a.csv", ","), ("a.tsv", "\t")):
        lines = (f"{item}{mark}0.5{mark}0.5" for item in ("1.1", "1.10", "007"))
        (tmp_path / name).write_bytes(
            start + "\n".join([mark.join(("task", "yes", "no")), *lines]).encode()
        )
        assert read(tmp_path / name)[0] == ["1.1", "1.10", "007"]


def test_a_header_beyond_the_first_bytes_is_refused(tmp_path: Path) -> None:
    """Its names were cut, so that ids in these columns became numbers."""
    (tmp_path / "a.csv").write_text(f'x,"\n{"name" * 20_000}",task\n1,1,1.10\n')
    with pytest.raises(FileFormatError, match=r"a\.csv cannot be read: its header"):
        read_table(tmp_path / "a.csv")


def test_numbers_in_parquet_have_one_text(tmp_path: Path) -> None:
    """An item was 1.0 where votes are imported, and 1 for the other commands."""
    ids = pa.array([1.0, 2.5, None])
    parquet.write_table(
        pa.table({"task": ids, "worker": ["a"] * 3, "label": ["x", "y", "x"]}),
        tmp_path / "a.parquet",
    )
    assert (
        cs.Annotations.read(tmp_path / "a.parquet").items
        == read_vote_table(tmp_path / "a.parquet").items
        == ("1.0", "2.5")
    )
    assert Records(next(read_table(tmp_path / "a.parquet").batches), (), "").texts("task") == [
        "1.0",
        "2.5",
        None,
    ]


def test_other_encodings_are_named(tmp_path: Path) -> None:
    for text, name in ((CSV, "a.csv"), (JSONL, "a.jsonl")):
        (tmp_path / name).write_bytes(text.encode("cp1252"))
        with pytest.raises(FileFormatError, match="cp1252"):
            read(tmp_path / name)
        ((_, rows),) = read_records(tmp_path / name, encoding="cp1252").files
        assert rows[-1]["task"] == "naïve"
        with pytest.raises(ValueError, match="'klingon' is unknown"):
            read_records(tmp_path / name, encoding="klingon")


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    for data in (CSV.encode(), gzip.compress(JSONL.encode()), parquet_bytes(frame())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert read("-")[0] == [row[0] for row in ROWS]
    with table_writer("-", frame().schema) as write:
        write(frame().to_batches()[0])
    assert capfdbinary.readouterr().out.startswith(b'"task","yes","no"\n"007",0.25,0.75\n')


def test_no_thread_of_arrow_reads_a_file_by_python_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one does while the program ends, Python aborts the process: exit code 134."""
    monkeypatch.setattr("credalset.io.tables.BLOCK", 1 << 12)
    rows = "".join(f"naïve {i},0.5,0.5\n" for i in range(20_000))
    for name, start in (("a.csv", ""), ("bom.csv", "\ufeff")):
        (tmp_path / name).write_text(f"{start}task,yes,no\n{rows}", encoding="utf-8")
        readers = set()
        read = files._Joined.readinto

        def watch(self: Any, buffer: Any, read: Any = read, readers: Any = readers) -> Any:
            readers.add(threading.get_ident())
            return read(self, buffer)

        with monkeypatch.context() as patch:
            patch.setattr(files._Joined, "readinto", watch)
            table = read_table(tmp_path / name)
            assert sum(batch.num_rows for batch in table.batches) == 20_000
        assert table.schema.names == ["task", "yes", "no"]
        assert readers == {threading.get_ident()}


# --- several files ---


def test_a_folder_of_several_formats_is_read_whole(tmp_path: Path) -> None:
    """A folder with .csv and .parquet lost half of its rows without a word."""
    for name in ("a.csv", "a.parquet", "a.jsonl.bz2"):
        (tmp_path / name).write_bytes(FILES[name])
    (tmp_path / "columns-in-another-order.csv").write_text("no,task,yes\n0.5,x,0.5\n")
    (tmp_path / "_hidden.csv").write_text("a\n1\n")
    (tmp_path / "README.md").write_text("words")
    items, values = read(tmp_path)
    assert len(items) == 3 * len(ROWS) + 1
    assert values.sum() == len(items)
    assert len(read(str(tmp_path / "*.parquet"))[0]) == len(ROWS)
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("one.csv", CSV)
    assert len(read(tmp_path)[0]) == 4 * len(ROWS) + 1, "an archive was skipped without a word"
    (tmp_path / "other.csv").write_text("task,yes,maybe\nx,0.5,0.5\n")
    with pytest.raises(ValueError, match=r"differ in columns \('maybe', 'no'\)"):
        read(tmp_path)


def test_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inside/one.csv", CSV)
        archive.writestr("two.jsonl", JSONL)
        archive.writestr("__MACOSX/one.csv", "x")
    assert len(read(tmp_path / "a.zip")[0]) == 2 * len(ROWS)
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    with pytest.raises(FileFormatError, match="Excel"):
        read(tmp_path / "book.xlsx")


# --- what is hard to read ---


def test_whole_numbers_first_and_decimals_later(tmp_path: Path) -> None:
    """The first megabyte does not decide."""
    with (tmp_path / "a.csv").open("w") as stream:
        stream.write("task,yes,no\n")
        stream.writelines(f"t{i},1,0\n" for i in range(300_000))
        stream.write("last,0.25,0.75\n")
    items, values = read(tmp_path / "a.csv")
    assert len(items) == 300_001
    assert values[-1].tolist() == [0.25, 0.75]


def test_ten_thousand_columns(tmp_path: Path) -> None:
    """24 s, as names were looked up one by one."""
    names = [f"class {k}" for k in range(10_000)]
    row = ",".join(["t", *["0.0001"] * 10_000])
    (tmp_path / "a.csv").write_text(",".join(["task", *names]) + "\n" + f"{row}\n" * 5)
    start = time.process_time()
    table = read_table(tmp_path / "a.csv")
    found = select_predictions(table.schema, ["task"], classes=names)
    assert Records(next(table.batches), found.columns, "a.csv").numbers(found.columns).shape == (
        5,
        10_000,
    )
    words = ",".join(["t", *["0.0001", "word"] * 10_000])
    (tmp_path / "b.csv").write_text(",".join(["task", *map(str, range(20_000))]) + f"\n{words}\n")
    assert read_items(str(tmp_path / "b.csv"), select_features).values.shape == (1, 10_000)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_memory_does_not_grow_with_rows(name: str, tmp_path: Path) -> None:
    n = 3_000 if name == "a.jsonl" else 40_000
    few, many = (memory_of_reading(tmp_path / name, rows) for rows in (n, 4 * n))
    assert many < 1.3 * few


def test_texts_with_newlines_and_quotes(tmp_path: Path) -> None:
    text = 'two\nlines, with "quotes"; and ; more'
    schema = pa.schema([("task", pa.string()), ("text", pa.string())])
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.csv.zst", "a.parquet"):
        with table_writer(tmp_path / name, schema) as write:
            write(
                pa.RecordBatch.from_pylist(
                    [{"task": "007", "text": text}, {"task": "x", "text": None}], schema
                )
            )
        rows = [row for batch in read_table(tmp_path / name).batches for row in batch.to_pylist()]
        assert rows == [{"task": "007", "text": text}, {"task": "x", "text": None}], name


# --- bad input: one sentence that names the file, the place and the remedy ---


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b" \n\n", "is empty"),
        ("a.csv", b"task,yes,no\nx,0.5\n", "Row #2"),
        ("a.csv", b"task,yes,no\nx,0.5,0.5,0.5\n", "Row #2"),
        ("a.csv", b"task,yes,yes\nx,0.5,0.5\n", "several columns called 'yes'"),
        ("a.csv", b"task,yes,no\nx,half,0.5\n", "'yes'.*'half' in row 1"),
        ("a.csv", b"task,yes,no\nx,0.5,0.5\ny,0.5,1_000\n", "'no'.*'1_000' in row 2"),
        ("a.csv", b"\x00\x01\x02binary,", "binary"),
        ("a.csv", b"name,yes\nx,1\n", "'no'"),
        ("a.jsonl", b'{"task": "x", "yes": 1}\n{"task": \n', "line 2"),
        ("a.jsonl", b"[1, 2]\n", "must hold objects"),
        ("a.jsonl", b'{"a": ' * 100_000, "nested"),
        ("a.json", b'[{"task": "x"}, {"task"]', "line 1"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-20], "cannot be read"),
        ("a.csv.gz", b"\x1f\x8bnot gzip at all", "cannot be read"),
        ("a.parquet", b"PAR1 nonsense", "cannot be read"),
        ("a.parquet", FILES["a.parquet"][:-30] + b"x" * 30, "cannot be read"),
        ("a.jsonl", b'{"task": "x", "p": [1, 0]}\n{"task": "y", "p": [1]}\n', "one length"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, bytes) else value,
)
def test_bad_files_get_a_sentence(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=said) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "no.csv", tmp_path, str(tmp_path / "*.csv")):
        with pytest.raises(FileNotFoundError):
            read_table(path)
    with (
        pytest.raises(ValueError, match="format"),
        table_writer(tmp_path / "out.xyz", frame().schema),
    ):
        pass


# --- columns ---


def test_columns_are_found_by_name_or_named() -> None:
    names = ["task", "text", "no", "yes", "probs.no", "probs.yes"]
    schema = pa.schema([(name, pa.string()) for name in names])
    assert select_predictions(schema, ["task"], classes=["yes", "no"]).columns == ["yes", "no"]
    assert select_predictions(schema, ["task"], ["probs"]).labels == ("no", "yes")
    assert select_texts(schema, ["task"], "text").columns == ["text"]
    with pytest.raises(ValueError, match="Name the one to read"):
        select_texts(schema, ["task"])
    with pytest.raises(ValueError, match="'maybe'"):
        select_predictions(schema, ["task"], classes=["yes", "maybe"])
    assert find_id(["yes", "Item_ID", "no"]) == "Item_ID"
    with pytest.raises(ValueError, match="with id"):
        find_id(["yes", "no"])


# --- writing ---


FORMULAS = [
    "=1+1",
    "+cmd",
    "-cmd",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1+1",
    "＋x",
    "－x",
    "＠x",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_quoted_in_tables_for_spreadsheets(text: str, tmp_path: Path) -> None:
    texts = pa.string()
    kinds = {"id": texts, "task": texts, "labels": pa.list_(texts), text: texts}
    cells = {"id": text, "task": text, "labels": [text, "b"], text: "-5"}
    batch = pa.RecordBatch.from_pylist([cells], pa.schema(kinds))
    with (
        pytest.warns(cs.CredalSetWarning, match="2 texts in .* got an apostrophe"),
        table_writer(tmp_path / "a.csv", batch.schema, for_spreadsheets="id") as write,
    ):
        write(batch)
    row = next(read_table(tmp_path / "a.csv").batches).to_pylist()[0]
    assert row["task"] == unicodedata.normalize("NFC", f"'{text}") == quote_formula(text)
    assert row["id"] == unicodedata.normalize("NFC", text), "votes come back under it"
    assert row["labels"] == f"'{text}|b"
    assert row[f"'{text}"] == "-5", "numbers stay numbers"


# Texts that a file can hold: no half of a surrogate pair, and no NUL, which CSV files do not have.
ANY_TEXT = strategies.text(
    strategies.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
) | strategies.sampled_from(
    [
        *FORMULAS,
        "NA",
        "null",
        "None",
        "nan",
        "007",
        "1.10",
        " x ",
        "a\r\nb",
        "'x",
        '"',
        '""',
        "\ufeffx",
    ]
)


def written(path: Path, table: Any) -> bytes:
    write_table(table, path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
@given(rows=strategies.lists(strategies.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_every_text_is_read_as_it_was_written(
    name: str, tmp_path: Path, rows: list[tuple[str, str]]
) -> None:
    """`import` put apostrophes before 37 of 2 000 base64 ids, and these were lost."""
    normal = [tuple(unicodedata.normalize("NFC", text) for text in row) for row in rows]
    columns = [list(column) for column in zip(*normal, strict=True)]
    table = pa.table({"task": columns[0], "label": columns[1], "more": ["x"] * len(rows)})
    first = written(tmp_path / name, table)
    found = read_table(tmp_path / name)
    again = pa.Table.from_batches(list(found.batches), found.schema)
    assert [
        [text or "" for text in again[role].to_pylist()] for role in ("task", "label")
    ] == columns
    assert written(tmp_path / name, again) == first


@pytest.mark.parametrize("header", ["a;b;c;d", "a\tb\tc", 'say "a;b;c"', "two\nlines;x"])
def test_delimiters_in_names_of_columns_do_not_split(header: str, tmp_path: Path) -> None:
    """A class called a;b;c;d made the file one with semicolons."""
    table = pa.table({"task": ["x"], header: ["1"]})
    write_table(table, tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv").schema.names == ["task", header]


def test_a_text_that_csv_cannot_hold_gets_a_sentence(tmp_path: Path) -> None:
    table = pa.table({"task": ["a\0b"]})
    with pytest.raises(ValueError, match=r"column 'task' has a text with a NUL character"):
        write_table(table, tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


# --- Unicode ---

NFD = unicodedata.normalize("NFD", "ê-é")
NFC = unicodedata.normalize("NFC", NFD)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet", "words.parquet"])
def test_two_spellings_of_one_id_are_one_item(name: str, tmp_path: Path) -> None:
    """An id and a class, as one system and another write them."""
    columns = {"task": [NFD, NFC, "a"], "label": [NFC, NFD, "b"]}
    table = pa.table(columns)
    if name == "a.json":
        rows = table.to_pylist()
        (tmp_path / name).write_text(json.dumps(rows), encoding="utf-8")
    elif name == "words.parquet":
        words = pa.table(
            {role: pa.array(cells).dictionary_encode() for role, cells in columns.items()}
        )
        parquet.write_table(words, tmp_path / name)
    else:
        write_table(table, tmp_path / name)
    votes = cs.Annotations.read(tmp_path / name)
    assert votes.items == (NFC, "a")
    assert votes.classes == ("b", NFC)
    assert "2 texts put into Unicode form NFC, so that equal names are equal" in votes.notes
    with pytest.warns(cs.CredalSetWarning, match="2 texts put into Unicode form NFC"):
        assert read_vote_table(tmp_path / name) == votes


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_two_spellings_of_one_class_are_one_column(name: str, tmp_path: Path) -> None:
    write_table(pa.table({"task": ["x"], NFD: ["1"]}), tmp_path / name)
    table = read_table(tmp_path / name)
    assert table.schema.names == ["task", NFC]
    with pytest.warns(cs.CredalSetWarning, match="1 text put into Unicode form NFC"):
        assert sum(batch.num_rows for batch in table.batches) == 1
    write_table(pa.table({"task": ["x"], NFD: ["1"], NFC: ["1"]}), tmp_path / name)
    with pytest.raises(FileFormatError, match="several columns called"):
        read_table(tmp_path / name)


def test_texts_in_lists_and_objects_are_normalised(tmp_path: Path) -> None:
    rows = [{"id": NFD, "labels": [NFD, NFC], "annotators": ["x", "y"]}] * 2
    table = pa.Table.from_pylist(
        [*rows, {"id": "b", "labels": ["c", "c"], "annotators": ["x", "y"]}]
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    assert cs.Annotations.read(tmp_path / "a.parquet").classes == ("c", NFC)
    nested = pa.table({"task": [NFD], "p": [{NFD: 0.5, "b": 0.5}]})
    parquet.write_table(nested, tmp_path / "b.parquet")
    assert read_table(tmp_path / "b.parquet").schema.names == ["task", f"p.{NFC}", "p.b"]


# --- fields that appear late ---


@pytest.mark.parametrize("late", ['"b"', '["b"]', '{"c": "b"}'])
def test_a_field_that_appears_late_is_not_lost(
    late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that first appeared after 16 384 records vanished without a word."""
    monkeypatch.setattr("credalset.io.tables.RECORDS", 4)
    lines = ['{"task": "a", "x": 1}'] * 9 + [f'{{"task": "z", "x": 1, "late": {late}}}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(
        FileFormatError, match=r"the field 'late(\.c)?' of record 10 .*--kind table"
    ):
        list(read_table(tmp_path / "a.jsonl").batches)
    table = read_table(tmp_path / "a.jsonl", whole=True)
    rows = [row for batch in table.batches for row in batch.to_pylist()]
    assert len(rows) == 10
    assert list(rows[-1].values()) == ["z", "1", ["b"] if late == '["b"]' else "b"]
    assert list(rows[0].values()) == ["a", "1", None]


def test_a_text_that_becomes_a_list_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("credalset.io.tables.RECORDS", 2)
    (tmp_path / "a.jsonl").write_text('{"p": null}\n{"p": null}\n{"p": [1, 2]}\n')
    with pytest.raises(FileFormatError, match="the field 'p' of record 3"):
        list(read_table(tmp_path / "a.jsonl").batches)


def test_workers_that_are_named_late_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the field, both votes of a worker on an item counted."""
    monkeypatch.setattr("credalset.io.tables.RECORDS", 4)
    rows = [{"task": f"t{i}", "label": "ab"[i % 2]} for i in range(6)]
    rows += [{"task": "t0", "label": label, "worker": "w"} for label in "ab"]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.warns(cs.CredalSetWarning, match="1 vote replaced"):
        votes = read_vote_table(tmp_path / "a.jsonl")
    assert votes.n_votes.sum() == 7
    assert votes.workers == ("w",)


def test_a_table_appears_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    for name in ("a.csv", "a.parquet", "a.jsonl.gz"):
        with pytest.raises(AttributeError), table_writer(tmp_path / name, frame().schema) as write:
            write(frame().to_batches()[0]).interrupted  # noqa: B018
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


def test_json_has_no_infinity(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64())])
    with table_writer(tmp_path / "a.jsonl", schema) as write:
        write(
            pa.RecordBatch.from_pylist(
                [{"x": np.inf}, {"x": -np.inf}, {"x": np.nan}, {"x": 1.5}], schema
            )
        )
    rows = [json.loads(line)["x"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == ["Infinity", "-Infinity", None, 1.5]
