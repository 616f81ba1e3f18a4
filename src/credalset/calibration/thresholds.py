"""Thresholds of a calibration: a noise model fitted to all items, or separately to each group."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from credalset._batch import Names
from credalset._display import join_names
from credalset._typing import FloatArray, IntArray, Prediction
from credalset._validation import as_names
from credalset.calibration.conditional import Conditional, features_of
from credalset.calibration.few_votes import FewVotes
from credalset.calibration.levels import as_weights
from credalset.calibration.noise import (
    PLAIN,
    BoundedNoise,
    Columns,
    Fit,
    Guarantee,
    Noise,
    NoNoise,
    Quantile,
    check_supported,
)
from credalset.calibration.sampling import AnnotatorSampling
from credalset.calibration.unbiased import UnbiasedVotes
from credalset.exceptions import warn
from credalset.scores import Score

#: every noise model, by name; `credalset.io.store` saves these, and the `Fit` classes of their
#: files
NOISES: dict[str, type[Noise]] = {
    model.name: model
    for model in (NoNoise, BoundedNoise, AnnotatorSampling, UnbiasedVotes, FewVotes)
}
#: the value of ``groups`` for the most probable class of the (mean) predicted distribution
PREDICTED = "predicted"


def named_noises() -> list[str]:
    """Return the models that can be given by name, in Python and on the command line.

    All parameters have defaults.
    """
    models = {name: fields(model) for name, model in NOISES.items() if model is not NoNoise}  # type: ignore[arg-type]
    return [
        name
        for name, found in models.items()
        if not any(field.default is MISSING for field in found)
    ]


def as_noise(noise: Any) -> Noise:
    """Check a noise model, given as an object, by name if it needs no parameters, or None.

    Examples
    --------
    >>> as_noise("unbiased-votes")
    UnbiasedVotes(s=None, tuning=0.2)
    """
    if noise is None:
        return NoNoise()
    if isinstance(noise, str) and noise in named_noises():
        return NOISES[noise]()
    if not isinstance(noise, Noise):
        models = ", ".join(
            f"{model.__name__}(...)" for model in NOISES.values() if model is not NoNoise
        )
        raise TypeError(f"noise must be one of {models} or None, but is {noise!r}.")
    return noise


class Options(NamedTuple):
    """Validated options of calibration items.

    Attributes
    ----------
    noise : Noise
        The noise model.
    keys : list or None
        Group of each item.
    predicted : bool
        Whether groups are the predicted classes, which need no keys.
    columns : Columns
        Weights and features.
    names : tuple or None
        Names of the features.
    """

    noise: Noise = NoNoise()
    keys: list[Any] | None = None
    predicted: bool = False
    columns: Columns = PLAIN
    names: tuple[Any, ...] | None = None

    @classmethod
    def read(
        cls,
        n: int,
        noise: Any = None,
        groups: Any = None,
        weights: Any = None,
        *,
        cross: bool = False,
    ) -> Options:
        """Check the options of n items, refusing those without a proof."""
        model = as_noise(noise)
        predicted = isinstance(groups, str) and groups == PREDICTED
        features = groups if isinstance(groups, Conditional) else None
        has_groups = groups is not None and features is None
        check_supported(
            model, groups=has_groups, weights=weights is not None, features=features, cross=cross
        )
        if cross and (features is not None or predicted):
            raise ValueError(
                "groups must be one key per item for cross-conformal sets, but are features or "
                "the predicted class, which differs between the models of the folds. Pass keys "
                "that do not depend on a model."
            )
        if features is not None and len(features) != n:
            raise ValueError(
                f"groups must hold one row of features per item ({n}), but holds {len(features)}."
            )
        keys = item_keys(groups, n) if has_groups and not predicted else None
        ratios = None if weights is None else as_weights(weights, n)
        if features is None:
            return cls(model, keys, predicted, Columns(ratios))
        return cls(
            model,
            columns=Columns(ratios, features.features),
            names=features.names or tuple(range(features.shape[1])),
        )


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A noise model fitted to calibration items, by group, for all kinds of calibrations.

    Attributes
    ----------
    noise : Noise
        The noise model.
    fits : tuple of Fit
        The fitted models, one per group, or a single one.
    codes : ndarray of shape (n,)
        Position in ``fits`` of each calibration item.
    groups : tuple or None
        Keys of the groups, in the order of ``fits``.
    predicted : bool
        Whether groups are the predicted classes.
    features : tuple or None
        Names of the features that thresholds depend on (0, 1, … if they have none), with
        `Conditional`.
    weighted : bool
        Whether items have likelihood ratios.
    """

    noise: Noise
    fits: tuple[Fit, ...]
    codes: IntArray
    groups: tuple[Any, ...] | None = None
    predicted: bool = False
    features: tuple[Any, ...] | None = None
    weighted: bool = False

    def __post_init__(self) -> None:
        n_fits = 1 if self.groups is None else len(self.groups)
        is_numbered = self.codes.ndim == 1 and np.array_equal(
            np.unique(self.codes), np.arange(n_fits)
        )
        if (
            len(self.fits) != n_fits
            or not is_numbered
            or len(set(self.groups or ())) != len(self.groups or ())
        ):
            raise ValueError(
                "fits, codes and groups must agree: one fit per group, and at least one item of "
                "each."
            )
        is_even = all(fit.has_features == (self.features is not None) for fit in self.fits)
        if not is_even or (self.groups is not None and self.features is not None):
            raise ValueError("features must be those of the fits, without groups.")

    @classmethod
    def build(
        cls,
        options: Options,
        score: Score,
        prediction: Prediction,
        fit: Callable[[Any, Columns], Fit],
    ) -> Thresholds:
        """Split the items into groups and fit each: ``fit(rows, columns)``."""
        keys = predicted_classes(score, prediction) if options.predicted else options.keys
        codes = np.zeros(len(prediction), dtype=np.int64)
        groups = None
        if keys is not None:
            groups = tuple(dict.fromkeys(keys))
            place = {key: code for code, key in enumerate(groups)}
            codes = np.array([place[key] for key in keys], dtype=np.int64)
        fits = []
        for code in range(1 if groups is None else len(groups)):
            rows = codes == code
            fits.append(fit(rows, options.columns.take(rows)))
        weighted = options.columns.weights is not None
        return cls(
            options.noise, tuple(fits), codes, groups, options.predicted, options.names, weighted
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of sets with these thresholds."""
        known = self.noise.guarantee
        if self.groups is not None:
            known = replace(known, within="each group")
        if self.features is not None:
            within = "each group of the features, and after every shift by a combination of them"
            known = replace(known, within=within)
        if self.weighted:
            known = replace(
                known, items=f"{known.items} except for a known shift of their features"
            )
        return known

    @property
    def is_uniform(self) -> bool:
        """Whether every item has the same threshold."""
        return (
            self.groups is None
            and self.features is None
            and not self.weighted
            and not self.noise.varies
        )

    def size(self, code: int = 0) -> int:
        """Return the number of calibration items of a fit."""
        return int((self.codes == code).sum())

    @property
    def has_p_values(self) -> bool:
        """Whether items have p-values: thresholds are quantiles of the scores themselves."""
        return isinstance(self.noise, NoNoise) and self.features is None

    def thresholds(
        self, alpha: Fraction, prediction: Prediction, codes: IntArray, columns: Columns = PLAIN
    ) -> FloatArray:
        """Return one threshold per new item, (N,), +inf for groups without calibration items.

        Parameters
        ----------
        alpha : Fraction
            Miscoverage rate.
        prediction : valid predictions of N items
            The noise model may depend on them.
        codes, columns
            As `read_new` returns them.
        """
        if self.groups is None:
            return self.fits[0].threshold(alpha, prediction, columns)
        result = np.full(len(prediction), np.inf)
        for code in np.unique(codes[codes >= 0]):
            rows = codes == code
            result[rows] = self.fits[code].threshold(alpha, prediction[rows], columns.take(rows))
        return result

    def p_values(self, values: FloatArray, codes: IntArray, columns: Columns = PLAIN) -> FloatArray:
        """Return the conformal p-values of scores (N, M); one for groups without items."""
        result = np.ones(values.shape)
        for code in np.unique(codes[codes >= 0]):
            rows = codes == code
            fit = self.fits[code]
            assert isinstance(fit, Quantile)
            new = columns.take(rows).weights
            result[rows] = np.stack(
                [fit.p_values(column, new) for column in values[rows].T], axis=1
            )
        return result

    def read_new(
        self, score: Score, prediction: Prediction, groups: Any, weights: Any
    ) -> tuple[IntArray, Names | None, Columns]:
        """Check groups and weights of new items, in the order of their predictions.

        Returns the number of the group of each item, −1 for unknown groups; the keys of the groups,
        None if there are none; and weights and features.
        """
        n = len(prediction)
        if weights is None and self.weighted:
            raise ValueError(
                "weights is missing, but the calibration is weighted. Pass likelihood ratios of "
                "the new items."
            )
        if weights is not None and not self.weighted:
            raise ValueError(
                "weights is given, but the calibration has none. Pass weights to conformalize too."
            )
        ratios = None if weights is None else as_weights(weights, n)
        codes = np.zeros(n, dtype=np.int64)
        if self.features is not None:
            return codes, None, Columns(ratios, features_of(groups, n, self.features))
        keys = self._keys_of(score, prediction, groups)
        if keys is not None:
            position = {key: code for code, key in enumerate(self.groups or ())}
            codes = np.array([position.get(key, -1) for key in keys], dtype=np.int64)
            self._warn_unseen(keys)
        return codes, keys, Columns(ratios)

    def _keys_of(self, score: Score, prediction: Prediction, groups: Any) -> Names | None:
        """Return the group of each new item, None if the calibration has no groups."""
        if self.groups is not None and not self.predicted:
            if groups is None:
                raise ValueError(
                    "groups is missing, but thresholds differ between groups. Pass a key per item."
                )
            return tuple(item_keys(groups, len(prediction)))
        is_asked_for = isinstance(groups, str) and groups == PREDICTED
        if groups is not None and not (self.predicted and is_asked_for):
            state = "the calibration has none"
            if self.predicted:
                state = "they follow from the prediction"
            raise ValueError(f"groups was given, but {state}. Omit groups.")
        return tuple(predicted_classes(score, prediction)) if self.predicted else None

    def _warn_unseen(self, keys: Names) -> None:
        """Warn of keys that no calibration item has, which may be misspelt."""
        if self.predicted:
            return
        unseen = [key for key in dict.fromkeys(keys) if key not in (self.groups or ())]
        if unseen:
            warn(
                f"groups holds {join_names(unseen)}, which no calibration item has; known are "
                f"{join_names(self.groups or ())}. The sets of such items are the whole simplex."
            )

    def warn_infinite(
        self, thresholds: FloatArray, codes: IntArray, alpha: Fraction, score: Score
    ) -> None:
        """Warn of infinite thresholds in groups with calibration items, with the reason."""
        infinite = np.isposinf(thresholds) & (codes >= 0)
        if infinite.any():
            reason = self._reason_for_infinity(np.unique(codes[infinite]).tolist(), alpha, score)
            warn(
                f"thresholds are infinite at alpha={float(alpha):g}, and such sets are the whole "
                f"simplex: {reason}."
            )

    def _reason_for_infinity(self, codes: list[int], alpha: Fraction, score: Score) -> str:
        sizes = {code: self.size(code) for code in codes}
        small = [code for code, n in sizes.items() if float(alpha) < self.noise.smallest_alpha(n)]
        if small and self.groups is not None:
            named = join_names([self.groups[code] for code in small])
            return (
                f"{named} have too few calibration items. Add data, merge small groups, or raise "
                "alpha"
            )
        if small:
            n = sizes[small[0]]
            least = self.noise.smallest_alpha(n)
            return (
                f"{n} calibration items allow no alpha below {least:.4g}. Add data, or raise alpha"
            )
        fits = [self.fits[code] for code in codes]
        unbounded = sum(np.isposinf(fit.scores).sum() for fit in fits if isinstance(fit, Quantile))
        if unbounded and score.order == "second":
            return (
                f"{unbounded} calibration items have no votes for a class whose predicted "
                "concentration exceeds 1, and the density of such a distribution is 0. Raise "
                "alpha, collect more votes per item, or use a first-order score such as kl"
            )
        if unbounded:
            return (
                f"{unbounded} calibration items have a predicted share of 0 for a label that "
                "people chose. Smooth the predictions, 0.99 * prediction + 0.01 / n_classes, or "
                "use the score hellinger or tv"
            )
        return (
            "the items and votes are too few for this level. Add data, raise alpha, or use a "
            "bounded score"
        )

    def describe(self) -> str:
        """Return the part of a calibration's description about noise, groups and weights."""
        parts = []
        if not isinstance(self.noise, NoNoise):
            parts.append(f"noise {self.noise!r}")
        if self.groups is not None:
            parts.append(f"{len(self.groups)} groups")
        if self.features is not None:
            parts.append(f"conditional on {', '.join(map(str, self.features[:5]))}")
        if self.weighted:
            parts.append("weighted")
        return "".join(f", {part}" for part in parts)


def predicted_classes(score: Score, prediction: Prediction) -> list[int]:
    """Return the most probable class of each (mean) predicted distribution."""
    return [int(k) for k in score.mean(prediction).argmax(axis=1)]


def item_keys(groups: Any, n: int) -> list[Any]:
    """Return one hashable key per item."""
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise TypeError(f"groups must be one key per item or {PREDICTED!r}, but is {groups!r}.")
    plain = [tuple(key) if isinstance(key, list) else key for key in as_names(groups)]
    if len(plain) != n:
        raise ValueError(f"groups must hold one key per item ({n}), but holds {len(plain)}.")
    odd = [key for key in plain if not isinstance(key, Hashable)]
    if odd:
        raise TypeError(
            f"groups must hold hashable keys such as text or numbers, but one is {odd[0]!r}."
        )
    missing = [row for row, key in enumerate(plain) if key is None or key != key]
    if missing:
        raise ValueError(
            f"groups has no key in row {missing[0]}. Pass a key such as 'other' for items "
            "without a group."
        )
    return plain
