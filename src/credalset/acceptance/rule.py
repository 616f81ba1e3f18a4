"""Rules that accept labels, and how they are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from credalset._batch import Batch, Names, read
from credalset._display import Rows, join_names, plural
from credalset._predictions import Named
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset._validation import (
    as_distributions,
    as_finite,
    as_probability,
    check_choice,
    freeze,
)
from credalset.acceptance.cases import Cases
from credalset.acceptance.certify import certify, grid_of, log_evidence
from credalset.acceptance.losses import LOSSES, Beliefs, Cost, Loss
from credalset.exceptions import need, warn
from credalset.io.store import Saved

#: errors of a forecast, as shares of the largest loss
FORECAST = tuple(np.round(np.geomspace(0.01, 0.5, 18), 3).tolist())
WIDTH = 98  # of the lines of a guarantee
MOST_ITEMS = 10**7  # of a forecast of how many items would do


class Believer(Saved, ABC):
    """What predicts the crowd of items from their predictions and votes."""

    @abstractmethod
    def _read(self, predictions: Any, votes: Any, *, partial: bool = True) -> Any:
        """Read predictions and votes: ``batch``, ``prediction`` and ``counts``."""

    @abstractmethod
    def _believe(self, prediction: FloatArray, counts: FloatArray) -> Beliefs:
        """Return what is believed about the crowd of each item, given votes in hand."""


@dataclass(frozen=True, eq=False)
class Accepted(Named):
    """Labels of N items, and which of them are accepted, as `AcceptRule.predict` returns.

    Attributes
    ----------
    labels : list of N names
        The most likely label, or the one of least expected cost; numbers if classes have no names.
    accepted : ndarray of shape (N,)
        Whether the label is accepted.
    risk : ndarray of shape (N,)
        Predicted loss of the label: the chance that another annotator disagrees, or the expected
        cost.
    certified : ndarray of shape (N,)
        Whether the label is accepted and the bound covers it: not if there are more votes in hand
        than were certified.
    items, classes : tuple or None
        Names of the items and of the classes.
    """

    labels: list[Any]
    accepted: BoolArray
    risk: FloatArray
    certified: BoolArray
    items: Names | None = None
    classes: Names | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def to_frame(self) -> Any:
        """Return a data frame: item, label, risk, whether accepted, and whether certified."""
        columns = {
            "item": list(range(len(self))) if self.items is None else self.items,
            "label": self.labels,
            "risk": self.risk,
            "accepted": self.accepted,
            "certified": self.certified,
        }
        return need("pandas").DataFrame(columns)

    def __repr__(self) -> str:
        return f"Accepted: {int(self.accepted.sum())} of {plural(len(self), 'item')}"


@dataclass(frozen=True, eq=False, repr=False)
class AcceptRule(Saved):
    """Which labels are accepted, with a bound on the mean loss among the accepted items.

    It is returned by `DirichletCrowd.accept`, `DirichletCrowd.divided` and `labels.accept`.

    Attributes
    ----------
    crowd : DirichletCrowd or None
        What predicts from votes in hand; None if predictions are taken as they are.
    loss : {"annotator", "person", "majority", "cost", "divided"}
        What accepting a label costs.
    costs : ndarray of shape (K, K) or None
        Cost of each label (row) for an annotator of each class (column), divided by ``unit``.
    unit : float
        The largest cost; 1 for other losses.
    errors : tuple of float
        Bounds of the mean loss among accepted items, in ascending order.
    confidence : float
        Probability with which all bounds hold.
    in_hand : int or None
        Number of votes in hand; None for one vote (or one pair of votes) fewer than an item has.
    thresholds : ndarray of shape (G, R)
        Largest risk that is accepted, for each group and error; −inf if nothing is certified.
    shares : ndarray of shape (G, R)
        Share of the calibration items that is accepted, for each group and error.
    sizes : ndarray of G ints
        Number of calibration items in each group.
    n_votes : tuple of int
        Smallest and largest number of votes of a calibration item.
    forecast : ndarray of shape (E, 2)
        Errors, and the share of items that would be accepted: a forecast from other items.
    needed : tuple of R numbers
        Forecast of the number of items that would do for each error; inf if no number would.
    n_classes : int
        Number of classes K.
    groups : tuple or None
        Keys of the groups, each of which has its own thresholds.
    classes, items : tuple or None
        Names of the classes, and of the calibration items.
    clustered : bool
        Whether clusters of items were taken as independent, rather than items.
    """

    crowd: Believer | None
    loss: str
    costs: FloatArray | None
    unit: float
    errors: tuple[float, ...]
    confidence: float
    in_hand: int | None
    thresholds: FloatArray
    shares: FloatArray
    sizes: IntArray
    n_votes: tuple[int, int]
    forecast: FloatArray
    needed: tuple[float, ...]
    n_classes: int
    groups: Names | None = None
    classes: Names | None = None
    items: Names | None = None
    clustered: bool = False

    def __post_init__(self) -> None:
        n_groups = 1 if self.groups is None else len(self.groups)
        shape = (n_groups, len(self.errors))
        if self.thresholds.shape != shape or self.shares.shape != shape:
            raise ValueError(f"thresholds and shares must have shape {shape}.")
        if self.sizes.shape != (n_groups,) or len(self.needed) != len(self.errors):
            raise ValueError("sizes must hold one number per group, needed one per error.")
        if np.isnan(self.thresholds).any() or list(self.errors) != sorted(self.errors):
            raise ValueError("thresholds must be numbers, and errors in ascending order.")
        if (self.loss == "cost") != (self.costs is not None):
            raise ValueError("costs belong to the loss cost.")
        if self.costs is None:
            check_choice(self.loss, "loss", LOSSES)
        elif self.costs.shape != (self.n_classes, self.n_classes):
            raise ValueError("costs must have one row and one column for each class.")
        if self.classes is not None and len(self.classes) != self.n_classes:
            raise ValueError(f"classes must hold {self.n_classes} names.")
        freeze(self, "thresholds", "shares", "sizes", "forecast", "costs")

    @property
    def share(self) -> float:
        """Share of the calibration items that is accepted, for the first error."""
        return float(self.sizes @ self.shares[:, 0] / max(self.sizes.sum(), 1))

    @property
    def error(self) -> float:
        """The first of the errors, in the units of the loss."""
        return self.errors[0] * self.unit

    def predict(
        self,
        predictions: Any,
        votes: Any = None,
        *,
        groups: Any = None,
        error: float | None = None,
    ) -> Accepted:
        """Return labels with their risk, and which of them are accepted.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand, as certified: ``in_hand`` votes on each item; or one vote (or one pair)
            fewer than an item would get if it were a calibration item. Items with fewer votes in
            hand than any calibration item had are not accepted; items with more may be, but are
            not certified. Both with a warning.
        groups : sequence of N keys, optional
            Group of each item, if the rule has groups.
        error : float, optional
            One of the errors that were certified; by default the smallest.

        Returns
        -------
        Accepted
        """
        column = self._column(error)
        batch, prediction, counts = self._read(predictions, votes)
        enough, covered = self._covers(counts)
        verdicts = self._loss.decide(self._believe(prediction, counts))
        thresholds = self.thresholds[self._codes(batch, groups), column]
        accepted = (verdicts.risk <= thresholds) & enough
        names = tuple(range(self.n_classes)) if self.classes is None else self.classes
        return Accepted(
            [names[label] for label in verdicts.labels],
            accepted,
            verdicts.risk * self.unit,
            accepted & covered,
            batch.items,
            self.classes,
        )

    def curve(self) -> Rows:
        """Return the share of items that would be accepted, by error: a forecast, not a claim.

        Only ``errors`` are certified. The forecast scales the evidence of the items that the crowd
        was fitted to up to the number of calibration items.

        Returns
        -------
        list of dict
            Rows ``error`` and ``accepted``, which print as a table.
        """
        return Rows(
            [
                {"error": float(error) * self.unit, "accepted": float(share)}
                for error, share in self.forecast
            ]
        )

    @property
    def guarantee(self) -> str:
        """What holds for accepted labels, for which items, and under which assumptions."""
        text = f"{self._claim()} {self._for_whom()} Assumptions: {self._assumptions()}."
        return fill(text, WIDTH)

    def __repr__(self) -> str:
        errors = ", ".join(f"{error * self.unit:g}" for error in self.errors)
        what = f"loss {self.loss}, error {errors} at confidence {self.confidence:g}"
        size = plural(int(self.sizes.sum()), "item")
        return f"AcceptRule: {what}, {size}, {self.share:.0%} accepted"

    # --- words ---

    def _claim(self) -> str:
        bounds = " or ".join(f"{error * self.unit:g}" for error in self.errors)
        within = "" if self.groups is None else ", in each group by itself"
        text = CLAIMS[self.loss].format(bound=bounds, opposite=f"{1.0 - self.errors[0]:g}")
        return f"With probability at least {self.confidence:g}{within}, {text}."

    def _for_whom(self) -> str:
        votes = {
            None: f"one vote{' or two' if self.loss in PAIRS else ''} fewer than an item has",
            0: "no votes",
            1: "one vote in hand",
        }.get(self.in_hand, f"{self.in_hand} votes in hand")
        if self.loss in PAIRS and self.in_hand is None:
            votes = "two votes fewer than an item has"
        if self.crowd is None:
            votes = "the predictions alone"
        same = plural(int(self.sizes.sum()), "calibration item")
        return (
            f"This is a mean over items, if labels are decided from {votes}. It holds for the "
            f"{same} and for new items from the same source, but not for each item by itself, and "
            "not for decisions from more votes."
        )

    def _assumptions(self) -> str:
        known = ["clusters of items are independent" if self.clustered else "items are independent"]
        known.append("the votes on an item are interchangeable draws from one pool of annotators")
        known.append("their number was not chosen by how they came out")
        known.append("predictions were made without the votes of these items")
        if self.crowd is not None:
            known.append("the crowd was fitted to other items")
        return "; ".join(known)

    # --- how ---

    def _column(self, error: float | None) -> int:
        if error is None:
            return 0
        wanted = as_finite(error, "error") / self.unit
        if self.loss == "divided":
            wanted = 1.0 - wanted
        place = int(np.abs(np.array(self.errors) - wanted).argmin())
        if abs(self.errors[place] - wanted) > 1e-9:
            known = join_names([each * self.unit for each in self.errors], 20)
            raise ValueError(
                f"error must be one of those that were certified, {known}, but is {error!r}. "
                "Certify it: pass accept a tuple of errors."
            )
        return place

    def _read(self, predictions: Any, votes: Any) -> tuple[Batch, FloatArray, FloatArray]:
        if self.crowd is not None:
            voted = self.crowd._read(predictions, votes)
            return voted.batch, voted.prediction, voted.counts
        if votes is not None:
            raise ValueError(
                "votes are not used by this rule, which takes predictions as they are. Use "
                "DirichletCrowd.accept for decisions from votes in hand."
            )
        batch = read(predictions, self.classes, self.n_classes)
        valid = as_distributions(batch.values, "predictions", n_classes=self.n_classes)
        return batch, valid, np.zeros_like(valid)

    def _covers(self, counts: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Tell which items have at least the votes that were certified, and which have as many.

        Fewer votes leave labels less sure than those that were tested, and more change the
        decisions.
        """
        number = counts.sum(axis=1)
        if self.crowd is None:
            everything = np.ones(len(counts), dtype=bool)
            return everything, everything
        if self.in_hand is not None and (number != self.in_hand).any():
            other = int((number != self.in_hand).sum())
            raise ValueError(
                f"votes has {other} of {len(counts)} items with another number of votes than the "
                f"{self.in_hand} in hand that were certified. Pass {self.in_hand} of the votes of "
                "each item, chosen without looking at them, or certify with another in_hand."
            )
        least, most = self._certified_numbers()
        enough = number >= least
        covered = enough & (number <= most)
        if not enough.all():
            warn(
                f"votes has {int((~enough).sum())} of {len(counts)} items with fewer votes in hand "
                f"than the {least} that the rule was certified for: they are not accepted."
            )
        if (number > most).any():
            warn(
                f"votes has items with {number.max():.0f} votes in hand, but the rule was "
                f"certified for at most {most}: the bound does not cover them."
            )
        return enough, covered

    def _certified_numbers(self) -> tuple[int, int]:
        """Return the smallest and the largest number of votes in hand that were certified."""
        if self.in_hand is not None:
            return self.in_hand, self.in_hand
        held_back = self._loss.n_held_back
        return max(self.n_votes[0] - held_back, 0), self.n_votes[1] - held_back

    def _codes(self, batch: Batch, groups: Any) -> IntArray:
        """Return the group of each item, a row of the thresholds."""
        if self.groups is None:
            if groups is not None:
                raise ValueError("groups are given, but the rule has none. Leave them out.")
            return np.zeros(len(batch), dtype=np.int64)
        if groups is None:
            raise ValueError("groups are missing: the rule has a threshold for each group.")
        place = {key: row for row, key in enumerate(self.groups)}
        keys = batch.column(groups, "groups")
        unknown = [key for key in dict.fromkeys(keys) if key not in place]
        if unknown:
            raise ValueError(
                f"groups holds {join_names(unknown)}, but the rule knows "
                f"{join_names(self.groups, 20)}."
            )
        return np.array([place[key] for key in keys], dtype=np.int64)

    def _believe(self, prediction: FloatArray, counts: FloatArray) -> Beliefs:
        if self.crowd is None:
            return Beliefs.certain(prediction)
        return self.crowd._believe(prediction, counts)

    @property
    def _loss(self) -> Loss:
        return Cost(self.costs) if self.costs is not None else LOSSES[self.loss]


PAIRS = ("person", "divided")
#: what is bounded, by loss
CLAIMS = {
    "annotator": "another annotator disagrees with at most a share {bound} of the accepted labels",
    "person": "accepted labels disagree with an annotator at most {bound} more often than another "
    "annotator does",
    "majority": "at most a share {bound} of the accepted labels is not the majority label of the "
    "votes held back",
    "cost": "the mean cost of the accepted labels, for another annotator, is at most {bound}",
    "divided": "two annotators disagree with probability at least {opposite}, on average over the "
    "claimed items",
}


@dataclass(frozen=True, eq=False)
class Claim:
    """What is to be certified: a loss, errors in its units, and a confidence."""

    loss: Loss
    errors: tuple[float, ...]
    confidence: float
    unit: float = 1.0

    @property
    def delta(self) -> float:
        """Probability with which the claim may fail."""
        return 1.0 - self.confidence

    @property
    def costs(self) -> FloatArray | None:
        """Costs divided by the largest, if the loss is one of costs."""
        return self.loss.costs if isinstance(self.loss, Cost) else None

    @classmethod
    def read(cls, loss: Any, error: Any, confidence: float, batch: Batch) -> Claim:
        """Read a loss, by name or as a matrix of costs, and the errors that are allowed."""
        certainty = as_probability(confidence, "confidence")
        wanted = tuple(error) if isinstance(error, tuple | list) else (error,)
        if not wanted:
            raise ValueError("error must hold at least one number.")
        if isinstance(loss, str):
            known = {name: value for name, value in LOSSES.items() if name != "divided"}
            check_choice(loss, "loss", known)
            errors = [as_probability(each, "error") for each in wanted]
            return cls(known[loss], tuple(sorted(set(errors))), certainty)
        costs, unit = read_costs(loss, batch)
        errors = [as_finite(each, "error", minimum=0.0) for each in wanted]
        if min(errors) <= 0 or max(errors) >= unit:
            raise ValueError(
                f"error must lie between 0 and the largest cost, {unit:g}, but is {error!r}."
            )
        scaled = sorted({each / unit for each in errors})
        return cls(Cost(costs), tuple(scaled), certainty, unit)


def read_costs(costs: Any, batch: Batch) -> tuple[FloatArray, float]:
    """Return costs divided by the largest, rows (labels) and columns (votes) by class; and it."""
    array = batch.square(costs, "loss")
    n_classes = batch.n_classes
    if array.shape != (n_classes, n_classes):
        raise ValueError(
            f"loss must be a name or costs of shape {(n_classes, n_classes)}, a row per label and "
            f"a column per vote, but has shape {array.shape}."
        )
    if not np.isfinite(array).all() or array.min() < 0 or array.max() <= 0:
        raise ValueError("loss must hold finite costs of at least 0, and one above 0.")
    return array / array.max(), float(array.max())


def keys_of(batch: Batch, keys: Any, name: str, rows: IntArray) -> list[Any] | None:
    """Return the keys of some of the items, in their order."""
    if keys is None:
        return None
    found = batch.column(keys, name)
    return [found[row] for row in rows]


def read_codes(batch: Batch, values: Any, name: str) -> tuple[IntArray, Names]:
    """Return the number of the key of each item, and the keys in order of appearance."""
    keys = batch.keys(values, name)
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([place[key] for key in keys], dtype=np.int64), tuple(place)


def make_rule(
    crowd: Believer | None,
    batch: Batch,
    cases: Cases,
    fitted: Cases,
    claim: Claim,
    n_votes: IntArray,
    *,
    in_hand: int | None,
    groups: Any = None,
    clusters: Any = None,
) -> AcceptRule:
    """Certify thresholds, for each group by itself."""
    if clusters is None and batch.items is not None and len(set(batch.items)) < len(batch):
        raise ValueError(
            "predictions names an item twice, but items must be independent. Join the votes on "
            "one item in one row, or pass clusters."
        )
    codes = np.zeros(len(batch), dtype=np.int64)
    keys: Names | None = None
    if groups is not None:
        codes, keys = read_codes(batch, groups, "groups")
    units = None if clusters is None else read_codes(batch, clusters, "clusters")[0]
    n_groups = 1 if keys is None else len(keys)
    thresholds = np.empty((n_groups, len(claim.errors)))
    shares = np.empty(thresholds.shape)
    sizes = np.empty(n_groups, dtype=np.int64)
    # What would do is forecast from the fit items, which all groups share.
    needed = [enough_items(fitted, claim, error) for error in claim.errors]
    for code in range(n_groups):
        rows = np.flatnonzero(codes == code)
        part = cases.take(rows)
        own = None if units is None else np.unique(units[rows], return_inverse=True)[1]
        found = certify(part, fitted, claim.loss, claim.errors, claim.delta, clusters=own)
        thresholds[code] = found
        shares[code] = [part.accepted(each).sum() / max(len(rows), 1) for each in found]
        sizes[code] = len(rows)
        if not np.isfinite(found).all():
            group = "" if keys is None else f" in the group {keys[code]!r}"
            warn(too_few(claim, found, needed, fitted, len(rows)) + group)
    return AcceptRule(
        crowd=crowd,
        loss=claim.loss.name,
        costs=claim.costs,
        unit=claim.unit,
        errors=claim.errors,
        confidence=claim.confidence,
        in_hand=in_hand,
        thresholds=thresholds,
        shares=shares,
        sizes=sizes,
        n_votes=(int(n_votes.min()), int(n_votes.max())),
        forecast=forecast_shares(fitted, claim, len(batch)),
        needed=tuple(needed),
        n_classes=batch.n_classes,
        groups=keys,
        classes=batch.classes,
        items=batch.items,
        clustered=units is not None,
    )


def forecast_shares(fitted: Cases, claim: Claim, n_items: int) -> FloatArray:
    """Return errors and the share of items that would be accepted, (E, 2), from other items."""
    errors = sorted({*FORECAST, *claim.errors})
    times = n_items / max(fitted.n_items, 1)
    found = []
    for error in errors:
        threshold = certify(fitted, fitted, claim.loss, (error,), claim.delta, times=times)[0]
        found.append(fitted.accepted(threshold).sum() / max(fitted.n_items, 1))
    return np.column_stack([errors, np.maximum.accumulate(found)])


def enough_items(fitted: Cases, claim: Claim, error: float) -> float:
    """Return a forecast of the number of items with which something is certified at an error."""
    grid = grid_of(fitted, claim.loss, error)
    if not len(grid):
        return np.inf
    inside = fitted.risk <= grid[0]
    gain = fitted.weight[inside] * (error - fitted.loss[inside])
    z = np.bincount(fitted.item[inside], gain, fitted.n_items).astype(np.float64)
    needed = np.log(len(claim.errors) / claim.delta)
    ones = np.ones(len(z))
    n_items = 10.0
    while n_items < MOST_ITEMS:
        if log_evidence(z, n_items / len(z) * ones, error - claim.loss.high) >= needed:
            return float(f"{n_items:.2g}")
        n_items *= 1.1
    return np.inf


def too_few(
    claim: Claim, thresholds: FloatArray, needed: Sequence[float], fitted: Cases, n_items: int
) -> str:
    """Say that nothing is certified, and how many items or which error would do."""
    rows = np.flatnonzero(~np.isfinite(thresholds))
    errors = " or ".join(f"{claim.errors[row] * claim.unit:g}" for row in rows)
    forecast = forecast_shares(fitted, claim, n_items)
    possible = forecast[forecast[:, 1] > 0, 0]
    possible = possible[possible > max(claim.errors[row] for row in rows)]
    ways = []
    if np.isfinite(needed[rows[0]]) and needed[rows[0]] > n_items:
        ways.append(f"about {needed[rows[0]]:.0f} items")
    if len(possible):
        ways.append(f"an error of {possible[0] * claim.unit:g}")
    text = f"nothing can be certified at an error of {errors} with these {n_items} items"
    if ways:
        text += f"; {', or '.join(ways)} would do (a forecast)"
    return text
