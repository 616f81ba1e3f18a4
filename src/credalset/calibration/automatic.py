"""``noise="auto"``: the noise model that gives the narrowest sets, chosen on items that take no further part."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_probability
from credalset.annotations.labels import Labels
from credalset.calibration.few_votes import TYPICAL_ALPHA, FewVotes
from credalset.calibration.noise import AnnotatorSampling, Noise, Prepared, UnbiasedVotes
from credalset.calibration.part import Part
from credalset.scores import Score

LOOKED_AT = 200  # sets whose width is compared


@dataclass(frozen=True)
class Automatic(Noise):
    """Choose among `FewVotes`, `AnnotatorSampling` and `UnbiasedVotes`, as far as they are valid for score and labels.

    Every fifth item is set aside. The route whose sets, at level 0.1, promise to be narrowest there (mean width of the
    envelopes) calibrates the other items. As those set aside take no further part, its guarantee is untouched. All
    candidates promise the true distribution on average over calibration sets.
    """

    tuning: float = 0.2
    name: ClassVar[str] = "auto"
    takes_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tuning", as_probability(self.tuning, "tuning"))

    @property
    def is_settled(self) -> bool:
        """Return that the choice is still to be made."""
        return False

    def agrees_with(self, settled: Noise) -> bool:
        """Tell whether a model is one that this one may choose."""
        return isinstance(settled, FewVotes | AnnotatorSampling | UnbiasedVotes) and settled.tuning == self.tuning

    def candidates(self, score: Score, prediction: FloatArray | None, labels: Labels | None) -> list[Noise]:
        """Return the models that are valid."""
        known: list[Noise] = [UnbiasedVotes(tuning=self.tuning)]
        if labels is None or labels.counts is not None:
            known += [AnnotatorSampling(tuning=self.tuning), FewVotes(None, tuning=self.tuning)]
        return [model for model in known if _is_valid(model, score, prediction)]

    def check_score(self, score: Score, prediction: FloatArray | None = None) -> None:
        """Refuse a score that no model is valid for."""
        if not self.candidates(score, prediction, None):
            raise ValueError(
                f"noise='auto' knows no valid noise model for the score {score.name!r}. Use a convex score, or "
                "BoundedNoise with an epsilon you can justify."
            )

    def why_not_cross_conformal(self) -> str | None:
        """Refuse: there are no items to set aside."""
        return (
            "noise='auto' chooses on items set aside, and in cross-conformal calibration every item counts. Use "
            "AnnotatorSampling(delta), or split the data and conformalize."
        )

    def why_no_weights(self) -> str | None:
        """Refuse: widths under a shift are not those of the items set aside."""
        return (
            "noise='auto' compares widths on items set aside, which stand for items without a shift. Name a noise "
            "model: UnbiasedVotes or AnnotatorSampling."
        )

    def prepare(self, score: Score, prediction: FloatArray, labels: Labels, scores: FloatArray) -> Prepared:
        """Compare the candidates on the items set aside, and go on with the best."""
        models = self.candidates(score, prediction, labels)
        if not models:
            raise ValueError(
                f"noise='auto' needs annotation counts for the score {score.name!r}, which is not convex, but labels "
                "holds distributions. Pass the counts."
            )
        aside = self.set_aside(len(scores))
        if not aside.any():
            raise ValueError(
                f"noise='auto' sets aside a share {self.tuning:g} of the items, and {len(scores)} are too few."
            )
        prepared = [model.prepare(score, prediction, labels, scores) for model in models]
        widths = [_width(one, score, prediction, aside) for one in prepared]
        best = int(np.argmin(widths))
        told = ", ".join(f"{type(model).__name__} {width:.3f}" for model, width in zip(models, widths, strict=True))
        reason = (
            f"Chosen for the smallest mean width of sets at alpha = {TYPICAL_ALPHA:g} that the {aside.sum()} items set "
            f"aside promise: {told}"
        )
        return prepared[best]._replace(reason=reason)


def _is_valid(model: Noise, score: Score, prediction: FloatArray | None) -> bool:
    try:
        model.check_score(score, prediction)
    except ValueError:
        return False
    knows_its_size = score.has_convex_regions or type(score).largest_above is not Score.largest_above
    return knows_its_size or not isinstance(model, AnnotatorSampling)


def _width(prepared: Prepared, score: Score, prediction: FloatArray, aside: BoolArray) -> float:
    """Return the mean width of sets for the items set aside, as calibration with them alone promises it."""
    held_out, g, n = prepared.bounds[:, aside], prediction[aside][:LOOKED_AT], int((~aside).sum())
    alpha = Fraction(TYPICAL_ALPHA).limit_denominator(1000)
    if isinstance(prepared.model, FewVotes):
        thresholds = np.full(len(g), np.exp(prepared.model.outlook(held_out, n, TYPICAL_ALPHA)))
    else:
        thresholds = prepared.model.thresholds(Part(held_out, held_out), alpha, score, g, None)
    sets = score._region(g, thresholds)
    return float(np.nan_to_num(sets.upper() - sets.lower()).mean())
