"""The Dirichlet crowd: the label distribution of a crowd, from a prediction and a few votes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from credalset._batch import Names
from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import (
    as_generator,
    as_positive_int,
    as_probability,
    check_choice,
)
from credalset.acceptance.losses import LOSSES, Beliefs
from credalset.acceptance.rule import AcceptRule, Claim, keys_of, make_rule
from credalset.crowd.accept import FitItems, believe, crowd_cases, suspicious_numbers
from credalset.crowd.base import HELD_BACK, Crowd, VotedItems, enough_votes, read_voted
from credalset.crowd.bias import ClassBias, fit_bias
from credalset.crowd.check import CrowdCheck, check_crowd
from credalset.crowd.drawing import draw_votes
from credalset.crowd.fitting import fit_law, largest_fit
from credalset.crowd.in_hand import CrowdCalibration, calibrate_in_hand, impute
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior, predict_blocks
from credalset.crowd.scaling import SCALES
from credalset.exceptions import warn
from credalset.scores import get_score

KEPT = 2_000  # fit items that are kept, to choose what is tested of others
LADDER = (*range(11), 15, 20, 30, 50)  # numbers of votes in hand that in_hand="auto" tries
FEWEST_IMPUTED = 50  # items that calibrate one of these numbers by imputation
MANY_CLASSES = 100  # beyond this number of classes a second layer of consensus is not tried


class DirichletCrowd(Crowd, BaseEstimator):  # type: ignore[misc]
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
    class_bias : bool
        Whether to remove the class bias of the model first, log q = a + b log p with one number a
        per class, if cross-validation on the votes shows that it helps.
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
    CrowdCalibration: score scaled kl, 0, 1, 2, 3 votes in hand, panel of 600 items, 3 classes
    >>> sets = calibration.predict_set(p[:2], alpha=0.1, votes=[[0, 0, 0], [3, 0, 0]])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_consensus: int | None = None,
        class_bias: bool = True,
        max_iter: int = 200,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_consensus = n_consensus
        self.class_bias = class_bias
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
        max_iter = as_positive_int(self.max_iter, "max_iter")
        voted = read_voted(predictions, votes)
        n_classes = voted.batch.n_classes
        rows = np.flatnonzero(voted.n_votes > 0)
        if len(rows) == 0:
            raise ValueError("votes has no votes. Pass items with at least one vote each.")
        size = min(len(rows), largest_fit(n_classes))
        rows = as_generator(self.random_state).choice(rows, size, replace=False)
        prediction = voted.prediction[rows]
        counts = voted.counts[rows]
        self.bias_ = None
        if self.class_bias:
            # The law is fitted around corrections that have not seen the votes of the item.
            self.bias_, prediction = fit_bias(prediction, counts)
        fits = [
            fit_law(prediction, counts, n_around, layers, max_iter)
            for layers in self._layers(n_classes)
        ]
        # The Bayesian information criterion, as a log-likelihood minus a penalty.
        penalty = 0.5 * np.log(size)
        self.seen_ = FitItems(prediction[:KEPT], counts[:KEPT])
        self.law_, _ = max(fits, key=lambda fit: size * fit[1] - penalty * len(fit[0].theta))
        self.classes_ = voted.batch.classes
        self.items_ = voted.items
        return self

    def _layers(self, n_classes: int) -> tuple[int, ...]:
        """Return the numbers of components per class to try."""
        if self.n_consensus is not None:
            return (as_positive_int(self.n_consensus, "n_consensus", minimum=0),)
        return (1, 2) if n_classes <= MANY_CLASSES else (1,)

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
        voted = self._read(predictions, votes)
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
        voted = self._read(predictions, votes)
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
        number = as_positive_int(n_simulations, "n_simulations")
        voted = self._read(predictions, votes, partial=False)
        return check_crowd(self.law_, voted, number, as_generator(random_state))

    def conformalize(
        self,
        predictions: Any,
        votes: Any,
        score: Any = "kl",
        *,
        in_hand: Any = "auto",
        method: Literal["panel", "imputed"] = "panel",
        scale: Literal["posterior"] | None = "posterior",
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
        in_hand : "auto" or sequence of int
            Numbers of votes in hand to calibrate for. Items with another number are thinned at
            random to the next smaller one, which throws votes away. ``"auto"`` takes all numbers
            from 0 to 10, and 15, 20, 30 and 50, that have enough items: nine of ten panel items
            keep 10 later votes, or 50 items are imputed.
        method : {"panel", "imputed"}
            As above. The guarantee of ``"panel"`` also holds for few items; the sets are then wide
            or the whole simplex.
        scale : {"posterior", None}
            ``"posterior"`` divides the scores kl, tv, brier and ws by what the crowd expects of
            them: the 90 % quantile of the score under the posterior of the item, plus a small
            offset. Sets of easy items become smaller and those of hard items larger, and coverage
            becomes even. Other scores, and all scores with None, are calibrated as they are. The
            guarantee is the same.
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
        check_choice(method, "method", ("panel", "imputed"))
        check_choice(scale, "scale", SCALES)
        chosen = get_score(score)
        generator = as_generator(random_state)
        voted = self._read(predictions, votes, partial=False).with_groups(groups)
        numbers = _read_numbers(in_hand, voted.n_votes, method, min_votes)
        rows, least = enough_votes(voted, numbers[-1], min_votes, "in_hand", method)
        voted = voted[rows]
        if method == "panel":
            self._refuse_fitted(voted)
        drawn = draw_votes(voted.counts, numbers, generator)
        truth = impute(self.law_, voted, generator) if method == "imputed" else None
        parts = []
        for h in numbers:
            rows = np.flatnonzero(voted.n_votes >= h)
            hand = drawn[h][rows]
            held_back = (voted.counts[rows] - hand)[:, None, :]
            labels = held_back if truth is None else truth[rows]
            parts.append(calibrate_in_hand(chosen, self.law_, voted[rows], hand, labels, scale))
        crowd = copy.copy(self)
        return CrowdCalibration(
            crowd, tuple(parts), numbers, method, len(voted), least, voted.items
        )

    def accept(
        self,
        predictions: Any,
        votes: Any,
        *,
        error: float | Sequence[float] = 0.05,
        confidence: float = 0.9,
        loss: Any = "annotator",
        in_hand: int | None = None,
        groups: Any = None,
        clusters: Any = None,
        random_state: RandomState = 0,
    ) -> AcceptRule:
        r"""Certify which labels can be accepted, with a bound on the error among accepted items.

        The error is the chance that another annotator would give another label, on average over the
        items that are accepted. It is estimated by votes that are held back: no panel is needed,
        and the model of the crowd need not be right. With probability at least ``confidence``, it
        is at most ``error`` if items are independent, the votes on an item are interchangeable
        draws from one pool of annotators, their number was not chosen by how they came out, and
        predictions were made without the votes of these items.

        Parameters
        ----------
        predictions, votes
            As in `fit`, for other items than `fit` has used; items with the same names are refused.
            Items without enough votes are left out, with a warning.
        error : float or sequence of float
            Largest mean loss among accepted items. Several share the probability of failing.
        confidence : float
            Probability, over the votes, with which all bounds hold.
        loss : {"annotator", "person", "majority"} or array of shape (K, K)
            What accepting a label costs. ``"annotator"``: another annotator gives another label.
            ``"person"``: how much more often than another annotator the label disagrees with one.
            ``"majority"``: the label is not that of most votes held back, for items with many
            votes. A matrix: the cost of each label (row) for an annotator of each class (column).
        in_hand : int, optional
            Number of votes in hand when the label is decided, which was fixed beforehand; 0 for
            the prediction alone. By default one vote fewer than an item has: each vote is left out
            in turn (or each pair, for ``"person"``).
        groups : sequence of n keys, optional
            Group of each item. Each group has its own threshold, and its own claim at this
            confidence.
        clusters : sequence of n keys, optional
            Items with one key may depend on each other: blocks of items that the same few workers
            did, or duplicates.
        random_state : int, Generator or None
            Seed for drawing votes in hand.

        Returns
        -------
        AcceptRule

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(1500, n_classes=3, n_votes=3, random_state=0)
        >>> p, votes = data.distributions, data.counts
        >>> crowd = cs.DirichletCrowd().fit(p[:500], votes[:500])
        >>> rule = crowd.accept(p[500:], votes[500:], error=0.1)
        >>> rule
        AcceptRule: loss annotator, error 0.1 at confidence 0.9, 1000 items, 68% accepted
        >>> new = [[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.4, 0.4, 0.2]]
        >>> found = rule.predict(new, [[2, 0, 0], [1, 1, 0], [2, 0, 0]])
        >>> found.labels, found.accepted, found.risk.round(2)
        ([0, 0, 0], array([ True,  True, False]), array([0.17, 0.19, 0.57]))
        """
        voted = self._read(predictions, votes, partial=False)
        claim = Claim.read(loss, error, confidence, voted.batch)
        return self._certify(voted, claim, in_hand, groups, clusters, random_state)

    def divided(
        self,
        predictions: Any,
        votes: Any,
        *,
        disagreement: float = 0.4,
        confidence: float = 0.9,
        in_hand: int | None = None,
        groups: Any = None,
        clusters: Any = None,
        random_state: RandomState = 0,
    ) -> AcceptRule:
        """Certify on which items people are divided: more votes would not settle them.

        Two annotators disagree with probability at least ``disagreement``, on average over the
        claimed items, with probability at least ``confidence``. Two votes are held back.

        Parameters
        ----------
        predictions, votes, confidence, in_hand, groups, clusters, random_state
            As in `accept`; items need two votes.
        disagreement : float
            Probability with which two annotators disagree about a claimed item, on average.

        Returns
        -------
        AcceptRule
            Items are *accepted* if they are claimed to be divided.
        """
        voted = self._read(predictions, votes, partial=False)
        share = as_probability(disagreement, "disagreement")
        certainty = as_probability(confidence, "confidence")
        claim = Claim(LOSSES["divided"], (1.0 - share,), certainty)
        return self._certify(voted, claim, in_hand, groups, clusters, random_state)

    def _certify(
        self,
        voted: VotedItems,
        claim: Claim,
        in_hand: int | None,
        groups: Any,
        clusters: Any,
        random_state: RandomState,
    ) -> AcceptRule:
        self._refuse_fitted(voted, "accept labels of others")
        if in_hand is None and claim.loss.name == "majority":
            raise ValueError(
                "loss='majority' needs in_hand, the number of votes that decide; the others are "
                "held back. Set in_hand to 0, 1, 2, 3 or more."
            )
        number = None if in_hand is None else as_positive_int(in_hand, "in_hand", minimum=0)
        generator = as_generator(random_state)
        least = claim.loss.n_held_back + (number or 0)
        rows = np.flatnonzero(voted.n_votes >= least)
        if not len(rows):
            most = voted.n_votes.max(initial=0)
            raise ValueError(
                f"votes has at most {most} votes on an item, but {least} are needed. Collect "
                "more, or choose another loss or a smaller in_hand."
            )
        if len(rows) < len(voted):
            warn(
                f"{len(voted) - len(rows)} of {len(voted)} items have fewer than {least} votes and "
                "were left out: the bound is not about them."
            )
        kept = voted[rows]
        if number is None and (
            warning := suspicious_numbers(self.law_, kept.prediction, kept.counts)
        ):
            warn(warning)
        seen = self.seen_
        options = (claim.loss, number, generator)
        cases = crowd_cases(self.law_, kept.prediction, kept.counts, *options)
        fitted = crowd_cases(self.law_, seen.prediction, seen.counts, *options, certifies=False)
        if not len(fitted.item):
            needs = claim.loss.n_held_back if number is None else number
            raise ValueError(
                f"the crowd was fitted to items with fewer than {needs} votes, which cannot tell "
                f"what to test here. Fit it to items with {needs} votes or more, or lower in_hand."
            )
        return make_rule(
            copy.copy(self),
            kept.batch,
            cases,
            fitted,
            claim,
            kept.n_votes,
            in_hand=number,
            groups=keys_of(voted.batch, groups, "groups", rows),
            clusters=keys_of(voted.batch, clusters, "clusters", rows),
        )

    def _believe(self, prediction: FloatArray, counts: FloatArray) -> Beliefs:
        return believe(self.law_, prediction, counts)

    def _read(self, predictions: Any, votes: Any, *, partial: bool = True) -> VotedItems:
        check_is_fitted(self, "law_")
        n_classes = len(self.law_.confusion)
        voted = read_voted(predictions, votes, self.classes_, n_classes, partial=partial)
        return replace(voted, batch=voted.batch.with_values(self._correct(voted.prediction)))

    def _correct(self, prediction: FloatArray) -> FloatArray:
        return prediction if self.bias_ is None else self.bias_.correct(prediction)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        fitted = (
            f"fitted, {len(self.law_.confusion)} classes" if hasattr(self, "law_") else "not fitted"
        )
        return f"{super().__repr__(N_CHAR_MAX)}: {fitted}"

    def _to_store(self) -> dict[str, Any]:
        check_is_fitted(self, "law_")
        seed = self.random_state if isinstance(self.random_state, int) else None
        params = self.get_params(deep=False) | {"random_state": seed}
        return {
            "params": params,
            "law": self.law_,
            "seen": self.seen_,
            "bias": self.bias_,
            "classes": self.classes_,
            "items": self.items_,
        }

    @classmethod
    def _from_store(
        cls,
        params: dict[str, Any],
        law: CrowdLaw,
        seen: FitItems,
        bias: ClassBias | None,
        classes: Names | None,
        items: Names | None,
    ) -> DirichletCrowd:
        crowd = cls(**params)
        crowd.law_ = law
        crowd.seen_ = seen
        crowd.bias_ = bias
        crowd.classes_ = classes
        crowd.items_ = items
        if classes is not None and len(classes) != len(law.confusion):
            raise ValueError(
                f"classes names {len(classes)} classes, but the law has {len(law.confusion)}."
            )
        if bias is not None and len(bias.bias) != len(law.confusion):
            raise ValueError("bias must hold one number per class of the law.")
        return crowd


def _read_numbers(
    in_hand: Any, n_votes: IntArray, method: str, min_votes: int | None
) -> tuple[int, ...]:
    """Return the numbers of votes in hand to calibrate for, in ascending order."""
    if isinstance(in_hand, str) and in_hand == "auto":
        return _numbers_with_enough_items(n_votes, method, min_votes)
    values = [in_hand] if isinstance(in_hand, Integral) else list(in_hand)
    if not values or not all(isinstance(h, int | np.integer) and h >= 0 for h in values):
        raise ValueError(
            f"in_hand must be 'auto' or numbers of votes, such as (0, 1, 2, 3), but is {in_hand!r}."
        )
    return tuple(sorted({int(h) for h in values}))


def _numbers_with_enough_items(
    n_votes: IntArray, method: str, min_votes: int | None
) -> tuple[int, ...]:
    """Return 0 and the other numbers in `LADDER` that enough items can calibrate."""
    if method == "imputed":
        return tuple(h for h in LADDER if h == 0 or (n_votes >= h).sum() >= FEWEST_IMPUTED)
    # All parts of a panel have the same items, so that a large number would leave some out.
    panel = n_votes[n_votes >= (HELD_BACK if min_votes is None else min_votes)]
    spare = np.quantile(panel, 0.1, method="lower") if len(panel) else 0.0
    if min_votes is not None:
        spare = min_votes
    return tuple(h for h in LADDER if h == 0 or h + HELD_BACK <= spare)
