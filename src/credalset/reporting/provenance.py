"""How the page came about: call, versions, date, and checksums of the data."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy

from credalset._version import __version__
from credalset.reporting.inputs import Items
from credalset.sets import CredalSet, QueueRules


def provenance(
    source: Any, sets: CredalSet, items: Items, options: Mapping[str, Any], command: str | None
) -> dict[str, str]:
    """Return what a reader needs to make the page again, by heading."""
    scores = getattr(getattr(source, "calibration_", source), "scores", None)
    counts = items.votes.shares if items.votes.counts is None else items.votes.counts
    found = {
        "made by": command or call(options),
        "from": repr(source) if isinstance(source, CredalSet) else repr(getattr(source, "calibration_", source)),
        "sets": repr(sets),
        "written": written_at(),
        "versions": f"credalset {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}",
        "sha256 of the predictions": checksum(sets.prediction),
        "sha256 of the votes": checksum(counts),
    }
    if scores is not None:
        found["sha256 of the calibration scores"] = checksum(np.asarray(scores))
    return found


def call(options: Mapping[str, Any]) -> str:
    """Write the call with the options that were given; long values only by their number.

    Examples
    --------
    >>> call({"source": object(), "path": "page.html", "alpha": 0.1, "texts": ["a", "b"]})
    "cs.report(source, path='page.html', alpha=0.1, texts=<2 values>)"
    """
    return f"cs.report({', '.join(_argument(name, value) for name, value in options.items())})"


def _argument(name: str, value: Any) -> str:
    if name == "source":
        return "source"
    short = isinstance(value, tuple) and len(value) < 10 and all(isinstance(v, float) for v in value)
    if short or isinstance(value, str | int | float | QueueRules):
        return f"{name}={value!r}"
    shape = getattr(value, "shape", None)
    size = f"array {shape}" if shape else f"{len(value)} values" if hasattr(value, "__len__") else "given"
    return f"{name}=<{size}>"


def written_at() -> str:
    """Return the time in UTC; ``SOURCE_DATE_EPOCH`` sets it, so that the same data give the same file."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return when.strftime("%Y-%m-%d %H:%M UTC")


def checksum(array: Any) -> str:
    """Return a short checksum of an array, its shape included."""
    numbers = np.ascontiguousarray(array, dtype=np.float64)
    return hashlib.sha256(repr(numbers.shape).encode() + numbers.tobytes()).hexdigest()[:16]
