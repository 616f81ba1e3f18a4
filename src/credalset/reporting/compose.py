"""`report`: read, measure, draw, write."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from credalset._files import write_file
from credalset._guessing import Hinting, explained
from credalset._typing import ArrayLike, IntArray
from credalset._validation import as_positive_int, as_probability
from credalset.exceptions import CredalSetWarning, warn
from credalset.reporting import payload, pictures
from credalset.reporting.coverage import Coverage, look_at
from credalset.reporting.inputs import ALPHA, Source, check_levels, read_items
from credalset.reporting.measures import Measures, choose_shown
from credalset.reporting.page import TRACED, page_facts, table_rows
from credalset.reporting.provenance import provenance
from credalset.reporting.render import render
from credalset.reporting.sizes import Size, compare_sizes, measure, told_apart
from credalset.scores import Score
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.outline import is_convex, outlines
from credalset.slices import Slice, WorstSlice
from credalset.verdict import Verdict

MAX_BYTES = 2_000_000
DRAWN = 3e-3  # of the outlines, in sides of the triangle: at most a pixel, half of one as a rule


@dataclass(frozen=True, eq=False, repr=False)
class Report(Hinting):
    """A page and what it says.

    Attributes
    ----------
    html : str
        The page.
    path : Path or None
        Where it was written.
    verdict : Verdict
        Whether the promise was kept.
    slices : list of Slice
        Coverage by feature.
    worst : WorstSlice or None
        The worst slice found.
    queue : Queue
        What to do with each item.
    sizes : list of Size
        Sizes by score and level.
    shown : ndarray
        Rows of the items that the page shows, in the order of work.
    before : list of Slice
        The slices as they would be had all items one threshold; empty where they have.
    """

    _hints: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("display", "open", "show", "view"),
            "Open the file .path in a browser; in a notebook, IPython.display.HTML(report.html) shows the page.",
        ),
        **dict.fromkeys(("to_html", "write"), "The page is .html, and save(path) writes it."),
        "coverage": "It is .verdict.observed.",
        "summary": "It is .verdict.sentence.",
    }

    html: str
    path: Path | None
    verdict: Verdict
    slices: list[Slice]
    worst: WorstSlice | None
    queue: Queue
    sizes: list[Size]
    shown: IntArray
    before: list[Slice] = field(default_factory=list)

    def save(self, path: str | Path) -> None:
        """Write the page to another place."""
        write_file(Path(path), self.html.encode())

    def __repr__(self) -> str:
        size = f"{len(self.html.encode()) / 1000:.0f} kB"
        where = "not written" if self.path is None else str(self.path)
        return f"Report: {where}, {size}. {self.verdict.sentence}"


@explained
def report(
    source: Any,
    prediction: ArrayLike | None = None,
    votes: Any = None,
    path: str | Path | None = "report.html",
    *,
    alpha: float | None = None,
    levels: Sequence[float] = (0.05, 0.1, 0.2),
    compare: Sequence[Any] = (),
    items: Sequence[Hashable] | None = None,
    texts: Sequence[Any] | None = None,
    images: Sequence[Any] | None = None,
    groups: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    slices: Mapping[str, Any] | None = None,
    truth: Any = None,
    classes: Sequence[Any] | None = None,
    rules: QueueRules | None = None,
    title: str = "Credal sets: can they be trusted, and what to do next",
    max_items: int = 5000,
    table: str | Path | None = None,
    command: str | None = None,
    random_state: int = 0,
) -> Report:
    """Write one HTML page that says whether sets keep their promise, where annotators disagree and what to do.

    The page needs no network and no other file. It is at most 2 MB; where items do not fit, it shows a sample and says
    so, while every number above the map is of all items.

    Parameters
    ----------
    source : Calibration, CrossCalibration, ConformalCredalClassifier or CredalSet
        What predicts the sets, or the sets themselves (then without a curve over levels).
    prediction : array
        What ``source.predict_set`` takes: predictions, or features for a classifier. Not with a CredalSet.
    votes : array of shape (N, K) or Annotations, optional
        Counts or distributions of held-out items. Rows of zeros or NaN are items without votes.
    path : str, Path or None
        Where to write; None to only return the page.
    alpha : float, optional
        Level of the sets, 0.1 by default. With a CredalSet, the level that was promised, if any.
    levels : sequence of float
        Levels at which sizes are compared.
    compare : sequence of calibrations, or of pairs (calibration, prediction), optional
        Other scores, for the table of sizes. A calibration without predictions gets those of the page.
    items : sequence of N names, optional
        With these, `Annotations` are matched by name; otherwise by position.
    texts, images : sequences of N str, optional
        What an item says, and a link to it. Links are not followed by the page; ``data:`` pictures are shown.
    groups : sequence of N keys, or array of shape (N, d), optional
        Coverage by group; also the groups of the calibration, if it has any, or its features if it is `Conditional`.
        Slices then show what one threshold for all items would cover, too.
    weights : array of shape (N,), optional
        Likelihood ratios, if the calibration is weighted.
    slices : mapping from names to N values, optional
        Further features, text or numbers, by which to look at coverage.
    truth : array of shape (N, K), optional
        True distributions, in simulations.
    classes : sequence of K names, optional
        Names of the classes, if neither calibration nor votes have them.
    rules : QueueRules, optional
        What is ambiguous and what is unknown.
    title : str
        Heading of the page.
    max_items : int
        Most items to show.
    table : str or Path, optional
        Where to write every item with every number, as Parquet (extra ``tables``).
    command : str, optional
        What to say the page was made by, instead of this call.
    random_state : int
        Seed of the sample and of the search for the worst slice.

    Returns
    -------
    Report

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(1000, n_votes=50, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:500], data.counts[:500], "tv")
    >>> report = cs.report(calibration, data.distributions[500:], data.counts[500:], path=None)
    >>> print(report.verdict.sentence)
    The sets keep their promise: 90% coverage of recorded label distributions was promised, and 91.4% is observed on 500
    items, within the 84.8% to 94.4% that chance allows.
    """
    options = _given(locals())
    limit = as_positive_int(max_items, "max_items")
    if table is not None and Path(table).suffix != ".parquet":
        raise ValueError(
            f"table is written as Parquet: give it a name that ends in .parquet, not {Path(table).name!r}."
        )
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):  # the page says what these would
        origin, sets, level = _sets(source, prediction, groups, weights, classes, alpha)
        keys = groups if origin.conditional is None else None
        features = origin.slices(groups, len(sets)) | dict(slices or {})
        about = {"items": items, "texts": texts, "images": images, "groups": keys, "slices": features, "truth": truth}
        known = read_items(sets, votes, classes=classes, **about)
        measures = Measures.of(sets, known, rules)
        coverage = look_at(origin, measures, level, random_state)
        others = [
            _other(one, source, sets.prediction if prediction is None else prediction, groups, weights)
            for one in compare
        ]
        steps = check_levels(level, levels)
        own = [measure(sets, known, level)] if origin.predict is None else compare_sizes([origin], known, steps)
        sizes = told_apart([own, *(compare_sizes([other], known, steps) for other in others)])
    if coverage.reused:
        warn(coverage.reused)
    if path is not None:
        options["path"] = Path(path).name  # folders are nobody's business
    made = provenance(source, sets, known, options, command)
    facts = page_facts(title, measures, coverage, sizes, made, level)
    html, shown = _fit(facts, measures, coverage, limit, random_state)
    if path is not None:
        write_file(Path(path), html.encode("utf-8"))
    if table is not None:
        payload.write_parquet(Path(table), measures, coverage.covered)
    target = None if path is None else Path(path)
    found = (coverage.verdict, coverage.slices, coverage.worst, measures.queue, sizes, shown, coverage.before)
    return Report(html, target, *found)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from their defaults, in the order of the signature."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(report).parameters.items()}
    plain = (str, int, float, tuple, type(None))  # what can be compared
    return {
        name: arguments[name]
        for name, default in defaults.items()
        if name != "command" and not (isinstance(arguments[name], plain) and arguments[name] == default)
    }


def _sets(
    source: Any, prediction: Any, groups: Any, weights: Any, classes: Any, alpha: float | None
) -> tuple[Source, CredalSet, float | None]:
    """Return where sets come from, the sets of the page, and their level."""
    if isinstance(source, CredalSet):
        if prediction is not None:
            raise ValueError("prediction was given, but sets have predictions of their own. Pass votes=... by name.")
        return Source(None, None), source, None if alpha is None else as_probability(alpha, "alpha")
    level = as_probability(ALPHA if alpha is None else alpha, "alpha")
    origin = Source.read(source, prediction, groups, weights, classes)
    assert origin.predict is not None
    return origin, origin.predict(level), level


def _other(one: Any, source: Any, prediction: Any, groups: Any, weights: Any) -> Source:
    """Read a calibration to compare with, or a pair of a calibration and its own predictions."""
    if isinstance(one, str | Score):
        raise TypeError(
            f"compare takes calibrations, and {one!r} is a score. Calibrate it on the calibration items: "
            "compare=[cs.conformalize(prediction, votes, score)], or [(calibration, its predictions)]."
        )
    other, own = one if isinstance(one, tuple) else (one, prediction)
    if own is prediction and hasattr(source, "calibration_") and not hasattr(other, "calibration_"):
        own = source.predict_proba(prediction)  # what the classifier makes of its features
    return Source.read(other, own, groups, weights, None)


def _fit(facts: dict[str, Any], measures: Measures, coverage: Coverage, limit: int, seed: int) -> tuple[str, IntArray]:
    """Render the page with as many items as it may hold."""
    queue, sets = measures.queue, measures.sets
    strata = np.unique(queue.action, return_inverse=True)[1] * 2 + coverage.covered
    order = np.argsort(queue.order()) if len(queue) else np.empty(0, dtype=np.int64)
    drawn: dict[int, str] = {}
    while True:
        rows = choose_shown(queue, strata, limit, seed)
        rows = rows[np.argsort(order[rows])]
        if sets.n_classes == 3:
            _draw(sets, rows, drawn)
        html = _page(facts, measures, coverage, rows, drawn)
        size = len(html.encode("utf-8"))
        if size <= MAX_BYTES or len(rows) <= 1:
            return html, rows
        limit = max(1, int(0.98 * len(rows) * MAX_BYTES / size))


def _page(facts: dict[str, Any], measures: Measures, coverage: Coverage, rows: IntArray, drawn: dict[int, str]) -> str:
    queue, sets = measures.queue, measures.sets
    frame = pictures.map_frame(queue, queue.rules)
    paths = [drawn.get(row, "") for row in rows.tolist()] if sets.n_classes == 3 else None
    more = {
        "data": payload.to_json(payload.columns(measures, coverage.covered, rows, paths, frame)),
        "n_shown": len(rows),
        "static": table_rows(measures, coverage, rows),
        "map": pictures.uncertainty_map(frame, queue, rows) if len(rows) else "",
        "triangle": None,
    }
    if paths is not None and len(rows):
        examples = [drawn.get(row, "") for row in facts["example_rows"]]
        more["triangle"] = pictures.triangle(measures.items.classes, sets.center, queue, rows, examples)
    return render(facts | more)


def _draw(sets: CredalSet, rows: IntArray, drawn: dict[int, str]) -> None:
    """Add the outlines that are missing; of sets that have to be traced one by one, the first few."""
    new = [row for row in (rows if is_convex(sets) else rows[:TRACED]).tolist() if row not in drawn]
    try:
        loops = outlines(sets[np.array(new, dtype=np.int64)], DRAWN)
    except ImportError:  # tracing needs contourpy, which comes with the extra "plot"
        return
    drawn |= {row: pictures.outline_path(loop) for row, loop in zip(new, loops, strict=True)}
