r"""Judges first, people after: cascades, what they cost, and what they accept.

A cascade asks judges in order of price, and goes on where no label can be accepted yet. After the
last judge it asks people, but only where their votes are likely to lead to acceptance. One number
stops it everywhere: an item goes no further once the predicted risk of its label is at most a
*goal*, which follows from the items that the cascade was fitted to. Which label is accepted in the
end is decided by one threshold of the risk at the end, whichever stage that was, and this threshold
is certified with votes that were held back, on other items. A threshold for each stage by itself
would not bound the error of all accepted labels together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from credalset._batch import Labels, Names
from credalset._display import Rows, join_names, plural, progress, table_text
from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import (
    as_finite,
    as_generator,
    as_names,
    as_numbers,
    as_positive_int,
    as_probability,
)
from credalset.acceptance.cases import Cases
from credalset.acceptance.certify import certify
from credalset.acceptance.losses import LOSSES
from credalset.crowd.base import VotedItems
from credalset.crowd.drawing import draw_votes
from credalset.crowd.estimator import DirichletCrowd
from credalset.crowd.policy import VotingPolicy
from credalset.crowd.posterior import predict_blocks
from credalset.exceptions import need, warn
from credalset.predictors.judges import Answers, read_judged
from credalset.predictors.log_linear import cross_entropy
from credalset.predictors.pool import JudgePool, kind_names, read_kinds

PERSON = "person"  # the name of people among the prices
ACCEPT = "accept"
STOP = "stop"
WORTH = 0.4  # probability of acceptance by which a person is asked
GOALS = 12  # numbers that are tried as the goal of a plan
DRAWS = 8  # orders in which the votes of an item are replayed
PART = 3  # one part in so many fits; a pool learns most from few items, a certificate needs many
LEAST = 10  # items with votes in each part
MOST_FITTED = 5_000  # items that fit a law, which has a dozen parameters


@dataclass(frozen=True, eq=False)
class Stage:
    """What is known after so many judges: their pool, and a crowd around its predictions."""

    pool: JudgePool
    crowd: DirichletCrowd


@dataclass(frozen=True, eq=False)
class Plan:
    """So many judges, in order, then so many votes at most.

    Attributes
    ----------
    n_judges, max_votes : int
        How many are asked at most.
    goal : float
        Risk at which an item goes no further.
    worth : float
        Probability of acceptance, per vote, by which a person is asked.
    """

    n_judges: int
    max_votes: int
    goal: float
    worth: float

    def policy(self, crowd: DirichletCrowd) -> VotingPolicy:
        """Return the policy of the last stage."""
        return VotingPolicy(
            crowd, accept=self.goal, worth=self.worth, max_votes=max(self.max_votes, 1)
        )


@dataclass(frozen=True, eq=False)
class Ends:
    """Where N items end: judges asked, votes used, and label and risk then."""

    asked: IntArray
    votes: FloatArray
    label: IntArray
    risk: FloatArray

    def cost(self, prices: FloatArray, person: float) -> FloatArray:
        """Return what was paid for each item, (N,)."""
        paid = np.concatenate([[0.0], np.cumsum(prices)])
        return np.asarray(paid[self.asked] + person * self.votes.sum(axis=1))

    def cases(self, loss: FloatArray, n_draws: int = 1) -> Cases:
        """Return the ends as cases, where items come one after the other in each draw."""
        n_items = len(self.risk) // n_draws
        item = np.tile(np.arange(n_items), n_draws)
        weight = np.full(len(item), 1.0 / n_draws)
        variance = self.risk * (1.0 - self.risk)
        return Cases(item, weight, self.risk, loss, self.risk, variance, n_items)


def walk(
    plan: Plan,
    stages: Sequence[Stage],
    predictions: Sequence[FloatArray],
    votes: FloatArray | None,
    generator: np.random.Generator,
) -> Ends:
    """Run a plan on N items.

    Parameters
    ----------
    plan : Plan
        The plan.
    stages : sequence of Stage
        What is known after 0, 1, … judges.
    predictions : sequence of arrays (N, K)
        Predictions after 0, 1, … judges.
    votes : ndarray of shape (N, K) or None
        Votes of people, which come in random order; None to draw them from the crowd.
    generator : Generator
        Randomness of votes.
    """
    n_items, n_classes = predictions[0].shape
    none = np.zeros((n_items, n_classes))
    asked = np.full(n_items, min(1, plan.n_judges))
    mean = np.empty((n_items, n_classes))
    going = np.arange(n_items)
    for number in range(min(1, plan.n_judges), plan.n_judges + 1):
        asked[going] = number
        law = stages[number].crowd.law_
        mean[going] = predict_blocks(law, predictions[number][going], none[going])
        going = going[1.0 - mean[going].max(axis=1) > plan.goal]
    used = none
    if plan.max_votes and len(going):
        stage = stages[plan.n_judges]
        policy = plan.policy(stage.crowd)
        own = predictions[plan.n_judges][going]
        if votes is None:
            used[going] = policy._simulate(own, none[going], 1, generator)[0]
        else:
            used[going] = policy._use(own, votes[going], generator)
        mean[going] = predict_blocks(stage.crowd.law_, own, used[going])
    label = mean.argmax(axis=1)
    return Ends(asked, used, label, 1.0 - mean.max(axis=1))


@dataclass(frozen=True, eq=False)
class _Terms:
    """What all plans have in common: the promise, prices of judges and of a person, and a seed."""

    error: float
    confidence: float
    prices: FloatArray
    person: float
    seed: int


def choose_goal(
    plan: Plan,
    stages: Sequence[Stage],
    predictions: Sequence[FloatArray],
    terms: _Terms,
    n_certifying: int,
) -> tuple[Plan, Ends]:
    """Return a plan with the goal by which most is accepted, and where items end by it.

    The mean predicted risk of what is accepted leaves room for the error of certification, which is
    about one quantile of a normal distribution. Votes are drawn from the crowd.
    """
    error = terms.error
    best: tuple[float, Plan, Ends] | None = None
    for goal in np.geomspace(error / 2.0, min(3.0 * error, 0.95), GOALS).tolist():
        tried = replace(plan, goal=goal)
        ends = walk(tried, stages, predictions, None, np.random.default_rng(terms.seed))
        inside = ends.risk <= goal
        share = float(inside.mean())
        if share:
            spread = np.sqrt(error * (1.0 - error) / (share * n_certifying))
            if ends.risk[inside].mean() > error - norm.ppf(terms.confidence) * spread:
                continue
        if best is None or share > best[0]:
            best = (share, tried, ends)
    if best is None:
        tried = replace(plan, goal=error)
        return tried, walk(tried, stages, predictions, None, np.random.default_rng(terms.seed))
    return best[1], best[2]


@dataclass(frozen=True, eq=False, repr=False)
class Cascade:
    """What judges and people together accept, and what that costs, returned by `cascade`.

    Attributes
    ----------
    rows : list of dict
        One row per plan: ``plan`` in words; ``judges`` and ``votes``, how many are asked at most;
        ``cost``, the mean per item; ``accepted``, the share of the items whose label is accepted
        with a mean error that is certified; ``error``, how often votes held back disagree with
        them; ``forecast``, the share as the items that fit predict it; ``frontier``, whether no
        other plan accepts more for less.
    order : tuple
        Judges in the order in which they are asked.
    error, confidence : float
        Another annotator disagrees with at most this share of the accepted labels of a plan, with
        this probability, for each plan by itself.
    chosen : int or None
        The plan that the budget buys, chosen before anything was certified.
    budget : float or None
        The budget.
    n_items : int
        Number of items that the budget is for.
    prices : dict
        Prices of the judges, and of a person.
    n_fitted, n_certifying : int
        Numbers of items that fit the plans, and that certify them.
    plans, stages, thresholds
        The plans by row, what is known after 0, 1, … judges, and the largest risk that is accepted
        by each plan; −inf if nothing is certified.
    """

    rows: Rows
    order: Names
    prices: dict[Any, float]
    error: float
    confidence: float
    chosen: int | None
    budget: float | None
    n_items: int
    n_fitted: int
    n_certifying: int
    plans: tuple[Plan, ...]
    stages: tuple[Stage, ...]
    thresholds: FloatArray

    @property
    def frontier(self) -> Rows:
        """The plans that no other plan beats, by cost."""
        return Rows(sorted((row for row in self.rows if row["frontier"]), key=_cost_of))

    def buys(self) -> dict[str, Any] | None:
        """Return what the budget buys: the plan, and how many items it treats and accepts."""
        if self.chosen is None or self.budget is None:
            return None
        row = self.rows[self.chosen]
        treated = self.n_items
        if row["cost"] * self.n_items > self.budget:
            treated = int(self.budget / row["cost"])
        return {
            "plan": row["plan"],
            "items": treated,
            "accepted": int(treated * row["accepted"]),
            "cost": treated * row["cost"],
        }

    def decide(
        self,
        judges: Any,
        votes: Any = None,
        *,
        kinds: Any = None,
        plan: int | None = None,
        asked: Any = None,
    ) -> Any:
        """Tell what to do next with new items: accept, ask a judge, ask a person, or stop.

        Parameters
        ----------
        judges
            Answers so far, in any form that `JudgePool.predict_proba` takes.
        votes : array or data frame of shape (N, K), or Annotations, optional
            Votes so far, which the cascade asked for. More votes on an item than the plan asks for
            are refused, as its certificate does not hold with them.
        kinds
            Kinds, if the cascade was fitted with kinds, matched as by `JudgePool.predict_proba`.
        plan : int, optional
            Number of the plan, from 0, by default the chosen one.
        asked : sequence of N ints, optional
            How many judges of `order` each item was shown to, from 0 to their number. By default up
            to the last one with an answer.

        Returns
        -------
        data frame
            Columns ``step`` (``accept``, the name of a judge, ``person`` or ``stop``), ``label``
            and ``risk``.
        """
        number = self.chosen if plan is None else as_positive_int(plan, "plan", minimum=0)
        if number is None:
            raise ValueError("plan is missing: give the number of a row, or fit with a budget.")
        if number >= len(self.plans):
            raise ValueError(
                f"plan must be the number of a row, at most {len(self.plans) - 1}, but is {plan!r}."
            )
        return _decide(self, self.plans[number], number, judges, votes, kinds, asked)

    def __str__(self) -> str:
        lines = [
            f"Plans by cost per item, and the share of labels they accept with an error of at most "
            f"{self.error:g},",
            f"certified for each plan by itself with probability {self.confidence:g} on "
            f"{plural(self.n_certifying, 'item')}:",
            self._table(self.frontier),
        ]
        if not self.frontier:
            lines[1:] = [
                f"Nothing is certified with {plural(self.n_certifying, 'item')}. More items with "
                "votes, or a larger error, would do. Forecasts from the items that fit:",
                self._table(self.rows),
            ]
        found = self.buys()
        if found is not None:
            what = f"about {found['accepted']:,} labels accepted"
            if not np.isfinite(self.thresholds[self.chosen or 0]):
                what = "but none of its labels is certified"
            lines.append(
                f"{self.budget:g} buys: {found['plan']}, for {found['items']:,} of "
                f"{self.n_items:,} items at {found['cost']:,.2f}; {what}. This plan was chosen "
                "before plans were certified."
            )
        return "\n".join(lines)

    def _table(self, rows: Rows) -> str:
        """Return plans as a table of texts."""
        cells = [
            [
                row["plan"],
                f"{row['cost']:.3f}",
                f"{row['accepted']:.0%}",
                "-" if np.isnan(row["error"]) else f"{row['error']:.3f}",
                f"{row['forecast']:.0%}",
            ]
            for row in rows
        ]
        return table_text(["plan", "cost", "accepted", "error seen", "forecast"], cells, left=1)

    def __repr__(self) -> str:
        return f"Cascade: {plural(len(self.rows), 'plan')}, {len(self.frontier)} on the frontier"


def _cost_of(row: dict[str, Any]) -> float:
    return float(row["cost"])


def cascade(
    judges: Any,
    votes: Any,
    prices: Mapping[Any, float],
    *,
    error: float = 0.1,
    confidence: float = 0.9,
    max_votes: int = 1,
    worth: float = WORTH,
    budget: float | None = None,
    n_items: int | None = None,
    kinds: Any = None,
    clusters: Any = None,
    random_state: RandomState = 0,
) -> Cascade:
    """Compare what judges, people, and judges before people accept, and what that costs.

    Plans ask the first 0, 1, … judges in order of price (of judges of one price, the better one
    comes first), and then for up to 0, 1, … ``max_votes`` votes where each is likely to lead to
    acceptance. An item goes no further once its label has a low risk. A third of the items with
    votes fits the pools, the crowds and the goals of all plans; the others certify one threshold of
    the risk for each plan as a whole, by votes that were held back.

    Parameters
    ----------
    judges
        Answers, in any form that `JudgePool.fit` takes.
    votes : Annotations, or array or data frame of shape (N, K)
        People's votes; items may be without. A plan with up to m votes is certified on items with
        m + 1 votes or more. Their number must not depend on how they came out.
    prices : dict
        Price of one answer of each judge, and of one vote as ``person``.
    error : float
        Largest mean error among accepted labels.
    confidence : float
        Probability with which the bound of a plan holds.
    max_votes : int
        Largest number of votes on one item.
    worth : float
        A person is asked if the probability that votes lead to acceptance is at least this, for
        each vote.
    budget : float, optional
        What may be spent on ``n_items`` items. It chooses the plan that is expected to accept most,
        from the items that fit alone.
    n_items : int, optional
        Number of items that the budget is for, by default those of the judges.
    kinds, clusters
        As for `JudgePool.fit`; clusters are not divided, and are the units of the certificate.
    random_state : int, Generator or None
        Seed of the parts, the folds and the order of votes.

    Returns
    -------
    Cascade

    Examples
    --------
    >>> import credalset as cs
    >>> panel = cs.datasets.make_judge_panel(600, n_votes=3, random_state=0)
    >>> judges = {f"judge {j + 1}": p for j, p in enumerate(panel.probabilities)}
    >>> prices = {"judge 1": 0.01, "judge 2": 0.02, "judge 3": 0.05, "person": 0.3}
    >>> found = cs.cascade(judges, panel.counts, prices, error=0.35, budget=60)
    >>> found.order
    ('judge 1', 'judge 2', 'judge 3')
    >>> len(found.rows)  # 0 to 3 judges, with and without a vote
    8
    """
    as_probability(error, "error")
    as_probability(confidence, "confidence")
    as_positive_int(max_votes, "max_votes", minimum=0)
    as_probability(worth, "worth")
    if budget is not None:
        as_finite(budget, "budget", minimum=0.0)
    answers, labels = read_judged(judges, votes)
    price = _read_prices(prices, answers.names)
    counts = labels.votes("votes", "a cascade")
    batch = answers.batch()
    columns = read_kinds(batch, kinds)
    unit = np.arange(len(answers))
    if clusters is not None:
        unit = np.unique(_numbers(batch.keys(clusters, "clusters")), return_inverse=True)[1]
    generator = as_generator(random_state)
    seed = int(generator.integers(1 << 31))
    fitted, others = _parts(counts, unit, generator)
    learner = _Learner(answers, labels, columns, kind_names(kinds), unit, fitted, seed)
    with progress("Fitting judges", len(answers.names) + 1) as advance:
        order = learner.order(price[:-1])
        known = []
        for number in range(len(order) + 1):
            known.append(learner.stage(order[:number]))
            advance(1, "")
    stages = [stage for stage, _ in known]
    terms = _Terms(error, confidence, price[:-1][order], float(price[-1]), seed)
    measured = []
    with progress("Comparing plans", len(stages) * (max_votes + 1)) as advance:
        for n_judges in range(len(stages)):
            for most in range(max_votes + 1):
                rows = others[counts[others].sum(axis=1) > most]
                found = _measure(
                    Plan(n_judges, most, error, worth),
                    stages,
                    [predicted[fitted] for _, predicted in known],
                    [predicted[rows] for _, predicted in known],
                    counts[rows],
                    None if clusters is None else unit[rows],
                    terms,
                )
                measured.append(found)
                advance(1, "")
    names = tuple(answers.names[judge] for judge in order)
    total = len(answers) if n_items is None else as_positive_int(n_items, "n_items")
    chosen = None
    if budget is not None:
        chosen = _choose([each.forecast for each in measured], budget, total)
    return Cascade(
        _rows(names, measured),
        names,
        dict(zip([*names, PERSON], [*terms.prices.tolist(), terms.person], strict=True)),
        error,
        confidence,
        chosen,
        budget,
        total,
        len(fitted),
        len(others),
        tuple(each.plan for each in measured),
        tuple(stages),
        np.array([each.threshold for each in measured]),
    )


def _rows(names: Names, measured: Sequence[_Measured]) -> Rows:
    """Return plans as rows."""
    costs = [each.cost for each in measured]
    shares = [each.accepted for each in measured]
    return Rows(
        {
            "plan": _words(names, each.plan),
            "judges": each.plan.n_judges,
            "votes": each.plan.max_votes,
            "cost": each.cost,
            "accepted": each.accepted,
            "error": each.error,
            "forecast": each.forecast[1],
            "frontier": _is_best(number, costs, shares),
        }
        for number, each in enumerate(measured)
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    """A plan: what it costs and accepts, by certificate, and as was forecast (cost, accepted)."""

    plan: Plan
    cost: float
    accepted: float
    error: float
    threshold: float
    forecast: tuple[float, float]


def _measure(
    plan: Plan,
    stages: Sequence[Stage],
    known: Sequence[FloatArray],
    new: Sequence[FloatArray],
    counts: FloatArray,
    unit: IntArray | None,
    terms: _Terms,
) -> _Measured:
    """Fix the goal of a plan on some items, and certify it on others."""
    prices = terms.prices
    person = terms.person
    plan, ends = choose_goal(plan, stages, known, terms, max(len(counts), 1))
    forecast = float(ends.cost(prices, person).mean()), float((ends.risk <= plan.goal).mean())
    if not len(counts):
        return _Measured(plan, forecast[0], 0.0, np.nan, -np.inf, forecast)
    generator = np.random.default_rng(terms.seed)
    n_draws = DRAWS if plan.max_votes else 1
    hands = [
        draw_votes(counts, (plan.max_votes,), generator)[plan.max_votes] for _ in range(n_draws)
    ]
    hand = np.concatenate(hands)
    held = np.tile(counts, (n_draws, 1)) - hand
    replayed = walk(plan, stages, [np.tile(each, (n_draws, 1)) for each in new], hand, generator)
    loss = LOSSES["annotator"].of(replayed.label, held)
    cases = replayed.cases(loss, n_draws)
    clusters = None if unit is None else np.unique(unit, return_inverse=True)[1]
    threshold = certify(
        cases,
        ends.cases(ends.risk),
        LOSSES["annotator"],
        (terms.error,),
        1.0 - terms.confidence,
        clusters=clusters,
    )[0]
    inside = replayed.risk <= threshold
    return _Measured(
        plan,
        float(replayed.cost(prices, person).mean()),
        float(cases.accepted(threshold).mean()),
        float(loss[inside].mean()) if inside.any() else np.nan,
        float(threshold),
        forecast,
    )


@dataclass(frozen=True, eq=False)
class _Learner:
    """Learns from the votes of some items, and predicts for all."""

    answers: Answers
    labels: Labels
    columns: list[list[Any]]
    names_of_kinds: Names | None
    unit: IntArray
    rows: IntArray
    seed: int

    def fit(self, judges: Sequence[int]) -> JudgePool:
        """Return a pool of some judges."""
        rows = self.rows
        part = self.answers.keep(judges).take(rows)
        own = [[column[row] for row in rows.tolist()] for column in self.columns]
        labels = self.labels[rows]
        pool = JudgePool(random_state=self.seed)
        return pool._fit(part, labels, own, self.unit[rows], self.names_of_kinds)

    def order(self, prices: FloatArray) -> list[int]:
        """Return judges by price; of judges of one price, the one that predicts best is first."""
        votes = self.labels.distributions[self.rows]
        losses = []
        for judge in range(len(prices)):
            alone = 0.0
            if (prices == prices[judge]).sum() > 1:
                predicted = np.maximum(self.fit([judge]).oof_, 1e-300)
                alone = float(cross_entropy(votes, np.log(predicted)).mean())
            losses.append(alone)
        return np.lexsort((np.array(losses), prices)).tolist()

    def stage(self, judges: Sequence[int]) -> tuple[Stage, FloatArray]:
        """Return what is known after some judges, and predictions for all items."""
        pool = self.fit(judges)
        predicted = pool.law_.predict(self.answers.keep(judges), self.columns)
        predicted[self.rows] = pool.oof_
        counts = self.labels.votes("votes", "a cascade")
        chosen = self.rows[:MOST_FITTED]
        crowd = DirichletCrowd(class_bias=False, random_state=self.seed)  # the pool has one
        crowd.fit(predicted[chosen], counts[chosen])
        return Stage(pool, crowd), predicted


def _numbers(column: Sequence[Any]) -> IntArray:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in column], dtype=np.int64)


def _read_prices(prices: Mapping[Any, float], names: Names) -> FloatArray:
    """Return the prices of the judges in their order, and of a person."""
    if not isinstance(prices, Mapping):
        raise TypeError(f"prices must be a dict of prices by judge, but is {prices!r}.")
    for step in (PERSON, ACCEPT, STOP):
        if step in names:
            raise ValueError(
                f"judges has a judge called {step!r}, which is also the name of a next step. "
                "Rename it."
            )
    given = dict(zip(as_names(tuple(prices)), prices.values(), strict=True))
    wanted = [*names, PERSON]
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        what = f"has none for {join_names(missing)}" if missing else ""
        what = what or f"names {join_names(unknown)}, which is no judge"
        raise ValueError(
            f"prices {what}. Give a price for each judge ({join_names(names, 8)}) and for person."
        )
    return np.array([as_finite(given[n], f"prices[{n!r}]", minimum=0.0) for n in wanted])


def _parts(
    counts: FloatArray, unit: IntArray, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return a third of the items with votes, and the others; clusters are not divided."""
    voted = np.flatnonzero(counts.any(axis=1))
    units = np.unique(unit[voted])
    first = generator.permutation(units)[: len(units) // PART]
    inside = np.isin(unit[voted], first)
    if min(inside.sum(), (~inside).sum()) < LEAST:
        raise ValueError(
            f"votes has {plural(len(voted), 'item')} of judges, but a cascade needs {LEAST} to fit "
            f"and {LEAST} to certify. Collect votes on more items."
        )
    return voted[inside], voted[~inside]


def _choose(forecasts: Sequence[tuple[float, float]], budget: float, n_items: int) -> int:
    """Return the plan that is expected to accept most for the budget; of equal ones the cheapest.

    Where the budget does not reach for all items, it is spent on some of them.
    """
    gained = []
    for cost, accepted in forecasts:
        reach = 1.0 if cost * n_items <= budget else budget / (cost * n_items)
        gained.append((round(accepted * reach, 6), -cost))
    return max(range(len(gained)), key=lambda number: gained[number])


def _is_best(number: int, costs: Sequence[float], shares: Sequence[float]) -> bool:
    """Tell whether no other plan accepts as much for less, or more for as much."""
    cost, share = costs[number], shares[number]
    return share > 0 and not any(
        (shares[other] >= share and costs[other] < cost)
        or (shares[other] > share and costs[other] <= cost)
        for other in range(len(costs))
    )


def _words(names: Names, plan: Plan) -> str:
    """Return a plan in words."""
    parts = [str(name) for name in names[: plan.n_judges]]
    if plan.max_votes:
        parts.append("a person" if plan.max_votes == 1 else f"up to {plan.max_votes} people")
    return ", then ".join(parts) or "nobody: the most frequent label"


def _decide(
    found: Cascade, plan: Plan, number: int, judges: Any, votes: Any, kinds: Any, asked: Any
) -> Any:
    """Return the next steps of new items as a frame; see `Cascade.decide`."""
    last = found.stages[-1].pool
    answers, columns = last._read(judges, kinds)
    batch = answers.batch()
    shape = (len(answers), answers.n_classes)
    nothing = np.zeros(shape)
    hand = nothing
    if votes is not None:
        hand = batch.votes(votes, partial=True, empty=True).votes("votes", "a cascade")
    _refuse_votes(np.flatnonzero(hand.sum(axis=1) > plan.max_votes), answers, number, plan)
    seen = np.minimum(_read_asked(asked, answers), plan.n_judges)
    # As in `walk`: later answers do not count for an item that ended before, because the
    # certificate is that of the label at its end.
    first = min(1, plan.n_judges)
    mean = np.empty(shape)
    going = np.arange(len(answers))
    step = np.full(len(answers), STOP, dtype=object)
    for count in range(plan.n_judges + 1):
        stage = found.stages[count]
        predicted = stage.pool.law_.predict(answers.keep(range(count)), columns)
        mean[going] = predict_blocks(stage.crowd.law_, predicted[going], nothing[going])
        if count >= first:
            going = going[1.0 - mean[going].max(axis=1) > plan.goal]
        if count < plan.n_judges:
            step[going[seen[going] == count]] = str(found.order[count])
            going = going[seen[going] > count]
    if plan.max_votes:
        policy = plan.policy(stage.crowd)
        going = going[policy._ask(predicted[going], nothing[going])]
        voted = going[hand[going].any(axis=1)]
        asked_for = policy._asks_for(VotedItems(batch.with_values(predicted)[voted], hand[voted]))
        _refuse_votes(voted[~asked_for], answers, number, plan)
        mean[going] = predict_blocks(stage.crowd.law_, predicted[going], hand[going])
        step[going[policy._ask(predicted[going], hand[going])]] = PERSON
    unused = np.asarray(hand.any(axis=1))
    unused[going] = False
    if unused.any():
        warn(
            f"votes has votes on {plural(int(unused.sum()), 'item')} on which plan {number} does "
            "not ask people, or not yet. They are not used."
        )
    risk = 1.0 - mean.max(axis=1)
    step[(step == STOP) & (risk <= found.thresholds[number])] = ACCEPT
    labels = last.classes_[mean.argmax(axis=1)]
    frame = {"step": step, "label": labels, "risk": risk}
    return need("pandas").DataFrame(frame, index=answers.items)


def _refuse_votes(rows: IntArray, answers: Answers, number: int, plan: Plan) -> None:
    """Refuse items with more votes than the plan asks for."""
    if not len(rows):
        return
    first = rows[0] if answers.items is None else answers.items[rows[0]]
    raise ValueError(
        f"votes has more votes on {plural(len(rows), 'item')} (first: {first!r}) than plan "
        f"{number} asks for: at most {plan.max_votes}, and no more once a label can be accepted. "
        "Nothing is certified for decisions by more votes. Leave out those that the plan did not "
        "ask for, or choose a plan with more votes."
    )


def _read_asked(asked: Any, answers: Answers) -> IntArray:
    """Return how many judges each item was shown to, by default up to the last answer, (N,)."""
    n_judges = len(answers.names)
    if asked is None:
        numbers = np.arange(1, n_judges + 1)
        return np.asarray((answers.is_answered * numbers).max(axis=1, initial=0))
    if isinstance(asked, Mapping):
        raise TypeError(
            "asked must be a sequence of whole numbers, one per item, but is a dict. Pass a series "
            "with the items as index: pd.Series(asked)."
        )
    column = answers.batch().column(asked, "asked")
    array = as_numbers(column, "asked", "Pass one whole number per item.")
    wrong = np.flatnonzero(~((array >= 0) & (array <= n_judges) & (array == np.floor(array))))
    if len(wrong):
        raise ValueError(
            f"asked must hold whole numbers from 0 to {n_judges}, the number of judges, but holds "
            f"{column[wrong[0]]!r} (position {wrong[0]})."
        )
    return array.astype(np.int64)
