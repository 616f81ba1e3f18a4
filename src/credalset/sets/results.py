"""Results of questions to sets: arrays with gaps or errors, the method, and names of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from credalset._display import number_text, plural, table_text
from credalset._typing import FloatArray
from credalset.exceptions import need


class Entropies(NamedTuple):
    """Smallest and largest entropy of each region in nats, (N,) each, with gaps.

    No member has less than ``lower`` or more than ``upper``; some member has at most ``lower +
    lower_gap``, and another at least ``upper - upper_gap``. Gaps are zero where the value is exact.
    """

    lower: FloatArray
    lower_gap: FloatArray
    upper: FloatArray
    upper_gap: FloatArray

    @classmethod
    def exact(cls, lower: FloatArray, upper: FloatArray) -> Entropies:
        """Return entropies without gaps."""
        return cls(lower, np.zeros(len(lower)), upper, np.zeros(len(upper)))


MOST_ROWS = 10  # sets that a result prints


class PerSet:
    """Results per set, arrays (N,), that print as a short table and convert to a frame."""

    #: the columns of the table
    _columns: ClassVar[tuple[str, ...]] = ()

    method: str
    items: tuple[Any, ...] | None = None

    def to_frame(self) -> Any:
        """Return the results as a pandas data frame.

        Its index holds the names of the items where they are known.
        """
        columns = {name: getattr(self, name) for name in self._columns}
        return need("pandas").DataFrame(
            columns, index=None if self.items is None else list(self.items)
        )

    def __repr__(self) -> str:
        columns = [getattr(self, name) for name in self._columns]
        n = len(columns[0])
        names = range(n) if self.items is None else self.items
        rows = [
            [str(names[row]), *(number_text(float(column[row]), 3) for column in columns)]
            for row in range(min(n, MOST_ROWS))
        ]
        if n > 1:
            known = [column[~np.isnan(column)] for column in columns]
            rows.append(
                [
                    "mean",
                    *(number_text(float(some.mean()) if len(some) else None, 3) for some in known),
                ]
            )
        table = table_text(["item", *self._columns], rows, left=1)
        hidden = f", the first {MOST_ROWS} below" if n > MOST_ROWS else ""
        return f"{type(self).__name__} of {plural(n, 'set')} ({self.method}){hidden}\n{table}"


class Pair(PerSet):
    """Results per set that unpack as the first two columns."""

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self[0], self[1]))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> FloatArray:
        return np.asarray(getattr(self, self._columns[:2][index]))


@dataclass(frozen=True, repr=False)
class EntropyBounds(Pair):
    """Smallest and largest entropy in each set; unpacks as ``lower, upper``.

    Attributes
    ----------
    lower : ndarray of shape (N,)
        Certified bound: no member has less entropy.
    upper : ndarray of shape (N,)
        Certified bound: no member has more entropy.
    lower_gap : ndarray of shape (N,)
        Zero where ``lower`` is attained; otherwise the difference between the bound and the best
        member found. The smallest entropy lies in [lower, lower + lower_gap].
    upper_gap : ndarray of shape (N,)
        Zero where ``upper`` is attained; otherwise the difference between the bound and the best
        member found. The largest entropy lies in [upper − upper_gap, upper].
    method : {"exact", "bracket"}
        ``"exact"`` if every gap is zero, otherwise ``"bracket"``.
    items : tuple or None
        Names of the items, if they are known.
    """

    _columns = ("lower", "upper", "lower_gap", "upper_gap")

    lower: FloatArray
    upper: FloatArray
    lower_gap: FloatArray
    upper_gap: FloatArray
    method: str
    items: tuple[Any, ...] | None = None


@dataclass(frozen=True, repr=False)
class Uncertainty(PerSet):
    """Total, aleatoric and epistemic uncertainty of each set; total = aleatoric + epistemic.

    The true values lie in [total − total_gap, total], [aleatoric, aleatoric + aleatoric_gap] and
    [epistemic − epistemic_gap, epistemic].

    Attributes
    ----------
    total : ndarray of shape (N,)
        Largest entropy of a member; never too small.
    aleatoric : ndarray of shape (N,)
        Smallest entropy of a member; never too large.
    epistemic : ndarray of shape (N,)
        Difference of the two; never too small.
    total_gap : ndarray of shape (N,)
        Width of the bracket of the total.
    aleatoric_gap : ndarray of shape (N,)
        Width of the bracket of the aleatoric part.
    method : {"exact", "bracket"}
        As in `EntropyBounds`.
    items : tuple or None
        Names of the items, if they are known.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> TotalVariation().region([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]], threshold=0.1).uncertainty()
    Uncertainty of 2 sets (exact)
    item  total  aleatoric  epistemic
    ----  -----  ---------  ---------
    0     0.865      0.455      0.409
    1     0.998      0.859      0.139
    mean  0.931      0.657      0.274
    """

    _columns = ("total", "aleatoric", "epistemic")

    total: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray
    total_gap: FloatArray
    aleatoric_gap: FloatArray
    method: str
    items: tuple[Any, ...] | None = None

    @property
    def epistemic_gap(self) -> FloatArray:
        """Width of the bracket of the epistemic part, (N,): the sum of the two other gaps."""
        return self.total_gap + self.aleatoric_gap


@dataclass(frozen=True, repr=False)
class Volume(Pair):
    """Volume or log-volume of each set; unpacks as ``value, standard_error``.

    Attributes
    ----------
    value : ndarray of shape (N,)
        The volume as a fraction of the simplex, or its logarithm.
    standard_error : ndarray of shape (N,)
        Standard error of the value, zero where it is exact.
    method : {"exact", "estimate"}
        How the volume was computed.
    items : tuple or None
        Names of the items, if they are known.
    """

    _columns = ("value", "standard_error")

    value: FloatArray
    standard_error: FloatArray
    method: str
    items: tuple[Any, ...] | None = None
