"""Find the files behind a path and open them.

A path is a folder, a pattern, an archive, a file in any compression and encoding, or
standard input.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
import shlex
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from credalset._display import join_names
from credalset.exceptions import FileFormatError, need

__all__ = [
    "COMPRESSIONS",
    "FORMATS",
    "STDIN",
    "File",
    "clean_copy",
    "find_files",
    "format_of",
    "open_file",
    "open_text",
    "readable",
]

STDIN = "-"  # and standard output
FORMATS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
}
WRITTEN = ("csv", "tsv", "jsonl", "parquet")  # formats of the writer
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
MARKS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNPACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda stream: io.BufferedReader(_arrow_zstd(stream)),
}
ARCHIVE = b"PK\x03\x04"
OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"
WORKBOOK = (
    "is an Excel workbook, or an archive that is not called .zip. Save it as CSV and read that."
)
DAMAGED = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)
#: files beside the data in folders that tools write
NOT_DATA = {
    "dataset_info.json",
    "dataset_dict.json",
    "state.json",
    "settings.json",
    "dataset.json",
    "readme.txt",
}
HEAD = 1 << 16  # bytes at the start that tell encoding, delimiter and names


class File(NamedTuple):
    """A file, or a member of a zip archive, under the name that messages use."""

    name: str
    path: str
    member: str | None = None

    @property
    def stem(self) -> str:
        """Name without folder and suffixes."""
        stem = PurePath(self.name)
        while stem.suffix.lower() in {**FORMATS, **COMPRESSIONS}:
            stem = stem.with_suffix("")
        return stem.name


def find_files(path: str | Path) -> list[File]:
    """Return the files that a path stands for.

    One, those of a folder, a pattern or an archive, or ``-`` for stdin.
    """
    text = os.fspath(path)
    if text == STDIN:
        return [File("standard input", STDIN)]
    if os.path.isdir(text):
        suffixes = (*FORMATS, ".zip")
        inside = sorted(file for file in Path(text).rglob("*") if file.is_file())
        found = [str(file) for file in inside if _is_data(file.relative_to(text), suffixes)]
    elif os.path.exists(text):
        found = [text]
    else:
        found = sorted(name for name in glob.glob(text, recursive=True) if os.path.isfile(name))
        if not glob.has_magic(text):
            raise FileNotFoundError(f"{text}: no such file. Check the path.")
    if not found:
        raise FileNotFoundError(
            f"{text} holds no data file ({', '.join(FORMATS)}). Check the path."
        )
    return [file for name in found for file in _members(name)]


def _is_data(file: Path, suffixes: Collection[str] = FORMATS) -> bool:
    is_hidden = any(part.startswith((".", "_")) for part in file.parts)
    return not is_hidden and file.name.lower() not in NOT_DATA and _suffix(file) in suffixes


def _suffix(path: PurePath) -> str:
    """Return the last suffix that is not that of a compression."""
    suffixes = [suffix.lower() for suffix in reversed(path.suffixes)]
    return next((suffix for suffix in suffixes if suffix not in COMPRESSIONS), "")


def _members(path: str) -> list[File]:
    # Files are opened once, as some can be read only once: their names tell what is no archive.
    names: list[str] = []
    if Path(path).suffix.lower() not in FORMATS:
        names = _names_in_archive(path)
    if Path(path).suffix.lower() == ".eval":
        raise FileFormatError(
            f"{path} is a log of Inspect in the format .eval. Write it as JSON: "
            f"inspect log convert {shlex.quote(path)} --to json --output-dir FOLDER"
        )
    if "[Content_Types].xml" in names:
        raise FileFormatError(f"{path} {WORKBOOK}")
    wanted = [name for name in names if _is_data(Path(name)) and not name.startswith("__MACOSX/")]
    if names and not wanted:
        raise FileFormatError(
            f"{path} is an archive of {join_names(names, 3)}, none of which is a data file."
        )
    return [File(f"{path}/{name}", path, name) for name in wanted] or [File(path, path)]


def _names_in_archive(path: str) -> list[str]:
    """Return the names of the files in a zip archive; none if it is no archive."""
    with readable(path), open(path, "rb") as stream:
        if stream.read(4) != ARCHIVE:
            return []
        members = zipfile.ZipFile(stream).infolist()
        return sorted(member.filename for member in members if not member.is_dir())


@contextmanager
def readable(name: str, *, is_table: bool = False) -> Iterator[None]:
    """Turn the errors of damaged or foreign data into `FileFormatError` that names the file.

    ``is_table`` says that the file holds predictions or features and no votes.
    """
    arrow = sys.modules.get("pyarrow")
    errors = () if arrow is None else (arrow.ArrowException,)
    remedy = "Export it again, or correct the line"
    try:
        yield
    except (*DAMAGED, *errors, OSError, UnicodeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        what = str(error).strip().split("\n")[0][:300].rstrip(".") or "it is cut short"
        if isinstance(error, UnicodeError) or "invalid UTF8" in what:
            what = "it is not text in UTF-8"
            copy = clean_copy(name, "--encoding cp1252", is_table=is_table)
            remedy = f"Save it as UTF-8, or {copy}"
        if isinstance(error, RecursionError):
            what = "it is nested too deeply"
        raise FileFormatError(f"{name} cannot be read: {what}. {remedy}.") from None


def clean_copy(name: str, option: str, *, is_table: bool) -> str:
    """Return the words of an advice to import a file, of votes or a table, with an option."""
    command = f"credalset import {shlex.quote(name)}"
    if is_table:
        return f"write a clean copy of it: {command} --kind table {option} -o clean.csv"
    return f"import it so, with your other options: {command} {option} -o clean.csv"


def _arrow_zstd(stream: Any) -> Any:
    return need("pyarrow", "Reading a file compressed by zstd").CompressedInputStream(
        stream, "zstd"
    )


class _Joined(io.RawIOBase):
    """A stream whose first bytes were read already; it owns the file under it, if one is given.

    ``path`` is that of a file with the same bytes, if there is one.
    """

    def __init__(
        self, head: bytes, rest: Any, handle: int | None = None, path: str | None = None
    ) -> None:
        super().__init__()
        self.path = path
        self.head = head
        self.rest = rest
        self.handle = handle

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.head[: len(buffer)] if self.head else self.rest.read(len(buffer))
        self.head = self.head[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.rest.close()
            if self.handle is not None:
                os.close(self.handle)
        super().close()


def open_file(file: File) -> tuple[bytes, Any]:
    """Open a file, unpacked; return its first bytes and a stream of all of it.

    The first bytes hold at least one whole line.
    """
    handle = None
    if file.path == STDIN:
        stream: Any = sys.stdin.buffer
    elif file.member is not None:
        # The archive stays open for as long as a member does.
        with zipfile.ZipFile(file.path) as archive:
            stream = archive.open(file.member)
    else:
        # `_Joined` closes it, also if nobody reads on.
        handle = os.open(file.path, os.O_RDONLY)
        stream = io.FileIO(handle, closefd=False)
    start = stream.read(6)
    if start.startswith((ARCHIVE, OLD_WORKBOOK)):
        _Joined(start, stream, handle).close()
        raise FileFormatError(f"{file.name} {WORKBOOK}")
    is_plain = handle is not None and stat.S_ISREG(os.fstat(handle).st_mode)
    stream = io.BufferedReader(_Joined(start, stream, handle), HEAD)
    for mark, unpack in UNPACKERS.items():
        if start.startswith(mark):
            stream = unpack(stream)
            is_plain = False
    head = stream.read(HEAD)
    while b"\n" not in head and (more := stream.read(len(head))):
        head += more
    if not head.strip():
        raise FileFormatError(f"{file.name} is empty: it has no header and no rows.")
    joined = _Joined(head, stream, path=file.path if is_plain else None)
    return head, io.BufferedReader(joined, HEAD)


def format_of(path: str, head: bytes | None = None) -> str:
    """Return the format of a file's name; if the name says none, that of a file's first bytes.

    Examples
    --------
    >>> format_of("votes.csv.gz"), format_of("-", b'{"task": 1}')
    ('csv', 'jsonl')
    """
    format = FORMATS.get(_suffix(PurePath(path)))
    if head is None and format not in WRITTEN:
        raise ValueError(
            f"{path} has a format that is not known. Name the file .csv, .tsv, .jsonl or .parquet."
        )
    if format is None and head is not None:
        format = _format_by_content(head)
    return str(format)


def _format_by_content(head: bytes) -> str:
    """Return the format that the first bytes of a file have."""
    for mark, format in MARKS.items():
        if head.startswith(mark):
            return format
    text = head.decode("utf-16" if head.startswith(UTF16) else "utf-8", "replace")
    return "jsonl" if text.lstrip("\ufeff \t\r\n").startswith(("[", "{")) else "csv"


def open_text(
    file: File, head: bytes, stream: Any, encoding: str | None = None
) -> io.TextIOWrapper:
    """Read a stream as text.

    The encoding is that of its byte order mark, else the one that was named, else UTF-8.
    """
    if head.startswith(UTF16):
        encoding = "utf-16"
    elif head.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    elif encoding is None and b"\x00" in head:
        raise FileFormatError(
            f"{file.name} is a binary file of no known format. Export it as JSON, CSV or Parquet."
        )
    try:
        return io.TextIOWrapper(stream, encoding or "utf-8", newline="")
    except LookupError:
        raise ValueError(
            f"encoding={encoding!r} is unknown to Python. Try 'cp1252' or 'latin-1'."
        ) from None
