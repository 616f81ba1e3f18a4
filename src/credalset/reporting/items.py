"""The items of the report, read and checked once: names, votes, texts, links, groups and sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset._validation import as_matrix
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.queue import ACTIONS
from credalset.votes import names

SAFE_SCHEMES = ("http", "https", "ftp", "file")
SAFE_IMAGES = ("data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/webp;")
#: largest number of letters of names and texts on the page, which keep it small
ITEM_LETTERS, CLASS_LETTERS, GROUP_LETTERS, TEXT_LETTERS = 300, 60, 80, 400
LINK_LETTERS = 100_000  # of links and pictures; longer ones are left out
ALWAYS_SHOWN = 100  # first items of each action, which are never left to chance


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes for the items of the page.

    Attributes
    ----------
    shares : ndarray of shape (N, K)
        Label distributions; NaN where an item has no votes.
    counts : ndarray of shape (N, K) or None
        Votes, NaN where an item has none; None if only shares are known.
    unmatched : int
        Items with votes that are not among those of the page.
    """

    shares: FloatArray
    counts: FloatArray | None = None
    unmatched: int = 0

    @property
    def there(self) -> BoolArray:
        """Which items have votes."""
        return np.asarray(~np.isnan(self.shares).any(axis=1))

    @property
    def totals(self) -> FloatArray | None:
        """Votes per item, None if they were not counted."""
        return None if self.counts is None else np.nan_to_num(self.counts).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Items:
    """The items of the page and their sets.

    Attributes
    ----------
    sets : CredalSet
        N sets over K classes.
    keys : tuple or None
        Names of the items as they were given.
    names, classes : list of str
        Names of items and classes as the page writes them.
    votes : Votes
        Held-out votes, which test coverage.
    shown_votes : Votes
        The votes that the page shows with each item: the votes in hand if there are any, else the
        held-out votes.
    texts, links : list of str, or None
        Texts of the items, and links to them.
    groups : list of str, or None
        Group of each item.
    features : dict
        Features by which coverage is shown.
    lower, upper : ndarray of shape (N, K)
        Smallest and largest probability of each class; NaN where a set is empty.
    width : ndarray of shape (N,)
        ½ Σ (upper − lower).
    queue : Queue
        Possible labels, aleatoric and epistemic part, and action.
    """

    sets: CredalSet
    keys: tuple[Any, ...] | None
    names: list[str]
    classes: list[str]
    votes: Votes
    shown_votes: Votes
    texts: list[str] | None
    links: list[str] | None
    groups: list[str] | None
    features: dict[str, AnyArray]
    lower: FloatArray
    upper: FloatArray
    width: FloatArray
    queue: Queue

    def __len__(self) -> int:
        return len(self.names)


def read_items(
    sets: CredalSet,
    votes: Any,
    votes_in_hand: Any = None,
    items: Sequence[Any] | None = None,
    texts: Any = None,
    images: Any = None,
    groups: Any = None,
    slices: Mapping[str, Any] | None = None,
    classes: Sequence[Any] | None = None,
    rules: QueueRules | None = None,
) -> Items:
    """Check what is given about the items of the sets, and measure the sets."""
    n = len(sets)
    k = sets.n_classes
    named = sets.classes if classes is None else names.as_names(classes)
    if named is not None and len(named) != k:
        raise ValueError(
            f"classes must name each of the {k} classes, but holds {len(named)} names: "
            f"{list(named)}."
        )
    given = sets.items if items is None else items
    keys = None if given is None else names.as_names(_column(given, "items", n))

    def column(values: Any, name: str, letters: int) -> list[str] | None:
        found = None if values is None else _column(names.per_item(values, keys, name), name, n)
        return None if found is None else [shorten(text_of(value), letters) for value in found]

    held_out = read_votes(votes, n, keys, named, k)
    shown = (
        held_out
        if votes_in_hand is None
        else read_votes(votes_in_hand, n, keys, named, k, "votes_in_hand")
    )
    voted = names.item_names(votes)
    keys = voted if keys is None and len(voted or ()) == n else keys
    linked = (
        None if images is None else _column(names.per_item(images, keys, "images"), "images", n)
    )
    links = None if linked is None else [safe_link(link) for link in linked]
    lower, upper = sets.envelope()
    called = (
        named or (None if votes is None else names.class_names(votes, "votes")) or tuple(range(k))
    )
    labelled = [
        shorten(text_of(name), ITEM_LETTERS) for name in (range(n) if keys is None else keys)
    ]
    own = None if np.ndim(groups) == 2 else column(groups, "groups", GROUP_LETTERS)
    grouped_by = getattr(groups, "name", None)
    known = Items(
        sets,
        keys,
        labelled,
        [shorten(text_of(name), CLASS_LETTERS) for name in called],
        held_out,
        shown,
        column(texts, "texts", TEXT_LETTERS),
        links,
        own,
        {},
        lower,
        upper,
        0.5 * (upper - lower).sum(axis=1),
        sets.queue(rules, items=labelled),
    )
    known.features.update(_features(known, str(grouped_by or "group")))
    for name, values in _extra_features(groups, slices).items():
        ordered = _column(names.per_item(values, keys, f"slices[{name!r}]"), f"slices[{name!r}]", n)
        known.features[shorten(text_of(name), CLASS_LETTERS)] = np.asarray(ordered)
    return known


def _features(items: Items, grouped_by: str) -> dict[str, AnyArray]:
    """Return the features by which coverage is shown; none of them depends on the labels."""
    features: dict[str, AnyArray] = {}
    if items.groups is not None:
        features[shorten(grouped_by, CLASS_LETTERS)] = np.array(items.groups, dtype=object)
    features["predicted class"] = np.array(items.classes, dtype=object)[
        items.sets.center.argmax(axis=1)
    ]
    features["width of the set"] = np.nan_to_num(items.width).round(6)
    totals = items.votes.totals
    there = items.votes.there
    if totals is not None and len(np.unique(totals[there])) > 1:
        kind = "votes" if items.shown_votes is items.votes else "later votes"
        features[f"number of {kind}"] = totals.astype(np.int64)
    return features


def _extra_features(groups: Any, slices: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the features that were given: slices, and group columns of the calibration."""
    if groups is None or np.ndim(groups) != 2:
        return {} if slices is None else dict(slices)
    table = np.asarray(groups)
    columns = {
        str(name): table[:, j]
        for j, name in enumerate(getattr(groups, "columns", range(table.shape[1])))
    }
    marked = {
        name: np.where(values == 1, "yes", "no") if np.isin(values, (0, 1)).all() else values
        for name, values in columns.items()
    }
    return marked | ({} if slices is None else dict(slices))


def read_votes(
    votes: Any,
    n: int,
    items: tuple[Any, ...] | None,
    classes: tuple[Any, ...] | None,
    k: int,
    name: str = "votes",
) -> Votes:
    """Read counts, distributions or `Annotations`; rows of zeros or NaN are items without votes.

    Classes and items are matched by name where both sides have names, by position otherwise.
    """
    if votes is None:
        return Votes(np.full((n, k), np.nan))
    columns = names.match_names(
        names.class_names(votes, name), classes, "classes", name, "prediction"
    )
    counted = (
        getattr(votes, "has_counts", True)
        if isinstance(getattr(votes, "counts", None), np.ndarray)
        else None
    )
    raw = votes if counted is None else votes.counts if counted else votes.distributions
    matrix = as_matrix(raw, name, n_classes=k)
    matrix = matrix if columns is None else matrix[:, columns]
    own = names.item_names(votes)
    unmatched = 0
    if items is None:
        names.refuse_names(votes, name, "prediction")
    if items is not None and own is not None:
        position = {key: row for row, key in enumerate(own)}
        rows = [position.get(key, -1) for key in items]
        if n and max(rows) < 0:
            raise ValueError(
                f"{name} and items have no name in common: {names.join_names(own, 3)} and "
                f"{names.join_names(items, 3)}."
            )
        unmatched = len(set(own) - set(items))
        matrix = np.vstack([matrix, np.full((1, k), np.nan)])[rows]
    if len(matrix) != n:
        raise ValueError(
            f"{name} has {len(matrix)} rows, but there are {n} items. Pass one row per item."
        )
    there = ~(np.isnan(matrix).all(axis=1) | (matrix == 0).all(axis=1))
    shares = np.full((n, k), np.nan)
    counts = np.full((n, k), np.nan)
    if there.any():
        labels = names.read_labels(matrix[there], name=name)
        shares[there] = labels.distributions
        counted = labels.counts is not None if counted is None else counted
        counts[there] = matrix[there]
    return Votes(shares, counts if counted else None, unmatched)


def _column(values: Any, name: str, n: int) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise TypeError(f"{name} must hold one value per item, but is {values!r}.")
    found = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(found) != n:
        raise ValueError(
            f"{name} must hold one value for each of the {n} items, but holds {len(found)}."
        )
    return found


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

    The first hundred of each action but "settled" are always shown; the rest is drawn at random
    within each stratum, in proportion to its size.
    """
    order = queue.order()
    n = len(order)
    if n <= limit:
        return order
    each = min(ALWAYS_SHOWN, limit // (2 * len(ACTIONS)))
    kept = np.zeros(n, dtype=bool)
    for action in ACTIONS[:-1]:
        kept[queue.order(action)[:each]] = True
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
