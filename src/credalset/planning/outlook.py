"""What a budget buys: mean widths to expect, with intervals, for the plan, simpler plans and other purchases."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from credalset._text import Rows
from credalset._typing import FloatArray, IntArray
from credalset.calibration import Calibration, conformal_rank
from credalset.planning.allocation import Lots, Widths, active_lab, by_rank, simulated_widths, uniformly
from credalset.planning.crowd import Beliefs, Crowd
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid

METHODS = ("uniform", "random", "entropy", "activelab")  # simpler than the plan
REPETITIONS = 16  # of the whole collection, each with a crowd learned from other items
SIMULATED = 4_000  # items at most, for the promise
SAMPLED = 2_000  # items at most, for the curves
WIDTH_OF_INTERVAL = 1.96  # standard errors: 95 %
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the curve, times the budget that was asked about
FRESH = (3, 10, 30)  # votes that new items might get


@dataclass(frozen=True)
class Outlook:
    """A mean width to expect, and the interval in which it should come out; before anything is spent it is ``now``."""

    now: float
    expected: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.expected:.3f} (95% interval {self.low:.3f} to {self.high:.3f}; now {self.now:.3f})"


@dataclass(frozen=True, eq=False)
class Market:
    """Everything that is known before votes are bought: widths after some numbers of votes, beliefs, prices."""

    sets: CredalSet
    widths: Widths
    beliefs: Beliefs
    crowd: Crowd
    table: FloatArray
    numbers: IntArray
    cost: FloatArray
    lots: Lots
    most: int
    doubt: float

    def promise(self, votes: IntArray, generator: np.random.Generator) -> Outlook:
        """Simulate the collection of votes (N,), each time with another crowd that might be the right one."""
        now = float(self.table[:, 0].mean())
        asked = np.flatnonzero(votes)
        if len(asked) == 0:
            return Outlook(now, now, now, now)
        rows = generator.permutation(asked)[:SIMULATED]
        center, counts = self.beliefs.center[rows], self.beliefs.counts[rows]
        falls = np.empty(REPETITIONS)
        for i in range(REPETITIONS):
            beliefs = self.crowd.beliefs(center, counts, generator)
            after = simulated_widths(self.widths[rows], beliefs, votes[rows], generator)
            falls[i] = (self.table[rows, 0] - after).mean()
        share = len(asked) / len(votes)
        return self.outlook(now, share * falls.mean(), share * falls.std(ddof=1))

    def quick(self, votes: IntArray, rows: IntArray, generator: np.random.Generator) -> Outlook:
        """Simulate some items once, with the likeliest crowd."""
        after = simulated_widths(self.widths[rows], self.beliefs[rows], votes[rows], generator)
        falls = self.table[rows, 0] - after
        error = falls.std() * np.sqrt(1.0 / len(rows) + 1.0 / len(votes))
        return self.outlook(float(self.table[:, 0].mean()), float(falls.mean()), float(error))

    def outlook(self, now: float, fall: float, error: float) -> Outlook:
        """Allow for chance, and for a model that may be wrong by some share of what it promises."""
        half = WIDTH_OF_INTERVAL * error + self.doubt * abs(fall)
        return Outlook(now, now - fall, max(now - fall - half, 0.0), min(now - fall + half, now))


def ranking(market: Market, method: str, generator: np.random.Generator) -> IntArray:
    """Return the order in which a simpler method serves items, (N,)."""
    center = market.widths.center
    if method == "random":
        return generator.permutation(len(center))
    if method == "entropy":
        return np.argsort(-entropy_of_valid(center), kind="stable")
    return active_lab(market.beliefs.counts, center)


def allocate(market: Market, method: str, budget: float, generator: np.random.Generator) -> IntArray:
    """Return the votes (N,) that the plan, or a simpler one, asks for."""
    if method == "plan":
        return market.lots.spend(budget, len(market.table))
    if method == "uniform":
        return uniformly(len(market.table), market.cost, budget, market.most, generator)
    rank = ranking(market, method, generator)
    return by_rank(market.table, market.numbers, market.cost, budget, rank)


def budget_curve(
    market: Market, planned: Outlook, methods: list[str], budget: float, generator: np.random.Generator
) -> Rows:
    """Return what budgets around the given one buy by the plan, whose outlook is known, and by each method."""
    rows = generator.permutation(len(market.table))[:SAMPLED]
    seed = int(generator.integers(2**32))
    curve = Rows()
    for times in BUDGETS:
        for method in ("plan", *methods):
            votes = allocate(market, method, times * budget, np.random.default_rng(seed))
            is_planned = times == 1.0 and method == "plan"
            found = planned if is_planned else market.quick(votes, rows, np.random.default_rng(seed))
            spent = int(times * budget) if (times * budget).is_integer() else times * budget
            curve.append({"budget": spent, "method": method, "items": int((votes > 0).sum()), **asdict(found)})
    return curve


def purchases(
    market: Market, planned: dict[str, Any], budget: float, price: float, calibrated: Outlook | None, votes: int
) -> Rows:
    """Return what else the budget could buy: calibration items of some votes each, new items of 3, 10 and 30."""
    generator = np.random.default_rng(0)
    rows = generator.permutation(len(market.table))[:SAMPLED]
    each = allocate(market, "uniform", budget, generator)
    found = Rows([planned])
    found.append(purchase("the same for all items", len(each), each.mean(), market.quick(each, rows, generator)))
    if calibrated is not None:
        found.append(purchase("more calibration items", int(budget / (price * votes)), votes, calibrated))
    none = np.zeros((len(rows), market.sets.n_classes))
    widths = market.widths[rows]
    beliefs = market.crowd.beliefs(widths.center, none)
    before = float(widths(none).mean())
    for m in FRESH:
        after = simulated_widths(widths, beliefs, np.full(len(rows), m), generator)
        fresh = market.outlook(before, before - float(after.mean()), float(after.std()) / np.sqrt(len(rows)))
        found.append(purchase("new items like these", int(budget / (price * m)), m, fresh))
    return found


def purchase(buy: str, items: int, votes_each: float, outlook: Outlook) -> dict[str, Any]:
    """Write a purchase down."""
    widths = {name: float(width) for name, width in asdict(outlook).items()}
    return {"buy": buy, "items": items, "votes_each": float(votes_each), **widths}


def after_calibration(market: Market, calibration: Any, alpha: float, more: int) -> Outlook | None:
    """Return the mean width with a threshold from more calibration items, where that is known.

    The threshold of n items is the score at rank k; scores below it are a share that follows Beta(k, n + 1 − k), and
    the scores there are say which score that is. More items hardly move the mean: they make it more certain.
    """
    if not isinstance(calibration, Calibration):
        return None
    rule = calibration.rule
    if rule.groups is not None or rule.weights is not None or rule.noise.name != "none":
        return None
    n = len(calibration.scores) + more
    k = conformal_rank(n, alpha)
    if k > n:
        return None
    rows = np.random.default_rng(0).permutation(len(market.table))[:SAMPLED]
    counts, found = market.beliefs.counts[rows], []
    for share in betaincinv(k, n + 1 - k, np.array([0.025, 0.25, 0.5, 0.75, 0.975])):
        threshold = np.full(len(rows), np.quantile(calibration.scores, share))
        region = calibration.score._region(market.sets.prediction[rows], threshold)
        found.append(float(Widths.of(region, market.widths.delta)(counts).mean()))
    return Outlook(float(market.table[:, 0].mean()), float(np.mean(found)), min(found), max(found))
