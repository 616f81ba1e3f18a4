"""What a page is about: sets at any level, the items they stand for, and the votes those got. Checked once, here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from credalset._typing import AnyArray, BoolArray, FloatArray
from credalset._validation import as_matrix, as_probability
from credalset.annotations.labels import (
    Labels,
    column_names,
    in_item_order,
    order_by_name,
    plain_names,
    row_names,
    shown,
)
from credalset.calibration.conditional import features_of
from credalset.sets import CredalSet

ALPHA = 0.1
SAFE_SCHEMES = ("http", "https", "ftp", "file")
SAFE_IMAGES = ("data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/webp;")


@dataclass(frozen=True, eq=False)
class Source:
    """Where sets come from: a calibration with predictions, or sets that are there already.

    Attributes
    ----------
    calibration : Calibration, CrossCalibration or None
        Who made the promise, if it is known.
    predict : callable or None
        From a level to the sets at that level.
    weights : array or None
        Likelihood ratios of the items, if the calibration is weighted.
    """

    calibration: Any
    predict: Callable[[float], CredalSet] | None
    weights: Any = None

    @classmethod
    def read(cls, source: Any, prediction: Any, groups: Any, weights: Any, classes: Any) -> Source:
        """Take a calibration or a calibrated classifier with what it predicts from."""
        if not callable(getattr(source, "predict_set", None)):
            raise TypeError(
                f"the first argument must be a calibration, a calibrated classifier or a CredalSet, "
                f"but is a {type(source).__name__}. Start with cs.conformalize(...)."
            )
        if prediction is None:
            raise ValueError("prediction is missing: pass the predictions for the items of the page.")
        calibration = getattr(source, "calibration_", source)
        fitted = getattr(calibration, "fitted", None)  # a classifier without one refuses when it is asked
        options: dict[str, Any] = {}
        if fitted is not None and (fitted.features is not None or (fitted.groups is not None and not fitted.predicted)):
            options["groups"] = groups
        if fitted is not None and fitted.weighted:
            options["weights"] = weights
        if classes is not None and calibration is source:
            options["classes"] = classes
        return cls(calibration, lambda alpha: source.predict_set(prediction, alpha, **options), options.get("weights"))

    @property
    def features(self) -> tuple[Any, ...] | None:
        """The names of the features that thresholds follow, if they do."""
        return None if self.calibration is None else self.calibration.features

    def with_one_threshold(self, sets: CredalSet, alpha: float | None) -> CredalSet | None:
        """Return the sets that one threshold for all items would give; None where groups do not matter."""
        return None

    def slices(self, groups: Any, n: int) -> dict[str, AnyArray]:
        """Return the features that thresholds follow, by name; groups of zeros and ones as no and yes."""
        columns = (
            {}
            if self.features is None
            else dict(zip(map(str, self.features), features_of(groups, n, self.features).T, strict=True))
        )
        return {
            name: np.where(values == 1.0, "yes", "no") if np.isin(values, (0.0, 1.0)).all() else values
            for name, values in columns.items()
        }

    def group_keys(self, sets: CredalSet, groups: Sequence[Any] | None) -> list[Any] | None:
        """Return the keys that decide each item's threshold, None if the calibration has no groups."""
        if self.calibration is None or self.calibration.groups is None:
            return None
        if self.calibration.fitted.predicted:
            return [int(k) for k in sets.score.mean(sets.prediction).argmax(axis=1)]
        return list(groups) if groups is not None else None


@dataclass(frozen=True, eq=False)
class Votes:
    """What annotators said about the items of the page.

    Attributes
    ----------
    shares : ndarray of shape (N, K)
        Label distributions; NaN where an item has no votes.
    counts : ndarray of shape (N, K) or None
        Votes; None if only their shares are known.
    unmatched : int
        Items with votes that are not among those of the page.
    """

    shares: FloatArray
    counts: FloatArray | None
    unmatched: int = 0

    @property
    def there(self) -> BoolArray:
        """Which items have votes."""
        return np.asarray(~np.isnan(self.shares).any(axis=1))

    def covered_by(self, sets: CredalSet) -> BoolArray:
        """Tell for each item with votes whether its set holds their shares."""
        there = self.there
        return sets[there].contains(self.shares[there]) if there.any() else np.zeros(0, dtype=bool)

    @property
    def n_votes(self) -> AnyArray | None:
        """Votes per item, None if they were not counted."""
        return None if self.counts is None else self.counts.sum(axis=1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Items:
    """The items of the page and everything that is known about them.

    Attributes
    ----------
    names, texts, links : lists of N str
        What to call an item, its text, and where to look at it; the last two may be None.
    classes : tuple of K str
        Names of the classes.
    votes : Votes
        What annotators said.
    truth : ndarray of shape (N, K) or None
        True distributions, in simulations.
    groups : list or None
        One key per item.
    grouped_by : str
        What they are groups of.
    features : dict
        Further values of the items by which coverage may differ.
    """

    names: list[str]
    classes: tuple[str, ...]
    votes: Votes
    texts: list[str] | None = None
    links: list[str] | None = None
    truth: FloatArray | None = None
    groups: list[Any] | None = None
    features: dict[str, AnyArray] = field(default_factory=dict)
    grouped_by: str = "group"

    def __len__(self) -> int:
        return len(self.names)


def read_items(
    sets: CredalSet,
    votes: Any,
    *,
    items: Sequence[Hashable] | None,
    texts: Sequence[Any] | None,
    images: Sequence[Any] | None,
    groups: Sequence[Any] | None,
    slices: Mapping[str, Any] | None,
    truth: Any,
    classes: Sequence[Any] | None,
) -> Items:
    """Check everything that is said about the items of a batch of sets."""
    n, k = len(sets), sets.n_classes
    own = sets.classes if classes is None else plain_names(classes)
    if own is not None and len(own) != k:
        raise ValueError(f"classes must name each of the {k} classes, but holds {len(own)} names: {list(own)}.")
    known = sets.items if items is None else items
    keys = None if known is None else _per_item(known, "items", n)
    called = getattr(groups, "name", None)
    texts, images, groups = (
        in_item_order(given, keys, name, "prediction")
        for given, name in ((texts, "texts"), (images, "images"), (groups, "groups"))
    )
    slices = {
        name: in_item_order(values, keys, f"slices[{name!r}]", "prediction") for name, values in (slices or {}).items()
    }
    found = read_votes(votes, n, own, keys, k)
    names = keys if keys is not None else row_names(votes) if votes is not None else None
    return Items(
        names=[plain(name) for name in (range(n) if names is None else names)],
        classes=tuple(plain(name) for name in own or column_names(votes, "votes") or range(k)),
        votes=found,
        texts=None if texts is None else [plain(text) for text in _per_item(texts, "texts", n)],
        links=None if images is None else [safe_link(link) for link in _per_item(images, "images", n)],
        truth=None if truth is None else _rows(Labels.read(truth, "truth", n_classes=k).distributions, "truth", n),
        groups=None if groups is None else _per_item(groups, "groups", n),
        grouped_by=called if isinstance(called, str) and called else "group",
        features={plain(name): np.asarray(_per_item(v, f"slices[{name!r}]", n)) for name, v in slices.items()},
    )


def read_votes(votes: Any, n: int, classes: tuple[Any, ...] | None, items: list[Any] | None, k: int) -> Votes:
    """Read votes as counts, distributions or `Annotations`; rows of zeros or NaN are items without votes.

    Classes and items are matched by name where both sides have names, by position otherwise.
    """
    if votes is None:
        return Votes(np.full((n, k), np.nan), None)
    order = order_by_name(column_names(votes, "votes"), classes, "votes", "prediction", "classes")
    counted = getattr(votes, "has_counts", None)
    raw = votes if counted is None else votes.counts if counted else votes.distributions
    matrix = as_matrix(raw, "votes", n_classes=k)
    matrix = matrix if order is None else matrix[:, order]
    rows = None if row_names(votes) is None else plain_names(row_names(votes))
    if items is None or rows is None or (len(rows) == n and rows == tuple(range(n))):
        return _votes(_rows(matrix, "votes", n), counted)
    known = {name: row for row, name in enumerate(rows)}
    found = [known.get(name, -1) for name in items]
    if n and max(found) < 0:
        raise ValueError(f"votes and items have no name in common: {shown(rows, 3)} and {shown(items, 3)}.")
    padded = np.vstack([matrix, np.full((1, k), np.nan)])
    return _votes(padded[found], counted, len(set(known) - set(items)))


def _votes(matrix: FloatArray, counted: bool | None, unmatched: int = 0) -> Votes:
    """Split a matrix into counts and shares; ``counted`` None means that the numbers tell."""
    there = ~(np.isnan(matrix).all(axis=1) | (matrix == 0).all(axis=1))
    shares = np.full(matrix.shape, np.nan)
    if there.any():
        labels = Labels.read(matrix[there], "votes")
        shares[there] = labels.distributions
        counted = labels.counts is not None if counted is None else counted
    return Votes(shares, np.where(there[:, None], matrix, 0.0) if counted else None, unmatched)


def _rows(array: FloatArray, name: str, n: int) -> FloatArray:
    if len(array) != n:
        raise ValueError(f"{name} has {len(array)} rows, but there are {n} items. Pass one row per item.")
    return array


def _per_item(values: Any, name: str, n: int) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise TypeError(f"{name} must hold one value per item, but is {values!r}.")
    found = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(found) != n:
        raise ValueError(f"{name} must hold one value for each of the {n} items, but holds {len(found)}.")
    return found


def plain(value: Any) -> str:
    """Return a value as text, nothing for None."""
    return "" if value is None else str(value)


def safe_link(value: Any) -> str:
    r"""Return a link that only leads somewhere or shows a picture; one that could run something comes back empty.

    Examples
    --------
    >>> safe_link("https://example.org/1.jpg"), safe_link("img/1.jpg"), safe_link("java\tscript:alert(1)")
    ('https://example.org/1.jpg', 'img/1.jpg', '')
    """
    text = "".join(c for c in plain(value) if c > " " and c != "\x7f")  # browsers skip these inside a scheme
    head, colon, _ = text.partition(":")
    if not colon or not head.replace("+", "").replace("-", "").replace(".", "").isalnum():
        return text  # no scheme: a file beside the page
    return text if head.lower() in SAFE_SCHEMES or text.lower().startswith(SAFE_IMAGES) else ""


def check_levels(alpha: float | None, levels: Sequence[float]) -> tuple[float, ...]:
    """Return the levels to compare, the page's own among them, without repetition and in order."""
    found = {as_probability(level, "levels") for level in levels}
    return tuple(sorted(found if alpha is None else found | {as_probability(alpha, "alpha")}))
