"""Review a table: where all items stand, and what is proved about those that are accepted.

Two rules are certified on one table, so that every item is treated by a rule that has learned from
the votes of others only; see `credalset.crowd.accept`. One vote of each item, drawn once, is held
back from the decisions: the certificate is for decisions from one vote fewer than an item has.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from credalset._batch import Batch, Names, item_names, read_votes
from credalset._display import Rows, plural, progress
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset._validation import as_positive_int, as_probability, check_choice
from credalset.acceptance.cases import Cases
from credalset.acceptance.certify import NOTHING, certify
from credalset.acceptance.losses import LOSSES
from credalset.acceptance.rule import (
    AcceptRule,
    Claim,
    enough_items,
    forecast_shares,
    read_codes,
    too_few,
)
from credalset.acting.audit import audit_threshold, next_votes, sequence
from credalset.acting.deciding import AHEAD, Decider, Decisions
from credalset.acting.folder import check_folder, make_page, write_review
from credalset.acting.record import About, Record, Round, aligned
from credalset.acting.sources import ClassShares, GivenPredictions, LearnedModel, Source
from credalset.acting.steps import Findings, next_steps
from credalset.acting.stored import StoredRule
from credalset.crowd import CrowdCalibration, DirichletCrowd
from credalset.crowd.accept import TableRule, hold_back_one, two_rules
from credalset.crowd.base import read_voted
from credalset.exceptions import CredalSetWarning, need, warn
from credalset.sets import CredalSet, Queue

ALPHA = 0.1  # of the sets
SCORE = "kl"
MOST_SETS = 1_000  # items that calibrate the sets
MOST_IN_HAND = 8  # numbers of votes that the sets are calibrated for
LEVEL = 0.9  # of the interval of votes to come
PAIRS = 0.15  # difference in agreement by number of votes that calls for a warning
SURE = 4.0  # … if it is so many standard errors


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it is reviewed, in plain arrays: n items, K classes.

    Attributes
    ----------
    source : Source
        Where predictions come from.
    counts : ndarray of shape (n, K)
        Votes; rows may be zero.
    items, classes : tuple
        Names.
    codes : ndarray of shape (n,)
        Group of each item.
    groups : tuple or None
        Names of the groups.
    units : ndarray of shape (n,) or None
        Cluster of each item.
    """

    source: Source
    counts: FloatArray
    items: Names
    classes: Names
    codes: IntArray
    groups: Names | None = None
    units: IntArray | None = None

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True, eq=False)
class Certified:
    """Two rules, and the thresholds that they were certified for, by rule, group and error."""

    table: TableRule
    thresholds: FloatArray
    divided: FloatArray
    is_divided_certified: bool

    def decider(self, number: int, claim: Claim, main: int, disagreement: float) -> Decider:
        """Return what decides with one of the two rules."""
        return Decider(
            self.table.fits[number].law,
            claim.loss,
            self.thresholds[number],
            disagreement,
            float(self.divided[number]),
            main,
            claim.errors[main],
        )


def certify_table(table: Table, claim: Claim, disagreement: float, seed: int) -> Certified:
    """Certify two rules for accepting labels, and two for claiming that people are divided."""
    generator = np.random.default_rng(seed)
    options: dict[str, Any] = {"halves": table.source.halves, "units": table.units}
    with progress("Learning from votes, and certifying", None):
        rules = two_rules(table.source, table.counts, claim, generator, **options)
        thresholds = np.stack([_by_group(table, rules, claim, number) for number in (0, 1)])
        least = np.full(2, NOTHING)
        if (table.counts.sum(axis=1) >= LOSSES["divided"].n_held_back).sum() >= 50:
            split = Claim(LOSSES["divided"], (1.0 - disagreement,), claim.confidence)
            again = np.random.default_rng(seed)
            found = two_rules(table.source, table.counts, split, again, **options)
            least = found.thresholds[:, 0]
    is_certified = bool(np.isfinite(least).all())
    if not is_certified:
        least = np.full(2, 1.0 - disagreement)
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
        found.append(
            certify(cases, fitted, claim.loss, claim.errors, claim.delta / 2.0, clusters=clusters)
        )
    return np.array(found)


def decide_table(
    table: Table,
    rules: Certified,
    claim: Claim,
    main: int,
    disagreement: float,
    hand: FloatArray,
    earlier: FloatArray,
    thresholds: FloatArray,
) -> Decisions:
    """Decide about all items, each with the rule that has not learned from it."""
    parts = []
    for number in (0, 1):
        rows = np.flatnonzero(rules.table.rule == number)
        if len(rows):
            decider = rules.decider(number, claim, main, disagreement)
            prediction = rules.table.fits[number].prediction[rows]
            found = decider.decide(
                prediction,
                hand[rows],
                earlier[rows],
                table.codes[rows],
                thresholds=thresholds[number],
            )
            parts.append((rows, found))
    return Decisions.joined(parts, len(table))


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


def votes_depend(counts: FloatArray) -> str:
    """Say so if agreement differs by the number of votes, as it does where votes were added."""
    number = counts.sum(axis=1)
    pairs = number * (number - 1.0)
    agree = (counts * (counts - 1.0)).sum(axis=1)
    rates = []
    for size in np.unique(number[number >= 2]):
        rows = np.flatnonzero(number == size)
        if len(rows) >= 20:
            share = agree[rows] / pairs[rows]
            rates.append((share.mean(), share.var() / len(rows) + 1e-4 / len(rows), int(size)))
    if len(rates) < 2:
        return ""
    low, high = min(rates), max(rates)
    gap = high[0] - low[0]
    if gap < PAIRS or gap < SURE * np.sqrt(low[1] + high[1]):
        return ""
    return (
        f"Two annotators agree on {high[0]:.0%} of the items with {high[2]} votes, and on "
        f"{low[0]:.0%} of those with {low[2]}. If votes were added where the first ones "
        "disagreed, nothing is certified. If their number was fixed for another reason, it is."
    )


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
    """

    proof: str
    since: int
    sentence: str
    certified: BoolArray
    delta: float


@dataclass(frozen=True, eq=False, repr=False)
class Review:
    """Where all items of a table stand, returned by `review`.

    Attributes
    ----------
    queue : Queue
        The next step of each item, with label, risk, votes and reason.
    rule : AcceptRule
        The rule for new items from the same source, with votes in hand.
    sets : CredalSet
        Sets of distributions that the crowd of each item may have, with probability about 90 %
        under the assumption of a Dirichlet crowd.
    certified : ndarray of shape (N,)
        Whether the label of an item is accepted and the error is proved.
    errors : tuple of float
        Bounds of the error, in the order given. The first decides the next step.
    accepted : dict of int
        Number of accepted items for each error.
    sentences : tuple of str
        What is certified, and under which assumptions; what is not, and what would do.
    votes_to_come : tuple of float
        Expected further votes where it is asked, and the ends of an interval of 90 %.
    record : Record
        All rounds so far.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(1500, n_classes=3, n_votes=4, random_state=0)
    >>> found = cs.review(data.distributions, data.counts, error=0.15)
    >>> found.to_frame().columns[:4].tolist()
    ['item', 'step', 'label', 'risk']
    """

    queue: Queue
    rule: AcceptRule
    sets: CredalSet
    certified: BoolArray
    errors: tuple[float, ...]
    accepted: dict[float, int]
    sentences: tuple[str, ...]
    votes_to_come: tuple[float, float, float]
    record: Record
    stored: StoredRule
    counts: FloatArray
    by_error: FloatArray
    by_votes: FloatArray
    model: Any = None

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def step(self) -> Any:
        """The next step of each item, (N,) texts, in the order of the predictions."""
        return self.queue.step

    def curve(self) -> Rows:
        """Return the share of items that is accepted by error: a forecast but for `errors`.

        Returns
        -------
        list of dict
            Rows ``error``, ``accepted`` and ``certified``, which print as a table.
        """
        known = {round(error, 9): count / len(self) for error, count in self.accepted.items()}
        proved = set(known) if self.certified.any() else set()
        rows = []
        for error, share in sorted({**dict(self.by_error.tolist()), **known}.items()):
            is_known = round(error, 9) in proved
            rows.append({"error": error, "accepted": share, "certified": is_known})
        return Rows(rows)

    def votes_curve(self) -> Rows:
        """Return the share of items that is accepted by votes bought where it is asked: a forecast.

        Returns
        -------
        list of dict
            Rows ``votes`` (in all) and ``accepted``, which print as a table.
        """
        return Rows(
            [{"votes": float(votes), "accepted": float(share)} for votes, share in self.by_votes]
        )

    def to_dict(self, id: str = "item") -> dict[str, list[Any]]:
        """Return the queue as columns, in the order of the queue.

        Parameters
        ----------
        id : str
            Name of the first column.

        Returns
        -------
        dict of lists
            Names of the items, ``step``, ``label``, ``risk``, ``votes``, ``further_votes``,
            ``why``, bounds of the shares of the classes (``lower_…`` and ``upper_…``), and
            ``certified``.
        """
        order = self.queue.order()
        table = self.queue.to_dict()
        for name in ("possible", "aleatoric", "epistemic"):
            table.pop(name)
        names = table.pop("item")
        lower, upper = self.sets.envelope()
        columns: dict[str, list[Any]] = {id: names, **table}
        for end, values in (("lower", lower), ("upper", upper)):
            for k, name in enumerate(self.queue.choices):
                columns[f"{end}_{name}"] = values[order, k].round(4).tolist()
        for name in ("risk", "further_votes"):
            columns[name] = np.round(np.array(columns[name], dtype=float), 4).tolist()
        columns["certified"] = self.certified[order].tolist()
        return columns

    def to_frame(self) -> Any:
        """Return the queue as a pandas data frame, in the order of the queue."""
        return need("pandas").DataFrame(self.to_dict())

    def report(self, path: str | Path | None = "report.html", **page: Any) -> Any:
        """Write a page about all items.

        Parameters
        ----------
        path : str, Path or None
            File to write to. If None, the page is only returned.
        **page
            ``texts``, ``images``, ``groups`` and ``title``, as in `credalset.report`.

        Returns
        -------
        Report
        """
        return make_page(self, path, **page)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write queue, page, record and rule into a folder, in one step.

        Parameters
        ----------
        path : str or Path
            The folder; ``previous=path`` continues the record in a later review.
        overwrite : bool
            Whether to replace an earlier review there. Its record is kept only if this review
            continues it.
        """
        earlier = check_folder(path, overwrite=overwrite)
        if earlier is not None and len(earlier) >= len(self.record):
            raise ValueError(
                f"{path} holds a record that this review does not continue. Review with "
                "previous=path, or save to another folder."
            )
        write_review(self, path)

    def summary(self) -> str:
        """Return the result in a few lines, as the command line prints it."""
        counts = self.queue.counts()
        error = f"{self.errors[0]:g}"
        n_certified = int(self.certified.sum())
        status = f"error at most {error}, certified"
        if not n_certified:
            status = "not certified"
        elif n_certified < counts["accept"]:
            status = f"{n_certified} with an error of at most {error}, certified"
        expected, low, high = self.votes_to_come
        ask = f"about {expected:,.0f} votes to come ({low:,.0f} to {high:,.0f}), a forecast"
        lines = [
            f"accept   {counts['accept']:>8,}   {status}",
            f"ask      {counts['ask']:>8,}   {ask}",
            f"divided  {counts['divided']:>8,}   people disagree; more votes will not change that",
            f"expert   {counts['expert']:>8,}   someone decides",
        ]
        errors = int(np.sum(self.queue.model_errors)) if self.queue.model_errors is not None else 0
        if errors:
            lines.append(f"On {plural(errors, 'item')} people clearly contradict the model.")
        return "\n".join([*lines, *self.sentences])

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {step}" for step, count in self.queue.counts().items())
        return f"Review: {plural(len(self), 'item')}, {counts}. {self.sentences[0]}"


def review(
    predictions: Any = None,
    votes: Any = None,
    *,
    error: float | Sequence[float] = 0.1,
    confidence: float = 0.9,
    costs: Any = None,
    groups: Any = None,
    clusters: Any = None,
    texts: Any = None,
    decide_from: str = "certified",
    disagreement: float = 0.4,
    previous: Any = None,
    total_rounds: int | None = None,
    random_state: int = 0,
) -> Review:
    """Tell where all items of one table stand: accept, ask, divided or expert.

    No panel and no held-out file is needed. One vote of each item is held back from the decisions
    as the proof. With probability at least ``confidence``, another annotator would disagree with at
    most a share ``error`` of the accepted labels, on average over accepted items, if items are
    independent, the votes on an item are interchangeable draws from one pool of annotators, their
    number was not chosen by how they came out, and predictions were made without these votes.

    Parameters
    ----------
    predictions : array or data frame of shape (N, K), optional
        Predicted distributions, made without the votes of these items. Without them, a model of
        ``texts`` is trained on one half of the items for the other; without texts, the shares of
        the classes are the prediction.
    votes : array or data frame of shape (N, K), or Annotations
        Votes; items may have none.
    error : float or sequence of float
        Largest mean error among accepted labels. Several share the probability of failing; the
        first decides the next step.
    confidence : float
        Probability with which all bounds hold.
    costs : array or data frame of shape (K, K), optional
        Cost of each label (row) for an annotator of each class (column); ``error`` then bounds the
        mean cost.
    groups : sequence of N keys, optional
        Group of each item; each has its own certificate.
    clusters : sequence of N keys, optional
        Items with one key may depend on each other, such as duplicates, or blocks of items that
        the same few workers did.
    texts : sequence of N str or data frame, optional
        Texts, or columns of texts and numbers, to learn from if there are no predictions.
    decide_from : {"certified", "all"}
        Decide from the votes that the certificate is about, all but one; or from all of them, which
        is never certified.
    disagreement : float
        Claim that people are divided where two annotators disagree with at least this probability,
        on average over the claimed items.
    previous : Record or folder, optional
        The record of earlier reviews of these items.
    total_rounds : int, optional
        Divide the probability of failing over so many rounds, so that all of their certificates
        hold together. By default each round has its own.
    random_state : int
        Seed of everything that is drawn.

    Returns
    -------
    Review

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(1500, n_classes=3, n_votes=4, random_state=0)
    >>> cs.review(data.distributions, data.counts, error=0.15).queue.counts()["accept"] > 500
    True
    """
    check_choice(decide_from, "decide_from", ("certified", "all"))
    seed = as_positive_int(random_state, "random_state", minimum=0)
    as_probability(disagreement, "disagreement")
    table, batch = read_table(predictions, votes, texts, groups, clusters, seed)
    wanted = tuple(error) if isinstance(error, tuple | list) else (error,)
    claim = Claim.read("annotator" if costs is None else costs, wanted, confidence, batch)
    record = previous if isinstance(previous, Record) else None
    if previous is not None and record is None:
        record = Record.read(previous)
    return review_table(
        table,
        claim,
        main=claim.errors.index(float(wanted[0]) / claim.unit),
        disagreement=disagreement,
        decide_from=decide_from,
        record=record,
        total_rounds=total_rounds,
        seed=seed,
    )


def read_table(
    predictions: Any, votes: Any, texts: Any, groups: Any, clusters: Any, seed: int
) -> tuple[Table, Batch]:
    """Read and match all that belongs to the items."""
    if votes is None:
        raise ValueError("votes are missing: pass counts per item and class, or Annotations.")
    if predictions is None:
        labels = read_votes(votes)
        counts = labels.votes("votes", "review")
        batch = Batch(counts, labels.n_classes, labels.items, labels.classes, name="votes")
        source: Source
        if texts is None:
            source = ClassShares(counts, seed)
        else:
            source = LearnedModel(*_features_of(texts, batch), counts, seed)
    else:
        voted = read_voted(predictions, votes, partial=True)
        batch, counts = voted.batch, voted.counts
        named = set(item_names(votes, "votes") or ()) - set(batch.items or ())
        if named and batch.items is not None:
            warn(f"{plural(len(named), 'item')} with votes have no prediction and are left out.")
        source = GivenPredictions(voted.prediction, counts, seed)
    if not counts.any():
        raise ValueError("votes has no votes. Collect at least one vote on each item.")
    codes, keys = np.zeros(len(counts), dtype=np.int64), None
    if groups is not None:
        codes, keys = read_codes(batch, groups, "groups")
    units = None if clusters is None else read_codes(batch, clusters, "clusters")[0]
    items = tuple(range(len(counts))) if batch.items is None else batch.items
    classes = tuple(range(counts.shape[1])) if batch.classes is None else batch.classes
    if len(set(items)) < len(items):
        raise ValueError("votes or predictions name an item twice. Give each a name of its own.")
    return Table(source, counts, items, classes, codes, keys, units), batch


def _features_of(texts: Any, batch: Batch) -> tuple[Any, list[str]]:
    """Return what is to be learned from as a frame, and the kind of each column."""
    pandas = need("pandas", "A model of texts")
    if getattr(texts, "ndim", 1) == 1:
        column = [str(each) for each in batch.column(texts, "texts")]
        return pandas.DataFrame({"text": column}), ["text"]
    frame = batch.per_item(texts, "texts")
    kinds = ["number" if kind.kind in "fiub" else "text" for kind in frame.dtypes]
    return frame, list(frame.attrs.get("kinds", kinds))


def review_table(
    table: Table,
    claim: Claim,
    *,
    main: int = 0,
    disagreement: float = 0.4,
    decide_from: str = "certified",
    record: Record | None = None,
    total_rounds: int | None = None,
    seed: int = 0,
    with_sets: bool = True,
) -> Review:
    """Review a table that was read; see `review`."""
    names = tuple(map(str, table.items))
    classes = tuple(map(str, table.classes))
    record = Record(classes, total_rounds=total_rounds) if record is None else record
    if set(record.classes) != set(classes):
        raise ValueError(
            f"the record has the classes {', '.join(record.classes)}, but votes have "
            f"{', '.join(classes)}. Review another table in a folder of its own."
        )
    table, names, classes = _in_order_of(record, table, names, classes)
    total = record.total_rounds
    if total is not None and len(record) >= total:
        raise ValueError(
            f"the probability of failing was divided over {total} rounds, which are over. Start "
            "another record."
        )
    claim = replace(claim, confidence=1.0 - claim.delta / (total or 1))
    counts = table.counts
    n_items = len(table)
    before, known = None, np.zeros(n_items, dtype=bool)
    if record.last is not None:
        before, known = aligned(record.last, names, len(classes))
    held_back = _held_back(counts, before, seed)
    rules = certify_table(table, claim, disagreement, seed)
    hand, earlier = _in_hand(counts, held_back, seed)
    if decide_from == "all":
        hand, earlier = counts, counts
    thresholds = rules.thresholds
    voted = np.asarray(counts.any(axis=1))
    decisions = decide_table(table, rules, claim, main, disagreement, hand, earlier, thresholds)
    if decide_from == "all":
        lowered = guarded(decisions, rules.table.rule, table.codes, thresholds, claim)
        decisions = decide_table(table, rules, claim, main, disagreement, hand, earlier, lowered)
    accepted = np.asarray(decisions.accepted[:, main] & voted)
    standing = _stand(table, claim, main, record, before, known, accepted, decide_from, seed)
    if standing.proof == "audit":
        assert before is not None
        decisions = _as_audited(decisions, before, standing.certified)
    queue, shown = _queue_of(table, rules, decisions, standing, claim, main)
    stored, rule, sets = _for_new_items(
        table, rules, claim, main, disagreement, hand, with_sets=with_sets, seed=seed
    )
    queue = _with_sets(queue, sets)
    about = About(
        seed,
        tuple(claim.errors[k] * claim.unit for k in _main_first(claim, main)),
        claim.confidence,
        standing.delta,
        standing.proof,
        standing.since,
        loss=claim.loss.name,
    )
    found = Round(
        names,
        counts,
        held_back,
        queue.step,
        decisions.label,
        decisions.risk,
        standing.certified,
        np.zeros(n_items, dtype=bool),
    )
    expected = float(decisions.further_votes.sum())
    half = float(norm.ppf(0.5 + LEVEL / 2) * np.sqrt(decisions.variance.sum()))
    asked = int((queue.step == "ask").sum())
    first = shown["first_votes"]
    expected += first
    by_bound = {
        claim.errors[k] * claim.unit: int(decisions.accepted[voted, k].sum())
        for k in _main_first(claim, main)
    }
    by_error = forecast_shares(rules.table.fitted[0], claim, n_items)
    by_error[:, 0] *= claim.unit
    reached = np.where(voted[:, None], decisions.after, 0.0)
    by_votes = np.column_stack([decisions.bought.sum(axis=0), reached.mean(axis=0)])
    return Review(
        queue=queue,
        rule=rule,
        sets=sets,  # type: ignore[arg-type]
        certified=standing.certified,
        errors=about.errors,
        accepted=by_bound,
        sentences=_sentences(
            table,
            rules,
            claim,
            main,
            standing,
            disagreement,
            decide_from,
            int(decisions.divided.sum()),
        ),
        votes_to_come=(expected, max(expected - half, float(asked)), expected + half),
        record=record.added(about, found),
        stored=stored,
        counts=counts,
        by_error=by_error,
        by_votes=by_votes,
        model=table.source.model(),
    )


def _main_first(claim: Claim, main: int) -> list[int]:
    return [main, *(k for k in range(len(claim.errors)) if k != main)]


def _in_order_of(
    record: Record, table: Table, names: tuple[str, ...], classes: tuple[str, ...]
) -> tuple[Table, tuple[str, ...], tuple[str, ...]]:
    """Refuse another order of classes than that of the record, in which its votes are counted."""
    if record.classes != classes:
        raise ValueError(
            f"the record has the classes in the order {', '.join(record.classes)}, but here they "
            f"are {', '.join(classes)}. Put the columns into the order of the record."
        )
    return table, names, classes


def _held_back(counts: FloatArray, before: Round | None, seed: int) -> IntArray:
    """Return the vote of each item that is held back; the same as in earlier rounds."""
    found = hold_back_one(counts, np.random.default_rng([seed, 1]))
    if before is None:
        return found
    rows = np.flatnonzero(before.held_back >= 0)
    kept = rows[counts[rows, before.held_back[rows]] > 0]
    found[kept] = before.held_back[kept]
    return found


def _in_hand(counts: FloatArray, held_back: IntArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return votes without the one held back, and without another one."""
    hand = counts.copy()
    voted = np.flatnonzero(held_back >= 0)
    hand[voted, held_back[voted]] -= 1.0
    second = hold_back_one(hand, np.random.default_rng([seed, 2]))
    earlier = hand.copy()
    more = np.flatnonzero(second >= 0)
    earlier[more, second[more]] -= 1.0
    return hand, earlier


def _stand(
    table: Table,
    claim: Claim,
    main: int,
    record: Record,
    before: Round | None,
    known: BoolArray,
    accepted: BoolArray,
    decide_from: str,
    seed: int,
) -> Standing:
    """Find out what is proved about accepted labels."""
    n_items = len(table)
    nothing = np.zeros(n_items, dtype=bool)
    error = f"{claim.errors[main] * claim.unit:g}"
    number = len(record) + 1
    if decide_from == "all":
        sentence = "Not certified: labels are decided from all votes, which leaves none as a proof."
        return Standing("none", number, sentence, nothing, 0.0)
    since = 0
    if before is not None:
        last = record.about[-1]
        audit = _audit(table, claim, main, record, before, known, seed)
        if audit is not None:
            return audit
        more = (table.counts > before.counts).any(axis=1) & known
        bought = more & ((before.step == "ask") | before.audited)
        since = last.since
        if bought.any() and not since:
            since = len(record)
        if last.proof == "audit" and not more.any():
            kept = before.certified & known
            sentence = (
                f"The audit of round {len(record)} stands: no votes were added. "
                f"{plural(int(kept.sum()), 'label')} accepted, error at most {error}."
            )
            return Standing("audit", 0, sentence, kept, 0.0)
    if since:
        sentence = (
            f"Not certified since round {since}: votes were bought where it asked for them, so "
            "that their numbers depend on how they came out. An audit would certify: "
            "credalset plan --audit 200."
        )
        return Standing("none", since, sentence, nothing, 0.0)
    if not accepted.any():
        return Standing("votes", 0, "", nothing, claim.delta)
    what = "another annotator would give another label to at most a share"
    if claim.loss.name == "cost":
        what = "the mean cost for another annotator is at most"
    sentence = (
        f"Certified: with probability at least {claim.confidence:g}, {what} {error} of the "
        "accepted labels"
    )
    if claim.loss.name == "cost":
        sentence = (
            f"Certified: with probability at least {claim.confidence:g}, the mean cost of the "
            f"accepted labels, for another annotator, is at most {error}"
        )
    within = "" if table.groups is None else ", in each group by itself"
    sentence += (
        f"{within}. This is a mean over accepted items, and says nothing about one of them, or "
        "about the other steps."
    )
    return Standing("votes", 0, sentence, accepted, claim.delta)


def _audit(
    table: Table,
    claim: Claim,
    main: int,
    record: Record,
    before: Round,
    known: BoolArray,
    seed: int,
) -> Standing | None:
    """Evaluate an audit that was drawn after the last round, if its votes have come."""
    last = record.about[-1]
    rows = np.flatnonzero(before.audited & known)
    if not last.audit_size or not len(rows):
        return None
    generator = np.random.default_rng([seed, 3, len(record)])
    vote, _ = next_votes(before.counts[rows], table.counts[rows], generator)
    answered = int((vote >= 0).sum())
    if not answered:
        return None
    if answered < 0.9 * last.audit_size:
        warn(
            f"{answered} of {last.audit_size} items of the audit have got their vote. It is "
            "evaluated once nine of ten have; the others then count as errors."
        )
        return None
    risk = np.append(before.risk[rows], np.full(last.audit_size - len(rows), -np.inf))
    wrong = np.ones(last.audit_size)
    wrong[: len(rows)] = vote != before.label[rows]
    pool = np.flatnonzero((before.step == "accept") & known)
    grid = sequence(before.risk[pool], risk, claim.errors[main])
    threshold = audit_threshold(grid, risk, wrong, claim.errors[main], last.audit_delta)
    certified = np.zeros(len(table), dtype=bool)
    certified[pool[before.risk[pool] <= threshold]] = True
    error = f"{claim.errors[main] * claim.unit:g}"
    n_wrong = int(wrong[risk <= threshold].sum()) if np.isfinite(threshold) else int(wrong.sum())
    if not certified.any():
        sentence = (
            f"Not certified: {n_wrong} of {last.audit_size} votes of the audit are against the "
            f"label, too many to prove an error of {error}."
        )
        return Standing("none", last.since or len(record), sentence, certified, last.audit_delta)
    sentence = (
        f"Certified by audit: with probability at least {1 - last.audit_delta:g}, another "
        f"annotator would give another label to at most a share {error} of the "
        f"{plural(int(certified.sum()), 'label')} accepted in round {len(record)}. Labels that "
        "are accepted since are not certified; the next audit tests them."
    )
    return Standing("audit", 0, sentence, certified, last.audit_delta)


def _as_audited(decisions: Decisions, before: Round, certified: BoolArray) -> Decisions:
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


def _queue_of(
    table: Table,
    rules: Certified,
    decisions: Decisions,
    standing: Standing,
    claim: Claim,
    main: int,
) -> tuple[Queue, dict[str, Any]]:
    """Give each item its next step; items without a vote are asked first."""
    voted = table.counts.any(axis=1)
    accept = decisions.accepted[:, main] & voted
    predicted = np.empty(len(table), dtype=np.int64)
    for number, fit in enumerate(rules.table.fits):
        rows = np.flatnonzero(rules.table.rule == number)
        predicted[rows] = fit.given[rows].argmax(axis=1)
    limit = rules.thresholds[rules.table.rule, table.codes, main]
    unproved = ~np.isfinite(limit) & (decisions.risk <= claim.errors[main]) & voted & ~accept
    remarks = np.where(unproved, "Nothing can be certified at this error with these items.", "")
    further = decisions.further_votes.copy()
    further[~voted] = np.maximum(further[~voted], 1.0)
    found = Findings(
        accept=accept,
        ask=decisions.ask | ~voted,
        divided=decisions.divided,
        label=decisions.label,
        predicted=predicted,
        names=tuple(map(str, table.classes)),
        votes=table.counts,
        risk=decisions.risk * claim.unit,
        further_votes=further,
        remarks=remarks.astype(object),
    )
    step, why = next_steps(found)
    queue = Queue(
        step,
        why,
        decisions.label,
        np.zeros(table.counts.shape, dtype=bool),
        None,  # type: ignore[arg-type]
        tuple(map(str, table.classes)),
        table.items,
        votes=table.counts.sum(axis=1).astype(np.int64),
        risk=found.risk,
        further_votes=np.where(step == "ask", further, 0.0),
        model_errors=found.model_errors if table.source.given else None,
        certified=standing.sentence,
        words=words_of(claim.errors[main] * claim.unit),
    )
    more = further[~voted].sum() - decisions.further_votes[~voted].sum()
    return queue, {"first_votes": float(more)}


def words_of(error: float) -> dict[str, str]:
    """Say what leads to each step of a review."""
    return {
        "accept": f"the risk is below the threshold for a mean error of {error:g}",
        "ask": f"up to {AHEAD} further votes are likely enough to lead to acceptance, for each "
        "vote that they take; or there is no vote yet",
        "divided": "people are expected to disagree, and no vote is worth its price",
        "expert": "everything else",
    }


def _with_sets(queue: Queue, sets: CredalSet | None) -> Queue:
    if sets is None:
        return queue
    return replace(queue, possible=sets.decide(), entropies=sets.entropy_bounds("K"))


def _for_new_items(
    table: Table,
    rules: Certified,
    claim: Claim,
    main: int,
    disagreement: float,
    hand: FloatArray,
    *,
    with_sets: bool,
    seed: int,
) -> tuple[StoredRule, AcceptRule, CredalSet | None]:
    """Return the first rule, for new items from the same source, and sets of all items by it."""
    fit = rules.table.fits[0]
    learned = rules.table.learned_from[0]
    classes = table.classes if table.classes != tuple(range(len(table.classes))) else None
    named = table.items != tuple(range(len(table)))
    items = tuple(table.items[row] for row in learned.tolist()) if named else None
    crowd = copy(fit.crowd)
    crowd.classes_ = classes
    crowd.items_ = items
    cases = rules.table.cases[0]
    others = np.setdiff1d(np.arange(len(table)), learned)
    number = table.counts[others].sum(axis=1)
    sizes, shares = [], []
    for code, row in enumerate(rules.thresholds[0]):
        inside = np.flatnonzero(table.codes[others] == code)
        part = cases.take(inside)
        sizes.append(len(inside))
        shares.append([part.accepted(each).sum() / max(len(inside), 1) for each in row])
    half = replace(claim, confidence=1.0 - claim.delta / 2.0)
    fitted = rules.table.fitted[0]
    rule = AcceptRule(
        crowd,
        claim.loss.name,
        getattr(claim.loss, "costs", None),
        claim.unit,
        claim.errors,
        claim.confidence,
        None,
        rules.thresholds[0],
        np.array(shares),
        np.array(sizes),
        (int(number[number > 0].min(initial=10**6)), int(number.max(initial=0))),
        forecast_shares(fitted, half, len(others)),
        tuple(enough_items(fitted, half, error) for error in claim.errors),
        len(table.classes),
        table.groups,
        classes,
        tuple(table.items[row] for row in others.tolist()) if named else None,
        table.units is not None,
    )
    calibration, sets = None, None
    if with_sets:
        calibration = _calibrated(crowd, fit.given, table.counts, hand, others, seed)
        with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
            sets = calibration.predict_set(fit.given, ALPHA, votes=hand)
        sets = replace(sets, classes=classes, items=table.items if named else None)
    shares_of = fit.given[0] if isinstance(table.source, ClassShares) else None
    stored = StoredRule(rule, main, disagreement, float(rules.divided[0]), calibration, shares_of)
    return stored, rule, sets


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
    numbers = np.unique(hand.sum(axis=1)).astype(np.int64)
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


def _sentences(
    table: Table,
    rules: Certified,
    claim: Claim,
    main: int,
    standing: Standing,
    disagreement: float,
    decide_from: str,
    n_claimed: int,
) -> tuple[str, ...]:
    """Say what is certified and what is not, what is assumed, and what would do."""
    found = [standing.sentence] if standing.sentence else []
    limits = rules.thresholds[:, :, main]
    if not np.isfinite(limits).all() and standing.proof == "votes":
        found.append(_what_would_do(table, rules, claim, main))
    if standing.proof == "votes" and decide_from == "certified":
        found.append(
            "Each label is decided without one of its votes, which was drawn once and held back "
            "as the proof; the certificate is for decisions from one vote fewer than an item has."
        )
    share = f"at least {disagreement:g}"
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


def _what_would_do(table: Table, rules: Certified, claim: Claim, main: int) -> str:
    """Say for how many items nothing can be certified, and what would do: a forecast."""
    limit = rules.thresholds[rules.table.rule, table.codes, main]
    without = int((~np.isfinite(limit)).sum())
    code, number = 0, int(np.argmin(np.isfinite(rules.thresholds[:, :, main]).all(axis=1)))
    code = int(np.argmin(np.isfinite(rules.thresholds[number, :, main])))
    half = replace(claim, errors=(claim.errors[main],), confidence=1.0 - claim.delta / 2.0)
    fitted = rules.table.fitted[number]
    others = np.setdiff1d(np.arange(len(table)), rules.table.learned_from[number])
    size = int((table.codes[others] == code).sum())
    needed = [enough_items(fitted, half, half.errors[0])]
    sentence = too_few(half, rules.thresholds[number, code, [main]], needed, fitted, size)
    group = "" if table.groups is None else f" in the group {table.groups[code]!r}"
    which = "" if without == len(table) else f"For {without:,} of {len(table):,} items "
    sentence = sentence if which else sentence[:1].upper() + sentence[1:]
    return f"{which}{sentence}{group}."
