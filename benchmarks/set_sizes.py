"""Sets that say more at equal coverage: the paper's scores and networks against prototypes and mixtures of Dirichlets.

Sets are measured by what people read off them (width, epistemic part, labels, items decided) and by volume; *hard* are
the third of the items whose votes have most entropy. Run
``python benchmarks/set_sizes.py`` (ten seeds, about half an hour), or ``--quick`` for a look. ChaosNLI and
CIFAR-10H need the data folder (``--data``, or the environment variable CREDALSET_DATA) and are left out without it.
All learners see the same standardised features. Leaves with status 1 if a coverage is outside its band or sets are
larger than asked.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from scipy.stats import betabinom
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))  # for those who import this file rather than run it
from answers import print_table

import credalset as cs
from credalset.calibration.levels import conformal_rank
from credalset.datasets import DataNotFoundError, load_chaosnli, load_cifar10h, make_synthetic
from credalset.exceptions import CredalSetWarning
from credalset.predictors import (
    DirichletMixtureNetwork,
    FirstOrderNetwork,
    IntervalNetwork,
    SecondOrderNetwork,
)
from credalset.scores import (
    InnerProduct,
    Intervals,
    KullbackLeibler,
    NegativeLogDensity,
    Normalized,
    RelativeLikelihood,
    Score,
    TotalVariation,
    Wasserstein,
)

ALPHAS = (0.1, 0.2, 0.25)
FIVE = ("TV", "WS", "KL", "Inner", "SO")
MEASURES = ("width", "epistemic", "labels", "decided")
COLUMNS = ("coverage", "of the truth", "of the hard", *MEASURES, "empty", "volume")
#: by task: score, level, measure, and the largest ratio to the best of the paper's five (for decided, the smallest)
BARS = {
    "ChaosNLI": [
        ("intervals", 0.2, "width", 0.92),
        ("intervals", 0.2, "labels", 0.92),
        *[("mixture", alpha, "volume", bar) for alpha, bar in ((0.1, 0.75), (0.2, 0.65), (0.25, 0.65))],
    ],
    "CIFAR-10H": [
        ("intervals", 0.1, "width", 0.68),
        ("intervals", 0.1, "epistemic", 0.72),
        ("intervals", 0.1, "labels", 0.68),
        ("intervals", 0.1, "decided", 2.0),
        ("intervals", 0.2, "width", 0.65),
    ],
}
BAND = 1e-3  # chance that all the coverages of a table stay outside their bands though all is well, before sharing out
N_RAYS = 256
MAX_ESTIMATED = 60  # sets per seed and level whose volume is estimated, where there is no exact one
MAX_MEASURED = 400  # sets per seed and level that are asked for the other measures


@dataclass(frozen=True)
class Part:
    """One seed's features and labels, split."""

    X: Sequence[Any]  # training, calibration, test
    counts: Sequence[Any]
    truth: Any = None  # true distributions of the test items, where they are known
    softmax: Sequence[Any] | None = None  # what a classifier that was trained on other items says of these

    def shares(self, i: int) -> Any:
        """Shares of the votes of one part."""
        return self.counts[i] / self.counts[i].sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Task:
    """A data set, how it is split, and how the paper trains on it."""

    name: str
    make: Callable[[int], Part]
    paper: dict[str, Any] = field(default_factory=dict)
    offset: float = 0.0


def split(X: Any, counts: Any, sizes: Sequence[int], seed: int, truth: Any = None, given: Any = None) -> Part:
    """Split at random and standardise features by the training part."""
    order = np.random.default_rng(seed).permutation(len(X))[: sum(sizes)]
    rows = np.split(order, np.cumsum(sizes)[:-1])
    scaler = StandardScaler().fit(X[rows[0]])
    return Part(
        [scaler.transform(X[r]) for r in rows],
        [counts[r] for r in rows],
        None if truth is None else truth[rows[2]],
        None if given is None else [given[r] for r in rows],
    )


def tasks(folder: str | None) -> list[Task]:
    found = []
    try:
        nli = load_chaosnli("roberta", folder)
        sizes = (len(nli) - 1000, 500, 500)
        mean = softmax(np.asarray(nli.features, dtype=float).reshape(-1, 3, 3), axis=2).mean(axis=1)  # of three models
        found.append(
            Task("ChaosNLI, RoBERTa logits", lambda seed: split(nli.features, nli.counts, sizes, seed, given=mean))
        )
        cifar = load_cifar10h(folder)
        sure = softmax(np.asarray(cifar.logits, dtype=float), axis=1)
        found.append(
            Task(
                "CIFAR-10H, logits",
                lambda seed: split(cifar.logits, cifar.counts, (3000, 3000, 1500), seed, given=sure),
                {"epochs": 10},
                0.1,
            )
        )
    except DataNotFoundError as error:
        print(f"Left out for lack of data: {error}\n")
    cells = [(n_classes, n_votes) for n_classes in (3, 10) for n_votes in (10, 100)]
    return found + [Task(f"synthetic, K = {k}, m = {m}", synthetic(k, m)) for k, m in cells]


def synthetic(n_classes: int, n_votes: int) -> Callable[[int], Part]:
    def make(seed: int) -> Part:
        data = make_synthetic(1500, n_classes, n_votes=n_votes, random_state=seed)
        return split(data.X, data.counts, (500, 500, 500), seed, data.distributions)

    return make


def scores(offset: float) -> dict[str, tuple[str, Score]]:
    """Name of each score, with the learner that it needs."""
    first: dict[str, Score] = dict(
        zip(FIVE, (TotalVariation(), Wasserstein(), KullbackLeibler(), InnerProduct()), strict=False)
    )
    return {
        **{name: ("first", score) for name, score in first.items()},
        "SO": ("second", RelativeLikelihood()),
        **{f"{name} / H": ("first", Normalized(score, offset)) for name, score in first.items()},
        "density": ("second", NegativeLogDensity()),
        "mixture": ("mixture", NegativeLogDensity()),
        "mixture, counts": ("counts", NegativeLogDensity()),
        "intervals": ("intervals", Intervals()),
        **{f"softmax: {name}": ("softmax", score) for name, score in first.items()},
        **{f"softmax: {name} / H": ("softmax", Normalized(score, 0.1)) for name, score in first.items()},
    }


def learn(task: Task, parts: Sequence[Part], quick: bool, wanted: set[str]) -> dict[str, list[tuple[Any, Any]]]:
    """Train every learner that is wanted for every seed; return its predictions for the calibration and test parts."""
    few = {"epochs": 2} if quick else {}
    kinds: dict[str, Callable[[int], Any]] = {
        "first": lambda seed: FirstOrderNetwork(random_state=seed, **{**task.paper, **few}),
        "second": lambda seed: SecondOrderNetwork(random_state=seed, **{**task.paper, **few}),
        "mixture": lambda seed: DirichletMixtureNetwork(random_state=seed, **few),
        "counts": lambda seed: DirichletMixtureNetwork(likelihood="counts", random_state=seed, **few),
        "intervals": lambda seed: IntervalNetwork(random_state=seed, **few),
    }
    methods = {"first": "predict_proba", "second": "predict_concentration", "mixture": "predict_density"}
    methods |= {"counts": "predict_density", "intervals": "predict_intervals"}
    predictions = {}
    for name, make in kinds.items():
        if name not in wanted:
            continue
        networks = [make(seed).fit(part.X[0], part.counts[0]) for seed, part in enumerate(parts)]
        predict = [getattr(network, methods[name]) for network in networks]
        predictions[name] = [(f(p.X[1]), f(p.X[2])) for f, p in zip(predict, parts, strict=True)]
    given = [(part.softmax, part.counts[0]) for part in parts if part.softmax is not None]
    if given and "softmax" in wanted:
        predictions["softmax"] = [(rows[1], rows[2]) for rows, _ in given]
    return predictions


def measure(
    chosen: dict[str, tuple[str, Score]],
    parts: Sequence[Part],
    predictions: dict[str, list[tuple[Any, Any]]],
    volumes: bool,
) -> dict[str, Any]:
    """Return the `COLUMNS` of the scores whose predictions there are, (seeds, levels, columns)."""
    table = {}
    for name, (learner, score) in chosen.items():
        if learner not in predictions:
            continue
        results = np.full((len(parts), len(ALPHAS), len(COLUMNS)), np.nan)
        for i, (part, (of_calibration, of_test)) in enumerate(zip(parts, predictions[learner], strict=True)):
            calibration = cs.conformalize(of_calibration, part.counts[1], score)
            entropy = cs.simplex.entropy(part.shares(2))
            for j, alpha in enumerate(ALPHAS):
                sets = calibration.predict_set(of_test, alpha)
                truth = np.nan if part.truth is None else sets.contains(part.truth).mean()
                sizes = cs.metrics.mean_sizes(sets, max_sets=MAX_MEASURED)
                some = sets if sets.n_classes == 3 else sets[:MAX_ESTIMATED]
                rays = N_RAYS if sets.n_classes > 3 else None
                volume = np.mean(some.volume(random_state=i, n_rays=rays)) if volumes else np.nan
                covered = sets.contains(part.shares(2))
                hard = entropy >= np.quantile(entropy, 2 / 3)
                measured = [float(sizes[measure]) for measure in MEASURES]
                results[i, j] = [covered.mean(), truth, covered[hard].mean(), *measured, sets.is_empty().mean(), volume]
        table[name] = results
    return table


def band(n_calibration: int, n_test: int, n_seeds: int, alpha: float, chance: float) -> tuple[float, float]:
    """Return limits for the mean coverage over seeds, from the law of the coverage of one."""
    rank = conformal_rank(n_calibration, alpha)
    law = betabinom(n_test, rank, n_calibration + 1 - rank)
    draws = law.rvs((20_000, n_seeds), random_state=0).mean(axis=1) / n_test
    low, high = np.quantile(draws, [chance / 2, 1 - chance / 2])
    return float(low), float(high)


def report(task: Task, parts: Sequence[Part], table: dict[str, Any]) -> int:
    """Print a table for each level; return how many checks failed."""
    print(f"\n{task.name}: {' / '.join(str(len(x)) for x in parts[0].X)} items, {len(parts)} seeds")
    n_failed = 0
    for j, alpha in enumerate(ALPHAS):
        chance = BAND / len(table) / len(ALPHAS)
        low, high = band(len(parts[0].X[1]), len(parts[0].X[2]), len(parts), alpha, chance)
        rows = [("α =", f"{alpha:g}", *[""] * (len(COLUMNS) - 1)), ("score", *COLUMNS)]
        for name, results in table.items():
            mean = results[:, j].mean(axis=0)
            # Labels with few votes tie, and ties only raise the coverage.
            odd = mean[0] < low or (mean[0] > high and task.name.startswith("ChaosNLI"))
            n_failed += odd
            cells = ["-" if np.isnan(value) else f"{value:.3g}" for value in mean[1:]]
            rows.append((name, f"{mean[0]:.3f}{'!' if odd else ''}", *cells))
        print_table(rows)
    return n_failed + compare(task, table)


def compare(task: Task, table: dict[str, Any]) -> int:
    """Print ratios to the best of the paper's five, measure by measure; return how many bars were missed."""
    n_failed = 0
    for name, alpha, measure, bar in BARS.get(task.name.split(",")[0], []):
        five = [score for score in FIVE if score in table]
        if not five or name not in table:
            continue
        j, column = ALPHAS.index(alpha), COLUMNS.index(measure)
        larger_is_better = measure == "decided"
        best_of = max if larger_is_better else min
        best = best_of(float(table[score][:, j, column].mean()) for score in five)
        own = float(table[name][:, j, column].mean())
        if np.isnan(own):
            continue
        missed = own / best < bar if larger_is_better else own / best > bar
        n_failed += missed
        asked = f"at least {bar:g}" if larger_is_better else f"at most {bar:g}"
        print(
            f"{name} at α = {alpha:g}, {measure}: {own / best:.3f} of the best of {', '.join(five)}, asked for {asked}"
        )
    if task.name.startswith("ChaosNLI") and {"8 prototypes", "mixture"} <= set(table):
        for j, alpha in enumerate(ALPHAS):
            volume = {name: table[name][:, j, -1].mean() for name in ("8 prototypes", "mixture")}
            if not np.isnan(volume["mixture"]):
                ratio = volume["8 prototypes"] / volume["mixture"]
                n_failed += ratio > 1.08
                print(f"8 prototypes at α = {alpha:g}: {ratio:.3f} of the mixture's volume, asked for at most 1.08")
    return n_failed


def draw_maps(found: Sequence[Task], path: str) -> None:
    """Draw where the items of one split lie on the map of uncertainty: KL and intervals, CIFAR-10H and ChaosNLI."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(1, 4, sharex=True, sharey=True))
    for start, levels in (("CIFAR", (0.1, 0.3)), ("Chaos", (0.2,))):
        task = next(task for task in found if task.name.startswith(start))
        part = task.make(0)
        first = FirstOrderNetwork(random_state=0, **task.paper).fit(part.X[0], part.counts[0])
        narrow = IntervalNetwork(random_state=0).fit(part.X[0], part.counts[0])
        panels: list[tuple[str, Any, Score, float]] = [("KL", first.predict_proba, KullbackLeibler(), levels[0])]
        panels += [("intervals", narrow.predict_intervals, Intervals(), alpha) for alpha in levels]
        entropy = cs.simplex.entropy(part.shares(2), base="K")
        for name, predict, score, alpha in panels:
            sets = cs.conformalize(predict(part.X[1]), part.counts[1], score).predict_set(predict(part.X[2]), alpha)
            if name == "intervals" or start == "CIFAR":
                ax = axes.pop(0)
                cs.plotting.uncertainty_map(sets, color=entropy, color_label="entropy of the votes", ax=ax)
                ax.set_title(f"{task.name.split(',')[0]}, {name}, α = {alpha:g}")
            parts, covered = sets.uncertainty(), sets.contains(part.shares(2))
            print(f"{task.name}, {name}, α = {alpha:g}: share of items, mean entropy of their votes, coverage")
            for what, chosen in {
                "epistemic part below 0.3": parts.epistemic < 0.3,
                "epistemic part above 0.3": parts.epistemic >= 0.3,
                "aleatoric part above 0.02": parts.aleatoric > 0.02,
            }.items():
                some = f"{entropy[chosen].mean():.3f}, {covered[chosen].mean():.2f}" if chosen.any() else "-"
                print(f"  {what}: {chosen.mean():.3f}, {some}")
        print_ambiguity(part)
    figure.savefig(path, dpi=110)


def print_ambiguity(part: Part) -> None:
    """Print for how many items the features tell, by boosted trees, that people surely disagree."""
    entropy = [cs.simplex.entropy(part.shares(i), base="K") > 0.02 for i in range(3)]
    trees = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=80, random_state=0).fit(part.X[0], entropy[0])
    chance = trees.predict_proba(part.X[2])[:, 1]
    for least in (0.7, 0.8, 0.9, 0.95):
        chosen = chance > least
        some = f"of whom {entropy[2][chosen].mean():.2f} have" if chosen.any() else ""
        print(f"  a chance above {least:g} that the votes have an entropy above 0.02: {chosen.mean():.3f} {some}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="random splits")
    parser.add_argument("--first-seed", type=int, default=0, help="settings are chosen on splits from 100 on")
    parser.add_argument("--data", default=None, help="data folder; CREDALSET_DATA by default")
    parser.add_argument("--only", default="", help="tasks whose name starts with this")
    parser.add_argument("--map", default="", help="draw maps of uncertainty into this file, and leave")
    parser.add_argument("--rows", default="", help="rows of the tables, as a regular expression; all by default")
    parser.add_argument("--no-volumes", action="store_true", help="leave volumes out, which take longest")
    parser.add_argument("--quick", action="store_true", help="two seeds, two epochs: the tables mean nothing")
    options = parser.parse_args(arguments)
    n_seeds = 2 if options.quick else options.seeds
    n_failed = 0
    if options.map:
        draw_maps(tasks(options.data), options.map)
        return 0
    for task in tasks(options.data):
        if not task.name.startswith(options.only):
            continue
        start = time.perf_counter()
        parts = [task.make(options.first_seed + i) for i in range(n_seeds)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredalSetWarning)  # empty sets are counted as volume zero
            chosen = {
                name: row for name, row in scores(task.offset).items() if re.fullmatch(options.rows or ".*", name)
            }
            predictions = learn(task, parts, options.quick, {learner for learner, _ in chosen.values()})
            n_failed += report(task, parts, measure(chosen, parts, predictions, not options.no_volumes))
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
    return int(n_failed > 0 and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
