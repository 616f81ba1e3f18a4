"""What sets of each score leave open at equal coverage.

The paper's scores and networks, a softmax, and intervals.

Sizes are what people read off sets: width, epistemic uncertainty, labels that can be the most
probable one, items decided (at most one such label), and volume. *Hard* items are the third whose
votes have most entropy. The column ``vs KL`` is the ratio of widths to the baseline, the paper's
network with its KL score in the same run.

    python benchmarks/set_sizes.py            # ten splits, about half an hour
    python benchmarks/set_sizes.py --quick    # to see that it runs

ChaosNLI and CIFAR-10H need the data folder (``--data``, or the environment variable CREDALSET_DATA)
and are left out without it. The script exits with status 1 if a coverage is below its band, or
intervals are wider than their limit.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import betabinom
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))  # for those who import this file rather than run it
from answers import print_table

import credalset as cs
from credalset.calibration.levels import conformal_rank
from credalset.datasets import DataNotFoundError, load_chaosnli, load_cifar10h, make_synthetic
from credalset.predictors import FirstOrderNetwork, IntervalNetwork, SecondOrderNetwork
from credalset.scores import Intervals, Normalized, Score, get_score

ALPHAS = (0.1, 0.2)
BASELINE = "KL"
PAPER = {"TV": "tv", "WS": "ws", BASELINE: "kl", "Inner": "inner", "SO": "so"}
SIZES = ("width", "epistemic", "labels", "decided")
COLUMNS = ("coverage", "of the hard", *SIZES, "volume")
#: largest width of intervals relative to the narrowest of the paper's scores, by data set and level
LIMITS = {("ChaosNLI", 0.2): 0.92, ("CIFAR-10H", 0.1): 0.68, ("CIFAR-10H", 0.2): 0.65}
CHANCE = 1e-3  # that one coverage falls below its band although all is well; ties only raise it
N_RAYS, MAX_VOLUMES, MAX_SETS = (
    256,
    60,
    400,
)  # rays of a volume; sets that are asked for it, and for other sizes


class Part(NamedTuple):
    """Features and votes of one split (training, calibration, test), and predictions of its items.

    The predictions are those of a classifier.
    """

    X: list[Any]
    counts: list[Any]
    softmax: list[Any] | None


class Task(NamedTuple):
    """A data set, split by a seed, and the paper's settings for it."""

    name: str
    make: Callable[[int], Part]
    epochs: int | None = None
    offset: float = 0.0


def split(X: Any, counts: Any, sizes: Sequence[int], seed: int, given: Any = None) -> Part:
    """Split at random and standardise features by the training part."""
    order = np.random.default_rng(seed).permutation(len(X))[: sum(sizes)]
    rows = np.split(order, np.cumsum(sizes)[:-1])
    scaler = StandardScaler().fit(X[rows[0]])
    given = None if given is None else [given[r] for r in rows]
    return Part([scaler.transform(X[r]) for r in rows], [counts[r] for r in rows], given)


def tasks(folder: str | None, quick: bool) -> list[Task]:
    data = make_synthetic(600 if quick else 1500, 3, n_votes=100, random_state=0)
    found = [
        Task("synthetic", lambda seed: split(data.X, data.counts, [len(data.X) // 3] * 3, seed))
    ]
    if quick:
        return found
    try:
        nli = load_chaosnli("roberta", folder)
        cifar = load_cifar10h(folder)
    except DataNotFoundError as error:
        print(f"Left out for lack of data: {error}\n")
        return found
    mean = softmax(np.asarray(nli.features, dtype=float).reshape(-1, 3, 3), axis=2).mean(
        axis=1
    )  # of three models
    sure = softmax(np.asarray(cifar.logits, dtype=float), axis=1)
    return [
        Task(
            "ChaosNLI",
            lambda seed: split(nli.features, nli.counts, (len(nli) - 1000, 500, 500), seed, mean),
        ),
        Task(
            "CIFAR-10H",
            lambda seed: split(cifar.logits, cifar.counts, (3000, 3000, 1500), seed, sure),
            10,
            0.1,
        ),
        *found,
    ]


def methods(task: Task, part: Part) -> dict[str, tuple[str, Score]]:
    """Return the predictions and the score of each row of the table."""
    rows = {
        name: ("second" if key == "so" else "first", get_score(key)) for name, key in PAPER.items()
    }
    rows |= {
        f"{BASELINE}, normalised": ("first", Normalized("kl", task.offset)),
        "intervals": ("intervals", Intervals()),
    }
    if part.softmax is not None:
        rows |= {
            "softmax: KL": ("softmax", get_score("kl")),
            "softmax: KL / (H + 0.1)": ("softmax", Normalized("kl", 0.1)),
        }
    return rows


def learn(task: Task, part: Part, seed: int, quick: bool) -> dict[str, list[Any]]:
    """Train every network; return the predictions for the calibration and the test items."""
    few = {"epochs": 2} if quick else {}
    paper = ({} if task.epochs is None else {"epochs": task.epochs}) | few
    networks = {
        "first": (FirstOrderNetwork(random_state=seed, **paper), "predict_proba"),
        "second": (SecondOrderNetwork(random_state=seed, **paper), "predict_concentration"),
        "intervals": (IntervalNetwork(random_state=seed, **few), "predict_intervals"),
    }
    found = {} if part.softmax is None else {"softmax": part.softmax[1:]}
    for name, (network, method) in networks.items():
        predict = getattr(network.fit(part.X[0], part.counts[0]), method)
        found[name] = [predict(X) for X in part.X[1:]]
    return found


def measure(
    score: Score, prediction: list[Any], part: Part, alpha: float, volumes: bool
) -> list[float]:
    """Return the `COLUMNS` of one score on one split."""
    sets = cs.conformalize(prediction[0], part.counts[1], score).predict_set(prediction[1], alpha)
    shares = part.counts[2] / part.counts[2].sum(axis=1, keepdims=True)
    entropy = cs.simplex.entropy(shares)
    covered = sets.contains(shares)
    sizes = cs.metrics.mean_sizes(sets, max_sets=MAX_SETS)
    some = sets[:MAX_VOLUMES]
    volume = np.mean(some.volume(random_state=0, n_rays=N_RAYS)) if volumes else np.nan
    hard = covered[entropy >= np.quantile(entropy, 2 / 3)]
    return [covered.mean(), hard.mean(), *(float(sizes[name]) for name in SIZES), float(volume)]


def run(task: Task, n_seeds: int, options: argparse.Namespace) -> int:
    """Print the tables of one data set; return how many limits were missed."""
    parts = [task.make(seed) for seed in range(n_seeds)]
    learned = [learn(task, part, seed, options.quick) for seed, part in enumerate(parts)]
    sizes = [len(X) for X in parts[0].X]
    print(f"\n{task.name}: {' / '.join(map(str, sizes))} items, {n_seeds} splits")
    flat = [
        (predictions["second"][0] == 1.0).all(axis=1).mean() for predictions in learned
    ]  # score 0 everywhere: ties
    print(
        f"uniform second-order predictions of calibration items: {min(flat):.0%} to "
        f"{max(flat):.0%} by split"
    )
    n_missed = 0
    for alpha in ALPHAS:
        table = {
            name: np.mean(
                [
                    measure(score, predictions[kind], part, alpha, not options.no_volumes)
                    for part, predictions in zip(parts, learned, strict=True)
                ],
                axis=0,
            )
            for name, (kind, score) in methods(task, parts[0]).items()
        }
        width = COLUMNS.index("width")
        base = table[BASELINE]
        rank = conformal_rank(sizes[1], alpha)
        low = (
            betabinom(sizes[2], rank, sizes[1] + 1 - rank).ppf(CHANCE) / sizes[2]
        )  # of one split: splits overlap
        rows: list[tuple[str, ...]] = [(f"α = {alpha:g}", *COLUMNS, f"vs {BASELINE}")]
        for name, values in table.items():
            odd = values[0] < low
            n_missed += odd
            cells = ["-" if np.isnan(value) else f"{value:.3g}" for value in values[1:]]
            rows.append(
                (
                    name,
                    f"{values[0]:.3f}{'!' if odd else ''}",
                    *cells,
                    f"{values[width] / base[width]:.2f}",
                )
            )
        print_table(rows)
        best = min(table[name][width] for name in PAPER)
        ratio = table["intervals"][width] / best
        limit = LIMITS.get((task.name, alpha), np.inf)
        n_missed += bool(ratio > limit)
        print(
            f"width of intervals against the narrowest of the paper's scores: {ratio:.2f}", end=""
        )
        print(f" (at most {limit:g})\n" if np.isfinite(limit) else "\n", flush=True)
    return n_missed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="random splits")
    parser.add_argument("--data", default=None, help="data folder; CREDALSET_DATA by default")
    parser.add_argument("--only", default="", help="data sets whose name starts with this")
    parser.add_argument(
        "--no-volumes", action="store_true", help="leave volumes out, which take longest"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one split, two epochs: the tables mean nothing"
    )
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", cs.CredalSetWarning)  # empty sets have volume zero
    chosen = [
        task for task in tasks(options.data, options.quick) if task.name.startswith(options.only)
    ]
    n_missed = sum(run(task, 1 if options.quick else options.seeds, options) for task in chosen)
    return int(n_missed > 0 and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
