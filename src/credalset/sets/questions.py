"""The questions that every batch of sets answers, whatever its shape."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import ArrayLike, BoolArray, FloatArray, RandomState
from credalset._validation import as_generator, as_numbers, as_positive_int, in_unit_range
from credalset.sets.old_sampling import sample_members
from credalset.sets.region import Region
from credalset.sets.results import EntropyBounds, Volume
from credalset.simplex import corners, log_base, log_sum_exp, sample_uniform

ELEMENTS = 1 << 22  # numbers that the rays of one set take by default, and twice what they take at a time
MIN_RAYS = 256


class Questions(Hinting, Region):
    """What can be asked of a batch of sets: checks of the arguments, empty sets and whole simplices, results."""

    def lower(self) -> FloatArray:
        """Return the smallest probability that any member gives to each class, (N, K); NaN where a set is empty.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.15).lower().round(2)
        array([[0.55, 0.05, 0.  ]])
        """
        return self.envelope()[0]

    def upper(self) -> FloatArray:
        """Return the largest probability that any member gives to each class, (N, K); NaN where a set is empty."""
        return self.envelope()[1]

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return `lower` and `upper` together, in half the time of asking for one after the other.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> lower, upper = TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.15).envelope()
        >>> (upper - lower).round(2)
        array([[0.3 , 0.3 , 0.25]])
        """
        k = self.n_classes
        lower, upper = self._measure([(k,), (k,)], lambda sets, _: sets._envelope(), lambda _: (0.0, 1.0))
        return lower, upper

    def width(self) -> FloatArray:
        """Return ½ Σ (upper − lower) over the classes of each set, (N,): 0 for a point; NaN where a set is empty.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.15).width().round(3)
        array([0.425])
        """
        lower, upper = self.envelope()
        return np.asarray(0.5 * (upper - lower).sum(axis=1))

    @overload
    def upper_expectation(self, utility: ArrayLike, return_distribution: Literal[False] = False) -> FloatArray: ...
    @overload
    def upper_expectation(
        self, utility: ArrayLike, return_distribution: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...
    def upper_expectation(
        self, utility: ArrayLike, return_distribution: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the largest expected utility over the members of each set.

        Parameters
        ----------
        utility : array of shape (K,) or (N, K)
            Utility of each class, shared or per set.
        return_distribution : bool
            Whether to return, too, a member that attains it.

        Returns
        -------
        ndarray of shape (N,), or (values, distributions (N, K))
            NaN where a set is empty.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> TotalVariation().region([[0.7, 0.2, 0.1]], 0.1).upper_expectation([0.0, 1.0, 10.0]).round(2)
        array([2.2])
        """
        u, exponent = in_unit_range(self._check_utility(utility))

        def whole(rows: BoolArray) -> tuple[FloatArray, FloatArray]:
            best = u[rows].argmax(axis=1)
            return u[rows].max(axis=1), corners(best, self.n_classes)

        tails: list[tuple[int, ...]] = [(), (self.n_classes,)] if return_distribution else [()]
        results = self._measure(tails, lambda sets, rows: sets._support(u[rows], return_distribution), whole)
        results[0] = np.ldexp(results[0], exponent[:, 0])
        return (results[0], results[1]) if return_distribution else results[0]

    @overload
    def lower_expectation(self, utility: ArrayLike, return_distribution: Literal[False] = False) -> FloatArray: ...
    @overload
    def lower_expectation(
        self, utility: ArrayLike, return_distribution: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...
    def lower_expectation(
        self, utility: ArrayLike, return_distribution: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the smallest expected utility over the members of each set; as `upper_expectation`."""
        negative = -as_numbers(utility, "utility")
        if return_distribution:
            value, point = self.upper_expectation(negative, return_distribution=True)
            return 0.0 - value, point
        return 0.0 - self.upper_expectation(negative)

    def entropy_bounds(self, base: float | str | None = None, return_distributions: bool = False) -> EntropyBounds:
        """Return the smallest and the largest Shannon entropy of the members of each set.

        Parameters
        ----------
        base : None, "K" or float
            None for nats, ``"K"`` to normalise to [0, 1], or the base of the logarithm.
        return_distributions : bool
            Whether to fill ``lower_distribution`` and ``upper_distribution`` with members that attain the bounds.

        Returns
        -------
        EntropyBounds
            Unpacks as ``lower, upper``, each (N,), NaN where a set is empty. Where a bound is not known exactly
            (Wasserstein balls with many classes, regions without a closed form, sets that a larger one answers for), it
            is certified from outside, and ``lower_gap`` and ``upper_gap`` say how far the best member found is from it.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> lower, upper = TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.1).entropy_bounds(base="K")
        >>> lower.round(3), upper.round(3)
        (array([0.455]), array([0.865]))
        """
        unit = log_base(base, self.n_classes)
        low, high = self._least_entropy(return_distributions), self._most_entropy(return_distributions)
        gaps = np.maximum(low[1] - low[0], 0.0) / unit, np.maximum(high[0] - high[1], 0.0) / unit
        is_exact = not any((gap > 0).any() for gap in gaps)
        method = "outer" if self.hull is not None else "exact" if is_exact else "bracket"
        points = (low[2], high[2]) if return_distributions else (None, None)
        return EntropyBounds(low[0] / unit, high[0] / unit, *gaps, method, *points)

    def _least_entropy(self, attaining: bool) -> list[FloatArray]:
        """Smallest entropy in nats, (N,): a bound, what the best member known has, and that member if asked for."""
        k = self.n_classes
        tails: list[tuple[int, ...]] = [(), (), (k,)] if attaining else [(), ()]
        corner = corners(np.array([0]), k)
        return self._measure(tails, lambda sets, _: sets._min_entropy(attaining), lambda _: (0.0, 0.0, corner))

    def _most_entropy(self, attaining: bool) -> list[FloatArray]:
        """Largest entropy in nats; as `_least_entropy`."""
        k = self.n_classes
        tails: list[tuple[int, ...]] = [(), (), (k,)] if attaining else [(), ()]
        largest = log_base("K", k)  # by the logarithm that units are made with, so that it is 1 of those, not nearly
        whole = largest, largest, np.full(k, 1 / k)
        return self._measure(tails, lambda sets, _: sets._bounded_max_entropy(attaining), lambda _: whole)

    def answers(self) -> dict[str, str]:
        """Tell how the answer to each question is to be read.

        Returns
        -------
        dict
            By question (``envelope`` stands for `lower` and `upper`, ``expectation`` for both expectations):
            ``"exact"``, the value itself, to rounding; ``"bracket"``, a certified bound that comes with its gap;
            ``"outer"``, the answer of a larger set that has a convex shape: no member goes beyond it, and none need
            reach it; ``"estimate"``, an unbiased number with a standard error.

        Examples
        --------
        >>> from credalset.scores import KullbackLeibler
        >>> answers = KullbackLeibler().region([[0.6, 0.2, 0.1, 0.1]], threshold=0.1).answers()
        >>> answers["entropy_bounds"], answers["volume"]
        ('exact', 'estimate')
        """
        own = "exact" if self.hull is None else "outer"
        entropies = own if self.hull is not None or self._has_exact_entropies() else "bracket"
        return {
            "contains": "exact",
            "envelope": own,
            "expectation": own,
            "entropy_bounds": entropies,
            "uncertainty": entropies,
            "smallest_peak": own,
            "volume": "exact" if self.n_classes <= self.exact_volume_up_to else "estimate",
            "decide": own,
        }

    def log_volume(
        self, return_error: bool = False, random_state: RandomState = 0, n_rays: int | None = None
    ) -> FloatArray | Volume:
        """Return the logarithm of `volume`, which stays finite where the volume itself underflows."""
        generator = as_generator(random_state)
        if n_rays is None:
            rays = max(MIN_RAYS, min(max(1024, 64 * self.n_classes), ELEMENTS // self.n_classes))
        else:
            rays = as_positive_int(n_rays, "n_rays")
        methods = ["exact"]

        def regular(sets: Self, _: Any) -> tuple[FloatArray, FloatArray]:
            known = sets._log_volume(generator)
            if known is not None:
                methods[0] = known[2]
                return known[0], known[1]
            methods[0] = "estimate"
            return sets._pooled_log_volume(generator, rays)

        value, error = self._measure([(), ()], regular, lambda _: (0.0, 0.0))
        empty = self.is_empty()
        value[empty], error[empty] = -np.inf, 0.0
        return Volume(value, error, methods[0]) if return_error else value

    def _pooled_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        """Estimate with as many rays at a time as memory has room for, and average: each estimate is unbiased."""
        at_once = max(2, ELEMENTS // (2 * self.n_classes))
        numbers = [at_once] * (n_rays // at_once) + [n_rays % at_once] * (n_rays % at_once > 1 or n_rays == 1)
        estimates = [self._estimate_log_volume(generator, number) for number in numbers]
        if len(estimates) == 1:
            return estimates[0]
        logs, errors = (np.stack(column) for column in zip(*estimates, strict=True))
        parts = logs + np.log(np.array(numbers) / sum(numbers))[:, None]
        total = log_sum_exp(parts.T)
        weights = np.exp(parts - np.where(np.isfinite(total), total, 0.0))
        return total, np.sqrt(((weights * errors) ** 2).sum(axis=0))

    def volume(
        self, return_error: bool = False, random_state: RandomState = 0, n_rays: int | None = None
    ) -> FloatArray | Volume:
        """Return the volume of each set as a fraction of the simplex.

        Exact for half-spaces and for the reverse-KL balls of second-order scores with any number of classes, for
        total-variation balls up to 15, Wasserstein balls up to 4 and Kullback–Leibler balls up to 3; elsewhere an
        unbiased estimate from rays shot out of the centre (`credalset.sets.rays`).

        Parameters
        ----------
        return_error : bool
            Whether to return a `Volume`, which unpacks as ``value, standard_error`` and whose ``method`` says
            ``"exact"`` or ``"estimate"``.
        random_state : int, Generator or None
            Source of randomness of the estimate; the same answer every time by default.
        n_rays : int, optional
            Rays per set for the estimate; the error falls with its square root. By default 1024, or 64 per class up to
            four million numbers in all (500 classes); beyond, fewer, and the error says what that costs.

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> value, error = TotalVariation().region([[0.4, 0.3, 0.3]], 0.1).volume(return_error=True)
        >>> value.round(4), error
        (array([0.06]), array([0.]))
        """
        log = self.log_volume(True, random_state, n_rays)
        assert isinstance(log, Volume)
        value = np.exp(log.value)
        return Volume(value, value * log.standard_error, log.method) if return_error else value

    def vertices(self, i: int) -> FloatArray:
        """Return the corners of set ``i``, (V, K), for regions that are polytopes (TV, Wasserstein, inner product).

        Examples
        --------
        >>> from credalset.scores import InnerProduct
        >>> InnerProduct().region([[0.75, 0.25]], threshold=0.5).vertices(0)
        array([[1. , 0. ],
               [0.5, 0.5]])
        """
        one = self[int(i)]
        if one.is_empty()[0]:
            return np.empty((0, self.n_classes))
        return np.eye(self.n_classes) if np.isposinf(one.radius[0]) else one._vertices()

    def sample(self, n: int, random_state: RandomState = None) -> FloatArray:
        """Draw n members of each set, uniformly, (N, n, K); NaN where a set is empty.

        Independent and exactly uniform for half-spaces, for two and three classes, and for sets that fill a few per
        cent of the simplex. Elsewhere rays from the centre are resampled by weight, which is as good as independent
        wherever the volume estimate is precise; a set they fit badly goes on by hit-and-run
        (`credalset.sets.old_sampling`). Every draw is a member for certain.

        Examples
        --------
        >>> from credalset.scores import KullbackLeibler
        >>> sets = KullbackLeibler().region([[0.6, 0.3, 0.1]], threshold=0.1)
        >>> sets.contains(sets.sample(100, random_state=0)).all()
        np.True_
        """
        count, generator = as_positive_int(n, "n"), as_generator(random_state)
        return self._measure(
            [(count, self.n_classes)],
            lambda sets, _: (sample_members(sets, count, generator),),
            lambda rows: (
                sample_uniform(int(rows.sum()) * count, self.n_classes, generator).reshape(-1, count, self.n_classes),
            ),
        )[0]

    def _check_utility(self, utility: ArrayLike) -> FloatArray:
        array = as_numbers(utility, "utility")
        if array.shape not in {(self.n_classes,), (len(self), self.n_classes)}:
            raise ValueError(
                f"utility must have shape ({self.n_classes},) or ({len(self)}, {self.n_classes}), "
                f"but has shape {array.shape}."
            )
        if not np.isfinite(array).all():
            raise ValueError("utility contains NaN or infinity.")
        return np.ascontiguousarray(np.broadcast_to(array, (len(self), self.n_classes)))
