"""What a region is asked, and the answers it gets for free.

A region is a batch of convex sets {λ : divergence(λ) ≤ radius} around centres. It must say two things: its divergence,
and its support function (the largest expectation of a utility). Every other answer has a default built on these two in
`credalset.sets`; regions override the defaults with closed forms where they have them, and the defaults stay as
the oracles of their tests.

Questions reach the hooks only for sets that are neither empty nor the whole simplex; `Region._measure` sees to those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from credalset._parallel import gather_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.sets import generic
from credalset.sets.rays import Rays, choose_sharpness, draw_rays, estimate_log_volume, ray_length
from credalset.simplex import entropy_of_valid

T = TypeVar("T")

# Ties are common (symmetric predictions, sets that touch a decision boundary) and belong to the closed side.
TIE = 1e-10


class Region(ABC):
    """The geometry behind a batch of credal sets; centres have shape (N, K) and radii (N,)."""

    #: what one such set is called
    shape: ClassVar[str] = "set"
    #: how far `_support` may lie beyond what members attain, relative to the range of the utility
    tolerance: ClassVar[float] = 0.0
    #: the larger, convex set that answers for a set without such a shape; None where answers are the set's own
    hull: ClassVar[str | None] = None
    #: most classes for which `_log_volume` is exact
    exact_volume_up_to: ClassVar[float] = 2

    center: FloatArray
    radius: FloatArray

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.center.shape[1])

    def __len__(self) -> int:
        return len(self.center)

    @abstractmethod
    def __getitem__(self, rows: Any) -> Self:
        """Select sets; the result is a batch again."""

    @abstractmethod
    def __iter__(self) -> Iterator[Self]:
        """Go through the sets, each a batch of one."""

    def is_empty(self) -> BoolArray:
        """Tell which sets have no member at all, (N,).

        A ball holds its centre unless its radius is negative, which no distance score calibrates to; half-spaces and
        density sets can well be empty.

        Examples
        --------
        >>> from credalset.scores import InnerProduct
        >>> InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], threshold=0.5).is_empty()
        array([ True, False])
        """
        return np.asarray(self.radius < 0)

    @abstractmethod
    def _divergence(self, points: FloatArray) -> FloatArray:
        """The region's own function of points (N, M, K) → (N, M); members are those at most ``radius``."""

    @abstractmethod
    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        """Largest expectation of utilities (N, K), and a member that attains it."""

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return self._in_blocks(generic.envelope)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return self._in_blocks(generic.max_entropy)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        return self._in_blocks(generic.min_entropy)

    def _bounded_max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """As `_max_entropy`, with the entropy of the best member known, which is less where that is only a bound."""
        value, point = self._max_entropy(attaining)
        if self.hull is not None:
            return value, entropy_of_valid(self._known_members()).max(axis=1), point
        if type(self)._max_entropy is Region._max_entropy:
            assert point is not None
            return value, entropy_of_valid(point), point
        return value, value, point

    def _has_exact_entropies(self) -> bool:
        """Tell whether both entropies have closed forms; the defaults bracket them."""
        own = type(self)
        return own._max_entropy is not Region._max_entropy and own._min_entropy is not Region._min_entropy

    def _known_members(self) -> FloatArray:
        """Some members of each set, (N, M, K), asked of sets with a ``hull``: how far its answers may be off."""
        raise NotImplementedError

    def _in_blocks(self, answer: Callable[[Self], T]) -> T:
        """Ask a block of sets at a time: the defaults hold many arrays of their batch's size."""
        return gather_blocks(lambda rows: answer(self[rows]), len(self), self.n_classes)

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        if self.n_classes > 2:
            return None
        # An interval: lengths to both sides keep the digits that differences of its ends lose.
        both_ways = np.broadcast_to([[1.0, -1.0], [-1.0, 1.0]], (len(self), 2, 2))
        with np.errstate(divide="ignore"):
            return np.log(self._ray_length(both_ways).sum(axis=1)), np.zeros(len(self)), "exact"

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        return estimate_log_volume(self, generator, n_rays)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        return ray_length(self, directions)

    def _weighted_rays(self, n_rays: int, generator: np.random.Generator) -> Rays:
        """Rays from the centres whose weights estimate the volume without bias: what `sample` chooses from."""
        return draw_rays(self, choose_sharpness(self, generator), n_rays, generator)

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray | None:
        return None

    def _vertices(self) -> FloatArray:
        raise TypeError(f"a {self.shape} has a curved boundary and no vertices; use sample or the envelopes.")

    def _parts(self) -> Sequence[Any] | None:
        """Batches of convex sets whose union holds the sets, where there are such."""
        return None

    def _can_be_top(self) -> BoolArray | None:
        """Classes (N, K) that are most probable in some member, where that is known without a search."""
        closest = self._closest_with_top()
        if closest is None:
            return None
        reach = self.radius[:, None]
        # Relative, with an absolute part at the level of rounding: divergences are quadratic near zero, and a larger
        # slack would let classes in that are short of the top by its square root.
        return np.isposinf(reach) | (closest <= reach + TIE * np.abs(reach) + 4e-16)

    def _closest_with_top(self) -> FloatArray | None:
        """Smallest divergence (N, K) at which each class can be a most probable one, where a closed form is known."""
        return None

    def _measure(
        self,
        tails: Sequence[tuple[int, ...]],
        regular: Callable[[Self, Any], Sequence[Any]],
        whole: Callable[[BoolArray], Sequence[Any]],
    ) -> list[FloatArray]:
        """Assemble arrays (N, *tail) from the region's answer, the whole simplex's answer, and NaN for empty sets."""
        empty = self.is_empty()
        everything = np.isposinf(self.radius) & ~empty
        proper = ~(empty | everything)
        if len(self) and proper.all():
            return list(regular(self, slice(None))[: len(tails)])
        results = [np.full((len(self), *tail), np.nan) for tail in tails]
        if proper.any():
            for result, part in zip(results, regular(self[proper], proper), strict=False):
                result[proper] = part
        if everything.any():
            for result, part in zip(results, whole(everything), strict=False):
                result[everything] = part
        return results
