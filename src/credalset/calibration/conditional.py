"""Groups that overlap, and features: thresholds that follow them, with a guarantee for every one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_numbers
from credalset.annotations.labels import Names, column_names, name_array, plain_names, row_names, with_columns
from credalset.calibration.noise import Noise

MAX_NAMED = 5  # features that a description calls by name


@dataclass(frozen=True, eq=False)
class Conditional:
    r"""Hold the guarantee for groups that overlap, or for features: pass it as ``groups``.

    Thresholds are a linear function of the features, fitted for each new item with its own score taken for unknown
    (Gibbs, Cherian, Candès: *Conformal prediction with conditional guarantees*, 2023). For every combination
    $f(x) = b_0 + b_1 z_1(x) + \dots + b_d z_d(x)$ that is nowhere negative,

    $$E[ f(x) \, 1\{\lambda \in C(x)\} ] \ge (1 - \alpha) \, E[ f(x) ] .$$

    With columns of zeros and ones this is coverage within each group, however groups overlap, and on average. With
    numbers, it is coverage after every shift that weighs items by such a combination.

    Parameters
    ----------
    features : array of shape (n, d) or data frame
        One row per item. Zeros and ones (or booleans) say who is in a group; numbers are features. A constant is added.
        Columns of a frame are matched by name.
    names : sequence of d names, optional
        What to call the columns; read from a data frame.
    index : sequence of n names, optional
        Names of the items, by which rows are matched with those of the predictions; read from a data frame.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, random_state=0)
    >>> is_long, is_rare = data.X[:, 0] > 0, data.X[:, 1] > 1
    >>> kinds = cs.Conditional(np.column_stack([is_long, is_rare]), names=["long", "rare"])
    >>> calibration = cs.conformalize(data.distributions, data.counts, groups=kinds)
    >>> calibration
    Calibration: score tv, 500 items, 3 classes, conditional on long, rare
    >>> calibration.thresholds(data.distributions[:3], 0.1, groups=[[0, 0], [1, 0], [1, 1]]).round(2)
    array([0.06, 0.06, 0.05])
    """

    features: FloatArray
    names: Names | None = None
    index: Any = None

    def __post_init__(self) -> None:
        if self.index is None:
            object.__setattr__(self, "index", row_names(self.features))
        own = column_names(self.features, "features") if self.names is None else plain_names(self.names)
        matrix = _matrix(self.features, "features")
        if own is not None and len(own) != matrix.shape[1]:
            raise ValueError(f"names must name each of the {matrix.shape[1]} features, but holds {len(own)}.")
        object.__setattr__(self, "features", matrix)
        object.__setattr__(self, "names", own)

    def __len__(self) -> int:
        """Number of items."""
        return len(self.features)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of items and features."""
        return self.features.shape

    def __getitem__(self, rows: Any) -> Conditional:
        """Return some of the items, as an array does."""
        index = None if self.index is None else name_array(self.index)[rows]
        return Conditional(self.features[rows], self.names, index)

    def describe(self) -> str:
        """Name the features, or say how many there are."""
        n = self.features.shape[1]
        if self.names is None or n > MAX_NAMED:
            return f"{n} feature{'s' * (n > 1)}"
        return ", ".join(map(str, self.names))

    def columns(self, features: Any, n: int) -> dict[str, FloatArray]:
        """Return the features of n new items by name."""
        names = range(self.features.shape[1]) if self.names is None else self.names
        return dict(zip(map(str, names), self.of(features, n).T, strict=True))

    def of(self, features: Any, n: int) -> FloatArray:
        """Check the features of n new items, (n, d), columns in the order of the calibration's."""
        if features is None:
            raise ValueError(
                "groups is missing: thresholds follow the features of the items here. Pass those of the items to "
                f"predict for, {self.features.shape[1]} columns."
            )
        own = features.names if isinstance(features, Conditional) else column_names(features, "groups")
        raw = features.features if isinstance(features, Conditional) else features
        matrix = _matrix(with_columns(raw, own, self.names, "groups", "the calibration data"), "groups")
        wanted = (n, self.features.shape[1])
        if matrix.shape != wanted:
            raise ValueError(
                f"groups must hold one row per item and one column per feature, {wanted}, but has shape {matrix.shape}."
            )
        return matrix


def check_conditional(conditional: Conditional, noise: Noise, n: int) -> None:
    """Refuse features that do not fit n calibration items, and noise models without a proof."""
    if len(conditional) != n:
        raise ValueError(f"groups must hold one row of features per item ({n}), but holds {len(conditional)}.")
    if not noise.takes_features:
        raise ValueError(
            f"groups holds features, but there is no proof with {type(noise).__name__}, whose thresholds are no "
            "quantiles. Use AnnotatorSampling, or groups with one key per item."
        )


def with_constant(features: FloatArray) -> FloatArray:
    """Return features with a constant in front."""
    return np.column_stack([np.ones(len(features)), features])


def _matrix(value: Any, name: str) -> FloatArray:
    array = as_numbers(value, name, "Pass zeros and ones for groups (pandas.get_dummies makes them), or numbers.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n_items, n_features), but has shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity. Fill the gaps, and add a column that says where they were.")
    return array
