"""`report`: read the items, predict each level once, measure, and write the page."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._batch import Batch, Labels
from credalset._files import write_file
from credalset._typing import ArrayLike, FloatArray, IntArray
from credalset._validation import as_generator, as_probability
from credalset.acting.asking import asked_again
from credalset.calibration.base import Calibration, Inputs, as_level
from credalset.calibration.levels import exact_level
from credalset.evaluation.slices import Slice, WorstSlice, find_worst
from credalset.evaluation.table import assess
from credalset.evaluation.tested import AtLevel, TestedItems, read_inputs
from credalset.evaluation.verdict import Verdict
from credalset.evaluation.views import (
    NUMBERS,
    Drift,
    RangeStrip,
    ShareCalibration,
    VotesComingIn,
)
from credalset.exceptions import CredalSetWarning, warn
from credalset.reporting import figures, model
from credalset.reporting.columns import script_data
from credalset.reporting.items import About, Items, choose_shown, name_batch, read_items
from credalset.reporting.model import Levels, Outcome, PageModel, Ribbons, Standing
from credalset.reporting.page import facts_of, provenance, render
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.outline import outlines
from credalset.votes import refuse_shared

MAX_BYTES, MAX_ITEMS = 2_000_000, 5000  # of a page
LEVELS = (0.05, 0.1, 0.2)  # of the table of sizes
SLIDER = tuple(round(0.01 * i, 2) for i in range(1, 51))  # levels of the slider and the curve
FEWEST_FOR_LEVELS = 10  # items; below, a curve only shows chance
FEWEST_FOR_SEARCH = 60  # items; below, there is no slice to find
FEWEST_FOR_SHARES = 40  # items; below, their calibration only shows chance
MOST_RIBBONS = 300  # items whose sets are drawn as their votes come in
OUTLINE_TOLERANCE = 3e-3  # in sides of the triangle: at most a pixel


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """HTML page about credal sets, and the results that it shows; returned by `report`.

    The page needs no network and no other file. It shows at most 5 000 items and has at most 2 MB.
    If there are more items, it shows a sample and states this; the verdict and all counts still
    refer to all items.

    Attributes
    ----------
    html : str
        The page.
    path : Path or None
        File to which the page was written.
    verdict : Verdict
        Whether the sets are valid and informative.
    slices : list of Slice
        Coverage by feature, among the items with votes. Slices of fewer than 20 items are left out.
    worst : WorstSlice or None
        The slice whose coverage is least compatible with that of all items.
    queue : Queue
        Next step of each item; ``queue.to_frame()`` returns all of them as a table.
    sizes : list of dict
        Coverage and sizes by score and level, as in the rows of `credalset.evaluate`.
    shown : ndarray of int
        Row numbers of the items that the page shows, in the order of the queue.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(1000, n_votes=50, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:500], data.counts[:500], "tv")
    >>> report = cs.report(calibration, data.distributions[500:], data.counts[500:], path=None)
    >>> report.verdict.status, report.verdict.informative, report.verdict.observed.n
    ('valid', True, 500)
    """

    html: str
    path: Path | None
    verdict: Verdict
    slices: list[Slice]
    worst: WorstSlice | None
    queue: Queue
    sizes: list[dict[str, Any]]
    shown: IntArray

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or Path
            File to write to.
        """
        write_file(Path(path), self.html.encode())

    def __repr__(self) -> str:
        size = f"{len(self.html.encode()) / 1000:.0f} kB"
        where = "not written" if self.path is None else str(self.path)
        return f"Report: {where}, {size}. {self.verdict.sentence}"


def report(
    source: Any,
    predictions: Any = None,
    votes: Any = None,
    path: str | Path | None = "report.html",
    *,
    alpha: float | None = None,
    votes_in_hand: Any = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
    items: Sequence[Any] | None = None,
    texts: Sequence[Any] | None = None,
    images: Sequence[Any] | None = None,
    slices: Mapping[str, Any] | None = None,
    classes: Sequence[Any] | None = None,
    rules: QueueRules | None = None,
    compare: Sequence[dict[str, Any]] = (),
    title: str = "Credal set report",
    _command: str = "cs.report",
) -> Report:
    """Write an HTML page about items: what to do with each, why, and how sure that is.

    With held-out votes it also shows whether the sets are valid, where model and people differ
    most, and where coverage is low.

    Parameters
    ----------
    source : Calibration, ConformalCredalClassifier or CredalSet
        The calibration or classifier that predicts the sets, or the sets themselves. The page of a
        `CredalSet` has no curve of coverage over levels.
    predictions : array or data frame of shape (N, K), optional
        Predictions for the items, or features for a classifier, as in ``source.predict_set``. Omit
        it if ``source`` is a `CredalSet`.
    votes : array or data frame of shape (N, K), or Annotations, optional
        Held-out counts or label distributions of the items. Rows of zeros or NaN are items without
        votes.
    path : str, Path or None
        File to write to. If None, the page is only returned.
    alpha : float, optional
        Miscoverage rate, by default 0.1. For a `CredalSet`, the rate at which it was predicted, if
        it is known.
    votes_in_hand : array of shape (N, K) or Annotations, optional
        Votes in hand of the items, for a `CrowdCalibration`. The argument ``votes`` then holds the
        other votes.
    groups : sequence of N keys, or array of shape (N, d), optional
        Groups of the items, as in ``source.predict_set``. The page shows the coverage of each
        group, also if the calibration has no groups.
    weights : array of shape (N,), optional
        Likelihood ratios of the items, if the calibration is weighted.
    items : sequence of N names, optional
        Names of the items, by which votes are matched.
    texts : sequence of N str, optional
        Texts to show with the items.
    images : sequence of N str, optional
        Links to show with the items, or images as ``data:`` links.
    slices : mapping from names to N values, optional
        Further features, texts or numbers, by which coverage is shown.
    classes : sequence of K names, optional
        Names of the classes, if neither the calibration nor the votes have them.
    rules : QueueRules, optional
        Thresholds of the review queue.
    compare : rows of `credalset.evaluate`, optional
        Coverage and sizes of other scores, shown in the same table as those of ``source``.
    title : str
        Heading of the page.

    Returns
    -------
    Report
        The page and the results that it shows.
    """
    # The page says what these warnings would.
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        refuse_shared(votes, votes_in_hand, "votes")
        found = _read_source(source, predictions, alpha, groups, weights, votes_in_hand)
        batch = name_batch(found.batch, items, classes)
        known = read_items(
            found.sets,
            batch,
            votes,
            votes_in_hand,
            About(texts, images, groups, slices, rules),
            asked=asked_again(found.calibration, found.inputs),
            predicted=found.predicted,
        )
        page = _model_of(source, found, known, compare, title, _command)
    if page.verdict.used:
        warn(f"{page.verdict.headline}. Coverage on them says nothing about new items.")
    return _write(page, path)


@dataclass(frozen=True, eq=False)
class Reviewed:
    """What the page of a review knows beside its sets.

    Attributes
    ----------
    standings : list of Standing
        Where all items stand, for each error that the rule was tested for, the main one first.
    counts : ndarray of shape (N, K)
        All votes.
    held_back : ndarray of shape (N,)
        Class of the vote of each item that is held back as the proof; −1 without votes.
    prediction : ndarray of shape (N, K)
        What is predicted without votes.
    p_values : ndarray of shape (N,)
        How well the votes agree with the label that is predicted.
    calibration : CrowdCalibration
        What predicts sets.
    inputs : Inputs
        What they are predicted from.
    assumption : CrowdCheck or None
        Test of the model of the crowd.
    checks : list of Check
        The checklist.
    sentences : tuple of str
        What is certified and what is not, in full.
    remarks : sequence of str
        What else is to be known at first, such as where further items are.
    scale : tuple or None
        Position of each class on an ordinal scale.
    commands : list of tuples
        What to type next: words and command.
    """

    sets: CredalSet
    alpha: float
    standings: list[Standing]
    counts: FloatArray
    held_back: IntArray
    prediction: FloatArray
    p_values: FloatArray
    calibration: Any
    inputs: Inputs
    assumption: Any
    checks: list[model.Check]
    sentences: tuple[str, ...]
    remarks: Sequence[str]
    scale: tuple[float, ...] | None
    commands: list[tuple[str, str]]


def write_reviewed(
    found: Reviewed, path: str | Path | None, about: About, title: str = "Review"
) -> Report:
    """Write the page of a review."""
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        known = read_items(
            found.sets,
            found.sets._batch,
            None,
            found.counts,
            about,
            queue=found.standings[0].queue,
            predicted=found.prediction,
            scale=found.scale,
        )
        page = _model_of_review(found, known, title)
    return _write(page, path)


@dataclass(frozen=True, eq=False)
class PageSource:
    """The sets of the page, and the calibration and inputs that can predict them at other levels.

    The calibration and inputs are None if the sets were passed as they are.
    """

    sets: CredalSet
    alpha: float | None
    batch: Batch
    calibration: Calibration | None = None
    inputs: Inputs | None = None

    @property
    def predicted(self) -> FloatArray | None:
        """What the model predicts without votes in hand; None if the sets are centred at it."""
        if self.inputs is None or self.inputs.in_hand is None:
            return None
        return np.asarray(self.inputs.batch.values)

    def test(self, source: Any, labels: Labels) -> TestedItems:
        """Return the items with votes."""
        if self.inputs is None:
            return TestedItems.of_sets(self.sets, labels)
        return TestedItems.of(source, replace(self.inputs, batch=self.batch), labels)

    def levels(self, among: Sequence[float]) -> list[float]:
        """Return those of some levels, and that of the page, which the calibration serves."""
        if self.calibration is None or self.alpha is None:
            return []
        wanted = sorted({*among, self.alpha})
        return [level for level in wanted if self.calibration._serves(exact_level(level))]


def _read_source(
    source: Any,
    predictions: Any,
    alpha: float | None,
    groups: Any,
    weights: Any,
    votes_in_hand: Any,
) -> PageSource:
    """Read what the sets are predicted from, and predict those of the page."""
    level = None if alpha is None else as_probability(alpha, "alpha")
    if isinstance(source, CredalSet):
        if predictions is not None:
            raise ValueError(
                "predictions was given, but sets have predictions of their own. Pass votes by name."
            )
        return PageSource(source, level, source._batch)
    if predictions is None:
        raise ValueError("predictions is missing: pass those for the items of the page.")
    inputs = read_inputs(source, predictions, groups, weights, votes_in_hand)
    calibration = source.calibration
    level = 0.1 if level is None else level
    sets = calibration._predict(inputs, as_level(level))
    return PageSource(sets, level, inputs.batch, calibration, inputs)


def _model_of(
    source: Any,
    found: PageSource,
    items: Items,
    compare: Sequence[dict[str, Any]],
    title: str,
    command: str,
) -> PageModel:
    """Measure coverage and sizes, each level once, and collect what the page shows."""
    tested = found.test(source, items.votes)
    alpha = found.alpha
    own = tested.compare(found.sets, alpha)
    at: dict[float | None, AtLevel] = {alpha: own}
    at |= {level: tested.predict(level) for level in found.levels(LEVELS) if level != alpha}
    assessed = {level: assess(at[level], tested) for level in sorted(at, key=lambda a: a or 0.0)}
    verdict = assessed[alpha][1]
    sizes = [row for row, _ in assessed.values()]
    hit = np.full(len(items), 2)
    hit[tested.rows] = own.covered
    target = None if alpha is None else 1.0 - alpha
    outcome = Outcome("covered", "covered", "not covered", hit, target)
    levels = _levels(found, tested, at)
    features = model.by_feature(items, outcome) if len(tested.rows) else []
    worst = None
    if len(tested.rows) >= FEWEST_FOR_SEARCH:
        columns = {name: values[tested.rows] for name, values in items.features.items()}
        worst = find_worst(own.covered, columns)
    wrong = None
    if levels is not None and levels.p_values is not None:
        words = "conformal p-value of the held-out votes"
        wrong = model.wrong_by_p_value(items, tested.rows, levels.p_values, tested.scores, words)
    drift = _drift(found.calibration, items)
    standing = Standing(items.queue)
    statements = model.set_statements(verdict, tested.assumption)
    return PageModel(
        title=title,
        items=items,
        standings=[standing],
        statements=statements,
        tone=model.tone_of(standing, statements),
        checks=model.checks_of(found.calibration, verdict, drift, tested.assumption),
        sentences=(),
        outcome=outcome,
        verdict=verdict,
        strip=_strip(items, outcome, items.votes if items.votes.has_votes.any() else items.hand),
        features=features,
        slices=model.slices_of(features, outcome),
        worst=worst,
        levels=levels,
        wrong=wrong,
        ribbons=_ribbons(found.calibration, found.inputs, items, outcome, wrong, alpha),
        shares=_shares(items.sets.center, items.votes),
        agreement=model.agreement_of(items),
        drift=drift,
        sizes=[*sizes, *compare],
        commands=[],
        remarks=model.remarks_of(items, is_review=False),
        made=provenance(found.calibration, items, command),
        alpha=alpha,
    )


def _model_of_review(found: Reviewed, items: Items, title: str) -> PageModel:
    """Collect what the page of a review shows; nothing is held out but one vote of each item."""
    tested = TestedItems.of_sets(found.sets, items.votes)
    row, sizes = assess(tested.compare(found.sets, found.alpha), tested)
    verdict = replace(sizes, alpha=found.alpha)
    first = found.standings[0]
    accepted = (first.queue.step == "accept") & (found.held_back >= 0)
    agrees = found.held_back == first.queue.label
    target = None if first.error is None or first.is_cost else 1.0 - first.error
    outcome = Outcome(
        "agreement of the held-back vote",
        "held-back vote agrees",
        "held-back vote disagrees",
        np.where(accepted, agrees, 2),
        target if first.n_certified else None,
    )
    features = model.by_feature(items, outcome) if accepted.any() else []
    rows = np.flatnonzero(found.p_values < 1.0)
    words = "probability of so few votes for the label of the model, by the model of the crowd"
    scores = items.known.votes("votes", "review").max(axis=1)
    wrong = model.wrong_by_p_value(items, rows, found.p_values[rows], scores[rows], words)
    statements = model.set_statements(verdict, found.assumption)
    return PageModel(
        title=title,
        items=items,
        standings=found.standings,
        statements=statements,
        tone=model.tone_of(first, statements),
        checks=found.checks,
        sentences=found.sentences,
        outcome=outcome,
        verdict=verdict,
        strip=_strip(items, outcome, items.hand),
        features=features,
        slices=model.slices_of(features, outcome),
        worst=None,
        levels=None,
        wrong=wrong,
        ribbons=_ribbons(found.calibration, found.inputs, items, outcome, wrong, found.alpha),
        shares=_shares(items.predicted, items.known),
        agreement=model.agreement_of(items),
        drift=None,
        sizes=[row | {"alpha": found.alpha}],
        commands=found.commands,
        remarks=[*found.remarks, *model.remarks_of(items, is_review=True)],
        made=provenance(found.calibration, items, ""),
        alpha=found.alpha,
    )


def _strip(items: Items, outcome: Outcome, labels: Labels | None) -> RangeStrip:
    """Return the ranges of the labels that items would get."""
    label = items.queue.label
    if items.queue.possible.shape[1] != items.sets.n_classes:
        label = items.sets.center.argmax(axis=1)  # the choices are actions
    return RangeStrip.of(items.sets, labels, label, items.predicted, outcome.hit != 0)


def _levels(
    found: PageSource, tested: TestedItems, at: Mapping[float | None, AtLevel]
) -> Levels | None:
    """Return coverage at each level of the slider, for which thresholds are enough."""
    if found.inputs is None or len(tested.rows) < FEWEST_FOR_LEVELS:
        return None
    assert found.calibration is not None
    verdicts = []
    covered = []
    for level in found.levels(SLIDER):
        if level in at:
            hits = at[level].covered
        else:
            thresholds = found.calibration._thresholds(found.inputs, as_level(level))
            hits = tested.scores <= thresholds[tested.rows]
        covered.append(hits)
        verdicts.append(tested.judge(hits, level, tested.rows))
    everything = np.full(len(found.inputs), np.inf)
    everything[tested.rows] = tested.scores
    p_values = found.calibration._p_of_scores(found.inputs, everything)
    return Levels(
        verdicts,
        np.array(covered),
        tested.rows,
        None if p_values is None else p_values[tested.rows],
    )


def _drift(calibration: Any, items: Items) -> Drift | None:
    """Compare predictions with those that the crowd was fitted to, if it keeps them."""
    seen = getattr(getattr(calibration, "crowd", None), "seen_", None)
    if seen is None or not len(items):
        return None
    return Drift.of(seen.prediction, items.predicted)


def _shares(predicted: FloatArray, labels: Labels) -> ShareCalibration | None:
    """Compare predicted shares with those of votes that the predictions have not seen."""
    there = labels.has_votes
    if there.sum() < FEWEST_FOR_SHARES:
        return None
    return ShareCalibration.of(predicted[there], labels.distributions[there])


def _ribbons(
    calibration: Any,
    inputs: Inputs | None,
    items: Items,
    outcome: Outcome,
    wrong: model.Wrong | None,
    alpha: float | None,
) -> Ribbons | None:
    """Predict the sets of the items that matter most as their votes come in."""
    if inputs is None or inputs.in_hand is None or alpha is None:
        return None
    rows = _that_matter(items, outcome, wrong)
    if not len(rows):
        return None
    orders = []
    n_in_hand = []
    for row in rows:
        generator = as_generator(row)
        order = []
        for labels in (items.hand, items.votes):
            if labels is not None and labels.counts is not None and labels.has_votes[row]:
                votes = labels.counts[row].astype(np.int64)
                order.append(generator.permutation(np.repeat(np.arange(len(votes)), votes)))
        n_in_hand.append(len(order[0]) if order and items.hand is not None else 0)
        joined = np.concatenate([*order, np.empty(0, dtype=np.int64)])
        orders.append(joined[: max(NUMBERS)])
    numbers: tuple[int, ...] = NUMBERS
    if calibration.policy is None:
        numbers = tuple(number for number in NUMBERS if number in calibration.in_hand)
    if len(numbers) < 2:
        return None

    def predict(item: IntArray, hand: FloatArray) -> CredalSet:
        some = calibration._given(inputs, np.array(rows)[item], hand)
        sets: CredalSet = calibration._predict(some, as_level(alpha))
        return sets

    found = VotesComingIn.of(predict, orders, items.sets.n_classes, numbers)
    return Ribbons(rows, found, n_in_hand)


def _that_matter(items: Items, outcome: Outcome, wrong: model.Wrong | None) -> list[int]:
    """Return the items to look at first: where model and people differ, misses, and the queue."""
    rows = [] if wrong is None else wrong.rows.tolist()
    rows += np.flatnonzero(outcome.hit == 0).tolist()[:MOST_RIBBONS]
    for step in ("divided", "expert", "ask"):
        rows += items.queue.order(step)[: MOST_RIBBONS // 4].tolist()
    rows += items.queue.order("accept")[::-1].tolist()
    voted = items.votes.has_votes | items.known.has_votes
    return [row for row in dict.fromkeys(rows) if voted[row]][:MOST_RIBBONS]


def _write(page: PageModel, path: str | Path | None) -> Report:
    """Render the page with as many items as it may hold."""
    facts = facts_of(page)
    items = page.items
    codes = np.unique(items.queue.step, return_inverse=True)[1]
    strata = codes * 2 + (page.outcome.hit == 1)
    drawn: dict[int, str] = {}
    limit = MAX_ITEMS
    while True:
        rows = choose_shown(items.queue, strata, limit)
        paths = None
        if items.sets.n_classes == 3:
            _draw(items.sets, rows, drawn)
            paths = [drawn.get(row, "") for row in rows.tolist()]
        data = script_data(page, rows, paths)
        html = render(facts | {"data": data, "n_shown": len(rows)})
        size = len(html.encode("utf-8"))
        if size <= MAX_BYTES or len(rows) <= 1:
            break
        limit = max(1, int(0.98 * len(rows) * MAX_BYTES / size))
    target = None if path is None else Path(path)
    if target is not None:
        write_file(target, html.encode("utf-8"))
    seen = (page.verdict, page.slices, page.worst, items.queue, page.sizes)
    return Report(html, target, *seen, rows)


def _draw(sets: CredalSet, rows: IntArray, drawn: dict[int, str]) -> None:
    """Add the outlines that are missing; of sets traced one by one, the first few."""
    new = [row for row in rows.tolist() if row not in drawn]
    try:
        loops = outlines(sets[np.array(new, dtype=np.int64)], OUTLINE_TOLERANCE)
    except ImportError:  # tracing needs contourpy, which comes with the extra "plot"
        return
    drawn |= {row: figures.outline_path(loop) for row, loop in zip(new, loops, strict=True)}
