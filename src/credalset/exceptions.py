"""Errors and warnings of credalset; all other errors are ``ValueError`` or ``TypeError``."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["ClusterError", "CredalSetWarning", "FileFormatError", "MissingExtraError"]

_PACKAGE = str(Path(__file__).parent)


class CredalSetWarning(UserWarning):
    """Warning about a valid but surprising result, as an infinite threshold or an empty set."""


class MissingExtraError(ImportError):
    """Error raised if an optional dependency is missing; the message says how to install it."""

    def __init__(self, feature: str, package: str, extra: str, alternative: str = "") -> None:
        other = f" ({alternative})" if alternative else ""
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed. Install it with: "
            f"pip install 'credalset[{extra}]'{other}"
        )


class ClusterError(RuntimeError):
    """Error raised if a Dask cluster fails as scheduler or workers are not available."""


class FileFormatError(ValueError):
    """Error raised if a file is damaged or has an unexpected format.

    The same error is raised if it was written in a newer format of credalset.

    Attributes
    ----------
    untrusted : tuple of str
        If a folder holds estimators of types that are not checked: what `credalset.load` would need
        as ``trusted``. Empty for all other errors.
    """

    untrusted: tuple[str, ...] = ()


def need(
    package: str,
    feature: str = "A table of this kind",
    alternative: str = "",
    *,
    extra: str = "tables",
) -> Any:
    """Import a package of an extra, or raise `MissingExtraError`."""
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError(feature, package.partition(".")[0], extra, alternative) from None


def warn(message: str) -> None:
    """Issue a `CredalSetWarning`, at the line of the user's code from Python 3.12 on."""
    if sys.version_info >= (3, 12):
        warnings.warn(message, CredalSetWarning, skip_file_prefixes=(_PACKAGE,))
    else:
        warnings.warn(message, CredalSetWarning, stacklevel=3)


def __dir__() -> list[str]:
    return list(__all__)
