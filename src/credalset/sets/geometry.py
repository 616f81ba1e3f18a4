r"""What a region is asked: six functions, four of which have defaults.

A geometry is a batch of regions {λ : divergence(λ) ≤ radius} around centres. A score that knows its region writes a
frozen dataclass with `divergence` and `support`, and replaces the defaults where it has closed forms. Only regular
regions are asked: `credalset.sets.CredalSet` answers for empty sets and for whole simplices itself.

The defaults need `divergence` and `support` only: envelopes by 2K support functions, entropies by certified brackets
(`credalset.sets.entropies`), possible modes by separating planes (`credalset.sets.modes`), volumes by rays from the
centre (`credalset.sets.volume`) and samples by rejection and hit-and-run (`credalset.sets.sampling`).
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from credalset._predictions import PredictionBatch
from credalset._typing import FloatArray

ROW_TYPES = (np.ndarray, PredictionBatch)


class Entropies(NamedTuple):
    """Smallest and largest entropy of each region in nats, (N,) each, with gaps.

    No member has less than ``lower`` or more than ``upper``; some member has at most ``lower + lower_gap``, and some
    at least ``upper - upper_gap``. Gaps are zero where the value is exact.
    """

    lower: FloatArray
    lower_gap: FloatArray
    upper: FloatArray
    upper_gap: FloatArray

    @classmethod
    def exact(cls, lower: FloatArray, upper: FloatArray) -> Entropies:
        """Return entropies without gaps."""
        return cls(lower, np.zeros(len(lower)), upper, np.zeros(len(upper)))


@dataclass(frozen=True, eq=False)
class Geometry(ABC):
    """A batch of N regions over K classes.

    Subclasses are frozen dataclasses. Fields that are arrays (or predictions) hold one row per region and are selected
    together; what the regions share is a number, a tuple or a score.

    Attributes
    ----------
    center : ndarray of shape (N, K)
        A point that rays start from; a member where the region is convex.
    radius : ndarray of shape (N,)
        Largest divergence of a member. A score returns a negative radius for an empty region and ``+inf`` for the whole
        simplex.
    """

    #: what one such region is called
    shape: ClassVar[str] = "region"
    #: how far a value of `support` may exceed what its member attains, relative to the range of the utility
    tolerance: ClassVar[float] = 0.0

    center: FloatArray
    radius: FloatArray

    @abstractmethod
    def divergence(self, points: FloatArray) -> FloatArray:
        """Return the divergence of points (N, M, K) from the centres, (N, M); members have at most ``radius``."""

    @abstractmethod
    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the largest expectation of utilities (N, K), shape (N,), and members (N, K) that attain it.

        The value is certified: no member exceeds it. Members attain it up to ``tolerance``.
        """

    def attain(self, utility: FloatArray) -> FloatArray:
        """Return members (N, K) that attain `support`, or come close where certifying it takes longer."""
        return self.support(utility)[1]

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest probability of each class, (N, K) each."""
        n, k = self.center.shape
        lower, upper = np.empty((n, k)), np.empty((n, k))
        for c in range(k):
            unit = np.zeros((n, k))
            unit[:, c] = 1.0
            upper[:, c] = self.support(unit)[0]
            lower[:, c] = -self.support(-unit)[0]
        return np.clip(lower, 0.0, 1.0) + 0.0, np.clip(upper, 0.0, 1.0)

    def entropies(self) -> Entropies:
        """Return the smallest and the largest entropy, or certified brackets of them."""
        from credalset.sets.entropies import bracket

        return bracket(self)

    def log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray, str]:
        """Return the logarithm of the share of the simplex (N,), its standard error (N,), "exact" or "estimate"."""
        from credalset.sets.volume import estimate

        return estimate(self, generator, n_rays)

    def mode_radius(self) -> FloatArray:
        """Return the smallest divergence at which each class is a most probable one, (N, K).

        The default knows only the side of ``radius`` on which it lies: it is ``+inf`` for classes that are certainly
        below another one in every member, and ``radius`` for the others.
        """
        from credalset.sets.modes import separate

        return separate(self)

    def vertices(self, i: int) -> FloatArray:
        """Return the corners of region i, (V, K); only polytopes have them."""
        raise TypeError(f"a {self.shape} has a curved boundary and no vertices; use sample or the envelopes.")

    def sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n members of each region uniformly, (N, n, K)."""
        from credalset.sets.sampling import sample

        return sample(self, n, generator)

    def ray_length(self, directions: FloatArray) -> FloatArray:
        """Return how far rays from the centres along directions (N, M, K) stay in region and simplex, (N, M)."""
        from credalset.sets.volume import ray_length

        return ray_length(self, directions)

    def __len__(self) -> int:
        return len(self.center)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.center.shape[1])

    def __getitem__(self, rows: Any) -> Self:
        """Select regions by a slice, an index array or a mask; the result is a batch again."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        per_item: dict[str, Any] = {name: value[rows] for name, value in values.items() if isinstance(value, ROW_TYPES)}
        return dataclasses.replace(self, **per_item)


def answer(
    geometry: Geometry,
    regular: Callable[[Geometry, Any], Sequence[FloatArray]],
    whole: Sequence[Any],
    empty: Sequence[float] | None = None,
) -> list[FloatArray]:
    """Ask a geometry about its regular regions, and answer for whole simplices and empty regions (NaN by default).

    Parameters
    ----------
    geometry : Geometry
        Regions, some of which may be empty (radius below zero) or whole (radius ``+inf``).
    regular : callable
        Maps a geometry of regular regions and their rows to arrays with one row per region.
    whole, empty : sequence
        For each of these arrays what the other regions get: a number, an array, or, for whole simplices, a function of
        their number.
    """
    is_empty, is_whole = geometry.radius < 0, np.isposinf(geometry.radius)
    rows = np.flatnonzero(~(is_empty | is_whole))
    if len(rows) == len(geometry):
        return list(regular(geometry, slice(None)))
    results = []
    for i, part in enumerate(regular(geometry[rows], rows)):
        result = np.full((len(geometry), *part.shape[1:]), np.nan if empty is None else empty[i])
        result[rows] = part
        if is_whole.any():
            result[is_whole] = whole[i](int(is_whole.sum())) if callable(whole[i]) else whole[i]
        results.append(result)
    return results
