"""How calibration scores become thresholds: one rule for plain scores, noise, groups and weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.annotations.labels import Labels, shown
from credalset.calibration.conditional import Conditional, check_conditional, with_constant
from credalset.calibration.groups import Groups, Pool, is_predicted, item_keys, warn_pooled
from credalset.calibration.models import as_noise
from credalset.calibration.noise import Noise, NoNoise
from credalset.calibration.part import Part, as_weights
from credalset.calibration.promise import Promise
from credalset.exceptions import warn
from credalset.scores import Score


@dataclass(frozen=True, eq=False)
class Rule:
    """What each calibration item brings to a threshold: scores, a weight, a group. Arrays are in item order.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    noise : Noise
        How labels relate to what is covered; by default they are it.
    bounds : ndarray of shape (J, n)
        Scores as the noise model wants them; by default the scores themselves.
    weights : ndarray of shape (n,) or None
        Likelihood ratios, where items count unequally.
    groups : Groups or None
        Groups with a threshold each, where items are not all alike.
    conditional : Conditional or None
        Features that thresholds follow, where groups overlap.
    reason : str
        Why this noise model, where it was left to the items set aside.
    """

    #: what a set holds when its threshold is infinite
    everything: ClassVar[str] = "the whole simplex"

    scores: FloatArray
    noise: Noise = field(default_factory=NoNoise)
    bounds: FloatArray = None  # type: ignore[assignment]
    weights: FloatArray | None = None
    groups: Groups | None = None
    reason: str = ""
    conditional: Conditional | None = None

    def __post_init__(self) -> None:
        if self.bounds is None:
            object.__setattr__(self, "bounds", self.scores[None, :])

    @classmethod
    def build(cls, score: Score, prediction: FloatArray, labels: Labels, noise: Any, groups: Any, weights: Any) -> Rule:
        """Work out what valid predictions, labels, noise, groups and weights make of the calibration items."""
        model = as_noise(noise)
        model.check_score(score, prediction)
        others = cls.beside_labels(score, prediction, model, groups, weights)
        scores = score.evaluate_rows(prediction, labels.distributions)
        settled, bounds, reason = model.prepare(score, prediction, labels, scores)
        return cls(scores, settled, bounds, reason=reason, **others)

    @staticmethod
    def beside_labels(
        score: Score, prediction: FloatArray, noise: Noise, groups: Any = None, weights: Any = None
    ) -> dict[str, Any]:
        """Check what calibration items have beside their labels, and return it by the names of the fields."""
        refused = noise.why_no_weights()
        if weights is not None and refused:
            raise ValueError(f"weights was given, but there is no proof with this noise model. {refused}")
        found: dict[str, Any] = {"weights": None if weights is None else as_weights(weights, len(prediction))}
        if isinstance(groups, Conditional):
            check_conditional(groups, noise, len(prediction))
            return found | {"conditional": groups}
        return found | {"groups": None if groups is None else Groups.read(groups, score, prediction)}

    @property
    def promise(self) -> Promise:
        """What sets predicted by this rule contain, how surely, and what is assumed for it."""
        within = "each group" if self.groups is not None else ""
        if self.conditional is not None:
            within = "each group of the features, and after every shift by a combination of them"
        known = replace(self.noise.promise, within=within)
        shifted = "exchangeable but for a known shift of their features"
        return known if self.weights is None else replace(known, items=shifted)

    def __len__(self) -> int:
        """Number of calibration items."""
        return len(self.scores)

    @cached_property
    def tuning(self) -> BoolArray:
        """Items set aside to choose a parameter of the noise model, (n,)."""
        return self.noise.set_aside(len(self))

    @property
    def is_noisy(self) -> bool:
        """Whether labels are not what is to be covered."""
        return not isinstance(self.noise, NoNoise)

    @property
    def is_uniform(self) -> bool:
        """Whether every prediction gets the same threshold."""
        one_for_all = self.groups is None and self.conditional is None
        return self.weights is None and one_for_all and not self.noise.varies

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but scores."""
        return self.is_uniform and not self.is_noisy

    def thresholds(
        self,
        alpha: Fraction,
        score: Score,
        prediction: FloatArray,
        groups: Any = None,
        weights: Any = None,
        quiet: bool = False,
    ) -> FloatArray:
        """Return one threshold per valid prediction, (N,)."""
        new = self.new_weights(weights, len(prediction))
        which, pools = self.assign(alpha, score, prediction, groups, quiet)
        features = None
        if self.conditional is not None:
            features = with_constant(self.conditional.of(groups, len(prediction)))
        result = np.empty(len(prediction))
        for i, pool in enumerate(pools):
            rows = which == i if len(pools) > 1 else slice(None)
            of_rows = None if new is None else new[rows]
            part = self.part(pool) if features is None else replace(self.part(pool), new_features=features)
            result[rows] = self.noise.thresholds(part, alpha, score, prediction[rows], of_rows)
        if not quiet:
            self.warn_infinite(result, alpha)
        return result

    def p_values(
        self, values: FloatArray, score: Score, prediction: FloatArray, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return the share of the items, the new one included, that score at least these values, (N,)."""
        if self.conditional is not None:
            raise ValueError(
                "p_values are not known where thresholds follow features. Ask predict_set(...) at the level you need."
            )
        new = self.new_weights(weights, len(values))
        keys = self.new_keys(groups, score, prediction)
        if keys is None or self.groups is None:
            return self.part(None).p_values(values, new)
        result = np.empty(len(values))
        for key, rows in rows_by_key(keys).items():
            alone = self.part(Pool(self.groups.positions([key])))
            result[rows] = alone.p_values(values[rows], None if new is None else new[rows])
        return result

    def assign(
        self, alpha: Fraction, score: Score, prediction: FloatArray, groups: Any = None, quiet: bool = False
    ) -> tuple[IntArray, list[Pool | None]]:
        """Return the pools of calibration items that set thresholds, and which of them each new item has, (N,)."""
        which = np.zeros(len(prediction), dtype=np.int64)
        keys = self.new_keys(groups, score, prediction)
        if keys is None or not keys:
            return which, [None]
        pools: list[Pool | None] = []
        told: list[Pool] = []
        for key, rows in rows_by_key(keys).items():
            which[rows] = len(pools)
            pool = self.pool(key, alpha)
            pools.append(pool)
            told += [pool] if self.groups is not None and key in self.groups.keys else []
        if not quiet:
            self.warn_unseen(keys)
            warn_pooled(told, float(alpha))
        return which, pools

    def warn_unseen(self, keys: Iterable[Any]) -> None:
        """Warn of groups that no calibration item has: most likely they are misspelt."""
        known = () if self.groups is None or self.groups.predicted else self.groups.keys
        unseen = [key for key in dict.fromkeys(keys) if key not in known] if known else []
        if unseen:
            which = "groups" if len(unseen) > 1 else "group"
            warn(
                f"no calibration item has the {which} {shown(unseen)}; there are {shown(known)}. Such items get the "
                "threshold of the smallest groups, and nothing is promised of them by themselves."
            )

    def pool(self, key: Any, alpha: Fraction) -> Pool:
        """Return the groups that set the threshold of a group."""
        assert self.groups is not None
        return self.groups.pool(key, self.noise.min_items(alpha, len(self)), ~self.tuning)

    def members(self, pool: Pool | None) -> BoolArray:
        """Return which calibration items belong to a pool, (n,); all of them to None."""
        if pool is None or self.groups is None:
            return np.ones(len(self), dtype=bool)
        return np.isin(self.groups.codes, pool.codes)

    def part(self, pool: Pool | None) -> Part:
        """Return the items of a pool, made once."""
        key = None if pool is None else pool.codes
        if key not in self._parts:
            members = self.members(pool)
            kept, aside = members & ~self.tuning, members & self.tuning
            if not aside.any():  # what other groups say about a parameter is better than nothing, and as independent
                aside = self.tuning
            weights = None if self.weights is None else self.weights[kept]
            features = None if self.conditional is None else with_constant(self.conditional.features[kept])
            self._parts[key] = Part(self.bounds[:, kept], self.bounds[:, aside], weights, features)
        return self._parts[key]

    @cached_property
    def _parts(self) -> dict[tuple[int, ...] | None, Part]:
        return {}

    def new_weights(self, weights: Any, n: int) -> FloatArray | None:
        """Check the weights of n new items: none, if the calibration has none."""
        if self.weights is None:
            if weights is not None:
                raise ValueError("weights was given, but the calibration has none. Pass weights to conformalize too.")
            return None
        if weights is None:
            raise ValueError(
                "weights is missing: this calibration is weighted, and the weight of each new item counts too. "
                "Pass the likelihood ratios of the items to predict for."
            )
        return as_weights(weights, n) if n else np.empty(0)

    def new_keys(self, groups: Any, score: Score, prediction: FloatArray) -> list[Any] | None:
        """Return the group of each new item, None if the calibration has no groups with a threshold each."""
        if self.conditional is not None:
            return None
        if self.groups is None:
            if groups is not None:
                raise ValueError(
                    "groups was given, but the calibration has none. Pass groups to conformalize too. How well "
                    "one threshold serves each group, metrics.coverage_by_group(sets, Y, groups) tells."
                )
            return None
        if self.groups.predicted:
            if groups is not None and not is_predicted(groups):
                raise ValueError("groups are predicted classes here and follow from the prediction. Leave groups out.")
            groups = "predicted"
        if groups is None:
            raise ValueError("groups is missing: this calibration has a threshold per group. Pass one key per item.")
        return item_keys(groups, score, prediction)

    def describe(self) -> str:
        """Return what the rule adds to the description of a calibration."""
        noise = f", noise {self.noise!r}" if self.is_noisy else ""
        groups = "" if self.groups is None else f", {len(self.groups.keys)} groups"
        if self.conditional is not None:
            groups = f", conditional on {self.conditional.describe()}"
        weighted = ", weighted" if self.weights is not None else ""
        return noise + groups + weighted + (f"\n{self.reason}\nPromise: {self.promise}" if self.reason else "")

    def warn_infinite(self, thresholds: FloatArray, alpha: Fraction) -> None:
        """Warn that thresholds are infinite, and say why."""
        n_infinite, n = int(np.isposinf(thresholds).sum()), int((~self.tuning).sum())
        if not n_infinite:
            return
        head = f"{n_infinite} of {len(thresholds)} thresholds are infinite and their sets {self.everything}"
        if n_infinite == len(thresholds):
            head = f"The threshold is infinite and every set is {self.everything}"
        unbounded = int(np.isposinf(self.bounds[0]).sum())
        if self.is_uniform and n + 1 < self.noise.min_items(alpha, n):
            reason = (
                f"{n} calibration items are too few for alpha={float(alpha):g}; the smallest level they support is "
                f"{self.noise.smallest_alpha(n):.4g}. Add calibration data"
            )
        elif why := self.noise.why_infinite(alpha, n):
            reason = why
        elif unbounded:
            reason = (
                f"{unbounded} of {len(self)} calibration scores are infinite, as their labels lie where the prediction "
                "leaves no probability at all. Smooth the predictions, 0.99 * prediction + 0.01 / n_classes, or use "
                "another score"
            )
        else:
            reason = (
                f"there are too few items for alpha={float(alpha):g} in the group or in weight, or the score has no "
                "bound for these predictions. Add data, raise alpha, or use a bounded score"
            )
        warn(f"{head}: {reason}." + (f" {self.reason}." if self.reason else ""))


def rows_by_key(keys: list[Any]) -> dict[Any, IntArray]:
    """Return the rows of each key."""
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return {key: np.array(found) for key, found in rows.items()}
