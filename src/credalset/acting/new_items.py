"""The rule of a review for new items from the same source, and sets of all items by it."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.acceptance.rule import AcceptRule, enough_items, forecast_shares
from credalset.acting.rules import Certified
from credalset.acting.sources import ClassShares
from credalset.acting.stored import StoredRule
from credalset.acting.table import Table, Terms
from credalset.calibration.base import Inputs, as_level
from credalset.crowd import CrowdCalibration, DirichletCrowd
from credalset.evaluation.views import NUMBERS
from credalset.exceptions import CredalSetWarning
from credalset.sets import CredalSet

ALPHA = 0.1  # of the sets
SCORE = "kl"
MOST_SETS = 1_000  # items that calibrate the sets
MOST_IN_HAND = 8  # numbers of votes that the sets are calibrated for


def rule_for_new_items(
    table: Table,
    rules: Certified,
    terms: Terms,
    hand: FloatArray,
    *,
    proved: bool,
    with_sets: bool,
) -> tuple[StoredRule, AcceptRule, CredalSet | None, Inputs | None]:
    """Return the first rule, for new items from the same source, and sets of all items by it.

    Last come the inputs that the sets are predicted from.
    """
    fit = rules.table.fits[0]
    learned = rules.table.learned_from[0]
    others = np.setdiff1d(np.arange(len(table)), learned)
    crowd = copy(fit.crowd)
    crowd.classes_ = table.class_names
    crowd.items_ = table.names_of(learned)
    rule = _accept_rule(table, rules, terms, crowd, others)
    calibration = None
    sets = None
    inputs = None
    if with_sets:
        calibration = _calibrated(crowd, fit.given, table.counts, hand, others, terms.seed)
        with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
            inputs = calibration._read(fit.given, votes=hand)
            sets = calibration._predict(inputs, as_level(ALPHA))
        sets = replace(sets, classes=table.class_names, items=table.item_names)
    stored = StoredRule(
        rule,
        main=terms.main,
        disagreement=terms.disagreement,
        least_divided=float(rules.divided[0]),
        proved=proved,
        calibration=calibration,
        shares=fit.given[0] if isinstance(table.source, ClassShares) else None,
    )
    return stored, rule, sets, inputs


def _accept_rule(
    table: Table, rules: Certified, terms: Terms, crowd: DirichletCrowd, others: IntArray
) -> AcceptRule:
    """Return the first rule with what it accepts among the items that have certified it."""
    claim = terms.claim
    own = rules.table.claim_of(0, claim)
    fitted = rules.table.fitted[0]
    thresholds = rules.thresholds[0]
    sizes = np.zeros(len(thresholds), dtype=np.int64)
    shares = np.zeros(thresholds.shape)
    for code, row in enumerate(thresholds):
        inside = np.flatnonzero(table.codes[others] == code)
        cases = rules.table.cases[0].take(inside)
        sizes[code] = len(inside)
        accepted = np.array([cases.accepted(threshold).sum() for threshold in row])
        shares[code] = accepted / max(len(inside), 1)
    n_votes = table.counts[others].sum(axis=1)
    fewest = n_votes[n_votes > 0].min(initial=10**6)
    return AcceptRule(
        crowd=crowd,
        loss=claim.loss.name,
        costs=claim.costs,
        unit=claim.unit,
        errors=claim.errors,
        confidence=claim.confidence,
        in_hand=None,
        thresholds=thresholds,
        shares=shares,
        sizes=sizes,
        n_votes=(int(fewest), int(n_votes.max(initial=0))),
        forecast=forecast_shares(fitted, own, len(others)),
        needed=tuple(enough_items(fitted, own, error) for error in claim.errors),
        n_classes=len(table.classes),
        groups=table.groups,
        classes=table.class_names,
        items=table.names_of(others),
        clustered=table.units is not None,
    )


def _calibrated(
    crowd: DirichletCrowd,
    prediction: FloatArray,
    counts: FloatArray,
    hand: FloatArray,
    rows: IntArray,
    seed: int,
) -> CrowdCalibration:
    """Calibrate sets for the numbers of votes in hand, on some of the items with votes."""
    generator = np.random.default_rng([seed, 4])
    voted = rows[counts[rows].any(axis=1)]
    chosen = generator.choice(voted, min(MOST_SETS, len(voted)), replace=False)
    most = hand.sum(axis=1).max(initial=0)
    pictured = [number for number in NUMBERS if number <= most]
    numbers = np.union1d(hand.sum(axis=1), pictured).astype(np.int64)
    numbers = numbers[numbers <= counts[chosen].sum(axis=1).max(initial=0)]
    if len(numbers) > MOST_IN_HAND:
        places = np.linspace(0, len(numbers) - 1, MOST_IN_HAND).round().astype(np.int64)
        numbers = numbers[np.unique(places)]
    in_hand = tuple(sorted({0, *numbers.tolist()}))
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        return crowd.conformalize(
            prediction[chosen],
            counts[chosen],
            SCORE,
            in_hand=in_hand,
            method="imputed",
            random_state=generator,
        )
