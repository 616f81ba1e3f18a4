r"""The interface of a region: six functions, four of which have defaults.

A geometry is a batch of regions {λ : divergence(λ) ≤ radius} around centres. A score with a known
region defines a frozen dataclass with `divergence` and `support`, and overrides the defaults where
it has closed forms. A geometry handles regular regions only; `credalset.sets.CredalSet` handles
empty sets and whole simplices.

The defaults need `divergence` and `support` only: envelopes by 2K support functions, entropies by
certified brackets (`credalset.sets.entropies`), possible modes by separating planes
(`credalset.sets.modes`), volumes by rays from the centre (`credalset.sets.volume`) and samples by
rejection and Markov chains (`credalset.sets.sampling`).
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
from credalset._validation import freeze
from credalset.sets import entropies, modes, sampling, volume
from credalset.sets.results import Entropies

ROW_TYPES = (np.ndarray, PredictionBatch)


@dataclass(frozen=True, eq=False)
class Geometry(ABC):
    """N regions {λ : divergence(λ) ≤ radius} over K classes, the base of regions of scores.

    Subclasses are frozen dataclasses that define `divergence` and `support`; the other methods have
    defaults. Fields that are arrays (or predictions) have one row per region and are selected
    together. Fields that all regions share are numbers, tuples or scores. Methods are called for
    regions that are neither empty nor the whole simplex.

    Attributes
    ----------
    center : ndarray of shape (N, K)
        Centre of each region, from which rays start.
    radius : ndarray of shape (N,)
        Largest divergence of a member; negative for an empty region, ``+inf`` for the whole
        simplex.
    """

    #: name of such a region in texts
    shape: ClassVar[str] = "region"
    #: largest difference between a value of `support` and its member's, relative to the range of
    #: the utility
    tolerance: ClassVar[float] = 0.0

    center: FloatArray
    radius: FloatArray

    def __post_init__(self) -> None:
        freeze(self, "center", "radius")

    @abstractmethod
    def divergence(self, points: FloatArray) -> FloatArray:
        """Return divergences of points from the centres, (N, M); members have at most ``radius``.

        Parameters
        ----------
        points : ndarray of shape (N, M, K)
            M distributions for each region.
        """

    @abstractmethod
    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return largest expectations over the regions, (N,), and members that attain them, (N, K).

        The value is certified: no member exceeds it. Members attain it up to ``tolerance``.

        Parameters
        ----------
        utility : ndarray of shape (N, K)
            Utility of each class, one row per region.
        """

    def _attain(self, utility: FloatArray) -> FloatArray:
        """Return points on rays toward random points of the simplex.

        Classes contribute to these points in proportion to width.
        """
        return self.support(utility)[1]

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest probability of each class, (N, K) each."""
        n, k = self.center.shape
        lower = np.empty((n, k))
        upper = np.empty((n, k))
        for c in range(k):
            unit = np.zeros((n, k))
            unit[:, c] = 1.0
            upper[:, c] = self.support(unit)[0]
            lower[:, c] = -self.support(-unit)[0]
        return np.clip(lower, 0.0, 1.0) + 0.0, np.clip(upper, 0.0, 1.0)

    def entropies(self) -> Entropies:
        """Return the smallest and largest entropy of each region in nats, or brackets of them.

        Returns
        -------
        named tuple of arrays of shape (N,)
            ``lower``, ``lower_gap``, ``upper`` and ``upper_gap``. No member has less entropy than
            ``lower`` or more than ``upper``; gaps are the widths of the brackets, zero where the
            value is exact.
        """
        return entropies.bracket(self)

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the log share of the simplex (N,), its error (N,), "exact" or "estimate".

        Parameters
        ----------
        generator : Generator
            Generator of random numbers.
        n_rays : int
            Number of rays per region, if the volume is estimated.
        """
        return volume.estimate(self, generator, n_rays)

    def mode_radius(self) -> FloatArray:
        """Return the smallest divergence at which each class is a most probable one, (N, K).

        The default only compares it with ``radius``: the result is ``+inf`` for classes that are
        the mode of no member, and ``radius`` for the others.
        """
        return modes.separate(self)

    def vertices(self, i: int) -> FloatArray:
        """Return the vertices of a region, (V, K), for polytopes.

        Parameters
        ----------
        i : int
            Position of the region.
        """
        raise TypeError(
            f"vertices are not defined for a {self.shape}, which is no polytope. Use sample "
            "or envelope."
        )

    def sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n members of each region uniformly, (N, n, K).

        Parameters
        ----------
        n : int
            Number of draws for each region.
        generator : Generator
            Generator of random numbers.
        """
        return sampling.sample(self, n, generator)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        """Return lengths of rays from centres along directions (N, M, K).

        They are lengths in the region and in the simplex, (N, M).
        """
        return volume.ray_length(self, directions)

    def __len__(self) -> int:
        return len(self.center)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.center.shape[1])

    def __getitem__(self, rows: Any) -> Self:
        """Select regions by a slice, an index array or a mask; the result is a batch again."""
        values: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        }
        per_item: dict[str, Any] = {
            name: value[rows] for name, value in values.items() if isinstance(value, ROW_TYPES)
        }
        return dataclasses.replace(self, **per_item)


class Part(NamedTuple):
    """One array of an answer, with one row per region.

    Attributes
    ----------
    shape : tuple of int
        Shape of a row.
    whole : float, array or callable
        The row of a whole simplex; or all their rows, or a function of their number.
    empty : float
        What fills the row of an empty region.
    """

    shape: tuple[int, ...]
    whole: Any
    empty: float = np.nan


def answer(
    geometry: Geometry,
    regular: Callable[[Geometry, Any], Sequence[FloatArray]],
    *parts: Part,
) -> list[FloatArray]:
    """Compute results for regular regions; fill in those of whole simplices and empty regions.

    No geometry without regions is asked anything.

    Parameters
    ----------
    geometry : Geometry
        Regions, some of which may be empty (radius below zero) or whole (radius ``+inf``).
    regular : callable
        Maps a geometry of regular regions and their rows to arrays with one row per region.
    *parts : Part
        One for each of these arrays.
    """
    is_empty = geometry.radius < 0
    is_whole = np.isposinf(geometry.radius)
    rows = np.flatnonzero(~(is_empty | is_whole))
    if 0 < len(rows) == len(geometry):
        return list(regular(geometry, slice(None)))
    results = []
    for part in parts:
        result = np.full((len(geometry), *part.shape), part.empty)
        n_whole = int(is_whole.sum())
        if n_whole:
            result[is_whole] = part.whole(n_whole) if callable(part.whole) else part.whole
        results.append(result)
    if len(rows):
        for result, found in zip(results, regular(geometry[rows], rows), strict=True):
            result[rows] = found
    return results
