"""A page to look at: invented pairs of sentences with a hundred votes each, as in ChaosNLI."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from credalset._typing import FloatArray
from credalset.calibration import conformalize
from credalset.reporting.compose import Report, report

CLASSES = ("entailment", "neutral", "contradiction")
PREMISES = (
    "A man in a red coat is walking a dog along the river",
    "Two children are building a tower of wooden blocks",
    "The band played until the lights went out",
    "Three women are waiting at the bus stop in the rain",
    "The company said it would look at the proposal again",
    "A chef is slicing onions in an open kitchen",
    "Most of the visitors left before the speech was over",
    "A girl on a bicycle waves at the camera",
    "The bridge was closed for repairs last summer",
    "An old man is feeding pigeons in the square",
)
HYPOTHESES = {
    0: ("at least one person is involved", "something is going on", "this can be seen or heard"),
    1: ("they know each other well", "it is a weekend", "somebody is in a hurry", "they have done this before"),
    2: ("nobody is there", "everyone is asleep", "it is the middle of the night"),
}


def example_report(path: str | Path | None = "report.html", n_items: int = 400, random_state: int = 0) -> Report:
    """Write a page about invented data in the manner of ChaosNLI: three classes, a hundred votes, two sources.

    Examples
    --------
    >>> example_report(None, n_items=60).queue
    Queue: 60 items, 1 re-annotate, 2 escalate, 10 ambiguous, 47 settled
    """
    rng = np.random.default_rng(random_state)
    n_calibration = 600
    n = n_calibration + n_items
    leaning = rng.integers(3, size=n)
    source = np.where(rng.random(n) < 0.6, "captions", "prose")
    clear = rng.beta(2.0, np.where(source == "captions", 0.9, 1.6))[:, None]
    truth = clear * np.eye(3)[leaning] + (1 - clear) * rng.dirichlet([0.7, 1.4, 0.7], n)
    votes = rng.multinomial(100, truth)
    prediction = _predict(truth, source, rng)
    first, last = slice(n_calibration), slice(n_calibration, None)
    calibration = conformalize(prediction[first], votes[first], "kl", classes=CLASSES)
    others = [conformalize(prediction[first], votes[first], score, classes=CLASSES) for score in ("tv", "inner")]
    return report(
        calibration,
        prediction[last],
        votes[last],
        path,
        compare=others,
        items=[f"pair-{i:04d}" for i in range(n_items)],
        texts=[_pair(lean, rng) for lean in leaning[last].tolist()],
        groups=source[last].tolist(),
        title="Entailment: can the predicted disagreement be trusted?",
        command="credalset.reporting.example_report()",
    )


def _predict(truth: FloatArray, source: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """A model that is unsure in places and, on prose, somewhat wrong."""
    noise = np.where(source == "captions", 0.22, 0.44)[:, None] * rng.gamma(2.0, 0.5, (len(truth), 1))
    logits = np.log(0.9 * truth + 0.1 / 3) + noise * rng.normal(size=truth.shape)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _pair(leaning: int, rng: np.random.Generator) -> str:
    premise = PREMISES[rng.integers(len(PREMISES))]
    choices = HYPOTHESES[leaning]
    return f"{premise}. → {choices[rng.integers(len(choices))].capitalize()}."
