"""Rounds of review on crowds whose distributions are known: votes are bought where it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset.acceptance.losses import LOSSES
from credalset.acceptance.rule import Claim
from credalset.acting.audit import draw_sample
from credalset.acting.review import Review, review_table
from credalset.acting.sources import GivenPredictions
from credalset.acting.table import Table, Terms


@dataclass
class Crowd:
    """Items with known distributions, predictions and a source of votes."""

    truth: np.ndarray
    prediction: np.ndarray
    generator: np.random.Generator

    def votes(self, rows: Any) -> np.ndarray:
        """One further vote on each of some items."""
        return self.generator.multinomial(1, self.truth[rows]).astype(float)


def table_of(crowd: Crowd, counts: np.ndarray, seed: int) -> Table:
    source = GivenPredictions(crowd.prediction, counts, seed, max_iter=15)
    n, k = counts.shape
    codes = np.zeros(n, dtype=np.int64)
    return Table(source, counts, tuple(range(n)), tuple(range(k)), codes)


def terms_of(error: float, seed: int) -> Terms:
    return Terms(Claim(LOSSES["annotator"], (error,), 0.9), seed=seed)


def play(
    crowd: Crowd, start: np.ndarray, error: float, n_rounds: int, seed: int, audit: int = 0
) -> list[Review]:
    """Review, buy a vote wherever it is asked, and review again; audit from the second round on."""
    counts = start.copy()
    terms = terms_of(error, seed)
    found: list[Review] = []
    record = None
    for number in range(n_rounds):
        if found:
            asked = np.flatnonzero(found[-1].step == "ask")
            counts = counts.copy()
            counts[asked] += crowd.votes(asked)
            if audit and number > 1:
                accepted = np.flatnonzero(found[-1].step == "accept")
                if len(accepted):
                    rows = draw_sample(accepted, audit, crowd.generator)
                    record = found[-1].record.with_audit(rows, 0.1)
                    counts[rows] += crowd.votes(rows)
        found.append(
            review_table(table_of(crowd, counts, seed), terms, record=record, with_sets=False)
        )
        record = found[-1].record
    return found


def true_error(crowd: Crowd, review: Review) -> float:
    """Mean error of the labels that are called certified; zero if none is."""
    rows = np.flatnonzero(review.certified)
    if not len(rows):
        return 0.0
    return float(1.0 - crowd.truth[rows, review.queue.label[rows]].mean())
