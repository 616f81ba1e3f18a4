"""Pictures of credal sets and of results (extra ``plot``); the only folder that imports matplotlib.

Every function takes axes and returns them: without ``ax`` it opens a pyplot figure of its own, with ``ax`` it touches
nothing else. Colours are those of Okabe and Ito, which people with any colour vision can distinguish; shapes
say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from credalset._guesses import IN_PLOTTING
from credalset._guessing import missing_name
from credalset.exceptions import MissingExtraError

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError:
    raise MissingExtraError("Plotting", "matplotlib", "plot") from None

from credalset.plotting.grids import ternary_grid
from credalset.plotting.intervals import envelopes
from credalset.plotting.repetitions import violins
from credalset.plotting.triangle import dirichlet_contours, ternary
from credalset.plotting.uncertainty import entropy_intervals, uncertainty_map

if not TYPE_CHECKING:  # type checkers go by the names that there are

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, __all__, IN_PLOTTING)


__all__ = [
    "dirichlet_contours",
    "entropy_intervals",
    "envelopes",
    "ternary",
    "ternary_grid",
    "uncertainty_map",
    "violins",
]
