"""Results that unpack as plain pairs and carry what a careful reader wants to know besides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from credalset._guessing import Hinting
from credalset._typing import FloatArray


@dataclass(frozen=True)
class EntropyBounds:
    """Smallest and largest entropy in each set; unpacks as ``lower, upper``.

    Attributes
    ----------
    lower, upper : ndarray of shape (N,)
        The bounds, both certified: no member has less entropy than ``lower`` or more than ``upper``.
    lower_gap, upper_gap : ndarray of shape (N,)
        Zero where the bound is attained; otherwise how far the best member found stays away from it. The true bounds
        lie in [lower, lower + lower_gap] and [upper − upper_gap, upper].
    method : {"exact", "bracket", "outer"}
        ``"exact"``: every gap is zero. ``"bracket"``: some are not. ``"outer"``: the bounds are those of a larger set,
        which the answers of a set without a convex shape come from; see `CredalSet.answers`.
    lower_distribution, upper_distribution : ndarray of shape (N, K) or None
        If asked for: members of entropy ``lower + lower_gap`` and ``upper − upper_gap``. Where the method is
        ``"outer"``, the second attains ``upper`` in the larger set and need not be a member.
    """

    lower: FloatArray
    upper: FloatArray
    lower_gap: FloatArray
    upper_gap: FloatArray
    method: str
    lower_distribution: FloatArray | None = None
    upper_distribution: FloatArray | None = None

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.lower, self.upper))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> FloatArray:
        return (self.lower, self.upper)[index]


@dataclass(frozen=True)
class Uncertainty(Hinting):
    """Uncertainty of each set and its two parts, arrays (N,); total = aleatoric + epistemic.

    Attributes
    ----------
    total, aleatoric, epistemic : ndarray of shape (N,)
        ``total`` and ``epistemic`` are never too small, ``aleatoric`` is never too large.
    total_gap, aleatoric_gap : ndarray of shape (N,)
        How far they may be off: the true values lie in [total − total_gap, total],
        [aleatoric, aleatoric + aleatoric_gap] and [epistemic − epistemic_gap, epistemic].
    method : {"exact", "bracket", "outer"}
        As in `EntropyBounds`.
    """

    _hints: ClassVar[dict[str, str]] = {
        "to_frame": "Ask sets.to_frame(ask=['aleatoric', 'epistemic', 'total']), which knows the names of the items.",
    }

    total: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray
    total_gap: FloatArray
    aleatoric_gap: FloatArray
    method: str

    @property
    def epistemic_gap(self) -> FloatArray:
        """How much smaller than ``epistemic`` the epistemic part may be, (N,): the two other gaps together."""
        return self.total_gap + self.aleatoric_gap


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
