"""Folders of saved objects: a manifest with checksums of all files, read without trust."""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from credalset._files import find_leftovers, write_folder
from credalset._typing import AnyArray
from credalset._version import __version__
from credalset.exceptions import FileFormatError, warn

FORMAT, FORMAT_VERSION = "credalset", 2
MANIFEST, ARRAYS = "manifest.json", "arrays.npz"
MAX_MANIFEST = 1 << 19  # bytes; JSON takes up to forty times as much once it is parsed
MAX_FILE = 1 << 31  # bytes
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
NUMBERS = "biuf"  # kinds of arrays
DEPENDED_ON = ("scikit-learn", "skops")  # packages that read their own objects only
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})[0-9A-Za-z.+!_-]{0,60}")


def require(condition: Any, sentence: str) -> None:
    """Raise `FileFormatError` unless a condition holds; `load` puts the path before it."""
    if not condition:
        raise FileFormatError(sentence)


@contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """Turn any error that the values of a file cause into `FileFormatError`."""
    try:
        yield
    except (FileFormatError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{sentence}: {error}") from error


def write_object(
    target: Path,
    tree: Any,
    arrays: dict[str, AnyArray],
    files: dict[str, bytes],
    packages: Iterable[str] = (),
) -> None:
    """Write the folder of an object, replacing an object that was saved there and nothing else."""
    _refuse_foreign(target)
    if arrays:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        files = {**files, ARRAYS: buffer.getvalue()}
    for name, data in files.items():
        if len(data) > MAX_FILE:
            raise ValueError(
                f"{name} would have {len(data)} bytes, but at most {MAX_FILE} can be saved and "
                "loaded."
            )
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "credalset_version": __version__,
    }
    manifest |= {"versions": _versions({"numpy", *packages}), "object": tree}
    manifest |= {"files": {name: _entry(data) for name, data in sorted(files.items())}}
    manifest["sha256"] = manifest_digest(manifest)
    text = json.dumps(manifest, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > MAX_MANIFEST:
        raise ValueError(
            f"names and parameters take {len(text)} bytes of JSON, but at most {MAX_MANIFEST} can "
            "be saved. Name items by texts or whole numbers, and use fewer groups."
        )
    write_folder(target, {**files, MANIFEST: text})


def _entry(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read_object(folder: Path) -> tuple[Any, dict[str, AnyArray], dict[str, bytes], str]:
    """Read the folder of an object: its tree, arrays and files, and a note on versions.

    The note is for the case that building the object fails.
    """
    if not folder.exists():
        whole = [str(copy) for copy in find_leftovers(folder) if (copy / MANIFEST).is_file()]
        found = f" A save was cut off; a whole copy is {whole[0]}: rename it." if whole else ""
        raise FileNotFoundError(
            f"there is nothing at {folder}. Give the folder that save() wrote.{found}"
        )
    manifest = read_manifest(folder)
    remark = check_versions(manifest.get("versions"))
    files = {name: _read_checked(folder, name, entry) for name, entry in manifest["files"].items()}
    return (
        manifest["object"],
        _unpack_arrays(files.pop(ARRAYS)) if ARRAYS in files else {},
        files,
        remark,
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a saved object, refusing what is damaged, foreign or newer."""
    path = folder / MANIFEST
    foreign = (
        f"was not written by credalset: its {MANIFEST} is missing, too large, or of "
        "another program."
    )
    require(
        path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_MANIFEST, foreign
    )
    with refusing(f"has a damaged {MANIFEST}"):
        manifest: Any = json.loads(path.read_text(encoding="utf-8"))
        require(isinstance(manifest, dict) and manifest.get("format") == FORMAT, foreign)
        version = manifest.get("format_version")
        advice = (
            "Upgrade credalset."
            if type(version) is int and version > FORMAT_VERSION
            else "Save it again."
        )
        require(
            version == FORMAT_VERSION,
            f"has format version {version!r}, not {FORMAT_VERSION}. {advice}",
        )
        is_whole = isinstance(manifest.get("files"), dict) and "object" in manifest
        is_whole = is_whole and manifest.get("sha256") == manifest_digest(manifest)
    require(is_whole, f"has a damaged {MANIFEST}: its contents differ from their checksum.")
    found: dict[str, Any] = manifest
    return found


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest's contents without its own entry.

    Line breaks and order do not matter.

    NaN and infinity, which JSON does not have, raise ValueError.
    """
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_checked(folder: Path, name: str, entry: Any) -> bytes:
    path = folder / name
    is_beside = (
        SAFE_NAME.fullmatch(name)
        and path.is_file()
        and not path.is_symlink()
        and isinstance(entry, dict)
    )
    require(is_beside, f"has no file {name!r}. Restore the whole folder, or save again.")
    size = path.stat().st_size
    require(
        size == entry.get("bytes"),
        f"has a damaged {name}: {size} bytes instead of {entry.get('bytes')}.",
    )
    require(size <= MAX_FILE, f"has a {name} of {size} bytes, but at most {MAX_FILE} are read.")
    data = path.read_bytes()
    require(
        _entry(data) == entry,
        f"has a damaged {name}: its checksum differs from the one in {MANIFEST}.",
    )
    return data


def open_stored_zip(data: bytes) -> zipfile.ZipFile:
    """Open a zip archive in memory, refusing one that could unpack to more than it is."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = archive.infolist()
    is_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    fits_in = sum(member.file_size for member in members) <= len(data)
    is_single = len({member.filename for member in members}) == len(members)
    require(
        is_stored and fits_in and is_single, "has an archive that is compressed or inconsistent."
    )
    return archive


def _unpack_arrays(data: bytes) -> dict[str, AnyArray]:
    with refusing(f"has a damaged {ARRAYS}"), open_stored_zip(data) as archive:
        return {
            name.removesuffix(".npy"): _read_array(archive.read(name))
            for name in archive.namelist()
        }


def _read_array(data: bytes) -> AnyArray:
    dtype = check_array(data)
    require(
        dtype.kind in NUMBERS and dtype.names is None,
        f"has an array of {dtype}; only numbers are read.",
    )
    return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))


def check_array(data: bytes) -> np.dtype[Any]:
    """Return the type of an array in NumPy's format; its size must be what its header says."""
    stream = io.BytesIO(data)
    require(np.lib.format.read_magic(stream) == (1, 0), "has an array of an unknown format.")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    is_plain = not dtype.hasobject and dtype.itemsize > 0 and dtype.shape == ()
    is_whole = math.prod(shape) * dtype.itemsize == len(data) - stream.tell()
    is_real = all(0 <= size <= len(data) for size in shape)
    require(
        is_plain and is_whole and is_real,
        f"has an array of {dtype} and shape {shape} that is not stored there.",
    )
    return dtype


def _refuse_foreign(target: Path) -> None:
    """Refuse to replace anything but an empty folder or a saved object with nothing else in it."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a folder. Choose another path.")
    present = {entry.name for entry in target.iterdir()} if target.is_dir() else set()
    try:
        other = sorted(present - {MANIFEST, *read_manifest(target)["files"]}) if present else []
    except FileFormatError as error:
        raise FileExistsError(f"{target} {error} Choose another folder.") from None
    if other:
        raise FileExistsError(
            f"{target} also holds {other[0]!r}, which would be lost. Choose another folder."
        )


# --- versions ---


def _versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of installed packages, without importing them."""
    found = {"python": platform.python_version()}
    for package in sorted(packages):
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def check_versions(saved: Any) -> str:
    """Refuse estimators of newer versions, warn of older ones; return a hint for failures."""
    is_valid = isinstance(saved, dict) and all(
        isinstance(v, str) and _VERSION.fullmatch(v) for v in saved.values()
    )
    require(is_valid, f"has a damaged {MANIFEST}: its versions are missing or not valid.")
    here = _versions(DEPENDED_ON)
    other = [
        p for p in DEPENDED_ON if p in saved and p in here and _minor(saved[p]) != _minor(here[p])
    ]
    pairs = ", ".join(f"{package} {saved[package]} (here {here[package]})" for package in other)
    newer = ", ".join(
        package for package in other if _minor(saved[package]) > _minor(here[package])
    )
    require(
        not newer,
        f"was saved with {pairs}, and estimators do not load into older versions. Upgrade {newer}.",
    )
    if other:
        warn(
            f"a model was saved with {pairs}. Estimators are not made to move between versions: "
            "compare a few predictions before you rely on it, and save it again."
        )
    return f" It was saved with {pairs}." if pairs else ""


def _minor(version: str) -> list[int]:
    """Return major and minor version as numbers."""
    found = _VERSION.match(version)
    return [int(number) for number in found.groups()] if found else []
