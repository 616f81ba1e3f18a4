"""What a guarantee for the distribution behind the votes costs: coverage of the truth, and size of the sets.

Votes are simulated from known distributions, so that coverage of the truth can be counted. Each row is a predictor, a
score, a number of votes and a number of calibration items; each cell is coverage of the true distribution and, after
the slash, the mean share of the simplex that a set takes up. ``oracle`` is calibrated with the truth itself, ``plain``
with the shares of the votes and no claim about the truth; the others claim at least 1 − α and are held to it. The
script leaves with status 1 if one of them falls short by more than chance allows.

``--data`` does the same with real crowds: ChaosNLI (100 votes per pair) and CIFAR-10H (about 50 per image), of which
all but a few votes are hidden, and the shares of all of them stand for the truth. Sizes are mean widths there.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import credalset as cs

ALPHA = 0.1
N_TEST = 500
PROMISES = ("bounded", "sampling", "anytime", "unbiased", "certain", "average")
COLUMNS = ("oracle", "plain", *PROMISES)
Calibrations = dict[str, cs.Calibration]


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


def calibrations(g: np.ndarray, truth: np.ndarray, counts: np.ndarray, score: str, columns: list[str]) -> Calibrations:
    """Calibrate in every way that applies."""
    ways: dict[str, Callable[[], cs.Calibration]] = {
        "oracle": lambda: cs.conformalize(g, truth, score),
        "plain": lambda: cs.conformalize(g, counts, score),
        "bounded": lambda: cs.conformalize(
            g, counts, score, noise=cs.epsilon_from_counts(counts, ALPHA / 3, score, prediction=g)
        ),
        "sampling": lambda: cs.conformalize(g, counts, score, noise=cs.AnnotatorSampling()),
        "anytime": lambda: cs.conformalize(g, counts, score, noise=cs.AnnotatorSampling(region="anytime")),
        "unbiased": lambda: cs.conformalize(g, counts, score, noise=cs.UnbiasedVotes()),
        "certain": lambda: cs.conformalize(g, counts, score, noise=cs.FewVotes()),
        "average": lambda: cs.conformalize(g, counts, score, noise=cs.FewVotes(None)),
    }
    found = {}
    for name in columns:
        try:
            found[name] = ways[name]()
        except ValueError as error:
            if "FewVotes has no method" not in str(error):
                raise
    return found


def simulated(
    predictor: str, n: int, n_classes: int, votes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    truth = draw_truth(predictor, n + N_TEST, n_classes, rng)
    return PREDICTORS[predictor](truth, rng), truth, rng.multinomial(votes, truth)


def hidden(counts: np.ndarray, votes: int, rng: np.random.Generator) -> np.ndarray:
    """Keep a few of each item's votes."""
    return np.array([rng.multivariate_hypergeometric(row, votes) for row in counts])


def chaosnli(votes: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def cifar10h(votes: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images; the predictor is the softmax of a network that saw no votes."""
    data = cs.datasets.load_cifar10h()
    assert data.logits is not None
    rest = rng.permutation(len(data.counts))[: n + N_TEST]
    logits = data.logits[rest].astype(float)
    g = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = data.counts[rest] / data.counts[rest].sum(axis=1, keepdims=True)
    return g / g.sum(axis=1, keepdims=True), shares, hidden(data.counts[rest], votes, rng)


def measure(
    items: tuple[np.ndarray, np.ndarray, np.ndarray], n: int, score: str, columns: list[str], width: bool
) -> dict[str, tuple[float, float, float]]:
    """Return coverage, size and seconds of each calibration."""
    g, truth, counts = items
    found = {}
    for name in columns:
        start = time.perf_counter()
        made = calibrations(g[:n], truth[:n], counts[:n], score, [name])
        seconds = time.perf_counter() - start
        if made:
            sets = made[name].predict_set(g[n:], ALPHA)
            size = (sets.upper() - sets.lower()).mean() if width else cs.metrics.mean_volume(sets[:100], max_sets=100)
            found[name] = sets.contains(truth[n:]).mean(), float(size), seconds
    return found


def print_row(label: str, rows: list[dict[str, tuple[float, float, float]]], n: int, columns: list[str]) -> int:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--votes", type=int, nargs="+", default=[3, 5, 10, 100])
    parser.add_argument("--scores", nargs="+", default=["brier", "tv", "kl"])
    parser.add_argument("--items", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--predictors", nargs="+", default=list(PREDICTORS), choices=list(PREDICTORS))
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS), choices=list(COLUMNS))
    parser.add_argument("--data", nargs="*", default=[], choices=["chaosnli", "cifar10h"], help="real crowds instead")
    parser.add_argument("--repetitions", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", cs.CredalSetWarning)
    size = "mean width" if options.data else "mean volume"
    print(f"Coverage of the true distribution / {size}; 1 - alpha = {1 - ALPHA:g}.")
    print("predictor      score    K    m     n  " + "  ".join(name.rjust(12) for name in options.columns))
    sources = options.data or options.predictors
    broken = 0
    for source in sources:
        known = {"chaosnli": [3], "cifar10h": [10]}.get(source, options.classes)
        for score in options.scores:
            for n_classes in known:
                for votes in options.votes:
                    for n in [min(n, 2083 - N_TEST) if source == "chaosnli" else n for n in options.items]:
                        rng = np.random.default_rng([n_classes, votes, n])
                        rows = []
                        for _ in range(options.repetitions):
                            if source in PREDICTORS:
                                items = simulated(source, n, n_classes, votes, rng)
                            else:
                                items = (chaosnli if source == "chaosnli" else cifar10h)(votes, n, rng)
                            rows.append(measure(items, n, score, options.columns, width=bool(options.data)))
                        label = f"{source:13}  {score:6}  {n_classes:2}  {votes:3}  {n:4}"
                        broken += print_row(label, rows, n, options.columns)
    print("every promise kept" if broken == 0 else f"{broken} promises broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
