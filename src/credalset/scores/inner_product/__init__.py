"""One minus the inner product: the score, and everything about the half-space it induces."""

from __future__ import annotations

from credalset.scores.inner_product.score import HalfSpace, InnerProduct

__all__ = ["HalfSpace", "InnerProduct"]
