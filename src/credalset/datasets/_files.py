"""Where third-party data are looked for. Nothing is ever fetched."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from credalset._typing import AnyArray
from credalset.exceptions import FileFormatError

ENVIRONMENT = "CREDALSET_DATA"
#: what NumPy raises on arrays that are cut short, altered or of another kind
UNREADABLE = (
    *(ValueError, KeyError, EOFError, OSError, RuntimeError, MemoryError, SyntaxError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)


class DataNotFoundError(FileNotFoundError):
    """Data are not in the data folder; the message says where to get them and where to put them."""


def data_file(name: str, data_dir: str | Path | None, source: str) -> Path:
    """Return the path of a file in the data folder: the argument, else the one that ``CREDALSET_DATA`` names."""
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT)
    if not named:
        raise DataNotFoundError(
            f"data_dir is missing: name the folder that has {name} with data_dir or the environment variable "
            f"{ENVIRONMENT}. {source}"
        )
    path = Path(named) / name
    if not path.is_file():
        raise DataNotFoundError(f"there is no {path}. {source}")
    return path


def read_arrays(path: Path, *names: str) -> list[AnyArray]:
    """Read arrays from an ``.npz`` file."""
    try:
        with path.open("rb") as stream:  # opened here: NumPy leaves a damaged archive open
            loaded = np.load(stream, allow_pickle=False)
            return [loaded[name] for name in names]
    except UNREADABLE as error:
        raise FileFormatError(
            f"{path} cannot be read ({error or type(error).__name__}): it needs the arrays {', '.join(names)}."
        ) from None
