"""Simulated pairs of answers that language-model judges and people compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_positive_int
from credalset.datasets.messages import draw_votes, long_table

CLASSES = ("first better", "tie", "second better")
SLICES = ("short", "long", "code")
N_WORKERS = 40
#: log-odds by which the first judges prefer the second answer on a slice
BIASES = (
    ("long", 4.0),
    ("code", 2.0),
)


@dataclass(frozen=True, eq=False, repr=False)
class JudgePanel:
    """Pairs of answers, the predictions of judges and the votes of people.

    Attributes
    ----------
    items : tuple of str
        Names of the N pairs.
    judges : tuple of str
        Names of the J judges.
    slices : ndarray of N str
        Kind of each pair: ``"short"``, ``"long"`` or ``"code"``.
    probabilities : ndarray of shape (J, N, K)
        Predicted distributions of each judge.
    workers : ndarray of shape (N, m)
        Annotator of each vote.
    labels : ndarray of shape (N, m)
        Class of each vote.
    distributions : ndarray of shape (N, K)
        True label distributions.
    classes : tuple of str
        Names of the K = 3 classes.
    """

    items: tuple[str, ...]
    judges: tuple[str, ...]
    slices: AnyArray
    probabilities: FloatArray
    workers: AnyArray
    labels: AnyArray
    distributions: FloatArray
    classes: tuple[str, ...] = CLASSES

    @property
    def prediction(self) -> FloatArray:
        """Mean of the judges' probabilities, (N, K)."""
        return np.asarray(self.probabilities.mean(axis=0))

    @property
    def counts(self) -> IntArray:
        """Number of people's votes for each class, (N, K)."""
        return np.stack([(self.labels == name).sum(axis=1) for name in self.classes], axis=1)

    def votes(self) -> dict[str, list[str]]:
        """Return the votes as a long table: columns task, worker and label, one row per vote.

        Returns
        -------
        dict of lists
        """
        return long_table(self.items, self.workers, self.labels)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return (
            f"JudgePanel: {len(self)} items, {len(self.judges)} judges, "
            f"{self.labels.shape[1]} votes each"
        )


def make_judge_panel(
    n_items: int = 1000, *, n_judges: int = 3, n_votes: int = 5, random_state: RandomState = None
) -> JudgePanel:
    """Generate pairs of answers, probabilities of several judges, and the votes of people.

    The judges are language models.

    Log-odds of people are normal. Those of judges have additional noise and are too large by
    different factors. The first judge is biased towards the second answer on long answers, the
    second judge on code, so that the coverage of sets calibrated on all items differs between
    slices.

    Parameters
    ----------
    n_items : int
        Number of pairs.
    n_judges : int
        Number of judges.
    n_votes : int
        Number of votes on each pair.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    JudgePanel

    Examples
    --------
    >>> panel = make_judge_panel(200, random_state=0)
    >>> panel, panel.prediction.shape
    (JudgePanel: 200 items, 3 judges, 5 votes each, (200, 3))
    >>> [column[0] for column in panel.votes().values()]
    ['p0000', 'w34', 'first better']
    """
    generator = as_generator(random_state)
    n = as_positive_int(n_items, "n_items")
    n_judges = as_positive_int(n_judges, "n_judges")
    logits = 1.5 * generator.standard_normal((n, len(CLASSES)))
    slices = generator.choice(SLICES, n)
    seen = np.linspace(1.2, 2.0, n_judges)[:, None, None] * (
        logits + 0.5 * generator.standard_normal((n_judges, n, 3))
    )
    for judge, (kind, bias) in enumerate(BIASES[:n_judges]):
        seen[judge, slices == kind, -1] += bias
    truth = np.asarray(softmax(logits, axis=1))
    chosen, workers = draw_votes(truth, as_positive_int(n_votes, "n_votes"), N_WORKERS, generator)
    items = tuple(f"p{i:04d}" for i in range(n))
    judges = tuple(f"judge {j + 1}" for j in range(n_judges))
    return JudgePanel(
        items, judges, slices, softmax(seen, axis=-1), workers, np.array(CLASSES)[chosen], truth
    )
