"""Plots of credal sets and of results (extra ``plot``); the only folder that imports matplotlib.

Functions take and return axes; without ``ax`` they open a new pyplot figure. Colours are those of
Okabe and Ito, which are distinguishable with any colour vision; truth, votes and predictions differ
in shape, too.
"""

from __future__ import annotations

from credalset.exceptions import MissingExtraError

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError:
    raise MissingExtraError("Plotting", "matplotlib", "plot") from None

from credalset.plotting.charts import envelopes, violins, voting
from credalset.plotting.displays import (
    coverage_by_difficulty,
    coverage_curve,
    range_strip,
    rejection,
    scores,
    share_calibration,
    sizes,
    slices,
    votes_coming_in,
)
from credalset.plotting.judging import judges
from credalset.plotting.triangle import dirichlet_contours, ternary, ternary_grid
from credalset.plotting.uncertainty import uncertainty_map

__all__ = [
    "coverage_by_difficulty",
    "coverage_curve",
    "dirichlet_contours",
    "envelopes",
    "judges",
    "range_strip",
    "rejection",
    "scores",
    "share_calibration",
    "sizes",
    "slices",
    "ternary",
    "ternary_grid",
    "uncertainty_map",
    "violins",
    "votes_coming_in",
    "voting",
]


def __dir__() -> list[str]:
    return list(__all__)
