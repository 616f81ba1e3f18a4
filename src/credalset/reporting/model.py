"""The numbers and sentences of the page, as plain data: the template and the script draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from credalset._display import Estimate, proportion
from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset.acting.steps import MEANS, STEPS
from credalset.evaluation.slices import Slice, WorstSlice, divide
from credalset.evaluation.verdict import Verdict, percent
from credalset.evaluation.views import Drift, RangeStrip, ShareCalibration, VotesComingIn
from credalset.reporting.items import Items, shorten
from credalset.sets import Queue
from credalset.votes import Annotations

FEWEST_IN_SLICE = 20  # items; smaller slices only show chance
MAX_FEATURES = 20  # for which results are shown
MOST_WRONG = 60  # items that are listed where model and people differ most
HALF = 0.5  # sets that leave a larger share of the other labels open do not help much
UNLIKELY = 0.01  # a smaller p-value is evidence against an assumption
RESAMPLES = 200  # of the items, for intervals of agreement
COVERS = {
    "recorded": "The label distribution of a new item as it would be recorded: the shares of the "
    "votes of as many annotators as the calibration items had. Nothing is guaranteed about what "
    "very many votes would show.",
    "further": "The distribution of the votes of a new item that are not in hand.",
    "true": "The true label distribution of a new item: the shares that very many votes "
    "would show.",
}


class Statement(NamedTuple):
    """A sentence of the headline, and its colour: good, warn, bad or untested."""

    tone: str
    text: str
    link: str = ""


class Check(NamedTuple):
    """A line of the checklist: tested, testable, assumed or not claimed, and what is known."""

    status: str
    claim: str
    evidence: str = ""


@dataclass(frozen=True, eq=False)
class Standing:
    """Where all items stand for one error, or by rules on sets if there is none.

    Attributes
    ----------
    queue : Queue
        The next step of each item.
    error : float or None
        Largest mean error of accepted labels that the rule was tested for.
    n_certified : int
        Accepted items for which it is proved.
    votes_to_come : tuple of float or None
        Expected votes where it is asked, and an interval.
    policy, even : ndarray of shape (A, 2) or None
        Votes bought and share accepted, where it is asked and evenly over all items.
    confidence : float
        Probability with which it holds.
    is_cost : bool
        Whether the error is a mean cost.
    lacking : str
        Why nothing is certified, and what would do, in a sentence.
    """

    queue: Queue
    error: float | None = None
    n_certified: int = 0
    votes_to_come: tuple[float, float, float] | None = None
    policy: AnyArray | None = None
    even: AnyArray | None = None
    confidence: float = 0.0
    is_cost: bool = False
    lacking: str = ""

    @property
    def bound(self) -> str:
        """The error in words."""
        error = self.error or 0.0
        return f"{error:g}" if self.is_cost else percent(error)

    @property
    def headline(self) -> str:
        """Say how many labels can be taken."""
        n = len(self.queue)
        count = self.queue.counts()["accept"]
        if not n:
            return "There are no items to report on"
        if not count:
            return f"None of {n:,} labels can be accepted yet"
        verb = "can be accepted" if self.n_certified else "accepted, not certified"
        return f"{count:,} of {n:,} labels {verb}"

    @property
    def statement(self) -> Statement:
        """Say what is proved about them."""
        count = self.queue.counts()["accept"]
        if self.error is None:
            return Statement(
                "untested",
                "Accepting is not certified: the steps follow from the sets by rules. A review "
                "certifies the error of accepted labels.",
            )
        error = self.bound
        if not self.n_certified:
            lacking = self.lacking or f"Nothing is certified at an error of at most {error}."
            return Statement("warn", lacking)
        which = "" if self.n_certified == count else f" for {self.n_certified:,} of them"
        claim = (
            f"on average, another annotator disagrees with at most {error} of the accepted labels"
        )
        if self.is_cost:
            claim = (
                f"the mean cost of the accepted labels, for another annotator, is at most {error}"
            )
        sure = percent(self.confidence)
        return Statement("good", f"Certified{which} with {sure} confidence: {claim}.")

    @property
    def tiles(self) -> list[dict[str, Any]]:
        """Return name, number of items and a remark of each step."""
        counts = self.queue.counts()
        n = max(len(self.queue), 1)
        remarks = dict(MEANS)
        if self.error is not None:
            remarks["accept"] = "not certified"
            if self.n_certified:
                what = "mean cost" if self.is_cost else "disagreement"
                remarks["accept"] = f"{what} at most {self.bound}, certified"
                if self.n_certified < counts["accept"]:
                    remarks["accept"] += f" for {self.n_certified:,}"
        if self.votes_to_come is not None and counts["ask"]:
            expected, low, high = self.votes_to_come
            votes = "vote" if round(expected) == 1 else "votes"
            interval = f"likely {low:,.0f} to {high:,.0f}"
            remarks["ask"] = f"about {expected:,.0f} {votes} to come ({interval})"
        return [
            {
                "key": step,
                "title": step.capitalize(),
                "count": counts[step],
                "share": percent(counts[step] / n),
                "remark": remarks[step],
            }
            for step in STEPS
        ]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was observed of items: whether sets cover later votes, or a held-back vote agrees.

    Attributes
    ----------
    name, yes, no : str
        What is shared, and what an item is called.
    hit : ndarray of shape (N,)
        1 if so, 0 if not, 2 if it is not known.
    target : float or None
        Share that is guaranteed.
    """

    name: str
    yes: str
    no: str
    hit: IntArray
    target: float | None

    @property
    def rows(self) -> IntArray:
        """The items of which something was observed."""
        return np.flatnonzero(self.hit != 2)

    @property
    def observed(self) -> Estimate:
        """The share over all of them."""
        seen = self.hit[self.rows]
        return proportion(int(seen.sum()), len(seen))


@dataclass(frozen=True, eq=False)
class Levels:
    """Results at every level of the slider.

    Attributes
    ----------
    verdicts : list of Verdict
        One per level, by increasing alpha.
    covered : ndarray of shape (L, M)
        Whether each tested item is covered.
    rows : ndarray of shape (M,)
        The tested items.
    p_values : ndarray of shape (M,) or None
        Conformal p-values of the tested items.
    """

    verdicts: list[Verdict]
    covered: BoolArray
    rows: IntArray
    p_values: FloatArray | None

    @property
    def alphas(self) -> list[float]:
        """The levels."""
        return [float(each.alpha or 0.0) for each in self.verdicts]

    def first_missed(self, n_items: int) -> IntArray:
        """Return at which level each item is first not covered, (N,); −1 if it was not tested.

        Sets shrink as alpha grows: an item is covered at all levels before this one.
        """
        found = np.full(n_items, -1)
        found[self.rows] = np.logical_and.accumulate(self.covered, axis=0).sum(axis=0)
        return found


@dataclass(frozen=True, eq=False)
class Feature:
    """A feature, and for each of its values the share of items with a good outcome.

    Attributes
    ----------
    name : str
        The feature.
    values : list of str
        Its values that have enough items.
    code : ndarray of shape (N,)
        Value of each item; −1 for those without enough items.
    shares : list of Estimate
        Share for each value.
    low : list of bool
        Whether it is certainly below what is guaranteed.
    """

    name: str
    values: list[str]
    code: IntArray
    shares: list[Estimate]
    low: list[bool]

    @property
    def least(self) -> float:
        """The lower end of an axis for all of its intervals."""
        ends = [share.low for share in self.shares] + [1.0]
        return float(np.clip(np.floor(10 * min(ends)) / 10, 0.0, 0.8))


@dataclass(frozen=True, eq=False)
class Wrong:
    """The items where model and people differ most.

    Attributes
    ----------
    rows : ndarray
        Items by increasing p-value.
    p_values : ndarray of shape (N,)
        NaN where there is none.
    words : str
        What the p-values say.
    """

    rows: IntArray
    p_values: FloatArray
    words: str


@dataclass(frozen=True, eq=False)
class Ribbons:
    """Sets of some items as their votes come in.

    Attributes
    ----------
    rows : list of int
        The items.
    found : VotesComingIn
        Their bounds.
    n_in_hand : list of int
        How many of their votes are in hand; the others come later.
    """

    rows: list[int]
    found: VotesComingIn
    n_in_hand: list[int]


@dataclass(frozen=True, eq=False)
class PageModel:
    """Everything that a page shows about its items; see the classes above."""

    title: str
    items: Items
    standings: list[Standing]
    statements: list[Statement]
    tone: str
    checks: list[Check]
    sentences: tuple[str, ...]
    outcome: Outcome
    verdict: Verdict
    strip: RangeStrip
    features: list[Feature]
    slices: list[Slice]
    worst: WorstSlice | None
    levels: Levels | None
    wrong: Wrong | None
    ribbons: Ribbons | None
    shares: ShareCalibration | None
    agreement: Any
    drift: Drift | None
    sizes: list[dict[str, Any]]
    commands: list[tuple[str, str]]
    remarks: list[str]
    made: dict[str, str]
    alpha: float | None

    @property
    def is_review(self) -> bool:
        """Whether accepting labels was tested."""
        return self.standings[0].error is not None


# --- outcomes by feature and by level ---


def by_feature(items: Items, outcome: Outcome, level: float = 0.95) -> list[Feature]:
    """Return the share of good outcomes for the values of each feature.

    Shares are certainly low by intervals that hold for all of them at once (Bonferroni).
    """
    parts = []
    known = outcome.hit != 2
    for name, column in list(items.features.items())[:MAX_FEATURES]:
        values = divide(column)
        order = items.orders.get(name)
        if order is not None:
            values = [part for value in order for part in values if part[0] == value]
        kept = [(v, m) for v, m in values if (m & known).sum() >= FEWEST_IN_SLICE]
        if len(kept) > 1:
            parts.append((name, kept))
    n_slices = sum(len(kept) for _, kept in parts)
    strict = 1.0 - (1.0 - level) / max(n_slices, 1)
    found = []
    for name, kept in parts:
        code = np.full(len(items), -1)
        shares = []
        low = []
        for number, (_, members) in enumerate(kept):
            code[members] = number
            seen = outcome.hit[members & known]
            hits = int(seen.sum())
            shares.append(proportion(hits, len(seen), level))
            high = proportion(hits, len(seen), strict).high
            low.append(outcome.target is not None and high < outcome.target)
        found.append(Feature(name, [shorten(v, 60) for v, _ in kept], code, shares, low))
    return found


def slices_of(features: Sequence[Feature], outcome: Outcome) -> list[Slice]:
    """Return the slices as `slice_coverage` would, among the items with an outcome."""
    return [
        Slice(each.name, value, each.shares[number], each.code[outcome.rows] == number)
        for each in features
        for number, value in enumerate(each.values)
    ]


def exact_ends(hits: IntArray, n: IntArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return exact (Clopper–Pearson) ends of the intervals of many shares hits / n, n ≥ 1."""
    tail = (1.0 - level) / 2.0
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1.0, tail), 0.0)
    high = np.where(hits < n, betaincinv(hits + 1.0, np.maximum(n - hits, 1), 1.0 - tail), 1.0)
    return low, high


# --- where model and people differ ---


def wrong_by_p_value(
    items: Items, rows: IntArray, p_values: FloatArray, scores: FloatArray, words: str
) -> Wrong | None:
    """List the items with the smallest p-values; of equal ones, the largest scores first."""
    if not len(rows):
        return None
    everything = np.full(len(items), np.nan)
    everything[rows] = p_values
    order = rows[np.lexsort((-scores, p_values))]
    return Wrong(order[:MOST_WRONG], everything, words)


# --- the checklist ---


def checks_of(
    calibration: Any, verdict: Verdict, drift: Drift | None, assumption: Any
) -> list[Check]:
    """Return what the guarantee of sets rests on."""
    if calibration is None:
        return [Check("assumed", "No guarantee is known for these sets.")]
    known = calibration.guarantee
    level = "" if verdict.alpha is None else f" with probability {percent(1.0 - verdict.alpha)}"
    status = "tested" if verdict.status != "not tested" else "testable"
    if known.covers == "true":
        status = "assumed"
    claim = f"Sets hold{level}: {COVERS.get(known.covers, COVERS['recorded'])}"
    evidence = verdict.sentence.split(" On average")[0]
    found = [Check(status, claim, "" if status == "assumed" else evidence)]
    moved = "" if drift is None else _words_of(drift)
    status = "testable" if drift is None else "tested"
    items = f"New items and calibration items are {known.items}, and the model was trained on "
    found.append(Check(status, f"{items}neither.", moved))
    if known.votes:
        words = f"{known.votes[:1].upper()}{known.votes[1:]}."
        found.append(_crowd_check(words, assumption))
    if known.within:
        found.append(Check("assumed", f"The guarantee holds within {known.within}."))
    if known.delta is not None:
        share = percent(1 - known.delta)
        found.append(
            Check("assumed", f"For {share} of calibration sets it holds for the one used here.")
        )
    if not known.is_exact:
        found.append(Check("assumed", "Coverage is approximate and not guaranteed."))
    within = "other groups than those above" if known.within else "a group of items"
    found.append(
        Check(
            "not claimed",
            f"Coverage of a single item, or of {within}: the guarantee is an average over items "
            "and over calibration sets. A bias that all annotators share is not corrected.",
        )
    )
    return found


def _crowd_check(claim: str, assumption: Any) -> Check:
    if assumption is None:
        return Check("assumed", claim)
    return Check("tested", claim, f"{assumption.sentence}")


def _words_of(drift: Drift) -> str:
    seen = "Predictions differ" if drift.is_seen else "No drift is seen"
    p_value = min(drift.class_p_value, drift.entropy_p_value)
    return (
        f"{seen} between {drift.n[0]:,} earlier and {drift.n[1]:,} new items (smaller of two "
        f"p-values {p_value:.2g}). Other drift is possible."
    )


# --- sentences ---


def set_statements(verdict: Verdict, assumption: Any) -> list[Statement]:
    """Say whether the sets are valid, and whether they are small enough to help."""
    found = []
    if assumption is not None:
        tone = "good" if assumption.p_value >= UNLIKELY else "warn"
        found_by_test = "finds no contradiction" if tone == "good" else "contradicts it"
        words = (
            "Sets (shares that a whole crowd may give an item) rest on a model of the crowd; a "
            f"test on hidden votes {found_by_test} (p = {assumption.p_value:.2g})."
        )
        found.append(Statement(tone, words))
    elif verdict.status == "not tested":
        reason = verdict.used or verdict.untested or "no guarantee is known for these sets"
        found.append(Statement("untested", f"Sets not tested: {reason}."))
    else:
        found.append(_validity(verdict))
    if verdict.width is not None and verdict.n_classes:
        useful = is_useful(verdict)
        possible = f"{verdict.labels:.2g} of {verdict.n_classes} labels"
        size = f"{possible} remain possible for an item, on average"
        tone = "good" if useful else "warn"
        words = f"Sets help: {size}." if useful else f"Sets help little: {size}."
        link = "" if verdict.informative else "too-large"
        found.append(Statement(tone, words, link))
    return found


def _validity(verdict: Verdict) -> Statement:
    seen = f"{percent(float(verdict.observed))} of {verdict.observed.n:,} items covered"
    tone = {"valid": "good", "undercovers": "bad", "overcovers": "warn"}[verdict.status]
    words = {
        "valid": "Sets valid",
        "undercovers": "Sets cover too little",
        "overcovers": "Sets cover more than is guaranteed",
    }[verdict.status]
    if verdict.band is not None:
        low, high = (percent(end) for end in verdict.band)
        expected = f"{low} to {high} expected if {percent(verdict.guaranteed or 0.0)} holds"
    else:
        low, high = percent(verdict.observed.low), percent(verdict.observed.high)
        expected = f"interval {low} to {high}; {percent(verdict.guaranteed or 0.0)} guaranteed"
    return Statement(tone, f"{words}: {seen} ({expected}).")


def is_useful(verdict: Verdict) -> bool:
    """Tell whether sets exclude at least half of the other labels, and beat a constant."""
    open_share = (verdict.labels - 1.0) / max(verdict.n_classes - 1, 1)
    return verdict.informative is not False and open_share <= HALF


def tone_of(standing: Standing, statements: Sequence[Statement]) -> str:
    """Return the colour of the page: that of what is useful, not of what is merely valid."""
    tones = [each.tone for each in statements]
    if not len(standing.queue):
        return "untested"
    if "bad" in tones:
        return "bad"
    if standing.error is not None:
        return "good" if standing.n_certified else "warn"
    if not standing.queue.counts()["accept"]:
        return "warn"
    return "warn" if "warn" in tones else "untested" if "untested" in tones else "good"


def agreement_of(items: Items) -> Any:
    """Measure the agreement of all votes on the page; None if no item has two."""
    parts = [each.counts for each in (items.hand, items.votes) if each is not None]
    counts = sum(np.nan_to_num(each) for each in parts if each is not None)
    if not isinstance(counts, np.ndarray) or not (counts.sum(axis=1) >= 2).any():
        return None
    scale = None if items.positions is None else dict(enumerate(items.positions))
    votes = Annotations.from_counts(counts.astype(np.int64), scale=scale)
    return votes.drop_empty().agreement(n_resamples=RESAMPLES)


def remarks_of(items: Items, *, is_review: bool) -> list[str]:
    """Return remarks on missing votes and special sets, in sentences."""
    sets = items.sets
    n = len(items)
    found = []
    missing = n - int(items.known.has_votes.sum())
    if 0 < missing < n:
        where = "They are asked first." if is_review else "They test nothing."
        found.append(f"{missing:,} of {n:,} items have no votes. {where}")
    unmatched = items.votes.n_unmatched
    if unmatched:
        found.append(
            f"{unmatched:,} items with votes are not among the predictions and were left out."
        )
    if empty := int(sets.is_empty().sum()):
        found.append(
            f"{empty:,} sets are empty: no distribution scores below the threshold. They "
            "count as not covered."
        )
    if whole := int(np.isposinf(sets.radius).sum()):
        found.append(
            f"{whole:,} sets are the whole simplex: there are too few calibration items for this "
            "level, or infinite scores. They contain every distribution."
        )
    bounds = items.queue.entropies
    gap = float(np.nanmax(bounds.lower_gap + bounds.upper_gap, initial=0.0))
    if gap > 0.005:
        found.append(
            "Entropies are certified bounds for this score: the smallest may be larger, and the "
            f"largest smaller, by at most {gap:.2f}."
        )
    return found
