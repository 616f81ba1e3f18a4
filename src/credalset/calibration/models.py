"""Every noise model by name."""

from __future__ import annotations

from typing import Any

from credalset.calibration.few_votes import FewVotes
from credalset.calibration.noise import AnnotatorSampling, BoundedNoise, Noise, NoNoise, UnbiasedVotes

#: every noise model, by the name it is saved under
NOISES: dict[str, type[Noise]] = {
    model.name: model for model in (NoNoise, BoundedNoise, AnnotatorSampling, UnbiasedVotes, FewVotes)
}

#: those that need no parameters, by the word that stands for them
WORDS: dict[str, type[Noise]] = {
    "few-votes": FewVotes,
    "annotator-sampling": AnnotatorSampling,
    "unbiased-votes": UnbiasedVotes,
}


def as_noise(noise: Any) -> Noise:
    """Check a noise model; None stands for none."""
    if noise is None:
        return NoNoise()
    if isinstance(noise, str) and noise in WORDS:
        return WORDS[noise]()
    if not isinstance(noise, Noise):
        raise TypeError(
            f"noise must be {', '.join(map(repr, WORDS))}, or FewVotes, AnnotatorSampling, UnbiasedVotes or "
            f"BoundedNoise (with parentheses: FewVotes()), but is {noise!r}."
        )
    return noise
