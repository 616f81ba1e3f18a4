"""Every reader by its kind, and which of them fits a file."""

from __future__ import annotations

from typing import Any, NamedTuple

from credalset.annotations.readers import (
    argilla,
    crowd_kit,
    doccano,
    label_studio,
    label_studio_min,
    lewidi,
    long_table,
    prodigy,
    response_lists,
    wide_table,
)
from credalset.annotations.readers.common import Reader
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

READERS: dict[str, Reader] = {
    module.READER.kind: module.READER
    for module in (
        label_studio,
        label_studio_min,
        doccano,
        argilla,
        response_lists,
        prodigy,
        lewidi,
        crowd_kit,
        long_table,
        wide_table,
    )
}

SURE_ENOUGH = 0.5
#: two opinions closer than this are a tie
TIE = 0.05


class Recognition(NamedTuple):
    """What a file was taken for: the kind, how sure that is (0 to 1), and why."""

    kind: str
    sure: float
    why: str

    def __str__(self) -> str:
        word = "certainly" if self.sure >= 0.95 else "probably" if self.sure >= 0.7 else "perhaps"
        return f"{word} {self.kind}: {self.why}"


def recognise(source: Source) -> Recognition:
    """Ask every reader for its opinion and take the surest; refuse a tie and what nobody knows."""
    opinions = [(reader.kind, reader.recognise(source)) for reader in READERS.values()]
    guesses = sorted(
        (Recognition(kind, *guess) for kind, guess in opinions if guess is not None), key=lambda g: g.sure, reverse=True
    )
    if not guesses or guesses[0].sure < SURE_ENOUGH:
        perhaps = f" It is perhaps {guesses[0].kind}: {guesses[0].why}." if guesses else ""
        raise FileFormatError(
            f"{source.name} is of no kind that is recognised: {_seen(source)}.{perhaps} Name the kind, kind=... "
            f"({', '.join(READERS)}); for a table, also its columns: task=..., worker=..., label=..."
        )
    if len(guesses) > 1 and guesses[0].sure - guesses[1].sure < TIE:
        raise FileFormatError(f"{source.name} could be of two kinds: {guesses[0]}; {guesses[1]}. Say which: kind=...")
    return guesses[0]


def _seen(source: Source) -> str:
    if source.columns:
        what = "objects with the keys" if source.format == "json" else "a table with the columns"
        return f"it holds {what} {_short(source.columns)}"
    return f"it starts with {_short(source.sample[:1])}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
