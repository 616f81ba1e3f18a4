"""What is proved about the labels that a review accepts: votes left out in turn, or an audit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from credalset._display import plural
from credalset._typing import BoolArray, FloatArray
from credalset.acting.audit import ANSWERED, audit_threshold, next_votes, sequence
from credalset.acting.deciding import Decisions
from credalset.acting.record import Record, Round
from credalset.acting.table import Table, Terms
from credalset.exceptions import warn


@dataclass(frozen=True, eq=False)
class Standing:
    """What is proved about the accepted labels, and since when not.

    Attributes
    ----------
    proof : {"votes", "audit", "none"}
        Votes left out in turn, an audit, or nothing.
    since : int
        The round since which nothing is proved; 0 if something is.
    sentence : str
        The same in words.
    certified : ndarray of shape (n,)
        Items whose accepted labels are proved.
    delta : float
        Probability of a wrong claim that was spent.
    owed : ndarray of shape (n, K)
        Votes that later rounds must still have; see `Round`.
    """

    proof: str
    since: int
    sentence: str
    certified: BoolArray
    delta: float
    owed: FloatArray


AUDIT = "An audit would certify (plan with --audit 200)."


def find_standing(
    table: Table,
    terms: Terms,
    record: Record,
    before: Round | None,
    known: BoolArray,
    accepted: BoolArray,
) -> Standing:
    """Find out what is proved about accepted labels."""
    nothing = np.zeros(len(table), dtype=bool)
    claim = terms.claim
    error = f"{terms.shown_error:g}"
    number = len(record) + 1
    owed = table.counts
    since = 0
    lost = nothing
    if before is not None:
        last = record.about[-1]
        lost = (table.counts < before.owed).any(axis=1) & known
        owed = np.where(lost[:, None], before.owed, table.counts)
        more = (table.counts.sum(axis=1) > before.owed.sum(axis=1)) & known
        bought = more & ((before.step == "ask") | before.audited)
        since = last.since
        # Where an audit was needed, votes left out in turn do not prove anything later either.
        if not since and (bought.any() or (last.proof == "audit" and (more | lost).any())):
            since = len(record)
    if terms.decide_from == "all":
        sentence = "Not certified: labels are decided from all votes, which leaves none as a proof."
        return Standing("none", number, sentence, nothing, 0.0, owed)
    if before is not None and lost.any():
        n_lost = int(np.maximum(before.owed - table.counts, 0.0)[known].sum())
        mended = AUDIT if since else f"Restore them, and review again. {AUDIT}"
        sentence = (
            f"Not certified since round {number}: {plural(n_lost, 'vote')} that round "
            f"{len(record)} had are missing or changed. {mended}"
        )
        return Standing("none", since, sentence, nothing, 0.0, owed)
    if before is not None:
        audit = _audit(table, terms, record, before, known)
        if audit is not None:
            return audit
        if last.proof == "audit" and not more.any():
            kept = before.certified & known
            sentence = (
                f"The audit of round {len(record)} stands: no votes were added. "
                f"{plural(int(kept.sum()), 'label')} accepted, error at most {error}."
            )
            return Standing("audit", 0, sentence, kept, 0.0, owed)
    if since:
        sentence = (
            f"Not certified since round {since}: votes were bought where it asked for them, so "
            f"that their numbers depend on how they came out. {AUDIT}"
        )
        return Standing("none", since, sentence, nothing, 0.0, owed)
    if not accepted.any():
        return Standing("votes", 0, "", nothing, claim.delta, owed)
    within = "" if table.groups is None else ", in each group by itself"
    sentence = (
        f"Certified: with probability at least {claim.confidence:g}, "
        f"{_bound(terms, 'the accepted labels')}{within}. This is a mean over accepted items, and "
        "says nothing about one of them, or about the other steps."
    )
    return Standing("votes", 0, sentence, accepted, claim.delta, owed)


def _bound(terms: Terms, labels: str) -> str:
    """Say what is bounded, for labels that are named in words."""
    error = f"{terms.shown_error:g}"
    if terms.claim.loss.name == "cost":
        return f"the mean cost of {labels}, for another annotator, is at most {error}"
    return f"another annotator would give another label to at most a share {error} of {labels}"


def _audit(
    table: Table,
    terms: Terms,
    record: Record,
    before: Round,
    known: BoolArray,
) -> Standing | None:
    """Evaluate an audit that was drawn after the last round, if its votes have come.

    A cost between 0 and 1 becomes an error with this probability, so that the number of errors has
    the mean that is tested.
    """
    last = record.about[-1]
    rows = np.flatnonzero(before.audited & known)
    if not last.audit_size or not len(rows):
        return None
    generator = np.random.default_rng([terms.seed, 3, len(record)])
    vote, _ = next_votes(before.counts[rows], table.counts[rows], generator)
    answered = int((vote >= 0).sum())
    if not answered:
        return None
    if answered < ANSWERED * last.audit_size:
        warn(
            f"{answered} of {last.audit_size} items of the audit have got their vote. It is "
            "evaluated once nine of ten have; the others then count as errors."
        )
        return None
    if last.loss != terms.claim.loss.name or not np.isclose(last.errors[0], terms.shown_error):
        raise ValueError(
            f"the audit was drawn for an error of {last.errors[0]:g} and the loss {last.loss}, and "
            "is evaluated for these. Review once with them; then choose another error."
        )
    risk = np.append(before.risk[rows], np.full(last.audit_size - len(rows), -np.inf))
    has_vote = np.flatnonzero(vote >= 0)
    held = np.eye(len(record.classes))[vote[has_vote]]
    loss = np.ones(last.audit_size)
    loss[has_vote] = terms.claim.loss.of(before.label[rows[has_vote]], held)
    wrong = (generator.random(last.audit_size) < loss).astype(np.float64)
    pool = np.flatnonzero((before.step == "accept") & known)
    grid = sequence(before.risk[pool], risk, terms.error)
    threshold = audit_threshold(grid, risk, wrong, terms.error, last.audit_delta)
    certified = np.zeros(len(table), dtype=bool)
    certified[pool[before.risk[pool] <= threshold]] = True
    if not certified.any():
        tested = risk <= threshold if np.isfinite(threshold) else np.ones(len(risk), dtype=bool)
        n_wrong = int(wrong[tested].sum())
        sentence = (
            f"Not certified: {n_wrong} of {last.audit_size} votes of the audit are against the "
            f"label, too many to prove an error of {terms.shown_error:g}."
        )
        since = last.since or len(record)
        return Standing("none", since, sentence, certified, last.audit_delta, table.counts)
    labels = plural(int(certified.sum()), "label")
    sentence = (
        f"Certified by audit: with probability at least {1 - last.audit_delta:g}, "
        f"{_bound(terms, f'the {labels} accepted in round {len(record)}')}. Labels that "
        "are accepted since are not certified; the next audit tests them."
    )
    return Standing("audit", 0, sentence, certified, last.audit_delta, table.counts)


def as_audited(decisions: Decisions, before: Round, certified: BoolArray) -> Decisions:
    """Keep the labels that an audit has proved as they were when it was drawn."""
    accepted = decisions.accepted.copy()
    accepted[certified] = True
    further = np.where(certified, 0.0, decisions.further_votes)
    after = decisions.after.copy()
    after[certified] = 1.0
    bought = decisions.bought.copy()
    bought[certified] = 0.0
    return replace(
        decisions,
        label=np.where(certified, before.label, decisions.label),
        risk=np.where(certified, before.risk, decisions.risk),
        accepted=accepted,
        ask=decisions.ask & ~certified,
        further_votes=further,
        variance=np.where(certified, 0.0, decisions.variance),
        after=after,
        bought=bought,
    )
