"""``noise="auto"``: the noise model that gives the narrowest sets, chosen on items that take no further part."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_probability
from credalset.annotations.labels import Labels
from credalset.calibration.few_votes import RARELY, TYPICAL_ALPHA, FewVotes
from credalset.calibration.noise import AnnotatorSampling, Noise, Prepared, UnbiasedVotes
from credalset.calibration.part import Part
from credalset.exceptions import warn
from credalset.scores import Score

LOOKED_AT = 200  # sets whose width is compared
WHOLE = 1e-9  # what the width of every class may lack in sets that say nothing


@dataclass(frozen=True)
class Automatic(Noise):
    """Choose among `FewVotes`, `AnnotatorSampling` and `UnbiasedVotes`, as far as they are valid for score and labels.

    Every fifth item is set aside. The route whose sets, at level 0.1, promise to be narrowest there (mean width of the
    envelopes) calibrates the other items. One that may well end with the whole simplex is taken only if all others may,
    too; a warning says so if that is likely. As the items set aside take no further part, the guarantee of the chosen
    route is untouched. All candidates promise the true distribution on average over calibration sets.
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
        outlooks = [_outlook(one, score, prediction, aside) for one in prepared]
        best = min(range(len(models)), key=lambda i: (outlooks[i].vain > RARELY, outlooks[i].width))
        names = [type(model).__name__ for model in models]
        told = ", ".join(f"{name} {outlook}" for name, outlook in zip(names, outlooks, strict=True))
        if outlooks[best].vain > 0.5:
            warn(
                f"Sets at alpha = {TYPICAL_ALPHA:g} are likely to be the whole simplex with every noise model that is "
                f"valid here. noise='auto' tried {', '.join(names)}. Add calibration items or votes per item, improve "
                "the predictor, or use a larger alpha."
            )
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


class _Outlook(NamedTuple):
    """The mean width of sets that a model promises, and the chance that all of them are the whole simplex."""

    width: float
    vain: float

    def __str__(self) -> str:
        return f"{self.width:.3f}" + (f" (in vain with probability {self.vain:.2f})" if self.vain > RARELY else "")


def _outlook(prepared: Prepared, score: Score, prediction: FloatArray, aside: BoolArray) -> _Outlook:
    """Say what the items set aside promise for sets from the others: as if these were many copies of them."""
    held_out, g, n = prepared.bounds[:, aside], prediction[aside][:LOOKED_AT], int((~aside).sum())
    if isinstance(prepared.model, FewVotes):
        likely, times = np.unique(prepared.model.scenarios(held_out, n, TYPICAL_ALPHA), return_counts=True)
        each = [np.full(len(g), threshold) for threshold in likely]
    else:
        alpha = Fraction(TYPICAL_ALPHA).limit_denominator(1000)
        copies = held_out[:, np.arange(n) % held_out.shape[1]]
        each = [prepared.model.thresholds(Part(copies, held_out), alpha, score, g, None)]
        times = np.ones(1, dtype=np.int64)
    sets = [score._region(g, thresholds) for thresholds in each]
    widths = np.stack([np.nan_to_num(one.upper() - one.lower()) for one in sets])
    mean_widths = 0.5 * widths.sum(axis=2).mean(axis=1)  # as `metrics.mean_width` has it
    vain = (widths >= 1.0 - WHOLE).all(axis=(1, 2))
    return _Outlook(*(float(np.average(row, weights=times)) for row in (mean_widths, vain)))
