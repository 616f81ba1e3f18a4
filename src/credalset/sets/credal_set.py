"""The batch of credal sets that a user holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from credalset._batch import Batch, Names, find_rows, take_names
from credalset._display import plural
from credalset._html import MOST_ROWS, Bar, html_table
from credalset._predictions import Named
from credalset._typing import ArrayLike, BoolArray, FloatArray, Prediction, RandomState
from credalset._validation import as_generator, as_positive_int, freeze
from credalset.io.store import Saved
from credalset.sets.columns import DEFAULT_QUESTIONS, label_lists, to_frame
from credalset.sets.decisions import decide
from credalset.sets.geometry import Geometry, Part, answer
from credalset.sets.membership import contains, efficiency
from credalset.sets.queue import Queue, QueueRules, build_queue
from credalset.sets.results import EntropyBounds, Uncertainty, Volume
from credalset.simplex import log_base, sample_uniform

if TYPE_CHECKING:
    from credalset.scores.base import Score


MOST_CLASSES = 6  # columns of a table in a notebook


@final
@dataclass(frozen=True, eq=False, repr=False)
class CredalSet(Saved, Named):
    r"""A batch of N credal sets over K classes, one per prediction.

    $$C = \{ \lambda : f(\text{prediction}, \lambda) \le \text{threshold} \}$$

    Sets are returned by ``predict_set`` of a calibration, or by ``region(prediction, threshold)``
    of a score. The ``guarantee`` of the calibration states which distribution the sets contain, and
    with which probability:

    - sets of a `Calibration` contain the recorded distribution, that is the shares of the votes
      that would be recorded for the item, with probability at least 1 − α; with a noise model, the
      true distribution under the assumption of that model;
    - sets of a `CrowdCalibration` contain the shares of the votes that are not in hand with
      probability at least 1 − α; with ``method="imputed"``, the true distribution with probability
      approximately 1 − α if votes follow the crowd model;
    - sets of a score's ``region`` have no guarantee.

    The score defines membership, and the geometry computes all other results. Bounds, expectations,
    entropies and samples of empty sets are NaN; their volume is 0, and they have no labels.

    Attributes
    ----------
    score : Score
        The nonconformity score that defines membership.
    prediction : ndarray of shape (N, K), IntervalPrediction or ScaledPrediction
        What the model predicted: distributions, or Dirichlet concentrations for second-order
        scores.
    threshold : ndarray of shape (N,)
        Largest score of a member; ``+inf`` makes the set the whole simplex.
    geometry : Geometry
        The regions of the score: centres, radii and the computations on them.
    classes : tuple or None
        Names of the classes, if they are known.
    items : tuple or None
        Names of the items, if they are known.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], threshold=0.2)
    >>> sets
    CredalSet: 2 total-variation balls over 3 classes, threshold 0.2 (score tv)
    >>> sets.contains([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]])
    array([ True, False])
    >>> sets.width().round(2), sets.labels(), sets.is_empty(), len(sets.vertices(0))
    (array([0.55, 0.5 ]), [[0], [2]], array([False, False]), 6)
    """

    score: Score
    prediction: Prediction
    threshold: FloatArray
    geometry: Geometry
    classes: Names | None = None
    items: Names | None = None

    def __post_init__(self) -> None:
        if self.items is not None and not isinstance(self.items, tuple):
            object.__setattr__(self, "items", tuple(self.items))
        freeze(self, "prediction", "threshold")

    @property
    def center(self) -> FloatArray:
        """Centre of each region, (N, K): the prediction, or the mode of the predicted density."""
        return self.geometry.center

    @property
    def radius(self) -> FloatArray:
        """Radius of each region in the units of its geometry, (N,); negative for an empty set."""
        return self.geometry.radius

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.geometry.n_classes

    @property
    def _batch(self) -> Batch:
        """The items and classes, with which whatever belongs to the sets is matched."""
        return Batch(self, self.n_classes, self.items, self.classes, name="the sets")

    def __len__(self) -> int:
        return len(self.geometry)

    def __getitem__(self, rows: Any) -> CredalSet:
        """Select sets by index, slice, index array or mask; the result is a batch again."""
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"set {rows} is out of range: the batch holds {len(self)} sets.")
            rows = [rows]
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            rows = rows.astype(np.int64) if rows.size == 0 else rows
            if rows.ndim != 1 or rows.dtype.kind not in "biu":
                raise TypeError(
                    "sets are indexed by position (an int, a slice, a list or a mask), but got "
                    f"{rows.tolist()!r:.80}. Use select() for names."
                )
        return dataclasses.replace(
            self,
            prediction=self.prediction[rows],
            threshold=self.threshold[rows],
            geometry=self.geometry[rows],
            items=take_names(self.items, rows),
        )

    def select(self, items: Iterable[Any]) -> CredalSet:
        """Return the sets of some items, selected by name; ``sets[...]`` selects by position.

        Parameters
        ----------
        items : iterable of names
            Names of the items in the order wanted; an unknown name raises ``ValueError``.

        Returns
        -------
        CredalSet

        Examples
        --------
        >>> import pandas as pd, credalset as cs
        >>> votes = pd.DataFrame([[3, 1], [0, 4], [2, 2]], index=["a", "b", "c"])
        >>> calibration = cs.conformalize(votes / 4, votes)
        >>> calibration.predict_set(votes / 4, alpha=0.5).select(["c", "a"]).items
        ('c', 'a')
        """
        return self[find_rows(items, self.items)]

    def __iter__(self) -> Iterator[CredalSet]:
        return (self[i] for i in range(len(self)))

    def is_empty(self) -> BoolArray:
        """Return which sets have no member, (N,) booleans."""
        return np.asarray(self.radius < 0)

    def contains(self, distribution: Any, broadcast: bool = False) -> BoolArray:
        """Return which distributions belong to which sets.

        Parameters
        ----------
        distribution : array of shape (N, K), (M, K) or (N, M, K), or Annotations
            Distributions or annotation counts: (N, K) holds one candidate per set, matched by name
            where both have names; (M, K) with ``broadcast=True`` holds M candidates for all sets;
            (N, M, K) holds M candidates for each set.
        broadcast : bool
            Whether to compare every candidate with every set.

        Returns
        -------
        ndarray of shape (N,) or (N, M)
            Booleans, of shape (N,) if there is one candidate per set.

        Examples
        --------
        >>> from credalset.scores import KullbackLeibler
        >>> sets = KullbackLeibler().region([[0.5, 0.5], [0.9, 0.1]], threshold=0.2)
        >>> sets.contains([[0.6, 0.4], [1.0, 0.0], [0.5, 0.5]], broadcast=True)
        array([[ True, False,  True],
               [False,  True, False]])
        """
        return contains(self, distribution, broadcast)

    def efficiency(self, resolution: float = 0.005) -> FloatArray:
        """Return the fraction of the simplex grid in each set, the paper's set size, (N,).

        The number of grid points grows as C(1/resolution + K − 1, K − 1): use a coarser grid beyond
        three classes.

        Parameters
        ----------
        resolution : float
            Step of the grid; its reciprocal must be a whole number. The paper uses 0.005 (20 301
            points for three classes).

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> TotalVariation().region([[1.0, 0.0, 0.0]], threshold=0.5).efficiency().round(4)
        array([0.2537])
        """
        return efficiency(self, resolution)

    def lower(self) -> FloatArray:
        """Return the smallest probability that a member gives to each class, (N, K)."""
        return self.envelope()[0]

    def upper(self) -> FloatArray:
        """Return the largest probability that a member gives to each class, (N, K)."""
        return self.envelope()[1]

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return `lower` and `upper` together.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> lower, upper = TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.15).envelope()
        >>> lower.round(2), upper.round(2)
        (array([[0.55, 0.05, 0.  ]]), array([[0.85, 0.35, 0.25]]))
        """
        row = (self.n_classes,)
        lower, upper = answer(
            self.geometry, lambda geometry, _: geometry.envelope(), Part(row, 0.0), Part(row, 1.0)
        )
        return lower, upper

    def width(self) -> FloatArray:
        r"""Return $\tfrac12 \sum_k (\text{upper}_k - \text{lower}_k)$ for each set, (N,).

        It is 0 for a single point.
        """
        lower, upper = self.envelope()
        return np.asarray(0.5 * (upper - lower).sum(axis=1))

    def support(self, utility: ArrayLike) -> tuple[FloatArray, FloatArray]:
        r"""Return $\max_{\lambda \in C} \sum_k u_k \lambda_k$, (N,), and maximisers, (N, K).

        Parameters
        ----------
        utility : array of shape (K,) or (N, K)
            Utility u of each class, the same for all sets or one row per set.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> sets = TotalVariation().region([[0.7, 0.2, 0.1]], 0.1)
        >>> value, member = sets.support([0.0, 1.0, 10.0])
        >>> value.round(2), member.round(2)
        (array([2.2]), array([[0.6, 0.2, 0.2]]))
        """
        u = self._batch.matrix(utility, "utility")
        n = len(self)
        k = self.n_classes
        if u.shape not in {(k,), (n, k)}:
            raise ValueError(
                f"utility must have shape ({k},) or ({n}, {k}), but has shape {u.shape}."
            )
        if not np.isfinite(u).all():
            raise ValueError("utility contains NaN or infinity. Pass finite numbers.")
        return self._support(u)

    def _support(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the support of valid utilities (K,) or (N, K), in the order of the classes."""
        n = len(self)
        k = self.n_classes
        # In units of its size, a power of two: differences and squares stay within the range of
        # doubles.
        size = float(2.0 ** (np.frexp(np.abs(u).max(initial=0.0))[1] - 1.0))
        u = np.ascontiguousarray(np.broadcast_to(u / size, (n, k)))
        # Over the whole simplex the best member is a corner.
        u_whole = u[np.isposinf(self.radius)]
        corner = np.eye(k)[u_whole.argmax(axis=1)]
        value, member = answer(
            self.geometry,
            lambda geometry, rows: geometry.support(u[rows]),
            Part((), (corner * u_whole).sum(axis=1)),
            Part((k,), corner),
        )
        return size * value, member

    def upper_expectation(self, utility: ArrayLike) -> FloatArray:
        """Return the largest expected utility over each set, (N,).

        Parameters
        ----------
        utility : array of shape (K,) or (N, K)
            Utility of each class, as in `support`.
        """
        return self.support(utility)[0]

    def lower_expectation(self, utility: ArrayLike) -> FloatArray:
        """Return the smallest expected utility over each set, (N,).

        Parameters
        ----------
        utility : array of shape (K,) or (N, K)
            Utility of each class, as in `support`.
        """
        return 0.0 - self.support(-self._batch.matrix(utility, "utility"))[0]

    def entropy_bounds(self, base: float | str | None = None) -> EntropyBounds:
        """Return the smallest and the largest Shannon entropy of the members of each set.

        Bounds that are not exact are certified: no member lies beyond them, and ``lower_gap`` and
        ``upper_gap`` are the distances to the best members found. Both bounds are exact for ``tv``,
        ``kl``, ``inner``, ``so``, ``density`` and ``hellinger``; ``brier``, ``ws`` and
        ``intervals`` (beyond four classes) have brackets of the smallest entropy; a score that
        defines only a formula has brackets of both.

        Parameters
        ----------
        base : None, "K" or float
            None for nats, ``"K"`` to normalise to [0, 1], or the base of the logarithm.

        Returns
        -------
        EntropyBounds
            It unpacks as ``lower, upper``, arrays of shape (N,).

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> sets = TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.1)
        >>> lower, upper = sets.entropy_bounds(base="K")
        >>> lower.round(3), upper.round(3)
        (array([0.455]), array([0.865]))
        """
        unit = log_base(base, self.n_classes)
        most = log_base("K", self.n_classes)
        of_whole = (0.0, 0.0, most, 0.0)
        bounds = answer(
            self.geometry,
            lambda geometry, _: geometry.entropies(),
            *(Part((), value) for value in of_whole),
        )
        lower, lower_gap, upper, upper_gap = (bound / unit for bound in bounds)
        exact = not ((lower_gap > 0).any() or (upper_gap > 0).any())
        method = "exact" if exact else "bracket"
        return EntropyBounds(lower, upper, lower_gap, upper_gap, method, self.items)

    def uncertainty(self, base: float | str | None = "K") -> Uncertainty:
        """Split the uncertainty of each set into an aleatoric and an epistemic part.

        The total uncertainty is the largest entropy of a member, the aleatoric part is the
        smallest, and the epistemic part is their difference. Where `entropy_bounds` are not exact,
        the result has gaps.

        Parameters
        ----------
        base : None, "K" or float
            Base of the entropies, as in `entropy_bounds`.

        Returns
        -------
        Uncertainty
        """
        bounds = self.entropy_bounds(base)
        lower, upper = bounds
        return Uncertainty(
            upper,
            lower,
            upper - lower,
            bounds.upper_gap,
            bounds.lower_gap,
            bounds.method,
            self.items,
        )

    def log_volume(self, random_state: RandomState = 0, n_rays: int = 1024) -> Volume:
        """Return the logarithm of `volume` with its standard error.

        It is finite where the volume itself underflows.

        Parameters
        ----------
        random_state : int, Generator or None
            Seed of the estimate.
        n_rays : int
            Number of random rays per set, if the volume is estimated.

        Returns
        -------
        Volume
        """
        generator = as_generator(random_state)
        rays = as_positive_int(n_rays, "n_rays")
        method = ["exact"]

        def regular(geometry: Geometry, _: Any) -> tuple[FloatArray, FloatArray]:
            value, error, method[0] = geometry.log_volume(generator, rays)
            return value, error

        value, error = answer(
            self.geometry, regular, Part((), 0.0, empty=-np.inf), Part((), 0.0, empty=0.0)
        )
        return Volume(value, error, method[0], self.items)

    def volume(
        self, return_error: bool = False, random_state: RandomState = 0, n_rays: int = 1024
    ) -> Any:
        """Return the volume of each set as a fraction of the volume of the simplex.

        The volume is exact for two classes, for ``inner``, ``so`` and ``density``, for ``tv`` up to
        twelve classes and for ``kl``, ``ws`` and ``brier`` with three; for ``intervals`` unless
        rounding prevents it. Otherwise it is estimated by Monte Carlo integration along random rays
        from the centre of each set.

        Parameters
        ----------
        return_error : bool
            Whether to return a `Volume` with standard errors.
        random_state : int, Generator or None
            Seed of the estimate.
        n_rays : int
            Number of random rays per set, if the volume is estimated.

        Returns
        -------
        ndarray of shape (N,) or Volume
            A `Volume` unpacks as ``value, standard_error``; its ``method`` is ``"exact"`` or
            ``"estimate"``.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> value, error = TotalVariation().region([[0.4, 0.3, 0.3]], 0.1).volume(return_error=True)
        >>> value.round(4), error
        (array([0.06]), array([0.]))
        """
        log = self.log_volume(random_state, n_rays)
        value = np.exp(log.value)
        return (
            Volume(value, value * log.standard_error, log.method, self.items)
            if return_error
            else value
        )

    def vertices(self, i: int) -> FloatArray:
        """Return the vertices (V, K) of a set of ``tv``, ``ws``, ``inner`` or ``intervals``.

        Parameters
        ----------
        i : int
            Position of the set.
        """
        one = self[int(i)]
        if one.is_empty()[0]:
            return np.empty((0, self.n_classes))
        return np.eye(self.n_classes) if np.isposinf(one.radius[0]) else one.geometry.vertices(0)

    def sample(self, n: int, random_state: RandomState = None) -> FloatArray:
        """Draw n members of each set uniformly, (N, n, K).

        Parameters
        ----------
        n : int
            Number of draws for each set.
        random_state : int, Generator or None
            Seed.
        """
        count = as_positive_int(n, "n")
        generator = as_generator(random_state)

        def whole(rows: int) -> FloatArray:
            return sample_uniform(rows * count, self.n_classes, generator).reshape(rows, count, -1)

        (draws,) = answer(
            self.geometry,
            lambda geometry, _: [geometry.sample(count, generator)],
            Part((count, self.n_classes), whole),
        )
        return draws

    def decide(self, rule: str = "e-admissible", utility: ArrayLike | None = None) -> BoolArray:
        """Return which actions the rule keeps, (N, A) booleans; none under an empty set.

        Parameters
        ----------
        rule : {"e-admissible", "maximal", "interval-dominance", "gamma-maximin", "gamma-maximax"}
            Decision rule; `credalset.sets.decisions` defines all of them.
        utility : array of shape (A, K), optional
            Utility of each action in each class. By default there is one action per class with
            utility 1 for the correct class. The e-admissible labels are then the labels that are
            most probable under some member.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> sets = TotalVariation().region([[0.5, 0.4, 0.1], [0.8, 0.1, 0.1]], threshold=0.1)
        >>> sets.decide("maximal")
        array([[ True,  True, False],
               [ True, False, False]])
        """
        return decide(self, rule, utility)

    def labels(self, rule: str = "e-admissible") -> list[list[Any]]:
        """Return the names of the labels that `decide` keeps under each set.

        Parameters
        ----------
        rule : str
            Decision rule, as in `decide`.

        Returns
        -------
        list of N lists
        """
        return label_lists(self.decide(rule), self.class_names)

    @property
    def class_names(self) -> Sequence[Any]:
        """Names of the classes, or their numbers 0, 1, …, K − 1 if they have no names."""
        return range(self.n_classes) if self.classes is None else self.classes

    def queue(
        self,
        rules: QueueRules | None = None,
        *,
        votes: Any = None,
        asked: Any = None,
        utility: ArrayLike | None = None,
        actions: Iterable[Any] | None = None,
        items: Iterable[Hashable] | None = None,
    ) -> Queue:
        """Give each item one next step: accept, ask, divided or expert.

        The rules look at the sets, and at votes if there are any. They have no guarantee; use
        `credalset.review` for accepted labels whose error is certified.

        Parameters
        ----------
        rules : QueueRules, optional
            Limits of wide sets, which call for votes, and of mixed ones, which people will not
            agree on.
        votes : array of shape (N, K), data frame or Annotations, optional
            Votes on the items. Votes with a clear winner decide, and the reasons mention them.
        asked : sequence of N bool, optional
            Which items a policy asks again, such as ``policy.ask(predictions, votes)``; it replaces
            the rule about wide sets.
        utility : array of shape (A, K), optional
            Utility of each action in each class, as in `decide`.
        actions : iterable of A names, optional
            Names of the rows of ``utility``.
        items : iterable of N names, optional
            Names of the items; by default those of the sets, or 0, 1, 2, ….

        Returns
        -------
        Queue

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> predictions = [[0.9, 0.05, 0.05], [0.4, 0.4, 0.2], [0.7, 0.3, 0.0]]
        >>> sets = TotalVariation().region(predictions, threshold=0.25)
        >>> sets.queue(items=["a", "b", "c"])
        Queue: 3 items, 1 accept, 1 ask, 1 divided, 0 expert (not certified)
        >>> print(sets.queue(votes=[[1, 0, 0], [0, 9, 0], [1, 1, 0]]).why[1])
        All 9 people say 1; the model says 0: likely an error of the model.
        """
        return build_queue(
            self, rules, votes=votes, asked=asked, utility=utility, actions=actions, items=items
        )

    def to_frame(
        self,
        items: Iterable[Any] | None = None,
        ask: Iterable[str] = DEFAULT_QUESTIONS,
        *,
        alpha: float | None = None,
        kind: Literal["pandas", "polars", "pyarrow"] = "pandas",
    ) -> Any:
        """Return a data frame with one row per set: names, thresholds and the columns in ``ask``.

        Parameters
        ----------
        items : iterable of N names, optional
            Names of the items, such as ``votes.items``; by default those of the sets, or 0, 1, 2,
            ….
        ask : iterable of str
            ``"prediction"``, ``"lower"``, ``"upper"`` (a column per class each), ``"entropy"``
            (both bounds, normalised to [0, 1]), ``"labels"`` (the e-admissible labels, and their
            number), ``"width"``, ``"volume"`` (with its standard error), ``"aleatoric"``,
            ``"epistemic"``, ``"total"`` and ``"step"`` (see `queue`).
        alpha : float, optional
            The miscoverage rate at which the sets were predicted, added as a column.
        kind : {"pandas", "polars", "pyarrow"}
            Type of the data frame.

        Returns
        -------
        data frame

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> sets = TotalVariation().region([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]], threshold=0.15)
        >>> print(sets.to_frame(items=["a", "b"], ask=["labels", "width"]).to_string(index=False))
        item  threshold  empty    labels  n_labels  width
           a       0.15  False       [0]         1  0.425
           b       0.15  False [0, 1, 2]         3  0.450
        """
        return to_frame(self, items, ask, kind, alpha)

    def _to_store(self) -> dict[str, Any]:
        """Everything else follows from these."""
        names = ("score", "prediction", "threshold", "classes", "items")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def _from_store(
        cls,
        score: Any,
        prediction: Any,
        threshold: FloatArray,
        classes: tuple[Any, ...] | None,
        items: tuple[Any, ...] | None,
    ) -> CredalSet:
        sets: CredalSet = score.region(prediction, threshold)
        for name, names, size in (
            ("classes", classes, sets.n_classes),
            ("items", items, len(sets)),
        ):
            if names is not None and len(names) != size:
                raise ValueError(f"{name} must hold {size} names, but holds {len(names)}.")
        return dataclasses.replace(sets, classes=classes, items=items)

    def _repr_html_(self) -> str:
        """Return a table of the first sets: the ranges of all classes, or of the likeliest ones."""
        shown = self[:MOST_ROWS]
        lower, upper = shown.envelope()
        center = shown.center
        empty = shown.is_empty()
        columns = np.arange(self.n_classes)
        if len(columns) > MOST_CLASSES:
            columns = np.sort(np.argsort(-center.mean(axis=0), kind="stable")[:MOST_CLASSES])
        items = range(len(shown)) if shown.items is None else shown.items
        names = self.class_names
        rows: list[list[str | Bar]] = []
        for i, item in enumerate(items):
            ranges = [
                "empty" if empty[i] else Bar(lower[i, k], upper[i, k], center[i, k])
                for k in columns.tolist()
            ]
            rows.append([str(item), *ranges])
        headings = ["item", *(str(names[k]) for k in columns.tolist())]
        caption = repr(self)
        if len(columns) < self.n_classes:
            caption += f"; {len(columns)} of {self.n_classes} classes shown"
        return html_table(caption, headings, rows, n_rows=len(self), left=len(headings))

    def __repr__(self) -> str:
        text = f"CredalSet: {plural(len(self), self.geometry.shape)} over {self.n_classes} classes"
        if len(self) == 0:
            return f"{text} (score {self.score.title})"
        low = float(self.threshold.min())
        high = float(self.threshold.max())
        span = f"threshold {low:.4g}" if low == high else f"thresholds {low:.4g} to {high:.4g}"
        n_empty = int(self.is_empty().sum())
        if n_empty:
            span += f", {n_empty} empty"
        return f"{text}, {span} (score {self.score.title})"
