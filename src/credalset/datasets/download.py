"""Where third-party data live, and how they get there: a folder first, the public source second, advice last."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from credalset._files import write_file
from credalset.exceptions import FileFormatError

ENVIRONMENT = "CREDALSET_DATA"
TIMEOUT = 30.0  # seconds without an answer before a source counts as unreachable
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


@contextmanager
def reading(path: Path, needed: str) -> Iterator[Any]:
    """Open an ``.npy`` or ``.npz`` file; whatever goes wrong with it inside is reported as a damaged file.

    Parameters
    ----------
    path : path
        The file.
    needed : str
        Names of the arrays it has to have, for the message.
    """
    try:
        with path.open("rb") as stream:  # opened here: NumPy leaves a damaged archive open
            yield np.load(stream, allow_pickle=False)
    except UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise FileFormatError(
            f"{path} cannot be read: {reason}. It needs the arrays {needed}; put an intact copy there."
        ) from None


def fetch(
    title: str,
    url: str,
    folder: Path,
    *,
    largest: int,
    missing: str,
    put: str,
    unpack: Callable[[bytes], Mapping[str, bytes]],
    may_download: bool,
) -> Mapping[str, bytes]:
    """Fetch files that are missing in a folder and keep them there, or say how to get them.

    Parameters
    ----------
    title, url, folder, largest
        What the data are called, where they are, where they belong, and how many bytes they have at most.
    missing, put : str
        What the folder lacks, and what to do with the file at ``url``, for the message.
    unpack : callable
        Makes checked files, by their path in the folder, of what was fetched.
    may_download : bool
        Whether to fetch anything at all.
    """
    named = f"or name the folder that has what is missing with data_dir or the environment variable {ENVIRONMENT}"
    advice = f"Fetch {url}{put}, {named}."
    if not may_download:
        raise DataNotFoundError(f"{title} is not in {folder}: {missing}. {advice}")
    try:
        data = download(url, largest=largest)
    except OSError as error:
        raise DataNotFoundError(f"{title} is not in {folder}, and fetching it failed ({error}). {advice}") from None
    files = unpack(data)
    try:
        for name, content in files.items():
            write_file(folder / name, content)
    except OSError as error:
        raise DataNotFoundError(f"{title} was fetched, but {folder} cannot be written ({error}). {advice}") from None
    return files


def download(url: str, *, largest: int) -> bytes:
    """Fetch a file of at most ``largest`` bytes; raises ``OSError`` when that does not work."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, headers={"User-Agent": "credalset"}), timeout=TIMEOUT) as answer:
            expected = int(answer.headers.get("Content-Length") or 0)
            data = bytes(answer.read(largest + 1)) if expected <= largest else b""
    except HTTPException as error:
        raise OSError(f"the connection broke: {error!r}") from None
    if max(expected, len(data)) > largest:
        raise OSError(f"the answer has {max(expected, len(data))} bytes or more, and {largest} were expected")
    if expected and len(data) != expected:
        raise OSError(f"the connection broke after {len(data)} of {expected} bytes")
    return data
