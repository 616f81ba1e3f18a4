"""Thresholds that follow features: coverage of kinds that overlap, sizes of the sets, and time.

Run ``python benchmarks/conditional.py`` (a few minutes), or ``--quick`` for a look. ChaosNLI and
CIFAR-10H need the data folder (``--data``, or the environment variable CREDALSET_DATA) and are left
out without it. The baseline of widths is one threshold for all, that of times one quantile. The
script exits with status 1 if a kind is covered less than guaranteed by more than 3.5 standard
errors.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))  # for those who import this file rather than run it
from answers import print_table

import credalset as cs
from credalset.calibration.conditional import conditional_quantiles
from credalset.datasets import DataNotFoundError, load_chaosnli, load_cifar10h
from credalset.predictors import SoftLabelClassifier

ALPHA = 0.1
BASELINE = "one threshold"
N_CALIB = 500


def tasks(folder: str | None) -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Features, counts and kinds of the items, by data set.

    All but synthetic ones are split anew for each seed.
    """
    found: dict[str, tuple[Any, Any, dict[str, Any]]] = {}
    try:
        nli = load_chaosnli("roberta", folder)
        found["ChaosNLI"] = (nli.features, nli.counts, {"MNLI": np.asarray(nli.source) == "mnli_m"})
        cifar = load_cifar10h(folder)
        found["CIFAR-10H"] = (cifar.logits, cifar.counts, {})
    except DataNotFoundError as error:
        print(f"Left out for lack of data: {error}\n")
    return found


def real(X: Any, counts: Any, kinds: dict[str, Any], seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Predictions for the items that a logistic regression was not trained on, and their kinds.

    The kinds are read off the predictions too.
    """
    order = np.random.default_rng(seed).permutation(len(X))
    train = order[: len(X) // 3]
    rest = order[len(X) // 3 :]
    scaler = StandardScaler().fit(X[train])
    model = SoftLabelClassifier(LogisticRegression(max_iter=500)).fit(
        scaler.transform(X[train]), counts[train]
    )
    g = model.predict_proba(scaler.transform(X[rest]))
    entropy = -(g * np.log(g + 1e-300)).sum(axis=1)
    top = {f"class {k}": g.argmax(axis=1) == k for k in range(min(g.shape[1], 4))}
    unsure = {
        "unsure": entropy > np.median(entropy),
        "very unsure": entropy > np.quantile(entropy, 0.9),
    }
    return g, counts[rest], {name: kind[rest] for name, kind in kinds.items()} | top | unsure


def synthetic(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Three kinds that overlap, for two of which predictions are worse."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet([0.7] * 3, 2500)
    kinds = {
        "long": rng.random(2500) < 0.3,
        "new user": rng.random(2500) < 0.2,
        "money": rng.random(2500) < 0.5,
    }
    doubt = 0.05 + 0.35 * kinds["long"] + 0.45 * kinds["new user"]
    g = (1 - doubt)[:, None] * truth + doubt[:, None] * rng.dirichlet([1] * 3, 2500)
    return g, rng.multinomial(10, truth), kinds


def measure(g: Any, counts: Any, kinds: dict[str, Any]) -> dict[str, dict[str, tuple[float, int]]]:
    """Coverage of each kind, and how many items of it were tested, by method.

    The mean width is a kind of its own.
    """
    columns = np.column_stack(list(kinds.values()))
    old = slice(0, N_CALIB)
    new = slice(N_CALIB, None)
    keys = ["".join("01"[int(x)] for x in row) for row in columns]
    sets = {
        BASELINE: cs.conformalize(g[old], counts[old], "kl").predict_set(g[new], ALPHA),
        "a threshold per combination": cs.conformalize(
            g[old], counts[old], "kl", groups=keys[old]
        ).predict_set(g[new], ALPHA, groups=keys[new]),
        "thresholds that follow": cs.conformalize(
            g[old], counts[old], "kl", groups=cs.Conditional(columns[old])
        ).predict_set(g[new], ALPHA, groups=columns[new]),
    }
    shares = counts[new] / counts[new].sum(axis=1, keepdims=True)
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for method, some in sets.items():
        hits = some.contains(shares)
        by_kind = {
            name: (float(hits[kind[new]].mean()), int(kind[new].sum()))
            for name, kind in kinds.items()
        }
        width = float(cs.metrics.mean_width(some))
        found[method] = {"all": (float(hits.mean()), len(hits))} | by_kind | {"width": (width, 0)}
    return found


def report(name: str, make: Any, n_seeds: int) -> int:
    """Print one data set's table; return how many kinds fall short of what they are guaranteed."""
    of_seeds = [measure(*make(seed)) for seed in range(n_seeds)]
    columns = list(of_seeds[0][BASELINE])
    rows: list[tuple[str, ...]] = [("sets", *columns, f"vs {BASELINE}")]
    n_short = 0
    for method in of_seeds[0]:
        means = {
            column: float(np.mean([one[method][column][0] for one in of_seeds]))
            for column in columns
        }
        ratio = means["width"] / np.mean([one[BASELINE]["width"][0] for one in of_seeds])
        rows.append((method, *(f"{value:.3f}" for value in means.values()), f"{ratio:.2f}"))
        for column in columns[:-1] if method == "thresholds that follow" else []:
            n_new = float(np.mean([one[method][column][1] for one in of_seeds]))
            n_old = N_CALIB * n_new / of_seeds[0][method]["all"][1]
            error = np.sqrt(ALPHA * (1 - ALPHA) * (1 / n_old + 1 / n_new) / n_seeds)
            n_short += bool(means[column] < 1 - ALPHA - 3.5 * error)
    print(f"{name}: coverage by kind at alpha = {ALPHA}, score kl, {n_seeds} seeds")
    print_table(rows)
    print(flush=True)
    return n_short


def speed(n: int, n_new: int) -> None:
    """Print how long thresholds take, in all and for the processor, for numbers and for groups."""
    rng = np.random.default_rng(0)
    for name, Z in (
        ("numbers", rng.normal(size=(n + n_new, 10))),
        ("groups", rng.random((n + n_new, 10)) < 0.3),
    ):
        columns = np.column_stack([np.ones(n + n_new), Z]).astype(float)
        scores = np.abs(rng.normal(size=n)) * np.exp(0.3 * Z[:n, 0])
        start = time.perf_counter()
        used = time.process_time()
        found = conditional_quantiles(scores, columns[:n], ALPHA, columns[n:])
        taken = time.perf_counter() - start
        worked = time.process_time() - used
        used = time.process_time()
        for _ in range(100):
            np.quantile(scores, 1 - ALPHA)
        one = (time.process_time() - used) / 100
        each = (
            f"{1e6 * worked / n_new:.0f} µs of processor time each, "
            f"{worked / n_new / one:.1f} times one quantile"
        )
        print(
            f"{n_new:,} thresholds, {n:,} items, ten features ({name}): {taken:.2f} s, {each}",
            end="",
        )
        print(f", {int(np.isinf(found).sum())} infinite", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Print every table; return 1 if a kind falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=None, help="folder of the data files")
    parser.add_argument("--quick", action="store_true", help="two seeds, synthetic data")
    options = parser.parse_args(arguments)
    for n in (200,) if options.quick else (1000, 5000):
        speed(n, 100 if options.quick else 10_000)
    print()
    n_seeds = 2 if options.quick else 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CredalSetWarning)  # small combinations share thresholds
        n_short = report("synthetic", synthetic, n_seeds)
        for name, task in ({} if options.quick else tasks(options.data)).items():
            n_short += report(name, partial(real, *task), n_seeds)
    print("every kind is covered" if not n_short else f"{n_short} kinds fall short")
    return int(n_short > 0)


if __name__ == "__main__":
    sys.exit(main())
