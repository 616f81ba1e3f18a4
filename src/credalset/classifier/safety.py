"""Methods that either succeed or change nothing, and calibrations that are those of their classifier."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sklearn.exceptions import NotFittedError

from credalset._guessing import explained
from credalset.calibration import Calibration, CrossCalibration
from credalset.calibration.noise import Noise
from credalset.scores import Score

P = ParamSpec("P")
R = TypeVar("R")


def all_or_nothing(method: Callable[P, R]) -> Callable[P, R]:
    """Leave the classifier as it was if the method fails: what was fitted and calibrated before stays good."""

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        state: dict[str, Any] = args[0].__dict__
        before = dict(state)
        try:
            return method(*args, **kwargs)
        except BaseException:
            state.clear()
            state.update(before)
            raise

    return explained(wrapper)


def check_made_with(made: Calibration | CrossCalibration, score: Score, noise: Noise) -> None:
    """Refuse a calibration that was made with another score or noise model."""
    for what, own, other, agree in (
        ("nonconformity", score, made.score, score == made.score),
        ("noise", noise, made.noise, noise == made.noise),
    ):
        if not agree:
            advice = f"Call conformalize again after changing the {what}."
            raise NotFittedError(f"{what} is {own!r}, but the calibration was made with {other!r}. {advice}")
