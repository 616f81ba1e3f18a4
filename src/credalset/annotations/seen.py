"""Which items a model or a calibration has had: digests of their names, so that reuse is noticed. No name is kept."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from credalset._typing import AnyArray
from credalset.annotations.labels import Numbers, plain_names, shown

#: names that are looked at, evenly spread: enough to notice, and a tenth of a second at most
LARGEST = 100_000
#: rows without names that stand for all
SAMPLED = 100

NOTHING: AnyArray = np.zeros(0, dtype=np.uint64)


def digests(items: Any, rows: Any = None) -> AnyArray:
    """Return sorted 64-bit digests of the names of items; without names one of the rows as a whole, if they are given.

    Whole numbers are how tables count their rows: the same ones in two tables say nothing, and are passed over.

    Examples
    --------
    >>> len(digests(["a", "b", "b"])), len(digests([0, 1, 2])), len(digests(None, np.eye(3)))
    (2, 0, 1)
    """
    keys = _names(items) or _summary(rows)
    return np.unique(np.array([_digest(key) for key in keys], dtype=np.uint64))


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
        return "these very items" if again else ""
    return f"{len(again)} of {len(names)} items (first: {shown(again, 3)})"


def _names(items: Any) -> list[Any]:
    """Return the names that tell items apart in other tables too."""
    if items is None or isinstance(items, range | Numbers):
        return []
    step = max(1, -(-len(items) // LARGEST))
    return [name for name in plain_names(items[::step]) if not isinstance(name, int)]


def _summary(rows: Any) -> list[str]:
    """Return a text that hardly any two data sets share, the number of rows and some of them; none of no rows."""
    table = rows.tocsr() if hasattr(rows, "tocsr") else getattr(rows, "iloc", rows)
    if not hasattr(table, "__getitem__"):
        return []
    n = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    taken = np.linspace(0, n - 1, min(n, SAMPLED)).astype(int)
    some = [table[i] for i in taken] if isinstance(table, list | tuple) else table[taken]
    dense = np.asarray(some.toarray() if hasattr(some, "toarray") else some)
    return [f"{n} rows such as {dense.tolist()!r}"] if n else []


def _digest(key: Any) -> int:
    text = key if isinstance(key, str) else repr(key)
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
