"""Find the files behind a path and open them: folders, patterns, archives, compression, standard input."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import IO, Any, TypeVar

from credalset.exceptions import FileFormatError, MissingExtraError

T = TypeVar("T")

DATA_SUFFIXES = (".parquet", ".pq", ".arrow", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt")
PACKED_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
#: what stands beside data in folders that tools write
NOT_DATA = {"dataset_info.json", "dataset_dict.json", "state.json", "settings.json", "dataset.json", "readme.txt"}
#: what reading damaged or foreign data raises, apart from our own sentences
UNREADABLE = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, UnicodeError, RuntimeError)


@dataclass(frozen=True)
class File:
    """A file of bytes under the name that messages call it by."""

    name: str
    open_raw: Callable[[], IO[bytes]]

    @property
    def stem(self) -> str:
        """Name without folder and suffixes."""
        stem = PurePath(self.name).name
        for _ in range(2):
            packed = PurePath(stem).suffix.lower() in (*PACKED_SUFFIXES, *DATA_SUFFIXES)
            stem = PurePath(stem).stem if packed else stem
        return stem

    def open(self) -> io.BufferedReader:
        """Open the file, unpacked."""
        return _unpacked(self.open_raw(), self.name)


def find_files(path: str | Path) -> list[File]:
    """Return the files that a path stands for: one, or those of a folder, a pattern or an archive, sorted by name."""
    text = os.fspath(path)
    if text == "-":
        return [_standard_input()]
    if not os.path.exists(text) and glob.has_magic(text):
        found = sorted(Path(name) for name in glob.glob(text, recursive=True) if os.path.isfile(name))
    elif os.path.isdir(text):
        found = _in_folder(Path(text))
    elif os.path.exists(text):
        found = [Path(text)]
    else:
        raise FileNotFoundError(f"There is no file {text!r}. Check the path.")
    if not found:
        raise FileNotFoundError(f"{text!r} holds no data file ({', '.join(DATA_SUFFIXES)}). Check the path.")
    return [file for one in found for file in _members(one)]


def _in_folder(folder: Path) -> list[Path]:
    """Return the data files of a folder, of one format: the first of DATA_SUFFIXES that occurs."""
    visible = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts[:-1])
        and file.name.lower() not in NOT_DATA
    ]
    for suffix in DATA_SUFFIXES:
        found = [file for file in visible if file.name.lower().removesuffix(_packing(file)).endswith(suffix)]
        if found:
            return found
    return []


def _packing(file: Path) -> str:
    suffix = file.suffix.lower()
    return suffix if suffix in PACKED_SUFFIXES else ""


def _members(path: Path) -> list[File]:
    with open(path, "rb") as stream:
        start = stream.read(8)
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise FileFormatError(f"{path.name} is an Excel workbook. Save it as CSV and read that.")
    if not start.startswith(b"PK\x03\x04"):
        return [File(path.name, lambda: open(path, "rb"))]
    with guard(path.name), zipfile.ZipFile(path) as archive:
        names = sorted(info.filename for info in archive.infolist() if not info.is_dir())
    if "[Content_Types].xml" in names:
        raise FileFormatError(f"{path.name} is an Excel workbook. Save it as CSV and read that.")
    wanted = [name for name in names if name.lower().endswith(DATA_SUFFIXES) and not name.startswith("__MACOSX/")]
    if not wanted:
        raise FileFormatError(f"{path.name} is an archive of {names[:3]}, none of which is a data file.")
    return [File(name, _member_opener(path, name)) for name in wanted]


def _member_opener(path: Path, name: str) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        archive = zipfile.ZipFile(path)
        return io.BufferedReader(_Both(archive.open(name), archive))

    return opened


def _standard_input() -> File:
    """Copy standard input to a temporary file: it is looked at first and read afterwards."""
    folder = tempfile.TemporaryDirectory()  # goes when the last reference, in the opener, does
    copy = Path(folder.name) / "stdin"
    with open(copy, "wb") as target:
        while chunk := sys.stdin.buffer.read(1 << 20):
            target.write(chunk)

    def open_copy(keep: object = folder) -> IO[bytes]:
        return open(copy, "rb")

    return File("standard input", open_copy)


def _unpacked(stream: IO[bytes], name: str) -> io.BufferedReader:
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_Both(stream, stream))
    start = buffered.peek(6)[:6]
    packed: Any = None
    if start.startswith(b"\x1f\x8b"):
        packed = gzip.GzipFile(fileobj=buffered)
    elif start.startswith(b"BZh"):
        packed = bz2.BZ2File(buffered)
    elif start.startswith(b"\xfd7zXZ\x00"):
        packed = lzma.LZMAFile(buffered)  # noqa: SIM115 - closed with what it unpacks
    elif start.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            packed = _zstd(buffered, name)
        except MissingExtraError:
            buffered.close()
            raise
    return buffered if packed is None else io.BufferedReader(_Both(packed, buffered))


def _zstd(stream: io.BufferedReader, name: str) -> Any:
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise MissingExtraError(
            f"Reading {name}, which is compressed by zstd,", "pyarrow", "tables", "or unpack it first"
        ) from None
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, "r"), "zstd")


class _Both(io.RawIOBase):
    """A stream that reads from one and closes two: unpackers leave what they unpack open."""

    def __init__(self, inner: Any, outer: Any) -> None:
        self.inner, self.outer = inner, outer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.inner.close()
            self.outer.close()
        super().close()


class guard:
    """Turn what damaged data raise into a sentence that names the file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeError):
            raise FileFormatError(
                f"{self.name} is not text in the encoding expected ({error}). Name the right one: encoding=..."
            ) from None
        if isinstance(error, RecursionError):
            raise FileFormatError(f"{self.name} is nested too deeply to be read.") from None
        if isinstance(error, UNREADABLE) or (isinstance(error, OSError) and error.errno is None):
            raise FileFormatError(f"{self.name} is damaged or cut short: {error}. Export it again.") from None


def guarded(name: str, inner: Iterator[T]) -> Iterator[T]:
    """Yield from an iterator; what it raises on damaged data is turned into a sentence."""
    while True:
        with guard(name):
            try:
                value = next(inner)
            except StopIteration:
                return
        yield value
