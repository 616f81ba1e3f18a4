"""`report`: predict each level once, read the items, measure coverage, and write the page."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._batch import Batch, Labels
from credalset._display import proportion
from credalset._files import write_file
from credalset._typing import ArrayLike, IntArray
from credalset._validation import as_probability
from credalset.acting.asking import asked_again
from credalset.calibration.base import Calibration, Inputs, as_level
from credalset.calibration.levels import exact_level
from credalset.evaluation.slices import Slice, WorstSlice, find_worst, measure_slices
from credalset.evaluation.table import assess
from credalset.evaluation.tested import AtLevel, TestedItems, read_inputs
from credalset.evaluation.verdict import Verdict
from credalset.exceptions import CredalSetWarning, warn
from credalset.reporting import figures
from credalset.reporting.items import Items, choose_shown, name_batch, read_items
from credalset.reporting.page import (
    FIRST_ROWS,
    Findings,
    Headline,
    page_facts,
    provenance,
    render,
    script_data,
    table_rows,
)
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.outline import outlines
from credalset.votes import refuse_shared

MAX_BYTES, MAX_ITEMS = 2_000_000, 5000  # of a page
LEVELS = (0.05, 0.1, 0.2)  # of the table of sizes
CURVE = tuple(round(0.05 * i, 2) for i in range(1, 11))  # levels of the curve
FEWEST_FOR_CURVE = 10  # items; below, a curve only shows chance
FEWEST_IN_SLICE = 20  # items; smaller slices only show chance
FEWEST_FOR_SEARCH = 60  # items; below, there is no slice to find
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
    _queue: Queue | None = None,
    _words: Headline | None = None,
) -> Report:
    """Write an HTML page that shows whether sets are valid and informative, and what to do.

    It also shows where annotators disagree.

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
        about = (texts, images, groups, slices, rules)
        asked = asked_again(found.calibration, found.inputs)
        known = read_items(found.sets, batch, votes, votes_in_hand, *about, _queue, asked)
        tested = found.test(source, known.votes)
        findings = _measure(tested, found, known, compare)
    verdict = findings.verdict
    if verdict.used:
        warn(f"{verdict.headline}. Coverage on them says nothing about new items.")
    calibration = tested.calibration
    made = provenance(calibration, known, _command)
    facts = page_facts(title, known, calibration, findings, made, _words)
    html, shown = _fit(facts, known, findings.covered)
    target = None if path is None else Path(path)
    if target is not None:
        write_file(target, html.encode("utf-8"))
    seen = (verdict, findings.slices, findings.worst, known.queue, findings.sizes)
    return Report(html, target, *seen, shown)


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

    def test(self, source: Any, labels: Labels) -> TestedItems:
        """Return the items with votes."""
        if self.inputs is None:
            return TestedItems.of_sets(self.sets, labels)
        return TestedItems.of(source, replace(self.inputs, batch=self.batch), labels)

    def other_levels(self) -> list[float]:
        """Return the further levels that the page shows and the calibration serves."""
        calibration = self.calibration
        if calibration is None:
            return []
        levels = sorted({*LEVELS, *CURVE} - {self.alpha})
        return [level for level in levels if calibration._serves(exact_level(level))]


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


def _measure(
    tested: TestedItems, found: PageSource, items: Items, compare: Sequence[dict[str, Any]]
) -> Findings:
    """Measure coverage and sizes at each level, each once, and coverage by slice."""
    alpha = found.alpha
    own = tested.compare(found.sets, alpha)
    at: dict[float | None, AtLevel] = {alpha: own}
    at |= {level: tested.predict(level) for level in found.other_levels()}
    assessed = {}
    for level in sorted(at, key=lambda level: level or 0.0):
        if level == alpha or level in LEVELS:
            assessed[level] = assess(at[level], tested)
    covered = np.full(len(items), 2)
    covered[tested.rows] = own.covered
    features = {name: values[tested.rows] for name, values in items.features.items()}
    slices = [
        part for part in measure_slices(own.covered, features) if part.coverage.n >= FEWEST_IN_SLICE
    ]
    worst = None
    if len(own.covered) >= FEWEST_FOR_SEARCH:
        worst = find_worst(own.covered, features)
    return Findings(
        verdict=assessed[alpha][1],
        covered=covered,
        curve=_curve(tested, at),
        slices=slices,
        low=_low(slices, alpha),
        worst=worst,
        sizes=[*(row for row, _ in assessed.values()), *compare],
    )


def _curve(tested: TestedItems, at: Mapping[float | None, AtLevel]) -> list[Any]:
    """Return level, coverage and band of each level."""
    if tested.calibration is None or len(tested.rows) < FEWEST_FOR_CURVE:
        return []
    curve = []
    for level in sorted(level for level in at if level is not None and level <= CURVE[-1]):
        covered = at[level].covered
        seen = proportion(int(covered.sum()), len(covered))
        curve.append((level, seen, tested.band(level, tested.rows)))
    return curve


def _low(slices: list[Slice], alpha: float | None, level: float = 0.95) -> list[bool]:
    """Tell which slices stay below the guarantee, by intervals that hold at once (Bonferroni)."""
    if alpha is None:
        return [False] * len(slices)
    strict = 1.0 - (1.0 - level) / max(len(slices), 1)
    seen = [part.coverage for part in slices]
    return [
        x.n > 0 and proportion(round(float(x) * x.n), x.n, strict).high < 1.0 - alpha for x in seen
    ]


def _fit(facts: dict[str, Any], items: Items, covered: IntArray) -> tuple[str, IntArray]:
    """Render the page with as many items as it may hold."""
    strata = np.unique(items.queue.step, return_inverse=True)[1] * 2 + (covered == 1)
    drawn: dict[int, str] = {}
    limit = MAX_ITEMS
    while True:
        rows = choose_shown(items.queue, strata, limit)
        if items.sets.n_classes == 3:
            _draw(items.sets, rows, drawn)
        html = _page(facts, items, covered, rows, drawn)
        size = len(html.encode("utf-8"))
        if size <= MAX_BYTES or len(rows) <= 1:
            return html, rows
        limit = max(1, int(0.98 * len(rows) * MAX_BYTES / size))


def _page(
    facts: dict[str, Any], items: Items, covered: IntArray, rows: IntArray, drawn: Mapping[int, str]
) -> str:
    queue = items.queue
    frame = figures.map_frame(queue)
    paths = [drawn.get(row, "") for row in rows.tolist()] if items.sets.n_classes == 3 else None
    more: dict[str, Any] = {
        "data": script_data(items, covered, rows, paths, frame),
        "n_shown": len(rows),
        "static": table_rows(items, covered, rows[:FIRST_ROWS].tolist()),
        "map": figures.uncertainty_map(frame, queue, rows) if len(rows) else "",
        "triangle": None,
    }
    if paths is not None and len(rows):
        examples = [drawn.get(row, "") for row in facts["example_rows"]]
        more["triangle"] = figures.triangle(items.classes, items.sets.center, queue, rows, examples)
    return render(facts | more)


def _draw(sets: CredalSet, rows: IntArray, drawn: dict[int, str]) -> None:
    """Add the outlines that are missing; of sets traced one by one, the first few."""
    new = [row for row in rows.tolist() if row not in drawn]
    try:
        loops = outlines(sets[np.array(new, dtype=np.int64)], OUTLINE_TOLERANCE)
    except ImportError:  # tracing needs contourpy, which comes with the extra "plot"
        return
    drawn |= {row: figures.outline_path(loop) for row, loop in zip(new, loops, strict=True)}
