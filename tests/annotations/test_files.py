"""Files of votes: compression, encodings, archives, damage; parsed in pieces, in bounded memory, without extras."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import pickle
import subprocess
import sys
import tracemalloc
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from credalset import Annotations, MissingExtraError
from credalset.annotations.readers import open_votes, parsing, sniff
from credalset.annotations.readers.parsing import JsonStream, guess_delimiter
from credalset.annotations.readers.types import ColumnType
from credalset.exceptions import FileFormatError

CSV = "task,worker,label\n1,ann,größer\n1,bob,kleiner\n2,ann,größer\n"
COUNTS = [[1, 1], [1, 0]]


@pytest.fixture
def save(tmp_path):
    def saved(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return saved


# --- packed ---


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("votes.csv", bytes),
        ("votes.csv.gz", gzip.compress),
        ("votes.csv.bz2", bz2.compress),
        ("votes.csv.xz", lzma.compress),
        ("votes.csv.zst", zstd),
        ("no suffix at all", gzip.compress),
    ],
)
def test_compression_is_known_by_its_bytes(save, name, pack):
    votes = Annotations.read(save(name, pack(CSV.encode())))
    assert votes.counts.tolist() == COUNTS
    assert votes.origin.startswith(f"{name}, certainly crowd-kit")


def test_archives_folders_and_patterns(save, tmp_path):
    lines = CSV.splitlines()
    parts = {"a.csv": "\n".join(lines[:2]), "b.csv": "\n".join([lines[0], *lines[2:]])}
    with zipfile.ZipFile(tmp_path / "parts.zip", "w") as archive:
        for name, text in parts.items():
            archive.writestr(f"folder/{name}", text)
    assert Annotations.read(tmp_path / "parts.zip").counts.tolist() == COUNTS
    folder = tmp_path / "parts"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "a.csv").write_text(parts["a.csv"], encoding="utf-8")
    (folder / "deep" / "b.csv.gz").write_bytes(gzip.compress(parts["b.csv"].encode()))
    (folder / ".hidden" / "c.csv").write_text("x", encoding="utf-8")
    (folder / "notes.md").write_text("x", encoding="utf-8")
    (folder / "_unfinished.jsonl").write_text("x", encoding="utf-8")
    assert Annotations.read(folder).counts.tolist() == COUNTS
    assert Annotations.read(str(folder / "**" / "*.csv*")).counts.tolist() == COUNTS


def test_standard_input(tmp_path):
    code = "from credalset import Annotations; print(Annotations.read('-'))"
    done = subprocess.run([sys.executable, "-c", code], input=CSV.encode(), capture_output=True, check=True)
    assert done.stdout.decode().startswith("Annotations(2 items, 2 classes: 'größer', 'kleiner'; 3 votes")


def test_files_of_several_formats(save, tmp_path):
    with zipfile.ZipFile(tmp_path / "mixed.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.json", "[]")
    with pytest.raises(FileFormatError, match=r"mixes formats: .*one format at a time"):
        Annotations.read(tmp_path / "mixed.zip")


@pytest.mark.parametrize("path", ["nowhere.csv", "nowhere/*.csv"])
def test_no_file(tmp_path, path):
    with pytest.raises(FileNotFoundError, match=r"Check the path"):
        Annotations.read(tmp_path / path)
    with pytest.raises(FileNotFoundError, match=r"holds no data file"):
        Annotations.read(tmp_path)


# --- encodings ---


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_with_a_mark(save, encoding):
    assert Annotations.read(save("votes.csv", CSV.encode(encoding))).classes == ("größer", "kleiner")
    line = json.dumps({"task": 1, "worker": 2, "label": "größer"}, ensure_ascii=False)
    votes = Annotations.read(save("votes.jsonl", line.encode(encoding)), classes=["größer", "x"])
    assert votes.counts.tolist() == [[1, 0]]


def test_encodings_to_be_named(save):
    path = save("votes.csv", CSV.encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"votes.csv is not text in the encoding expected .*encoding="):
        Annotations.read(path)
    assert Annotations.read(path, encoding="latin-1").classes == ("größer", "kleiner")
    with pytest.raises(ValueError, match=r"encoding='klingon' is unknown to Python"):
        Annotations.read(path, encoding="klingon")
    with pytest.raises(TypeError, match="encoding must be text"):
        Annotations.read(path, encoding=8)


# --- damage, and what is no data ---


class Explosive:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


DAMAGED = [
    ("empty.csv", b"", r"empty.csv is empty"),
    ("white.json", b" \n\n ", r"white.json is empty"),
    ("votes.pkl", pickle.dumps({"task": Explosive()}), r"votes.pkl is a binary file of no known format"),
    ("image.json", b"\x89PNG\r\n\x1a\n\x00\x00", r"binary file of no known format"),
    ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"old.xls is an Excel workbook. Save it as CSV"),
    (
        "cut.json",
        b'[{"task": 1, "worker": 2, "label": "a"}, {"task"',
        r"cut.json has no end: it is cut short, in line 1",
    ),
    (
        "cut2.json",
        b'[{"task": 1, "worker": 2, "label": "a"}\n',
        r"cut2.json has no end: it is cut short, in line 2",
    ),
    ("bad.json", b'[{"task": 1,\n "label": }, {"x": "' + b"y" * 100 + b'"}]', r"bad.json has an error .*in line 2"),
    ("two.json", b'[{"task": 1}] 7', r"two.json has more text after the end of its list, in line 1"),
    ("comma.json", b'[{"a": 1} {"a": 2}]', r"comma.json has a comma missing, in line 1"),
    ("deep.json", b"[" * 100_000, r"deep.json is nested too deeply|deep.json has no end"),
    ("digits.json", b'[{"task": ' + b"9" * 5000 + b"}]", r"digits.json has an error .*digits"),
    ("cut.csv.gz", gzip.compress(CSV.encode() * 99, mtime=0)[:-20], r"cut.csv.gz is damaged or cut short"),
    ("bad.csv.gz", b"\x1f\x8b" + b"rubbish" * 9, r"bad.csv.gz is damaged or cut short"),
    ("bad.csv.bz2", b"BZh9" + b"rubbish" * 9, r"bad.csv.bz2 is damaged or cut short"),
    ("bad.csv.xz", b"\xfd7zXZ\x00" + b"rubbish" * 9, r"bad.csv.xz is damaged or cut short"),
    ("bad.csv.zst", b"\x28\xb5\x2f\xfd" + b"rubbish" * 9, r"bad.csv.zst is damaged or cut short"),
    ("bad.zip", b"PK\x03\x04" + b"rubbish" * 9, r"bad.zip is damaged or cut short"),
    ("bad.parquet", b"PAR1" + b"rubbish" * 9, r"bad.parquet is damaged or cut short"),
    ("bad.arrow", b"ARROW1\x00\x00" + b"rubbish" * 9, r"bad.arrow is damaged or cut short"),
    ("twice.csv", b"task,label,label\n1,a,b\n", r"twice.csv has several columns called 'label'"),
    (
        "ragged.csv",
        b"task,worker,label\n1,a,b\n1,a,b,c\n",
        r"ragged.csv has 4 fields in the row that starts with '1, a, b, c'",
    ),
    ("ragged2.csv", b"task,worker,label\n1,a,b\n1,a,b,c\n2,a,b\n2,b,b\n", r"ragged2.csv has 4 fields in the row"),
    ("prose.csv", b"It was a dark and stormy night.\n", r"prose.csv starts with 'It was a dark"),
    ("page.json", b"<!DOCTYPE html><html>\n<p>Please log in</p>\n", r"page.json starts with '<!DOCTYPE html>"),
]


# Named by file: bytes that change with the clock (gzip writes the time) would name each test anew for every worker.
@pytest.mark.parametrize(("name", "content", "message"), DAMAGED, ids=[name for name, _, _ in DAMAGED])
def test_damage_gets_a_sentence(save, tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match=message):
        Annotations.read(save(name, content))
    assert not (tmp_path / "exploded").exists()


def test_archives_that_are_no_data(tmp_path):
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
    with pytest.raises(FileFormatError, match=r"book.xlsx is an Excel workbook"):
        Annotations.read(tmp_path / "book.xlsx")
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("code.py", "import os")
    with pytest.raises(FileFormatError, match=r"code.zip is an archive of \['code.py'\], none of which is a data file"):
        Annotations.read(tmp_path / "code.zip")


def test_a_parquet_file_cut_in_the_middle(save, tmp_path):
    pq.write_table(
        pa.table({"task": list(range(1000)), "worker": ["w"] * 1000, "label": ["a"] * 1000}), tmp_path / "t.parquet"
    )
    data = (tmp_path / "t.parquet").read_bytes()
    with pytest.raises(FileFormatError, match=r"cut.parquet is damaged or cut short"):
        Annotations.read(save("cut.parquet", data[: len(data) // 2]))


def test_rows_of_another_length_further_down(save):
    rows = "1,ann,a\n" * 20_000
    with pytest.raises(
        FileFormatError, match=r"4 fields in the row that starts with '2, ann, a, b'.*3 column names.*in quotes"
    ):
        Annotations.read(save("long.csv", "task,worker,label\n" + rows + "2,ann,a,b\n"))
    with pytest.raises(FileFormatError, match=r"open.csv is no table: unexpected end of data"):
        Annotations.read(save("open.csv", "task,worker,label\n" + rows + '2,ann,"a\n'))


def test_a_later_file_without_the_column(tmp_path):
    (tmp_path / "a.csv").write_text("item,rater,label\n1,a,x\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("item,who,label\n1,b,y\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"b.csv has no column 'rater', only \['item', 'who', 'label'\]"):
        Annotations.read(tmp_path)
    for name, rater in (("a", "rater"), ("b", "who")):
        table = pa.table({"item": [1], rater: ["a"], "label": ["x"]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(FileFormatError, match=r"b.parquet has no column 'rater', only \['item', 'who', 'label'\]"):
        Annotations.read(tmp_path)


# --- delimited text ---


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_delimiters_are_found(save, delimiter):
    text = delimiter.join(["task", "worker", "label"]) + "\n" + delimiter.join(["1", "ann", '"a, b; c|d\te"']) + "\n"
    votes = Annotations.read(save("votes.txt", text), classes=["a, b; c|d\te", "x"])
    assert votes.counts.tolist() == [[1, 0]]


def test_delimiters_to_be_named(save):
    path = save("votes.txt", "task^worker^label\n1^ann^a\n1^bob^b\n")
    with pytest.raises(FileFormatError, match="Name the delimiter"):
        Annotations.read(path)
    assert Annotations.read(path, delimiter="^").counts.tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="delimiter must be one character, but is '::'"):
        Annotations.read(path, delimiter="::")


def test_a_comma_within_texts_does_not_hide_the_tab():
    assert guess_delimiter("task\tlabel\na, b, c\tx\nd, e\ty\n", "f") == "\t"


def test_texts_of_any_length_and_lines_within_them(save):
    limit = csv.field_size_limit()
    text = "x" * 300_000
    path = save("votes.csv", f'task,text,worker,label\r\n1,"{text}\r\n""quoted""",ann,a\r\n\r\n2,y,ann,b\r\n')
    assert Annotations.read(path).items == (1, 2)
    assert csv.field_size_limit() == limit


def test_numbers_in_texts(save):
    path = save("votes.csv", "task,worker,label\n007,1,1.0\n8,2,2\n8,3,3\n")
    votes = Annotations.read(path)
    assert votes.items == ("007", "8")  # not a number: identifiers keep their digits
    assert votes.workers == (1, 2, 3)
    assert votes.classes == (1, 2, 3)
    assert Annotations.read(path, classes=["1.0", "2", "3"]).classes == ("1.0", "2", "3")
    assert Annotations.read(path, items=["8", "007"]).items == ("8", "007")


@pytest.mark.parametrize(
    ("values", "texts", "name", "converted"),
    [
        (["1", "2"], True, "int", [1, 2]),
        (["1", "2"], False, "str", ["1", "2"]),
        (["1.5", "2"], True, "float", [1.5, 2.0]),
        (["1e5", "2"], True, "str", ["1e5", "2"]),
        (["99999999999999999999"], True, "str", ["99999999999999999999"]),
        ([1, 2.0], False, "int", [1, 2]),
        ([1, "x"], False, "str", ["1", "x"]),
        ([2.0, "x"], False, "str", ["2", "x"]),
        ([True, False], False, "bool", [True, False]),
        ([True, 2], False, "str", ["True", "2"]),
        ([None, float("nan")], True, "bool", [None, None]),
        ([2**63, 1], False, "str", ["9223372036854775808", "1"]),
        ([-(2**63), 1], False, "int", [-(2**63), 1]),
    ],
)
def test_one_type_per_column(values, texts, name, converted):
    kind = ColumnType(texts)
    kind.see(values)
    assert kind.name == name
    assert [kind(value) for value in values] == converted


# --- JSON in pieces ---

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@example([0.5, 2e-7, -1.5e300, 10, {"a": 1e22}, "1."], 1, None, True)
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_pieces_of_any_size_give_the_same_values(values, chunk, indent, ascii_only):
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    before, parsing.CHUNK = parsing.CHUNK, chunk
    try:
        assert list(JsonStream(io.StringIO(text), "f")) == values
        documents = [value for value in values if isinstance(value, dict)]
        lines = "\n".join(json.dumps(value, ensure_ascii=ascii_only) for value in documents)
        assert list(JsonStream(io.StringIO(lines), "f")) == documents
    finally:
        parsing.CHUNK = before


@pytest.mark.parametrize("text", ["1 2.", "[1, 2.", '{"a": 1} 3e', "1 2e+"])
def test_a_number_that_is_cut_is_no_number(text):
    with pytest.raises(FileFormatError, match="f has"):
        list(JsonStream(io.StringIO(text), "f"))


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_a_file_that_is_cut_never_passes_for_whole(values, data):
    text = json.dumps(values)
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(FileFormatError, match="f has"):
        list(JsonStream(io.StringIO(text[:cut]), "f"))


def test_an_error_is_found_without_reading_on():
    class Endless(io.StringIO):
        reads = 0

        def read(self, size=-1):
            Endless.reads += 1
            return '{"a": 1}, ' * 1000 if Endless.reads > 1 else '[{"a": 1}, {"a" 2}, ' + '{"a": 1}, ' * 1000

    with pytest.raises(FileFormatError, match="has an error"):
        list(JsonStream(Endless(), "f"))
    assert Endless.reads < 5


# --- memory ---


def peak(iterator) -> int:
    tracemalloc.start()
    try:
        for _ in iterator:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("format", ["csv", "jsonl", "json"])
def test_memory_does_not_grow_with_the_file(save, monkeypatch, format):
    monkeypatch.setattr("credalset.annotations.readers.source.BATCH", 500)

    def file(n):
        rows = [
            {"task": f"t{i // 3}", "worker": f"w{i % 50}", "label": "abc"[i % 3], "text": "x" * 50} for i in range(n)
        ]
        if format == "csv":
            text = "task,worker,label,text\n" + "".join(",".join(row.values()) + "\n" for row in rows)
        else:
            text = "\n".join(map(json.dumps, rows)) if format == "jsonl" else json.dumps(rows)
        return open_votes(save(f"{n}.{format}", text))

    small, large = file(5_000), file(20_000)
    assert peak(large.batches()) < 1.2 * peak(small.batches())
    assert sum(len(batch["task"]) for batch in large.batches()) == 20_000


# --- Arrow batches ---


def test_record_batches_have_one_schema(save, monkeypatch):
    monkeypatch.setattr("credalset.annotations.readers.source.BATCH", 2)
    path = save("votes.csv", "task,worker,label\n1,1,2\n2,1,3\n3,ann,1.5\n")
    votes = open_votes(path)
    assert votes.schema == pa.schema([("task", pa.int64()), ("worker", pa.string()), ("label", pa.float64())])
    batches = list(votes.record_batches())
    assert len(batches) == 2
    table = pa.Table.from_batches(batches)
    assert table.to_pylist()[0] == {"task": 1, "worker": "1", "label": 2.0}
    assert Annotations.from_table(table) == Annotations.read(path)


def test_the_long_table_of_an_export_reads_the_same(tmp_path):
    from tests.annotations.test_readers import FILES

    for name in ("label_studio.json", "prodigy.jsonl", "lewidi_2025.json", "wide.csv", "argilla.jsonl"):
        votes = open_votes(FILES / name)
        path = tmp_path / f"{name}.parquet"
        with pq.ParquetWriter(path, votes.schema) as writer:
            for batch in votes.record_batches():
                writer.write_batch(batch)
        whole = Annotations.read(FILES / name)
        again = Annotations.read(path, items=whole.items, classes=whole.classes, ordered=whole.ordered)
        assert again == whole, name


# --- without extras ---


def test_text_and_json_need_no_extra(save):
    path, lines = save("votes.csv", CSV), save("votes.jsonl", '{"task": 1, "worker": 2, "label": "a"}')
    code = (
        "import sys; from credalset import Annotations\n"
        "print([m for m in sys.modules if m.startswith('credalset.annotations.readers')])\n"
        f"Annotations.read({str(path)!r}).agreement(); Annotations.read({str(lines)!r}, classes=['a', 'b'])\n"
        "print(sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


def test_what_needs_an_extra_says_so(save, tmp_path, monkeypatch):
    pq.write_table(pa.table({"task": [1]}), tmp_path / "t.parquet")
    packed, plain = save("votes.csv.zst", zstd(CSV.encode())), save("votes.csv", CSV)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"Reading t.parquet needs the package 'pyarrow'.*credalset\[tables\]"):
        Annotations.read(tmp_path / "t.parquet")
    with pytest.raises(MissingExtraError, match=r"compressed by zstd, needs the package 'pyarrow'.*unpack it first"):
        sniff(packed)
    with pytest.raises(MissingExtraError, match=r"Arrow batches needs .*VoteFile.batches"):
        list(open_votes(plain).record_batches())
    assert Annotations.read(plain).counts.tolist() == COUNTS
