"""Accept the labels of items with votes in hand: what a crowd believes, and rules from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr
from scipy.stats import betabinom

from credalset._display import progress
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset._validation import freeze
from credalset.acceptance.cases import Cases, Seen, evaluate_cases, join_cases, leave_out
from credalset.acceptance.certify import certify
from credalset.acceptance.losses import Beliefs, Loss, pair_agreement
from credalset.acceptance.rule import Claim
from credalset.crowd.drawing import draw_one, draw_votes
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior, blocks

if TYPE_CHECKING:
    from credalset.crowd.estimator import DirichletCrowd


@dataclass(frozen=True, eq=False)
class FitItems:
    """Predictions and votes of items that a crowd was fitted to, (n, K) each."""

    prediction: FloatArray
    counts: FloatArray

    def __post_init__(self) -> None:
        if self.prediction.shape != self.counts.shape or self.prediction.ndim != 2:
            raise ValueError("prediction and counts must be matrices of one shape.")
        freeze(self, "prediction", "counts")


FEWEST = 30  # items with one number of votes that are compared
SUSPICIOUS = 4.0  # standard errors by which agreement differs from what is predicted
PART = 6  # one part in so many is learned from, unless there is a model to train
DRAWS = 8  # ways to draw a fixed number of votes in hand from those of an item


def believe(law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> Beliefs:
    """Return what a law believes about the crowd of each item, given votes in hand, in blocks."""
    n_items, n_classes = prediction.shape
    mean = np.empty((n_items, n_classes))
    agreement = np.empty(n_items)
    doubt = np.empty(n_items)
    n_parts = len(law.around) + len(law.consensus)
    for rows in blocks(n_items, 6 * n_parts * n_classes):
        posterior = Posterior.given(law, prediction[rows], counts[rows])
        mean[rows], variance = posterior.moments
        agreement[rows] = (variance + mean[rows] ** 2).sum(axis=1)
        lead, deviation = posterior.lead()
        doubt[rows] = ndtr(-lead / np.maximum(deviation, 1e-12))
    return Beliefs(mean, agreement, doubt)


def contradiction(
    law: CrowdLaw, prediction: FloatArray, counts: FloatArray, label: IntArray
) -> FloatArray:
    r"""Return p-values of so few votes for the label of each item that a model predicts, (N,).

    Under the law of the crowd, the number of votes for this label among the m votes of an item is
    a mixture of beta-binomial numbers, whose distribution function is evaluated at the number seen.
    Small values are items whose votes contradict the model. Items without votes have 1.
    """
    found = np.ones(len(counts))
    total = counts.sum(axis=1)
    # Where the votes agree with the model, nothing contradicts it.
    asked = np.flatnonzero((counts.argmax(axis=1) != label) & (total > 0))
    n_parts = len(law.around) + len(law.consensus) * counts.shape[1]
    for block in blocks(len(asked), n_parts * counts.shape[1]):
        rows = asked[block]
        posterior = Posterior.given(law, prediction[rows], np.zeros_like(counts[rows]))
        alpha = posterior.concentration
        own = np.take_along_axis(alpha, label[rows, None, None], axis=2)[:, :, 0]
        seen = counts[rows, label[rows]][:, None]
        below = betabinom.cdf(seen, total[rows, None], own, alpha.sum(axis=2) - own)
        found[rows] = (posterior.weights * below).sum(axis=1)
    return np.minimum(found, 1.0)


def hold_back(
    counts: FloatArray,
    loss: Loss,
    in_hand: int | None,
    generator: np.random.Generator,
    *,
    certifies: bool = True,
) -> Seen:
    """Hold votes back in turn; or draw a fixed number to keep in hand, and hold back the others.

    Items without enough votes have no cases. Items that do not certify need no votes but those in
    hand.
    """
    if in_hand is None:
        return leave_out(counts, loss.n_held_back)
    least = in_hand + (loss.n_held_back if certifies else 0)
    rows = np.flatnonzero(counts.sum(axis=1) >= least)
    n_draws = DRAWS if in_hand else 1
    drawn = [draw_votes(counts[rows], (in_hand,), generator)[in_hand] for _ in range(n_draws)]
    hand = np.concatenate(drawn)
    item = np.tile(rows, n_draws)
    weight = np.full(len(item), 1.0 / n_draws)
    return Seen(item, weight, hand, counts[item] - hand)


def crowd_cases(
    law: CrowdLaw,
    prediction: FloatArray,
    counts: FloatArray,
    loss: Loss,
    in_hand: int | None,
    generator: np.random.Generator,
    *,
    certifies: bool = True,
) -> Cases:
    """Return items with votes held back, as a law sees them; items may lack votes, and cases."""
    parts = []
    per_item = 4 * prediction.shape[1] * max(int(counts.astype(bool).sum(axis=1).max(initial=1)), 1)
    rows = blocks(len(counts), per_item)
    with progress("Certifying", len(counts), unit="items") as advance:
        for block in rows:
            seen = hold_back(counts[block], loss, in_hand, generator, certifies=certifies)
            own = prediction[block]
            parts.append(evaluate_cases(partial(believe, law), loss, own, seen, len(own)))
            advance(len(own), "")
    return join_cases(parts, [block.start for block in rows], len(counts))


def suspicious_numbers(law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> str:
    """Return a warning if numbers of votes seem to depend on how the votes came out, else "".

    If a third vote is asked for where two disagree, items with two votes agree more often than the
    law predicts, and those with three less often.
    """
    number = counts.sum(axis=1)
    rows = np.flatnonzero(number >= 2)
    if not len(rows):
        return ""
    predicted = believe(law, prediction[rows], np.zeros_like(counts[rows])).agreement
    observed = pair_agreement(counts[rows])
    found = []
    for n_votes in np.unique(number[rows]):
        own = number[rows] == n_votes
        gap = observed[own] - predicted[own]
        if own.sum() >= FEWEST:
            score = gap.sum() / np.sqrt(max((gap**2).sum(), 1e-12))
            found.append((score, int(n_votes), observed[own].mean(), predicted[own].mean()))
    if len(found) < 2 or max(found)[0] < SUSPICIOUS or min(found)[0] > -SUSPICIOUS:
        return ""
    more, less = max(found), min(found)
    return (
        f"votes on items with {more[1]} votes agree more often ({more[2]:.2f}) than predicted "
        f"({more[3]:.2f}), and on items with {less[1]} votes less often ({less[2]:.2f}, predicted "
        f"{less[3]:.2f}). If further votes were asked for where the first ones disagreed, nothing "
        "is certified: keep only the votes that every item would have got, such as the first two."
    )


# --- one table: the items that certify are those that are treated ---


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was learned from the votes of some items: predictions for all, and a law.

    Attributes
    ----------
    given : ndarray of shape (n, K)
        Predictions for all items. Those of the items that were learned from are out of fold.
    crowd : DirichletCrowd
        The crowd that was fitted to some of the items.
    """

    given: FloatArray
    crowd: DirichletCrowd

    @cached_property
    def prediction(self) -> FloatArray:
        """Predictions without their class bias, around which the law was fitted, (n, K)."""
        return self.crowd._correct(self.given)

    @property
    def law(self) -> CrowdLaw:
        """The law of the crowd."""
        return self.crowd.law_


@dataclass(frozen=True, eq=False)
class TableRule:
    """Two rules for one table, and what they decide: see `two_rules`.

    Attributes
    ----------
    fits : tuple of two Fitted
        What each rule predicts with.
    learned_from : tuple of two arrays of rows
        The items that each fit has learned from.
    rule : ndarray of n ints
        Which rule treats each item, 0 or 1.
    thresholds : ndarray of shape (2, R)
        Largest risk that is accepted, for each rule and error.
    cases : tuple of two Cases
        The items that certified each rule, numbered as in the table.
    fitted : tuple of two Cases
        The items that chose the thresholds to test.
    deltas : tuple of two floats
        Probability with which each rule may fail.
    """

    fits: tuple[Fitted, Fitted]
    learned_from: tuple[IntArray, IntArray]
    rule: IntArray
    thresholds: FloatArray
    cases: tuple[Cases, Cases]
    fitted: tuple[Cases, Cases]
    deltas: tuple[float, float]

    def claim_of(self, number: int, claim: Claim) -> Claim:
        """Return the claim with the confidence at which one of the rules is certified."""
        return replace(claim, confidence=1.0 - self.deltas[number])

    def beliefs(self, hand: FloatArray) -> Beliefs:
        """Return what the rule of each item believes, given votes in hand, (n, K)."""
        found = [np.empty(hand.shape), np.empty(len(hand)), np.empty(len(hand))]
        for number, fit in enumerate(self.fits):
            rows = np.flatnonzero(self.rule == number)
            own = believe(fit.law, fit.prediction[rows], hand[rows])
            for array, part in zip(found, (own.mean, own.agreement, own.doubt), strict=True):
                array[rows] = part
        return Beliefs(*found)

    def predicted(self) -> IntArray:
        """Return the likeliest class of each item without its votes, by its rule, (n,)."""
        found = np.empty(len(self.rule), dtype=np.int64)
        for number, fit in enumerate(self.fits):
            rows = np.flatnonzero(self.rule == number)
            found[rows] = fit.given[rows].argmax(axis=1)
        return found

    def accepted(self, risk: FloatArray, error: int = 0) -> BoolArray:
        """Return which items are accepted, given their risks and the number of the error."""
        return np.asarray(risk <= self.thresholds[self.rule, error])


def two_rules(
    fit: Callable[[IntArray], Fitted],
    counts: FloatArray,
    claim: Claim,
    generator: np.random.Generator,
    *,
    halves: bool = False,
    units: IntArray | None = None,
) -> TableRule:
    """Certify two rules for one table, so that each item is treated by one that has not seen it.

    Two random sixths a1, a2: the fit to a1 certifies and treats everything outside a1; the fit to
    a2 certifies outside a2, and treats a1. They divide δ in proportion to the items that they
    treat, so that both hold together. This is exact for items from one population. With
    ``halves``, the fit to one half certifies and treats the other, which is also exact for the
    items of this very table.

    Parameters
    ----------
    fit : callable
        Takes rows of the table, and learns from the votes of no others.
    counts : ndarray of shape (n, K)
        Votes; rows may be zero.
    claim : Claim
        Loss, errors and confidence.
    generator : Generator
        Randomness of the parts.
    halves : bool
        Whether to learn from one half, and swap, as a model of texts needs.
    units : ndarray of n ints, optional
        Cluster of each item; clusters are not divided.
    """
    n_items = len(counts)
    unit = np.arange(n_items) if units is None else units
    order = generator.permutation(int(unit.max(initial=-1)) + 1)
    part = 2 if halves else PART
    ends = [len(order) // part, 2 * (len(order) // part)]
    if halves:
        ends[1] = len(order)
    first = np.flatnonzero(np.isin(unit, order[: ends[0]]))
    second = np.flatnonzero(np.isin(unit, order[ends[0] : ends[1]]))
    everything = np.arange(n_items)
    rule = np.zeros(n_items, dtype=np.int64)
    rule[first] = 1
    shares = (float((rule == 0).mean()), float((rule == 1).mean()))
    deltas = (claim.delta * shares[0], claim.delta * shares[1])
    fits: list[Fitted] = []
    thresholds: list[FloatArray] = []
    cases: list[Cases] = []
    fitted: list[Cases] = []
    for rows, delta in zip((first, second), deltas, strict=True):
        made = fit(rows)
        found = crowd_cases(made.law, made.prediction, counts, claim.loss, None, generator)
        own = found.take(rows)
        others = np.setdiff1d(everything, rows)
        clusters = None if units is None else np.unique(unit[others], return_inverse=True)[1]
        rest = found.take(others)
        fits.append(made)
        fitted.append(own)
        cases.append(rest)
        thresholds.append(certify(rest, own, claim.loss, claim.errors, delta, clusters=clusters))
    return TableRule(
        (fits[0], fits[1]),
        (first, second),
        rule,
        np.array(thresholds),
        (cases[0], cases[1]),
        (fitted[0], fitted[1]),
        deltas,
    )


def hold_back_one(counts: FloatArray, generator: np.random.Generator) -> IntArray:
    """Draw one vote of each item as the proof; return its class, (n,), −1 without votes."""
    uniform = generator.random(len(counts))
    voted = np.flatnonzero(counts.sum(axis=1) > 0)
    found = np.full(len(counts), -1)
    found[voted] = draw_one(counts[voted], uniform[voted])
    return found
