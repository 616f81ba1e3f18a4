"""The rule of a review for new items from the same source, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset.acceptance.rule import AcceptRule
from credalset.acting.deciding import Decider, Decisions
from credalset.acting.steps import Findings, next_steps
from credalset.crowd import CrowdCalibration, DirichletCrowd
from credalset.io.store import Saved
from credalset.sets import Queue


@dataclass(frozen=True, eq=False, repr=False)
class StoredRule(Saved):
    """Crowd, thresholds and sets of a review, which give new items their next steps.

    Attributes
    ----------
    rule : AcceptRule
        Which labels are accepted.
    main : int
        The error that decides the next step, one of ``rule.errors``.
    disagreement : float
        Smallest mean disagreement of items that are claimed to be divided.
    least_divided : float
        Largest expected agreement of such an item.
    proved : bool
        Whether the votes of the review prove what the rule accepts; not if some were bought where
        an earlier review asked, or are missing.
    calibration : CrowdCalibration or None
        What predicts sets.
    shares : ndarray of shape (K,) or None
        Shares of the classes, if they are the prediction.
    """

    rule: AcceptRule
    main: int
    disagreement: float
    least_divided: float
    proved: bool
    calibration: CrowdCalibration | None = None
    shares: FloatArray | None = None

    def decide(self, predictions: Any, votes: Any = None, groups: Any = None) -> Queue:
        """Return the next steps of new items, from their predictions and the votes they have.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand.
        groups : sequence of N keys, optional
            Group of each item, if the rule has groups.
        """
        rule = self.rule
        batch, prediction, counts = rule._read(predictions, votes)
        enough, covered = rule._covers(counts)
        codes = rule._codes(batch, groups)
        assert isinstance(rule.crowd, DirichletCrowd)
        decider = Decider(
            rule.crowd.law_,
            rule._loss,
            rule.thresholds,
            self.disagreement,
            self.least_divided,
            self.main,
            rule.errors[self.main],
        )
        found: Decisions = decider.decide(prediction, counts, counts, codes)
        names = tuple(range(rule.n_classes)) if rule.classes is None else rule.classes
        choices = tuple(map(str, names))
        further = np.where(enough, found.further_votes, np.maximum(found.further_votes, 1.0))
        steps = Findings(
            accept=found.accepted[:, self.main] & enough,
            ask=found.ask | ~enough,
            divided=found.divided,
            label=found.label,
            predicted=prediction.argmax(axis=1),
            names=choices,
            votes=counts,
            risk=found.risk * rule.unit,
            further_votes=further,
        )
        step, why = next_steps(steps)
        is_certified = self.proved and bool(np.isfinite(rule.thresholds[:, self.main]).any())
        queue = Queue(
            step,
            why,
            found.label,
            np.zeros(counts.shape, dtype=bool),
            None,  # type: ignore[arg-type]
            choices,
            tuple(range(len(counts))) if batch.items is None else batch.items,
            votes=counts.sum(axis=1).astype(np.int64),
            risk=steps.risk,
            further_votes=np.where(step == "ask", further, 0.0),
            model_errors=steps.model_errors,
            certified=rule.guarantee if is_certified else "",
            proved=steps.accept & covered & is_certified,
        )
        if self.calibration is None:
            return queue
        sets = self.calibration.predict_set(predictions, votes=votes)
        return replace(queue, possible=sets.decide(), entropies=sets.entropy_bounds("K"))
