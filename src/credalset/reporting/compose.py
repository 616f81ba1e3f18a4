"""`report`: read, predict each level once, judge, draw, write."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credalset._display import Estimate, proportion
from credalset._files import write_file
from credalset._typing import ArrayLike, IntArray
from credalset._validation import as_positive_int, as_probability
from credalset.evaluation.slices import Slice, WorstSlice, slice_coverage, worst_slice
from credalset.evaluation.table import Source, assess
from credalset.evaluation.verdict import Verdict, coverage_band, items_used
from credalset.exceptions import CredalSetWarning, need, warn
from credalset.reporting import figures
from credalset.reporting.items import Items, choose_shown, read_items
from credalset.reporting.page import FIRST_ROWS, item_columns, page_facts, provenance, render, script_data, table_rows
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.columns import write_parquet
from credalset.sets.outline import outlines

MAX_BYTES = 2_000_000
CURVE = tuple(round(0.05 * i, 2) for i in range(1, 11))  # levels of the curve
FEWEST_FOR_CURVE = 10  # items; below, a curve only shows chance
FEWEST_FOR_SEARCH = 60  # items; below, there is no slice to find
OUTLINE_TOLERANCE = 3e-3  # in sides of the triangle: at most a pixel


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A page and what it says.

    Attributes
    ----------
    html : str
        The page.
    path : Path or None
        Where it was written.
    verdict : Verdict
        Whether the sets are valid and informative.
    slices : list of Slice
        Coverage by feature, among the items with votes.
    worst : WorstSlice or None
        The worst slice that was found.
    queue : Queue
        What to do with each item.
    sizes : list of dict
        Coverage and sizes by score and level, the rows of `credalset.evaluate`.
    shown : ndarray
        Rows of the items that the page shows, in the order of work.
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
        """Write the page to another place."""
        write_file(Path(path), self.html.encode())

    def __repr__(self) -> str:
        size = f"{len(self.html.encode()) / 1000:.0f} kB"
        where = "not written" if self.path is None else str(self.path)
        return f"Report: {where}, {size}. {self.verdict.sentence}"


def report(
    source: Any,
    prediction: ArrayLike | None = None,
    votes: Any = None,
    path: str | Path | None = "report.html",
    *,
    alpha: float | None = None,
    levels: Sequence[float] = (0.05, 0.1, 0.2),
    compare: Sequence[Any] = (),
    votes_in_hand: Any = None,
    items: Sequence[Any] | None = None,
    texts: Sequence[Any] | None = None,
    images: Sequence[Any] | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
    slices: Mapping[str, Any] | None = None,
    classes: Sequence[Any] | None = None,
    rules: QueueRules | None = None,
    title: str = "Credal set report",
    max_items: int = 5000,
    table: str | Path | None = None,
    command: str | None = None,
    random_state: int = 0,
) -> Report:
    """Write one HTML page: are the sets valid and informative, where do annotators disagree, and what to do next.

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
        Level of the sets, 0.1 by default. With a CredalSet, the level at which they were predicted, if it is known.
    levels : sequence of float
        Levels at which sizes are compared.
    compare : sequence of calibrations, or of pairs (calibration, prediction), optional
        Other scores, for the table of sizes. A calibration without predictions gets those of the page.
    votes_in_hand : array of shape (N, K) or Annotations, optional
        Votes that the sets have used already. They are shown with each item; coverage is tested on ``votes`` only.
    items : sequence of N names, optional
        With these, `Annotations` are matched by name; otherwise by position.
    texts, images : sequences of N str, optional
        What an item says, and a link to it. Links are not followed by the page; ``data:`` pictures are shown.
    groups : sequence of N keys, or array of shape (N, d), optional
        Coverage by group; also the groups of the calibration, if it has any, or its features if it is `Conditional`.
    weights : array of shape (N,), optional
        Likelihood ratios, if the calibration is weighted.
    slices : mapping from names to N values, optional
        Further features, text or numbers, by which to look at coverage.
    classes : sequence of K names, optional
        Names of the classes, if neither calibration nor votes have them.
    rules : QueueRules, optional
        When an item is ambiguous and when it is unknown.
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
    >>> report.verdict.status, report.verdict.informative, report.verdict.observed.n
    ('valid', True, 500)
    """
    options = _given(locals())
    limit = as_positive_int(max_items, "max_items")
    if table is not None and Path(table).suffix != ".parquet":
        raise ValueError(f"table must end in .parquet, the format it is written in, but is {Path(table).name!r}.")
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):  # the page says what these would
        default = None if isinstance(source, CredalSet) else 0.1
        level = default if alpha is None else as_probability(alpha, "alpha")
        compared = sorted({as_probability(one, "levels") for one in levels} | (set() if level is None else {level}))
        origin, sets_at = _predict(source, prediction, groups, weights, votes_in_hand, level, compared)
        about = {"items": items, "texts": texts, "images": images, "groups": groups, "slices": slices}
        known = read_items(sets_at[level], votes, votes_in_hand, **about, classes=classes, rules=rules)
        used = "" if origin is None else items_used(source, known.keys)
        rows = [
            assess(sets_at[one], known.votes.shares, one, origin, used, efficiency=False)
            for one in ([None] if level is None else compared)
            if one in sets_at
        ]
        verdict = next(found for _, found in rows if found.alpha == level)
        sizes = [row for row, _ in rows]
        asked = sets_at[level].prediction if prediction is None else prediction
        for other in compare:
            found = _other_sizes(other, source, asked, groups, weights, compared, known)
            before = len({row["score"] for row in sizes if row["score"].split(" (")[0] == found[0]["score"]})
            sizes += [row | {"score": f"{row['score']} ({before + 1})"} if before else row for row in found]
    if used:
        warn(f"{verdict.headline}. Coverage on them says nothing about new items.")
    covered, coverage = _coverage(known, origin, sets_at, level, random_state)
    options |= {} if path is None else {"path": Path(path).name}  # folders are nobody's business
    made = provenance(source, known, options, command)
    calibration = None if origin is None else origin.calibration
    facts = page_facts(title, known, calibration, verdict, *coverage, sizes, made)
    html, shown = _fit(facts, known, covered, limit, random_state)
    if path is not None:
        write_file(Path(path), html.encode("utf-8"))
    if table is not None:
        write_parquet(need("pyarrow", "Writing Parquet").table(item_columns(known, covered == 1)), Path(table))
    target = None if path is None else Path(path)
    return Report(html, target, verdict, coverage[1], coverage[3], known.queue, sizes, shown)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from their defaults, in the order of the signature."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(report).parameters.items()}
    plain = (str, int, float, tuple, type(None))  # what can be compared
    return {
        name: arguments[name]
        for name, default in defaults.items()
        if name != "command" and not (isinstance(arguments[name], plain) and arguments[name] == default)
    }


def _predict(
    source: Any,
    prediction: Any,
    groups: Any,
    weights: Any,
    votes_in_hand: Any,
    level: float | None,
    compared: Sequence[float],
) -> tuple[Source | None, dict[float | None, CredalSet]]:
    """Return where sets come from, and the sets at each level, each predicted once."""
    if isinstance(source, CredalSet):
        if prediction is not None:
            raise ValueError("prediction was given, but sets have predictions of their own. Pass votes=... by name.")
        return None, {level: source}
    if prediction is None:
        raise ValueError("prediction is missing: pass the predictions for the items of the page.")
    origin = Source.read(source, prediction, groups, weights, votes_in_hand)
    assert level is not None  # only sets may be without one
    found: dict[float | None, CredalSet] = {level: origin.predict(level)}
    for one in {*compared, *CURVE} - {level}:
        try:
            found[one] = origin.predict(one)
        except ValueError:  # a level that the noise model cannot serve
            continue
    return origin, found


def _other_sizes(
    other: Any, source: Any, prediction: Any, groups: Any, weights: Any, levels: Sequence[float], items: Items
) -> list[dict[str, Any]]:
    """Return the rows of a calibration to compare with, or of a pair of a calibration and its own predictions."""
    calibration, own = other if isinstance(other, tuple) else (other, prediction)
    if not hasattr(calibration, "predict_set"):
        raise TypeError(
            f"compare takes calibrations, but holds {other!r}. Calibrate a score on the calibration items: "
            "compare=[cs.conformalize(prediction, votes, score)], or [(calibration, its predictions)]."
        )
    if own is prediction and hasattr(source, "nonconformity") and not hasattr(calibration, "nonconformity"):
        own = source.predict_proba(prediction)  # what the classifier makes of its features
    origin = Source.read(calibration, own, groups, weights)
    rows, problem = [], None
    for level in levels:
        try:
            rows.append(assess(origin.predict(level), items.votes.shares, level, origin, efficiency=False)[0])
        except ValueError as error:  # a level that its noise model cannot serve
            problem = error
    if problem is not None and not rows:
        raise problem
    return rows


def _coverage(
    items: Items, origin: Source | None, sets_at: Mapping[float | None, CredalSet], level: float | None, seed: int
) -> tuple[IntArray, tuple[list[Any], list[Slice], list[bool], WorstSlice | None]]:
    """Return 0, 1 or 2 (no votes) for each item; and the curve, the slices, which of them are low, and the worst."""
    there, shares = items.votes.there, items.votes.shares
    voted = sets_at[level][there].contains(shares[there])
    covered = np.full(len(items), 2)
    covered[there] = voted
    curve: list[tuple[float, Estimate, tuple[float, float] | None]] = []
    if origin is not None and len(voted) >= FEWEST_FOR_CURVE:
        keys = None if origin.keys is None else [key for key, has in zip(origin.keys, there, strict=True) if has]
        for one in sorted(one for one in sets_at if one is not None and one <= CURVE[-1]):
            hits = sets_at[one][there].contains(shares[there])
            band = coverage_band(origin.calibration, one, len(hits), groups=keys)
            curve.append((one, proportion(int(hits.sum()), len(hits)), band))
    features = {name: values[there] for name, values in items.features.items()}
    slices = slice_coverage(voted, features) if len(voted) else []
    worst = worst_slice(voted, features, random_state=seed) if len(voted) >= FEWEST_FOR_SEARCH else None
    return covered, (curve, slices, _low(slices, None if level is None else 1.0 - level), worst)


def _low(slices: list[Slice], guaranteed: float | None, level: float = 0.95) -> list[bool]:
    """Tell which slices stay below the guarantee with intervals that hold for all slices at once (Bonferroni)."""
    if guaranteed is None:
        return [False] * len(slices)
    strict = 1.0 - (1.0 - level) / max(len(slices), 1)
    seen = [part.coverage for part in slices]
    return [x.n > 0 and proportion(round(float(x) * x.n), x.n, strict).high < guaranteed for x in seen]


def _fit(facts: dict[str, Any], items: Items, covered: IntArray, limit: int, seed: int) -> tuple[str, IntArray]:
    """Render the page with as many items as it may hold."""
    strata = np.unique(items.queue.action, return_inverse=True)[1] * 2 + (covered == 1)
    drawn: dict[int, str] = {}
    while True:
        rows = choose_shown(items.queue, strata, limit, seed)
        if items.sets.n_classes == 3:
            _draw(items.sets, rows, drawn)
        html = _page(facts, items, covered, rows, drawn)
        size = len(html.encode("utf-8"))
        if size <= MAX_BYTES or len(rows) <= 1:
            return html, rows
        limit = max(1, int(0.98 * len(rows) * MAX_BYTES / size))


def _page(facts: dict[str, Any], items: Items, covered: IntArray, rows: IntArray, drawn: Mapping[int, str]) -> str:
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
    """Add the outlines that are missing; of sets that have to be traced one by one, the first few."""
    new = [row for row in rows.tolist() if row not in drawn]
    try:
        loops = outlines(sets[np.array(new, dtype=np.int64)], OUTLINE_TOLERANCE)
    except ImportError:  # tracing needs contourpy, which comes with the extra "plot"
        return
    drawn |= {row: figures.outline_path(loop) for row, loop in zip(new, loops, strict=True)}
