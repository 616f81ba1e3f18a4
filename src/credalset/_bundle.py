"""Directories of plain files, written atomically and read without trust.

A bundle is a directory with ``manifest.json`` (format, version, kind, plain values, and size and SHA-256 of every
other file), numeric arrays in uncompressed ``.npz`` files, and opaque files that other readers check themselves.
Nothing in it is pickled and nothing is executed on reading. A bundle is written beside its destination and renamed
into place, so a reader never sees half of one. (Replacing an older bundle takes two renames; a machine that dies
between them leaves the old one whole in a hidden directory beside the path.)
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import shutil
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray
from credalset._version import __version__
from credalset.exceptions import FileFormatError

FORMAT = "credalset"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass
class Bundle:
    """What a bundle holds: its kind, plain values, arrays and opaque files."""

    kind: str
    values: dict[str, Any]
    arrays: dict[str, AnyArray] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def write_bundle(path: str | Path, bundle: Bundle) -> None:
    """Write a bundle to a directory, replacing an earlier bundle there and nothing else."""
    target = Path(path)
    _refuse_foreign(target)
    files = dict(bundle.files)
    if bundle.arrays:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **bundle.arrays)
        files["arrays.npz"] = buffer.getvalue()
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "credalset_version": __version__,
        "kind": bundle.kind,
        "values": bundle.values,
        "files": {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()},
    }
    text = json.dumps(manifest, indent=2, allow_nan=False, ensure_ascii=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, data in {**files, MANIFEST: text.encode()}.items():
            _write_synced(staging / name, data)
        staging.chmod(0o777 & ~_umask())
        _swap_in(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read_bundle(path: str | Path) -> Bundle:
    """Read a bundle, refusing anything damaged, foreign or newer than this version understands."""
    directory = Path(path)
    if not directory.exists():
        raise FileNotFoundError(f"there is nothing at {directory}. Give the directory that save() wrote.")
    if not (directory / MANIFEST).is_file():
        raise FileFormatError(f"{directory} was not written by credalset: it has no {MANIFEST}.")
    manifest = _read_manifest(directory)
    contents = {name: _read_checked(directory, name, entry) for name, entry in manifest["files"].items()}
    archive = contents.pop("arrays.npz", None)
    arrays = {} if archive is None else _read_arrays(archive, directory / "arrays.npz")
    return Bundle(manifest["kind"], manifest["values"], arrays, contents)


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise FileFormatError(f"{path} is larger than {MAX_MANIFEST_BYTES} bytes; it was not written by credalset.")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged and cannot be read as JSON: {error}.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileFormatError(f"{path} was not written by credalset.")
    version = manifest.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FileFormatError(f"{path} has no valid format_version.")
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{path} has format version {version}, but this credalset ({__version__}) reads up to {FORMAT_VERSION}. "
            "Upgrade credalset."
        )
    shapes = {"kind": str, "values": dict, "files": dict}
    wrong = [key for key, kind in shapes.items() if not isinstance(manifest.get(key), kind)]
    if wrong:
        raise FileFormatError(f"{path} is damaged: {', '.join(wrong)} missing or of the wrong type.")
    return manifest


def _read_checked(directory: Path, name: str, entry: Any) -> bytes:
    path = directory / name
    if not _SAFE_NAME.fullmatch(name) or path.is_symlink():
        raise FileFormatError(f"{directory / MANIFEST} names the file {name!r}, which is not a plain file beside it.")
    if not isinstance(entry, dict) or not path.is_file():
        raise FileFormatError(f"{path} is missing. Save again or restore the whole directory.")
    size = path.stat().st_size
    if size != entry.get("bytes"):
        raise FileFormatError(f"{path} is damaged: it has {size} bytes instead of {entry.get('bytes')}.")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise FileFormatError(f"{path} is damaged: its checksum differs from the one in {MANIFEST}.")
    return data


def _read_arrays(data: bytes, path: Path) -> dict[str, AnyArray]:
    """Read numeric arrays from an uncompressed ``.npz``; sizes are checked before anything is allocated."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > len(data) for m in members):
                raise FileFormatError(f"{path} is compressed or inconsistent; it was not written by credalset.")
            return {m.filename.removesuffix(".npy"): _read_array(archive.read(m), path) for m in members}
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, RuntimeError) as error:
        raise FileFormatError(f"{path} is damaged: {error}.") from None


def _read_array(data: bytes, path: Path) -> AnyArray:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise FileFormatError(f"{path} holds an array of an unknown format {version}.")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    except ValueError as error:
        raise FileFormatError(f"{path} holds a damaged array: {error}.") from None
    if dtype.hasobject or dtype.kind not in "biuf":
        raise FileFormatError(f"{path} holds an array of dtype {dtype}; only plain numbers are read.")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise FileFormatError(f"{path} holds an array whose size does not match its shape {shape}.")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _refuse_foreign(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a directory. Choose another path.")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise FileExistsError(f"{target} is not empty and was not written by credalset. Choose another directory.")


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _swap_in(staging: Path, target: Path) -> None:
    if not target.exists():
        staging.rename(target)
        return
    retired = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    target.rename(retired / "old")
    try:
        staging.rename(target)
    except BaseException:
        (retired / "old").rename(target)
        raise
    finally:
        shutil.rmtree(retired, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
