"""Which versions of which packages a saved object was written with, and whether those at hand can read it."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from credalset.exceptions import FileFormatError, warn

RECORDED = ("numpy", "scikit-learn", "skops", "torch")
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})[0-9A-Za-z.+!_-]{0,60}", re.ASCII)


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
    """Return the versions that a manifest records."""
    is_valid = isinstance(value, dict) and all(isinstance(v, str) and _VERSION.fullmatch(v) for v in value.values())
    if not is_valid:
        raise FileFormatError(f"{path} is damaged: its versions are missing or are none.")
    return dict(value)


def check_versions(saved: dict[str, str], files: Iterable[str], path: Path) -> str:
    """Refuse estimators that are known not to load, warn of other differences; return what to say if loading fails."""
    if not any(name.endswith(".skops") for name in files):
        return ""  # arrays and plain values do not depend on versions
    here = installed_versions()
    found = {p: saved[p] for p in ("scikit-learn", "skops") if p in saved and _minor(saved[p]) != _minor(here.get(p))}
    for package, then in found.items():
        now = here.get(package)
        if package == "scikit-learn" and now is not None and _minor(now) < _minor(then):
            raise FileFormatError(
                f"{path} was saved with {package} {then}, and its estimators do not load into older versions such as "
                f"{now}. Install {package}>={then}, or load it there and save what you need."
            )
    pairs = ", ".join(f"{p} {then} (here {here.get(p, 'not installed')})" for p, then in found.items())
    if any(p in here for p in found):
        warn(
            f"{path} was saved with {pairs}. Estimators are not made to move between versions: compare a few "
            "predictions before you rely on it, and save it again."
        )
    return f" It was saved with {pairs}." if pairs else ""


def _minor(version: str | None) -> tuple[int, ...]:
    """Return major and minor version as numbers."""
    match = _VERSION.fullmatch(version or "")
    return (int(match[1]), int(match[2])) if match else ()
