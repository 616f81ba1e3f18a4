"""The Dirichlet crowd: what everyone would say of an item, given a prediction and a few votes."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from credalset._typing import AnyArray, FloatArray, IntArray, RandomState
from credalset._validation import as_counts, as_distributions, as_finite, as_generator, as_positive_int, check_choice
from credalset.crowd.fitting import fit_law, largest_fit
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior, predict_blocks
from credalset.exceptions import warn
from credalset.scores import get_score
from credalset.votes import Annotations
from credalset.votes.names import (
    Names,
    class_names,
    item_names,
    join_names,
    order_columns,
    per_item,
    take_names,
    warn_of_numbers,
)


class Saved:
    """Everything of the crowd that can be saved."""

    def save(self, path: str | Path) -> None:
        """Write it to a folder (JSON and ``.npz``, no pickle); read it with `credalset.load`."""
        from credalset.io.store import save

        save(self, path)


@dataclass(frozen=True, eq=False)
class Voted:
    """Predictions (N, K) and votes (N, K) of the same items, with names and groups (N,) where they are known.

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
        groups, names = None if self.groups is None else self.groups[rows], take_names(self.items, rows)
        return replace(self, prediction=self.prediction[rows], counts=self.counts[rows], items=names, groups=groups)

    def grouped(self, groups: Any) -> Voted:
        """Return the items with the group of each, put into their order."""
        if groups is None:
            return self
        keys = np.asarray(per_item(groups, self.items, "groups", "predictions"))
        if keys.shape != (len(self),):
            raise ValueError(f"groups must hold one key per item ({len(self)}), but has shape {keys.shape}.")
        return replace(self, groups=keys)

    @property
    def n_votes(self) -> IntArray:
        """Number of votes on each item."""
        return self.counts.sum(axis=1).astype(np.int64)


def read_voted(predictions: Any, votes: Any, classes: Names | None = None, n_classes: int | None = None) -> Voted:
    """Return valid predictions and counts; named items without votes have none.

    Parameters
    ----------
    predictions : array or data frame of shape (N, K)
        Predicted distributions.
    votes : array or data frame of shape (N, K), Annotations or None
        Votes per item and class; rows may be empty. None: no votes at all.
    classes, n_classes
        Names and number of the classes that are known already.
    """
    classes = class_names(predictions, "predictions") if classes is None else classes
    ordered = order_columns(predictions, classes, "predictions", "the crowd")
    prediction = as_distributions(ordered, "predictions", n_classes=n_classes)
    items = item_names(predictions)
    if votes is None:
        return Voted(prediction, np.zeros_like(prediction), items, classes)
    if not getattr(votes, "has_counts", True):
        raise ValueError("votes holds distributions, which do not tell the number of votes. Pass counts per class.")
    counts = as_counts(getattr(votes, "counts", votes), "votes", may_be_none=True)
    own, named = class_names(votes, "votes"), item_names(votes)
    counts = _align(_align(counts.T, own, classes, "classes").T, named, items, "items")
    if counts.shape != prediction.shape:
        raise ValueError(
            f"votes has {counts.shape[0]} rows and {counts.shape[1]} classes, but predictions have "
            f"{prediction.shape[0]} and {prediction.shape[1]}. Pass one row per prediction, or name the items of both."
        )
    classes, scale = own if classes is None else classes, votes.scale if isinstance(votes, Annotations) else None
    if scale is not None and own is not None and classes is not None:
        levels = dict(zip(own, scale, strict=True))
        scale = tuple(levels.get(name, -np.inf) for name in classes)
    return Voted(prediction, counts, named if items is None else items, classes, scale=scale)


def _align(counts: FloatArray, own: Names | None, wanted: Names | None, what: str) -> FloatArray:
    """Put rows into the order of the wanted names; those that are not named have no votes."""
    if own is None or wanted is None or own == wanted:
        warn_of_numbers(own if wanted is None else wanted if own is None else None, what, "votes", "predictions")
        return counts
    position = {name: row for row, name in enumerate(wanted)}
    unknown = [name for name, row in zip(own, counts, strict=True) if name not in position and row.any()]
    if unknown:
        raise ValueError(
            f"votes has votes on {len(unknown)} {what} that predictions do not have ({join_names(unknown, 3)}). "
            f"Predict these {what} too, or drop their votes."
        )
    if len(position) < len(wanted) or len(set(own)) < len(own):
        raise ValueError(f"predictions or votes name one of the {what} twice. Give each a name of its own.")
    found = np.zeros((len(wanted), counts.shape[1]))
    rows = [row for row, name in enumerate(own) if name in position]
    found[[position[own[row]] for row in rows]] = counts[rows]
    return found


def draw_votes(counts: FloatArray, numbers: tuple[int, ...], generator: np.random.Generator) -> dict[int, FloatArray]:
    """Draw votes of each item at random, one by one without replacement; return those drawn after each number.

    Items with fewer votes give all they have.
    """
    left, drawn, found = counts.copy(), np.zeros_like(counts), {}
    for step in range(max(numbers) + 1):
        if step in numbers:
            found[step] = drawn.copy()
        rows = np.flatnonzero(left.sum(axis=1) > 0)
        chosen = draw_one(left[rows], generator)
        drawn[rows, chosen] += 1
        left[rows, chosen] -= 1
    return found


def draw_one(counts: FloatArray, generator: np.random.Generator) -> IntArray:
    """Draw one of the votes of each item at random, as the position of its class, (N,)."""
    number = generator.integers(counts.sum(axis=1).astype(np.int64))
    return (np.cumsum(counts, axis=1) <= number[:, None]).sum(axis=1)


if TYPE_CHECKING:
    from credalset.crowd.check import CrowdCheck
    from credalset.crowd.in_hand import CrowdCalibration

ENOUGH = 100  # items of a panel from which on it is chosen
MANY_CLASSES = 100  # beyond which a second layer of consensus is not tried


class DirichletCrowd(Saved, BaseEstimator):  # type: ignore[misc]
    r"""What a crowd would say, given a prediction and the votes in hand.

    The crowd's distribution λ of an item with prediction p is drawn from a mixture of Dirichlet distributions: some
    around (a power of) the prediction, whose strength depends on its entropy, and some that say that the crowd agrees
    on one class, whatever the model predicts. Votes are draws from λ. A dozen parameters are fitted by penalised
    maximum likelihood of the vote counts (Dirichlet-multinomial), with weak normal priors; items may have any number
    of votes. See `credalset.crowd.law` for the formula.

    Parameters
    ----------
    n_components : int
        Number of Dirichlet distributions around the prediction.
    n_consensus : int, optional
        Number of layers of one Dirichlet distribution per class; 0 for none. By default 1 or 2, whichever the Bayesian
        information criterion prefers; 1 beyond 100 classes.
    max_iter : int
        Largest number of L-BFGS iterations.
    random_state : int, Generator or None
        Seed for the choice of items where there are more than a fit needs.

    Attributes
    ----------
    law_ : CrowdLaw
        Fitted parameters, as plain arrays.
    classes_, items_ : tuple or None
        Names of the classes, and of the items that were fitted. Exact calibrations refuse these items.

    See Also
    --------
    VotingPolicy : whom to ask next.

    Notes
    -----
    Fit the crowd on items that did not train the model that made the predictions.

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
        """Fit the crowd to predictions and votes of items that did not train the model.

        Parameters
        ----------
        predictions : array or data frame of shape (n, K)
            Predicted distributions.
        votes : array or data frame of shape (n, K), or Annotations
            Votes per item and class.

        Returns
        -------
        DirichletCrowd
        """
        n_around = as_positive_int(self.n_components, "n_components")
        voted = read_voted(predictions, votes)
        layers = (1, 2) if voted.prediction.shape[1] <= MANY_CLASSES else (1,)
        if self.n_consensus is not None:
            layers = (as_positive_int(self.n_consensus + 1, "n_consensus + 1") - 1,)
        rows = np.flatnonzero(voted.n_votes > 0)
        if len(rows) == 0:
            raise ValueError("votes has no votes at all: a crowd is learned from items with at least one vote each.")
        size = min(len(rows), largest_fit(voted.prediction.shape[1]))
        rows = as_generator(self.random_state).choice(rows, size, replace=False)
        max_iter = as_positive_int(self.max_iter, "max_iter")
        fits = [fit_law(voted.prediction[rows], voted.counts[rows], n_around, t, max_iter) for t in layers]
        self.law_, _ = max(fits, key=lambda fit: size * fit[1] - 0.5 * len(fit[0].theta) * np.log(size))
        self.classes_, self.items_ = voted.classes, voted.items
        return self

    def predict(self, predictions: Any, votes: Any = None) -> FloatArray:
        """Predict what the crowd would say, (N, K): the posterior mean given the votes in hand.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand; rows may be empty. Named items that are missing here have no votes.
        """
        voted = self.read(predictions, votes)
        return predict_blocks(self.law_, voted.prediction, voted.counts)

    def posterior(self, predictions: Any, votes: Any = None) -> Posterior:
        """Return what is believed of the crowd of each item given its votes, a mixture of Dirichlet distributions.

        Parameters
        ----------
        predictions, votes
            As in `predict`.
        """
        voted = self.read(predictions, votes)
        return Posterior.given(self.law_, voted.prediction, voted.counts)

    def sample(self, predictions: Any, votes: Any = None, n: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw n distributions of the crowd for each item from the posterior, (N, n, K).

        Parameters
        ----------
        predictions, votes
            As in `predict`.
        n : int
            Number of draws for each item.
        random_state : int, Generator or None
            Seed.
        """
        return self.posterior(predictions, votes).sample(n, random_state)

    def check(
        self, predictions: Any, votes: Any, *, n_simulations: int = 499, random_state: RandomState = 0
    ) -> CrowdCheck:
        """Test whether the crowd predicts votes that are hidden from it; a small p-value speaks against it.

        Of each item a few votes stay in hand and up to two are hidden. The first hidden vote is compared with its
        predicted probabilities, and the agreement of the two with its predicted probability.

        Parameters
        ----------
        predictions, votes
            As in `fit`; items that the crowd was not fitted to make the sharper test.
        n_simulations : int
            Number of simulations behind the Monte Carlo p-values.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        CrowdCheck
            Calibration tables, ``p_value``, observed and expected agreement; prints as a table.
        """
        from credalset.crowd.check import check_crowd

        number = as_positive_int(n_simulations, "n_simulations")
        return check_crowd(self.law_, self.read(predictions, votes), number, as_generator(random_state))

    def conformalize(
        self,
        predictions: Any,
        votes: Any,
        score: Any = "kl",
        *,
        in_hand: Any = (0, 1, 2, 3, 5),
        method: str | None = None,
        groups: Any = None,
        sharpness: float = 0.5,
        min_votes: int | None = None,
        random_state: RandomState = 0,
    ) -> CrowdCalibration:
        """Calibrate sets for items that have some votes in hand, one threshold per number of votes.

        With ``method="panel"``, h votes of each calibration item are drawn at random, the posterior mean given these
        (see ``sharpness``) is the prediction, and it is scored against the shares of the votes that were held back. New
        items with h votes, chosen without looking at the votes, are exchangeable with these: coverage of the recorded
        distribution of the held-back votes is at least 1 − α, exactly. With ``method="imputed"``, the calibration items
        have few votes: the crowd's distribution is drawn from the posterior given all votes of an item, and from refits
        to bootstrap samples. Coverage is then approximately 1 − α if the crowd is a Dirichlet crowd; see `check`.

        Parameters
        ----------
        predictions, votes
            As in `fit`. For ``"panel"``, items that were not fitted; named items that were are refused.
        score : str or Score
            As in `credalset.conformalize`. Second-order scores get the concentrations of the posterior.
        in_hand : sequence of int
            Numbers of votes in hand to calibrate for.
        method : {"panel", "imputed"}, optional
            By default ``"panel"`` if at least 100 items have ``min_votes`` votes, else ``"imputed"`` with a warning.
        groups : sequence of n keys, optional
            Hold the coverage within each group, as in `credalset.conformalize`.
        sharpness : float
            Sets are centred at the normalised power 1 + sharpness / √(1 + A) of the posterior mean, where A is the
            total concentration of the posterior. A centre nearer to the mode makes sets narrower and more decided; 0
            is the mean. Coverage holds for any number that does not depend on these items.
        min_votes : int, optional
            Number of votes that an item of the panel has at least, by default 2 · max(in_hand) + 10. Items with fewer
            are left out, and coverage is for items that will have as many.
        random_state : int, Generator or None
            Seed of the draws.

        Returns
        -------
        CrowdCalibration
        """
        from credalset.crowd.in_hand import CrowdCalibration, calibrate, impute

        voted, chosen, numbers = self.read(predictions, votes).grouped(groups), get_score(score), _as_numbers(in_hand)
        check_choice(method, "method", (None, "panel", "imputed"))
        sharpness, generator = as_finite(sharpness, "sharpness", minimum=0.0), as_generator(random_state)
        least = 2 * numbers[-1] + 10 if min_votes is None else as_positive_int(min_votes, "min_votes")
        least = max(least, numbers[-1] + 1)
        n_panel = int((voted.n_votes >= least).sum())
        how: Any = method or ("panel" if n_panel >= ENOUGH else "imputed")
        if method != how == "imputed":
            warn(
                f"Only {n_panel} of {len(voted)} items have {least} votes or more, so the calibration is imputed: "
                "coverage is approximate and assumes a Dirichlet crowd."
            )
        least = least if how == "panel" else 1
        rows, most = np.flatnonzero(voted.n_votes >= least), int(voted.n_votes.max(initial=0))
        if most < max(least, numbers[-1]):
            raise ValueError(
                f"votes has at most {most} votes on an item, but in_hand up to {numbers[-1]} needs "
                f"{max(least, numbers[-1])}. Lower in_hand{', or set method to imputed' if how == 'panel' else ''}."
            )
        voted, parts = voted[rows], []
        if how == "panel":
            self.refuse_fitted(voted)
        drawn = draw_votes(voted.counts, numbers, generator)
        truth = impute(self.law_, voted, generator) if how == "imputed" else None
        for h in numbers:
            rows = np.flatnonzero(voted.n_votes >= h)
            labels = (voted.counts - drawn[h])[:, None, :] if truth is None else truth[rows]
            parts.append(calibrate(chosen, self.law_, voted[rows], drawn[h][rows], labels, sharpness))
        names = tuple(dict.fromkeys([*(self.items_ or ()), *(voted.items or ())])) or None
        return CrowdCalibration(copy.copy(self), tuple(parts), numbers, how, len(voted), least, sharpness, names)

    def read(self, predictions: Any, votes: Any) -> Voted:
        """Return valid predictions and votes over the classes of the crowd."""
        check_is_fitted(self, "law_")
        return read_voted(predictions, votes, self.classes_, len(self.law_.confusion))

    def refuse_fitted(self, voted: Voted) -> None:
        """Refuse to calibrate exactly on items that the crowd was fitted to, where names tell."""
        both = set(self.items_ or ()) & set(voted.items or ())
        if both:
            raise ValueError(
                f"predictions has {len(both)} items that the crowd was fitted to (first: {join_names(list(both), 3)}): "
                "calibrating on them is not exact. Fit the crowd to other items, or set method to imputed."
            )

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
        crowd.law_, crowd.classes_, crowd.items_ = law, classes, items
        if classes is not None and len(classes) != len(law.confusion):
            raise ValueError(f"classes names {len(classes)} classes, but the law has {len(law.confusion)}.")
        return crowd


def _as_numbers(in_hand: Any) -> tuple[int, ...]:
    values = [in_hand] if isinstance(in_hand, Integral) else list(in_hand)
    if not values or not all(isinstance(h, int | np.integer) and h >= 0 for h in values):
        raise ValueError(f"in_hand must be numbers of votes, such as (0, 1, 2, 3, 5), but is {in_hand!r}.")
    return tuple(sorted({int(h) for h in values}))
