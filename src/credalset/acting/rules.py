"""The two rules of a table: what they are certified for, and what they decide.

Each item is treated by a rule that has learned from the votes of others only; see
`credalset.crowd.accept`. One vote of each item, drawn once, is held back from the decisions: the
certificate is for decisions from one vote fewer than an item has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset._display import progress
from credalset._typing import FloatArray, IntArray
from credalset.acceptance.cases import Cases
from credalset.acceptance.certify import NOTHING, certify
from credalset.acceptance.losses import LOSSES
from credalset.acceptance.rule import Claim
from credalset.acting.deciding import Decider, Decisions
from credalset.acting.record import Round
from credalset.acting.table import Table, Terms
from credalset.crowd.accept import TableRule, hold_back_one, two_rules


@dataclass(frozen=True, eq=False)
class Certified:
    """Two rules, and the thresholds that they were certified for, by rule, group and error."""

    table: TableRule
    thresholds: FloatArray
    divided: FloatArray
    is_divided_certified: bool

    def decider(self, number: int, terms: Terms) -> Decider:
        """Return what decides with one of the two rules."""
        return Decider(
            law=self.table.fits[number].law,
            loss=terms.claim.loss,
            thresholds=self.thresholds[number],
            disagreement=terms.disagreement,
            least_divided=float(self.divided[number]),
            main=terms.main,
            error=terms.error,
        )


def certify_table(table: Table, terms: Terms) -> Certified:
    """Certify two rules for accepting labels, and two for claiming that people are divided."""
    claim = terms.claim
    generator = np.random.default_rng(terms.seed)
    most_agreement = 1.0 - terms.disagreement
    options: dict[str, Any] = {"halves": table.source.halves, "units": table.units}
    with progress("Learning from votes, and certifying", None):
        rules = two_rules(table.source, table.counts, claim, generator, **options)
        thresholds = np.stack([_by_group(table, rules, claim, number) for number in (0, 1)])
        least = np.full(2, NOTHING)
        if (table.counts.sum(axis=1) >= LOSSES["divided"].n_held_back).sum() >= 50:
            split = Claim(LOSSES["divided"], (most_agreement,), claim.confidence)
            again = np.random.default_rng(terms.seed)
            found = two_rules(table.source, table.counts, split, again, **options)
            least = found.thresholds[:, 0]
    is_certified = bool(np.isfinite(least).all())
    if not is_certified:
        least = np.full(2, most_agreement)
    return Certified(rules, thresholds, least, is_certified)


def _by_group(table: Table, rules: TableRule, claim: Claim, number: int) -> FloatArray:
    """Return the thresholds of one rule, for each group by itself, (G, R)."""
    if table.groups is None:
        return rules.thresholds[[number]]
    others = np.setdiff1d(np.arange(len(table)), rules.learned_from[number])
    found = []
    for code in range(len(table.groups)):
        rows = np.flatnonzero(table.codes[others] == code)
        clusters = None
        if table.units is not None:
            clusters = np.unique(table.units[others][rows], return_inverse=True)[1]
        cases: Cases = rules.cases[number].take(rows)
        fitted = rules.fitted[number]
        delta = rules.deltas[number]
        found.append(certify(cases, fitted, claim.loss, claim.errors, delta, clusters=clusters))
    return np.array(found)


def hold_back_as_before(counts: FloatArray, before: Round | None, seed: int) -> IntArray:
    """Return the vote of each item that is held back; the same as in earlier rounds."""
    found = hold_back_one(counts, np.random.default_rng([seed, 1]))
    if before is None:
        return found
    rows = np.flatnonzero(before.held_back >= 0)
    kept = rows[counts[rows, before.held_back[rows]] > 0]
    found[kept] = before.held_back[kept]
    return found


def votes_in_hand(
    counts: FloatArray, held_back: IntArray, terms: Terms
) -> tuple[FloatArray, FloatArray]:
    """Return the votes that decide about acceptance, and those that decide who is divided.

    The first lack the vote that is held back, the second one more. With ``decide_from="all"``, both
    are all votes.
    """
    if terms.decide_from == "all":
        return counts, counts
    hand = counts.copy()
    voted = np.flatnonzero(held_back >= 0)
    hand[voted, held_back[voted]] -= 1.0
    second = hold_back_one(hand, np.random.default_rng([terms.seed, 2]))
    earlier = hand.copy()
    more = np.flatnonzero(second >= 0)
    earlier[more, second[more]] -= 1.0
    return hand, earlier


def decide_table(
    table: Table, rules: Certified, terms: Terms, hand: FloatArray, earlier: FloatArray
) -> Decisions:
    """Decide about all items from `votes_in_hand`."""
    decisions = _decide(table, rules, terms, hand, earlier, rules.thresholds)
    if terms.decide_from == "certified":
        return decisions
    # From all votes, which the thresholds are not certified for: they are lowered by the forecast.
    lowered = guarded(decisions, rules.table.rule, table.codes, rules.thresholds, terms.claim)
    return _decide(table, rules, terms, hand, earlier, lowered)


def _decide(
    table: Table,
    rules: Certified,
    terms: Terms,
    hand: FloatArray,
    earlier: FloatArray,
    thresholds: FloatArray,
) -> Decisions:
    """Decide about each item with the rule that has not learned from it."""
    parts = []
    for number in (0, 1):
        rows = np.flatnonzero(rules.table.rule == number)
        if len(rows):
            decided = rules.decider(number, terms).decide(
                rules.table.fits[number].prediction[rows],
                hand[rows],
                earlier[rows],
                table.codes[rows],
                thresholds=thresholds[number],
            )
            parts.append((rows, decided))
    found = Decisions.joined(parts, len(table))
    if not rules.is_divided_certified:
        return found
    # The claim is certified for items with two votes to hold back.
    has_pair = table.counts.sum(axis=1) >= LOSSES["divided"].n_held_back
    return replace(found, divided=found.divided & has_pair)


def guarded(
    decisions: Decisions, rule: IntArray, codes: IntArray, thresholds: FloatArray, claim: Claim
) -> FloatArray:
    """Lower thresholds until the mean predicted risk of the items below is at most the error."""
    found = thresholds.copy()
    for place in np.ndindex(*thresholds.shape):
        number, code, column = place
        risk = decisions.risk[(rule == number) & (codes == code)]
        risk = np.sort(risk[risk <= thresholds[place]])
        mean = np.cumsum(risk) / np.arange(1, len(risk) + 1)
        inside = risk[mean <= claim.errors[column]]
        found[place] = inside.max() if len(inside) else NOTHING
    return found
