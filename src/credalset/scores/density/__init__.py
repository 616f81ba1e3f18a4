"""The negative log density of a predicted Dirichlet or mixture of them, and the level sets of mixtures."""

from __future__ import annotations

from credalset.scores.density.dirichlet_mixture import DirichletMixture
from credalset.scores.density.score import DensitySet, NegativeLogDensity

__all__ = ["DensitySet", "DirichletMixture", "NegativeLogDensity"]
