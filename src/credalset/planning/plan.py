"""The plan: which items to ask annotators about again, how often, what to expect of it, and which items are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from credalset._guessing import explained
from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray, RandomState
from credalset._validation import as_counts, as_finite, as_generator, as_numbers, as_positive_int, as_probability
from credalset.annotations.labels import in_item_order, plain_names
from credalset.exceptions import need
from credalset.planning.allocation import Widths, best_lots, expected_widths, sizes
from credalset.planning.crowd import Crowd
from credalset.planning.outlook import METHODS, Market, Outlook, after_calibration, budget_curve, purchase, purchases
from credalset.planning.result import Plan
from credalset.sets.credal_set import CredalSet
from credalset.sets.generic import majorization_bound
from credalset.sets.queue import QueueRules
from credalset.sets.updated import UpdatedSet, update

HARDLY = 0.1  # share of a width; where the most votes are expected to take away less, votes are no help

RECORDED = (
    "The calibration is about shares of votes. That sets miss no more often holds for the distributions behind them if "
    "these shares come from many votes per item; with few, calibrate with a noise model."
)


@explained
def plan(
    made: Any,
    predictions: Any,
    votes: Any = None,
    *,
    budget: float,
    alpha: float = 0.1,
    delta: float = 0.01,
    goal: Literal["label", "width"] = "label",
    most: int = 100,
    cost: Any = 1.0,
    rules: QueueRules | None = None,
    pilot: tuple[Any, Any] | None = None,
    compare: Sequence[str] = ("uniform", "random", "entropy"),
    calibration_votes: int | None = None,
    doubt: float = 0.1,
    groups: Any = None,
    weights: Any = None,
    items: Iterable[Any] | None = None,
    random_state: RandomState = 0,
) -> Plan:
    r"""Say where the next votes should go: which items to ask about, how often, and which are done.

    Every item has a credal set of level α, cut by the votes it has (`CredalSet.update`, error α + δ). A model of the
    crowd, learned from votes and predictions, says how votes will fall and how wide the sets will be; votes go where
    they narrow most per cost (`credalset.planning.allocation`). The model chooses and foretells. **Certificates and
    sets do not rest on it**: they hold with error α + δ whatever the crowd, and whatever the plan asks for.

    Parameters
    ----------
    made : Calibration or classifier
        What predicts the sets.
    predictions : array of shape (N, K), or features
        The items, as ``made.predict_set`` takes them. They must not be calibration items.
    votes : array of shape (N, K) or Annotations, optional
        Votes so far; rows of zeros, or items missing by name, have none.
    budget : float
        What may be spent, in units of ``cost``.
    alpha, delta : float
        Miscoverage rate of the sets, and what the regions of the votes add to it.
    goal : {"label", "width"}
        ``"label"``: items that are settled or ambiguous get no more votes. ``"width"``: the width of every item counts.
    most : int
        Votes that may be asked for at most on one item.
    cost : float or array of shape (N,)
        Cost of a vote.
    rules : QueueRules, optional
        ``rules.ambiguous`` says from which entropy of even the clearest distribution on an item is ambiguous.
    pilot : (predictions, votes), optional
        Items with many votes, such as those of the calibration, for the model of the crowd to learn from; not with
        groups or weights.
    compare : sequence of str
        Simpler methods for the curve: "uniform", "random", "entropy" (of the prediction), "activelab" (needs cleanlab).
    calibration_votes : int, optional
        Votes that a further calibration item would take; ``most`` by default.
    doubt : float
        Share of the expected fall by which the model may be wrong, added to both sides of intervals. Back-tests on two
        crowds are in the documentation.
    groups, weights : array of shape (N,), optional
        For a calibration with groups or weights, as ``made.predict_set`` takes them.
    items : iterable of N names, optional
        Names of the items; by default those of the predictions, or 0, 1, 2, ….
    random_state : int, Generator or None
        Source of randomness of the simulations.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import credalset as cs
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet([0.8, 0.8, 0.8], 500)
    >>> predictions = 0.7 * truth + 0.3 * rng.dirichlet([1, 1, 1], 500)
    >>> calibration = cs.conformalize(predictions[:300], truth[:300], "kl")
    >>> few = rng.multinomial(3, truth[300:])
    >>> cs.plan(calibration, predictions[300:], few, budget=500).counts()
    {'ask': 9, 'later': 79, 'stop': 24, 'ambiguous': 88, 'escalate': 0}
    """
    generator = as_generator(random_state)
    _check(made, votes, goal, compare)
    known = {name: given for name, given in (("groups", groups), ("weights", weights)) if given is not None}
    if known and pilot is not None:
        raise ValueError("pilot is for calibrations without groups and weights. Leave it out.")
    before: CredalSet = made.predict_set(predictions, alpha=alpha, **known)
    counts = np.zeros(before.center.shape) if votes is None else votes
    sets = update(before, counts, as_probability(delta, "delta"))
    price = _prices(cost, sets)
    budget, most = as_finite(budget, "budget", minimum=0.0), as_positive_int(most, "most")
    states = _States.of(sets, rules or QueueRules(), goal)
    market = _open_market(made, sets, states, price, most, pilot, as_finite(doubt, "doubt", minimum=0.0), generator)
    ask = market.lots.spend(budget, len(sets))
    outlook = market.promise(ask, generator)
    fall = _falls(market, ask, outlook)
    methods, notes = _available(compare)
    if votes is None or market.crowd.n == 0:
        notes.append("There are no votes to learn from: what to expect of votes is a guess, and intervals are, too.")
    calibration = getattr(made, "calibration_", made)
    workers = getattr(votes, "workers", None)
    if workers is not None and ((sets.votes.sum(axis=1) + ask) > len(workers)).any():
        notes.append(f"Some items would get more votes than there are annotators, {len(workers)}: most= limits them.")
    if again := calibration.reuse(before.items):
        notes.append(again)
    if calibration.rule.promise.covers == "votes":
        notes.append(RECORDED)
    further = most if calibration_votes is None else as_positive_int(calibration_votes, "calibration_votes")
    mean_price = float(price.mean())
    more = after_calibration(market, calibration, alpha, int(budget / (mean_price * further)))
    n_asked = int((ask > 0).sum())
    planned = purchase("votes as planned", n_asked, ask.sum() / max(n_asked, 1), outlook)
    action, reason = states.advise(ask, market.table, fall, market.numbers)
    own = range(len(sets)) if sets.items is None else plain_names(sets.items)
    return Plan(
        *(action, reason, ask, ask * price, market.table[:, 0], market.table[:, 0] - fall, sets, states.labels),
        _names(own if items is None else items, len(sets)),
        outlook,
        budget_curve(market, outlook, methods, budget, generator),
        purchases(market, planned, budget, mean_price, more, further),
        budget,
        float(alpha) + sets.delta,
        tuple(notes),
        market,
    )


def _prices(cost: Any, sets: CredalSet) -> FloatArray:
    """Return what a vote on each item costs, (N,), matched by name where both have names."""
    prices = as_numbers(in_item_order(cost, sets.items, "cost", "predictions"), "cost")
    price = np.broadcast_to(prices, (len(sets),)).astype(float)
    if not (np.isfinite(price).all() and (price > 0).all()):
        raise ValueError("cost must be positive, but some costs are not. Give what a vote on each item costs.")
    return price


def _check(made: Any, votes: Any, goal: str, compare: Sequence[str]) -> None:
    if not hasattr(made, "predict_set"):
        raise TypeError(
            f"made must be what predicts the sets, a calibration or a calibrated classifier, but is a "
            f"{type(made).__name__}. Call plan(calibration, predictions, votes, budget=...)."
        )
    if isinstance(votes, int | float | np.number):
        raise TypeError(
            f"votes must be those that items have so far, or None, but is {votes!r}. What may be spent is "
            f"budget={votes!r}."
        )
    if goal not in ("label", "width"):
        raise ValueError(f"goal must be 'label' or 'width', but is {goal!r}.")
    unknown = [name for name in compare if name not in METHODS]
    if unknown:
        raise ValueError(f"compare names {unknown[0]!r}, which is no method. Known: {', '.join(METHODS)}.")


def _names(names: Iterable[Any], n: int) -> tuple[Any, ...]:
    found = tuple(names)
    if len(found) != n:
        raise ValueError(f"items must name each of the {n} items, but holds {len(found)} names.")
    return found


def _available(compare: Sequence[str]) -> tuple[list[str], list[str]]:
    """Leave out what needs a package that is not there, and say so."""
    if "activelab" in compare:
        try:
            need("cleanlab")
        except ImportError:
            note = "ActiveLab is left out: it needs cleanlab (pip install 'credalset[activelab]')."
            return [name for name in compare if name != "activelab"], [note]
    return list(compare), []


def _open_market(
    made: Any,
    sets: UpdatedSet,
    states: _States,
    price: FloatArray,
    most: int,
    pilot: tuple[Any, Any] | None,
    doubt: float,
    generator: np.random.Generator,
) -> Market:
    widths = Widths.of(sets.before, sets.delta)
    center, counts = widths.center, sets.votes
    if pilot is not None:
        others = made.predict_set(pilot[0], alpha=0.5)
        pilot_widths = Widths.of(others, sets.delta)
        own = as_counts(getattr(pilot[1], "counts", pilot[1]), "pilot votes", n_classes=sets.n_classes)
        crowd = Crowd(np.concatenate([center, pilot_widths.center]), np.concatenate([counts, own]), generator)
    else:
        crowd = Crowd(center, counts, generator)
    beliefs = crowd.beliefs(center, counts)
    numbers = sizes(most)
    table = expected_widths(widths, beliefs, numbers)
    worth = np.where(states.open[:, None], table, table[:, :1])
    lots = best_lots(worth, numbers, price)
    return Market(sets.before, widths, beliefs, crowd, table, numbers, price, lots, most, doubt)


def _falls(market: Market, ask: IntArray, outlook: Outlook) -> FloatArray:
    """Return the expected fall in width of each item: as if votes fell as expected, scaled to the mean promised."""
    rows = np.flatnonzero(ask)
    fall = np.zeros(len(ask))
    if len(rows):
        after = market.widths[rows](market.beliefs.counts[rows] + ask[rows, None] * market.beliefs[rows].mean())
        fall[rows] = np.maximum(market.table[rows, 0] - after, 0.0)
        if fall.sum() > 0:
            fall *= (outlook.now - outlook.expected) * len(ask) / fall.sum()
    return np.minimum(fall, market.table[:, 0])


@dataclass(frozen=True, eq=False)
class _States:
    """What is known of each item: whether it is settled, ambiguous, or at odds with its votes."""

    labels: BoolArray
    settled: BoolArray
    ambiguous: BoolArray
    empty: BoolArray
    open: BoolArray
    names: tuple[str, ...]
    error: float

    @classmethod
    def of(cls, sets: UpdatedSet, rules: QueueRules, goal: str) -> _States:
        labels, empty = sets.decide(rules.decision), sets.is_empty()
        settled = (labels.sum(axis=1) == 1) & ~empty
        lower, upper = (np.nan_to_num(end, nan=1.0) for end in sets.envelope())
        clearest = majorization_bound(lower, upper) / np.log(sets.n_classes)
        ambiguous = (clearest > rules.ambiguous) & ~settled & ~empty
        done = empty | (settled | ambiguous if goal == "label" else False)
        names = tuple(str(name) for name in (sets.classes or range(sets.n_classes)))
        return cls(labels, settled, ambiguous, empty, ~done, names, sets.delta)

    def advise(
        self, ask: IntArray, table: FloatArray, fall: FloatArray, numbers: IntArray
    ) -> tuple[AnyArray, AnyArray]:
        """Return an action and a reason for each item."""
        hopeless = table[:, 0] - table.min(axis=1) < HARDLY * table[:, 0]
        action = np.select(
            [self.empty, ask > 0, self.settled, self.ambiguous, hopeless],
            ["escalate", "ask", "stop", "ambiguous", "escalate"],
            default="later",
        )
        reason = np.full(len(ask), "Votes would narrow it, but narrow other items more per cost.", dtype=object)
        reason[self.ambiguous] = "Ambiguous: annotators will go on to disagree, even at the clearest distribution left."
        settled = np.flatnonzero(self.settled)
        top = self.labels.argmax(axis=1)
        reason[settled] = [
            f"Certified: {self.names[k]} is the most probable label for every distribution left." for k in top[settled]
        ]
        many = numbers[-1]
        reason[(action == "escalate") & ~self.empty] = (
            f"Even {many} more votes would hardly narrow it: a person decides."
        )
        reason[self.empty] = "Votes and prediction contradict each other: no distribution fits both. A person looks."
        asked = np.flatnonzero(ask > 0)
        reason[asked] = [
            f"{m} more vote{'s' if m > 1 else ''} should take {f:.2f} off a width of {w:.2f}."
            for m, f, w in zip(ask[asked].tolist(), fall[asked].tolist(), table[asked, 0].tolist(), strict=True)
        ]
        return action.astype(object), reason
