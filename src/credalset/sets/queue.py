"""The review queue: which items need another look, and why.

Items are settled if a single label is best for every member of the set. An undecided item is
*ambiguous* if even the member of smallest entropy is mixed: annotators will disagree however many
are asked. It is *unknown* if members range from clear to mixed: more votes will tell.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._batch import item_names
from credalset._display import plural
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from credalset._validation import as_finite
from credalset.sets.columns import pandas_frame
from credalset.sets.results import EntropyBounds

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

#: actions, in the order of the queue
ACTIONS = ("re-annotate", "escalate", "ambiguous", "settled")

REASONS = {
    "settled": "One {choice} is best for every distribution in the set.",
    "ambiguous": "Annotators will disagree: even the clearest distribution in the set is mixed.",
    "re-annotate": "The set allows both agreement and disagreement: collect more votes.",
    "escalate": "The set is neither clear enough to settle nor wide enough to ask for more "
    "votes: an expert decides.",
    "empty": "The set is empty: no distribution fits the prediction at this level. An expert "
    "should check the item.",
}


@dataclass(frozen=True)
class QueueRules:
    """Rules of the review queue; normalised entropies are 0 for one label, 1 for the uniform.

    The first rule that applies decides:

    1. *settled*: the decision rule keeps exactly one label (or action, with a utility).
    2. *escalate*: the set is empty.
    3. *ambiguous*: the aleatoric part, the smallest entropy in the set, exceeds ``ambiguous``.
    4. *re-annotate*: the epistemic part, largest minus smallest entropy, exceeds ``unknown``.
    5. *escalate*: everything else.

    Parameters
    ----------
    ambiguous : float
        Threshold of the aleatoric part, from 0 to 1.
    unknown : float
        Threshold of the epistemic part, from 0 to 1.
    decision : str
        Rule of `CredalSet.decide` that selects the possible labels.

    Examples
    --------
    >>> for action, words in QueueRules(unknown=0.4).describe().items():
    ...     print(f"{action}: {words}")
    re-annotate: several labels possible, aleatoric at most 0.5, epistemic above 0.4
    escalate: several labels possible, aleatoric at most 0.5, epistemic at most 0.4; or an empty set
    ambiguous: several labels possible, aleatoric above 0.5
    settled: exactly one label possible
    """

    ambiguous: float = 0.5
    unknown: float = 0.5
    decision: str = "e-admissible"

    def __post_init__(self) -> None:
        for name in ("ambiguous", "unknown"):
            object.__setattr__(self, name, as_finite(getattr(self, name), name, minimum=0.0))

    def describe(self, choice: str = "label") -> dict[str, str]:
        """Return the rules in words, by action.

        Parameters
        ----------
        choice : {"label", "action"}
            What the decision rule selects: labels, or the actions of a utility.

        Returns
        -------
        dict of str
            The rule of each of the four actions.
        """
        several = f"several {choice}s possible"
        clear = f"{several}, aleatoric at most {self.ambiguous:g}, epistemic"
        return {
            "re-annotate": f"{clear} above {self.unknown:g}",
            "escalate": f"{clear} at most {self.unknown:g}; or an empty set",
            "ambiguous": f"{several}, aleatoric above {self.ambiguous:g}",
            "settled": f"exactly one {choice} possible",
        }


@dataclass(frozen=True, eq=False, repr=False)
class Queue:
    """The action for each item, with a reason; built by `CredalSet.queue`.

    Arrays are in the order of the sets.

    Attributes
    ----------
    action : ndarray of N str
        ``"re-annotate"``, ``"escalate"``, ``"ambiguous"`` or ``"settled"``.
    reason : ndarray of N str
        The reason, in a sentence.
    possible : ndarray of shape (N, A)
        Whether the decision rule keeps each label (or action).
    entropies : EntropyBounds
        Smallest and largest entropy of each set, normalised to [0, 1]; NaN for an empty set.
    choices : tuple of str
        Names of the columns of ``possible``.
    items : tuple
        Names of the items.
    rules : QueueRules
        The rules that were applied.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> predictions = [[0.9, 0.05, 0.05], [0.4, 0.4, 0.2], [0.7, 0.3, 0.0]]
    >>> sets = TotalVariation().region(predictions, threshold=0.25)
    >>> sets.queue(items=["a", "b", "c"])["re-annotate"].items
    ('c',)
    """

    action: AnyArray
    reason: AnyArray
    possible: BoolArray
    entropies: EntropyBounds
    choices: tuple[str, ...]
    items: tuple[Hashable, ...]
    rules: QueueRules = field(default_factory=QueueRules)

    def __len__(self) -> int:
        return len(self.action)

    def __getitem__(self, key: Any) -> Queue:
        """Return the items of an action, in the order of the queue, or of some rows.

        The result is a queue again.
        """
        rows = self.order(key) if isinstance(key, str) else np.atleast_1d(np.arange(len(self))[key])
        bounds = {
            name: getattr(self.entropies, name)[rows]
            for name in ("lower", "upper", "lower_gap", "upper_gap")
        }
        taken = {name: getattr(self, name)[rows] for name in ("action", "reason", "possible")}
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

    def counts(self) -> dict[str, int]:
        """Return the number of items per action.

        Returns
        -------
        dict of int
        """
        return {action: int((self.action == action).sum()) for action in ACTIONS}

    def order(self, action: str | None = None) -> IntArray:
        """Return the rows of one action, or of all, in the order of the queue.

        Items to annotate again are sorted by decreasing epistemic part, ambiguous items by
        decreasing aleatoric part, and the others by decreasing total. Empty sets come first. Ties
        are broken by the number of possible labels.

        Parameters
        ----------
        action : str, optional
            One of the four actions; by default all of them, in the order re-annotate, escalate,
            ambiguous, settled.

        Returns
        -------
        ndarray of int
            Positions of the items.
        """
        if action is not None and action not in ACTIONS:
            raise ValueError(f"action must be one of {', '.join(ACTIONS)}, but is {action!r}.")
        parts = {"re-annotate": self.epistemic, "ambiguous": self.aleatoric}
        rows = []
        for name in ACTIONS if action is None else (action,):
            mine = np.flatnonzero(self.action == name)
            worth = parts.get(name, self.aleatoric + self.epistemic)[mine]
            rows.append(
                mine[
                    np.lexsort(
                        (-self.possible[mine].sum(axis=1), -np.nan_to_num(worth, nan=np.inf))
                    )
                ]
            )
        return np.concatenate(rows)

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
            ``item``, ``action``, ``possible``, ``aleatoric``, ``epistemic`` and ``reason``.
        """
        rows = self.order()
        return {
            "item": [self.items[i] for i in rows],
            "action": self.action[rows].tolist(),
            "possible": [" or ".join(self.labels(i)) for i in rows],
            "aleatoric": self.aleatoric[rows].tolist(),
            "epistemic": self.epistemic[rows].tolist(),
            "reason": self.reason[rows].tolist(),
        }

    def to_frame(self) -> Any:
        """Return the columns of `to_dict` as a pandas data frame."""
        table = self.to_dict()
        return pandas_frame(table, table["item"])

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {action}" for action, count in self.counts().items())
        return f"Queue: {plural(len(self), 'item')}, {counts}"


def build_queue(
    sets: CredalSet,
    rules: QueueRules | None = None,
    *,
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
        Definitions of ambiguous and unknown items.
    utility : array of shape (A, K), optional
        As in `CredalSet.decide`: an item is settled if one action is best for every member.
    actions : iterable of A names, optional
        Names of the actions of a utility. Without a utility, the choices are the classes.
    items : iterable of N names, optional
        Names of the items; by default those of the sets, or 0, 1, 2, ….
    """
    rules = QueueRules() if rules is None else rules
    if not isinstance(rules, QueueRules):
        raise TypeError(f"rules must be QueueRules or None, but is a {type(rules).__name__}.")
    possible = sets.decide(rules.decision, utility)
    choices = _choices(sets, utility, actions, possible.shape[1])
    own = range(len(sets)) if sets.items is None else sets.items
    names = tuple(own if items is None else items)
    if len(names) != len(sets):
        raise ValueError(
            f"items must name each of the {len(sets)} sets, but holds {len(names)} names."
        )
    entropies = sets.entropy_bounds("K")
    lower, upper = entropies
    kind = np.select(
        [
            sets.is_empty(),
            possible.sum(axis=1) == 1,
            lower > rules.ambiguous,
            upper - lower > rules.unknown,
        ],
        ["empty", "settled", "ambiguous", "re-annotate"],
        default="escalate",
    )
    choice = "label" if utility is None else "action"
    why = np.array([REASONS[name].format(choice=choice) for name in kind.tolist()], dtype=object)
    action = np.where(kind == "empty", "escalate", kind)
    return Queue(action, why, possible, entropies, choices, names, rules)


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
