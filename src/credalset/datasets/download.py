"""Where third-party data live, and how they get there: a folder first, the public source second, advice last."""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

ENVIRONMENT = "CREDALSET_DATA"
TIMEOUT = 30.0  # seconds without an answer before a source counts as unreachable
_CHUNK = 1 << 16
#: what NumPy raises on arrays that are cut short, altered or of another kind
UNREADABLE = (
    *(ValueError, KeyError, EOFError, OSError, RuntimeError, MemoryError, SyntaxError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)


class DataNotFoundError(FileNotFoundError):
    """Data are neither in the data folder nor could they be fetched; the message says what to put where."""


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder for third-party data: the argument, else ``CREDALSET_DATA``, else a cache in the home folder.

    Examples
    --------
    >>> data_folder("my-data").name
    'my-data'
    """
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT) or None
    if named is not None:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "credalset"


def download(url: str, *, largest: int, title: str, progress: bool = True) -> bytes:
    """Fetch a file of at most ``largest`` bytes; raises ``OSError`` when that does not work.

    Parameters
    ----------
    url : str
        Public address.
    largest : int
        Bytes beyond which the answer cannot be the file that was asked for.
    title : str
        Shown beside the progress bar.
    progress : bool
        Whether to show a bar (in a terminal, with rich installed).
    """
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    request = Request(url, headers={"User-Agent": "credalset"})
    try:
        with urlopen(request, timeout=TIMEOUT) as answer:
            expected = int(answer.headers.get("Content-Length") or 0)
            if expected > largest:
                raise OSError(f"the answer has {expected} bytes, more than the {largest} that were expected")
            data = _read(answer, expected, largest, title, progress)
    except HTTPException as error:
        raise OSError(f"the connection broke: {error!r}") from None
    if expected and len(data) != expected:
        raise OSError(f"the connection broke after {len(data)} of {expected} bytes")
    return data


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, also if the machine stops in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with staging.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def _read(answer: IO[bytes], expected: int, largest: int, title: str, progress: bool) -> bytes:
    pieces, size = [], 0
    with _bar(title, expected, progress) as advance:
        while piece := answer.read(_CHUNK):
            size += len(piece)
            if size > largest:
                raise OSError(f"the answer goes on beyond the {largest} bytes that were expected")
            pieces.append(piece)
            advance(len(piece))
    return b"".join(pieces)


@contextlib.contextmanager
def _bar(title: str, total: int, wanted: bool) -> Iterator[Any]:
    """Give a function to call with the number of bytes that arrived."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
    except ImportError:
        wanted = False
    if not wanted or not Console(stderr=True).is_terminal:
        yield lambda n: None
        return
    columns = TextColumn(title), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total or None)
        yield lambda n: bar.update(task, advance=n)
