"""Review a table: where all items stand, and what is proved about those that are accepted.

A review goes through the modules of this folder in this order: `table` reads, `rules` certifies and
decides, `standing` says what is proved, `steps` gives each item its next step, `sentences` says it
in words, `new_items` makes the rule for new items, `record` keeps the round, `folder` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from credalset._display import Rows, plural
from credalset._html import Embedded, html_strip, html_table
from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset._validation import as_positive_int, as_probability, check_choice
from credalset.acceptance.rule import AcceptRule, Claim, forecast_shares
from credalset.acting.deciding import AHEAD, Decisions
from credalset.acting.evidence import AtError, Evidence, collect_evidence
from credalset.acting.folder import check_folder, make_page, write_review
from credalset.acting.new_items import ALPHA, rule_for_new_items
from credalset.acting.record import About, Record, Round, aligned
from credalset.acting.rules import (
    Certified,
    certify_table,
    decide_table,
    hold_back_as_before,
    votes_in_hand,
)
from credalset.acting.sentences import find_sentences
from credalset.acting.standing import Standing, as_audited, find_standing
from credalset.acting.steps import Findings, next_steps
from credalset.acting.stored import StoredRule
from credalset.acting.table import Table, Terms, read_judges, read_table
from credalset.evaluation.views import RangeStrip
from credalset.exceptions import need
from credalset.sets import CredalSet, Queue

LEVEL = 0.9  # of the interval of votes to come


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
    at_errors: tuple[AtError, ...]
    evidence: Evidence
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
        # An audit is about the first error alone.
        by_audit = self.record.about[-1].proof == "audit"
        claimed = self.errors[:1] if by_audit else self.errors
        proved = {round(error, 9) for error in claimed} if self.certified.any() else set()
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
        curve = self.at_errors[0].by_votes.tolist()
        return Rows([{"votes": votes, "accepted": share} for votes, share in curve])

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

    def show(self, height: int = 800, **page: Any) -> Embedded:
        """Return the page for a notebook, which shows it in a frame.

        Parameters
        ----------
        height : int
            Height of the frame in pixels.
        **page
            ``texts``, ``images``, ``groups`` and ``title``, as in `report`.

        Returns
        -------
        Embedded
            An object that notebooks show; no server and no extension is needed.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=4, random_state=0)
        >>> cs.review(data.distributions, data.counts, error=0.2).show().height
        800
        """
        height = as_positive_int(height, "height")
        return Embedded(self.report(None, **page).html, height)

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

    def _repr_html_(self) -> str:
        """Return the numbers of items per step, the range of each label, and the first items."""
        counts = self.queue.counts()
        means = self.queue.describe()
        steps = [[step, f"{count:,}", means[step]] for step, count in counts.items()]
        strip = RangeStrip.of(self.sets, None, self.queue.label)
        order = strip.order
        words = "Range of the share of each item's label, sorted by its lower end"
        return "\n".join(
            [
                html_table(self.sentences[0], ["step", "items", "means"], steps, left=3),
                html_strip(strip.lower[order], strip.upper[order], strip.predicted[order], words),
                self.queue._repr_html_(),
            ]
        )

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
    judges: Any = None,
    kinds: Any = None,
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
    judges : array, dict or data frame, optional
        Answers of judges in place of predictions, in any form that `JudgePool.fit` takes. They are
        pooled as the votes of other items teach.
    kinds : sequence of N keys, data frame or dict of sequences, optional
        Kinds of the items, for the pool.
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
    if kinds is not None and judges is None:
        raise ValueError("kinds are for a pool of judges: pass judges, or leave kinds out.")
    if judges is None:
        table, batch = read_table(predictions, votes, texts, groups, clusters, seed)
    elif predictions is None and texts is None:
        table, batch = read_judges(judges, votes, kinds, groups, clusters, seed)
    else:
        raise ValueError("judges are pooled to predictions: leave out predictions and texts.")
    wanted = tuple(error) if isinstance(error, tuple | list) else (error,)
    claim = Claim.read("annotator" if costs is None else costs, wanted, confidence, batch)
    main = claim.errors.index(float(wanted[0]) / claim.unit)
    record = previous if isinstance(previous, Record) else None
    if previous is not None and record is None:
        record = Record.read(previous)
    return review_table(
        table,
        Terms(claim, main, disagreement, decide_from, seed),
        record=record,
        total_rounds=total_rounds,
    )


def review_table(
    table: Table,
    terms: Terms,
    *,
    record: Record | None = None,
    total_rounds: int | None = None,
    with_sets: bool = True,
) -> Review:
    """Review a table that was read; see `review`."""
    names = tuple(map(str, table.items))
    record = _continued(record, tuple(map(str, table.classes)), total_rounds)
    # All rounds share the probability of failing, if their number was given.
    share = terms.claim.delta / (record.total_rounds or 1)
    terms = replace(terms, claim=replace(terms.claim, confidence=1.0 - share))
    before = None
    known = np.zeros(len(table), dtype=bool)
    if record.last is not None:
        before, known = aligned(record.last, names, len(table.classes))
    held_back = hold_back_as_before(table.counts, before, terms.seed)
    rules = certify_table(table, terms)
    hand, earlier = votes_in_hand(table.counts, held_back, terms)
    decisions = decide_table(table, rules, terms, hand, earlier)
    accepted = decisions.accepted[:, terms.main] & table.voted
    standing = find_standing(table, terms, record, before, known, accepted)
    if standing.proof == "audit":
        assert before is not None
        decisions = as_audited(decisions, before, standing.certified)
    stored, rule, sets, inputs = rule_for_new_items(
        table, rules, terms, hand, proved=standing.proof == "votes", with_sets=with_sets
    )
    at_errors = [_at_error(table, rules, decisions, standing, terms, held_back, sets)]
    if standing.proof == "votes":
        # An audit is about one error; votes left out in turn are about all that were tested.
        for column in terms.columns[1:]:
            other = replace(terms, main=column)
            again = decide_table(table, rules, other, hand, earlier)
            mine = replace(standing, certified=again.accepted[:, column] & table.voted)
            at_errors.append(_at_error(table, rules, again, mine, other, held_back, sets))
    queue = at_errors[0].queue
    evidence = None
    if inputs is not None and stored.calibration is not None:
        evidence = collect_evidence(
            table, rules, terms, standing, stored.calibration, inputs, ALPHA
        )
    about = About(
        terms.seed,
        tuple(terms.claim.errors[column] * terms.claim.unit for column in terms.columns),
        terms.claim.confidence,
        standing.delta,
        standing.proof,
        standing.since,
        loss=terms.claim.loss.name,
    )
    found = Round(
        names,
        table.counts,
        standing.owed,
        held_back,
        queue.step,
        decisions.label,
        decisions.risk,
        standing.certified,
        np.zeros(len(table), dtype=bool),
    )
    n_accepted = decisions.accepted[table.voted].sum(axis=0)
    first = rules.table.claim_of(0, terms.claim)
    by_error = forecast_shares(rules.table.fitted[0], first, rules.table.cases[0].n_items)
    by_error[:, 0] *= terms.claim.unit
    n_claimed = int(decisions.divided.sum())
    return Review(
        queue=queue,
        rule=rule,
        sets=sets,  # type: ignore[arg-type]
        certified=standing.certified,
        errors=about.errors,
        accepted=dict(zip(about.errors, n_accepted[terms.columns].tolist(), strict=True)),
        sentences=find_sentences(table, rules, terms, standing, n_claimed),
        votes_to_come=at_errors[0].votes_to_come,
        record=record.added(about, found),
        stored=stored,
        counts=table.counts,
        by_error=by_error,
        at_errors=tuple(at_errors),
        evidence=evidence,  # type: ignore[arg-type]
        model=table.source.model(),
    )


def _continued(record: Record | None, classes: tuple[str, ...], total_rounds: int | None) -> Record:
    """Return the record that the review continues, or an empty one."""
    if record is None:
        return Record(classes, total_rounds=total_rounds)
    if set(record.classes) != set(classes):
        raise ValueError(
            f"the record has the classes {', '.join(record.classes)}, but votes have "
            f"{', '.join(classes)}. Review another table in a folder of its own."
        )
    if record.classes != classes:
        # Its votes are counted in this order.
        raise ValueError(
            f"the record has the classes in the order {', '.join(record.classes)}, but here they "
            f"are {', '.join(classes)}. Put the columns into the order of the record."
        )
    total = record.total_rounds
    if total is not None and len(record) >= total:
        raise ValueError(
            f"the probability of failing was divided over {total} rounds, which are over. Start "
            "another record."
        )
    return record


def _votes_to_come(table: Table, decisions: Decisions, queue: Queue) -> tuple[float, float, float]:
    """Return the expected further votes, and an interval; at least one where it is asked.

    Items without a vote get their first one, which is no matter of chance.
    """
    wanted = decisions.further_votes
    expected = float(_at_least_one(wanted, ~table.voted).sum())
    half = float(norm.ppf(0.5 + LEVEL / 2) * np.sqrt(decisions.variance.sum()))
    fewest = float((queue.step == "ask").sum())
    return expected, max(expected - half, fewest), expected + half


def _at_least_one(further: FloatArray, rows: BoolArray) -> FloatArray:
    """Return numbers of further votes, at least one in some rows."""
    return np.where(rows, np.maximum(further, 1.0), further)


def _at_error(
    table: Table,
    rules: Certified,
    decisions: Decisions,
    standing: Standing,
    terms: Terms,
    held_back: IntArray,
    sets: CredalSet | None,
) -> AtError:
    """Return the queue for one error, and the share accepted by votes that are bought."""
    queue = _queue_of(table, rules, decisions, standing, terms, held_back, sets)
    reached, reached_evenly = (
        np.where(table.voted[:, None], after, 0.0).mean(axis=0)
        for after in (decisions.after, decisions.after_each)
    )
    return AtError(
        terms.shown_error,
        queue,
        standing.certified,
        _votes_to_come(table, decisions, queue),
        np.column_stack([decisions.bought.sum(axis=0), reached]),
        np.column_stack([np.arange(AHEAD + 1.0) * len(table), reached_evenly]),
    )


def _remarks(
    table: Table,
    rules: Certified,
    decisions: Decisions,
    standing: Standing,
    terms: Terms,
    held_back: IntArray,
) -> AnyArray:
    """Say what the votes do not: that nothing is proved, or why a label is not that of most."""
    limit = rules.thresholds[rules.table.rule, table.codes, terms.main]
    would = table.voted & (decisions.risk <= terms.error)
    unproved = would & ~np.isfinite(limit) & ~decisions.accepted[:, terms.main]
    found = np.where(unproved, "Nothing can be certified at this error with these items.", "")
    found = found.astype(object)
    if terms.decide_from == "certified":
        own = table.counts[np.arange(len(table)), decisions.label]
        kept = standing.certified if standing.proof == "audit" else np.zeros(len(table), dtype=bool)
        for row in np.flatnonzero((own < table.counts.max(axis=1)) & ~kept):
            label, proof = (table.classes[k] for k in (decisions.label[row], held_back[row]))
            found[row] += (
                f" The label is {label} without a vote for {proof}, held back as the proof."
            )
    return np.array([each.strip() for each in found], dtype=object)


def _queue_of(
    table: Table,
    rules: Certified,
    decisions: Decisions,
    standing: Standing,
    terms: Terms,
    held_back: IntArray,
    sets: CredalSet | None,
) -> Queue:
    """Give each item its next step; items without a vote are asked first."""
    accept = decisions.accepted[:, terms.main] & table.voted
    names = tuple(map(str, table.classes))
    further = _at_least_one(decisions.further_votes, ~table.voted)
    found = Findings(
        accept=accept,
        ask=decisions.ask | ~table.voted,
        divided=decisions.divided,
        label=decisions.label,
        predicted=rules.table.predicted(),
        names=names,
        votes=table.counts,
        risk=decisions.risk * terms.claim.unit,
        further_votes=further,
        remarks=_remarks(table, rules, decisions, standing, terms, held_back),
    )
    step, why = next_steps(found)
    queue = Queue(
        step,
        why,
        decisions.label,
        np.zeros(table.counts.shape, dtype=bool),
        None,  # type: ignore[arg-type]
        names,
        table.items,
        votes=table.counts.sum(axis=1).astype(np.int64),
        risk=found.risk,
        further_votes=np.where(step == "ask", further, 0.0),
        model_errors=found.model_errors if table.source.given else None,
        certified=standing.sentence,
        words=words_of(terms.shown_error),
    )
    if sets is None:
        return queue
    return replace(queue, possible=sets.decide(), entropies=sets.entropy_bounds("K"))


def words_of(error: float) -> dict[str, str]:
    """Say what leads to each step of a review."""
    return {
        "accept": f"the risk is below the threshold for a mean error of {error:g}",
        "ask": f"up to {AHEAD} further votes are likely enough to lead to acceptance, for each "
        "vote that they take; or there is no vote yet",
        "divided": "people are expected to disagree, and no vote is worth its price",
        "expert": "everything else",
    }
