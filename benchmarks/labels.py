"""Label sets beside credal sets: whose label they contain, and how many labels they need.

Run ``python benchmarks/labels.py`` (ten seeds, about a minute), or ``--quick`` for a look. ChaosNLI
and CIFAR-10H need the data folder (``--data``, or the environment variable CREDALSET_DATA) and are
left out without it. The toy data are those of Stutz et al. (2023) but for their seed: three
overlapping Gaussians in the plane, with known posteriors. Every learner is a logistic regression on
shares of votes. Sizes are also given as ratios to the baseline, sets calibrated on every vote. The
script exits with status 1 if a guaranteed share falls short by more than 3.5 standard errors.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))  # for those who import this file rather than run it
from answers import print_table

import credalset as cs
from credalset.datasets import DataNotFoundError, load_chaosnli, load_cifar10h, make_synthetic
from credalset.exceptions import CredalSetWarning
from credalset.labels import LabelSets, annotator_labels, majority_labels
from credalset.predictors import SoftLabelClassifier

ALPHA = 0.1
SHARE = 0.75  # of the annotators of one item
COLUMNS = ("annotator", "majority", f"{SHARE:.0%} of annotators", "labels", "one label", "empty")
BASELINE = "every vote, by shares"
#: by method: which column it guarantees to be at least 1 - ALPHA
GUARANTEED = {
    BASELINE: "annotator",
    "every vote, 10 draws": "annotator",
    "10 draws, corrected": "annotator",
    "majority vote": "majority",
    "credal tv, E-admissible": "majority",
    "credal kl, E-admissible": "majority",
    f"{SHARE:.0%} of annotators": f"{SHARE:.0%} of annotators",
    f"credal kl, {SHARE:.0%} of annotators": f"{SHARE:.0%} of annotators",
}
Maker = Callable[[int], tuple[Any, Any, tuple[int, int, int]]]


def tasks(folder: str | None) -> dict[str, Maker]:
    """Features, counts and sizes of parts (training, calibration, test), by data set and seed."""
    found: dict[str, Maker] = {}
    try:
        nli = load_chaosnli("roberta", folder)
        found["ChaosNLI"] = lambda seed: (nli.features, nli.counts, (len(nli) - 1500, 500, 1000))
        cifar = load_cifar10h(folder)
        found["CIFAR-10H"] = lambda seed: (cifar.logits, cifar.counts, (3000, 1000, 6000))
    except DataNotFoundError as error:
        print(f"Left out for lack of data: {error}\n")
    found["toy, 10 votes"] = toy
    for n_classes in (3, 10):
        found[f"synthetic, K = {n_classes}, 10 votes"] = synthetic(n_classes)
    return found


def toy(seed: int) -> tuple[Any, Any, tuple[int, int, int]]:
    """Three Gaussians of standard deviation 0.1, centres of standard deviation 0.3.

    Votes from the true posterior.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.5, 0.3, (3, 2))
    X = centres[rng.integers(3, size=7000)] + rng.normal(0.0, 0.1, (7000, 2))
    logits = -0.5 * (((X[:, None] - centres) / 0.1) ** 2).sum(axis=-1)
    posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
    counts = rng.multinomial(10, posterior / posterior.sum(axis=1, keepdims=True))
    return X, counts, (1000, 1000, 5000)


def synthetic(n_classes: int) -> Maker:
    def make(seed: int) -> tuple[Any, Any, tuple[int, int, int]]:
        data = make_synthetic(3500, n_classes, n_votes=10, random_state=seed)
        return data.X, data.counts, (1000, 500, 2000)

    return make


def parts(make: Maker, seed: int) -> tuple[Any, Any, Any, Any]:
    """Predictions and counts of the calibration and the test items, by a model of the rest."""
    X, counts, sizes = make(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    train, calib, test = np.split(order, np.cumsum(sizes))[:3]
    scaler = StandardScaler().fit(X[train])
    model = SoftLabelClassifier(LogisticRegression(max_iter=500)).fit(
        scaler.transform(X[train]), counts[train]
    )
    g_calib, g_test = (model.predict_proba(scaler.transform(X[rows])) for rows in (calib, test))
    return g_calib, counts[calib], g_test, counts[test]


def corrected(g: Any, counts: Any, g_new: Any, seed: int) -> LabelSets:
    """As published: p-values averaged on one half of the items, ranked among those of the other."""
    rng = np.random.default_rng(seed)
    half = len(g) // 2
    shares = counts / counts.sum(axis=1, keepdims=True)
    averaged = cs.labels.conformalize(g[:half], rng.multinomial(10, shares[:half]))
    drawn = rng.multinomial(1, shares[half:]).argmax(axis=1)
    held = np.sort(averaged.p_values(g[half:])[np.arange(len(drawn)), drawn])
    below = np.searchsorted(held, averaged.p_values(g_new), side="right")
    return LabelSets((1 + below) / (1 + len(held)) > ALPHA)


def methods(g: Any, counts: Any, g_new: Any, seed: int) -> dict[str, LabelSets]:
    """Label sets by every method."""
    drawn = np.random.default_rng(seed).multinomial(10, counts / counts.sum(axis=1, keepdims=True))
    found = {
        BASELINE: cs.labels.conformalize(g, counts).predict_set(g_new, ALPHA),
        "every vote, 10 draws": cs.labels.conformalize(g, drawn).predict_set(g_new, ALPHA),
        "10 draws, corrected": corrected(g, counts, g_new, seed),
        "majority vote": cs.labels.conformalize(g, counts, target="majority").predict_set(
            g_new, ALPHA
        ),
    }
    sets = {
        score: cs.conformalize(g, counts, score).predict_set(g_new, ALPHA) for score in ("tv", "kl")
    }
    return found | {
        "credal tv, E-admissible": majority_labels(sets["tv"]),
        "credal kl, E-admissible": majority_labels(sets["kl"]),
        f"{SHARE:.0%} of annotators": cs.labels.conformalize(g, counts, target=SHARE).predict_set(
            g_new, ALPHA
        ),
        f"credal kl, {SHARE:.0%} of annotators": annotator_labels(sets["kl"], SHARE),
    }


def measure(sets: LabelSets, counts: Any) -> dict[str, float]:
    """Coverage of each kind, and sizes."""
    share = sets.share(counts)
    sizes = sets.sizes()
    top = counts == counts.max(axis=1, keepdims=True)
    values = (
        share,
        (sets.members * top).sum(axis=1) / top.sum(axis=1),
        share >= SHARE - 1e-9,
        sizes,
        sizes == 1,
    )
    return dict(
        zip(COLUMNS, (float(np.mean(value)) for value in (*values, sizes == 0)), strict=True)
    )


def report(name: str, make: Maker, n_seeds: int) -> int:
    """Print one data set's table; return how many guarantees fall short."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in GUARANTEED}
    for seed in range(n_seeds):
        g, counts, g_new, new_counts = parts(make, seed)
        for method, sets in methods(g, counts, g_new, seed).items():
            found[method].append(measure(sets, new_counts))
    rows: list[tuple[str, ...]] = []
    n_broken = 0
    sizes = make(0)[2]
    for method, of_seeds in found.items():
        means = {column: float(np.mean([one[column] for one in of_seeds])) for column in COLUMNS}
        observed = [one[GUARANTEED[method]] for one in of_seeds]
        n_calib = sizes[1] // 2 if "corrected" in method else sizes[1]
        error = np.sqrt(ALPHA * (1 - ALPHA) * (1 / n_calib + 1 / sizes[2]) / n_seeds)
        n_broken += bool(np.mean(observed) < 1 - ALPHA - 3.5 * error)
        marks = {column: "*" if column == GUARANTEED[method] else "" for column in COLUMNS}
        size = f"{means['labels'] / np.mean([one['labels'] for one in found[BASELINE]]):.2f}"
        rows.append((method, *(f"{means[column]:.3f}{marks[column]}" for column in COLUMNS), size))
    print(f"{name}: alpha = {ALPHA}, {n_seeds} seeds; * is guaranteed to be at least {1 - ALPHA}")
    print_table([("sets", *COLUMNS, "labels vs every vote"), *rows])
    print(flush=True)
    return n_broken


def speed(n: int) -> None:
    """Print how long a batch takes, against one reading of its predictions."""
    rng = np.random.default_rng(0)
    g = rng.dirichlet(np.ones(10), n)
    truth = rng.dirichlet(np.ones(10), 1000)
    calibration = cs.labels.conformalize(truth, rng.multinomial(10, truth))
    times = {}
    for name, call in {"reading": g.sum, "predict_set": lambda: calibration.predict_set(g)}.items():
        runs = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            runs.append(time.perf_counter() - start)
        times[name] = min(runs)
    ratio = times["predict_set"] / times["reading"]
    print(
        f"{n:,} label sets over 10 classes: {times['predict_set']:.3f} s, {ratio:.0f} "
        "times one reading of the array\n"
    )


def main(arguments: list[str] | None = None) -> int:
    """Print every table; return 1 if a guarantee falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=None, help="folder of the data files")
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--only", default="", help="data sets whose names hold this text")
    options = parser.parse_args(arguments)
    speed(1000 if options.quick else 100_000)
    n_broken = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CredalSetWarning)  # empty sets are counted
        for name, make in tasks(options.data).items():
            if options.only in name:
                n_broken += report(name, make, 2 if options.quick else 10)
    print("every guarantee is kept" if not n_broken else f"{n_broken} guarantees fall short")
    return int(n_broken > 0)


if __name__ == "__main__":
    sys.exit(main())
