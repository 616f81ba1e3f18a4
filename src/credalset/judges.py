"""Compare judges with people: agreement, the alternative annotator test, and what each adds.

A judge may be a language model, a classifier or an annotator, as for
`credalset.predictors.JudgePool`. Whatever is said of a judge is said of the pool of all judges, out
of fold, and of a constant that never reads the item, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from credalset._batch import Batch, Labels, Names
from credalset._display import Estimate, Rows, join_names, number_text, plural, progress, table_text
from credalset._typing import BoolArray, FloatArray, IntArray, RandomState
from credalset._validation import as_finite
from credalset.predictors.judges import Answers, read_judged
from credalset.predictors.log_linear import cross_entropy
from credalset.predictors.pool import JudgePool, ordinal_positions, read_kinds
from credalset.votes import Annotations

__all__ = ["AltTest", "Comparison", "alt_test", "compare"]


def __dir__() -> list[str]:
    return list(__all__)


#: advantage that people cost more by, as Calderon, Reichart and Dror (2025) choose it
EPSILONS = {"crowd": 0.1, "skilled": 0.15, "expert": 0.2}
MIN_PEOPLE = 2  # votes on an item of the test
MIN_ITEMS = 30  # items of a person in the test
POOL = "pool (out of fold)"
CONSTANT = "constant"
MOST_CONFUSIONS = 5


@dataclass(frozen=True)
class AltTest:
    """Result of the alternative annotator test of one judge.

    Attributes
    ----------
    winning_rate : float
        ω: share of the people that the judge is as good as, within ε; at least half: the judge
        passes.
    advantage : float
        ρ: probability that the judge is at least as close to the other people as a person is.
    n_people : int
        Number of people with enough items.
    p_values : tuple of float
        One per person.
    """

    winning_rate: float
    advantage: float
    n_people: int
    p_values: tuple[float, ...]

    @property
    def passes(self) -> bool:
        """Whether the judge is as good as at least half of the people."""
        return self.winning_rate >= 0.5


def alt_test(
    people: IntArray,
    choices: IntArray,
    epsilon: float = 0.15,
    *,
    positions: Any = None,
    q: float = 0.05,
) -> AltTest | None:
    r"""Test whether a judge may stand in for a person: the alternative annotator test.

    Each person j is compared with the judge on the items that j and others labelled. The judge wins
    an item if its label is at least as close to those of the others as j's label is; ties count for
    both. Person j loses if a t-test rejects that the judge wins less often than j by ε or more; the
    tests of all persons are corrected by Benjamini and Yekutieli.

    Parameters
    ----------
    people : ndarray of shape (N, R)
        Positions of the labels of R people among the classes, −1 where there is none.
    choices : ndarray of shape (N,)
        Positions of the labels of the judge, −1 where there is none.
    epsilon : float
        What a judge may be worse by, because people cost more: 0.1 for crowd workers, 0.15 for
        skilled annotators, 0.2 for experts.
    positions : sequence of numbers, optional
        Values of the labels, if they are ratings: closeness is then minus the root mean squared
        difference. By default it is the share of others with the same label.
    q : float
        Largest rate of false discoveries.

    Returns
    -------
    AltTest or None
        None if no person labelled 30 items that others labelled, too.

    References
    ----------
    Calderon, Reichart, Dror, "The alternative annotator test for LLM-as-a-judge", ACL 2025.

    Examples
    --------
    >>> import numpy as np
    >>> people = np.random.default_rng(0).integers(0, 2, (200, 3))
    >>> people[:150] = 1
    >>> found = alt_test(people, np.ones(200, int))
    >>> found.winning_rate, round(found.advantage, 2)
    (1.0, 0.97)
    """
    is_labelled = people >= 0
    usable = (is_labelled.sum(axis=1) >= MIN_PEOPLE) & (choices >= 0)
    value = None if positions is None else np.asarray(positions, dtype=np.float64)
    p_values = []
    advantages = []
    for person in range(people.shape[1]):
        rows = np.flatnonzero(usable & is_labelled[:, person])
        if len(rows) < MIN_ITEMS:
            continue
        others = np.delete(people[rows], person, axis=1)
        own = _closeness(people[rows, person], others, value)
        judge = _closeness(choices[rows], others, value)
        difference = (own >= judge).astype(np.float64) - (judge >= own)
        advantages.append(float(np.mean(judge >= own)))
        if difference.std() == 0:  # the t-test has no answer
            p_values.append(float(difference[0] >= epsilon))
        else:
            test = stats.ttest_1samp(difference, epsilon, alternative="less")
            p_values.append(float(test.pvalue))
    if not p_values:
        return None
    n_lost = _benjamini_yekutieli(np.array(p_values), q)
    return AltTest(
        n_lost / len(p_values), float(np.mean(advantages)), len(p_values), tuple(p_values)
    )


def _closeness(labels: IntArray, others: IntArray, value: FloatArray | None) -> FloatArray:
    """Return how close a label is to those of others, for each item."""
    there = others >= 0
    number = there.sum(axis=1)
    if value is None:
        return np.asarray(((others == labels[:, None]) & there).sum(axis=1) / number)
    off = value[np.maximum(others, 0)] - value[labels][:, None]
    return np.asarray(-np.sqrt((off**2 * there).sum(axis=1) / number))


def _benjamini_yekutieli(p_values: FloatArray, q: float) -> int:
    """Return how many hypotheses are rejected at a rate of false discoveries of at most q."""
    n = len(p_values)
    ranks = np.arange(1, n + 1)
    bounds = ranks / n * q / np.sum(1.0 / ranks)
    below = np.flatnonzero(np.sort(p_values) <= bounds)
    return int(below[-1]) + 1 if len(below) else 0


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Judges beside people, the pool of all judges, and a constant.

    Attributes
    ----------
    rows : list of dict
        One row per judge, for the pool and for the constant: ``judge``; ``answers``, the share of
        items with an answer; ``agreement`` with a random person, with a 95 % interval;
        ``consistency``, how often two answers of a judge that gives probabilities agree;
        ``log_loss`` of the judge alone, corrected by a pool of one, out of fold, in nats;
        ``winning_rate`` and ``advantage`` of the alternative annotator test, and ``beyond``, the
        advantage minus that of the constant; ``without``, by how much the pool's log loss rises
        without the judge, with a 95 % interval; ``price``.
    people : dict
        ``agreement`` of two people, and ``ceiling``, the mean share of the most frequent vote.
    kinds : list of dict
        Agreement, advantage and advantage beyond the constant by kind.
    confusions : list of dict
        The most frequent pairs of a judge's label and another vote of a person.
    keep : tuple
        The judge that is best alone, and those that then lower the pool's log loss, one by one, by
        more than chance.
    epsilon : float
        The ε of the test.
    n_items, n_voted : int
        Numbers of items with answers, and of those with votes.
    notes : tuple of str
        What could not be computed, and why.
    """

    rows: Rows
    people: dict[str, Any]
    kinds: Rows
    confusions: Rows
    keep: tuple[Any, ...]
    epsilon: float
    n_items: int
    n_voted: int
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What follows, in sentences."""
        judges = self.rows[:-2]
        alone = min(judges, key=lambda row: row["log_loss"])
        names = ", ".join(map(str, self.keep))
        found = [f"Best alone by log loss: {alone['judge']}. Keep: {names}."]
        pool = self.rows[-2]
        constant = self.rows[-1]
        passing = [str(row["judge"]) for row in judges if (row["winning_rate"] or 0.0) >= 0.5]
        if constant["winning_rate"] is not None:
            which = ", ".join(passing) or "no judge"
            found.append(f"Passes the alternative annotator test: {which}.")
            if constant["winning_rate"] >= 0.5:
                found.append(
                    "So does a constant that never reads the item: passing shows little here; look "
                    "at the advantage beyond the constant."
                )
        if pool["log_loss"] >= constant["log_loss"]:
            found.append("The judges predict people's votes no better than a constant.")
        return " ".join(found)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "summary": self.summary,
            "judges": [_plain(row) for row in self.rows],
            "people": {name: _plain_value(value) for name, value in self.people.items()},
            "kinds": [_plain(row) for row in self.kinds],
            "confusions": [_plain(row) for row in self.confusions],
            "keep": list(self.keep),
            "epsilon": self.epsilon,
            "n_items": self.n_items,
            "n_voted": self.n_voted,
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """Return the rows of the judges as a pandas frame."""
        return self.rows.to_frame()

    def __str__(self) -> str:
        two = self.people["agreement"]
        two_people = "not known: no item has two votes" if two is None else _with_margin(two)
        lines = [
            f"{plural(len(self.rows) - 2, 'judge')} on {plural(self.n_items, 'item')}, "
            f"{self.n_voted} of them with people's votes",
            f"Two people agree: {two_people}; the most frequent vote: "
            f"{_with_margin(self.people['ceiling'])}",
            "",
            _judge_table(self.rows),
        ]
        if self.kinds:
            lines += ["", _kind_table(self.kinds)]
        if self.confusions:
            lines += ["", "Most frequent differences:", str(self.confusions)]
        lines += ["", self.summary, *(f"Note: {note}" for note in self.notes)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Comparison: {len(self.rows) - 2} judges, {self.n_voted} items with votes"


def compare(
    judges: Any,
    votes: Any,
    *,
    kinds: Any = None,
    clusters: Any = None,
    ratings: bool | None = None,
    epsilon: float = 0.15,
    prices: Mapping[Any, float] | None = None,
    random_state: RandomState = 0,
) -> Comparison:
    """Compare judges with people: how good each is, whether as good as a person, what it adds.

    Parameters
    ----------
    judges
        Answers, in any form that `JudgePool.fit` takes.
    votes : Annotations, or array or data frame of shape (N, K)
        People's votes. The alternative annotator test needs to know who voted (Annotations of a
        table with workers), and two votes an item.
    kinds : sequence of N keys, data frame or dict of sequences, optional
        Categorical columns, as for `JudgePool.fit`. The constant is the most frequent vote of each
        kind of the first column.
    clusters : sequence of N keys, optional
        Items that belong together; intervals and folds take them as units.
    ratings : bool, optional
        Whether classes are ratings, whose differences count: the test then uses minus the root mean
        squared difference, and the pool predicts its median. By default, if the votes have a scale
        or three or more classes have numbers as names.
    epsilon : float
        ε of the test: 0.1 for crowd workers, 0.15 for skilled annotators, 0.2 for experts.
    prices : dict, optional
        Price of an answer of each judge, which stands beside what leaving it out costs.
    random_state : int, Generator or None
        Seed of the folds.

    Returns
    -------
    Comparison
        Prints as tables; ``rows``, ``kinds``, ``confusions``, ``keep`` and ``summary``.

    Examples
    --------
    >>> import credalset as cs
    >>> panel = cs.datasets.make_judge_panel(800, n_votes=3, random_state=0)
    >>> votes = cs.Annotations.from_table(panel.votes(), classes=panel.classes)
    >>> import pandas as pd
    >>> judges = {
    ...     judge: pd.DataFrame(probabilities, panel.items, panel.classes)
    ...     for judge, probabilities in zip(panel.judges, panel.probabilities)
    ... }
    >>> found = cs.judges.compare(judges, votes, kinds=panel.slices)
    >>> found.keep
    ('judge 1', 'judge 2')
    """
    as_finite(epsilon, "epsilon", minimum=0.0)
    answers, labels = read_judged(judges, votes)
    batch = answers.batch()
    columns = read_kinds(batch, kinds)
    cluster = None if clusters is None else _numbers(batch.keys(clusters, "clusters"))
    voted = labels.has_votes
    price = _read_prices(prices, answers.names)
    classes = answers.labels[: answers.n_classes]
    positions = ordinal_positions(True if ratings else None, labels, classes)
    positions = None if ratings is False else positions
    scale: Any = False if positions is None else positions
    notes: list[str] = []
    people = _people_of(votes, batch, classes, notes)

    def pool_of(members: Sequence[int]) -> FloatArray:
        pool = JudgePool(scale=scale, random_state=random_state)
        return pool._fit(answers.keep(members), labels, columns, cluster).oof_

    n_judges = len(answers.names)
    everyone = list(range(n_judges))
    share = labels.distributions
    part = None if cluster is None else cluster[voted]
    with progress("Comparing judges", 1 + 2 * n_judges) as advance:
        pooled = pool_of(everyone)
        advance(1, "")
        alone = []
        without = []
        for judge in everyone:
            alone.append(pool_of([judge]) if n_judges > 1 else pooled)
            advance(1, "")
            if n_judges > 1:
                without.append(pool_of([other for other in everyone if other != judge]))
                advance(1, "")
        keep = _worth_keeping(
            [_log_loss(share, one, voted) for one in alone],
            part,
            lambda members: _log_loss(share, pool_of(members), voted),
        )
    loss = _log_loss(share, pooled, voted)
    constant = _constant(share, voted, columns)
    constant_loss = _log_loss(share, _constant_distribution(share, voted, columns), voted)
    answered = answers.is_answered
    tests = {}
    choices = answers.choices
    known = np.where(choices < answers.n_classes, choices, -1)
    # A label that is no class disagrees with everybody; among ratings it has no value.
    tested = choices if positions is None else known
    pool_choice = pooled.argmax(axis=1) if positions is None else _medians(pooled, positions)
    candidates = [*(tested[:, judge] for judge in everyone), pool_choice, constant]
    for number, chosen in enumerate(candidates):
        tests[number] = (
            None if people is None else alt_test(people, chosen, epsilon, positions=positions)
        )
    if people is not None and tests[len(candidates) - 1] is None:
        notes.append(
            f"nobody voted on {MIN_ITEMS} items that others voted on, too: there is no test."
        )
    base = tests[len(candidates) - 1]
    names = [*answers.names, POOL, CONSTANT]
    losses = [*(float(_log_loss(share, one, voted).mean()) for one in alone)]
    losses += [float(loss.mean()), float(constant_loss.mean())]
    rows = Rows()
    for number, (name, chosen) in enumerate(zip(names, candidates, strict=True)):
        is_judge = number < n_judges
        cost = None
        if is_judge and n_judges > 1:
            more = _log_loss(share, without[number], voted) - loss
            cost = _mean(more, part)
        consistency = None
        if is_judge and not answers.gives_labels[number]:
            repeated = np.square(answers.distributions[:, number]).sum(axis=1)
            consistency = float(np.nanmean(repeated)) if answered[:, number].any() else None
        given = answered[:, number].mean() if is_judge else 1.0
        test = tests[number]
        row = {
            "judge": name,
            "answers": float(given),
            "agreement": _agreement(share, chosen, voted, cluster),
            "consistency": consistency,
            "log_loss": losses[number],
            "winning_rate": None if test is None else test.winning_rate,
            "advantage": None if test is None else test.advantage,
            "beyond": None if test is None or base is None else test.advantage - base.advantage,
            "without": cost,
        }
        if price is not None:
            row["price"] = price[number] if is_judge else None
        rows.append(row)
    return Comparison(
        rows,
        _between_people(labels, cluster),
        _by_kind(columns, names, candidates, share, voted, people, epsilon, positions),
        _confusions(answers, known, share, voted, classes),
        tuple(answers.names[judge] for judge in keep),
        epsilon,
        len(answers),
        int(voted.sum()),
        tuple(notes),
    )


# --- reading ---


def _numbers(column: Sequence[Any]) -> IntArray:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in column], dtype=np.int64)


def _read_prices(prices: Mapping[Any, float] | None, names: Names) -> list[float | None] | None:
    if prices is None:
        return None
    unknown = [name for name in prices if name not in names and name != "person"]
    if unknown:
        raise ValueError(f"prices names {unknown[0]!r}, which is no judge: {join_names(names, 8)}.")
    return [
        None if name not in prices else as_finite(prices[name], f"prices[{name!r}]", minimum=0.0)
        for name in names
    ]


def _people_of(votes: Any, batch: Batch, classes: Names, notes: list[str]) -> IntArray | None:
    """Return who voted what, (N, R) positions of classes, −1 for no vote; None if not known."""
    if not isinstance(votes, Annotations) or votes.ballots is None or not votes.workers:
        notes.append(
            "votes does not say who voted: there is no alternative annotator test. Pass "
            "Annotations of a table with a column of workers."
        )
        return None
    position = {item: row for row, item in enumerate(batch.items or range(len(batch)))}
    place = np.array([position.get(item, -1) for item in votes.items or range(len(votes))])
    own = votes.classes or tuple(range(votes.n_classes))
    code = np.array([classes.index(label) for label in own])
    items, workers, labels = votes.ballots.codes.T
    found = np.full((len(batch), len(votes.workers)), -1, dtype=np.int64)
    rows = np.flatnonzero((place[items] >= 0) & (workers >= 0))
    found[place[items[rows]], workers[rows]] = code[labels[rows]]
    return found


# --- measuring ---


def _log_loss(share: FloatArray, predicted: FloatArray, voted: BoolArray) -> FloatArray:
    rows = np.flatnonzero(voted)
    return cross_entropy(share[rows], np.log(np.maximum(predicted[rows], 1e-300)))


def _mean(values: FloatArray, cluster: IntArray | None) -> Estimate:
    """Return the mean over items with a 95 % interval, in which clusters are the units."""
    n = len(values)
    mean = float(values.mean())
    off: Any = values - mean
    if cluster is not None:
        off = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=off)
    units = len(off)
    if units < 2:
        return Estimate(mean, mean, mean, n)
    error = float(np.sqrt(np.square(off).sum() * units / (units - 1.0))) / n
    half = float(stats.t.ppf(0.975, units - 1)) * error
    return Estimate(mean, mean - half, mean + half, n)


def _worth_keeping(
    alone: Sequence[FloatArray],
    cluster: IntArray | None,
    loss_of: Callable[[list[int]], FloatArray],
) -> list[int]:
    """Return the best judge, and those that lower the loss of the pool by more than chance."""
    kept = [int(np.argmin([loss.mean() for loss in alone]))]
    loss = alone[kept[0]]
    while len(kept) < len(alone):
        further = [judge for judge in range(len(alone)) if judge not in kept]
        losses = {judge: loss_of([*kept, judge]) for judge in further}
        best = min(losses, key=lambda judge: float(losses[judge].mean()))
        if _mean(loss - losses[best], cluster).low <= 0:
            break
        kept.append(best)
        loss = losses[best]
    return sorted(kept)


def _agreement(
    share: FloatArray, chosen: IntArray, voted: BoolArray, cluster: IntArray | None
) -> Estimate | None:
    """Return how often a random person gives the same label."""
    rows = np.flatnonzero(voted & (chosen >= 0))
    if not len(rows):
        return None
    n_classes = share.shape[1]
    same = share[rows, np.minimum(chosen[rows], n_classes - 1)] * (chosen[rows] < n_classes)
    return _mean(same, None if cluster is None else cluster[rows])


def _between_people(labels: Labels, cluster: IntArray | None) -> dict[str, Any]:
    found: dict[str, Any] = {"agreement": None}
    voted = labels.has_votes
    part = None if cluster is None else cluster[voted]
    found["ceiling"] = _mean(labels.distributions[voted].max(axis=1), part)
    if labels.counts is not None:
        number = labels.counts.sum(axis=1)
        rows = np.flatnonzero(number >= 2)
        if len(rows):
            counts = labels.counts[rows]
            pairs = (counts * (counts - 1)).sum(axis=1) / (number[rows] * (number[rows] - 1))
            found["agreement"] = _mean(pairs, None if cluster is None else cluster[rows])
    return found


def _groups(columns: Sequence[Sequence[Any]], n: int) -> IntArray:
    return _numbers(columns[0]) if columns else np.zeros(n, dtype=np.int64)


def _constant(share: FloatArray, voted: BoolArray, columns: Sequence[Sequence[Any]]) -> IntArray:
    """Return the most frequent vote of the kind of each item."""
    return np.asarray(_constant_distribution(share, voted, columns).argmax(axis=1))


def _constant_distribution(
    share: FloatArray, voted: BoolArray, columns: Sequence[Sequence[Any]]
) -> FloatArray:
    """Return the mean votes of the other items of the kind, with one vote spread over classes."""
    group = _groups(columns, len(share))
    given = np.where(voted[:, None], share, 0.0)
    total = np.zeros((group.max(initial=0) + 1, share.shape[1]))
    np.add.at(total, group, given)
    others = total[group] - given + 1.0 / share.shape[1]
    return np.asarray(others / others.sum(axis=1, keepdims=True))


def _medians(predicted: FloatArray, positions: FloatArray) -> IntArray:
    """Return the class at the median of each distribution."""
    order = np.argsort(positions, kind="stable")
    place = (predicted[:, order].cumsum(axis=1) < 0.5).sum(axis=1)
    return np.asarray(order[np.minimum(place, len(order) - 1)])


def _by_kind(
    columns: Sequence[Sequence[Any]],
    names: Sequence[Any],
    candidates: Sequence[IntArray],
    share: FloatArray,
    voted: BoolArray,
    people: IntArray | None,
    epsilon: float,
    positions: FloatArray | None,
) -> Rows:
    rows = Rows()
    if not columns:
        return rows
    kind_of = np.array(columns[0], dtype=object)
    for kind in dict.fromkeys(columns[0]):
        of_kind = np.array([each == kind for each in kind_of])
        base = None
        found = []
        for name, chosen in zip(reversed(names), reversed(candidates), strict=True):
            test = None
            if people is not None:
                test = alt_test(people[of_kind], chosen[of_kind], epsilon, positions=positions)
            base = test if name == CONSTANT else base
            beyond = None if test is None or base is None else test.advantage - base.advantage
            found.append(
                {
                    "kind": kind,
                    "judge": name,
                    "agreement": _agreement(share, chosen, voted & of_kind, None),
                    "advantage": None if test is None else test.advantage,
                    "beyond": beyond,
                }
            )
        rows.extend(reversed(found))
    return rows


def _confusions(
    answers: Answers, known: IntArray, share: FloatArray, voted: BoolArray, classes: Names
) -> Rows:
    found = []
    for judge, name in enumerate(answers.names):
        rows = np.flatnonzero(voted & (known[:, judge] >= 0))
        if not len(rows):
            continue
        table = np.zeros((answers.n_classes, answers.n_classes))
        np.add.at(table, known[rows, judge], share[rows])
        table /= len(rows)
        np.fill_diagonal(table, 0.0)
        for place in np.argsort(-table, axis=None, kind="stable")[:MOST_CONFUSIONS]:
            said, voted_for = np.unravel_index(place, table.shape)
            if table[said, voted_for] > 0:
                found.append(
                    {
                        "judge": name,
                        "says": classes[said],
                        "people say": classes[voted_for],
                        "share": float(table[said, voted_for]),
                    }
                )
    return Rows(sorted(found, key=lambda row: -row["share"])[:MOST_CONFUSIONS])


# --- showing ---


def _with_margin(value: Estimate | None) -> str:
    return "-" if value is None else f"{value:.3f} ± {(value.high - value.low) / 2:.3f}"


def _judge_table(rows: Rows) -> str:
    headings = ["judge", "answers", "agreement", "log loss", "ω", "ρ", "ρ beyond constant"]
    headings += ["pool without it"]
    priced = any("price" in row for row in rows)
    consistent = any(row["consistency"] is not None for row in rows)
    headings += ["consistency"] if consistent else []
    headings += ["price"] if priced else []
    lines = []
    for row in rows:
        cost = row["without"]
        line = [
            str(row["judge"]),
            f"{row['answers']:.0%}",
            _with_margin(row["agreement"]),
            f"{row['log_loss']:.3f}",
            number_text(row["winning_rate"], decimals=2),
            number_text(row["advantage"], decimals=3),
            "-" if row["beyond"] is None else f"{row['beyond']:+.3f}",
            "-" if cost is None else f"{cost:+.4f} ± {(cost.high - cost.low) / 2:.4f}",
        ]
        line += [number_text(row["consistency"], decimals=3)] if consistent else []
        line += [number_text(row["price"], decimals=3)] if priced else []
        lines.append(line)
    return table_text(headings, lines, left=1)


def _kind_table(rows: Rows) -> str:
    lines = [
        [
            str(row["kind"]),
            str(row["judge"]),
            _with_margin(row["agreement"]),
            number_text(row["advantage"], decimals=3),
            "-" if row["beyond"] is None else f"{row['beyond']:+.3f}",
        ]
        for row in rows[:60]
    ]
    return table_text(["kind", "judge", "agreement", "ρ", "ρ beyond constant"], lines, left=2)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Estimate):
        return {"value": float(value), "low": value.low, "high": value.high, "n": value.n}
    return value


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in row.items()}
