"""What a guarantee for the distribution behind the votes costs: coverage of the truth, and volume of the sets.

Votes are simulated from known distributions, so that coverage of the truth can be counted. Each row is a predictor, a
score and a number of votes; each cell is coverage of the true distribution and, after the slash, the mean share of the
simplex that a set takes up. ``oracle`` is calibrated with the truth itself, ``plain`` with the shares of the votes and
no claim about the truth; the other three claim at least 1 − α and are held to it. The script leaves with status 1 if
one of them falls short by more than chance allows.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable

import numpy as np

import credalset as cs

ALPHA = 0.1
N_CALIB, N_TEST = 500, 500
PROMISES = ("bounded", "sampling", "unbiased")


def good(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 0.9 * truth + 0.1 * rng.dirichlet(np.ones(truth.shape[1]), len(truth))


def poor(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 0.3 * truth + 0.7 * rng.dirichlet(np.ones(truth.shape[1]), len(truth))


def overconfident(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All but certain of the majority class, as networks trained on single votes become."""
    peak = np.eye(truth.shape[1])[truth.argmax(axis=1)]
    return 0.999 * peak + 0.001 / truth.shape[1]


PREDICTORS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "good": good,
    "poor": poor,
    "overconfident": overconfident,
}


def draw_truth(predictor: str, n: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    if predictor != "overconfident":
        return rng.dirichlet(np.full(n_classes, 0.7), n)
    # Nearly unanimous crowds: a single vote almost always agrees with the prediction, the crowd never does entirely.
    minority = rng.uniform(0.02, 0.08, (n, 1)) * rng.dirichlet(np.ones(n_classes), n)
    minority[np.arange(n), rng.integers(0, n_classes, n)] += 1.0 - minority.sum(axis=1)
    return minority


def calibrations(g: np.ndarray, truth: np.ndarray, counts: np.ndarray, score: str) -> dict[str, cs.Calibration]:
    bounded = cs.epsilon_from_counts(counts, ALPHA / 3, score, prediction=g)
    return {
        "oracle": cs.conformalize(g, truth, score),
        "plain": cs.conformalize(g, counts, score),
        "bounded": cs.conformalize(g, counts, score, noise=bounded),
        "sampling": cs.conformalize(g, counts, score, noise=cs.AnnotatorSampling()),
        "unbiased": cs.conformalize(g, counts, score, noise=cs.UnbiasedVotes()),
    }


def run(predictor: str, score: str, n_classes: int, votes: int, repetitions: int) -> dict[str, tuple[float, float]]:
    rng = np.random.default_rng([n_classes, votes])
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repetitions):
        truth = draw_truth(predictor, N_CALIB + N_TEST, n_classes, rng)
        g, counts = PREDICTORS[predictor](truth, rng), rng.multinomial(votes, truth)
        fitted = calibrations(g[:N_CALIB], truth[:N_CALIB], counts[:N_CALIB], score)
        for name, calibration in fitted.items():
            sets = calibration.predict_set(g[N_CALIB:], ALPHA)
            volume = float(cs.metrics.mean_volume(sets[:40], max_sets=40))
            found.setdefault(name, []).append((sets.contains(truth[N_CALIB:]).mean(), volume))
    return {name: (np.mean([c for c, _ in cells]), np.mean([v for _, v in cells])) for name, cells in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--votes", type=int, nargs="+", default=[1, 3, 5, 10, 100])
    parser.add_argument("--scores", nargs="+", default=["tv", "kl", "inner"])
    parser.add_argument("--repetitions", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", cs.CredalSetWarning)
    slack = 3.0 * math.sqrt(ALPHA * (1 - ALPHA) * (1 / N_CALIB + 1 / N_TEST) / options.repetitions)
    names = ("oracle", "plain", *PROMISES)
    print(f"Coverage of the true distribution / mean volume; 1 - alpha = {1 - ALPHA:g}, {N_CALIB} calibration items.")
    print("predictor      score   K    m  " + "  ".join(name.rjust(12) for name in names))
    short = 0
    for predictor in PREDICTORS:
        for score in options.scores:
            for n_classes in options.classes:
                for votes in options.votes:
                    row = run(predictor, score, n_classes, votes, options.repetitions)
                    cells = "  ".join(f"{row[name][0]:.2f}/{row[name][1]:.2g}".rjust(12) for name in names)
                    print(f"{predictor:13}  {score:5}  {n_classes:2}  {votes:3}  {cells}", flush=True)
                    short += sum(row[name][0] < 1 - ALPHA - slack for name in PROMISES)
    print("every promise kept" if short == 0 else f"{short} promises broken")
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())
