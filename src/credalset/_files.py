"""Write files and folders so that they are there whole or not at all, even if the machine stops in between.

Everything is written under a hidden name beside its destination and then renamed into place. Replacing an older folder
takes two renames; a machine that dies between them leaves the old one whole in a hidden folder beside the path.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".part"  # end of the hidden names


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Give a hidden name to write a file to; once it is written, it replaces an older file at ``path``."""
    staging = _hidden_name(path)
    try:
        yield staging
        _sync(staging)
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a file, replacing an older one; folders above it are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with staged(path) as staging:
        staging.write_bytes(data)


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with files by name, replacing an older folder; folders above it are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = _hidden_name(path)
    staging.mkdir()
    try:
        for name, data in files.items():
            (staging / name).write_bytes(data)
            _sync(staging / name)
        _swap_in(staging, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _hidden_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}")


def _sync(path: Path) -> None:
    """Wait until a file is on the disk, so that a name never comes before the contents."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _swap_in(staging: Path, path: Path) -> None:
    if not path.exists():
        staging.rename(path)
        return
    retired = _hidden_name(path)
    retired.mkdir()
    try:
        path.rename(retired / "old")
        staging.rename(path)
    except BaseException:
        if (retired / "old").exists():
            (retired / "old").rename(path)  # if this fails too, the old folder stays where it is, whole
        retired.rmdir()
        raise
    shutil.rmtree(retired, ignore_errors=True)
