"""The Dirichlet crowd: a crowd's label distribution from a prediction and a few votes."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from credalset._typing import AnyArray, FloatArray, IntArray, RandomState
from credalset._validation import (
    as_counts,
    as_distributions,
    as_generator,
    as_positive_int,
    check_choice,
)
from credalset.crowd.fitting import fit_law, largest_fit
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior, predict_blocks
from credalset.exceptions import warn
from credalset.scores import get_score
from credalset.votes import Annotations, names
from credalset.votes.names import Names


class Saved:
    """Gives a class the method ``save``."""

    def save(self, path: str | Path) -> None:
        """Save the object to a folder (JSON and ``.npz``, no pickle); `credalset.load` reads it.

        Parameters
        ----------
        path : str or Path
            Folder to write; an object that was saved there before is replaced.
        """
        from credalset.io.store import save

        save(self, path)


@dataclass(frozen=True, eq=False)
class Voted:
    """Predictions (N, K) and votes (N, K) of the same items, with names and groups (N,) if known.

    The scale of ordinal votes holds the position of each class, in column order.
    """

    prediction: FloatArray
    counts: FloatArray
    items: Names | None
    classes: Names | None
    groups: AnyArray | None = None
    scale: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Voted:
        groups = None if self.groups is None else self.groups[rows]
        items = names.take_names(self.items, rows)
        return replace(
            self,
            prediction=self.prediction[rows],
            counts=self.counts[rows],
            items=items,
            groups=groups,
        )

    def grouped(self, groups: Any) -> Voted:
        """Return the items with the group of each, put into their order."""
        if groups is None:
            return self
        keys = np.asarray(names.per_item(groups, self.items, "groups", "predictions"))
        if keys.shape != (len(self),):
            raise ValueError(
                f"groups must hold one key per item ({len(self)}), but has shape {keys.shape}."
            )
        return replace(self, groups=keys)

    @property
    def n_votes(self) -> IntArray:
        """Number of votes on each item."""
        return self.counts.sum(axis=1).astype(np.int64)


def read_voted(
    predictions: Any,
    votes: Any,
    classes: Names | None = None,
    n_classes: int | None = None,
    *,
    needed: bool = False,
) -> Voted:
    """Return valid predictions and counts; votes on further items are not used.

    Parameters
    ----------
    predictions : array or data frame of shape (N, K)
        Predicted distributions.
    votes : array or data frame of shape (N, K), Annotations or None
        Votes per item and class; rows may be empty. None: no votes at all.
    classes, n_classes
        Names and number of the classes, if they are known. By default the columns of the
        predictions, in the order of the scale of the votes.
    needed : bool
        Whether votes must name every predicted item; if not, items that they do not name have zero
        counts.
    """
    own = names.class_names(votes, "votes")
    scale = votes.scale if isinstance(votes, Annotations) else None
    levels = dict(zip(own or (), scale or (), strict=False))
    if classes is None:
        classes = names.class_names(predictions, "predictions")
        if classes is not None and set(classes) == set(levels):
            classes = tuple(sorted(classes, key=levels.__getitem__))
    ordered = names.order_columns(predictions, classes, "predictions", "the crowd")
    prediction = as_distributions(ordered, "predictions", n_classes=n_classes)
    items = names.item_names(predictions)
    if votes is None:
        return Voted(prediction, np.zeros_like(prediction), items, classes)
    if not getattr(votes, "has_counts", True):
        raise ValueError(
            "votes holds distributions, which do not show the number of votes. Pass counts "
            "per class."
        )
    counts = as_counts(getattr(votes, "counts", votes), "votes", may_be_none=True)
    named = names.item_names(votes)
    if items is None:
        names.refuse_names(votes, "votes", "predictions")
    counts = _align(_align(counts.T, own, classes, "classes").T, named, items, "items", needed)
    if counts.shape != prediction.shape:
        raise ValueError(
            f"votes has {counts.shape[0]} rows and {counts.shape[1]} classes, but predictions have "
            f"{prediction.shape[0]} and {prediction.shape[1]}. Pass one row per prediction, "
            "or name the items of both."
        )
    classes = own if classes is None else classes
    if levels and classes is not None:
        scale = tuple(levels.get(name, -np.inf) for name in classes)
    return Voted(prediction, counts, named if items is None else items, classes, scale=scale)


def _align(
    counts: FloatArray, own: Names | None, wanted: Names | None, what: str, needed: bool = False
) -> FloatArray:
    """Put rows into the order of wanted names; missing rows count zero, unless all are needed."""
    if own is None or wanted is None or own == wanted:
        names.warn_of_numbers(
            own if wanted is None else wanted if own is None else None, what, "votes", "predictions"
        )
        return counts
    if (
        needed
        and (rows := names.match_names(own, wanted, what, "votes", "predictions")) is not None
    ):
        return np.asarray(counts[rows])
    position = {name: row for row, name in enumerate(wanted)}
    unknown = [
        name for name, row in zip(own, counts, strict=True) if name not in position and row.any()
    ]
    if unknown and (what == "classes" or position.keys().isdisjoint(own)):
        raise ValueError(
            f"votes names the {what} {names.join_names(unknown, 3)}, but predictions has none of "
            f"them. Give both the same {what}."
        )
    if len(position) < len(wanted) or len(set(own)) < len(own):
        raise ValueError(
            f"predictions or votes name one of the {what} twice. Give each a name of its own."
        )
    found = np.zeros((len(wanted), counts.shape[1]))
    known = [row for row, name in enumerate(own) if name in position]
    found[[position[own[row]] for row in known]] = counts[known]
    return found


def draw_votes(
    counts: FloatArray, numbers: tuple[int, ...], generator: np.random.Generator
) -> dict[int, FloatArray]:
    """Draw votes of each item without replacement; return the first h of the draw for each h.

    All votes are drawn of an item that has fewer.
    """
    left = counts.copy()
    drawn = np.zeros_like(counts)
    found = {}
    for step in range(max(numbers) + 1):
        if step in numbers:
            found[step] = drawn.copy()
        rows = np.flatnonzero(left.sum(axis=1) > 0)
        chosen = draw_one(left[rows], generator.random(len(left))[rows])
        drawn[rows, chosen] += 1
        left[rows, chosen] -= 1
    return found


def draw_one(counts: FloatArray, uniform: FloatArray) -> IntArray:
    """Draw one vote of each item by a uniform number of its own, as the class's position, (N,)."""
    number = np.floor(uniform * counts.sum(axis=1))
    return (np.cumsum(counts, axis=1) <= number[:, None]).sum(axis=1)


if TYPE_CHECKING:
    from credalset.crowd.check import CrowdCheck
    from credalset.crowd.in_hand import CrowdCalibration

HELD_BACK = 10  # votes on a panel item that are never in hand, unless min_votes is given
MANY_CLASSES = 100  # beyond this number of classes a second layer of consensus is not tried


class DirichletCrowd(Saved, BaseEstimator):  # type: ignore[misc]
    r"""Predict the label distribution of a crowd from a prediction and the votes in hand.

    The model assumes that the true distribution λ of an item with prediction p is drawn from a
    mixture of Dirichlet distributions, and that the votes are drawn from λ:

    $$\lambda \mid p \sim \sum_j g_j \, \mathrm{Dir}\big(s_j\, p^{b_j} / \textstyle\sum p^{b_j}
      + e_j\big)
      + \sum_t g_t \sum_y q_{ty} \, \mathrm{Dir}\big(d_t\, \delta_y + o_t\, C_y\big).$$

    The first components are centred at a power of the prediction, and their strength $s_j$ depends
    on its entropy. The others describe a crowd that agrees on one class y, whatever the model
    predicts; $C_y$ holds the classes that are confused with y. A dozen parameters are fitted by
    penalised maximum likelihood of the vote counts (Dirichlet-multinomial); items may have any
    number of votes. Fit it on items not used to train the model.

    `predict` and `posterior` describe the true distribution under this model, without a guarantee.
    `conformalize` returns a `CrowdCalibration`. With ``method="panel"``, its sets contain the
    shares of the votes that are not in hand with probability at least 1 − α. With
    ``method="imputed"``, its sets contain the true distribution with probability approximately 1 −
    α if the votes follow the model.

    Parameters
    ----------
    n_components : int
        Number of Dirichlet distributions around the prediction.
    n_consensus : int, optional
        Number of components per class, t = 1, …, T; 0 for none. By default 1 or 2, chosen by the
        Bayesian information criterion; 1 beyond 100 classes.
    max_iter : int
        Largest number of L-BFGS iterations.
    random_state : int, Generator or None
        Seed for the selection of items if there are more than 100 000 / K.

    Attributes
    ----------
    classes_ : tuple or None
        Names of the classes.
    items_ : tuple or None
        Names of the items that were fitted. `conformalize` with ``method="panel"`` refuses these
        items.

    See Also
    --------
    VotingPolicy : decides which items need another vote.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(900, n_classes=3, n_votes=30, random_state=0)
    >>> p, votes = data.distributions, data.counts
    >>> crowd = cs.DirichletCrowd().fit(p[:300], votes[:300])
    >>> crowd.predict(p[300:302], [[0, 0, 0], [3, 0, 0]]).shape
    (2, 3)
    >>> calibration = crowd.conformalize(p[300:], votes[300:], score="kl", in_hand=(0, 1, 2, 3))
    >>> calibration
    CrowdCalibration: score kl, 0, 1, 2, 3 votes in hand, panel of 600 items, 3 classes
    >>> sets = calibration.predict_set(p[:2], [[0, 0, 0], [3, 0, 0]], alpha=0.1)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_consensus: int | None = None,
        max_iter: int = 200,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_consensus = n_consensus
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, predictions: Any, votes: Any) -> Self:
        """Fit the crowd to predictions and votes of items not used to train the model.

        Parameters
        ----------
        predictions : array or data frame of shape (n, K)
            Predicted distributions.
        votes : array or data frame of shape (n, K), or Annotations
            Votes per item and class. Votes on further items are not used.

        Returns
        -------
        DirichletCrowd
        """
        n_around = as_positive_int(self.n_components, "n_components")
        voted = read_voted(predictions, votes, needed=True)
        layers = (1, 2) if voted.prediction.shape[1] <= MANY_CLASSES else (1,)
        if self.n_consensus is not None:
            layers = (as_positive_int(self.n_consensus + 1, "n_consensus + 1") - 1,)
        rows = np.flatnonzero(voted.n_votes > 0)
        if len(rows) == 0:
            raise ValueError("votes has no votes. Pass items with at least one vote each.")
        size = min(len(rows), largest_fit(voted.prediction.shape[1]))
        rows = as_generator(self.random_state).choice(rows, size, replace=False)
        max_iter = as_positive_int(self.max_iter, "max_iter")
        fits = [
            fit_law(voted.prediction[rows], voted.counts[rows], n_around, t, max_iter)
            for t in layers
        ]
        self.law_, _ = max(
            fits, key=lambda fit: size * fit[1] - 0.5 * len(fit[0].theta) * np.log(size)
        )
        self.classes_ = voted.classes
        self.items_ = voted.items
        return self

    def predict(self, predictions: Any, votes: Any = None) -> FloatArray:
        """Predict the crowd's label distributions, (N, K): posterior means given the votes in hand.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand; rows may be zero. Predicted items that are not named in the votes have no
            votes.
        """
        voted = self.read(predictions, votes)
        return predict_blocks(self.law_, voted.prediction, voted.counts)

    def posterior(self, predictions: Any, votes: Any = None) -> Posterior:
        """Return the posterior of the crowd of each item, a mixture of Dirichlet distributions.

        Parameters
        ----------
        predictions, votes
            As in `predict`.

        Returns
        -------
        Posterior
        """
        voted = self.read(predictions, votes)
        return Posterior.given(self.law_, voted.prediction, voted.counts)

    def check(
        self,
        predictions: Any,
        votes: Any,
        *,
        n_simulations: int = 499,
        random_state: RandomState = 0,
    ) -> CrowdCheck:
        """Test the model of the crowd with votes that are hidden from it.

        A small p-value is evidence against it.

        For each item, a few votes stay in hand and up to two votes are hidden. The test compares
        the class of the first hidden vote with its predicted probability, and the agreement of the
        two hidden votes with the predicted agreement.

        Parameters
        ----------
        predictions, votes
            As in `fit`. The test is more powerful on items that the crowd was not fitted to. It is
            a test of the fitted model: with a fit to few items, p-values are small also if the
            assumption holds.
        n_simulations : int
            Number of simulations for the Monte Carlo p-values.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        CrowdCheck
            Calibration tables, ``p_value``, predicted and observed agreement; prints as a table.
        """
        from credalset.crowd.check import check_crowd

        number = as_positive_int(n_simulations, "n_simulations")
        voted = self.read(predictions, votes, needed=True)
        return check_crowd(self.law_, voted, number, as_generator(random_state))

    def conformalize(
        self,
        predictions: Any,
        votes: Any,
        score: Any = "kl",
        *,
        in_hand: Any = (0, 1, 2, 3, 5),
        method: Literal["panel", "imputed"] = "panel",
        groups: Any = None,
        min_votes: int | None = None,
        random_state: RandomState = 0,
    ) -> CrowdCalibration:
        """Calibrate sets for items with some votes in hand, with one threshold per number of votes.

        ``method="panel"`` draws h votes of each calibration item at random, computes the prediction
        from these votes, and scores it against the distribution of the other votes. New items with
        h votes are exchangeable with these if h was fixed without looking at the item or its votes.
        Sets then contain, with probability at least 1 − α, the shares of the further votes of an
        item that gets as many votes in all as the calibration items. If h depends on something
        known (three votes where the model was unsure, none elsewhere), pass that as ``groups``, so
        that each group has its own thresholds. If h depends on the votes, calibrate a
        `VotingPolicy` instead.

        ``method="imputed"`` is for calibration items with few votes. It refits the model to
        bootstrap samples of the items and draws label distributions from the posteriors given all
        votes. Sets contain the true distribution with probability approximately 1 − α if votes
        follow this model of the crowd, which `check` tests.

        Parameters
        ----------
        predictions, votes
            As in `fit`. ``method="panel"`` needs other items than `fit` and refuses items with the
            same names.
        score : str or Score
            Nonconformity score, as in `credalset.conformalize`.
        in_hand : sequence of int
            Numbers of votes in hand to calibrate for.
        method : {"panel", "imputed"}
            As above. The guarantee of ``"panel"`` also holds for few items; the sets are then wide
            or the whole simplex.
        groups : sequence of n keys, optional
            Group of each item. Coverage then holds within each group, as in
            `credalset.conformalize`.
        min_votes : int, optional
            Smallest number of votes of a panel item, by default max(in_hand) + 10. Items with fewer
            votes are left out.
        random_state : int, Generator or None
            Seed of the draws.

        Returns
        -------
        CrowdCalibration
        """
        from credalset.crowd.in_hand import CrowdCalibration, calibrate, impute

        check_choice(method, "method", ("panel", "imputed"))
        voted = self.read(predictions, votes, needed=True).grouped(groups)
        chosen = get_score(score)
        numbers = _as_numbers(in_hand)
        generator = as_generator(random_state)
        enough, least = enough_votes(voted, numbers[-1], min_votes, "in_hand", method)
        voted = voted[enough] if method == "imputed" else self.refuse_fitted(voted[enough])
        drawn = draw_votes(voted.counts, numbers, generator)
        parts = []
        truth = impute(self.law_, voted, generator) if method == "imputed" else None
        for h in numbers:
            rows = voted.n_votes >= h
            labels = (voted.counts - drawn[h])[:, None, :] if truth is None else truth[rows]
            parts.append(calibrate(chosen, self.law_, voted[rows], drawn[h][rows], labels))
        return CrowdCalibration(
            copy.copy(self), tuple(parts), numbers, method, len(voted), least, voted.items
        )

    def read(self, predictions: Any, votes: Any, *, needed: bool = False) -> Voted:
        """Return valid predictions and votes over the classes of the crowd."""
        check_is_fitted(self, "law_")
        return read_voted(
            predictions, votes, self.classes_, len(self.law_.confusion), needed=needed
        )

    def refuse_fitted(self, voted: Voted) -> Voted:
        """Return the items, if none has the name of an item that the crowd was fitted to."""
        both = set(self.items_ or ()) & set(voted.items or ())
        if both:
            raise ValueError(
                f"predictions has {len(both)} items that the crowd was fitted to (first: "
                f"{names.join_names(list(both), 3)}): coverage is not guaranteed on them. Fit the "
                "crowd to others, or set method to imputed."
            )
        return voted

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        fitted = (
            f"fitted, {len(self.law_.confusion)} classes" if hasattr(self, "law_") else "not fitted"
        )
        return f"{super().__repr__(N_CHAR_MAX)}: {fitted}"

    def _to_store(self) -> dict[str, Any]:
        check_is_fitted(self, "law_")
        seed = self.random_state if isinstance(self.random_state, int) else None
        params = self.get_params(deep=False) | {"random_state": seed}
        return {"params": params, "law": self.law_, "classes": self.classes_, "items": self.items_}

    @classmethod
    def _from_store(
        cls, params: dict[str, Any], law: CrowdLaw, classes: Names | None, items: Names | None
    ) -> DirichletCrowd:
        crowd = cls(**params)
        crowd.law_ = law
        crowd.classes_ = classes
        crowd.items_ = items
        if classes is not None and len(classes) != len(law.confusion):
            raise ValueError(
                f"classes names {len(classes)} classes, but the law has {len(law.confusion)}."
            )
        return crowd


def enough_votes(
    voted: Voted, most: int, min_votes: int | None, name: str, method: str = "panel"
) -> tuple[IntArray, int]:
    """Return items with enough votes if so many may be in hand, and how many votes are enough."""
    spare = HELD_BACK if method == "panel" else 0
    largest = int(voted.n_votes.max(initial=0))
    needed = (
        most + spare
        if min_votes is None
        else max(as_positive_int(min_votes, "min_votes"), most + 1)
    )
    if largest < max(needed, 1):
        remedy = "Collect more votes"
        if min_votes is None and largest > spare:
            remedy = f"Lower {name} to at most {largest - spare}"
        remedy += ", or set method to imputed" if (name, method) == ("in_hand", "panel") else ""
        raise ValueError(
            f"votes has at most {largest} votes on an item, but {name} up to {most} needs "
            f"{needed}. {remedy}."
        )
    least = needed if method == "panel" else 1
    rows = np.flatnonzero(voted.n_votes >= least)
    if len(rows) < len(voted):
        warn(
            f"{len(voted) - len(rows)} of {len(voted)} items have fewer than {least} votes "
            "and were left out."
        )
    return rows, least


def _as_numbers(in_hand: Any) -> tuple[int, ...]:
    values = [in_hand] if isinstance(in_hand, Integral) else list(in_hand)
    if not values or not all(isinstance(h, int | np.integer) and h >= 0 for h in values):
        raise ValueError(
            f"in_hand must be numbers of votes, such as (0, 1, 2, 3, 5), but is {in_hand!r}."
        )
    return tuple(sorted({int(h) for h in values}))
