"""Tell data sets apart, so that results of one are not taken for those of another."""

from __future__ import annotations

import hashlib

import numpy as np

from credalset._typing import FloatArray


def fingerprint(*arrays: FloatArray) -> str:
    """Return a short checksum of arrays, their shapes included.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1)))
    False
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]
