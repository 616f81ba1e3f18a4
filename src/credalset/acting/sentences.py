"""What a review says: what is certified and what is not, what is assumed, and what would do."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from credalset._display import plural
from credalset._typing import FloatArray
from credalset.acceptance.rule import enough_items, too_few
from credalset.acting.rules import Certified
from credalset.acting.standing import Standing
from credalset.acting.table import Table, Terms

PAIRS = 0.15  # difference in agreement by number of votes that calls for a warning
SURE = 4.0  # … if it is so many standard errors
FEWEST = 20  # items with one number of votes that are compared
LEAST_VARIANCE = 1e-4  # of the agreement of an item: items that are all alike are still few


def find_sentences(
    table: Table,
    rules: Certified,
    terms: Terms,
    standing: Standing,
    n_claimed: int,
) -> tuple[str, ...]:
    """Say what is certified and what is not, what is assumed, and what would do."""
    found = [standing.sentence] if standing.sentence else []
    limits = rules.thresholds[:, :, terms.main]
    if not np.isfinite(limits).all() and standing.proof == "votes":
        found.append(_what_would_do(table, rules, terms))
    if standing.proof == "votes" and terms.decide_from == "certified":
        found.append(
            "Each label is decided without one of its votes, which was drawn once and held back "
            "as the proof; the certificate is for decisions from one vote fewer than an item has."
        )
    share = f"at least {terms.disagreement:g}"
    if not rules.is_divided_certified or standing.proof != "votes":
        found.append(
            f"Divided: people are expected to disagree with probability {share}, not certified."
        )
    else:
        found.append(
            f"Certified at the same confidence: two annotators disagree with probability {share}, "
            f"on average over {plural(n_claimed, 'item')} that are claimed to be divided, among "
            "them some that are accepted or asked."
        )
    independent = "items" if table.units is None else "clusters of items"
    assumed = [
        f"{independent} are independent",
        "the votes on an item are interchangeable draws from one pool of annotators",
        "their number was not chosen by how they came out",
        "the claim is about a further vote from the same pool",
    ]
    if table.source.given:
        assumed.append("the predictions were made without the votes of these items")
    found.append(f"Assumed: {'; '.join(assumed)}.")
    warning = votes_depend(table.counts)
    if warning:
        found.append(warning)
    return tuple(found)


def _what_would_do(table: Table, rules: Certified, terms: Terms) -> str:
    """Say for how many items nothing can be certified, and what would do: a forecast.

    It is about the first rule that lacks a threshold, and its first group that does.
    """
    is_certified = np.isfinite(rules.thresholds[:, :, terms.main])
    number = int(np.argmin(is_certified.all(axis=1)))
    code = int(np.argmin(is_certified[number]))
    own = replace(rules.table.claim_of(number, terms.claim), errors=(terms.error,))
    fitted = rules.table.fitted[number]
    others = np.setdiff1d(np.arange(len(table)), rules.table.learned_from[number])
    size = int((table.codes[others] == code).sum())
    needed = [enough_items(fitted, own, terms.error)]
    limits = rules.thresholds[number, code, [terms.main]]
    sentence = too_few(own, limits, needed, fitted, size)
    if table.groups is not None:
        sentence += f" in the group {table.groups[code]!r}"
    without = int((~is_certified[rules.table.rule, table.codes]).sum())
    if without == len(table):
        return f"{sentence[:1].upper()}{sentence[1:]}."
    return f"For {without:,} of {len(table):,} items {sentence}."


@dataclass(frozen=True, order=True)
class _Agreement:
    """How often two annotators agree on items with one number of votes."""

    rate: float
    variance: float
    n_votes: int


def votes_depend(counts: FloatArray) -> str:
    """Say so if agreement differs by the number of votes, as it does where votes were added."""
    number = counts.sum(axis=1)
    pairs = number * (number - 1.0)
    agree = (counts * (counts - 1.0)).sum(axis=1)
    found = []
    for size in np.unique(number[number >= 2]):
        rows = np.flatnonzero(number == size)
        if len(rows) >= FEWEST:
            share = agree[rows] / pairs[rows]
            variance = (share.var() + LEAST_VARIANCE) / len(rows)
            found.append(_Agreement(float(share.mean()), float(variance), int(size)))
    if len(found) < 2:
        return ""
    low = min(found)
    high = max(found)
    gap = high.rate - low.rate
    if gap < PAIRS or gap < SURE * np.sqrt(low.variance + high.variance):
        return ""
    return (
        f"Two annotators agree on {high.rate:.0%} of the items with {high.n_votes} votes, and on "
        f"{low.rate:.0%} of those with {low.n_votes}. If votes were added where the first ones "
        "disagreed, nothing is certified. If their number was fixed for another reason, it is."
    )
