"""Does the plan keep its word? Votes of real crowds are hidden and revealed as a plan asks for them.

ChaosNLI has 100 votes per sentence pair, CIFAR-10H about 50 per image. Calibration items keep all of them. Of the other
items all but three are hidden; `credalset.plan` asks for more, they are revealed in random order, and three things are
looked at, over seeds and budgets (votes per item on average):

- whether the mean width comes out in the promised interval, and whether the sets hold the distribution of all votes;
- how many votes the plan needs for the mean width that the same number of votes for every item gives, beside simpler
  methods and the *oracle*, which spends the budget in the same way and knows how every vote will fall;
- what becomes of coverage if items that the plan has chosen are used to calibrate again, which nobody should do.

The script leaves with status 1 if fewer than 90 % of the promises are kept or coverage falls short.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

import credalset as cs
from credalset._text import number_text, table_text
from credalset.planning.allocation import best_lots, by_rank
from credalset.planning.outlook import ranking
from credalset.scores import vote_region
from credalset.sets.updated import meet
from credalset.simplex import grid

ALPHA, DELTA, HIDDEN, TEN = 0.1, 0.01, 3, 10
METHODS = ("plan", "random", "entropy", "activelab", "oracle")
GRID = 0.005
HALVINGS = 7  # of the budget, in search of the votes needed


@dataclass(frozen=True)
class Crowd:
    """Predictions and all votes: of calibration items, of items to plan for, and of items that nobody touches."""

    name: str
    calibration: tuple[np.ndarray, np.ndarray]
    pool: tuple[np.ndarray, np.ndarray]
    fresh: tuple[np.ndarray, np.ndarray]


def chaosnli(rng: np.random.Generator) -> Crowd:
    """A logistic regression on the logits of language models, trained on other pairs."""
    from sklearn.linear_model import LogisticRegression

    data = cs.datasets.load_chaosnli("roberta")
    assert data.features is not None
    order = rng.permutation(len(data))
    learner = cs.SoftLabelClassifier(LogisticRegression(max_iter=1000, C=0.1))
    learner.fit(data.features[order[:1000]], data.counts[order[:1000]])
    parts = [
        (learner.predict_proba(data.features[rows]), data.counts[rows]) for rows in np.split(order[1000:], [600, 1600])
    ]
    return Crowd("ChaosNLI", *parts)


def cifar10h(rng: np.random.Generator) -> Crowd:
    """The softmax of a network that saw no votes."""
    data = cs.datasets.load_cifar10h()
    if data.probabilities is None:
        raise cs.datasets.DataNotFoundError("the logits of a classifier are not among the data.")
    order = rng.permutation(len(data))[:5000]
    return Crowd(
        "CIFAR-10H", *((data.probabilities[rows], data.counts[rows]) for rows in np.split(order, [2000, 4000]))
    )


#: by name, from a source of randomness to a crowd
CROWDS = {"chaosnli": chaosnli, "cifar10h": cifar10h}


def shares(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def shuffled(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Votes in random order, as running counts (N, T, K)."""
    length = int(counts.sum(axis=1).min())
    votes = np.array([rng.permutation(np.repeat(np.arange(len(row)), row))[:length] for row in counts])
    return np.eye(counts.shape[1], dtype=np.int16)[votes].cumsum(axis=1)


def revealed(paths: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.asarray(paths[np.arange(len(paths)), HIDDEN - 1 + more])


def votes_needed(made: cs.planning.Plan, paths: np.ndarray, budget: int, methods: Sequence[str]) -> dict[str, float]:
    """Return the share of uniform allocation's votes that each method needs for the same mean width."""
    market, n = made.market, len(paths)
    widths, numbers, cost = market.widths, market.numbers, market.cost
    goal = widths(revealed(paths, made.allocate(budget, "uniform"))).mean()
    known = np.stack([widths(revealed(paths, np.full(n, m))) for m in numbers], axis=1)
    lots = {"plan": market.lots, "oracle": best_lots(known, numbers, cost)}
    found = {}
    for method in methods:
        rank = None if method in lots else ranking(market, method, np.random.default_rng(0))
        low, high = 0, budget
        for _ in range(HALVINGS):
            spent = (low + high) // 2
            votes = lots[method].spend(spent, n) if rank is None else by_rank(market.table, numbers, cost, spent, rank)
            reached = widths(revealed(paths, votes)).mean() <= goal
            low, high = (low, spent) if reached else (spent, high)
        found[method] = high / budget
    return found


def back_test(
    crowd: Crowd, each: int, score: str, methods: Sequence[str], rng: np.random.Generator
) -> dict[str, float]:
    """Plan with a budget, reveal what was asked for, and compare."""
    calibration = cs.conformalize(crowd.calibration[0], shares(crowd.calibration[1]), score)
    paths = shuffled(crowd.pool[1], rng)
    most, n = paths.shape[1] - HIDDEN, len(paths)
    made = cs.plan(
        calibration,
        crowd.pool[0],
        revealed(paths, np.zeros(n, dtype=int)),
        budget=each * n,
        alpha=ALPHA,
        delta=DELTA,
        goal="width",
        most=most,
        pilot=crowd.calibration,
        compare=(),
        random_state=int(rng.integers(2**32)),
    )
    after = made.sets.before.update(revealed(paths, made.ask), DELTA)
    width = 0.5 * np.nan_to_num(after.upper() - after.lower()).sum(axis=1).mean()
    outlook = made.outlook
    result = {
        "now": outlook.now,
        "promised": outlook.expected,
        "low": outlook.low,
        "high": outlook.high,
        "realised": float(width),
        "kept": float(outlook.low <= width <= outlook.high),
        "coverage": float(after.contains(shares(crowd.pool[1])).mean()),
        "asked": float((made.ask > 0).mean()),
    }
    return result | votes_needed(made, paths, each * n, methods)


def naive(crowd: Crowd, score: str, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of fresh items with ten votes, calibrated as it should be and on items that were chosen by their votes.

    *Settled*: of the items to plan for, those that ten votes settle. *Asked again*: the calibration items, after those
    that fit their prediction badly were asked about again, vote by vote, until they fit.
    """
    (g, counts), (other, others), (new, votes) = crowd.calibration, crowd.pool, crowd.fresh
    paths, ten = shuffled(counts, rng), np.full(len(g), TEN - HIDDEN)
    honest = cs.conformalize(g, shares(revealed(paths, ten)), score)
    pool = revealed(shuffled(others, rng), np.full(len(other), TEN - HIDDEN))
    settled = honest.predict_set(other, ALPHA).update(pool, DELTA).decide().sum(axis=1) == 1
    for _ in range(paths.shape[1] - TEN):
        fits = honest.score(g, shares(revealed(paths, ten))) <= honest.threshold(ALPHA)
        ten = np.where(fits, ten, ten + 1)
    fresh = shares(revealed(shuffled(votes, rng), np.full(len(new), TEN - HIDDEN)))
    made = {
        "honest": honest,
        "settled": cs.conformalize(other[settled], shares(pool[settled]), score),
        "asked again": cs.conformalize(g, shares(revealed(paths, ten)), score),
    }
    return {name: float(one.predict_set(new, ALPHA).contains(fresh).mean()) for name, one in made.items()}


def regions(crowd: Crowd, score: str, rng: np.random.Generator) -> list[list[str]]:
    """Mean widths of 400 cut sets: as answered, of the points of a grid that they hold, and with the uniform law."""
    calibration = cs.conformalize(crowd.calibration[0], shares(crowd.calibration[1]), score)
    sets = calibration.predict_set(crowd.pool[0][:400], ALPHA)
    paths, lines = shuffled(crowd.pool[1][:400], rng), []
    for votes in (0, 5, 20, min(45, paths.shape[1])):
        counts = paths[:, votes - 1].astype(float) if votes else np.zeros(sets.center.shape)
        after = sets.update(counts, DELTA)
        there = ~after.is_empty()
        plain = meet(sets.envelope(), vote_region(counts, DELTA).envelope())
        cells = [0.5 * np.nanmean((high - low)[there].sum(axis=1)) for low, high in (after.envelope(), plain)]
        inside = math.nan
        if sets.n_classes == 3:
            points = grid(3, GRID)
            members = after[there].contains(points, broadcast=True)
            inside = float(np.mean([0.5 * np.ptp(points[own], axis=0).sum() for own in members if own.any()]))
        lines.append([crowd.name, str(votes), *(number_text(float(x), 3) for x in (cells[0], inside, cells[1]))])
    return lines


def mean_of(rows: list[dict[str, float]], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables; return the number of promises broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budgets", type=int, nargs="+", default=[2, 5, 10], help="votes per item on average")
    parser.add_argument("--score", default="kl")
    parser.add_argument("--crowds", nargs="+", default=list(CROWDS), choices=list(CROWDS))
    options = parser.parse_args(words)
    try:
        import cleanlab  # noqa: F401
    except ImportError:
        print("ActiveLab is left out: cleanlab is not installed (pip install 'credalset[activelab]').\n")
    methods = [name for name in METHODS if name != "activelab" or "cleanlab" in sys.modules]
    made: dict[tuple[str, int], list[dict[str, float]]] = {}
    reuse: dict[str, list[dict[str, float]]] = {}
    cut: list[list[str]] = []
    start = time.perf_counter()
    for name, seed in product(options.crowds, range(options.seeds)):
        rng = np.random.default_rng(seed)
        try:
            crowd = CROWDS[name](rng)
        except cs.datasets.DataNotFoundError as error:
            print(f"{name} is left out: {error}\n")
            continue
        if seed == 0:
            cut += regions(crowd, options.score, np.random.default_rng(0))
        reuse.setdefault(crowd.name, []).append(naive(crowd, options.score, rng))
        for each in options.budgets:
            made.setdefault((crowd.name, each), []).append(back_test(crowd, each, options.score, methods, rng))
    broken = report(made, reuse, methods) if made else 0
    if cut:
        print("\nMean width of sets cut by votes\n")
        headings = ["crowd", "votes", "as answered", "points of a grid", "with the uniform law"]
        print(table_text(headings, cut, left=1))
    print(f"\n{options.seeds} seeds, score {options.score}, {time.perf_counter() - start:.0f} s")
    return broken


def report(
    made: dict[tuple[str, int], list[dict[str, float]]], reuse: dict[str, list[dict[str, float]]], methods: list[str]
) -> int:
    """Print what was promised and what came of it."""
    print(f"Promised and realised mean width; coverage should be at least {1 - ALPHA - DELTA:g}\n")
    lines, kept, short = [], [], 0
    for (name, each), rows in made.items():
        cells = [f"{mean_of(rows, key):.3f}" for key in ("now", "promised", "low", "high", "realised")]
        kept += [row["kept"] for row in rows]
        coverage = mean_of(rows, "coverage")
        error = np.std([row["coverage"] for row in rows], ddof=min(1, len(rows) - 1)) / math.sqrt(len(rows))
        short += coverage < 1 - ALPHA - DELTA - 3 * error
        lines.append([name, str(each), *cells, f"{mean_of(rows, 'kept'):.0%}", f"{coverage:.3f}"])
    headings = ["crowd", "votes each", "now", "promised", "low", "high", "realised", "kept", "coverage"]
    print(table_text(headings, lines, left=1))
    print(f"\nPromises kept: {np.mean(kept):.0%} of {len(kept)} back-tests.\n")
    print("Votes needed for the mean width of uniform allocation, as a share of its votes\n")
    lines = [[name, str(each), *(f"{mean_of(rows, m):.0%}" for m in methods)] for (name, each), rows in made.items()]
    print(table_text(["crowd", "votes each", *methods], lines, left=1))
    print(f"\nCoverage of fresh items of {TEN} votes at alpha {ALPHA}, calibrated on items of {TEN} votes\n")
    keys = ("honest", "settled", "asked again")
    lines = [[name, *(f"{mean_of(rows, key):.3f}" for key in keys)] for name, rows in reuse.items()]
    print(table_text(["crowd", "at random", "settled", "asked again until they fit"], lines, left=1))
    return int(short) + int(np.mean(kept) < 0.9)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
