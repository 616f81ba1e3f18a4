"""What a guarantee for the distribution behind the votes costs: coverage of the truth, and size of the sets.

Votes are simulated from known distributions, so that coverage of the truth can be counted. Each row is a predictor, a
score, a number of votes and a number of calibration items; each cell is coverage of the true distribution and, after
the slash, the mean share of the simplex that a set takes up. ``oracle`` is calibrated with the truth itself, ``plain``
with the shares of the votes and no claim about the truth; the others claim at least 1 − α and are held to it. The
script leaves with status 1 if one of them falls short by more than chance allows.

``--data`` does the same with real crowds: ChaosNLI (100 votes per pair) and CIFAR-10H (about 50 per image), of which
all but a few votes are hidden, and the shares of all of them stand for the truth. Sizes are mean widths there. (Votes
that are drawn from a heap without putting them back scatter a little less than draws from its shares would.)
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import credalset as cs

ALPHA = 0.1
N_TEST = 500
PROMISES = ("bounded", "sampling", "anytime", "unbiased", "certain", "average", "auto")
COLUMNS = ("oracle", "plain", *PROMISES)
Items = tuple[np.ndarray, np.ndarray, np.ndarray]  # predictions, truth, votes
Cells = dict[str, tuple[float, float, float]]  # coverage, size and seconds


def mixed(share: float) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """A predictor that knows a share of the truth."""
    return lambda truth, rng: share * truth + (1.0 - share) * rng.dirichlet(np.ones(truth.shape[1]), len(truth))


def overconfident(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All but certain of the majority class, as networks trained on single votes become."""
    peak = np.eye(truth.shape[1])[truth.argmax(axis=1)]
    return 0.999 * peak + 0.001 / truth.shape[1]


PREDICTORS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "good": mixed(0.9),
    "fair": mixed(0.7),
    "poor": mixed(0.3),
    "overconfident": overconfident,
}


def draw_truth(predictor: str, n: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    if predictor != "overconfident":
        return rng.dirichlet(np.full(n_classes, 0.7), n)
    # Nearly unanimous crowds: a single vote almost always agrees with the prediction, the crowd never does entirely.
    minority = rng.uniform(0.02, 0.08, (n, 1)) * rng.dirichlet(np.ones(n_classes), n)
    minority[np.arange(n), rng.integers(0, n_classes, n)] += 1.0 - minority.sum(axis=1)
    return minority


def calibrate(name: str, items: Items, n: int, score: str) -> cs.Calibration | None:
    """Calibrate on the first n items; None where the noise model has nothing to offer."""
    g, truth, counts = (part[:n] for part in items)
    if name in ("oracle", "plain"):
        return cs.conformalize(g, truth if name == "oracle" else counts, score)
    noises: dict[str, Callable[[], Any]] = {
        "bounded": lambda: cs.epsilon_from_counts(counts, ALPHA / 3, score, prediction=g),
        "sampling": cs.AnnotatorSampling,
        "anytime": lambda: cs.AnnotatorSampling(region="anytime"),
        "unbiased": cs.UnbiasedVotes,
        "certain": cs.FewVotes,
        "average": lambda: cs.FewVotes(None),
        "auto": lambda: "auto",
    }
    try:
        return cs.conformalize(g, counts, score, noise=noises[name]())
    except ValueError as error:
        if "FewVotes has no method" not in str(error):
            raise
        return None


def simulated(predictor: str, n: int, n_classes: int, votes: int, rng: np.random.Generator) -> Items:
    truth = draw_truth(predictor, n + N_TEST, n_classes, rng)
    return PREDICTORS[predictor](truth, rng), truth, rng.multinomial(votes, truth)


def hidden(counts: np.ndarray, votes: int, rng: np.random.Generator) -> np.ndarray:
    """Keep a few of each item's votes."""
    return np.array([rng.multivariate_hypergeometric(row, votes) for row in counts])


def chaosnli(votes: int, n: int, rng: np.random.Generator) -> Items:
    """Sentence pairs; the predictor learns from 1 000 pairs with as few votes."""
    from sklearn.linear_model import LogisticRegression

    data = cs.datasets.load_chaosnli("roberta")
    assert data.features is not None
    order = rng.permutation(len(data))
    few = hidden(data.counts, votes, rng)
    learner = cs.SoftLabelClassifier(LogisticRegression(max_iter=1000, C=0.1))
    learner.fit(data.features[order[:1000]], few[order[:1000]])
    rest = order[1000 : 1000 + n + N_TEST]
    return learner.predict_proba(data.features[rest]), data.distributions[rest], few[rest]


def cifar10h(votes: int, n: int, rng: np.random.Generator) -> Items:
    """Images; the predictor is the softmax of a network that saw no votes."""
    data = cs.datasets.load_cifar10h()
    assert data.logits is not None
    rest = rng.permutation(len(data.counts))[: n + N_TEST]
    logits = data.logits[rest].astype(float)
    g = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = data.counts[rest] / data.counts[rest].sum(axis=1, keepdims=True)
    return g / g.sum(axis=1, keepdims=True), shares, hidden(data.counts[rest], votes, rng)


#: real crowds: items by number of votes and of calibration items, number of classes, most calibration items
CROWDS = {"chaosnli": (chaosnli, 3, 1583), "cifar10h": (cifar10h, 10, 9500)}


def measure(items: Items, n: int, score: str, columns: list[str], width: bool) -> Cells:
    """Calibrate in every way on the first n items, and look at the others."""
    found = {}
    for name in columns:
        start = time.perf_counter()
        calibration = calibrate(name, items, n, score)
        if calibration is not None:
            sets = calibration.predict_set(items[0][n:], ALPHA)
            seconds = time.perf_counter() - start
            size = (sets.upper() - sets.lower()).mean() if width else cs.metrics.mean_volume(sets[:100], max_sets=100)
            found[name] = sets.contains(items[1][n:]).mean(), float(size), seconds
    return found


def print_row(label: str, rows: list[Cells], n: int, columns: list[str]) -> int:
    """Print the means over repetitions; return how many promises were broken."""
    cells, broken = [], 0
    slack = 3.0 * math.sqrt(ALPHA * (1 - ALPHA) * (1 / n + 1 / N_TEST) / len(rows))
    for name in columns:
        if name not in rows[0]:
            cells.append("–".rjust(12))
            continue
        coverage, size, _ = np.mean([row[name] for row in rows], axis=0)
        cells.append(f"{coverage:.2f}/{size:.2g}".rjust(12))
        broken += name in PROMISES and coverage < 1 - ALPHA - slack
    print(f"{label}  {'  '.join(cells)}", flush=True)
    return broken


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--votes", type=int, nargs="+", default=[3, 5, 10, 100])
    parser.add_argument("--scores", nargs="+", default=["brier", "tv", "kl"])
    parser.add_argument("--items", type=int, nargs="+", default=[500, 5000], help="for calibration")
    parser.add_argument("--predictors", nargs="+", default=list(PREDICTORS), choices=list(PREDICTORS))
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS), choices=list(COLUMNS))
    parser.add_argument("--data", nargs="+", default=[], choices=list(CROWDS), help="real crowds instead")
    parser.add_argument("--repetitions", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    warnings.simplefilter("ignore", cs.CredalSetWarning)
    size, columns = "mean width" if options.data else "mean volume", options.columns
    print(f"Coverage of the true distribution / {size}; 1 - alpha = {1 - ALPHA:g}.")
    print("predictor      score    K    m     n  " + "  ".join(name.rjust(12) for name in columns))
    broken, seconds = 0, dict.fromkeys(columns, 0.0)
    for source, score in product(options.data or options.predictors, options.scores):
        read, k, most = CROWDS.get(source, (None, None, None))
        for n_classes, votes, items in product([k] if k else options.classes, options.votes, options.items):
            n, rows = min(items, most or items), []
            rng = np.random.default_rng([n_classes, votes, n])
            for _ in range(options.repetitions):
                data = read(votes, n, rng) if read else simulated(source, n, n_classes, votes, rng)
                rows.append(measure(data, n, score, columns, width=bool(options.data)))
            broken += print_row(f"{source:13}  {score:6}  {n_classes:2}  {votes:3}  {n:4}", rows, n, columns)
            seconds |= {name: max(seconds[name], *(row[name][2] for row in rows)) for name in rows[0]}
    print("longest calibration, seconds:  " + ", ".join(f"{name} {value:.1f}" for name, value in seconds.items()))
    print("every promise kept" if broken == 0 else f"{broken} promises broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
