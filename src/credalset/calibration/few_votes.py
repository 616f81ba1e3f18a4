"""A guarantee for the true distribution from a handful of votes per item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_probability
from credalset.annotations.labels import Labels
from credalset.calibration.ladder import Ladder, passed, plan
from credalset.calibration.noise import Noise
from credalset.calibration.part import Part
from credalset.scores import Score

METHODS = ("auto", "moments", "majorant")
RATIO = 1.06  # between neighbouring thresholds of the moments
MOST_CLASSES = 4  # that majorants are made for


@dataclass(frozen=True)
class FewVotes(Noise):
    pass
