"""The items of the report, read and checked once: names, votes, texts, links, groups and sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from credalset._batch import Batch, Labels
from credalset._display import join_names
from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset._validation import as_names
from credalset.acting.steps import STEPS
from credalset.evaluation.tested import quantile_of
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.queue import plan_steps, read_rules
from credalset.simplex import entropy_of_valid

SAFE_SCHEMES = ("http", "https", "ftp", "file")
SAFE_IMAGES = ("data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/webp;")
#: largest number of letters of names and texts on the page, which keep it small
ITEM_LETTERS, CLASS_LETTERS, GROUP_LETTERS, TEXT_LETTERS = 300, 60, 80, 400
LINK_LETTERS = 100_000  # of links and pictures; longer ones are left out
DIFFICULTY = "difficulty (predicted entropy)"
QUARTERS = ["easiest quarter", "second quarter", "third quarter", "hardest quarter"]
ALWAYS_SHOWN = 100  # first items of each step, which are never left to chance


@dataclass(frozen=True, eq=False)
class Items:
    """The items of the page and their sets.

    Attributes
    ----------
    sets : CredalSet
        N sets over K classes.
    batch : Batch
        Names of the items and classes, with which everything is matched.
    names, classes : list of str
        Names of items and classes as the page writes them.
    votes : Labels
        Held-out votes, which test coverage.
    hand : Labels or None
        Votes in hand; None if none were given.
    texts, links : list of str, or None
        Texts of the items, and links to them.
    groups : list of str, or None
        Group of each item.
    features : dict
        Features by which results are shown.
    orders : dict
        Values of some of these features, in their own order.
    predicted : ndarray of shape (N, K)
        What the model predicts without votes.
    positions : tuple of K numbers or None
        Position of each class on an ordinal scale.
    lower, upper : ndarray of shape (N, K)
        Smallest and largest probability of each class; NaN where a set is empty.
    width : ndarray of shape (N,)
        ½ Σ (upper − lower).
    queue : Queue
        Next step, possible labels, aleatoric and epistemic part.
    """

    sets: CredalSet
    batch: Batch
    names: list[str]
    classes: list[str]
    votes: Labels
    hand: Labels | None
    texts: list[str] | None
    links: list[str] | None
    groups: list[str] | None
    features: dict[str, AnyArray]
    orders: dict[str, list[str]]
    predicted: FloatArray
    positions: tuple[float, ...] | None
    lower: FloatArray
    upper: FloatArray
    width: FloatArray
    queue: Queue

    def __len__(self) -> int:
        return len(self.names)

    @property
    def known(self) -> Labels:
        """The votes that are known of the items now: those in hand, or else the held-out votes."""
        return self.votes if self.hand is None else self.hand

    @cached_property
    def mean_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest and largest mean on the ordinal scale in each set, (N,) each."""
        if self.positions is None:
            return None
        at = np.array(self.positions)
        return self.sets.lower_expectation(at), self.sets.upper_expectation(at)


@dataclass(frozen=True, eq=False)
class About:
    """What is given about items beside their sets and votes, as `credalset.report` takes it."""

    texts: Any = None
    images: Any = None
    groups: Any = None
    slices: Mapping[str, Any] | None = None
    rules: QueueRules | None = None


def read_items(
    sets: CredalSet,
    batch: Batch,
    votes: Any,
    votes_in_hand: Any,
    about: About,
    *,
    queue: Queue | None = None,
    asked: BoolArray | None = None,
    predicted: FloatArray | None = None,
    scale: tuple[float, ...] | None = None,
) -> Items:
    """Read what is given about the items of the sets, measure the sets, and make their queue.

    Parameters
    ----------
    queue : Queue, optional
        The queue of the items, if it is made already.
    asked : ndarray of shape (N,), optional
        Which items a policy asks again.
    predicted : ndarray of shape (N, K), optional
        What the model predicts without votes; by default what the sets are centred at.
    scale : tuple of K numbers, optional
        Position of each class on an ordinal scale, if the votes have none.
    """
    held_out = batch.votes(votes, partial=True)
    hand = None
    if votes_in_hand is not None:
        hand = batch.votes(votes_in_hand, "votes_in_hand", partial=True)
    known_votes = held_out if hand is None else hand
    lower, upper = sets.envelope()
    groups_of_items, grouped = _read_groups(batch, about.groups)
    labelled = _texts(range(len(sets)) if batch.items is None else batch.items, ITEM_LETTERS)
    classes = range(sets.n_classes) if batch.classes is None else batch.classes
    names = _texts(classes, CLASS_LETTERS)
    if queue is None:
        queue = _queue_of(sets, about.rules, names, labelled, known_votes, asked)
    known = Items(
        sets=sets,
        batch=batch,
        names=labelled,
        classes=names,
        votes=held_out,
        hand=hand,
        texts=_column(batch, about.texts, "texts", TEXT_LETTERS),
        links=_links(batch, about.images),
        groups=groups_of_items,
        features={},
        orders={},
        predicted=sets.center if predicted is None else predicted,
        positions=scale or known_votes.scale or held_out.scale,
        lower=lower,
        upper=upper,
        width=0.5 * (upper - lower).sum(axis=1),
        queue=queue,
    )
    _add_features(known, str(getattr(about.groups, "name", None) or "group"))
    extra = dict(grouped)
    for name, values in ({} if about.slices is None else about.slices).items():
        extra[name] = np.asarray(batch.column(values, f"slices[{name!r}]"))
    for name, column in extra.items():
        known.features[shorten(text_of(name), CLASS_LETTERS)] = column
    return known


def _queue_of(
    sets: CredalSet,
    rules: QueueRules | None,
    classes: list[str],
    items: list[str],
    votes: Labels,
    asked: BoolArray | None,
) -> Queue:
    """Give each item its next step, by the rules on sets and the votes that the page shows."""
    rules = read_rules(rules)
    counts = votes.counts if votes.has_votes.any() else None
    possible = sets.decide(rules.decision)
    return plan_steps(sets, rules, possible, tuple(classes), tuple(items), counts, asked)


def name_batch(batch: Batch, items: Any, classes: Any) -> Batch:
    """Return the batch with names that are given beside it, for what has none."""
    for what, given in (("items", items), ("classes", classes)):
        if given is None:
            continue
        own = getattr(batch, what)
        names = as_names(given)
        size = len(batch) if what == "items" else batch.n_classes
        if len(names) != size:
            raise ValueError(
                f"{what} must name each of the {size} {what}, but holds {len(names)} names."
            )
        if own is not None and own != names:
            raise ValueError(
                f"{what} are {join_names(names, 3)}, but those of the sets are "
                f"{join_names(own, 3)}. Leave {what} out, or give the same."
            )
        batch = replace(batch, items=names) if what == "items" else replace(batch, classes=names)
    return batch


def _texts(values: Iterable[Any], letters: int) -> list[str]:
    return [shorten(text_of(value), letters) for value in values]


def _column(batch: Batch, values: Any, name: str, letters: int) -> list[str] | None:
    return None if values is None else _texts(batch.column(values, name), letters)


def _read_groups(batch: Batch, groups: Any) -> tuple[list[str] | None, dict[str, AnyArray]]:
    """Return the group of each item as text, and columns of features if groups are a table."""
    if np.ndim(groups) != 2:
        return _column(batch, groups, "groups", GROUP_LETTERS), {}
    names = getattr(groups, "columns", range(np.shape(groups)[1]))
    table = np.asarray(batch.per_item(groups, "groups"))
    columns: dict[str, AnyArray] = {}
    for name, values in zip(names, table.T, strict=True):
        is_mark = np.isin(values, (0, 1)).all()
        columns[str(name)] = np.where(values == 1, "yes", "no") if is_mark else values
    return None, columns


def _links(batch: Batch, images: Any) -> list[str] | None:
    return None if images is None else [safe_link(one) for one in batch.column(images, "images")]


def _add_features(items: Items, grouped_by: str) -> None:
    """Add the features by which results are shown; none of them depends on the labels."""
    if not len(items):
        return
    features = items.features
    if items.groups is not None:
        features[shorten(grouped_by, CLASS_LETTERS)] = np.array(items.groups, dtype=object)
    predicted = np.array(items.classes, dtype=object)[items.predicted.argmax(axis=1)]
    features["predicted class"] = predicted
    items.orders["predicted class"] = items.classes
    entropy = entropy_of_valid(items.sets.center)
    features[DIFFICULTY] = np.array(QUARTERS, dtype=object)[quantile_of(entropy, entropy, 4)]
    items.orders[DIFFICULTY] = QUARTERS
    features["width of the set"] = np.nan_to_num(items.width).round(6)
    for kind, labels in (("votes", items.hand), ("later votes", items.votes)):
        if labels is None or labels.counts is None:
            continue
        number = labels.counts.sum(axis=1)
        if len(np.unique(number[labels.has_votes])) > 1:
            features[f"number of {kind}"] = number.astype(np.int64)


def text_of(value: Any) -> str:
    """Return a value as text, nothing for None."""
    return "" if value is None else str(value)


def shorten(words: str, most: int) -> str:
    """Cut a long name.

    Examples
    --------
    >>> shorten("contradiction", 8)
    'contrad…'
    """
    return words if len(words) <= most else words[: most - 1] + "…"


def safe_link(value: Any) -> str:
    r"""Return a link to a page or picture; a link that could run code becomes empty.

    Examples
    --------
    >>> safe_link("https://example.org/1.jpg"), safe_link("img/1.jpg")
    ('https://example.org/1.jpg', 'img/1.jpg')
    >>> safe_link("java\tscript:alert(1)")
    ''
    """
    text = "".join(
        c for c in text_of(value) if c > " " and c != "\x7f"
    )  # browsers skip these inside a scheme
    if len(text) > LINK_LETTERS:
        return ""
    head, colon, _ = text.partition(":")
    if not colon or not head.replace("+", "").replace("-", "").replace(".", "").isalnum():
        return text  # no scheme: a file beside the page
    return text if head.lower() in SAFE_SCHEMES or text.lower().startswith(SAFE_IMAGES) else ""


def choose_shown(queue: Queue, strata: IntArray, limit: int, seed: int = 0) -> IntArray:
    """Return the rows of a page in the order of the queue: all, or a sample of ``limit``.

    The first hundred of each step but "accept" are always shown; the rest is drawn at random
    within each stratum, in proportion to its size.
    """
    order = queue.order()
    n = len(order)
    if n <= limit:
        return order
    each = min(ALWAYS_SHOWN, limit // (2 * len(STEPS)))
    kept = np.zeros(n, dtype=bool)
    for step in STEPS[1:]:
        kept[queue.order(step)[:each]] = True
    rest = np.flatnonzero(~kept)
    kept[
        rest[_in_proportion(strata[rest], limit - int(kept.sum()), np.random.default_rng(seed))]
    ] = True
    return order[kept[order]]


def _in_proportion(strata: IntArray, size: int, generator: np.random.Generator) -> IntArray:
    """Draw ``size`` rows by systematic sampling from a random order that is sorted by stratum."""
    order = generator.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    return order[((np.arange(size) + generator.random()) * len(strata) / size).astype(np.int64)]
