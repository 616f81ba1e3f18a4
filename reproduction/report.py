"""What a finished experiment leaves behind: a table in the terminal, and a folder of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from credalset._display import table_text
from credalset._files import write_file
from reproduction import tables
from reproduction.batch import Batch, Row, pick
from reproduction.pages import PAGES, section
from reproduction.store import Store
from reproduction.summary import summarize

#: level of the table in the terminal, the one the paper reports
ALPHA = {"synthetic": 0.1, "chaosnli": 0.25, "cifar10h": 0.1}
OK = (
    "Column ok, such as 4/5: in how many cells, of how many, coverage lies in the "
    "band for all cells at once."
)
LEFT_TO_FILES = ("total", "aleatoric")  # columns for which the terminal has no room
COLUMNS = (
    "score",
    "n_votes",
    "n_train",
    *(n for n in tables.MEASURES if n not in LEFT_TO_FILES),
    "ok",
)


def write(
    name: str, store: Store, batches: Sequence[Batch], out: Path, echo: Callable[[str], None]
) -> None:
    """Write the rows, the summary and the figures of an experiment, and print the main table."""
    rows = store.rows(batches)
    cells = summarize(rows, independent=name == "synthetic")
    store.combine(batches, out / f"{name}.parquet")
    write_file(out / f"{name}.csv", tables.to_csv(cells).encode())
    sentences, exceptions = tables.verdict_lines(cells)
    named = {"verdicts": sentences, "exceptions": exceptions or ["None."]}
    verdicts = [
        part
        for key, told in named.items()
        for part in section(key, "", "\n".join(f"- {line}" for line in told))
    ]
    page = "\n\n".join([*PAGES[name](cells), *verdicts]) + "\n"
    write_file(out / f"{name}.md", page.encode())
    for part in dict.fromkeys(cell["part"] for cell in cells):
        echo(terminal_table(name, part, pick(cells, part=part)))
    echo("\n".join([OK, *sentences, *exceptions]))


def terminal_table(name: str, part: str, cells: Sequence[Row]) -> str:
    """Write the table of one part at the paper's level, at most 100 columns wide.

    Nothing if there are no lines.
    """
    lines = tables.lines(cells, ALPHA[name])
    if (
        name == "synthetic"
    ):  # normalised scores, and most of the lines about sizes, are left to the files
        plain = {"training-size": ("tv",)}.get(part)
        lines = [
            row
            for row in lines
            if (row["score"] in plain if plain else "normalized" not in row["score"])
        ]
    if not lines:
        return ""
    used = [column for column in COLUMNS if any(tables.text_of(row[column]) for row in lines)]
    classes = sorted({cell["n_classes"] for cell in cells})
    averaged = f" and of K = {', '.join(map(str, classes))}" if len(classes) > 1 else ""
    n_seeds = max(cell["n_seeds"] for cell in cells)
    title = f"{name}, {part}: alpha = {ALPHA[name]:g}, mean of {n_seeds} seeds{averaged}"
    headings = [tables.HEADINGS.get(column, column) for column in used]
    body = [[tables.text_of(row[column]) for column in used] for row in lines]
    return f"{title}\n\n{table_text(headings, body, left=1)}\n"
