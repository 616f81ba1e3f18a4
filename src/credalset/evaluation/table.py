"""Evaluate calibrations on labelled items, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from credalset import metrics
from credalset._batch import name_array
from credalset._display import Rows, number_text, proportion, table_text
from credalset.evaluation.tested import AtLevel, TestedItems, read_tested
from credalset.evaluation.verdict import GUIDE, LEVEL, Verdict

Row = dict[str, Any]
MAX_PROBABILITIES = 10_000  # sets × classes to measure; of more sets a selection is measured
FEWEST_SETS = 50  # to measure, however many classes there are
MAX_GROUPS = 60  # rows of groups to print
#: columns of the printed tables
SHOWN = [
    *("score", "alpha", "coverage", "band", "verdict", "width", "constant_width"),
    *("epistemic", "labels", "decided", "volume", "empty", "n"),
]
QUARTILES = ("easiest", "second", "third", "hardest")
FEWEST_FOR_QUARTILES = 40  # items; fewer say nothing about a quarter of them
SHOWN_OF_QUARTILES = ["score", "alpha", *QUARTILES]
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
    - ``easiest``, ``second``, ``third``, ``hardest``: coverage by quartile of difficulty, the
      entropy of the prediction (with votes in hand, of the prediction given these); None for fewer
      than 40 items. The guarantee is an average over all items; even coverage is better.
    - ``threshold``: the threshold, or the mean if items have different thresholds.
    - ``empty``: number of empty sets.
    - ``n``: number of tested items.

    Attributes
    ----------
    verdicts : list of Verdict
        The verdict of each row.
    assumption : CrowdCheck or None
        Test of the assumption about votes, if votes cannot test the guarantee itself.
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
        self.assumption: Any = None

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
        self.assumption = self.assumption or other.assumption
        self.groups += [row | {"score": str(name)} for row in other.groups]

    def __str__(self) -> str:
        unused = {
            name for name in ("constant_width", "volume") if all(row[name] is None for row in self)
        }
        unused |= set() if any(row["empty"] for row in self) else {"empty"}
        shown = [name for name in SHOWN if name not in unused]
        judged = any(row["verdict"] for row in self.groups)
        of_group = [name for name in SHOWN_OF_GROUPS if judged or name not in ("band", "verdict")]
        by_quartile = [row for row in self if row["hardest"] is not None]
        of_quartiles = ""
        if by_quartile:
            table = _table(by_quartile, SHOWN_OF_QUARTILES)
            of_quartiles = f"Coverage by quartile of difficulty (predicted entropy):\n{table}"
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
            of_quartiles,
            of_groups,
            "\n".join(reasons[:MAX_GROUPS]),
        ]
        parts += [interval] if no_band else []
        parts += [] if self.assumption is None else [str(self.assumption)]
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
    predictions: Any,
    votes: Any,
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
    predictions : array or data frame of shape (N, K)
        Predictions for the test items. An array of shape (F, N, K) for a cross-conformal
        calibration, and features for a classifier.
    votes : array or data frame of shape (N, K), or Annotations
        Counts or label distributions of the test items.
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
        Votes in hand of the test items, for a `CrowdCalibration`. The argument ``votes`` then
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
        options = (alpha, groups, weights, volume, votes_in_hand)
        for name, one in numbered(calibration).items():
            rows.extend_as(name, evaluate(one, predictions, votes, *options))
        return rows
    tested = read_tested(calibration, predictions, votes, groups, weights, votes_in_hand)
    return evaluate_tested(tested, alpha, volume)


def evaluate_tested(
    tested: TestedItems, alpha: float | Sequence[float], volume: bool = False
) -> Evaluation:
    """Return the rows of all levels for items that are read."""
    rows = Evaluation()
    for level in alpha if isinstance(alpha, Iterable) else [alpha]:
        at_level = tested.predict(level)
        row, verdict = assess(at_level, tested, volume)
        by_group = coverage_by_group(at_level, tested)
        rows.extend_as(row["score"], Evaluation([row], [verdict], by_group))
    rows.assumption = tested.assumption
    return rows


def assess(at_level: AtLevel, tested: TestedItems, volume: bool = False) -> tuple[Row, Verdict]:
    """Return the row and the verdict of sets at one level."""
    alpha = at_level.alpha
    # All columns are about the same items; without votes, sizes are those of all sets.
    sets = at_level.sets[tested.rows] if len(tested.rows) else at_level.sets
    some = metrics.evenly(sets, max(FEWEST_SETS, MAX_PROBABILITIES // sets.n_classes))
    sizes = metrics.mean_sizes(some)
    constant = None
    if alpha is not None and tested.constant is not None:
        constant = tested.constant.width(alpha)
    of_sets: dict[str, Any] = {
        "constant_width": constant,
        "n_classes": sets.n_classes,
        "left_out": tested.left_out,
    }
    if len(sets):
        of_sets |= {"width": float(sizes["width"]), "labels": float(sizes["labels"])}
    verdict = tested.judge(at_level.covered, alpha, tested.rows, **of_sets)
    observed = proportion(int(at_level.covered.sum()), len(at_level.covered))
    band_low = band_high = None
    if verdict.valid is not None and verdict.band is not None:
        band_low, band_high = verdict.band
    row = {
        "score": sets.score.title,
        "alpha": alpha,
        "nominal": None if alpha is None else 1.0 - alpha,
        "coverage": observed,
        "coverage_low": observed.low,
        "coverage_high": observed.high,
        "band_low": band_low,
        "band_high": band_high,
        "verdict": verdict.status,
        "informative": verdict.informative,
        **sizes,
        "constant_width": constant,
        **tested.by_difficulty(at_level.covered, QUARTILES, FEWEST_FOR_QUARTILES),
        "volume": metrics.mean_volume(some) if volume else None,
        "threshold": float(sets.threshold.mean()) if len(sets) else np.nan,
        "empty": int(sets.is_empty().sum()),
        "n": len(at_level.covered),
    }
    return row, verdict


def coverage_by_group(at_level: AtLevel, tested: TestedItems) -> list[Row]:
    """Return the coverage of each group, with a verdict if the calibration guarantees it."""
    if tested.groups is None:
        return []
    rows = []
    keys = name_array(tested.groups)[tested.rows]
    is_guaranteed = tested.calibration is not None and tested.calibration.groups is not None
    for key, members in metrics.by_key(keys, np.arange(len(keys))).items():
        covered = at_level.covered[members]
        found: Row = {
            "score": at_level.sets.score.title,
            "alpha": at_level.alpha,
            "group": key,
            "n": len(covered),
            "coverage": proportion(int(covered.sum()), len(covered)),
            "band_low": None,
            "band_high": None,
            "verdict": None,
            "untested": "",
        }
        if is_guaranteed:
            verdict = tested.judge(covered, at_level.alpha, tested.rows[members])
            low, high = verdict.band or (None, None)
            found |= {"band_low": low, "band_high": high}
            found |= {"verdict": verdict.status, "untested": verdict.untested}
        rows.append(found)
    return rows


def numbered(calibrations: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    """Return calibrations by their names or those of their scores, numbered if names repeat."""
    if isinstance(calibrations, Mapping):
        return calibrations
    names = [one.calibration.score.title for one in calibrations]
    return {
        name if names.count(name) == 1 else f"{name} ({1 + names[:i].count(name)})": one
        for i, (name, one) in enumerate(zip(names, calibrations, strict=True))
    }
