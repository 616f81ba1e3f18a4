"""Cells of an experiment as tables: for the terminal, Markdown for pages, CSV for all else."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from credalset._display import number_text
from reproduction.batch import MEASURED, READ, Row, pick
from reproduction.summary import shrinking

MEASURES = tuple(
    name for name in MEASURED if name not in ("volume_error", "epistemic_gap", "empty")
)
HEADINGS = {
    "coverage_true": "true",
    "n_votes": "m",
    "n_train": "train",
    "threshold": "thresh.",
    "efficiency": "effic.",
}
HEADINGS |= {"aleatoric": "aleat.", "epistemic": "epist."}


def lines(cells: Sequence[Row], alpha: float) -> list[Row]:
    """Average cells of a part over numbers of classes: one line per score, votes and items."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for cell in pick(cells, alpha=alpha):
        groups[cell["score"], cell["n_votes"], cell["n_train"]].append(cell)
    result = []
    for (score, n_votes, n_train), group in groups.items():
        means = {name: sum(cell[name] for cell in group) / len(group) for name in MEASURES}
        fine = sum(cell["verdict"] == "ok" for cell in group)
        result.append(
            {
                "score": score,
                "n_votes": n_votes,
                "n_train": n_train,
                **means,
                "ok": f"{fine}/{len(group)}",
            }
        )
    return result


def text_of(value: Any) -> str:
    """Write a number in few characters; nothing where it is unknown."""
    return number_text(value, decimals=3, significant=1, missing="")


def markdown(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a Markdown table, numbers to the right.

    Examples
    --------
    >>> print(markdown(["score", "coverage"], [["tv", 0.9]]))
    | score | coverage |
    |---|--:|
    | tv | 0.900 |
    """
    rule = "|".join(["---", *["--:"] * (len(headings) - 1)])
    first, *body = (" | ".join(map(text_of, row)) for row in [headings, *rows])
    return "\n".join([f"| {first} |", f"|{rule}|", *(f"| {line} |" for line in body)])


def to_csv(cells: Sequence[Row]) -> str:
    """Write every cell as a line."""
    stream = io.StringIO()
    if cells:
        writer = csv.DictWriter(stream, list(cells[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)
    return stream.getvalue()


def pivot(
    cells: Sequence[Row], across: str, write: Callable[[Row], str], down: Sequence[str]
) -> str:
    """Write one value per cell: a column for each value of ``across``, rows named by ``down``."""
    name = HEADINGS.get(across, across)
    rows: dict[tuple[Any, ...], dict[str, str]] = defaultdict(dict)
    for cell in sorted(cells, key=lambda cell: cell[across]):
        rows[tuple(cell[name] for name in down)][f"{name} = {cell[across]}"] = write(cell)
    return grid_table([HEADINGS.get(name, name) for name in down], rows)


def grid_table(head: Sequence[str], rows: Mapping[tuple[Any, ...], Mapping[str, Any]]) -> str:
    """Write what each row has by column, columns in order of appearance; nothing without rows."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    body = [[*key, *(row.get(column, "") for column in columns)] for key, row in rows.items()]
    return markdown([*head, *columns], body) if body else ""


def full_table(cells: Sequence[Row]) -> str:
    """Write cells with their spread over the seeds and the expected band."""
    rows = [_full_row(cell) for cell in cells]
    used = [
        name for name in rows[0] if any(text_of(row[name]) for row in rows)
    ]  # no grid beyond three classes
    return markdown(used, [[row[name] for name in used] for row in rows])


def _full_row(cell: Row) -> Row:
    row = {
        "score": cell["score"],
        "alpha": f"{cell['alpha']:g}",
        "coverage": plus_minus(cell, "coverage"),
    }
    row |= {"95 % band": f"{cell['band_low']:.3f}–{cell['band_high']:.3f}"}
    row |= {name: plus_minus(cell, name) for name in ("threshold", "efficiency")} | {
        "volume": volume_text(cell)
    }
    row |= {name: cell[name] for name in (*READ, "total", "aleatoric", "epistemic", "empty")}
    if cell["epistemic_gap"] > 5e-4:  # bounds of a larger set, or a bracket
        row["epistemic"] = (
            f"{text_of(row['epistemic'])} (at most; {text_of(cell['epistemic_gap'])} less "
            "by members)"
        )
    return row


def plus_minus(cell: Row, name: str) -> str:
    """Write a mean and its standard deviation over the seeds."""
    mean = cell[name]
    std = cell[f"{name}_std"]
    return (
        text_of(mean)
        if math.isnan(std) or math.isnan(mean)
        else f"{text_of(mean)} ± {text_of(std)}"
    )


def volume_text(cell: Row) -> str:
    """Write the mean volume, with its standard error where it is estimated."""
    error = cell["volume_error"]
    return text_of(cell["volume"]) + (f" (se {text_of(error)})" if error > 0 else "")


def verdict_lines(cells: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Say if coverage is as theory says, truth is covered and votes help; name exceptions."""
    outside = sum(not cell["band_low"] <= cell["coverage"] <= cell["band_high"] for cell in cells)
    counts = {side: [cell for cell in cells if cell["verdict"] == side] for side in ("low", "high")}
    sentences = [
        f"Coverage of the labels: {len(cells)} cells, {outside} outside their 95 % band; beyond "
        f"the band that holds for all cells at once (99 %): {len(counts['low'])} below, "
        f"{len(counts['high'])} above (ties, infinite thresholds)."
    ]
    exceptions = []
    for side, word in (("low", "Below"), ("high", "Above")):
        exceptions += [
            f"{word}: {name_of(cell)}, coverage {cell['coverage']:.4f}" for cell in counts[side]
        ]
    known = [cell for cell in cells if cell["truth_verdict"] != "-"]
    if known:
        short = [cell for cell in known if cell["truth_verdict"] == "short"]
        far = [cell for cell in short if cell["coverage_true"] < cell["band_low"]]
        sentences.append(
            f"Coverage of the truth: at least nominal in {len(known) - len(short)} of "
            f"{len(known)} cells; of the others {len(far)} lie below the 95 % band."
        )
        exceptions += [
            f"Short: {name_of(cell)}, coverage of the truth {cell['coverage_true']:.4f}"
            for cell in far
        ]
    n_series, growing = shrinking(cells)
    if n_series:
        sentences.append(
            f"Thresholds shrink as votes are added in {n_series - len(growing)} of "
            f"{n_series} series."
        )
        exceptions += [f"Not shrinking: {_series_name(row)}" for row in growing]
    return sentences, exceptions


def name_of(cell: Row) -> str:
    """Name a cell in words."""
    where = f"K = {cell['n_classes']}, m = {cell['n_votes']}, {cell['n_train']} training items"
    return f"{cell['part']}, {cell['score']}, {where}, alpha = {cell['alpha']:g}"


def _series_name(row: Row) -> str:
    values = ", ".join(text_of(value) for value in row["thresholds"])
    return (
        f"{row['part']}, {row['score']}, K = {row['n_classes']}, alpha = {row['alpha']:g}: {values}"
    )
