"""Read annotation counts where shares of votes would not do."""

from __future__ import annotations

from typing import Any

from credalset._typing import FloatArray
from credalset._validation import as_counts, as_matrix, is_count_matrix


def vote_counts(labels: Any, name: str, user: str) -> FloatArray:
    """Return annotation counts (n, K), refusing distributions: they do not tell how many votes they stand for.

    Examples
    --------
    >>> vote_counts([[3, 1]], "labels", "AnnotatorSampling")
    array([[3., 1.]])
    """
    found = raw_counts(labels, name)
    if found is None:
        raise ValueError(
            f"{user} needs annotation counts, but {name} holds distributions, which do not tell the number of votes. "
            "Pass the counts (whole numbers), or Annotations made from votes."
        )
    return as_counts(found, name)


def raw_counts(labels: Any, name: str) -> FloatArray | None:
    """Return the counts behind labels, None if they are distributions."""
    if hasattr(labels, "has_counts"):
        return as_matrix(labels.counts, name) if labels.has_counts else None
    matrix = as_matrix(labels, name)
    return matrix if is_count_matrix(matrix) else None
