"""Calibration for items with votes in hand.

There is one threshold per number of votes, or one for a policy as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Literal
from zlib import crc32

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import check_choice
from credalset.calibration import Calibration, CoverageDistribution, Guarantee, conformalize
from credalset.crowd.estimator import DirichletCrowd, Saved, Voted
from credalset.crowd.fitting import bootstrap_laws
from credalset.crowd.law import CrowdLaw
from credalset.crowd.policy import VotingPolicy
from credalset.crowd.posterior import Posterior, predict_blocks
from credalset.exceptions import warn
from credalset.scores import Score
from credalset.sets import CredalSet
from credalset.votes.names import Labels, Names, join_names

DRAWS = 20  # imputed distributions per item
LARGEST_IMPUTED = 20_000_000  # numbers in all draws: items × draws × classes


@dataclass(frozen=True, eq=False, repr=False)
class CrowdCalibration(Saved):
    """Calibrated thresholds for items with votes in hand.

    It is returned by `DirichletCrowd.conformalize` and by `VotingPolicy.conformalize`. For new
    items that are exchangeable with the calibration items, the sets at level α contain:

    - with ``method="panel"``, the shares of the votes that are not in hand, with probability at
      least 1 − α, if an item would get as many votes in all as the calibration items, and the
      number of votes in hand was fixed without looking at the item or its votes; with groups, this
      number may depend on the group;
    - with a policy, the shares of the votes that it did not ask for, with probability at least 1 −
      α, if it asked for the votes in hand;
    - with ``method="imputed"``, the true distribution, with probability approximately 1 − α, if
      votes follow the crowd model.

    ``guarantee`` states which of these applies, with all assumptions.

    Attributes
    ----------
    crowd : DirichletCrowd
        The crowd that predicts from votes.
    calibrations : tuple of Calibration
        One calibration for each number of votes in hand; a single one for a policy.
    in_hand : tuple of int
        The numbers of votes in hand that were calibrated; empty for a policy.
    method : {"panel", "imputed"}
        Whether the calibration labels are held-back votes or draws from the posterior.
    n_items : int
        Number of calibration items.
    min_votes : int
        Number of votes that an item needed to be used for calibration.
    items : tuple or None
        Names of the calibration items, if they are known.
    policy : VotingPolicy or None
        The policy that was calibrated as a whole, None for calibration by number of votes.
    """

    crowd: DirichletCrowd
    calibrations: tuple[Calibration, ...]
    in_hand: tuple[int, ...]
    method: Literal["panel", "imputed"]
    n_items: int
    min_votes: int
    items: Names | None = None
    policy: VotingPolicy | None = None

    def __post_init__(self) -> None:
        check_choice(self.method, "method", ("panel", "imputed"))
        numbers = self.in_hand if self.policy is None else (0,)
        if len(numbers) != len(self.calibrations) or sorted(set(numbers)) != list(numbers):
            raise ValueError(
                "in_hand must name each number of votes once, in order, with a calibration for "
                "each."
            )

    @property
    def score(self) -> Score:
        """The nonconformity score that was calibrated."""
        return self.calibrations[0].score

    @property
    def classes(self) -> Names | None:
        """Names of the classes in column order, None if they are not known."""
        return self.crowd.classes_

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.calibrations[0].n_classes

    @property
    def groups(self) -> Any:
        """The groups that were calibrated, None without groups."""
        return self.calibrations[0].groups

    @property
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""
        plain = self.calibrations[0].guarantee
        if self.method == "imputed":
            votes = "votes follow the fitted Dirichlet crowd, which DirichletCrowd.check tests"
            return replace(plain, covers="true", votes=votes, is_exact=False)
        item = "the item" if self.groups is None else "more of the item than its group"
        hand = f"the number of votes in hand was fixed without looking at {item} or its votes"
        hand = hand if self.policy is None else "the policy asked for the votes in hand"
        votes = (
            f"an item would get as many votes in all as the panel items ({self.min_votes} "
            "or more), in random order"
        )
        votes += f"; {hand}; the crowd was fitted to other items"
        return replace(plain, covers="further", votes=votes)

    def threshold(self, alpha: float = 0.1, *, in_hand: int = 0) -> float:
        """Return the threshold for items with this number of votes in hand, or that of the policy.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).
        in_hand : int
            Number of votes in hand, one of those that were calibrated; not used with a policy.

        Returns
        -------
        float
        """
        if self.policy is not None:
            return self.calibrations[0].threshold(alpha)
        if in_hand not in self.in_hand:
            raise ValueError(
                f"in_hand must be one of {join_names(self.in_hand, 20)}, but is {in_hand!r}."
            )
        return self.calibrations[self.in_hand.index(in_hand)].threshold(alpha)

    def coverage_distribution(self, alpha: float) -> CoverageDistribution:
        """Return the distribution of coverage over panels; needs one threshold for all items."""
        if len(self.calibrations) > 1 or self.method == "imputed":
            raise ValueError(
                "The distribution of the coverage is known for a panel with one number of votes "
                "in hand."
            )
        return self.calibrations[0].coverage_distribution(alpha)

    def predict_set(
        self, predictions: Any, votes: Any = None, alpha: float = 0.1, *, groups: Any = None
    ) -> CredalSet:
        """Predict credal sets for items with votes in hand; numbers of votes may differ.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand. Their number must be fixed without looking at the item or its votes. If
            an item has a number of votes that was not calibrated, a random subset of the next
            smaller calibrated size is used, always the same one; the set then covers the shares of
            all votes outside this subset. With a policy, pass the votes that it asked for; items
            that need another vote are refused.
        alpha : float
            Miscoverage rate in (0, 1).
        groups : sequence of N keys, optional
            Group of each item, if the calibration has groups.

        Returns
        -------
        CredalSet
        """
        voted = self.crowd.read(predictions, votes).grouped(groups)
        thresholds = np.empty(len(predictions))
        if self.policy is None:
            voted = self.thin(voted)
            parts = [np.flatnonzero(voted.n_votes == h) for h in self.in_hand]
        else:
            self.policy.refuse_unfinished(voted)
            parts = [np.arange(len(voted))]
        predicted = predict_blocks(
            self.crowd.law_, voted.prediction, voted.counts, self.score.order
        )
        for rows, calibration in zip(parts, self.calibrations, strict=True):
            if len(rows):
                own = voted[rows].groups
                thresholds[rows] = calibration.predict_set(
                    predicted[rows], alpha, groups=own
                ).threshold
        return replace(
            self.score.region(predicted, thresholds), classes=voted.classes, items=voted.items
        )

    def thin(self, voted: Voted) -> Voted:
        """Leave out votes at random, down to the next smaller number that was calibrated."""
        place = np.searchsorted(self.in_hand, voted.n_votes, side="right") - 1
        if place.min(initial=0) < 0:
            raise ValueError(
                f"votes has items with {voted.n_votes.min()} votes in hand, but in_hand starts "
                f"at {self.in_hand[0]}. "
                "Pass the votes in hand (votes_in_hand), or calibrate with fewer."
            )
        numbers = np.array(self.in_hand)[place]
        counts = voted.counts.astype(np.int64)
        rows = np.flatnonzero(numbers < voted.n_votes)
        for row in rows:
            name = "" if voted.items is None else repr(voted.items[row])
            seed = crc32(
                voted.prediction[row].tobytes()
                + counts[row].tobytes()
                + name.encode(errors="replace")
            )
            counts[row] = np.random.default_rng(seed).multivariate_hypergeometric(
                counts[row], numbers[row]
            )
        if len(rows):
            warn(
                f"{len(rows)} of {len(voted)} items have other numbers of votes in hand than were "
                f"calibrated ({join_names(self.in_hand, 20)}): a random subset of their votes is "
                "used, as many as the next smaller number."
            )
        return replace(voted, counts=counts.astype(np.float64))

    def __repr__(self) -> str:
        votes = (
            f"{', '.join(map(str, self.in_hand))} votes in hand"
            if self.policy is None
            else "voting policy"
        )
        what = "panel" if self.method == "panel" else "imputed (assumes a Dirichlet crowd)"
        size = f"{what} of {self.n_items} items, {len(self.crowd.law_.confusion)} classes"
        return f"CrowdCalibration: score {self.score.name}, {votes}, {size}"


def calibrate(
    score: Score, law: CrowdLaw, voted: Voted, hand: FloatArray, labels: FloatArray
) -> Calibration:
    """Calibrate predictions from votes in hand, (n, K), on one or more labels each, (n, L, K)."""
    if (
        score.is_ordinal
    ):  # the classes of the crowd are fixed, so that their columns cannot be reordered
        Labels(voted.prediction, classes=voted.classes, scale=voted.scale).scale_order(
            has_names=False, name="votes"
        )
    score = score.on_scale(voted.scale)
    predicted = predict_blocks(law, voted.prediction, hand, score.order)
    n_items, n_labels, n_classes = labels.shape
    keys = None if voted.groups is None else np.repeat(voted.groups, n_labels)
    flat = labels.reshape(n_items * n_labels, n_classes)
    return conformalize(np.repeat(predicted, n_labels, axis=0), flat, score, groups=keys)


def impute(law: CrowdLaw, voted: Voted, generator: np.random.Generator) -> FloatArray:
    """Draw distributions of the crowd given all votes, (n, L, K).

    Each draw is from a different refit of the law.
    """
    n_draws = int(np.clip(LARGEST_IMPUTED // voted.prediction.size, 1, DRAWS))
    laws = bootstrap_laws(law, voted.prediction, voted.counts, generator)
    posteriors = (
        Posterior.given(each, voted.prediction, voted.counts)
        for each in islice(cycle(laws), n_draws)
    )
    return np.concatenate([posterior.sample(1, generator) for posterior in posteriors], axis=1)
