"""Regions of scores that still bring a set class of their own, asked as a geometry. Goes with the last of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset.sets.geometry import Entropies, Geometry
from credalset.sets.old_sampling import sample_members


@dataclass(frozen=True, eq=False)
class OldGeometry(Geometry):
    """A geometry that passes questions on to an old set."""

    old: Any = None

    @classmethod
    def of(cls, old: Any) -> OldGeometry:
        """Wrap an old batch of sets."""
        return cls(old.center, np.where(old.is_empty(), -1.0, old.radius), old)

    @property
    def shape(self) -> str:  # type: ignore[override]
        """Name of the old shape."""
        return str(self.old.shape)

    @property
    def is_outer(self) -> bool:  # type: ignore[override]
        """Whether a hull answers."""
        return self.old.hull is not None

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """Tolerance of the old support function."""
        return float(self.old.tolerance)

    def __getitem__(self, rows: Any) -> OldGeometry:
        return OldGeometry(self.center[rows], self.radius[rows], self.old[rows])

    def divergence(self, points: FloatArray) -> FloatArray:
        """Ask the old set."""
        return np.asarray(self.old._divergence(points))

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ask the old set."""
        value, point = self.old._support(utility, True)
        return value, point

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Ask the old set."""
        lower, upper = self.old._envelope()
        return lower, upper

    def entropies(self) -> Entropies:
        """Ask the old set."""
        low, high = self.old._min_entropy(False), self.old._bounded_max_entropy(False)
        return Entropies(low[0], np.maximum(low[1] - low[0], 0.0), high[0], np.maximum(high[0] - high[1], 0.0))

    def log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray, str]:
        """Ask the old set."""
        known = self.old._log_volume(generator)
        return known if known is not None else (*self.old._estimate_log_volume(generator, n_rays), "estimate")

    def mode_radius(self) -> FloatArray:
        """Ask the old set."""
        closest, possible = self.old._closest_with_top(), self.old._can_be_top()
        if closest is not None:
            return np.asarray(closest)
        return super().mode_radius() if possible is None else np.where(possible, self.radius[:, None], np.inf)

    def vertices(self, i: int) -> FloatArray:
        """Ask the old set."""
        return np.asarray(self.old[[i]]._vertices())

    def sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Ask the old set."""
        return sample_members(self.old, n, generator)

    def ray_length(self, directions: FloatArray) -> FloatArray:
        """Ask the old set."""
        return np.asarray(self.old._ray_length(directions))
