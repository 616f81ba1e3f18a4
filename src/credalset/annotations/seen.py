"""Which items a model or a calibration has had: digests of their names, so that reuse is noticed. No name is kept."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from credalset._typing import AnyArray
from credalset.annotations.labels import Numbers, plain_names, shown

#: digests that are kept at most, the smallest ones: those of the same names, in whatever order they come
LARGEST = 1_000_000
#: rows without names that stand for all
SAMPLED = 100
#: numbers are names if the largest is so many times their number: below that, they count the rows of a table
SPARSE = 100

NOTHING: AnyArray = np.zeros(0, dtype=np.uint64)


def digests(items: Any, rows: Any = None) -> AnyArray:
    """Return sorted 64-bit digests of the names of items; without names one of the rows as a whole, if they are given.

    Numbers that count the rows of a table are no names: the same ones in two tables say nothing.

    Examples
    --------
    >>> len(digests(["a", "b", "b"])), len(digests([0, 1, 2])), len(digests([70310, 92077]))
    (2, 0, 2)
    >>> len(digests(None, np.eye(3)))
    1
    """
    keys = _names(items) or _summary(rows)
    return np.unique(np.array([_digest(key) for key in keys], dtype=np.uint64))[:LARGEST]


def reused(known: AnyArray, items: Any, rows: Any = None) -> str:
    """Say which items, or rows without names, have these digests; an empty text if none has.

    Examples
    --------
    >>> reused(digests(["a", "b"]), ["b", "c"])
    "1 of 2 items (first: 'b')"
    """
    if not len(known):
        return ""
    names, used = _names(items), set(known.tolist())
    again = [key for key in names or _summary(rows) if _digest(key) in used]
    if not again or not names:
        return "These very items" if again else ""
    return f"{len(again)} of {len(names)} items (first: {shown(again, 3)})"


def _names(items: Any) -> list[Any]:
    """Return the names that tell items apart in other tables too."""
    if items is None or isinstance(items, range | Numbers):
        return []
    names = plain_names(items)
    numbers = [_as_number(name) for name in names]
    largest = max((number for number in numbers if number is not None), default=0.0)
    counting = largest < SPARSE * len(names)
    return [name for name, number in zip(names, numbers, strict=True) if number is None or not counting]


def _as_number(name: Any) -> float | None:
    """Return the number that a name is, a text or the largest part of a tuple; None of a name that is none."""
    if isinstance(name, tuple):
        parts = [_as_number(part) for part in name]
        return max((part for part in parts if part is not None), default=0.0) if None not in parts else None
    if isinstance(name, str):
        return float(name) if name.isdecimal() and len(name) < 16 else None
    if name is None or (isinstance(name, float) and not np.isfinite(name)):
        return 0.0  # names nothing
    return float(name) if isinstance(name, int | float) else None


def _summary(rows: Any) -> list[str]:
    """Return a text that hardly any two data sets share; none of no rows, and of what cannot be looked at."""
    try:
        n = 0 if rows is None else rows.shape[0] if hasattr(rows, "shape") else len(rows)
        taken = np.linspace(0, n - 1, min(n, SAMPLED)).astype(int)
        return [f"{n} rows {blake2b(_bytes(rows, taken)).hexdigest()}"] if n else []
    except Exception:  # features may be anything that an estimator reads, and this is no reason to refuse them
        return []


def _bytes(rows: Any, taken: AnyArray) -> bytes:
    if hasattr(rows, "tocsr"):
        some = rows.tocsr()[taken]
        return b"".join(part.tobytes() for part in (some.indptr, some.indices, some.data))
    table = getattr(rows, "iloc", rows)
    found = np.asarray([table[i] for i in taken] if isinstance(table, list | tuple) else table[taken])
    return repr(found.tolist()).encode() if found.dtype.hasobject else np.ascontiguousarray(found).tobytes()


def _digest(key: Any) -> int:
    text = key if isinstance(key, str) else repr(key)
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
