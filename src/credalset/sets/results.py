"""Results that unpack as plain pairs and carry what a careful reader wants to know besides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from credalset._typing import FloatArray


@dataclass(frozen=True)
class EntropyBounds:
    """Smallest and largest entropy in each set; unpacks as ``lower, upper``.

    Attributes
    ----------
    lower, upper : ndarray of shape (N,)
        The bounds. ``lower`` is certified: no member has less entropy.
    lower_gap : ndarray of shape (N,)
        Zero where ``lower`` is attained; otherwise how much more entropy the best member found has.
    lower_distribution, upper_distribution : ndarray of shape (N, K) or None
        Members that attain ``lower + lower_gap`` and ``upper``, if asked for.
    """

    lower: FloatArray
    upper: FloatArray
    lower_gap: FloatArray
    lower_distribution: FloatArray | None = None
    upper_distribution: FloatArray | None = None

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.lower, self.upper))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> FloatArray:
        return (self.lower, self.upper)[index]


@dataclass(frozen=True)
class Volume:
    """A volume or log-volume; unpacks as ``value, standard_error``.

    Attributes
    ----------
    value, standard_error : ndarray of shape (N,)
        The error is zero where the volume is exact.
    method : str
        ``"exact"`` or ``"estimate"``.
    """

    value: FloatArray
    standard_error: FloatArray
    method: str

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.value, self.standard_error))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> FloatArray:
        return (self.value, self.standard_error)[index]
