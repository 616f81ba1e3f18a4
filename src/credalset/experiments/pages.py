"""Results as Markdown, ready for the documentation: our numbers, beside the paper's where it gives any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from credalset.experiments import published, tables
from credalset.experiments.summary import Cell

Text = Callable[[Cell], str]
ALPHA = 0.1  # level of the synthetic tables


def synthetic_page(cells: Sequence[Cell]) -> list[str]:
    """Coverage, thresholds and volumes by classes and votes; training-set size; second order."""
    first = [c for c in cells if c.key["part"] == "first-order" and c.key["alpha"] == ALPHA]
    others = [c for c in cells if c.key["part"] not in ("first-order", "training-size")]
    size = [c for c in cells if c.key["part"] == "training-size" and c.key["alpha"] == ALPHA]
    down, down_second = ["score", "n_classes"], ["score", "alpha"]
    head, head_size = f"First order, α = {ALPHA:g}", f"Training-set size, K = 3, α = {ALPHA:g}"
    efficiency, threshold = mean_of("efficiency"), mean_of("threshold")
    sections = {
        "coverage": (f"{head}: coverage of the votes / of the truth", _by_votes(first, both, down)),
        "threshold": (f"{head}: threshold", _by_votes(first, threshold, down)),
        "volume": (f"{head}: mean volume of a set", _by_votes(first, volume, down)),
        "efficiency": ("Efficiency for K = 3, α = 0.05", _efficiency_table(cells)),
        "second": ("Second order, K = 3: coverage of the votes / of the truth", _by_votes(others, both, down_second)),
        "second-efficiency": ("Second order, K = 3: efficiency", _by_votes(others, efficiency, down_second)),
        "size": (f"{head_size}: threshold of TV", _size_table(size)),
        "size-threshold": (f"{head_size}: threshold (m = 0: labels without noise)", _by_size(size, threshold)),
        "size-efficiency": (f"{head_size}: efficiency (m = 0: labels without noise)", _by_size(size, efficiency)),
    }
    return [text for name, (title, table) in sections.items() for text in section(name, title, table)]


def chaosnli_page(cells: Sequence[Cell]) -> list[str]:
    """The paper's table at α = 0.25 beside ours, then everything."""
    return section("paper", "α = 0.25", _chaosnli_table(cells)) + real_page(cells)


def real_page(cells: Sequence[Cell]) -> list[str]:
    """One table per part with every score and level."""
    page = []
    for part in dict.fromkeys(cell.key["part"] for cell in cells):
        chosen = [cell for cell in cells if cell.key["part"] == part]
        first = chosen[0]
        title = f"{part}, {first.key['n_train']} training items, {first.n_seeds} splits"
        page += section(part.replace(" ", "-"), title, tables.full_table(chosen))
    return page


def both(cell: Cell) -> str:
    """Write the coverage of votes and of the truth; what falls short is set in bold."""
    votes, truth = f"{cell.mean['coverage']:.3f}", f"{cell.mean['coverage_true']:.3f}"
    votes = f"**{votes}**" if cell.verdict == "low" else votes
    return f"{votes} / " + (f"**{truth}**" if cell.truth_verdict == "short" else truth)


def mean_of(name: str) -> Text:
    """Return a function that writes the mean of a column."""
    return lambda cell: tables.text_of(cell.mean[name])


def volume(cell: Cell) -> str:
    """Write the mean volume, with its standard error where it is estimated."""
    error = cell.mean["volume_error"]
    return tables.text_of(cell.mean["volume"]) + (f" (se {tables.text_of(error)})" if error > 0 else "")


def section(name: str, title: str, text: str) -> list[str]:
    """Give a text its heading, between marks by which a page can include it alone; nothing without a text."""
    body = f"### {title}\n\n{text}" if title else text
    return [f"<!-- --8<-- [start:{name}] -->\n{body}\n\n<!-- --8<-- [end:{name}] -->"] if text else []


def _by_votes(cells: Sequence[Cell], text: Text, down: Sequence[str]) -> str:
    return tables.pivot(cells, "n_votes", text, down) if cells else ""


def _by_size(cells: Sequence[Cell], text: Text) -> str:
    return tables.pivot(cells, "n_train", text, ["score", "n_votes"]) if cells else ""


def _efficiency_table(cells: Sequence[Cell]) -> str:
    """The paper shows one instance; ours is the mean over all test items and seeds."""
    parts = ("first-order", "second-order")
    chosen = [c for c in cells if c.key["part"] in parts and c.key["n_classes"] == 3 and c.key["alpha"] == 0.05]
    votes = sorted({c.key["n_votes"] for c in chosen})
    found = {(c.key["score"], c.key["n_votes"]): c.mean["efficiency"] for c in chosen}
    rows: list[list[Any]] = []
    for score, paper in published.SYNTHETIC_EFFICIENCY.items():
        own = [found.get((score, m)) for m in votes]
        rows.append(
            [score, *(f"{tables.text_of(mine)} / {paper.get(m, '')}" for m, mine in zip(votes, own, strict=True))]
        )
    return tables.markdown(["ours / paper", *(f"m = {m}" for m in votes)], rows) if votes else ""


def _size_table(cells: Sequence[Cell]) -> str:
    sizes = sorted({c.key["n_train"] for c in cells})
    own = {
        (c.key["n_votes"], c.key["n_train"]): plus_minus
        for c in cells
        if c.key["score"] == "tv"
        for plus_minus in [tables.plus_minus(c, "threshold")]
    }
    rows = [["paper, one run", *(tables.text_of(published.TV_THRESHOLD.get(n)) for n in sizes)]]
    for votes, name in ((0, "ours, labels without noise"), (100, "ours, 100 votes")):
        rows.append([name, *(own.get((votes, n), "") for n in sizes)])
    return tables.markdown(["training items", *map(str, sizes)], rows) if sizes else ""


def _chaosnli_table(cells: Sequence[Cell]) -> str:
    chosen = [c for c in cells if c.key["alpha"] == 0.25]
    features = list(dict.fromkeys(c.key["part"].rsplit(" ", 1)[0] for c in chosen))
    found = {(c.key["part"].rsplit(" ", 1)[0], c.key["score"]): c for c in chosen}
    headings = ["score"] + [f"{name}, {who}" for name in ("coverage", "efficiency") for who in ("paper", *features)]
    rows = []
    for score in dict.fromkeys(c.key["score"] for c in chosen):
        row = [score]
        for i, name in enumerate(("coverage", "efficiency")):
            row.append(published.CHAOSNLI.get(score, ("", ""))[i])
            row += [tables.plus_minus(found[who, score], name) if (who, score) in found else "" for who in features]
        rows.append(row)
    return tables.markdown(headings, rows) if rows else ""


PAGES: dict[str, Callable[[Sequence[Cell]], list[str]]] = {
    "synthetic": synthetic_page,
    "chaosnli": chaosnli_page,
    "cifar10h": real_page,
}
