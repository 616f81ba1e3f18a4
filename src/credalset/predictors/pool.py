"""Pool the answers of several judges into one predicted distribution, learned from votes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import xlogy
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credalset._batch import Batch, Labels, Names, is_default, item_names, match_names
from credalset._display import join_names, plural
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray, RandomState
from credalset._validation import as_generator, as_names
from credalset.exceptions import warn
from credalset.io.store import Saved
from credalset.predictors.judges import Answers, read_answers, read_judged
from credalset.predictors.labels import SMALLEST_PROBABILITY, SoftScoring, class_array
from credalset.predictors.log_linear import (
    FREE,
    N_FOLDS,
    NEARLY_FREE,
    RIDGES,
    Features,
    LogLinear,
    centred_logs,
    fit_cross_validated,
    random_folds,
    vote_weights,
)
from credalset.votes.tables import is_missing

LARGEST_TABLES = (
    200_000  # coefficients of labels × classes over all judges; beyond, none are fitted
)
LABEL_LOG_ODDS = 2.0  # what a label counts beside the log-probabilities of other judges


@dataclass(frozen=True, eq=False)
class PoolLaw:
    """Everything that a fitted pool needs to predict.

    Attributes
    ----------
    judges : tuple
        Names of the J judges.
    labels : tuple
        The L labels; the first K are the classes.
    n_classes : int
        Number of classes K.
    kinds : tuple of tuples
        Known kinds, for each column of kinds.
    gives_labels : ndarray of shape (J,), booleans
        Judges that give labels; the others give probabilities.
    positions : ndarray of shape (K,) or None
        Standardised positions of ordinal classes.
    ratings : ndarray of shape (J, 2)
        Mean and standard deviation of each judge's position.
    shared, own, ridge
        As in `LogLinear`.
    """

    judges: tuple[Any, ...]
    labels: tuple[Any, ...]
    n_classes: int
    kinds: tuple[tuple[Any, ...], ...]
    gives_labels: np.ndarray[Any, np.dtype[np.bool_]]
    positions: np.ndarray[Any, np.dtype[np.float64]] | None
    ratings: np.ndarray[Any, np.dtype[np.float64]]
    shared: np.ndarray[Any, np.dtype[np.float64]]
    own: np.ndarray[Any, np.dtype[np.float64]]
    ridge: float

    def __post_init__(self) -> None:
        n_judges = len(self.judges)
        n_shared = 1 + n_judges * (1 if self.positions is None else 2)
        n_kinds = sum(len(column) for column in self.kinds if isinstance(column, tuple))
        n_own = 1 + n_kinds + n_judges + self.has_tables * n_judges * len(self.labels)
        shapes = {
            "gives_labels": (self.gives_labels.shape, (n_judges,)),
            "ratings": (self.ratings.shape, (n_judges, 2)),
            "shared": (self.shared.shape, (n_shared,)),
            "own": (self.own.shape, (n_own, self.n_classes)),
        }
        if self.positions is not None:
            shapes["positions"] = (self.positions.shape, (self.n_classes,))
        wrong = [name for name, (found, wanted) in shapes.items() if found != wanted]
        arrays = [self.ratings, self.shared, self.own]
        is_finite = all(np.isfinite(array).all() for array in arrays)
        is_named = all(isinstance(column, tuple) for column in self.kinds)
        if wrong or not is_finite or not is_named or not 2 <= self.n_classes <= len(self.labels):
            raise ValueError(f"the parts of the pool do not fit together: {wrong or 'values'}.")

    @property
    def has_tables(self) -> bool:
        """Whether each judge has a coefficient for each of its labels and each class."""
        return self.n_tables <= LARGEST_TABLES

    @property
    def n_tables(self) -> int:
        """Number of coefficients of labels × classes."""
        return len(self.judges) * len(self.labels) * self.n_classes

    def features(self, answers: Answers, kinds: Sequence[Sequence[Any]]) -> Features:
        """Return the features of answers, (terms, N, K) and (N, terms)."""
        values = np.nan_to_num(answers.values)
        is_answered = answers.is_answered
        n_items = len(values)
        centred = _evidence(values[:, :, : self.n_classes], self.gives_labels, is_answered)
        mean = centred.sum(axis=1) / np.maximum(is_answered.sum(axis=1), 1)[:, None]
        shared = [mean[None], centred.transpose(1, 0, 2)]
        if self.positions is not None:
            rating = values[:, :, : self.n_classes] @ self.positions
            off = (rating - self.ratings[:, 0]) / self.ratings[:, 1] * is_answered
            shared.append(off.T[:, :, None] * self.positions)
        own = [np.ones((n_items, 1))]
        own += [_indicators(column, known) for column, known in zip(kinds, self.kinds, strict=True)]
        own.append((~is_answered).astype(np.float64))
        if self.has_tables:
            own.append(values.reshape(n_items, -1))
        n_shared = sum(len(part) for part in shared)
        n_own = sum(part.shape[1] for part in own)
        ridge_shared = np.ones(n_shared)
        ridge_own = np.ones(n_own)
        centre = np.zeros(n_shared)
        if self.gives_labels.all():  # labels do not say how much they are worth
            ridge_shared[0] = FREE
            ridge_own[0] = NEARLY_FREE
        else:  # probabilities are shrunk to what they are
            ridge_shared[0] = NEARLY_FREE
            centre[0] = 1.0
        return Features(np.concatenate(shared), np.hstack(own), ridge_shared, ridge_own, centre)

    def predict(self, answers: Answers, kinds: Sequence[Sequence[Any]]) -> FloatArray:
        """Return the predicted distributions, (N, K)."""
        law = LogLinear(self.shared, self.own, self.ridge)
        return law.predict(self.features(answers, kinds))


def _evidence(values: FloatArray, gives_labels: BoolArray, is_answered: BoolArray) -> FloatArray:
    """Return centred labels or log-probabilities, (N, J, K); zeros where there is no answer."""
    found = values - values.mean(axis=2, keepdims=True)
    if not gives_labels.all():
        found *= LABEL_LOG_ODDS
        found[:, ~gives_labels] = centred_logs(values[:, ~gives_labels])
    return np.asarray(found * is_answered[:, :, None])


def _indicators(column: Sequence[Any], known: Sequence[Any]) -> FloatArray:
    """Return one column per known kind; a row of zeros for kinds that are not known."""
    position = {kind: number for number, kind in enumerate(known)}
    codes = np.array([position.get(kind, -1) for kind in column], dtype=np.int64)
    return (codes[:, None] == np.arange(len(known))).astype(np.float64)


class JudgePool(SoftScoring, ClassifierMixin, Saved, BaseEstimator):  # type: ignore[misc]
    r"""Pool the labels or probabilities of several judges, as people's votes teach.

    Judges may be language models, classifiers or annotators. Each gives labels or probabilities,
    and may leave out items. With the evidence $f_{jk}$ of judge j for class k (a label as 0 and 1,
    or a log-probability, minus its mean over the classes), the pool is

    $$\log q_k = a_k + b\,\bar f_k + \sum_j d_j f_{jk} + \sum_j W_j[\ell_j, k] + B[\text{kind}, k]
      + \sum_j M_{jk} + \text{const},$$

    where $W_j$ has a weight for each label of the judge and each class, B a bias for each kind of
    item, and M an effect of a missing answer. Judges of ordinal classes also have terms
    $c_j z_j t_k$ of their standardised rating z and the position t of the class. The coefficients
    minimise the cross-entropy of the votes plus a ridge penalty, which is small for a and b. Its
    strength is chosen by five-fold cross-validation on the votes, so that few votes change little
    and many votes show the habits of each judge.

    Probabilities are shrunk towards the mean of the judges' log-probabilities, so that a judge
    without bias is left nearly as it is.

    Parameters
    ----------
    scale : sequence of K numbers, bool or None
        Positions of ordinal classes, in the order of the classes. By default that of the votes, or
        the classes themselves if three or more are numbers. False for none.
    ridges : sequence of float
        Strengths of the penalty to choose from.
    random_state : int, Generator or None
        Seed of the folds.

    Attributes
    ----------
    oof_ : ndarray of shape (N, K)
        Prediction of each item in `fit` by a pool that was fitted to other folds. Use it, not
        ``predict_proba``, for what is fitted, calibrated or estimated on the same items. Items
        without votes are predicted by one of the same pools. Rows are in the order of ``items_``:
        that of the array or frame of judges; of a dict whose items have names, the items of the
        first judge, then those that only later judges have.
    classes_ : ndarray of shape (K,)
        Names of the classes.
    judges_ : tuple
        Names of the judges.
    items_ : tuple or None
        Names of the items in `fit`, in the order of ``oof_``.
    kind_columns_ : tuple or None
        Names of the columns of kinds in `fit`; None if they have no names.
    losses_ : dict
        Cross-validated cross-entropy per vote, in nats, by ridge.
    ridge_ : float
        The ridge that was chosen.

    See Also
    --------
    credalset.judges.compare : which judges are as good as a person, and which are worth keeping.
    credalset.estimate : averages that are corrected by few votes.

    Notes
    -----
    Weights $W_j$ for each pair of labels are fitted up to 200 000 coefficients in all; with more
    classes or judges they are left out. Among nine votes on one item each counts as a third, as
    votes on one item resemble each other: m votes weigh m / (1 + (m − 1) / 4).

    Examples
    --------
    >>> import credalset as cs
    >>> panel = cs.datasets.make_judge_panel(600, n_votes=3, random_state=0)
    >>> judges = panel.probabilities.transpose(1, 0, 2)  # (items, judges, classes)
    >>> pool = cs.predictors.JudgePool().fit(judges[:300], panel.counts[:300])
    >>> print(round(pool.score(judges[300:], panel.counts[300:]), 2))
    -0.72

    Labels, with missing answers, and the kind of each item:

    >>> labels = {"gpt": ["yes", "no", None, "yes", "no"] * 20, "claude": ["yes", "no"] * 50}
    >>> votes = [["yes", "no"][i % 2] for i in range(100)]
    >>> pool = cs.predictors.JudgePool().fit(labels, votes, kinds=["short", "long"] * 50)
    >>> new = {"gpt": [None], "claude": ["no"]}
    >>> pool.predict_proba(new, kinds=["long"]).round(1)
    array([[1., 0.]])
    """

    #: tells `ConformalCredalClassifier` that ``fit`` takes label distributions
    accepts_label_distributions = True

    def __init__(
        self,
        *,
        scale: Any = None,
        ridges: Sequence[float] = RIDGES,
        random_state: RandomState = 0,
    ) -> None:
        self.scale = scale
        self.ridges = ridges
        self.random_state = random_state

    def fit(self, judges: Any, votes: Any, *, kinds: Any = None, clusters: Any = None) -> Self:
        """Fit the pool to people's votes.

        Parameters
        ----------
        judges : array of shape (N, J, K), dict or data frame
            Answers of the judges. An array holds probabilities; rows of NaN are missing answers. A
            data frame has one column of labels per judge, or two levels of columns, judge and
            class, with probabilities. A dict has the labels or the probabilities of each judge: a
            list, array, series or frame, or a dict by item. Missing labels are None, NaN or empty.
        votes : array or data frame of shape (N, K), Annotations, or N labels
            People's votes. Items may be without: rows of zeros, or items that are not named.
        kinds : sequence of N keys, data frame, dict of sequences, or names of columns, optional
            One or several categorical columns, such as the question that was asked, a topic or a
            class of lengths. Names select columns of the frame of judges, also in
            ``predict_proba``. The columns of a frame, and the keys of a dict, are names by which
            later kinds are matched.
        clusters : sequence of N keys, optional
            Items that belong together, such as those of one document, are in one fold.

        Returns
        -------
        JudgePool
        """
        judges, kinds = _take_kinds(judges, kinds)
        answers, labels = read_judged(judges, votes)
        batch = answers.batch()
        keys = None if clusters is None else _codes(batch.keys(clusters, "clusters"))
        return self._fit(answers, labels, read_kinds(batch, kinds), keys, kind_names(kinds))

    def _fit(
        self,
        answers: Answers,
        labels: Labels,
        columns: Sequence[Sequence[Any]],
        clusters: AnyArray | None,
        names_of_kinds: Names | None = None,
    ) -> Self:
        """Fit to answers and votes that have been read."""
        levels = tuple(_levels(column) for column in columns)
        target = _target(labels)
        is_voted: BoolArray = np.any(target, axis=1)
        generator = as_generator(self.random_state)
        folds = random_folds(len(answers), generator, clusters, is_voted)
        n_folds = len(np.unique(folds[is_voted]))
        if n_folds < N_FOLDS:
            what = "items" if clusters is None else "clusters"
            raise ValueError(
                f"votes has votes on {n_folds} {what} of judges, but five-fold cross-validation "
                f"needs at least {N_FOLDS}. Some fifty items with a vote are a good start."
            )
        positions = ordinal_positions(self.scale, labels, answers.labels[: answers.n_classes])
        if positions is not None:
            positions = (positions - positions.mean()) / positions.std()
        start = self._start(answers, levels, positions)
        features = start.features(answers, columns)
        found = fit_cross_validated(features, target, folds, self.ridges)
        law = found.law
        self.law_ = replace(start, shared=law.shared, own=law.own, ridge=law.ridge)
        self.oof_ = found.out_of_fold
        self.losses_ = found.losses
        self.ridge_ = law.ridge
        self.items_ = answers.items
        self.judges_ = answers.names
        self.classes_ = class_array(labels)
        self.kind_columns_ = names_of_kinds
        return self

    def predict_proba(self, judges: Any, *, kinds: Any = None) -> FloatArray:
        """Predict the distribution of people's votes.

        Parameters
        ----------
        judges : array of shape (N, J, K), dict or data frame
            Answers of the judges of `fit`, in any of the forms.
        kinds : sequence of N keys, data frame, dict of sequences, or names of columns, optional
            Kinds, if the pool was fitted with kinds; by default the columns of the frame of judges
            that have their names. Columns are matched by name; without names they are in the order
            of `fit`. Kinds that the pool has not seen have no bias.

        Returns
        -------
        ndarray of shape (N, K)
            Predicted distributions. Rows have no names: they are in the order of the array or frame
            of judges. Of a dict whose items have names, they are the items of the first judge in
            `fit` (the first of ``judges_``), in its order, then those that only later judges have.
        """
        answers, columns = self._read(judges, kinds)
        return self.law_.predict(answers, columns)

    def score(
        self, judges: Any, y: Any, sample_weight: ArrayLike | None = None, *, kinds: Any = None
    ) -> float:
        r"""Return minus the mean soft cross-entropy in nats; greater is better.

        Parameters
        ----------
        judges, kinds
            As in `predict_proba`.
        y : array or data frame of shape (N, K), Annotations, or N labels
            People's votes. Items without votes are left out. Without names, columns are in the
            order of ``classes_``.
        sample_weight : array of shape (N,), optional
            Weight of each item.

        Returns
        -------
        float
            The score, at most 0.
        """
        answers, columns = self._read(judges, kinds)
        labels = answers.batch().votes(_as_votes(y, answers), "y", partial=True)
        prediction = np.maximum(self.law_.predict(answers, columns), SMALLEST_PROBABILITY)
        rows = labels.has_votes
        logs = xlogy(labels.distributions[rows], prediction[rows]).sum(axis=1)
        weights = None
        if sample_weight is not None:
            weights = np.asarray(answers.batch().per_item(sample_weight, "sample_weight"))[rows]
        return float(np.average(logs, weights=weights))

    def _read(self, judges: Any, kinds: Any) -> tuple[Answers, list[list[Any]]]:
        check_is_fitted(self, "law_")
        law = self.law_
        if kinds is None:
            kinds = self._find_kinds(judges)
        judges, kinds = _take_kinds(judges, kinds)
        answers = read_answers(judges, law.judges, law.labels, law.n_classes)
        columns = self._match_kinds(read_kinds(answers.batch(), kinds), kinds)
        for column, known in zip(columns, law.kinds, strict=True):
            new = [kind for kind in dict.fromkeys(column) if kind not in known]
            if new:
                warn(
                    f"kinds has {plural(len(new), 'kind')} that the pool has not seen "
                    f"({join_names(new, 4)}). They get no bias of their own."
                )
        return answers, columns

    def _find_kinds(self, judges: Any) -> list[Any] | None:
        """Return the names of the kinds in `fit`, which must be columns of the frame of judges."""
        if not self.kind_columns_:
            return None
        there = getattr(judges, "columns", ())
        if any(name not in there for name in self.kind_columns_):
            raise ValueError(
                f"kinds is missing: the pool was fitted with the kinds "
                f"{join_names(self.kind_columns_)}, and judges has no such columns. Pass kinds, or "
                "a data frame of judges with these columns."
            )
        return list(self.kind_columns_)

    def _match_kinds(self, columns: list[list[Any]], kinds: Any) -> list[list[Any]]:
        """Return the columns of kinds in the order of `fit`."""
        wanted = self.kind_columns_
        own = kind_names(kinds, wanted)
        if own is not None and wanted is None and self.law_.kinds:
            raise ValueError(
                f"kinds names its columns ({join_names(own)}), but the kinds that the pool was "
                "fitted with have no names, so that they cannot be matched. Fit with a data frame "
                "or a dict; or, if the order is the same, pass kinds without names (to_numpy())."
            )
        order = match_names(own, wanted, "columns", "kinds", "the kinds of fit")
        if len(columns) != len(self.law_.kinds):
            raise ValueError(
                f"kinds has {plural(len(columns), 'column')}, but the pool was fitted with "
                f"{len(self.law_.kinds)}. Pass the same columns: named, or in the same order."
            )
        return columns if order is None else [columns[number] for number in order]

    def _start(
        self, answers: Answers, kinds: tuple[Names, ...], positions: FloatArray | None
    ) -> PoolLaw:
        """Return a law with coefficients of zero, which knows the features."""
        n_judges = len(answers.names)
        ratings = np.tile([0.0, 1.0], (n_judges, 1))
        if positions is not None:
            rating = answers.distributions @ positions
            for judge in range(n_judges):
                given = rating[answers.is_answered[:, judge], judge]
                if len(given):
                    ratings[judge] = given.mean(), given.std() or 1.0
        n_shared = 1 + n_judges * (1 if positions is None else 2)
        n_labels = len(answers.labels)
        has_tables = n_judges * n_labels * answers.n_classes <= LARGEST_TABLES
        n_own = 1 + sum(map(len, kinds)) + n_judges + has_tables * n_judges * n_labels
        return PoolLaw(
            answers.names,
            answers.labels,
            answers.n_classes,
            kinds,
            answers.gives_labels,
            positions,
            ratings,
            np.zeros(n_shared),
            np.zeros((n_own, answers.n_classes)),
            1.0,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def _to_store(self) -> dict[str, Any]:
        check_is_fitted(self, "law_")
        seed = self.random_state if isinstance(self.random_state, int) else None
        scale = self.scale if isinstance(self.scale, bool | None) else tuple(self.scale)
        params = {"scale": scale, "ridges": tuple(self.ridges), "random_state": seed}
        return {
            "params": params,
            "law": self.law_,
            "classes": self.classes_,
            "kind_columns": self.kind_columns_,
        }

    @classmethod
    def _from_store(
        cls,
        params: dict[str, Any],
        law: PoolLaw,
        classes: np.ndarray[Any, Any],
        kind_columns: tuple[Any, ...] | None,
    ) -> JudgePool:
        pool = cls(**params)
        if classes.shape != (law.n_classes,):
            raise ValueError("classes and law differ in the number of classes.")
        pool.law_ = law
        pool.judges_ = law.judges
        pool.ridge_ = law.ridge
        pool.classes_ = classes
        pool.kind_columns_ = kind_columns
        return pool


def _as_votes(y: Any, answers: Answers) -> Any:
    """Return votes; single labels become votes for the known classes."""
    from_labels = np.ndim(y) == 1 and not isinstance(y, Labels)
    if not from_labels:
        return y
    classes = answers.labels[: answers.n_classes]
    position = {name: number for number, name in enumerate(classes)}
    counts = np.zeros((len(y), len(classes)))
    for row, label in enumerate(as_names(y)):
        if label not in position:
            raise ValueError(f"y has the label {label!r}, which is none of {join_names(classes)}.")
        counts[row, position[label]] = 1.0
    return Labels(counts, counts, item_names(y, "y"), answers.classes)


def _take_kinds(judges: Any, kinds: Any) -> tuple[Any, Any]:
    """Take kinds that are named columns of the frame of judges out of it."""
    names = [kinds] if isinstance(kinds, str) else kinds
    there = getattr(judges, "columns", ())
    if isinstance(kinds, str) and kinds not in there:
        raise ValueError(
            f"kinds is the column {kinds!r} of judges, which has no such column. Pass a data frame "
            "with it, or the kinds themselves."
        )
    is_named = (
        isinstance(names, list | tuple)
        and len(there) > 0
        and len(names) > 0
        and all(isinstance(name, Hashable) and name in there for name in names)
        and len(set(names)) == len(names)
    )
    if not is_named:
        return judges, kinds
    return judges.drop(columns=list(names)), {name: judges[name] for name in names}


def kind_names(kinds: Any, known: Names | None = None) -> Names | None:
    """Return the names of the columns of kinds, or None.

    The keys of a dict are names, and so are the columns of a frame, unless they are the default
    0, 1, 2, … and those that are known have other names.
    """
    if isinstance(kinds, Mapping):
        return as_names(tuple(kinds))
    columns = getattr(kinds, "columns", None)
    if columns is None:
        return None
    names = as_names(columns)
    if is_default(names) and set(names) != set(known or ()):
        return None
    nameless = any(name is None or name != name for name in names)
    if nameless or len(set(names)) < len(names):
        raise ValueError(
            f"kinds must have columns with different names, but has {join_names(names, 8)}. Name "
            "each column once, or pass kinds without names (to_numpy())."
        )
    return names


def read_kinds(batch: Batch, kinds: Any) -> list[list[Any]]:
    """Return the columns of kinds, each with one key per item."""
    if kinds is None:
        return []
    if isinstance(kinds, Mapping):
        return [batch.column(column, f"kinds[{name!r}]") for name, column in kinds.items()]
    if hasattr(kinds, "columns") and hasattr(kinds, "iloc"):
        return [
            batch.column(kinds.iloc[:, i], f"kinds[{name!r}]")
            for i, name in enumerate(kinds.columns)
        ]
    if getattr(kinds, "ndim", 1) == 2:
        return [batch.column(column, "kinds") for column in np.asarray(kinds).T]
    return [batch.column(kinds, "kinds")]


def _levels(column: Iterable[Any]) -> Names:
    """Return the kinds of a column in order of first appearance, without missing ones."""
    return as_names([kind for kind in dict.fromkeys(column) if not is_missing(kind)])


def _codes(column: Sequence[Any]) -> AnyArray:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in column], dtype=np.int64)


def _target(labels: Labels) -> FloatArray:
    """Return weighted votes, or distributions; rows of zeros without either."""
    if labels.counts is not None:
        return vote_weights(labels.counts)
    return np.nan_to_num(labels.distributions)


def ordinal_positions(scale: Any, labels: Labels, classes: Names) -> FloatArray | None:
    """Return the positions of the classes on their ordinal scale, or None if they have none.

    Parameters
    ----------
    scale : sequence of numbers, bool or None
        Positions; True for the names of classes as numbers, or their order; None for the scale of
        the votes, or the names of three or more classes that are numbers.
    labels : Labels
        The votes.
    classes : tuple
        Names of the classes, or their numbers.
    """
    if scale is False:
        return None
    given: Any = scale
    if scale is None:
        are_numbers = all(isinstance(name, int | float) for name in classes)
        given = labels.scale
        if given is None and labels.classes is not None and are_numbers and len(classes) > 2:
            given = classes
    elif scale is True:
        given = _numbers_of(classes) if labels.scale is None else labels.scale
    if given is None:
        return None
    positions = np.asarray(tuple(given), dtype=np.float64)
    if positions.shape != (len(classes),) or not np.isfinite(positions).all():
        raise ValueError(
            f"scale must hold one number for each of the {len(classes)} classes, but is {scale!r}."
        )
    if positions.std() == 0:
        raise ValueError("scale has the same position for all classes.")
    return positions


def _numbers_of(classes: Names) -> Sequence[float]:
    """Return the numbers that the names of classes are, else 0, …, K − 1."""
    try:
        return [float(name) for name in classes]
    except (TypeError, ValueError):
        return range(len(classes))
