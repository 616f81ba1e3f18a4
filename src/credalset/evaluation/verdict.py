"""The verdict on credal sets: whether they are valid, and whether they are informative.

*Valid*: for exchangeable items and continuous scores, the coverage that n calibration items give
follows Beta(k, n + 1 − k) with k = ⌈(n + 1)(1 − α)⌉, and the number covered among m new items a
beta-binomial distribution with the same parameters. Its central 99% is the band in which the
observed coverage should lie. Other intervals of this package are 95%; a verdict is given at several
levels and can stop a pipeline, hence 99%.

*Informative*: valid sets can be too large to be useful. They are compared with the sets of a
constant prediction, the mean label distribution, calibrated in the same way, and by the number of
labels that they leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from credalset._display import Estimate
from credalset._typing import FloatArray, Prediction
from credalset.scores import Score

Status = Literal["valid", "undercovers", "overcovers", "not tested"]

LEVEL = 0.99  # probability of the band, and confidence level of the interval
WIDEST_BAND = 0.25  # a wider band or interval does not test the guarantee
NEARLY_ALL = 0.9  # sets that leave a larger share of the other labels open are not informative
NO_NARROWER = (
    0.95  # sets above this share of the width of a constant prediction are not informative
)
GUIDE = "docs/too-large.md"


@dataclass(frozen=True)
class Verdict:
    """Verdict on credal sets: whether they are valid and informative, judged on held-out items.

    Attributes
    ----------
    observed : Estimate
        Share of the items that are covered, with its exact binomial interval at confidence
        ``level``.
    alpha : float or None
        Miscoverage rate of the sets, if it is known.
    guaranteed : float or None
        Coverage that the calibration guarantees: 1 − α, or the proven bound of a cross-conformal
        calibration.
    band : tuple or None
        Lower and upper limit of the observed coverage that is expected if the guarantee holds; None
        if the distribution of the observed coverage is not known.
    used : str
        What these items were used for before; empty if they were not used.
    untested : str
        Another reason why these items cannot test the guarantee; empty if they can.
    left_out : str
        A sentence about items that were left out; empty if there are none.
    assumption : str
        Result of a test of the assumption about votes, in a sentence; empty if there is none.
    width : float or None
        Mean width of the sets.
    constant_width : float or None
        Width of the sets of a constant prediction, the mean label distribution.
    labels : float
        Mean number of E-admissible labels of a set.
    n_classes : int
        Number of classes.
    level : float
        Probability of the band and confidence level of the interval.
    """

    observed: Estimate
    alpha: float | None = None
    guaranteed: float | None = None
    band: tuple[float, float] | None = None
    used: str = ""
    untested: str = ""
    width: float | None = None
    constant_width: float | None = None
    labels: float = np.nan
    n_classes: int = 0
    level: float = LEVEL
    left_out: str = ""
    assumption: str = ""

    @property
    def status(self) -> Status:
        """Result of the test of coverage.

        It is ``"valid"``, ``"undercovers"``, ``"overcovers"`` or ``"not tested"``.
        """
        if self.used or self.untested or self.guaranteed is None or self.alpha is None:
            return "not tested"
        if self.band is None:
            # Chance is in the interval of the observed coverage.
            low, high = self.guaranteed, 1.0 - self.alpha
            seen_low, seen_high = self.observed.low, self.observed.high
        else:
            # Chance is in the band.
            low, high = self.band
            seen_low = seen_high = float(self.observed)
        if seen_high < low:
            return "undercovers"
        if seen_low > high:
            return "overcovers"
        return "valid"

    @property
    def valid(self) -> bool | None:
        """Whether coverage is not below the guarantee, up to chance; None if not tested."""
        return None if self.status == "not tested" else self.status != "undercovers"

    @property
    def informative(self) -> bool | None:
        """Whether sets exclude labels and beat a constant prediction; None if not measured.

        They beat it if they are narrower than its sets.
        """
        return None if self.width is None else not self.uninformative

    @property
    def uninformative(self) -> str:
        """Reason why the sets are not informative; empty if they are."""
        if self.labels - 1.0 >= NEARLY_ALL * (self.n_classes - 1):
            return "they leave nearly every label open"
        if (
            self.constant_width
            and self.width is not None
            and self.width >= NO_NARROWER * self.constant_width
        ):
            return "they are no narrower than those of a constant prediction"
        return ""

    @property
    def passed(self) -> bool:
        """Whether coverage is not too low and no item was used before; a check may then pass."""
        return self.status != "undercovers" and not self.used

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        joint = ", but" if self.valid else "; also,"
        return (
            f"{self._outcome}{joint} {self.uninformative}" if self.uninformative else self._outcome
        )

    @property
    def detail(self) -> str:
        """The numbers behind the headline, in sentences."""
        return " ".join(filter(None, [self._coverage, self.left_out, self.assumption, self._size]))

    @property
    def sentence(self) -> str:
        """The verdict with the numbers behind it, in sentences."""
        joint = ". " if self.status == "not tested" or not self._coverage else ": "
        parts = [f"{self._outcome}{joint}{self._coverage}".strip(), self.left_out]
        parts += [self.assumption, self._size]
        if self.uninformative:
            parts += [f"But {self.uninformative}: see the guide 'My sets are too large' ({GUIDE})."]
        return " ".join(filter(None, parts))

    @property
    def _outcome(self) -> str:
        return {
            "valid": "The sets are valid",
            "undercovers": "The sets cover too little",
            "overcovers": "The sets cover more than is guaranteed",
            "not tested": "Not tested: "
            + (self.used or self.untested or "no guarantee is known for these sets"),
        }[self.status]

    @property
    def _coverage(self) -> str:
        if not self.observed.n:
            return ""
        seen = f"{percent(float(self.observed))} of {self.observed.n:,} items are covered"
        interval = (
            f"{percent(self.level)} interval {percent(self.observed.low)} to "
            f"{percent(self.observed.high)}"
        )
        if self.guaranteed is None or self.status == "not tested":
            return f"{seen} ({interval})."
        if self.band is None:
            return f"{seen} ({interval}), and {percent(self.guaranteed)} is guaranteed."
        where = {"undercovers": "below", "overcovers": "above"}.get(self.status, "within")
        band = (
            f"{where} the {percent(self.band[0])} to {percent(self.band[1])} that are "
            "expected of so many items"
        )
        return f"{seen}, {band} if the guarantee of {percent(self.guaranteed)} holds."

    @property
    def _size(self) -> str:
        if self.width is None:
            return ""
        text = (
            f"On average a set leaves {self.labels:.2g} of {self.n_classes} labels open and "
            "has width"
        )
        constant = (
            ""
            if self.constant_width is None
            else f" ({self.constant_width:.2f} for a constant prediction)"
        )
        return f"{text} {self.width:.2f}{constant}."


@dataclass(frozen=True, eq=False)
class ConstantPrediction:
    """The mean of some labels as the prediction for every item, calibrated on these labels.

    For a second-order score the constant is the Dirichlet with the mean and the summed variance of
    the labels.

    Attributes
    ----------
    score : Score
        The score.
    prediction : array of shape (1, K)
        The prediction, valid for the score.
    scores : ndarray of shape (n,)
        Scores of the labels.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> ConstantPrediction.of(TotalVariation(), np.array([[0.8, 0.2], [0.4, 0.6]])).width(0.1)
    0.4
    """

    score: Score
    prediction: Prediction
    scores: FloatArray

    @classmethod
    def of(cls, score: Score, labels: FloatArray) -> ConstantPrediction | None:
        """Return the constant for labels (n, K).

        None without labels, or for a score that takes predictions of another kind.
        """
        # The predictions of some scores, such as those with a predicted scale, come with more.
        known = {"predict_proba", "predict_concentration"}
        if not len(labels) or not known & set(score.prediction_methods):
            return None
        mean = labels.mean(axis=0, keepdims=True)
        constant = mean / mean.sum() if score.order == "first" else _dirichlet(labels, mean)
        prediction = score.check_prediction(constant)
        # Row by row the same prediction: its scores are those of one row against all labels.
        return cls(score, prediction, score.evaluate_pairs(prediction, labels[None])[0])

    def width(self, alpha: float) -> float:
        """Return the width of the sets that cover 1 − α of the labels."""
        threshold = np.quantile(self.scores, 1.0 - alpha, method="higher")
        lower, upper = self.score._region(self.prediction, np.array([threshold])).envelope()
        return round(0.5 * float((upper - lower).sum()), 12)


def _dirichlet(labels: FloatArray, mean: FloatArray) -> FloatArray:
    spread = float(labels.var(axis=0).sum())
    largest = float((mean * (1.0 - mean)).sum())
    precision = min(largest / spread - 1.0, 1e6) if spread > 0.0 else 1e6
    return np.maximum(precision * mean, 1.0)


def percent(share: float) -> str:
    """Write a share as a percentage with one decimal, or none if it is whole.

    Examples
    --------
    >>> percent(0.9), percent(0.896), percent(0.99999)
    ('90%', '89.6%', '99.9%')
    """
    if not np.isfinite(share):
        return "unknown"
    value = round(100.0 * share, 1)
    if value >= 100.0 and share < 1.0:
        value = 99.9  # not all of them
    elif value <= 0.0 < share:
        value = 0.1
    return f"{value:.1f}".removesuffix(".0") + "%"
