"""Evaluate calibrations on labelled items, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset import metrics
from credalset._display import Rows, number_text, proportion, table_text
from credalset._typing import FloatArray, IntArray
from credalset._validation import Checked
from credalset.evaluation.verdict import GUIDE, LEVEL, Verdict, constant_width, items_used, judge
from credalset.sets.credal_set import CredalSet
from credalset.votes import refuse_shared
from credalset.votes.names import item_names, name_array, per_item, read_labels


@dataclass(frozen=True, eq=False)
class Source:
    """A calibration with validated predictions for some items.

    Attributes
    ----------
    origin : Calibration, CrossCalibration, CrowdCalibration or ConformalCredalClassifier
        The object that was passed.
    calibration : Calibration, CrossCalibration or CrowdCalibration
        The calibration that gives the guarantee.
    predict : callable
        Returns the sets at a level.
    n : int
        Number of items.
    items : sequence or None
        Names of the items.
    groups : sequence or None
        Groups of the items, whether or not the calibration has groups.
    keys : list or None
        The groups that thresholds depend on; None if the calibration has no groups.
    in_hand : ndarray of n int or None
        Numbers of votes in hand, for a panel of a crowd.
    set_aside : ndarray of shape (n, K) or None
        Votes in hand that the sets do not use, and therefore cover.
    """

    origin: Any
    calibration: Any
    predict: Callable[[float], CredalSet]
    n: int
    items: Any
    groups: Any
    keys: list[Any] | None
    in_hand: IntArray | None = None
    set_aside: FloatArray | None = None

    @property
    def classes(self) -> Any:
        """Names of the classes, or their numbers."""
        return (
            range(self.calibration.n_classes)
            if self.calibration.classes is None
            else self.calibration.classes
        )

    @classmethod
    def read(
        cls,
        origin: Any,
        prediction: Any,
        groups: Any = None,
        weights: Any = None,
        votes_in_hand: Any = None,
    ) -> Source:
        """Read a calibration or a calibrated classifier, and the input of its predictions."""
        if not callable(getattr(origin, "predict_set", None)) or hasattr(origin, "target"):
            raise TypeError(
                "calibration must be a calibration of credal sets or a calibrated classifier, "
                f"but is a {type(origin).__name__}. Start with cs.conformalize(prediction, "
                "labels); label sets have sets.share."
            )
        if hasattr(origin, "crowd"):
            return cls._of_crowd(origin, prediction, groups, votes_in_hand)
        calibration = origin
        asked = prediction
        if hasattr(origin, "nonconformity"):
            calibration = origin._calibrated()
            asked = origin._predict(prediction)
        is_cross = hasattr(calibration, "check_models")
        if is_cross:
            blocks = calibration.check_models(asked)
            items = item_names(asked[0])
            asked = [Checked(block, items) for block in blocks]
        else:
            items = item_names(asked)
            asked = Checked(calibration.check(asked), items)
        groups = per_item(groups, items, "groups")
        fitted = calibration.fitted
        options: dict[str, Any] = {}
        if fitted.features is not None or (fitted.groups is not None and not fitted.predicted):
            options["groups"] = groups
        if fitted.weighted or weights is not None:  # weights that are not wanted are refused
            options["weights"] = per_item(weights, items, "weights")
        keys = (
            None
            if is_cross
            else fitted.keys_of(calibration.score, asked.prediction, options.get("groups"))
        )

        def predict(alpha: float) -> CredalSet:
            return calibration.predict_set(asked, alpha=alpha, **options)

        return cls(
            origin,
            calibration,
            predict,
            len(blocks[0] if is_cross else asked.prediction),
            items,
            groups,
            keys,
        )

    @classmethod
    def _of_crowd(cls, origin: Any, prediction: Any, groups: Any, votes_in_hand: Any) -> Source:
        """Read a calibration that predicts from votes in hand too."""
        items = item_names(prediction)
        calibration = origin
        groups = per_item(groups, items, "groups")
        voted = origin.crowd.read(prediction, votes_in_hand)
        in_hand = voted.n_votes if origin.method == "panel" else None
        given = voted.counts
        voted = voted if origin.policy is not None else origin.thin(voted)
        numbers = set(voted.n_votes.tolist())
        if origin.policy is None and len(numbers) == 1:
            # One number of votes has one threshold, so that the distribution of the coverage is
            # known.
            part = origin.calibrations[origin.in_hand.index(*numbers)]
            calibration = replace(origin, calibrations=(part,), in_hand=tuple(numbers))

        def predict(alpha: float) -> CredalSet:
            own = None if origin.groups is None else groups
            return origin.predict_set(prediction, voted.counts, alpha, groups=own)

        return cls(
            origin,
            calibration,
            predict,
            len(prediction),
            items,
            groups,
            None,
            in_hand,
            given - voted.counts,
        )

    def tested(self, labels: FloatArray, n_votes: FloatArray | None) -> tuple[FloatArray, str]:
        """Return the labels (N, K), and a note.

        Labels are NaN for items with fewer votes in all than the guarantee is for.
        """
        if self.in_hand is None or self.set_aside is None or n_votes is None:
            return labels, ""
        total = labels * n_votes[:, None] + self.set_aside
        labels = np.where(
            n_votes[:, None] > 0, total / np.maximum(total.sum(axis=1, keepdims=True), 1.0), labels
        )
        least = self.calibration.min_votes
        few = (self.in_hand + n_votes < least) & (n_votes > 0)
        note = (
            f"{few.sum()} items with fewer than {least} votes in all are left out, as they "
            "cannot test the guarantee."
        )
        return np.where(few[:, None], np.nan, labels), note if few.any() else ""


Row = dict[str, Any]
MAX_PROBABILITIES = 10_000  # sets × classes to measure; of more sets a selection is measured
FEWEST_SETS = 50  # to measure, however many classes there are
MAX_GROUPS = 60  # rows of groups to print
#: columns of the printed tables
SHOWN = [
    *("score", "alpha", "coverage", "band", "verdict", "width", "constant_width"),
    *("epistemic", "labels", "decided", "volume", "empty", "n"),
]
SHOWN_OF_GROUPS = ["score", "alpha", "group", "coverage", "interval", "band", "verdict", "n"]
HEADINGS = {"band": f"{LEVEL:.0%} band", "interval": "95% interval", "constant_width": "constant"}


class Evaluation(Rows):
    """List of dictionaries, one per score and level, that prints as a table.

    ``pandas.DataFrame(rows)`` works.

    The columns are:

    - ``score``, ``alpha``, ``nominal``: the name of the score, the miscoverage rate α, and 1 − α.
    - ``coverage``: share of covered items; ``coverage_low``, ``coverage_high``: its exact binomial
      interval (95%).
    - ``band_low``, ``band_high``: central 99% band of the observed coverage if the guarantee holds,
      for the numbers of calibration and test items at hand (beta-binomial); None if this
      distribution is not known.
    - ``verdict``: the status of the `Verdict`. It is ``"valid"`` within the band, ``"undercovers"``
      below, ``"overcovers"`` above, and ``"not tested"`` if the items cannot test the guarantee,
      for example because they were used for training or calibration (compared by name) or because
      they are too few. Without a band, the 99% interval of the coverage is compared with the
      guaranteed coverage.
    - ``informative``: whether the sets exclude labels and are narrower than those of a constant
      prediction.
    - ``width``, ``epistemic``, ``labels``, ``decided``, ``volume``: means of `credalset.metrics`
      with intervals. If there are many sets, an evenly spread selection is measured.
    - ``constant_width``: width of the sets of a constant prediction, the mean label distribution;
      None for a `CrowdCalibration`, whose sets also use votes.
    - ``threshold``: the threshold, or the mean if items have different thresholds.
    - ``empty``: number of empty sets.
    - ``n``: number of tested items.

    Attributes
    ----------
    verdicts : list of Verdict
        The verdict of each row.
    groups : list of dict
        Coverage of each group and level if there are groups, with bands and verdicts if the
        calibration guarantees coverage within each group. The list prints as a table.
    """

    def __init__(
        self, rows: Iterable[Row] = (), verdicts: Iterable[Verdict] = (), groups: Iterable[Row] = ()
    ) -> None:
        super().__init__(rows)
        self.verdicts = list(verdicts)
        self.groups = Rows(groups)

    @property
    def passed(self) -> bool:
        """Whether coverage is never too low, no item was used before, and a level was tested."""
        return all(v.passed for v in self.verdicts) and any(
            v.status != "not tested" for v in self.verdicts
        )

    def extend_as(self, name: str, other: Evaluation) -> None:
        """Add the rows of another evaluation under a name."""
        self += [row | {"score": str(name)} for row in other]
        self.verdicts += other.verdicts
        self.groups += [row | {"score": str(name)} for row in other.groups]

    def __str__(self) -> str:
        unused = {
            name for name in ("constant_width", "volume") if all(row[name] is None for row in self)
        }
        unused |= set() if any(row["empty"] for row in self) else {"empty"}
        shown = [name for name in SHOWN if name not in unused]
        judged = any(row["verdict"] for row in self.groups)
        of_group = [name for name in SHOWN_OF_GROUPS if judged or name not in ("band", "verdict")]
        of_groups = _table(self.groups[:MAX_GROUPS], of_group) if self.groups else ""
        reasons = [
            f"Not tested in group {row['group']}: {row['untested']}."
            for row in self.groups
            if row["untested"]
        ]
        no_band = any(
            verdict.band is None and verdict.valid is not None for verdict in self.verdicts
        )
        interval = (
            f"Without a band, the {LEVEL:.0%} interval of the coverage is compared with the "
            "guaranteed coverage."
        )
        parts = [
            "\n".join(self.headlines()),
            _table(self, shown),
            of_groups,
            "\n".join(reasons[:MAX_GROUPS]),
        ]
        parts += [interval] if no_band else []
        return "\n\n".join(filter(None, parts))

    def headlines(self) -> list[str]:
        """Return the lines above the table: items that test nothing, sets that do not inform."""
        lines = [
            f"Not tested: {v.used or v.untested}." for v in self.verdicts if v.used or v.untested
        ]
        lines += [v.left_out for v in self.verdicts if v.left_out]
        empty: dict[tuple[str, str], list[str]] = {}
        for row, verdict in zip(self, self.verdicts, strict=True):
            if verdict.uninformative:
                empty.setdefault((row["score"], verdict.uninformative), []).append(
                    f"{row['alpha']:g}"
                )
        for (score, why), levels in empty.items():
            lines.append(
                f"The {score} sets at alpha = {', '.join(levels)} {why.removeprefix('they ')}."
            )
        lines += [f"See the guide 'My sets are too large' ({GUIDE})."] if empty else []
        return list(dict.fromkeys(lines))


def _table(rows: Sequence[dict[str, Any]], shown: Sequence[str]) -> str:
    return table_text(
        [HEADINGS.get(name, name) for name in shown],
        [[cell(n, row) for n in shown] for row in rows],
        left=1,
    )


def cell(name: str, row: dict[str, Any]) -> str:
    """Return the text of one cell of the printed table."""
    if name == "band":
        low = row["band_low"]
        high = row["band_high"]
        return "-" if low is None else f"{low:.3f}-{high:.3f}"
    if name == "interval":
        return f"{row['coverage'].low:.3f}-{row['coverage'].high:.3f}"
    if name in ("alpha", "group"):
        return f"{row[name]:g}" if name == "alpha" else str(row[name])
    return number_text(row[name], decimals=3, significant=2)


def evaluate(
    calibration: Any,
    prediction: Any,
    labels: Any,
    alpha: float | Sequence[float] = (0.05, 0.1, 0.2),
    groups: Any = None,
    weights: Any = None,
    volume: bool = False,
    votes_in_hand: Any = None,
) -> Evaluation:
    """Measure coverage and size of sets on labelled items that the calibration has not seen.

    They must not have been used for training either.

    Parameters
    ----------
    calibration : any calibration, ConformalCredalClassifier, or list or dict of these
        The calibration to evaluate. Several calibrations, such as one per score, are compared in
        one table.
    prediction : array of shape (N, K)
        Predictions for the test items. An array of shape (F, N, K) for a cross-conformal
        calibration, and features for a classifier.
    labels : array of shape (N, K) or Annotations
        Label distributions or counts of the test items.
    alpha : float or sequence of floats
        Miscoverage rates.
    groups : sequence of N keys, or array of shape (N, d), optional
        Groups of the test items, as in ``predict_set``. Coverage by group is shown for any keys,
        also if the calibration has no groups.
    weights : array of shape (N,), optional
        Likelihood ratios of the test items if the calibration is weighted.
    volume : bool
        Whether to compute mean volumes, which takes long for many classes.
    votes_in_hand : array of shape (N, K) or Annotations, optional
        Votes in hand of the test items, for a `CrowdCalibration`. The argument ``labels`` then
        holds the other votes.

    Returns
    -------
    Evaluation
        One row per calibration and level; it prints as a table.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(600, random_state=0)
    >>> made = [cs.conformalize(data.distributions[:300], data.counts[:300], score)
    ...         for score in ("tv", "kl")]
    >>> rows = cs.evaluate(made, data.distributions[300:], data.counts[300:], alpha=0.1)
    >>> [(row["score"], row["verdict"], row["informative"]) for row in rows]
    [('tv', 'valid', True), ('kl', 'valid', True)]
    """
    rows = Evaluation()
    if isinstance(calibration, Mapping | list | tuple):
        for name, one in numbered(calibration).items():
            rows.extend_as(
                name,
                evaluate(one, prediction, labels, alpha, groups, weights, volume, votes_in_hand),
            )
        return rows
    source = Source.read(calibration, prediction, groups, weights, votes_in_hand)
    refuse_shared(labels, votes_in_hand, "labels")
    found = read_labels(labels, items=source.items, classes=source.classes)
    used = items_used(calibration, found.items if source.items is None else source.items)
    if source.n != len(found):
        raise ValueError(
            f"labels has {len(found)} rows, but there are {source.n} predictions. Pass one "
            "row per item."
        )
    tested, left_out = source.tested(
        found.distributions, None if found.counts is None else found.counts.sum(axis=1)
    )
    for level in alpha if isinstance(alpha, Iterable) else [alpha]:
        sets = source.predict(level)
        row, verdict = assess(sets, tested, level, source, used, volume, left_out)
        rows.extend_as(
            row["score"], Evaluation([row], [verdict], _of_groups(source, sets, tested, row, used))
        )
    return rows


def assess(
    sets: CredalSet,
    labels: FloatArray,
    alpha: float | None,
    source: Source | None = None,
    used: str = "",
    volume: bool = False,
    left_out: str = "",
) -> tuple[dict[str, Any], Verdict]:
    """Return the row and the verdict of sets at one level, on label distributions (N, K).

    Rows without a label are NaN.
    """
    voted = ~np.isnan(labels).any(axis=1)
    sets = sets[voted] if voted.any() else sets  # all columns are about the same items
    covered = sets.contains(labels[voted]) if voted.any() else np.zeros(0, dtype=bool)
    some = metrics.evenly(sets, max(FEWEST_SETS, MAX_PROBABILITIES // sets.n_classes))
    sizes = metrics.mean_sizes(some)
    calibration = None if source is None else source.calibration
    constant = None  # for a crowd it would have to use the votes in hand too
    if alpha is not None and not hasattr(calibration, "crowd"):
        constant = constant_width(sets.score, labels[voted], float(alpha))
    of_sets: dict[str, Any] = (
        {"width": float(sizes["width"]), "labels": float(sizes["labels"])} if len(sets) else {}
    )
    of_sets |= {"constant_width": constant, "n_classes": sets.n_classes, "left_out": left_out}
    keys = (
        None
        if source is None or source.keys is None
        else np.array(source.keys, dtype=object)[voted].tolist()
    )
    level = None if alpha is None else float(alpha)
    verdict = judge(calibration, covered, level, groups=keys, used=used, **of_sets)
    observed = proportion(int(covered.sum()), len(covered))
    low, high = (None, None) if verdict.valid is None else verdict.band or (None, None)
    row = {
        "score": sets.score.name,
        "alpha": level,
        "nominal": None if level is None else 1.0 - level,
    }
    row |= {"coverage": observed, "coverage_low": observed.low, "coverage_high": observed.high}
    row |= {
        "band_low": low,
        "band_high": high,
        "verdict": verdict.status,
        "informative": verdict.informative,
    }
    row |= sizes | {
        "constant_width": constant,
        "volume": metrics.mean_volume(some) if volume else None,
    }
    row |= {"threshold": float(sets.threshold.mean()) if len(sets) else np.nan}
    return row | {"empty": int(sets.is_empty().sum()), "n": len(covered)}, verdict


def _of_groups(
    source: Source, sets: CredalSet, labels: FloatArray, row: dict[str, Any], used: str
) -> list[dict[str, Any]]:
    """Return a row per group: its coverage, and a verdict if there is a guarantee within groups."""
    keys = source.groups if source.keys is None else source.keys
    if keys is None or np.ndim(keys) != 1:
        return []
    rows = []
    voted = ~np.isnan(labels).any(axis=1)
    covered = sets[voted].contains(labels[voted])
    for key, hits in metrics.by_key(name_array(keys)[voted], covered).items():
        verdict, low, high = None, None, None
        if getattr(source.calibration, "groups", None) is not None:
            groups = None if source.keys is None else [key] * len(hits)
            verdict = judge(source.calibration, hits, row["alpha"], groups=groups, used=used)
            low, high = verdict.band or (None, None)
        about = {"score": row["score"], "alpha": row["alpha"], "group": key, "n": len(hits)}
        status, untested = (None, "") if verdict is None else (verdict.status, verdict.untested)
        found = {"coverage": proportion(sum(hits), len(hits)), "band_low": low, "band_high": high}
        rows.append(about | found | {"verdict": status, "untested": untested})
    return rows


def numbered(calibrations: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    """Return calibrations by their names or those of their scores, numbered if names repeat."""
    if isinstance(calibrations, Mapping):
        return calibrations
    names = [str(getattr(one, "calibration_", one).score.name) for one in calibrations]
    return {
        name if names.count(name) == 1 else f"{name} ({1 + names[:i].count(name)})": one
        for i, (name, one) in enumerate(zip(names, calibrations, strict=True))
    }
