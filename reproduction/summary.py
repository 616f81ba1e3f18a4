"""Cells of an experiment's grid: averages over seeds, and whether coverage is what theory says.

A calibration set of n items and a rank k give coverage Beta(k, n + 1 − k), hence a beta-binomial
number of covered test items. With independent data for every seed, the numbers of the seeds add up;
splits of one data set overlap, and their mean is only known to vary no more than a single split
does, so it is held to the band of one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from credalset.calibration.levels import conformal_rank
from reproduction.batch import MEASURED, Row

KEY = ("experiment", "part", "n_classes", "n_votes", "n_train", "score", "alpha")
SPREAD = (
    "coverage",
    "coverage_true",
    "threshold",
    "efficiency",
)  # what varies over the seeds, and how much
FAMILY_ERROR = (
    0.01  # chance that any cell of an experiment with the promised coverage is called deviating
)


def summarize(rows: Iterable[Row], *, independent: bool) -> list[Row]:
    """Average rows over seeds and hold coverage against its distribution.

    Parameters
    ----------
    rows : iterable of dict
        Result rows of one experiment.
    independent : bool
        Whether seeds have data of their own, rather than splits of one data set.

    Returns
    -------
    list of dict
        One row per setting (`KEY`): the number of seeds, the averages of everything measured
        (``volume_error`` is that of the average), standard deviations over the seeds of `SPREAD`,
        and the band that coverage should be in with probability 95 %. ``verdict`` is ``"ok"``, or
        on which side of the band for every cell of the experiment at once (99 %) coverage is; ties
        and infinite thresholds raise it. ``truth_verdict`` is ``"ok"`` if the truth is covered as
        often as promised, ``"short"`` if not, ``"-"`` where it is unknown.
    """
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in KEY)].append(row)
    tail = FAMILY_ERROR / max(1, len(groups))
    return [
        dict(zip(KEY, key, strict=True)) | _averages(group, independent, tail)
        for key, group in groups.items()
    ]


def _averages(rows: list[Row], independent: bool, tail: float) -> Row:
    values = {
        name: np.array([row.get(name) for row in rows], dtype=np.float64) for name in MEASURED
    }
    mean = {name: float(np.mean(column)) for name, column in values.items()}
    mean["volume_error"] = float(np.sqrt((values["volume_error"] ** 2).sum()) / len(rows))
    with np.errstate(invalid="ignore"):  # infinite thresholds have no spread
        spread = {
            f"{name}_std": np.std(values[name], ddof=1) if len(rows) > 1 else math.nan
            for name in SPREAD
        }
    sizes = [rows[0][name] for name in ("n_calibration", "n_test", "alpha")]
    n_seeds = len(rows) if independent else 1
    (low, high), wide = (
        coverage_band(*sizes, n_seeds=n_seeds, error=error) for error in (0.05, tail)
    )
    coverage = mean["coverage"]
    truth = mean["coverage_true"]
    verdict = "low" if coverage < wide[0] else "high" if coverage > wide[1] else "ok"
    of_truth = (
        "-" if math.isnan(truth) else "ok" if truth >= 1 - rows[0]["alpha"] - 1e-12 else "short"
    )
    verdicts = {"band_low": low, "band_high": high, "verdict": verdict, "truth_verdict": of_truth}
    return {"n_seeds": len(rows), **mean, **spread, **verdicts}


def coverage_band(
    n_calibration: int, n_test: int, alpha: float, *, n_seeds: int = 1, error: float = 0.05
) -> tuple[float, float]:
    """Return the interval of the mean observed coverage of seeds with probability 1 − ``error``.

    Seeds are independent.

    Examples
    --------
    >>> [round(x, 3) for x in coverage_band(500, 500, 0.1)]
    [0.86, 0.934]
    >>> [round(x, 3) for x in coverage_band(500, 500, 0.1, n_seeds=10)]
    [0.888, 0.912]
    """
    rank = conformal_rank(n_calibration, alpha)
    if rank > n_calibration:
        return 1.0, 1.0
    distribution = _distribution(n_calibration, n_test, rank, n_seeds)
    low, high = np.searchsorted(distribution, [error / 2, 1 - error / 2])
    total = n_seeds * n_test
    return float(low / total), float(min(high, total) / total)


def shrinking(cells: Sequence[Row]) -> tuple[int, list[Row]]:
    """Return the number of series of thresholds over growing numbers of votes, and those that grow.

    A series grows if it does so anywhere.
    """
    series: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: cell["n_votes"]):
        if cell["n_votes"] > 0:
            series[tuple(cell[name] for name in KEY if name != "n_votes")].append(cell)
    long = [group for group in series.values() if len(group) > 1]
    growing = [
        group[0] | {"thresholds": [cell["threshold"] for cell in group]}
        for group in long
        if any(b["threshold"] > a["threshold"] + 1e-12 for a, b in pairwise(group))
    ]
    return len(long), growing


@lru_cache(maxsize=256)
def _distribution(n_calibration: int, n_test: int, rank: int, n_seeds: int) -> np.ndarray[Any, Any]:
    """Cumulative distribution of the number of covered test items of all seeds."""
    from scipy.stats import betabinom

    one = betabinom.pmf(np.arange(n_test + 1), n_test, rank, n_calibration + 1 - rank)
    total = one
    for _ in range(n_seeds - 1):
        total = np.convolve(total, one)
    return np.cumsum(total)
