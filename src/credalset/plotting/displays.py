"""Displays of many items: ranges of labels, votes coming in, calibration, coverage and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from credalset._batch import read
from credalset._display import plural, proportion
from credalset._typing import AnyArray, ArrayLike, FloatArray
from credalset._validation import as_distributions, as_generator, as_positive_int
from credalset.calibration import Calibration, SplitCalibration
from credalset.evaluation.slices import Slice
from credalset.evaluation.views import (
    NUMBERS,
    RangeStrip,
    Rejection,
    ShareCalibration,
    VotesComingIn,
)
from credalset.plotting import style
from credalset.plotting.charts import columns_of
from credalset.plotting.style import BLACK, BLUE, DOUBLE, GREEN, GREY, LIGHT_GREY, ORANGE
from credalset.sets import CredalSet

MAX_VECTORS = 2_000  # more marks are stored as pixels in vector graphics
MOST_RIBBONS = 5
LEAST_SHARE = 0.05  # of a class that nobody voted for, to be drawn
MARKERS = "osD^v"  # of scores, which often cover the same
LONGEST_TAIL = 3.0  # end of a histogram, relative to the place that it marks
FEWEST_KEPT = 20  # items of which an agreement is drawn
MEASURES = {"width": "width", "epistemic": "epistemic part", "volume": "volume"}


def range_strip(
    sets: CredalSet,
    *,
    votes: Any = None,
    label: ArrayLike | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the range of the label that each item would get, sorted by the lower bound.

    The band is the range of the share of this label in the set, the line is the prediction, and
    dots are shares of votes; shares of votes that a set does not cover are orange. Errors of the
    model lie clearly below the band.

    Parameters
    ----------
    sets : CredalSet
        N sets over any number of classes.
    votes : array or data frame of shape (N, K), or Annotations, optional
        Counts or distributions of votes.
    label : array of shape (N,), optional
        Column of the label of each item; by default the likeliest of its prediction.
    legend : bool
        Whether to add a legend above the plot.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]], threshold=0.1)
    >>> ax = range_strip(sets, votes=[[5, 3, 2], [1, 9, 0]], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['range in the set', 'prediction', 'votes', 'votes, not covered']
    """
    style.check_sets(sets)
    labels = None if votes is None else sets._batch.votes(votes, partial=True)
    chosen = None if label is None else np.asarray(sets._batch.per_item(label, "label"))
    if chosen is not None and (
        chosen.shape != (len(sets),) or not np.isin(chosen, range(sets.n_classes)).all()
    ):
        raise ValueError(
            f"label must hold one column from 0 to {sets.n_classes - 1} for each of the "
            f"{len(sets)} sets."
        )
    strip = RangeStrip.of(sets, labels, chosen)
    is_new = ax is None
    ax = style.axes_or_new(ax, width=DOUBLE, height=2.4)
    order = strip.order
    place = np.arange(len(order))
    many = len(order) > MAX_VECTORS
    ax.fill_between(
        place,
        strip.lower[order],
        strip.upper[order],
        step="mid",
        color=(GREEN, 0.3),
        linewidth=0.0,
        label="range in the set",
        rasterized=many,
    )
    # One short line per item: a line through all would show the jumps between neighbours.
    gap = np.full(len(order), np.nan)
    ends = np.stack([place - 0.5, place + 0.5, gap], axis=1).ravel()
    ax.plot(
        ends,
        np.stack([strip.predicted[order], strip.predicted[order], gap], axis=1).ravel(),
        color=BLACK,
        linewidth=1.0,
        label="prediction",
        rasterized=many,
    )
    size = float(np.clip(900.0 / len(order), 1.2, 4.0))
    share = strip.share[order]
    covered = strip.covered[order]
    for mine, colour, name in ((covered, BLUE, "votes"), (~covered, ORANGE, "votes, not covered")):
        shown = mine & ~np.isnan(share)
        if shown.any():
            look = {"marker": "o", "color": colour, "markersize": size, "zorder": 3}
            marks = style.mark(look) | {"markeredgewidth": 0.0, "rasterized": many}
            ax.plot(place[shown], share[shown], label=name, **marks)
    ax.set(xlim=(-0.5, len(order) - 0.5), ylim=(-0.02, 1.02))
    ax.set(xlabel="items, sorted by the lower bound", ylabel="share of the label")
    style.tidy(ax)
    if legend:
        style.add_legend(ax, is_new=is_new)
    return ax


def votes_coming_in(
    calibration: Calibration,
    prediction: ArrayLike,
    votes: Any,
    alpha: float = 0.1,
    *,
    numbers: Sequence[int] = NUMBERS,
    random_state: Any = 0,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the bounds of each class for one item as votes come in.

    Votes are taken one by one in random order. Ticks below the plot show them, in the colours of
    their classes. Drawn are classes with votes or a predicted share of at least 5 %, at most the
    five with the largest shares; the others are named below the plot.

    Parameters
    ----------
    calibration : CrowdCalibration
        A calibration that uses votes in hand.
    prediction : array of shape (K,) or (1, K), or data frame with one row
        Predicted distribution of the item.
    votes : array of shape (K,) or (1, K), or data frame with one row
        All votes on the item, counts by class.
    alpha : float
        Miscoverage rate in (0, 1).
    numbers : sequence of int
        Numbers of votes at which sets are predicted; those beyond the votes are left out. Sets use
        no more votes than were calibrated, so name none beyond.
    random_state : int, Generator or None
        Seed of the order of the votes.
    legend : bool
        Whether to add a legend above the plot.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=40, random_state=0)
    >>> p, counts = data.distributions, data.counts
    >>> crowd = cs.DirichletCrowd().fit(p[:200], counts[:200])
    >>> calibration = crowd.conformalize(p[200:599], counts[200:599], in_hand=(0, 3, 10))
    >>> ax = votes_coming_in(calibration, p[599], counts[599], ax=Figure().subplots())
    >>> print(ax.get_xlabel())
    votes in hand
    (1 more class: at most 0.06)
    """
    if "votes" not in calibration.supports:
        raise ValueError(
            "calibration does not use votes in hand. Calibrate with DirichletCrowd.conformalize."
        )
    one, counts = _one_item(calibration, prediction, votes)
    total = int(counts.sum())
    asked = {as_positive_int(h, "numbers", minimum=0) for h in numbers}
    shown = sorted(h for h in asked if h <= total)
    if not shown:
        raise ValueError(f"numbers holds none up to the {total} votes of the item.")
    order = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
    order = as_generator(random_state).permutation(order)

    def predict(item: Any, hand: FloatArray) -> CredalSet:
        sets: CredalSet = calibration.predict_set(one[item], alpha, votes=hand)
        return sets

    found = VotesComingIn.of(predict, [order], len(counts), shown)
    is_new = ax is None
    ax = style.axes_or_new(ax)
    lower, upper, center = found.lower[0], found.upper[0], found.center[0]
    known = range(len(counts)) if calibration.classes is None else calibration.classes
    every = [str(name) for name in known]
    # Ribbons of classes that nobody and nothing speaks for would lie on top of each other.
    largest = np.nanmax(center, axis=0)
    spoken_for = (largest >= LEAST_SHARE) | np.isin(np.arange(len(counts)), order[: shown[-1]])
    ranked = np.argsort(-largest - spoken_for, kind="stable")
    matter = np.sort(ranked[: min(MOST_RIBBONS, int(spoken_for.sum()))])
    colours = style.colors(len(matter))
    names = [every[k] for k in matter]
    for k, name, colour in zip(matter.tolist(), names, colours, strict=True):
        ax.fill_between(shown, lower[:, k], upper[:, k], color=(colour, 0.25), linewidth=0.0)
        line: dict[str, Any] = {"color": colour, "linewidth": 1.2, "marker": "o", "markersize": 3}
        ax.plot(shown, center[:, k], label=name, **line)
        seen = np.flatnonzero(order[: shown[-1]] == k) + 1
        ax.plot(
            seen,
            np.full(len(seen), -0.05),
            linestyle="none",
            marker="|",
            markersize=6,
            color=colour,
            clip_on=False,
        )
    below = "votes in hand"
    if len(matter) < len(every):
        rest = np.setdiff1d(np.arange(len(every)), matter)
        count = f"{len(rest)} more class{'' if len(rest) == 1 else 'es'}"
        below += f"\n({count}: at most {upper[-1, rest].max():.2f})"
    ax.set(xlim=(0, max(shown[-1], 1)), ylim=(-0.08, 1.02))
    ax.set(xlabel=below, ylabel="share of the class")
    ax.set_xticks(shown)
    style.tidy(ax)
    if legend:
        style.add_legend(ax, is_new=is_new, first=names)
    return ax


def _one_item(
    calibration: Calibration, prediction: Any, votes: Any
) -> tuple[FloatArray, FloatArray]:
    """Read the prediction and the counts of one item, in the order of the calibration's classes."""
    if np.ndim(prediction) == 1 and not hasattr(prediction, "index"):
        prediction = np.asarray(prediction)[None]
    if np.ndim(votes) == 1 and not hasattr(votes, "index"):
        votes = np.asarray(votes)[None]
    batch = read(prediction, calibration.classes, calibration.n_classes, "prediction")
    if len(batch) != 1:
        raise ValueError(f"prediction must be that of one item, but has {len(batch)} rows.")
    one = as_distributions(batch.values, "prediction", n_classes=calibration.n_classes)
    return one, batch.votes(votes, empty=True).votes("votes", "votes_coming_in")[0]


def share_calibration(
    predictions: Any, votes: Any, *, n_bins: int = 10, legend: bool = True, ax: Axes | None = None
) -> Axes:
    """Draw observed against predicted shares of the classes, in bins of equal width.

    Parameters
    ----------
    predictions : array or data frame of shape (N, K)
        Predicted distributions.
    votes : array or data frame of shape (N, K), or Annotations
        Counts or distributions of votes.
    n_bins : int
        Number of bins.
    legend : bool
        Whether to add a legend above the plot.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot. Bars are intervals of 95 % if items are independent.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
    >>> share_calibration(data.distributions, data.counts, ax=Figure().subplots()).get_ylabel()
    'observed share of votes'
    """
    batch = read(predictions)
    predicted = as_distributions(batch.values, "predictions")
    observed = batch.votes(votes).distributions
    found = ShareCalibration.of(predicted, observed, as_positive_int(n_bins, "n_bins"))
    is_new = ax is None
    ax = style.axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), label="calibrated")
    ends = np.abs(np.stack([found.low, found.high]) - found.observed)
    ax.errorbar(
        found.predicted,
        found.observed,
        yerr=ends,
        color=GREEN,
        marker="o",
        markersize=4,
        linewidth=1.0,
        elinewidth=0.8,
        label="this model",
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="predicted share", ylabel="observed share of votes")
    style.tidy(ax)
    if legend:
        style.add_legend(ax, is_new=is_new)
    return ax


def coverage_curve(rows: Any, *, legend: bool = True, ax: Axes | None = None) -> Axes:
    """Draw observed coverage against the level, with its band and 1 − α.

    Parameters
    ----------
    rows : list of dict or data frame
        The rows of `credalset.evaluate` for several levels, and any number of scores.
    legend : bool
        Whether to add a legend above the plot.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=20, random_state=0)
    >>> p, counts = data.distributions, data.counts
    >>> rows = cs.evaluate(cs.conformalize(p[:300], counts[:300]), p[300:], counts[300:])
    >>> coverage_curve(rows, ax=Figure().subplots()).get_xlabel()
    'miscoverage rate α'
    """
    table = columns_of(rows, ["alpha", "coverage"], ["score", "band_low", "band_high"])
    level = table["alpha"].astype(np.float64)
    seen = table["coverage"].astype(np.float64)
    score = table.get("score", np.full(len(level), "coverage")).astype(str)
    nothing = np.full(len(level), np.nan)
    low, high = (table.get(name, nothing).astype(np.float64) for name in ("band_low", "band_high"))
    names = list(dict.fromkeys(score.tolist()))
    is_new = ax is None
    ax = style.axes_or_new(ax)
    largest = level.max()
    dashed: dict[str, Any] = {"color": GREY, "linewidth": 0.8, "linestyle": (0, (4, 2))}
    ax.plot([0, largest], [1, 1 - largest], label="1 − α", **dashed)
    drawn: set[bytes] = set()
    for place, name in enumerate(names):
        mine = np.flatnonzero(score == name)
        mine = mine[np.argsort(level[mine], kind="stable")]
        band = np.stack([level[mine], low[mine], high[mine]])
        # The band depends on the numbers of items alone, so that scores share it.
        if band.tobytes() not in drawn and np.isfinite(band).any():
            ax.fill_between(*band, color=LIGHT_GREY, linewidth=0.0, zorder=0)
            drawn.add(band.tobytes())
        look: dict[str, Any] = {"color": style.colors(len(names))[place], "linewidth": 1.0}
        look |= {"marker": MARKERS[place % len(MARKERS)], "markersize": 4}
        ax.plot(level[mine], seen[mine], label=name, **look)
    ax.set(xlabel="miscoverage rate α", ylabel="coverage")
    style.tidy(ax)
    if legend:
        style.add_legend(ax, is_new=is_new, first=names)
    return ax


def slices(found: Sequence[Slice], alpha: float | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the coverage of slices as intervals, one line each.

    Parameters
    ----------
    found : sequence of Slice
        The slices that `credalset.evaluation.slice_coverage` returns.
    alpha : float, optional
        Miscoverage rate, to mark 1 − α.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.evaluation import slice_coverage
    >>> parts = slice_coverage([True, True, False, True], {"source": ["a", "a", "b", "b"]})
    >>> ax = slices(parts, alpha=0.1, ax=Figure().subplots())
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['source: a (2)', 'source: b (2)']
    """
    parts = list(found)
    if not parts or not all(isinstance(part, Slice) for part in parts):
        raise TypeError("found must hold slices, as slice_coverage returns them, at least one.")
    ax = style.axes_or_new(ax, height=0.8 + 0.2 * len(parts))
    place = np.arange(len(parts))
    low = np.array([part.coverage.low for part in parts])
    high = np.array([part.coverage.high for part in parts])
    ax.hlines(place, low, high, color=GREEN, linewidth=1.5)
    ax.plot([float(part.coverage) for part in parts], place, "o", color=GREEN, markersize=4)
    style.mark_level(ax, alpha, along_x=True)
    ax.set_yticks(place, [f"{part.feature}: {part.value} ({part.coverage.n})" for part in parts])
    ax.set_ylim(len(parts) - 0.5, -0.5)
    ax.set_xlabel("coverage, 95 % intervals", loc="right")  # long names leave little room
    style.tidy(ax)
    return ax


def coverage_by_difficulty(
    sets: CredalSet,
    votes: Any,
    alpha: float | None = None,
    *,
    n_bins: int = 4,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coverage of items from easy to hard: bins of the entropy of the prediction.

    Parameters
    ----------
    sets : CredalSet
        N sets.
    votes : array or data frame of shape (N, K), or Annotations
        Counts or distributions of votes that the sets should cover.
    alpha : float, optional
        Miscoverage rate, to mark 1 − α.
    n_bins : int
        Number of bins of about equal numbers of items.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=20, random_state=0)
    >>> p, counts = data.distributions, data.counts
    >>> sets = cs.conformalize(p[:300], counts[:300]).predict_set(p[300:], 0.1)
    >>> ax = coverage_by_difficulty(sets, counts[300:], 0.1, ax=Figure().subplots())
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['easiest', '2', '3', 'hardest']
    """
    style.check_sets(sets)
    covered = sets.contains(sets._batch.votes(votes).distributions)
    center = sets.center
    entropy = -(center * np.log(np.where(center > 0, center, 1.0))).sum(axis=1)
    n_bins = as_positive_int(n_bins, "n_bins", minimum=2)
    parts = np.array_split(np.argsort(entropy, kind="stable"), n_bins)
    seen = [proportion(int(covered[part].sum()), len(part)) for part in parts]
    ax = style.axes_or_new(ax)
    place = np.arange(len(parts))
    ax.vlines(place, [s.low for s in seen], [s.high for s in seen], color=GREEN, linewidth=1.5)
    ax.plot(place, [float(s) for s in seen], "o", color=GREEN, markersize=4)
    style.mark_level(ax, alpha)
    names = ["easiest", *map(str, range(2, n_bins)), "hardest"]
    ax.set_xticks(place, names)
    # Small differences should look small.
    lowest = min(0.8, *(s.low for s in seen))
    ax.set(xlim=(-0.5, n_bins - 0.5), ylim=(lowest - 0.01, 1.005))
    ax.set_ylabel("coverage, 95 % intervals")
    ax.set(xlabel="items by entropy of the prediction")
    style.tidy(ax)
    return ax


def sizes(sets: CredalSet, measure: str = "width", *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the sizes of sets, with the median.

    Parameters
    ----------
    sets : CredalSet
        N sets.
    measure : {"width", "epistemic", "volume"}
        The size: half the sum of the ranges of all classes, the epistemic part of the uncertainty,
        or the volume.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]], threshold=0.1)
    >>> sizes(sets, ax=Figure().subplots()).get_xlabel()
    'width'
    """
    style.check_sets(sets)
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, but is {measure!r}.")
    values = sets.uncertainty().epistemic if measure == "epistemic" else getattr(sets, measure)()
    return _distribution(ax, values, MEASURES[measure], "median", float(np.nanmedian(values)))


def scores(calibration: SplitCalibration, alpha: float = 0.1, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the calibration scores, with the threshold.

    Parameters
    ----------
    calibration : SplitCalibration
        A calibration with one threshold for all items.
    alpha : float
        Miscoverage rate in (0, 1).
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot. Scores that are infinite, or far beyond the threshold, are counted
        below the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv")
    >>> scores(calibration, ax=Figure().subplots()).get_xlabel()
    'calibration score (tv)'
    """
    values = calibration.scores
    threshold = float(calibration.threshold(alpha))
    name = f"calibration score ({calibration.score.name})"
    return _distribution(ax, values, name, "threshold", threshold)


def _distribution(ax: Axes | None, values: AnyArray, name: str, title: str, place: float) -> Axes:
    """Draw a histogram with a mark; a long tail beyond the mark is counted, not drawn."""
    ax = style.axes_or_new(ax)
    finite = values[np.isfinite(values)]
    end = max(np.quantile(finite, 0.99), LONGEST_TAIL * place) if np.isfinite(place) else np.inf
    inside = finite[finite <= end]
    bins = int(np.clip(2.0 * len(inside) ** (1 / 3), 5, 60))
    ax.hist(inside, bins=bins, color=(GREEN, 0.45), edgecolor=GREEN, linewidth=0.6)
    above: dict[str, Any] = {"va": "bottom", "fontsize": style.TINY}
    if np.isfinite(place):
        ax.axvline(place, color=BLACK, linewidth=1.0, linestyle=(0, (4, 2)))
        across = ax.get_xaxis_transform()
        ax.text(place, 1.0, f"{title} {place:.3g}", ha="center", transform=across, **above)
    beyond = len(values) - len(inside)
    below = f"{name}\n({beyond} of {plural(len(values), 'item')} beyond)" if beyond else name
    ax.set(xlabel=below, ylabel="items")
    style.tidy(ax)
    return ax


def rejection(sets: CredalSet, votes: Any, *, legend: bool = True, ax: Axes | None = None) -> Axes:
    """Draw accuracy against the share of items that are kept, by what decides which to keep.

    Accuracy is the share of the votes for the likeliest label of the prediction. Items are kept by
    the lower bound of this label in the set, by its predicted share, and by an oracle that knows
    the votes. Curves begin at 20 items, since the agreement of fewer is mostly chance.

    Parameters
    ----------
    sets : CredalSet
        N sets.
    votes : array or data frame of shape (N, K), or Annotations
        Counts or distributions of votes.
    legend : bool
        Whether to add a legend above the plot.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=20, random_state=0)
    >>> p, counts = data.distributions, data.counts
    >>> sets = cs.conformalize(p[:300], counts[:300]).predict_set(p[300:], 0.1)
    >>> ax = rejection(sets, counts[300:], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['lower bound', 'predicted share', 'oracle']
    """
    style.check_sets(sets)
    labels = sets._batch.votes(votes)
    strip = RangeStrip.of(sets, labels)
    is_new = ax is None
    ax = style.axes_or_new(ax)
    loss = 1.0 - strip.share
    curves: dict[str, tuple[FloatArray, Any, Any]] = {
        "lower bound": (-np.nan_to_num(strip.lower, nan=-1.0), GREEN, "-"),
        "predicted share": (-strip.predicted, BLUE, (0, (3, 1.5))),
        "oracle": (loss, GREY, ":"),
    }
    for name, (uncertainty, colour, dashes) in curves.items():
        curve = Rejection.of(uncertainty, loss)
        look = {"color": colour, "linestyle": dashes, "linewidth": 1.4}
        begin = min(FEWEST_KEPT, len(loss)) - 1
        ax.plot(curve.kept[begin:], 1.0 - curve.loss[begin:], label=name, **look)
    ax.set(xlim=(0, 1.02), xlabel="share of items kept", ylabel="agreement with people")
    style.tidy(ax)
    if legend:
        style.add_legend(ax, is_new=is_new, first=list(curves))
    return ax
