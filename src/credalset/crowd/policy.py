"""Policies that ask vote by vote, replayed and calibrated as a whole."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from credalset import metrics
from credalset._display import Rows, progress
from credalset._typing import BoolArray, FloatArray, IntArray, RandomState
from credalset._validation import (
    as_finite,
    as_generator,
    as_positive_int,
    as_probability,
    check_choice,
)
from credalset.acceptance.cases import Seen, evaluate_cases
from credalset.acceptance.certify import certify
from credalset.acceptance.rule import Claim
from credalset.crowd.accept import believe
from credalset.crowd.base import Crowd, Policy, VotedItems, enough_votes
from credalset.crowd.drawing import draw_one, draw_votes
from credalset.crowd.in_hand import CrowdCalibration, calibrate_in_hand
from credalset.crowd.posterior import Posterior, blocks, predict_blocks
from credalset.crowd.promise import acceptance_per_vote, risk_of
from credalset.crowd.scaling import SCALES, predict_for
from credalset.scores import get_score

Rule = Callable[[FloatArray, FloatArray], Any]
CENTRAL = float(norm.ppf(0.95))  # of a posterior interval of 90 %
CHECKED_ROWS = 50  # of a rule of the user's own, each alone against the batch
LARGEST_FORECAST, SIMULATED = 500_000, 50_000  # items × draws, in all and at a time


@dataclass(frozen=True, eq=False)
class VotingPolicy(Policy):
    """Decide item by item whether to ask for another vote.

    Every item first gets ``initial_votes`` votes. Then the policy asks for one vote at a time. It
    stops when the first class leads the second by ``lead`` posterior standard deviations, when the
    posterior is as narrow as ``width``, when such a lead has become improbable (``futility``), or
    at ``max_votes``. With ``accept`` it asks instead only where a vote is likely to lead to the
    acceptance of a label.

    A policy has no guarantee before it is calibrated. `conformalize` returns a `CrowdCalibration`,
    whose sets contain the shares of the votes that the policy did not ask for with probability at
    least 1 − α, for new items that are exchangeable with the calibration items and go through the
    same policy.

    Parameters
    ----------
    crowd : DirichletCrowd
        A fitted crowd.
    lead : float or None
        Stop when the lead of the first class over the second is at least this number of its
        posterior standard deviations; None not to stop by the lead.
    width : float or None
        Stop when the posterior intervals of 90 % have at most this width, half of the sum over the
        classes; None not to stop by the width.
    max_votes : int
        Largest number of votes on one item.
    futility : float
        Stop when the probability that the lead is reached within ``max_votes`` falls below this
        number, such as 0.01. Items on which the crowd is divided then take fewer votes.
    initial_votes : int
        Number of votes that every item gets, or has already, before the policy decides.
    accept : float, optional
        Stop when the label with the largest share has a risk of at most this number: the
        probability under the crowd that another annotator disagrees. Choose about the error that
        is to be certified (`DirichletCrowd.accept`). It replaces ``lead``, ``width`` and
        ``futility``.
    worth : float
        With ``accept``: stop also when the probability, per vote, that further votes lead to
        acceptance is below this number. Up to seven votes are looked ahead, but no more than
        ``max_votes`` allows.
    rule : callable, optional
        ``rule(predictions, votes)`` takes arrays (N, K) and returns which of the N items to ask
        again. It replaces all other rules. The guarantee holds for any rule that decides on each
        item by its own row alone; a rule whose answer for an item depends on the other rows, or on
        chance, is refused.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(900, n_classes=3, n_votes=40, random_state=0)
    >>> p, votes = data.distributions, data.counts
    >>> crowd = cs.DirichletCrowd().fit(p[:300], votes[:300])
    >>> policy = cs.VotingPolicy(crowd, lead=2.0, max_votes=20)
    >>> policy.ask(p[:2], [[0, 0, 0], [9, 0, 0]]).shape
    (2,)
    >>> calibration = policy.conformalize(p[300:], votes[300:], score="kl")
    >>> calibration
    CrowdCalibration: score scaled kl, voting policy, panel of 600 items, 3 classes
    """

    crowd: Crowd
    lead: float | None = 2.0
    width: float | None = None
    max_votes: int = 20
    futility: float = 0.0
    initial_votes: int = 0
    accept: float | None = None
    worth: float = 0.05
    rule: Rule | None = None

    def __post_init__(self) -> None:
        as_positive_int(self.max_votes, "max_votes")
        if as_positive_int(self.initial_votes, "initial_votes", minimum=0) > self.max_votes:
            raise ValueError(
                f"initial_votes is {self.initial_votes}, but max_votes is only {self.max_votes}."
            )
        for name in ("lead", "width"):
            if getattr(self, name) is not None:
                as_finite(getattr(self, name), name, minimum=0.0)
        if self.futility:
            as_probability(self.futility, "futility")
        if self.accept is not None:
            as_probability(self.accept, "accept")
        as_probability(self.worth, "worth")
        if self.rule is not None and not callable(self.rule):
            raise TypeError(
                f"rule must be a function of predictions and votes, but is {self.rule!r}."
            )
        object.__setattr__(self, "crowd", copy.copy(self.crowd))

    def ask(self, predictions: Any, votes: Any = None) -> BoolArray:
        """Return which items to ask for another vote, (N,) booleans.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes so far, None if there are none.
        """
        voted = self.crowd._read(predictions, votes)
        self._check_rule(voted.prediction, voted.counts)
        return self._ask(voted.prediction, voted.counts)

    def replay(
        self,
        predictions: Any,
        votes: Any,
        *,
        min_votes: int | None = None,
        random_state: RandomState = 0,
    ) -> Replay:
        """Run the policy on items whose votes are known.

        It gets the votes one by one in random order until it stops.

        Parameters
        ----------
        predictions : array or data frame of shape (n, K)
            Predicted distributions.
        votes : array or data frame of shape (n, K), or Annotations
            All votes on these items, many on each.
        min_votes : int, optional
            Smallest number of votes, by default ``max_votes + 10``. Items with fewer votes are left
            out.
        random_state : int, Generator or None
            Seed of the random orders.

        Returns
        -------
        Replay
            The votes that were used, the final predictions and the votes that were held back.
        """
        voted = self.crowd._read(predictions, votes, partial=False)
        generator = as_generator(random_state)
        rows, _ = enough_votes(voted, self.max_votes, min_votes, "max_votes")
        panel = voted[rows]
        used = self._use(panel.prediction, panel.counts, generator)
        return Replay(
            rows, used, predict_blocks(self.crowd.law_, panel.prediction, used), panel.counts - used
        )

    def conformalize(
        self,
        predictions: Any,
        votes: Any,
        score: Any = "kl",
        *,
        scale: Literal["posterior"] | None = "posterior",
        groups: Any = None,
        min_votes: int | None = None,
        random_state: RandomState = 0,
    ) -> CrowdCalibration:
        """Calibrate the policy as a whole.

        It is replayed on items with many votes, and its final predictions are scored.

        The scores compare these predictions with the distributions of the votes that were held
        back. New items that go through the same policy are exchangeable with the replayed ones if
        the rule depends on nothing but the prediction and the votes so far. Sets then contain the
        distribution of the votes that the policy did not ask for with probability at least 1 − α.

        Parameters
        ----------
        predictions, votes, min_votes, random_state
            As in `replay`, for items that the crowd was not fitted to.
        score, scale, groups
            As in `DirichletCrowd.conformalize`.

        Returns
        -------
        CrowdCalibration
        """
        check_choice(scale, "scale", SCALES)
        voted = self.crowd._read(predictions, votes, partial=False).with_groups(groups)
        generator = as_generator(random_state)
        rows, least = enough_votes(voted, self.max_votes, min_votes, "max_votes")
        panel = voted[rows]
        self.crowd._refuse_fitted(panel)
        used = self._use(panel.prediction, panel.counts, generator)
        held_back = (panel.counts - used)[:, None, :]
        part = calibrate_in_hand(get_score(score), self.crowd.law_, panel, used, held_back, scale)
        return CrowdCalibration(
            self.crowd, (part,), (), "panel", len(panel), least, panel.items, self
        )

    def forecast(
        self,
        predictions: Any,
        votes: Any = None,
        *,
        level: float = 0.9,
        n_draws: int | None = None,
        random_state: RandomState = 0,
    ) -> Forecast:
        """Predict how many further votes the policy will ask for, by simulating the crowd.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes so far, None if there are none.
        level : float
            Probability of the interval. It includes the randomness of the votes, but not the error
            of the fitted crowd.
        n_draws : int, optional
            Number of simulations, by default 100 or fewer for many items.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        Forecast
        """
        voted = self.crowd._read(predictions, votes)
        self._check_rule(voted.prediction, voted.counts)
        generator = as_generator(random_state)
        level = as_probability(level, "level")
        open_rows = np.flatnonzero(self._ask(voted.prediction, voted.counts))
        n_draws = (
            int(np.clip(LARGEST_FORECAST // max(len(open_rows), 1), 10, 100))
            if n_draws is None
            else n_draws
        )
        further = np.zeros((as_positive_int(n_draws, "n_draws"), len(voted)))
        together = max(1, SIMULATED // max(len(open_rows), 1))
        with progress("Forecast", n_draws) as advance:
            for start in range(0, n_draws, together):
                draws = further[start : start + together]
                some = voted[open_rows]
                votes = self._simulate(some.prediction, some.counts, len(draws), generator)
                draws[:, open_rows] = votes.sum(axis=2) - some.counts.sum(axis=1)
                advance(len(draws), "")
        total = further.sum(axis=1)
        ends = (0.5 - level / 2, 0.5 + level / 2)
        return Forecast(
            further.mean(axis=0), float(total.mean()), tuple(np.quantile(total, ends).tolist())
        )

    def compare(
        self,
        predictions: Any,
        votes: Any,
        uniform: Sequence[int] | None = None,
        *,
        score: Any = "kl",
        scale: Literal["posterior"] | None = "posterior",
        alpha: float = 0.1,
        error: float = 0.1,
        confidence: float = 0.9,
        random_state: RandomState = 0,
    ) -> Rows:
        """Compare the policy with policies that ask for the same number of votes on every item.

        Each policy is calibrated on a random half of the items and evaluated on the other half. All
        policies draw on the same ``max_votes`` votes of an item, and its other votes are the labels
        for all of them.

        Parameters
        ----------
        predictions, votes, score, scale, random_state
            As in `conformalize`.
        uniform : sequence of int, optional
            Numbers of votes for every item, by default 0, 1, 2, 3, 5, 10, 20 up to ``max_votes``;
            () for none.
        alpha : float
            Miscoverage rate in (0, 1).
        error, confidence : float
            Labels are accepted as by `DirichletCrowd.accept`: with this confidence, another
            annotator disagrees with at most this share of the accepted labels.

        Returns
        -------
        list of dict
            One row per policy: ``policy`` (its name), ``votes`` (mean number), ``width`` (mean),
            ``decided`` (share of the items), ``coverage``, ``accepted`` (share of the items) and
            ``error``, how often the votes held back disagree with accepted labels (NaN if none is
            accepted). It prints as a table, and `credalset.plotting.voting` draws it.
        """
        check_choice(scale, "scale", SCALES)
        voted = self.crowd._read(predictions, votes, partial=False)
        claim = Claim.read("annotator", error, confidence, voted.batch)
        generator = as_generator(random_state)
        numbers = (
            [h for h in (0, 1, 2, 3, 5, 10, 20) if h <= self.max_votes]
            if uniform is None
            else uniform
        )
        if max(numbers, default=0) > self.max_votes:
            raise ValueError(
                f"uniform goes up to {max(numbers)} votes, but max_votes is {self.max_votes}."
            )
        voted = voted[
            generator.permutation(enough_votes(voted, self.max_votes, None, "max_votes")[0])
        ]
        pool = draw_votes(voted.counts, (self.max_votes,), generator)[self.max_votes]
        half = len(voted) // 2
        held_back = voted.counts - pool
        law = self.crowd.law_
        chosen = get_score(score)
        equal = {
            f"{h} votes": replace(self, rule=partial(_has_fewer, h), accept=None, initial_votes=0)
            for h in numbers
        }
        rows = Rows()
        seed = int(generator.integers(1 << 63))
        for name, policy in {
            **equal,
            "policy": self,
        }.items():  # all get the votes of an item in the same order
            used = policy._use(voted.prediction, pool, np.random.default_rng(seed))
            part = calibrate_in_hand(
                chosen, law, voted[:half], used[:half], held_back[:half, None, :], scale
            )
            center = predict_for(part.score, law, voted.prediction[half:], used[half:])
            sets = part.predict_set(center, alpha)
            width = float(metrics.mean_width(sets))
            decided = float(metrics.decided(sets))
            inside = float(metrics.coverage(sets, held_back[half:]))
            accepted, wrong = policy._acceptance(voted, used, held_back, half, claim, seed)
            n_used = float(used[half:].sum(axis=1).mean())
            rows.append(
                {
                    "policy": name,
                    "votes": n_used,
                    "width": width,
                    "decided": decided,
                    "coverage": inside,
                    "accepted": accepted,
                    "error": wrong,
                }
            )
        return rows

    def _acceptance(
        self,
        voted: VotedItems,
        used: FloatArray,
        held_back: FloatArray,
        half: int,
        claim: Claim,
        seed: int,
    ) -> tuple[float, float]:
        """Certify on the first half which labels are accepted, and evaluate that on the other half.

        Which thresholds are tested follows from items that the crowd was fitted to, on which the
        policy is simulated.
        """
        law = self.crowd.law_
        seen = self.crowd.seen_
        generator = np.random.default_rng(seed)
        blank = np.zeros_like(seen.counts)
        simulated = self._simulate(seen.prediction, blank, 1, generator)[0]
        fitted, cases = (
            evaluate_cases(
                partial(believe, law),
                claim.loss,
                prediction,
                Seen(np.arange(len(hand)), np.ones(len(hand)), hand, held),
                len(hand),
            )
            for prediction, hand, held in (
                (seen.prediction, simulated, np.ones_like(simulated)),
                (voted.prediction, used, held_back),
            )
        )
        known = cases.take(np.arange(half))
        new = cases.take(np.arange(half, len(voted)))
        threshold = certify(known, fitted, claim.loss, claim.errors, claim.delta)[0]
        accepted = new.risk <= threshold
        error = float(new.loss[accepted].mean()) if accepted.any() else np.nan
        return float(accepted.mean()), error

    def _refuse_unfinished(self, voted: VotedItems) -> None:
        """Refuse items that need another vote, or have votes that the policy does not ask for."""
        items = range(len(voted)) if voted.items is None else voted.items
        again = self._ask(voted.prediction, voted.counts)
        if again.any():
            raise ValueError(
                f"votes has {again.sum()} of {len(voted)} items that the policy would ask again "
                f"(first: {items[int(np.argmax(again))]!r}). Collect the votes that policy.ask or "
                "credalset plan asks for."
            )
        other = ~self._asks_for(voted)
        if other.any():
            raise ValueError(
                f"votes has {other.sum()} of {len(voted)} items with votes that the policy would "
                f"not have asked for (first: {items[int(np.argmax(other))]!r}), so that its "
                "calibration does not hold for them. Pass only votes that it asked for. For "
                "items that start with n votes, calibrate with initial_votes=n."
            )

    def _asks_for(self, voted: VotedItems) -> BoolArray:
        """Tell whether the policy can come to these votes.

        It asks for the first, and for the last in some order.
        """
        counts = voted.counts
        possible = voted.n_votes <= self.initial_votes
        for k in range(counts.shape[1]):
            rows = np.flatnonzero(
                ~possible & (counts[:, k] > 0) & (voted.n_votes <= self.max_votes)
            )
            before = counts[rows]
            before[:, k] -= 1
            possible[rows] = self._ask(voted.prediction[rows], before)
        some = np.flatnonzero(voted.n_votes > 0)
        possible[some] &= self._ask(voted.prediction[some], np.zeros_like(counts[some]))
        return possible

    def _ask(self, prediction: FloatArray, counts: FloatArray) -> BoolArray:
        number = counts.sum(axis=1)
        again = number < self.max_votes
        decides = again & (number >= self.initial_votes)
        for rows in blocks(len(counts), 6 * counts.shape[1]):
            part = np.flatnonzero(decides[rows]) + rows.start
            if len(part):
                again[part] = self._wants(prediction[part], counts[part])
        return again

    def _wants(self, prediction: FloatArray, counts: FloatArray) -> BoolArray:
        if self.rule is not None:
            answer = np.asarray(self.rule(prediction, counts))
            if answer.shape != (len(counts),) or answer.dtype != bool:
                raise ValueError(
                    f"rule must return {len(counts)} values True (ask again) or False, but "
                    f"returned {answer.dtype} of shape {answer.shape}."
                )
            return answer
        if self.accept is not None:
            return self._promises(prediction, counts, self.accept)
        posterior = Posterior.given(self.crowd.law_, prediction, counts)
        again = np.ones(len(counts), dtype=bool)
        if self.lead is not None:
            lead, deviation = posterior.lead()
            again &= lead < self.lead * deviation
            if self.futility > 0:
                again &= self._chance(posterior, lead, deviation) >= self.futility
        if self.width is not None:
            mean, variance = posterior.moments
            half = CENTRAL * np.sqrt(variance)
            again &= (
                0.5 * (np.minimum(mean + half, 1) - np.maximum(mean - half, 0)).sum(axis=1)
                > self.width
            )
        return again

    def _promises(self, prediction: FloatArray, counts: FloatArray, accept: float) -> BoolArray:
        """Tell which items are not accepted yet, and may be after a few votes."""
        law = self.crowd.law_
        again = risk_of(law, prediction, counts) > accept
        rows = np.flatnonzero(again)
        if len(rows):
            left = self.max_votes - counts[rows].sum(axis=1)
            value = acceptance_per_vote(law, prediction[rows], counts[rows], accept, left)
            again[rows] = value >= self.worth
        return again

    def _check_rule(self, prediction: FloatArray, counts: FloatArray) -> None:
        """Refuse a rule of the user's own whose answer for an item depends on other rows.

        Up to fifty rows are asked alone and compared with the answer for all rows.
        """
        number = counts.sum(axis=1)
        rows = np.flatnonzero((number >= self.initial_votes) & (number < self.max_votes))
        if self.rule is None or len(rows) == 0:
            return
        prediction = prediction[rows]
        counts = counts[rows]
        together = self._wants(prediction, counts)
        checked = np.unique(np.linspace(0, len(rows) - 1, CHECKED_ROWS).astype(np.int64))
        alone = [self._wants(prediction[[row]], counts[[row]])[0] for row in checked]
        differs = checked[together[checked] != np.array(alone)]
        if len(differs):
            raise ValueError(
                f"rule answers differently for an item alone and among {len(counts)} items "
                f"({len(differs)} of {len(checked)} rows that were tried, first: {differs[0]}). "
                "It must decide on each row by the prediction and votes of that row alone, and "
                "not by chance: otherwise new items are not exchangeable with the replayed ones."
            )

    def _to_store(self) -> dict[str, Any]:
        if self.rule is not None:
            raise TypeError(
                "a policy with a rule of your own cannot be saved, because files hold no code. "
                "Save the crowd, and make the policy again after loading it."
            )
        names = [each.name for each in fields(self) if each.name != "rule"]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def _from_store(
        cls,
        crowd: Crowd,
        lead: float | None,
        width: float | None,
        max_votes: int,
        futility: float,
        initial_votes: int,
        accept: float | None,
        worth: float,
    ) -> VotingPolicy:
        return cls(crowd, lead, width, max_votes, futility, initial_votes, accept, worth)

    def _chance(self, posterior: Posterior, lead: FloatArray, deviation: FloatArray) -> FloatArray:
        """Probability that the lead is reached at max_votes.

        The lead is taken as normal, with a variance that shrinks like 1/n.
        """
        total = posterior.strength + 1.0
        more = self.max_votes - posterior.counts.sum(axis=1)
        left = deviation * np.sqrt(total / (total + more))
        scale = np.sqrt(np.maximum(deviation**2 - left**2, 1e-12))
        needed = float(self.lead or 0.0) * left
        return np.asarray(norm.sf((needed - lead) / scale) + norm.sf((needed + lead) / scale))

    def _use(
        self, prediction: FloatArray, votes: FloatArray, generator: np.random.Generator
    ) -> FloatArray:
        """Run the policy with the votes of each item in random order; return those that it used.

        Numbers are drawn for all items in every step, so that the order of an item's votes depends
        on no other item.
        """
        left = votes.copy()

        def next_vote(active: IntArray) -> IntArray:
            chosen = draw_one(left[active], generator.random(len(left))[active])
            left[active, chosen] -= 1
            return chosen

        return self._run(prediction, np.zeros_like(left), next_vote, is_checked=True)

    def _simulate(
        self,
        prediction: FloatArray,
        counts: FloatArray,
        n_draws: int,
        generator: np.random.Generator,
    ) -> FloatArray:
        """Draw the votes at the stop, (n_draws, N, K), with crowds drawn from the posterior."""
        posterior = Posterior.given(self.crowd.law_, prediction, counts)
        ends = np.cumsum(posterior.sample(n_draws, generator), axis=2)[:, :, :-1].swapaxes(0, 1)
        ends = ends.reshape(-1, ends.shape[2])

        def next_vote(active: IntArray) -> IntArray:
            return (ends[active] <= generator.random((len(ends), 1))[active]).sum(axis=1)

        start = np.tile(counts, (n_draws, 1))
        votes = self._run(np.tile(prediction, (n_draws, 1)), start, next_vote)
        return votes.reshape(n_draws, *counts.shape)

    def _run(
        self,
        prediction: FloatArray,
        start: FloatArray,
        next_vote: Callable[[IntArray], IntArray],
        *,
        is_checked: bool = False,
    ) -> FloatArray:
        """Ask for one vote at a time until the policy stops; return the votes in hand then."""
        votes = start.copy()
        active = np.arange(len(start))
        while len(active):
            if is_checked:
                self._check_rule(prediction[active], votes[active])
            active = active[self._ask(prediction[active], votes[active])]
            votes[active, next_vote(active)] += 1
        return votes


def _has_fewer(n_votes: int, predictions: FloatArray, votes: FloatArray) -> BoolArray:
    return np.asarray(votes.sum(axis=1) < n_votes)


@dataclass(frozen=True, eq=False)
class Replay:
    """Votes and predictions at which a policy stopped, returned by `VotingPolicy.replay`.

    Attributes
    ----------
    rows : ndarray of shape (M,)
        Positions of the items that have enough votes.
    votes : ndarray of shape (M, K)
        Votes that the policy used.
    predictions : ndarray of shape (M, K)
        Posterior means when the policy stopped.
    held_back : ndarray of shape (M, K)
        Votes that the policy did not use.
    """

    rows: IntArray
    votes: FloatArray
    predictions: FloatArray
    held_back: FloatArray

    @property
    def n_votes(self) -> FloatArray:
        """Number of votes used on each item, (M,)."""
        return np.asarray(self.votes.sum(axis=1))

    @property
    def shares(self) -> FloatArray:
        """Shares of the votes that were held back, (M, K)."""
        return np.asarray(self.held_back / self.held_back.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Forecast:
    """Number of further votes that a policy will ask for, returned by `VotingPolicy.forecast`.

    Attributes
    ----------
    votes : ndarray of shape (N,)
        Expected number on each item; zero where the policy does not ask again.
    total : float
        Expected number on all items together.
    total_interval : tuple of float
        Ends of the prediction interval of the total.
    """

    votes: FloatArray
    total: float
    total_interval: tuple[float, ...]

    @property
    def to_ask(self) -> BoolArray:
        """Whether the policy asks for another vote on each item, (N,) booleans."""
        return np.asarray(self.votes > 0)

    def __repr__(self) -> str:
        total, low, high = (
            f"{float(f'{votes:.3g}'):.0f}" for votes in (self.total, *self.total_interval)
        )
        asked = f"{self.to_ask.sum()} of {len(self.votes)} items to ask"
        return f"Forecast: {asked}, {total} votes to come ({low} to {high})"
