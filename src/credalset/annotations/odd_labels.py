"""Labels that are probably not meant as classes: spellings of another one, slips of the keyboard, marks of no label."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from credalset._typing import AnyArray
from credalset.annotations.naming import tidied
from credalset.exceptions import warn

#: what tables hold where there is no label
BLANK = {"n/a", "#n/a", "na", "nan", "null", "?", "??", "-", "--", "."}
#: share of the votes of another label up to which a label that is spelt almost like it is taken for a slip
RARE = 0.1
MOST_CLASSES = 200  # that are compared with each other
SHORTEST = 4  # letters: shorter words are close to many


def warn_of_odd_labels(
    classes: Sequence[Hashable], votes: AnyArray, origin: str = "", *, empty: Sequence[str] | None = ("",)
) -> None:
    """Warn of labels that were counted as classes of their own and probably are not.

    Parameters
    ----------
    classes : sequence of K labels
        The labels that occur.
    votes : array of shape (K,)
        How often.
    origin : str
        Where they come from, before the sentence.
    empty : sequence of str or None
        What marks cells without a label so far; None where votes came as counts, which have no such cells.
    """
    variants, slips = find_variants(classes), find_slips(classes, votes)
    blank = [name for name in classes if isinstance(name, str) and tidied(name) in BLANK]
    if variants:
        listed = "; ".join(", ".join(map(repr, group)) for group in variants[:3]) + (" …" if len(variants) > 3 else "")
        warn(
            f"labels that differ only in case or spaces are counted as classes of their own: {listed}. Read them with "
            "tidy=True. Merge them with votes.rename({old: new}), or name all in classes=[...] if they do differ."
        )
    if slips:
        listed = ", ".join(f"{slip!r} ({number} times) beside {name!r}" for slip, number, name in slips[:3])
        first = f"{{{slips[0][0]!r}: {slips[0][2]!r}}}"
        merge = f"with votes.rename({first})" if empty is None else f"as they are read, rename={first}"
        warn(
            f"{origin}labels that are perhaps misspelt are counted as classes of their own: {listed}. Merge them "
            f"{merge}. Name all in classes=[...] if they do differ."
        )
    if blank and empty is not None:
        warn(
            f"{origin}{', '.join(map(repr, blank))} is counted as a class. If it marks cells without a label, pass "
            f"empty={(*empty, *blank)!r} and missing='drop'."
        )


def find_variants(classes: Sequence[Hashable]) -> list[list[str]]:
    """Return texts that differ only in case or spaces, together.

    Examples
    --------
    >>> find_variants(["No", "Yes", "no", "perhaps", "yes", "yes "])
    [['No', 'no'], ['Yes', 'yes', 'yes ']]
    """
    groups: dict[str, list[str]] = {}
    for name in classes:
        if isinstance(name, str):
            groups.setdefault(tidied(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def find_slips(classes: Sequence[Hashable], votes: Sequence[Any] | AnyArray) -> list[tuple[str, int, str]]:
    """Return rare labels one slip away from a frequent one: the label, its votes, and the other.

    Examples
    --------
    >>> find_slips(["mittel", "mitel", "hoch", "hohc", "level1", "level2"], [900, 3, 500, 2, 800, 1])
    [('mitel', 3, 'mittel'), ('hohc', 2, 'hoch')]
    """
    texts = [(name, float(n)) for name, n in zip(classes, votes, strict=True) if isinstance(name, str)]
    usual = [(name, n) for name, n in texts if len(name) >= SHORTEST and not any(map(str.isdigit, name))]
    return [
        (name, round(n), other)
        for name, n in usual[:MOST_CLASSES]
        for other, more in usual[:MOST_CLASSES]
        if n <= RARE * more and tidied(name) != tidied(other) and _is_one_slip(tidied(name), tidied(other))
    ]


def _is_one_slip(one: str, other: str) -> bool:
    """Tell whether a letter too many, too few or wrong, or two in the wrong order, make one text of the other.

    Not at the start of a word, where they make another one: typical and atypical.
    """
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if start == 0 or short[start - 1] == " ":
        return False
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = long[:start] + long[start + 1 : start + 2] + long[start : start + 1] + long[start + 2 :]
    return short[start + 1 :] == long[start + 1 :] or short == swapped
