"""Validation of arguments of public functions.

Each error names the argument, what was seen and what to do.

Internal code relies on valid arrays: float64, C-ordered, finite where required, rows on the
simplex.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, cast
from unicodedata import normalize

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray

# A row whose sum is this close to one is used unchanged. Other rows within the tolerance are
# divided by their sums. The difference between the two tolerances makes validation idempotent, so
# scores and their ties do not depend on how often an array is validated.
EXACT_SUM_TOLERANCE = 1e-10
SUM_TOLERANCE = 0.02  # four probabilities that were rounded to two decimals
# Beyond, sums of concentrations and their log-gamma functions overflow.
LARGEST_CONCENTRATION = 1e100


def _describe_rows(mask: AnyArray | np.bool_, value: Any = None, limit: int = 3) -> str:
    """Name rows: by the index of a pandas frame, else by position."""
    rows = np.flatnonzero(mask)
    names = value.index[rows[:limit]] if hasattr(value, "iloc") else rows[:limit]
    shown = ", ".join(map(str, names))
    return f"row {shown}" if len(rows) == 1 else f"{len(rows)} rows (first: {shown})"


def check_choice(value: object, name: str, options: Iterable[object]) -> None:
    """Refuse a value that is not one of the options."""
    if value not in options:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, options))}, but is {value!r}."
        )


def unmasked(value: Any, name: str) -> Any:
    """Return a value.

    Refuse masked entries, also of arrays in a list: NumPy takes what is below the mask for data.
    """
    parts = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(f"{name} has masked values. Fill them, or leave these items out.")
    return value


def freeze(thing: Any, *names: str) -> None:
    """Make arrays of a frozen dataclass read-only.

    They become views, as the arrays may be the caller's.
    """
    for name in names:
        if isinstance(array := getattr(thing, name), np.ndarray):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(thing, name, view)


def as_numbers(value: Any, name: str, hint: str = "Pass plain numbers.") -> FloatArray:
    """Convert to a float64 array of any shape; refuse values that are not real numbers."""
    unmasked(value, name)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must have rows of one length ({error}). {hint}") from None
    if array.dtype.kind in "biuf":
        return np.asarray(array, dtype=np.float64)
    if array.dtype.kind == "O" and not any(
        isinstance(x, str | bytes | complex) for x in array.flat
    ):
        with suppress(TypeError, ValueError, OverflowError):
            return np.asarray(array, dtype=np.float64)
    seen = f"{array.flat[0]!r}" if array.size else f"values of dtype {array.dtype}"
    raise TypeError(f"{name} must hold numbers, but holds {seen}. {hint}")


def as_matrix(value: ArrayLike, name: str, *, n_classes: int | None = None) -> FloatArray:
    """Convert to a finite float64 matrix of shape (N, K), K ≥ 2."""
    refuse_texts(value, name)
    array = as_numbers(value, name, "Pass a numeric array of shape (n_items, n_classes).")
    if array.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_items, n_classes), but has shape {array.shape}. For a "
            "single row use array[None, :], for class labels np.eye(n_classes)[labels]."
        )
    if array.shape[1] < 2:
        raise ValueError(
            f"{name} must have at least 2 classes (columns), but has shape {array.shape}. "
            "For two classes pass both "
            "columns, np.column_stack([1 - p, p]), for class labels np.eye(n_classes)[labels]."
        )
    if n_classes is not None and array.shape[1] != n_classes:
        raise ValueError(
            f"{name} has {array.shape[1]} classes (columns), but {n_classes} are expected. "
            "Pass one column per class, in the same order everywhere."
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def refuse_texts(value: Any, name: str) -> None:
    """Refuse one text per item instead of rows: these are class labels."""
    is_flat = isinstance(value, list | tuple) or len(getattr(value, "shape", ())) == 1
    first = next(iter(value), None) if is_flat else None
    if isinstance(first, str):
        raise TypeError(
            f"{name} must have shape (n_items, n_classes), but holds one text per item. Pass "
            "class labels as one vote each: pandas.get_dummies(labels)."
        )


def _check_finite(array: FloatArray, name: str, value: Any = None) -> None:
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} contains NaN or infinity in {_describe_rows(bad, value)}. Drop or fill these "
            "items before passing them."
        )


def _check_non_negative(array: FloatArray, name: str, value: Any = None) -> None:
    bad = (array < 0).any(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} contains negative values in {_describe_rows(bad, value)} (smallest "
            f"{array.min():.6g}). Probabilities and counts cannot be negative."
        )


def sequential_row_sums(array: FloatArray) -> FloatArray:
    """Sum each row from left to right, as scores do."""
    if (
        array.flags.f_contiguous and len(array) > 1
    ):  # NumPy uses this order for Fortran-ordered arrays
        return array.sum(axis=1)
    total = array[:, 0].copy()
    for column in range(1, array.shape[1]):
        total += array[:, column]
    return total


def _are_exact(array: FloatArray) -> BoolArray:
    """Tell, for each block of rows, whether all are distributions that are used unchanged."""

    def one_block(rows: slice) -> BoolArray:
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(sequential_row_sums(array[rows]) - 1.0)
            return np.array(
                [array[rows].min(initial=0.0) >= 0.0 and (off <= EXACT_SUM_TOLERANCE).all()]
            )

    return np.asarray(gather_blocks(one_block, len(array), array.shape[1]))


def as_distributions(
    value: ArrayLike, name: str, *, n_classes: int | None = None, or_counts: bool = False
) -> FloatArray:
    """Check that every row is a probability distribution and return a float64 matrix (N, K).

    Rows that sum to one within 0.02, as four numbers that were rounded to two decimals do, are
    divided by their sum. With ``or_counts`` the error mentions that counts are accepted too.
    """
    array = as_matrix(value, name, n_classes=n_classes)
    if _are_exact(array).all():
        return array
    _check_finite(array, name, value)
    _check_non_negative(array, name, value)
    sums = sequential_row_sums(array)
    bad = np.abs(sums - 1.0) > SUM_TOLERANCE + EXACT_SUM_TOLERANCE
    if bad.any():
        first = _describe_rows(np.arange(len(bad)) == np.argmax(bad), value)
        where = f"({first} sums to {sums[bad][0]:.6g}). Normalise the rows"
        if or_counts:
            raise ValueError(
                f"{name} must hold label distributions (rows that sum to one) or annotation "
                "counts (whole numbers), "
                f"but {_describe_rows(bad, value)} are neither {where} or pass the raw counts."
            )
        raise ValueError(
            f"{name} must hold probability distributions, but {_describe_rows(bad, value)} do not "
            f"sum to one within {SUM_TOLERANCE} {where}, apply a softmax if these are logits, or "
            "leave out columns that are not classes."
        )
    off = np.abs(sums - 1.0) > EXACT_SUM_TOLERANCE
    return np.where(off[:, None], array / sums[:, None], array)


def as_counts(
    value: ArrayLike, name: str, *, n_classes: int | None = None, may_be_none: bool = False
) -> FloatArray:
    """Check that every row holds non-negative whole numbers.

    At least one of them must be positive, unless there may be none.
    """
    array = as_matrix(value, name, n_classes=n_classes)
    _check_finite(array, name)
    _check_non_negative(array, name)
    fractional = (array != np.floor(array)).any(axis=1)
    if fractional.any():
        raise ValueError(
            f"{name} must hold whole-number annotation counts, but {_describe_rows(fractional)} "
            "contain fractions. Pass the raw counts, not frequencies."
        )
    empty = ~array.any(axis=1)
    if empty.any() and not may_be_none:
        raise ValueError(
            f"{name} has no annotation at all in {_describe_rows(empty)}. "
            "Drop items without votes, which have no label distribution."
        )
    return array


def as_concentrations(value: ArrayLike, name: str, *, n_classes: int | None = None) -> FloatArray:
    """Check Dirichlet concentrations: finite and at least one, so that the density has a mode."""
    array = as_matrix(value, name, n_classes=n_classes)
    _check_finite(array, name)
    bad = (array < 1.0).any(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} must hold Dirichlet concentrations of at least 1, but {_describe_rows(bad)} "
            f"go below (smallest {array.min():.6g}). Pass concentrations such as 1 + "
            "relu(output), or use a first-order score (kl, tv, ws, inner, hellinger, brier) for "
            "predicted probabilities."
        )
    if (array > LARGEST_CONCENTRATION).any():
        raise ValueError(
            f"{name} must hold concentrations of at most {LARGEST_CONCENTRATION:g}, but "
            f"holds {array.max():g}."
        )
    return array


def as_probability(value: float, name: str) -> float:
    """Check a number strictly between 0 and 1; 0-dimensional arrays are accepted."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number strictly between 0 and 1, but is {value!r}.")
    number = float(value)
    if not 0.0 < number < 1.0:
        hint = (
            " alpha is the miscoverage rate: 0.1 asks for 90 % coverage." if name == "alpha" else ""
        )
        raise ValueError(f"{name} must lie strictly between 0 and 1, but is {value!r}.{hint}")
    return number


def as_thresholds(value: ArrayLike, n_rows: int) -> FloatArray:
    """Convert a threshold, one number or one per row, to an array (N,); +inf is legal, not NaN."""
    if value is None or isinstance(value, str):
        raise TypeError(
            f"threshold must be a number or an array of {n_rows} numbers, but is {value!r}."
        )
    array = as_numbers(value, "threshold", f"Pass one number or {n_rows}.")
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != n_rows):
        raise ValueError(
            f"threshold must be one number or one per prediction ({n_rows}), but has shape "
            f"{array.shape}."
        )
    if np.isnan(array).any():
        raise ValueError("threshold is NaN. Use +inf for the whole simplex.")
    return np.array(np.broadcast_to(array, (n_rows,)))


def as_positive_int(value: int, name: str, *, minimum: int = 1) -> int:
    """Check a whole number of at least one, or another minimum."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, but is {value!r}.")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, but is {value!r}.")
    return int(value)


def as_finite(value: float, name: str, *, minimum: float = -math.inf) -> float:
    """Check a finite number, optionally bounded below."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, but is {value!r}.")
    number = float(value)
    if not math.isfinite(number) or number < minimum:
        bound = f" of at least {minimum:g}" if minimum > -math.inf else ""
        raise ValueError(f"{name} must be a finite number{bound}, but is {value!r}.")
    return number


def as_generator(random_state: object) -> np.random.Generator:
    """Convert a seed, a Generator or None to a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint64))
    try:
        return np.random.default_rng(cast("int | np.random.Generator | None", random_state))
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state must be a seed, a Generator or None, but is {random_state!r}."
        ) from None


def as_names(names: Any) -> tuple[Any, ...]:
    """Return names as a tuple of plain Python values: ``'a'``, not ``np.str_('a')``.

    Texts are in the composed form of Unicode (NFC): two spellings of a letter are one name.
    """
    # The method tolist makes numbers of dates.
    is_dates = isinstance(names, np.ndarray) and names.dtype.kind in "mM"
    values = names.tolist() if hasattr(names, "tolist") and not is_dates else list(names)
    return tuple(map(_plain_name, values))


def _plain_name(value: Any) -> Any:
    if isinstance(value, np.str_ | np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, str) and not value.isascii():
        return normalize("NFC", value)
    return value
