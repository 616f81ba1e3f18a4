"""What a guarantee for the true distribution costs, by number of votes.

Measured are thresholds, volumes and coverage of the truth.

Votes are drawn from known distributions, so that coverage of the truth can be counted. ``oracle``
is calibrated with the truth itself, ``plain`` with the shares of the votes and without any
guarantee for the truth; the others guarantee 1 − α for it. The baseline is ``plain``: thresholds
and volumes are given as they are and as ratios to it, in the same run.

    python benchmarks/noise.py            # 5 000 calibration items, 5 repetitions, a minute or two
    python benchmarks/noise.py --quick    # to see that it runs

The script exits with status 1 if a guarantee falls short by more than chance allows.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # for those who import this file rather than run it
from answers import print_table

import credalset as cs

ALPHA = 0.1
VOTES = (3, 5, 10, 100)
N_TEST, N_VOLUMES = 1000, 100
BASELINE = "plain"
NOISES: dict[str, Any] = {
    "oracle": None,
    BASELINE: None,
    "UnbiasedVotes": cs.UnbiasedVotes(),
    "AnnotatorSampling": cs.AnnotatorSampling(),
    "FewVotes": cs.FewVotes(),
}
#: share of the truth that a predictor knows; "sure" is all but certain of the majority where crowds
#: nearly agree
PREDICTORS = {"good": 0.9, "fair": 0.7, "sure": None}


def draw(predictor: str, n: int, n_classes: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return predictions and true distributions."""
    known = PREDICTORS[predictor]
    if known is not None:
        truth = rng.dirichlet(np.full(n_classes, 0.7), n)
        return known * truth + (1.0 - known) * rng.dirichlet(np.ones(n_classes), n), truth
    truth = rng.uniform(0.02, 0.08, (n, 1)) * rng.dirichlet(np.ones(n_classes), n)
    truth[np.arange(n), rng.integers(0, n_classes, n)] += 1.0 - truth.sum(axis=1)
    return 0.999 * np.eye(n_classes)[truth.argmax(axis=1)] + 0.001 / n_classes, truth


def measure(noise: str, score: str, items: tuple[Any, Any, Any], n: int) -> list[float]:
    """Calibrate on the first n items and measure the sets on the others.

    Return the threshold, the volume and the coverage of the truth.
    """
    prediction, truth, counts = items
    labels = truth[:n] if noise == "oracle" else counts[:n]
    sets = cs.conformalize(prediction[:n], labels, score, noise=NOISES[noise]).predict_set(
        prediction[n:], ALPHA
    )
    volume = np.mean(sets[:N_VOLUMES].volume(random_state=0, n_rays=256))
    return [float(sets.threshold.mean()), float(volume), float(sets.contains(truth[n:]).mean())]


def run(predictor: str, score: str, options: argparse.Namespace) -> int:
    """Print a table, a row per number of votes and noise model; return how many guarantees fail."""
    noises = [name for name in NOISES if name != "FewVotes" or score == "brier"]
    rows: list[tuple[str, ...]] = [
        (
            "votes",
            "noise",
            "threshold",
            f"vs {BASELINE}",
            "volume",
            f"vs {BASELINE}",
            "coverage of the truth",
        )
    ]
    slack = 3.5 * math.sqrt(
        ALPHA * (1 - ALPHA) * (1 / options.items + 1 / N_TEST) / options.repetitions
    )
    n_short = 0
    for votes in VOTES:
        found: dict[str, list[list[float]]] = {name: [] for name in noises}
        for seed in range(options.repetitions):
            rng = np.random.default_rng([votes, seed])
            prediction, truth = draw(predictor, options.items + N_TEST, options.classes, rng)
            items = prediction, truth, rng.multinomial(votes, truth)
            for name in noises:
                found[name].append(measure(name, score, items, options.items))
        means = {name: np.mean(values, axis=0) for name, values in found.items()}
        for name, (threshold, volume, coverage) in means.items():
            base = means[BASELINE]
            short = name != BASELINE and coverage < 1 - ALPHA - slack
            n_short += short
            ratios = [
                _ratio(value, of) for value, of in zip((threshold, volume), base, strict=False)
            ]
            cells = (
                f"{threshold:.3g}",
                ratios[0],
                f"{volume:.3g}",
                ratios[1],
                f"{coverage:.3f}{'!' if short else ''}",
            )
            rows.append((str(votes), name, *cells))
    print(
        f"predictor {predictor}, score {score}, K = {options.classes}, "
        f"{options.items:,d} items, α = {ALPHA}"
    )
    print_table(rows)
    print(flush=True)
    return n_short


def _ratio(value: float, of: float) -> str:
    return f"{value / of:.2f}" if of > 0 else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--items", type=int, default=5000, help="for calibration")
    parser.add_argument("--scores", nargs="+", default=["brier", "tv"])
    parser.add_argument(
        "--predictors", nargs="+", default=list(PREDICTORS), choices=list(PREDICTORS)
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repetition, few items")
    options = parser.parse_args(arguments)
    if options.quick:
        options.items = 500
        options.repetitions = 1
        options.predictors = options.predictors[:1]
    warnings.simplefilter("ignore", cs.CredalSetWarning)
    n_short = sum(
        run(predictor, score, options)
        for predictor in options.predictors
        for score in options.scores
    )
    print("every guarantee is kept" if n_short == 0 else f"{n_short} guarantees fall short")
    return int(n_short > 0)


if __name__ == "__main__":
    sys.exit(main())
