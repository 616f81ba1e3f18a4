"""Calibration for items with votes in hand: one threshold per number of votes, or for a policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import cycle, islice
from typing import Any, Literal
from zlib import crc32

import numpy as np

from credalset._batch import Batch, Labels, Names, order_of_scale, take_names
from credalset._display import join_names
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import check_choice
from credalset.calibration.base import (
    Calibration,
    CalibrationItems,
    Inputs,
    Support,
)
from credalset.calibration.levels import CoverageDistribution
from credalset.calibration.noise import Columns, Guarantee, Quantile
from credalset.calibration.split import SplitCalibration, calibrate
from credalset.calibration.thresholds import Options, Thresholds
from credalset.crowd.base import Crowd, Policy, VotedItems
from credalset.crowd.check import CrowdCheck, check_crowd
from credalset.crowd.fitting import bootstrap_laws
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior
from credalset.crowd.scaling import adapt, predict_for
from credalset.exceptions import warn
from credalset.scores import Score
from credalset.sets import CredalSet

DRAWS = 20  # imputed distributions per item
SIMULATIONS = 199  # of the test of the crowd model
LARGEST_IMPUTED = 20_000_000  # numbers in all draws: items × draws × classes


@dataclass(frozen=True, eq=False, repr=False)
class CrowdCalibration(Calibration):
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
    calibrations : tuple of SplitCalibration
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

    crowd: Crowd
    calibrations: tuple[SplitCalibration, ...]
    in_hand: tuple[int, ...]
    method: Literal["panel", "imputed"]
    n_items: int
    min_votes: int
    items: Names | None = None
    policy: Policy | None = None

    def __post_init__(self) -> None:
        check_choice(self.method, "method", ("panel", "imputed"))
        numbers = self.in_hand if self.policy is None else (0,)
        if len(numbers) != len(self.calibrations) or sorted(set(numbers)) != list(numbers):
            raise ValueError(
                "in_hand must name each number of votes once, in order, with a calibration for "
                "each."
            )

    def __len__(self) -> int:
        """Number of calibration items."""
        return self.n_items

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
    def groups(self) -> Names | None:
        """The groups that were calibrated, None without groups."""
        return self.calibrations[0].groups

    @property
    def _needs_groups(self) -> bool:
        return self.groups is not None

    @property
    def supports(self) -> frozenset[Support]:
        """What the calibration takes or computes beyond predictions and a level."""
        return frozenset({"votes", "groups", "p_values"})

    @property
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""
        plain = self.calibrations[0].guarantee
        if self.method == "imputed":
            votes = "votes follow the fitted Dirichlet crowd, which DirichletCrowd.check tests"
            return replace(plain, covers="true", votes=votes, is_exact=False)
        item = "the item" if self.groups is None else "more of the item than its group"
        hand = f"the number of votes in hand was fixed without looking at {item} or its votes"
        if self.policy is not None:
            hand = "the policy asked for the votes in hand"
        votes = (
            f"an item would get as many votes in all as the panel items ({self.min_votes} or "
            f"more), in random order; {hand}; the crowd was fitted to other items"
        )
        return replace(plain, covers="further", votes=votes)

    def threshold(self, alpha: float = 0.1, *, in_hand: int = 0) -> float:
        """Return the threshold for items with this number of votes in hand, or of the policy.

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
        """Return the distribution of the coverage over panels, for one threshold for all items.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).

        Returns
        -------
        CoverageDistribution
        """
        if len(self.calibrations) > 1 or self.method == "imputed":
            raise ValueError(
                "The distribution of the coverage is known for a panel with one number of votes "
                "in hand."
            )
        return self.calibrations[0].coverage_distribution(alpha)

    def p_values(
        self, predictions: Any, distributions: Any, *, votes: Any = None, groups: Any = None
    ) -> FloatArray:
        """Return the conformal p-value of each candidate distribution of the votes not in hand.

        Parameters
        ----------
        predictions, votes, groups
            As in `predict_set`.
        distributions : array or data frame of shape (N, K), or Annotations
            One candidate per item: a distribution, or counts of votes.

        Returns
        -------
        ndarray of shape (N,)
            The p-values; a distribution is in the set at level α if its p-value exceeds α.
        """
        inputs = self._read(predictions, votes=votes, groups=groups)
        candidates = inputs.batch.votes(distributions, "distributions").distributions
        return self._p_of_scores(inputs, self.score.evaluate_rows(inputs.prediction, candidates))

    def predict_set(
        self,
        predictions: Any,
        alpha: float = 0.1,
        *,
        votes: Any = None,
        groups: Any = None,
        weights: Any = None,
    ) -> CredalSet:
        """Predict credal sets for items with votes in hand, of which items may have any number.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        alpha : float
            Miscoverage rate in (0, 1).
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand. Their number must be fixed without looking at the item or its votes. If
            an item has a number of votes that was not calibrated, a random subset of the next
            smaller calibrated size is used, always the same one; the set then covers the shares of
            all votes outside this subset. With a policy, pass the votes that it asked for; items
            that need another vote are refused. Predicted items that the votes do not name have
            none.
        groups : sequence of N keys, optional
            Group of each item, if the calibration has groups.
        weights : None
            Not used by this calibration.

        Returns
        -------
        CredalSet
        """
        sets: CredalSet = super().predict_set(
            predictions, alpha, votes=votes, groups=groups, weights=weights
        )
        return sets

    # --- the protocol ---

    def _read_inputs(self, predictions: Any, votes: Any, groups: Any, weights: Any) -> Inputs:
        voted = self.crowd._read(predictions, votes)
        used = voted.counts
        if self.policy is None:
            used = self._thin(voted)
        else:
            self.policy._refuse_unfinished(voted)
        center = predict_for(self.score, self.crowd.law_, voted.prediction, used)
        groups = voted.batch.per_item(groups, "groups")
        fitted = self.calibrations[0].fitted
        codes, keys, columns = fitted.read_new(self.score, center, groups, None)
        return Inputs(
            voted.batch,
            self.score.check_prediction(center, "predictions", self.n_classes),
            codes,
            keys,
            columns,
            in_hand=used,
            set_aside=voted.counts - used,
        )

    def _p_of_scores(self, inputs: Inputs, scores: FloatArray) -> FloatArray:
        found = np.empty(len(inputs))
        for rows, part in self._parts(inputs):
            found[rows] = part._p_of_scores(inputs.take(rows), scores[rows])
        return found

    def _given(self, inputs: Inputs, rows: IntArray, used: FloatArray) -> Inputs:
        """Return some of the items, which may repeat, with other votes in hand."""
        some = inputs.take(rows)
        center = predict_for(self.score, self.crowd.law_, some.batch.values, used)
        return replace(
            some,
            prediction=self.score.check_prediction(center, "predictions", self.n_classes),
            in_hand=used,
            set_aside=np.zeros_like(used),
        )

    def _all_scores(self) -> FloatArray:
        return np.concatenate([part.scores for part in self.calibrations])

    def _parts(self, inputs: Inputs) -> list[tuple[IntArray, SplitCalibration]]:
        """Return the rows with each number of votes in hand, and their calibration."""
        if self.policy is not None:
            return [(np.arange(len(inputs)), self.calibrations[0])]
        assert inputs.in_hand is not None
        numbers = inputs.in_hand.sum(axis=1)
        found = []
        for number, part in zip(self.in_hand, self.calibrations, strict=True):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                found.append((rows, part))
        return found

    def _thresholds(self, inputs: Inputs, level: Fraction) -> FloatArray:
        found = np.empty(len(inputs))
        for rows, part in self._parts(inputs):
            found[rows] = part._thresholds(inputs.take(rows), level)
        return found

    def _sets(self, inputs: Inputs, thresholds: FloatArray) -> CredalSet:
        sets = self.score._region(inputs.prediction, thresholds)
        return replace(sets, classes=self.classes, items=inputs.batch.items)

    def _coverage_of(
        self, inputs: Inputs, alpha: float, rows: AnyArray
    ) -> list[tuple[CoverageDistribution, int]] | None:
        # Items with different numbers of votes in hand share calibration items: not independent.
        parts = self._parts(inputs)
        if len(parts) != 1 or self.method == "imputed":
            return None
        return parts[0][1]._coverage_of(inputs, alpha, rows)

    def _tested(self, inputs: Inputs, labels: Labels) -> tuple[FloatArray, str]:
        """Add the votes that were set aside; leave out items with too few votes in all."""
        if self.method == "imputed" or labels.counts is None or inputs.in_hand is None:
            return labels.distributions, ""
        assert inputs.set_aside is not None
        further = labels.counts + inputs.set_aside
        total = further.sum(axis=1, keepdims=True)
        voted = labels.has_votes[:, None]
        shares = np.where(voted, further / np.maximum(total, 1.0), labels.distributions)
        in_all = total[:, 0] + inputs.in_hand.sum(axis=1)
        few = (in_all < self.min_votes) & labels.has_votes
        if not few.any():
            return shares, ""
        note = (
            f"{few.sum()} items with fewer than {self.min_votes} votes in all are left out, as "
            "they cannot test the guarantee."
        )
        return np.where(few[:, None], np.nan, shares), note

    def _check_assumption(self, inputs: Inputs, labels: Labels) -> CrowdCheck | None:
        """Hide votes and compare them with what the crowd predicts, if it is assumed."""
        if self.method == "panel" or labels.counts is None or not labels.has_votes.any():
            return None
        assert inputs.in_hand is not None
        assert inputs.set_aside is not None
        counts = labels.counts + inputs.in_hand + inputs.set_aside
        voted = VotedItems(inputs.batch, counts)
        return check_crowd(self.crowd.law_, voted, SIMULATIONS, np.random.default_rng(0))

    def _used(self) -> dict[str, set[str]]:
        return {"training": set(map(str, self.crowd.items_ or ())), **super()._used()}

    def _hold_back(self, predictions: Any, votes: Any) -> tuple[IntArray, Any, Any] | None:
        """Replay the policy: it uses some of the votes, and the others test its sets."""
        if self.policy is None:
            return None
        voted = self.crowd._read(predictions, votes, partial=False)
        rows = np.flatnonzero(voted.n_votes >= self.min_votes)
        if not len(rows):
            raise ValueError(
                f"votes has at most {voted.n_votes.max(initial=0)} votes on an item, but the "
                f"policy was calibrated on items with {self.min_votes} or more, and so it must be "
                "tested. Pass items with as many votes, or the votes in hand separately."
            )
        panel = voted[rows]
        used = self.policy._use(panel.prediction, panel.counts, np.random.default_rng(0))
        return rows, used, panel.counts - used

    def _thin(self, voted: VotedItems) -> FloatArray:
        """Leave out votes at random, down to the next smaller number that was calibrated."""
        place = np.searchsorted(self.in_hand, voted.n_votes, side="right") - 1
        if place.min(initial=0) < 0:
            raise ValueError(
                f"votes has items with {voted.n_votes.min()} votes in hand, but in_hand starts at "
                f"{self.in_hand[0]}. Pass the votes in hand, or calibrate with fewer."
            )
        numbers = np.array(self.in_hand)[place]
        counts = voted.counts.astype(np.int64)
        rows = np.flatnonzero(numbers < voted.n_votes)
        for row in rows:
            generator = np.random.default_rng(_seed_of(voted, row))
            counts[row] = generator.multivariate_hypergeometric(counts[row], numbers[row])
        if len(rows):
            warn(
                f"{len(rows)} of {len(voted)} items have other numbers of votes in hand than were "
                f"calibrated ({join_names(self.in_hand, 20)}): a random subset of their votes is "
                "used, as many as the next smaller number."
            )
        return counts.astype(np.float64)

    def __repr__(self) -> str:
        votes = "voting policy"
        if self.policy is None:
            votes = f"{', '.join(map(str, self.in_hand))} votes in hand"
        what = "panel" if self.method == "panel" else "imputed (assumes a Dirichlet crowd)"
        size = f"{what} of {self.n_items} items, {self.n_classes} classes"
        return f"CrowdCalibration: score {self.score.title}, {votes}, {size}"


def _seed_of(voted: VotedItems, row: Any) -> int:
    """Return a seed that depends on an item and its votes, and on nothing else in the batch."""
    name = "" if voted.items is None else repr(voted.items[row])
    seen = voted.prediction[row].tobytes() + voted.counts[row].astype(np.int64).tobytes()
    return crc32(seen + name.encode(errors="replace"))


def calibrate_in_hand(
    score: Score,
    law: CrowdLaw,
    voted: VotedItems,
    hand: FloatArray,
    truth: FloatArray,
    scale: str | None,
) -> SplitCalibration:
    """Calibrate predictions from votes in hand, (n, K), against distributions (n, L, K).

    Each item has one or more distributions: the votes that were held back, or draws of the truth.
    """
    order = order_of_scale(voted.scale) if score.is_ordinal else None
    if order is not None:
        levels = take_names(voted.batch.classes or tuple(range(len(order))), order)
        raise ValueError(
            f"votes are on the scale {join_names(levels or (), 8)}, but the columns of the crowd "
            "are in another order. Fit the crowd to votes with this scale, or put the columns "
            "into its order."
        )
    n_items, n_labels, n_classes = truth.shape
    score = adapt(score.on_scale(voted.scale), scale, n_classes)
    predicted = predict_for(score, law, voted.prediction, hand)
    flat = truth.reshape(n_items * n_labels, n_classes)
    shares = flat / flat.sum(axis=1, keepdims=True)
    keys = None
    if voted.groups is not None:
        keys = [key for key in voted.groups for _ in range(n_labels)]
    repeated = predicted[np.repeat(np.arange(n_items), n_labels)]
    repeated = score.check_prediction(repeated, "predictions")
    batch = Batch(repeated, n_classes)
    options = Options.read(len(flat), groups=keys)
    if n_labels == 1:
        return calibrate(CalibrationItems(score, batch, Labels(shares), options))
    # The draws of an item count as one item: each has weight 1 / L, and a new item has weight one.
    # The threshold is infinite if the items are too few, however many draws there are.
    scores = score.evaluate_rows(repeated, shares)
    weights = np.full(len(scores), 1.0 / n_labels)

    def fit(rows: Any, columns: Columns) -> Quantile:
        return Quantile(scores[rows], options.noise, weights[rows])

    thresholds = Thresholds.build(options, score, repeated, fit)
    return SplitCalibration(score, scores, n_classes, thresholds)


def impute(law: CrowdLaw, voted: VotedItems, generator: np.random.Generator) -> FloatArray:
    """Draw distributions of the crowd given all votes, (n, L, K), each from another refit."""
    n_draws = int(np.clip(LARGEST_IMPUTED // voted.prediction.size, 1, DRAWS))
    laws = bootstrap_laws(law, voted.prediction, voted.counts, generator)
    draws = []
    for each in islice(cycle(laws), n_draws):
        posterior = Posterior.given(each, voted.prediction, voted.counts)
        draws.append(posterior.sample(1, generator))
    return np.concatenate(draws, axis=1)
