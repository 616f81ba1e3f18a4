"""The queue: what to do next with each item, and why.

`CredalSet.queue` derives the findings from the sets alone, and from votes if there are any; they
are not certified. `credalset.review` derives them from a rule whose error is certified. Both leave
the decision to `credalset.acting.steps.next_steps`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._batch import item_names
from credalset._display import number_text, plural
from credalset._html import html_table
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from credalset._validation import as_finite, as_positive_int
from credalset.acting.steps import STEPS, Findings, first_and_second, leads, next_steps
from credalset.sets.columns import pandas_frame
from credalset.sets.results import EntropyBounds

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

EACH_STEP = 3  # items that a notebook shows
REMARKS = {
    "one": "One {choice} is best for every distribution in the set.",
    "mixed": "Even the clearest distribution in the set is mixed.",
    "wide": "The set allows both agreement and disagreement.",
    "narrow": "The set is neither clear nor wide.",
    "empty": "The set is empty: no distribution fits the prediction at this level.",
    "votes": "",
}


@dataclass(frozen=True)
class QueueRules:
    """Rules of the queue of plain sets; normalised entropies are 0 for one label, 1 for uniform.

    The first rule that applies decides:

    1. *accept*: the votes on the item have a clear winner, or else the decision rule keeps exactly
       one label (or action, with a utility) that the votes do not contradict.
    2. *ask*: the set is wide: its epistemic part, largest minus smallest entropy, exceeds ``ask``.
       The item has fewer than ``enough_votes`` votes, and is not divided.
    3. *divided*: the aleatoric part, the smallest entropy in the set, exceeds ``divided``; or there
       are enough votes, and no clear winner.
    4. *expert*: everything else, and empty sets.

    Votes have a clear winner if their lead over the second label is more than chance: a one-sided
    sign test at 5 %, which five unanimous votes pass. These rules have no guarantee; that of
    `credalset.review` has one for the labels that are accepted.

    Parameters
    ----------
    divided : float
        Limit of the aleatoric part, from 0 to 1.
    ask : float
        Limit of the epistemic part, from 0 to 1.
    decision : str
        Rule of `CredalSet.decide` that selects the possible labels.
    enough_votes : int
        Number of votes after which no more are asked for.

    Examples
    --------
    >>> for step, words in QueueRules(ask=0.4).describe().items():
    ...     print(f"{step}: {words}")
    accept: exactly one label possible
    ask: several labels possible, aleatoric at most 0.5, epistemic above 0.4
    divided: several labels possible, aleatoric above 0.5
    expert: several labels possible, aleatoric at most 0.5, epistemic at most 0.4; or an empty set
    """

    divided: float = 0.5
    ask: float = 0.5
    decision: str = "e-admissible"
    enough_votes: int = 10

    def __post_init__(self) -> None:
        for name in ("divided", "ask"):
            object.__setattr__(self, name, as_finite(getattr(self, name), name, minimum=0.0))
        as_positive_int(self.enough_votes, "enough_votes")

    def describe(self, choice: str = "label", *, with_votes: bool = False) -> dict[str, str]:
        """Return the rules in words, by step.

        Parameters
        ----------
        choice : {"label", "action"}
            What the decision rule selects: labels, or the actions of a utility.
        with_votes : bool
            Whether the items have votes, which the rules then use.

        Returns
        -------
        dict of str
            The rule of each of the four steps.
        """
        several = f"several {choice}s possible"
        clear = f"{several}, aleatoric at most {self.divided:g}, epistemic"
        rules = {
            "accept": f"exactly one {choice} possible",
            "ask": f"{clear} above {self.ask:g}",
            "divided": f"{several}, aleatoric above {self.divided:g}",
            "expert": f"{clear} at most {self.ask:g}; or an empty set",
        }
        if with_votes:
            many = f"{self.enough_votes} or more votes"
            rules["accept"] += " and no votes against it, or a clear winner of the votes"
            rules["ask"] += f"; fewer than {many.replace(' or more', '')}"
            rules["divided"] += f"; or {many} without a clear winner"
        return rules


@dataclass(frozen=True, eq=False, repr=False)
class Queue:
    """The next step of each item, with a reason; built by `CredalSet.queue` and `cs.review`.

    Arrays are in the order of the sets.

    Attributes
    ----------
    step : ndarray of N str
        ``"accept"``, ``"ask"``, ``"divided"`` or ``"expert"``.
    why : ndarray of N str
        The reason, in words.
    label : ndarray of N int
        The label (or action) that the item gets, or would get, as a column of ``possible``.
    possible : ndarray of shape (N, A)
        Whether the decision rule keeps each label (or action).
    entropies : EntropyBounds
        Smallest and largest entropy of each set, normalised to [0, 1]; NaN for an empty set.
    choices : tuple of str
        Names of the columns of ``possible``.
    items : tuple
        Names of the items.
    rules : QueueRules
        The rules that were applied to the sets.
    votes : ndarray of shape (N,) or None
        Number of votes on each item, if they are known.
    risk : ndarray of shape (N,) or None
        Probability that another annotator disagrees with the label, if it is known.
    further_votes : ndarray of shape (N,) or None
        Expected number of further votes, if it is known.
    model_errors : ndarray of N bool
        Where people clearly prefer another label than the model.
    certified : str
        What is certified about accepted labels; empty for rules on sets, which certify nothing.
    proved : ndarray of N bool or None
        Whether the label of each item is accepted and its error certified, if that is known.
    words : dict of str or None
        What leads to each step, in words; None for `QueueRules`.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> predictions = [[0.9, 0.05, 0.05], [0.4, 0.4, 0.2], [0.7, 0.3, 0.0]]
    >>> sets = TotalVariation().region(predictions, threshold=0.25)
    >>> sets.queue(items=["a", "b", "c"])["ask"].items
    ('c',)
    """

    step: AnyArray
    why: AnyArray
    label: IntArray
    possible: BoolArray
    entropies: EntropyBounds
    choices: tuple[str, ...]
    items: tuple[Hashable, ...]
    rules: QueueRules = field(default_factory=QueueRules)
    votes: IntArray | None = None
    risk: FloatArray | None = None
    further_votes: FloatArray | None = None
    model_errors: BoolArray | None = None
    certified: str = ""
    proved: BoolArray | None = None
    words: Mapping[str, str] | None = None

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, key: Any) -> Queue:
        """Return the items of a step, in the order of the queue, or of some rows.

        The result is a queue again.
        """
        rows = self.order(key) if isinstance(key, str) else np.atleast_1d(np.arange(len(self))[key])
        bounds = {
            name: getattr(self.entropies, name)[rows]
            for name in ("lower", "upper", "lower_gap", "upper_gap")
        }
        columns = ("step", "why", "label", "possible", "votes", "risk", "further_votes")
        taken = {
            name: getattr(self, name)[rows]
            for name in (*columns, "model_errors", "proved")
            if getattr(self, name) is not None
        }
        items = tuple(self.items[row] for row in rows)
        return replace(self, **taken, entropies=replace(self.entropies, **bounds), items=items)

    @property
    def aleatoric(self) -> FloatArray:
        """The smallest entropy of each set, (N,)."""
        return self.entropies.lower

    @property
    def epistemic(self) -> FloatArray:
        """The largest minus the smallest entropy of each set, (N,)."""
        return self.entropies.upper - self.entropies.lower

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels that the items get, or would get."""
        return tuple(self.choices[k] for k in self.label.tolist())

    def describe(self) -> dict[str, str]:
        """Return what leads to each step, in words.

        Returns
        -------
        dict of str
        """
        if self.words is not None:
            return dict(self.words)
        return self.rules.describe(with_votes=self.votes is not None)

    def counts(self) -> dict[str, int]:
        """Return the number of items per step.

        Returns
        -------
        dict of int
        """
        return {step: int((self.step == step).sum()) for step in STEPS}

    def order(self, step: str | None = None) -> IntArray:
        """Return the rows of one step, or of all, in the order of the queue.

        Accepted items come in the order of increasing risk, or else of increasing total entropy;
        items to ask by increasing expected number of votes, or else by decreasing epistemic part,
        those without a vote first; divided items by decreasing aleatoric part; the others by
        decreasing total. Empty sets come first. Ties are broken by the number of possible labels.

        Parameters
        ----------
        step : str, optional
            One of the four steps; by default all of them, in the order accept, ask, divided,
            expert.

        Returns
        -------
        ndarray of int
            Positions of the items.
        """
        if step is not None and step not in STEPS:
            raise ValueError(f"step must be one of {', '.join(STEPS)}, but is {step!r}.")
        rows = []
        for name in STEPS if step is None else (step,):
            mine = np.flatnonzero(self.step == name)
            keys = [-self.possible[mine].sum(axis=1), self._urgency(name, mine)]
            if name == "ask" and self.votes is not None:
                keys.append(self.votes[mine] > 0)
            rows.append(mine[np.lexsort(keys)])
        return np.concatenate(rows)

    def _urgency(self, step: str, rows: IntArray) -> FloatArray:
        """Return numbers that are smaller for items that come earlier."""
        total = np.nan_to_num((self.aleatoric + self.epistemic)[rows], nan=np.inf)
        if step == "accept":
            return total if self.risk is None else np.nan_to_num(self.risk[rows], nan=np.inf)
        if step == "ask" and self.further_votes is not None:
            return self.further_votes[rows]
        parts = {"ask": self.epistemic, "divided": self.aleatoric}
        worth = parts[step][rows] if step in parts else total
        return -np.nan_to_num(worth, nan=np.inf)

    def labels(self, row: int) -> tuple[str, ...]:
        """Return the names of the possible labels or actions of an item.

        Parameters
        ----------
        row : int
            Position of the item.

        Returns
        -------
        tuple of str
        """
        return tuple(
            name for name, kept in zip(self.choices, self.possible[row], strict=True) if kept
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the queue as columns, in the order of the queue.

        Returns
        -------
        dict of lists
            ``item``, ``step``, ``label``, then ``risk``, ``votes`` and ``further_votes`` as far as
            they are known, ``why``, ``possible``, ``aleatoric`` and ``epistemic``, and
            ``certified`` for the rule of a review.
        """
        rows = self.order()
        table: dict[str, list[Any]] = {
            "item": [self.items[i] for i in rows],
            "step": self.step[rows].tolist(),
            "label": [self.choices[k] for k in self.label[rows].tolist()],
        }
        for name in ("risk", "votes", "further_votes"):
            values = getattr(self, name)
            if values is not None:
                table[name] = values[rows].tolist()
        table["why"] = self.why[rows].tolist()
        table["possible"] = [" or ".join(self.labels(i)) for i in rows]
        table["aleatoric"] = self.aleatoric[rows].tolist()
        table["epistemic"] = self.epistemic[rows].tolist()
        if self.proved is not None:
            table["certified"] = self.proved[rows].tolist()
        return table

    def to_frame(self) -> Any:
        """Return the columns of `to_dict` as a pandas data frame."""
        table = self.to_dict()
        return pandas_frame(table, table["item"])

    def _repr_html_(self) -> str:
        """Return a table of the first items of each step: label, risk, votes and why."""
        known = self[np.concatenate([self.order(step)[:EACH_STEP] for step in STEPS])]
        columns: dict[str, Any] = {
            "item": known.items,
            "step": known.step,
            "label": known.label_names,
        }
        numbers = {"risk": (known.risk, 2), "votes": (known.votes, 0)}
        numbers |= {"further votes": (known.further_votes, 1)}
        for name, (values, decimals) in numbers.items():
            if values is not None:
                columns[name] = [number_text(float(v), decimals, missing="") for v in values]
        columns["why"] = known.why
        rows = [[str(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
        counts = ", ".join(f"{count} {step}" for step, count in self.counts().items())
        caption = f"Queue: {plural(len(self), 'item')}, {counts}"
        caption += "" if self.certified else " (not certified)"
        return html_table(caption, list(columns), rows, n_rows=len(self), left=len(columns))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {step}" for step, count in self.counts().items())
        certified = self.certified or "not certified"
        return f"Queue: {plural(len(self), 'item')}, {counts} ({certified})"


def build_queue(
    sets: CredalSet,
    rules: QueueRules | None = None,
    *,
    votes: Any = None,
    asked: Any = None,
    utility: ArrayLike | None = None,
    actions: Iterable[Any] | None = None,
    items: Iterable[Hashable] | None = None,
) -> Queue:
    """Apply the rules to a batch of sets; `CredalSet.queue` calls this.

    Parameters
    ----------
    sets : CredalSet
        N sets.
    rules : QueueRules, optional
        Limits of wide and of mixed sets.
    votes : array of shape (N, K), data frame or Annotations, optional
        Votes on the items.
    asked : sequence of N bool, optional
        Which items a policy asks again; it replaces the rule about wide sets.
    utility : array of shape (A, K), optional
        As in `CredalSet.decide`: an item is accepted if one action is best for every member.
    actions : iterable of A names, optional
        Names of the actions of a utility. Without a utility, the choices are the classes.
    items : iterable of N names, optional
        Names of the items; by default those of the sets, or 0, 1, 2, ….
    """
    rules = read_rules(rules)
    possible = sets.decide(rules.decision, utility)
    choices = _choices(sets, utility, actions, possible.shape[1])
    own = range(len(sets)) if sets.items is None else sets.items
    names = tuple(own if items is None else items)
    if len(names) != len(sets):
        raise ValueError(
            f"items must name each of the {len(sets)} sets, but holds {len(names)} names."
        )
    counts = None
    if votes is not None and utility is None:
        counts = sets._batch.votes(votes, partial=True).counts
    again = None if asked is None else np.asarray(sets._batch.column(asked, "asked"), dtype=bool)
    choice = "label" if utility is None else "action"
    return plan_steps(sets, rules, possible, choices, names, counts, again, choice)


def read_rules(rules: QueueRules | None) -> QueueRules:
    """Return the rules that were given, or those by default."""
    if rules is None:
        return QueueRules()
    if not isinstance(rules, QueueRules):
        raise TypeError(f"rules must be QueueRules or None, but is a {type(rules).__name__}.")
    return rules


def plan_steps(
    sets: CredalSet,
    rules: QueueRules,
    possible: BoolArray,
    choices: tuple[str, ...],
    items: tuple[Hashable, ...],
    counts: FloatArray | None,
    asked: BoolArray | None,
    choice: str = "label",
) -> Queue:
    """Build the queue of sets from plain arrays in their order; see `build_queue`."""
    entropies = sets.entropy_bounds("K")
    best = possible.argmax(axis=1)
    if choice == "label":
        inside = np.where(possible, sets.center, -1.0)
        best = np.where(possible.any(axis=1, keepdims=True), inside, sets.center).argmax(axis=1)
    found = _findings(sets, rules, possible, best, entropies, counts, asked, choice)
    found = replace(found, names=choices)
    step, why = next_steps(found)
    return Queue(
        step,
        why,
        found.label,
        possible,
        entropies,
        choices,
        items,
        rules,
        votes=None if counts is None else counts.sum(axis=1).astype(np.int64),
        model_errors=found.model_errors,
    )


def _findings(
    sets: CredalSet,
    rules: QueueRules,
    possible: BoolArray,
    best: IntArray,
    entropies: EntropyBounds,
    counts: FloatArray | None,
    asked: BoolArray | None,
    choice: str,
) -> Findings:
    """Return what the sets, and the votes if there are any, say about each item."""
    lower, upper = entropies
    empty = sets.is_empty()
    one = possible.sum(axis=1) == 1
    mixed = lower > rules.divided
    wide = upper - lower > rules.ask
    predicted = best if choice == "action" else sets.center.argmax(axis=1)
    enough = np.zeros(len(sets), dtype=bool)
    clear = enough
    against = enough
    label = best
    if counts is not None:
        clear = leads(*first_and_second(counts))
        winner = counts.argmax(axis=1)
        against = (counts[np.arange(len(sets)), best] < counts.max(axis=1)) & one
        enough = counts.sum(axis=1) >= rules.enough_votes
        label = np.where(clear, winner, best)
    kind = np.select(
        [clear, empty, one, mixed, wide],
        ["votes", "empty", "one", "mixed", "wide"],
        default="narrow",
    )
    remarks = np.array([REMARKS[name].format(choice=choice) for name in kind.tolist()], object)
    accept = clear | (one & ~against & ~empty)
    worth = (against | wide) & ~mixed & ~enough & ~empty if asked is None else asked
    return Findings(
        accept=accept,
        ask=worth,
        divided=(mixed | enough) & ~empty,
        label=label,
        predicted=predicted,
        names=(),
        votes=counts,
        remarks=remarks,
    )


def _choices(
    sets: CredalSet, utility: Any, actions: Iterable[Any] | None, count: int
) -> tuple[str, ...]:
    """Return the names of the actions: those given, the index of a frame, or the classes."""
    if actions is not None:
        names = tuple(str(name) for name in actions)
    elif utility is None and sets.classes is not None:
        names = tuple(str(name) for name in sets.classes)
    else:
        indexed = item_names(utility, "utility") or range(count)
        names = tuple(str(name) for name in indexed)
    if len(names) != count:
        raise ValueError(
            f"actions must name each of the {count} rows of utility, but holds {len(names)} names."
        )
    return names
