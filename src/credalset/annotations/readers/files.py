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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from credalset.exceptions import FileFormatError, need

DATA_SUFFIXES = (".parquet", ".pq", ".arrow", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt")
SAME_FORMAT = {".pq": ".parquet", ".ndjson": ".jsonl"}
PACKED_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
STANDARD_STREAM = "-"
#: what stands beside data in folders that tools write
NOT_DATA = {"dataset_info.json", "dataset_dict.json", "state.json", "settings.json", "dataset.json", "readme.txt"}
#: what reading damaged or foreign data raises, apart from our own sentences
UNREADABLE = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, RuntimeError)


@dataclass(frozen=True)
class File:
    """A file of bytes under the name that messages call it by: one of its own, or a member of an archive."""

    name: str
    path: Path
    member: str | None = None
    folder: Any = None  # a temporary one, which goes when the last file in it does

    @property
    def stem(self) -> str:
        """Name without folder and suffixes."""
        stem = PurePath(self.name).name
        for _ in range(2):
            packed = PurePath(stem).suffix.lower() in (*PACKED_SUFFIXES, *DATA_SUFFIXES)
            stem = PurePath(stem).stem if packed else stem
        return stem

    def open(self) -> Any:
        """Open the file, unpacked; what packed it is known by its first bytes."""
        if self.member is not None:
            with zipfile.ZipFile(self.path) as archive:  # stays open for as long as a member does
                return archive.open(self.member)
        with open(self.path, "rb") as stream:
            start = stream.read(6)
        unpack = next((unpack for mark, unpack in UNPACKERS.items() if start.startswith(mark)), open)
        return unpack(self.path, "rb")


def _open_zstd(path: Path, _mode: str) -> io.BufferedReader:
    pyarrow = need("pyarrow", f"Reading {path.name}, which is compressed by zstd,", "or unpack it first")
    return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"))


#: what opens packed files, by the bytes these start with
UNPACKERS: dict[bytes, Callable[[Path, str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}


def find_paths(path: str | Path, *, any_suffix: bool = False) -> list[Path]:
    """Return the files that a path stands for: one, or those of a folder or a pattern, sorted by name.

    Of a folder these are the data files of one format, the first of DATA_SUFFIXES that occurs, or all files.
    """
    text = os.fspath(path)
    if os.path.isdir(text):
        found = [file for file in sorted(Path(text).rglob("*")) if file.is_file() and _is_data(file, Path(text))]
        if not any_suffix:
            kinds = ([file for file in found if _data_suffix(file) == suffix] for suffix in DATA_SUFFIXES)
            found = next(filter(None, kinds), [])
    elif os.path.exists(text):
        found = [Path(text)]
    elif glob.has_magic(text):
        found = sorted(Path(name) for name in glob.glob(text, recursive=True) if os.path.isfile(name))
    else:
        raise FileNotFoundError(f"{text}: no such file. Check the path.")
    if not found:
        raise FileNotFoundError(f"{text} holds no data file ({', '.join(DATA_SUFFIXES)}). Check the path.")
    return found


def _is_data(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return not hidden and file.name.lower() not in NOT_DATA


def _data_suffix(file: Path) -> str:
    suffix = Path(file.stem if file.suffix.lower() in PACKED_SUFFIXES else file.name).suffix.lower()
    return SAME_FORMAT.get(suffix, suffix)


def find_files(path: str | Path) -> list[File]:
    """Return the files that a path stands for, with those of archives, and a copy of standard input for "-"."""
    if os.fspath(path) == STANDARD_STREAM:
        return [_standard_input()]
    return [file for one in find_paths(path) for file in _members(one)]


def _members(path: Path) -> list[File]:
    with open(path, "rb") as stream:
        start = stream.read(8)
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise FileFormatError(f"{path.name} is an Excel workbook. Save it as CSV and read that.")
    if not start.startswith(b"PK\x03\x04"):
        return [File(path.name, path)]
    with guard(path.name), zipfile.ZipFile(path) as archive:
        names = sorted(info.filename for info in archive.infolist() if not info.is_dir())
    if "[Content_Types].xml" in names:
        raise FileFormatError(f"{path.name} is an Excel workbook. Save it as CSV and read that.")
    wanted = [name for name in names if name.lower().endswith(DATA_SUFFIXES) and not name.startswith("__MACOSX/")]
    if not wanted:
        raise FileFormatError(f"{path.name} is an archive of {names[:3]}, none of which is a data file.")
    return [File(name, path, name) for name in wanted]


def _standard_input() -> File:
    """Copy standard input to a temporary file: it is looked at first and read afterwards."""
    folder = tempfile.TemporaryDirectory()
    copy = Path(folder.name) / "stdin"
    with open(copy, "wb") as target:
        while chunk := sys.stdin.buffer.read(1 << 20):
            target.write(chunk)
    return File("standard input", copy, folder=folder)


@contextmanager
def guard(name: str) -> Iterator[None]:
    """Turn what damaged data raise into a sentence that names the file."""
    try:
        yield
    except UnicodeError as error:
        raise FileFormatError(
            f"{name} is not text in the encoding expected ({error}). Name the right one: encoding=..."
        ) from None
    except RecursionError:
        raise FileFormatError(f"{name} is nested too deeply to be read.") from None
    except (*UNREADABLE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise FileFormatError(f"{name} is damaged or cut short: {error}. Export it again.") from None
