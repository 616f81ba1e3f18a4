"""What a finished experiment leaves behind: a table in the terminal, tables and figures in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from credalset._files import write_file
from credalset._text import table_text
from credalset.exceptions import MissingExtraError
from credalset.experiments import published, tables
from credalset.experiments.batch import Batch, Row, pick
from credalset.experiments.pages import PAGES, section
from credalset.experiments.store import Store
from credalset.experiments.summary import Cell, summarize

#: level of the table in the terminal, the one the paper reports
ALPHA = {"synthetic": 0.1, "chaosnli": 0.25, "cifar10h": 0.1}
OK = "Column ok, such as 4/5: in how many cells, of how many, coverage lies in the band for all cells at once."
LEFT_TO_FILES = ("total", "aleatoric")  # columns for which the terminal has no room
COLUMNS = ("score", "n_votes", "n_train", *(n for n in tables.MEASURES if n not in LEFT_TO_FILES), "ok")


def write(name: str, store: Store, batches: Sequence[Batch], out: Path, echo: Callable[[str], None]) -> None:
    """Write the rows, the summary and the figures of an experiment, and print the table that matters most."""
    rows = store.rows(batches)
    independent = name == "synthetic" and not store.settings["published_data"]
    cells = summarize(rows, independent=independent)
    store.combine(batches, out / f"{name}.parquet")
    write_file(out / f"{name}.csv", tables.to_csv(cells).encode())
    verdicts = tables.verdict_lines(cells)
    verdicts += speed_lines(rows, store, batches) if name == "synthetic" else []
    sentences = section("verdicts", "", "\n".join(f"- {line}" for line in verdicts))
    page = "\n\n".join([*PAGES[name](cells), *sentences]) + "\n"
    write_file(out / f"{name}.md", page.encode())
    for part in dict.fromkeys(cell["part"] for cell in cells):
        echo(terminal_table(name, part, pick(cells, part=part)))
    echo("\n".join([OK, *verdicts]))
    try:
        from credalset.experiments.figures import draw

        drawn = draw(name, rows, store.examples(batches), out / "figures", quick=bool(store.settings["quick"]))
        echo(f"Figures: {', '.join(path.name for path in drawn)}")
    except MissingExtraError as error:
        echo(f"Figures were skipped. {error}")


def terminal_table(name: str, part: str, cells: Sequence[Cell]) -> str:
    """Write the table of one part at the paper's level, at most 100 columns wide; nothing if there are no lines."""
    lines = tables.lines(cells, ALPHA[name])
    if name == "synthetic":  # normalised scores, and most of the lines about sizes, are left to the files
        plain = {"training-size": ("tv",)}.get(part)
        lines = [row for row in lines if (row["score"] in plain if plain else "normalized" not in row["score"])]
    if not lines:
        return ""
    used = [column for column in COLUMNS if any(tables.text_of(row[column]) for row in lines)]
    classes = sorted({cell["n_classes"] for cell in cells})
    averaged = f" and of K = {', '.join(map(str, classes))}" if len(classes) > 1 else ""
    n_seeds = max(cell.n_seeds for cell in cells)
    title = f"{name}, {part}: alpha = {ALPHA[name]:g}, mean of {n_seeds} seeds{averaged}"
    headings = [tables.HEADINGS.get(column, column) for column in used]
    body = [[tables.text_of(row[column]) for column in used] for row in lines]
    return f"{title}\n\n{table_text(headings, body, left=1)}\n"


def speed_lines(rows: Sequence[Row], store: Store, batches: Sequence[Batch]) -> list[str]:
    """Compare the time that the first-order runs took with the published way of doing the same."""
    grid = [batch for batch in batches if batch.part == "first-order"]
    ours = store.seconds(grid)
    plain = store.seconds([batch for batch in batches if batch.part == "one-at-a-time"])
    theirs = published.estimate(pick(rows, part="first-order"), plain["one_run_cpu"])
    n_runs = sum(batch.n_runs for batch in grid)
    spent, clock = (ours[f"training{unit}"] + ours[f"measuring{unit}"] for unit in ("_cpu", ""))
    total = sum(theirs.values())
    return [
        f"Time of the {n_runs} first-order runs: {spent:.0f} s of processor time ({ours['training_cpu']:.0f} s "
        f"training, {ours['measuring_cpu']:.0f} s for all scores and measures); {clock:.0f} s by the clock, waiting "
        "included.",
        f"The published way: {total:.0f} s = {theirs['training']:.0f} s training (one run, measured: "
        f"{plain['one_run_cpu']:.2f} s of processor time, {plain['one_run']:.2f} s by the clock) "
        f"+ {theirs['membership']:.0f} s grid membership + {theirs['entropy']:.0f} s entropies (costs per set measured "
        f"before; volumes have no counterpart). Ratio {total / spent:.0f}, {total / clock:.0f} by the clock; training "
        f"alone {theirs['training'] / ours['training_cpu']:.1f}.",
    ]
