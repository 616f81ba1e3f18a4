"""Directories of plain files, written atomically and read without trust.

A bundle is a directory with ``manifest.json`` (format, version, kind, plain values, size and SHA-256 of every other
file, and a SHA-256 of all that), numeric arrays in an uncompressed ``.npz`` file, and opaque files that other readers
check themselves. Nothing in it is pickled and nothing is executed on reading. A reader never sees half a bundle: see
`credalset._files`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from credalset._files import write_folder
from credalset._typing import AnyArray
from credalset._version import __version__
from credalset.exceptions import FileFormatError
from credalset.persistence.plain import is_whole, refusing, require
from credalset.persistence.versions import installed_versions, read_versions

FORMAT = "credalset"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.npz"
PICKLES = (".joblib", ".pickle", ".pkl")
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_FIELDS = {"credalset_version": str, "kind": str, "values": dict, "files": dict, "sha256": str}
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass
class Bundle:
    """What a bundle holds: its kind, plain values, arrays and opaque files; and the versions it was written with."""

    kind: str
    values: dict[str, Any]
    arrays: dict[str, AnyArray] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def write_bundle(path: str | Path, bundle: Bundle) -> None:
    """Write a bundle to a directory, replacing an earlier bundle there and nothing else."""
    target = Path(os.path.abspath(path))
    _refuse_foreign(target)
    files = dict(bundle.files)
    if bundle.arrays:
        files[ARRAYS] = _pack_arrays(bundle.arrays)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "credalset_version": __version__,
        "versions": installed_versions(),
        "kind": bundle.kind,
        "values": bundle.values,
        "files": {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()},
    }
    manifest["sha256"] = manifest_digest(manifest)
    text = json.dumps(manifest, indent=2, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > MAX_MANIFEST_BYTES:
        raise ValueError(f"the names and parameters take {len(text)} bytes; at most {MAX_MANIFEST_BYTES} can be saved.")
    write_folder(target, {**files, MANIFEST: text})


def read_bundle(path: str | Path) -> Bundle:
    """Read a bundle, refusing anything damaged, foreign or newer than this version understands."""
    directory = Path(path)
    if not directory.exists():
        raise FileNotFoundError(f"there is nothing at {directory}. Give the directory that save() wrote.")
    if directory.is_file() and directory.suffix.lower() in PICKLES:
        raise FileFormatError(
            f"{path} was written by joblib or pickle, which credalset never opens, as such a file can run any code. If "
            "you trust it, read it with what wrote it; to keep an object with credalset, write clf.save(directory)."
        )
    manifest = _read_manifest(directory)
    contents = {name: _read_checked(directory, name, entry) for name, entry in manifest["files"].items()}
    archive = contents.pop(ARRAYS, None)
    arrays = {} if archive is None else _unpack_arrays(archive, directory / ARRAYS)
    versions = read_versions(manifest.get("versions"), directory / MANIFEST)
    return Bundle(manifest["kind"], manifest["values"], arrays, contents, versions)


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest's contents, whatever its line breaks and order, without its own entry."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, allow_nan=False).encode()).hexdigest()


def open_stored_zip(data: bytes) -> zipfile.ZipFile:
    """Open a zip archive in memory, refusing one that could unpack to more than it is."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = archive.infolist()
    if any(m.compress_type != zipfile.ZIP_STORED for m in members) or sum(m.file_size for m in members) > len(data):
        raise FileFormatError("has an archive that is compressed or inconsistent; it was not written by credalset.")
    return archive


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    is_file = path.is_file() and not path.is_symlink()
    require(is_file, f"{directory} was not written by credalset: it has no {MANIFEST}.")
    is_small = path.stat().st_size <= MAX_MANIFEST_BYTES
    require(is_small, f"{path} is larger than {MAX_MANIFEST_BYTES} bytes; it was not written by credalset.")
    with refusing(f"{path} is damaged and cannot be read as JSON"):
        text = path.read_text(encoding="utf-8")
        manifest = json.loads(text, parse_float=_finite_float, parse_constant=_finite_float)
        is_own = isinstance(manifest, dict) and manifest.get("format") == FORMAT
        require(is_own, f"{path} was not written by credalset.")
        digest = manifest_digest(manifest)
    version = manifest.get("format_version")
    require(is_whole(version) and version >= 1, f"{path} has no valid format_version.")
    newer = f"{path} has format version {version}, but this credalset ({__version__}) reads up to {FORMAT_VERSION}."
    require(version <= FORMAT_VERSION, f"{newer} Upgrade credalset.")
    wrong = [key for key, kind in _FIELDS.items() if not isinstance(manifest.get(key), kind)]
    require(not wrong, f"{path} is damaged: {', '.join(wrong)} missing or of the wrong type.")
    require(manifest["sha256"] == digest, f"{path} is damaged: its contents differ from their checksum.")
    return manifest


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _read_checked(directory: Path, name: str, entry: Any) -> bytes:
    path = directory / name
    is_beside = _SAFE_NAME.fullmatch(name) and not path.is_symlink()
    require(is_beside, f"{directory / MANIFEST} names the file {name!r}, which is not a plain file beside it.")
    is_there = isinstance(entry, dict) and path.is_file()
    require(is_there, f"{path} is missing. Save again or restore the whole directory.")
    size, expected = path.stat().st_size, entry.get("bytes")
    require(size == expected, f"{path} is damaged: it has {size} bytes instead of {expected}.")
    data = path.read_bytes()
    is_same = hashlib.sha256(data).hexdigest() == entry.get("sha256")
    require(is_same, f"{path} is damaged: its checksum differs from the one in {MANIFEST}.")
    return data


def _pack_arrays(arrays: dict[str, AnyArray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack_arrays(data: bytes, path: Path) -> dict[str, AnyArray]:
    """Read numeric arrays from an uncompressed ``.npz``; sizes are checked before anything is allocated."""
    try:
        with open_stored_zip(data) as archive:
            return {name.removesuffix(".npy"): _read_array(archive.read(name)) for name in archive.namelist()}
    except FileFormatError as error:
        raise FileFormatError(f"{path} {error}") from None
    except Exception as error:  # whatever a forged archive makes zipfile or NumPy trip over
        raise FileFormatError(f"{path} is damaged: {error}.") from None


def _read_array(data: bytes) -> AnyArray:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    require(version == (1, 0), f"holds an array of an unknown format {version}.")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    is_plain = not dtype.hasobject and dtype.kind in "biuf"
    require(is_plain, f"holds an array of dtype {dtype}; only plain numbers are read.")
    fits = min(shape, default=0) >= 0 and math.prod(shape) * dtype.itemsize == len(data) - stream.tell()
    require(fits, f"holds an array whose size does not match its shape {shape}.")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _refuse_foreign(target: Path) -> None:
    """Refuse to replace anything but an empty directory or a bundle with nothing else in it."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a directory. Choose another path.")
    present = {entry.name for entry in target.iterdir()} if target.is_dir() else set()
    if not present:
        return
    try:
        own = {MANIFEST, *_read_manifest(target)["files"]}
    except FileFormatError as error:
        raise FileExistsError(
            f"{target} is not empty and does not hold a saved object: {error} Choose another directory."
        ) from None
    if present - own:
        raise FileExistsError(
            f"{target} also holds {sorted(present - own)[0]!r}, which was not written by credalset and would be lost. "
            "Choose another directory."
        )
