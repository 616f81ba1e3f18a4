"""Which versions of which packages a saved object was written with, and whether those at hand can read it."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from credalset.exceptions import warn
from credalset.persistence.plain import require

RECORDED = ("numpy", "scikit-learn", "skops", "torch")
#: by the ending of a file's name: the packages of which another minor version may read its contents differently
NEEDED = {".skops": ("scikit-learn", "skops"), ".safetensors": ("torch",)}
#: packages whose objects are known not to load into an older minor version: attributes are missing, or whole classes
NEVER_BACK = ("scikit-learn",)


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that saved objects may depend on, without importing them."""
    found = {"python": platform.python_version()}
    for package in RECORDED:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def read_versions(value: Any, path: Path) -> dict[str, str]:
    """Return the versions that a manifest records; none, if it was written before they were recorded."""
    if value is None:
        return {}
    is_valid = isinstance(value, dict) and all(isinstance(version, str) for version in value.values())
    require(is_valid, f"{path} is damaged: versions are missing or of the wrong type.")
    return dict(value)


def check_versions(saved: dict[str, str], files: Iterable[str], path: str | Path) -> str:
    """Refuse what is known not to load, warn of other differences; return what to say if loading fails."""
    here = installed_versions()
    endings = {Path(name).suffix for name in files}
    needed = [package for ending, packages in NEEDED.items() if ending in endings for package in packages]
    known = {package: (saved[package], here.get(package)) for package in needed if package in saved}
    found = {package: (then, now) for package, (then, now) in known.items() if _minor(then) != _minor(now)}
    if not found:
        return ""
    for package, (then, now) in found.items():
        too_old = package in NEVER_BACK and now is not None and (_minor(now) or ()) < (_minor(then) or ())
        require(
            not too_old,
            f"{path} was saved with {package} {then}, and its estimators do not load into older versions such as "
            f"{now}. Install {package}>={then}, or load it there and save what you need.",
        )
    pairs = ", ".join(f"{package} {then} (here {now or 'not installed'})" for package, (then, now) in found.items())
    if any(now is not None for _, now in found.values()):
        warn(
            f"{path} was saved with {pairs}. Estimators are not made to move between versions: compare a few "
            "predictions before you rely on it, and save it again."
        )
    return f" It was saved with {pairs}."


def _minor(version: str | None) -> tuple[int, ...] | None:
    """Return major and minor version as numbers, None if they are not numbers."""
    parts = (version or "").split("+")[0].split(".")[:2]
    return tuple(int(part) for part in parts) if len(parts) == 2 and all(p.isdigit() for p in parts) else None
