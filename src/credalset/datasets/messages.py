"""Simulated customer messages with votes of several annotators: text data without download."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_positive_int

CLASSES = ("praise", "question", "complaint")
CHANNELS = ("mail", "chat")
N_WORKERS = 60
TONE = {"mail": 0.25, "chat": 0.7}  # standard deviation of log-odds that do not depend on the words

#: phrases and their log-odds of praise, question and complaint
PHRASES = (
    ("The parcel came a day early.", (2.6, -0.6, -1.0)),
    ("Your colleague on the phone was very kind.", (2.4, -0.8, -0.6)),
    ("The new lamp looks even better than in the picture.", (2.8, -1.0, -1.2)),
    ("I have recommended you to my neighbours.", (2.2, -0.6, -0.4)),
    ("Everything works, thank you.", (2.3, -0.2, -0.9)),
    ("Could you tell me when the blue one is back?", (-0.8, 2.8, -0.6)),
    ("How do I change my address?", (-1.0, 3.0, -0.4)),
    ("Is there a manual in Spanish?", (-0.9, 2.6, -0.2)),
    ("Do you also ship to Norway?", (-0.4, 2.7, -0.9)),
    ("I cannot find the invoice for March.", (-1.2, 1.2, 1.0)),
    ("The box was open and two screws were missing.", (-1.4, -0.6, 2.6)),
    ("I have been waiting for three weeks.", (-1.6, -0.2, 2.4)),
    ("It stopped working after an hour.", (-1.6, 0.2, 2.3)),
    ("This is the second time I write.", (-1.2, 0.3, 1.9)),
    ("I want my money back.", (-1.8, -0.4, 2.9)),
    ("Well, that was quick.", (0.9, -1.0, 0.9)),
    ("I did not expect that from you.", (0.6, -0.6, 0.8)),
    ("You certainly know how to surprise a customer.", (0.7, -0.8, 0.8)),
    ("Is this really the way you do it?", (-0.9, 1.1, 1.2)),
    ("I would not have thought it possible.", (0.8, -0.2, 0.4)),
    ("Interesting packaging.", (0.4, -0.1, 0.4)),
    ("Kind regards from a customer of ten years.", (0.4, 0.2, 0.1)),
    ("My order number is in the subject line.", (-0.4, 0.6, 0.4)),
    ("Looking forward to your reply.", (-0.2, 0.9, 0.1)),
)


@dataclass(frozen=True, repr=False)
class Messages:
    """Texts with channels, votes and true label distributions.

    Attributes
    ----------
    items : tuple of str
        Names of the messages.
    texts : tuple of str
        The messages.
    channels : ndarray of shape (N,)
        ``"mail"`` or ``"chat"``.
    workers : ndarray of shape (N, m)
        Annotator of each vote.
    labels : ndarray of shape (N, m)
        Class of each vote.
    distributions : ndarray of shape (N, 3)
        True label distributions.
    classes : tuple of str
        Names of the three classes.
    """

    items: tuple[str, ...]
    texts: tuple[str, ...]
    channels: AnyArray
    workers: AnyArray
    labels: AnyArray
    distributions: FloatArray
    classes: tuple[str, ...] = CLASSES

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return (
            f"Messages: {len(self)} texts, {len(self.classes)} classes, "
            f"{self.labels.shape[1]} votes each"
        )

    @property
    def counts(self) -> IntArray:
        """Number of votes for each class, (N, 3)."""
        return np.stack([(self.labels == name).sum(axis=1) for name in self.classes], axis=1)

    def votes(self) -> dict[str, list[str]]:
        """Return the votes as a long table: columns task, worker and label, one row per vote.

        Returns
        -------
        dict of lists
        """
        return long_table(self.items, self.workers, self.labels)


def make_messages(
    n_items: int = 1500, *, n_votes: int = 30, random_state: RandomState = None
) -> Messages:
    """Generate messages of two or three phrases and votes for praise, question or complaint.

    Some phrases are clear and some are ambiguous. The label distribution depends on the phrases and
    on a random tone, which varies more in chats than in mails and cannot be predicted from the
    text.

    Parameters
    ----------
    n_items : int
        Number of messages.
    n_votes : int
        Number of annotators per message, out of 60 (or ``n_votes``, if that is more).
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Messages

    Examples
    --------
    >>> data = make_messages(500, random_state=0)
    >>> data
    Messages: 500 texts, 3 classes, 30 votes each
    >>> data.texts[3]
    'Looking forward to your reply. Interesting packaging.'
    >>> dict(zip(data.classes, data.counts[3].tolist()))
    {'praise': 15, 'question': 14, 'complaint': 1}
    """
    generator = as_generator(random_state)
    n = as_positive_int(n_items, "n_items")
    m = as_positive_int(n_votes, "n_votes")
    weights = np.array([weight for _, weight in PHRASES])
    order = generator.permuted(np.tile(np.arange(len(PHRASES)), (n, 1)), axis=1)[:, :3]
    is_said = np.arange(3) < generator.integers(2, 4, size=(n, 1))
    channels = np.where(generator.random(n) < 0.6, *CHANNELS)
    tone = np.where(channels == "mail", TONE["mail"], TONE["chat"])[
        :, None
    ] * generator.standard_normal((n, 3))
    truth = softmax((weights[order] * is_said[..., None]).sum(axis=1) + tone, axis=1)
    chosen, workers = draw_votes(truth, m, N_WORKERS, generator)
    return Messages(
        items=tuple(f"m{i:05d}" for i in range(n)),
        texts=tuple(
            " ".join(PHRASES[k][0] for k in row[said])
            for row, said in zip(order, is_said, strict=True)
        ),
        channels=channels,
        workers=workers,
        labels=np.array(CLASSES)[chosen],
        distributions=truth,
    )


def draw_votes(
    distributions: FloatArray, n_votes: int, n_workers: int, generator: np.random.Generator
) -> tuple[IntArray, AnyArray]:
    """Draw votes of different workers from distributions (N, K); return classes and workers.

    Both are arrays (N, m).
    """
    n = len(distributions)
    chosen = (generator.random((n, n_votes, 1)) > distributions.cumsum(axis=1)[:, None, :-1]).sum(
        axis=2
    )
    pool = np.tile(np.arange(max(n_workers, n_votes)), (n, 1))
    workers = np.char.add(
        "w", np.char.zfill(generator.permuted(pool, axis=1)[:, :n_votes].astype(str), 2)
    )
    return chosen, workers


def long_table(items: tuple[str, ...], workers: AnyArray, labels: AnyArray) -> dict[str, list[str]]:
    """Return votes (N, m) as a long table with columns task, worker and label."""
    columns = np.repeat(np.array(items), labels.shape[1]), workers.ravel(), labels.ravel()
    return {
        name: column.tolist()
        for name, column in zip(("task", "worker", "label"), columns, strict=True)
    }
