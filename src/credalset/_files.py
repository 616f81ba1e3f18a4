"""Write files and folders whole or not at all, even if the machine stops in between.

Everything is written under a hidden name beside its destination and renamed into place once it is
on the disk. An older folder is exchanged with the new one in one step where the system can (Linux);
elsewhere two renames are needed, and a machine that dies between them leaves whole copies under
hidden names, which `find_leftovers` lists.

A folder that a job fills file by file is taken with `taken`, so that no two jobs write to it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from credalset.exceptions import warn

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: a text that a spreadsheet may run: it begins with one of these, also full-width, and is not a
#: number
FORMULA = re.compile(r"^\s*[=+\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"^[+\-]?(\d+[.,]?\d*|[.,]\d+)([eE][+\-]?\d+)?$")
UNFINISHED = ".part"  # end of the hidden names
LOCK = ".lock"  # in a folder that a job writes to; says who that is
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}  # a name that was to be new
#: what a file system answers that has no locks, or none on folders
LOCKLESS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF}
NO_LOCK = -1
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_under_way: set[Path] = set()  # hidden names that this process writes to


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Give a hidden name to write a file to; once written, it replaces the file at ``path``."""
    with _reserved(path, Path.touch) as staging:
        yield staging
        _sync(staging)
        staging.replace(path)


def write_file(path: Path, data: bytes) -> None:
    """Write a file, replacing an older one; folders above it are created."""
    with staged(path) as staging:
        staging.write_bytes(data)


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with files by name, replacing an older folder; parent folders are created."""
    with _reserved(path, Path.mkdir) as staging:
        for name, data in files.items():
            (staging / name).write_bytes(data)
            _sync(staging / name)
        _swap_in(staging, path)


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Give a hidden folder to write into; once written, it replaces the folder at ``path``."""
    with _reserved(path, Path.mkdir) as staging:
        yield staging
        for each in staging.rglob("*"):
            if each.is_file():
                _sync(each)
        _swap_in(staging, path)


def quote_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula.

    For every CSV with others' texts.

    Examples
    --------
    >>> [quote_formula(text) for text in ("=1+1", "-5", "@SUM(A1)", "cat")]
    ["'=1+1", '-5', "'@SUM(A1)", 'cat']
    """
    return f"'{text}" if FORMULA.search(text) and not NUMBER.search(text) else text


def find_leftovers(path: Path) -> list[Path]:
    """Return what stands beside ``path`` under hidden names: writes under way or cut off."""
    return sorted(path.parent.glob(f".{path.name}.*{UNFINISHED}")) if path.name else []


def sweep(path: Path) -> None:
    """Remove leftovers of writers that died; those of writers at work are locked and stay."""
    _remove_dead(find_leftovers(path))


def sweep_folder(folder: Path) -> None:
    """Remove all that writers who died left in a folder under hidden names; see `sweep`."""
    _remove_dead(sorted(folder.glob(f".*{UNFINISHED}")))


def _remove_dead(leftovers: list[Path]) -> None:
    for leftover in leftovers:
        with suppress(BlockingIOError, FileNotFoundError):
            handle = _lock(leftover, os.O_RDONLY)
            if handle != NO_LOCK:  # without locks, nobody can tell who is at work
                _remove(leftover)
                os.close(handle)


@contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder for as long as this process writes to it.

    The lock is held by the process, so that it ends with it, however that may happen.

    Raises
    ------
    BlockingIOError
        If another process writes to the folder; the message says which.
    """
    path = folder / LOCK
    handle = None
    while handle is None:
        try:
            handle = _lock(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # the writer before removed the file while it was opened
            continue
        except BlockingIOError:
            raise BlockingIOError(
                f"{folder} is being written by {_writer(path)}. Wait until it is done, or choose "
                "another folder."
            ) from None
    if handle == NO_LOCK:
        path.unlink(missing_ok=True)
        warn(f"{folder} is where files have no locks: make sure that nobody else writes to it.")
        yield
        return
    try:
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {platform.node()} since {now}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _writer(lock: Path) -> str:
    """Return who says that it has a lock."""
    with suppress(OSError):
        return lock.read_text(encoding="utf-8", errors="replace") or "another process"
    return "another process"


@contextmanager
def _reserved(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Make a hidden file or folder, locked while this process works on it; remove what is left.

    Errors of a full disk, which the system reports without a name, name the destination.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = None
    while handle is None:
        staging = _hidden_name(path)
        _under_way.add(staging)
        make(staging)
        # Another process may sweep it away before it is locked.
        with suppress(BlockingIOError, FileNotFoundError):
            handle = _lock(staging, os.O_RDONLY)
    try:
        yield staging
    except OSError as error:
        number = errno.ENOSPC if "No space left" in str(error) else error.errno
        if number not in FULL or error.filename not in (None, str(staging)):
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
    finally:
        _remove(staging)
        _under_way.discard(staging)
        if handle != NO_LOCK:
            os.close(handle)
    sweep(path)


def remove_unfinished() -> None:
    """Remove what this process is writing now, before it ends without coming back to it."""
    for staging in list(_under_way):
        _remove(staging)


def _lock(path: Path, flags: int) -> int:
    """Open and lock a file or folder, until the handle is closed or the process ends.

    Return the handle, or `NO_LOCK` if the system or the file system has no locks.

    Raises
    ------
    BlockingIOError
        If another handle has the lock.
    FileNotFoundError
        If there is no such file, or no longer.
    """
    if fcntl is None:
        return NO_LOCK
    handle = os.open(path, flags)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), path.stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except OSError as error:
        os.close(handle)
        if error.errno in LOCKLESS:
            return NO_LOCK
        raise
    return handle


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _hidden_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}")


def _sync(path: Path) -> None:
    """Wait until a file is on the disk, so that a name never comes before the contents."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _swap_in(staging: Path, path: Path) -> None:
    if _take_free_name(staging, path) or _exchange(staging, path):
        return
    retired = _hidden_name(path)
    # Between the renames only hidden names are left, which `load` names.
    _under_way.discard(staging)
    path.rename(retired)
    try:
        staging.rename(path)
    except BaseException:
        retired.rename(path)  # if this fails too, the old folder stays where it is, whole
        raise
    shutil.rmtree(retired, ignore_errors=True)


def _take_free_name(staging: Path, path: Path) -> bool:
    """Rename a folder unless the name is taken, which another process may do at any moment."""
    try:
        staging.rename(path)
    except OSError as error:
        if error.errno not in OCCUPIED:
            raise
        return False
    return True


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(
        rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0
    )
