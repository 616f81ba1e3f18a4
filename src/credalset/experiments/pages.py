"""Results as Markdown, ready for the documentation: our numbers, beside the paper's where it gives any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from credalset.experiments import published
from credalset.experiments.batch import features_of, pick
from credalset.experiments.summary import Cell
from credalset.experiments.tables import full_table, markdown, pivot, plus_minus, text_of, volume_text

Text = Callable[[Cell], str]
ALPHA = 0.1  # level of the synthetic tables


def synthetic_page(cells: Sequence[Cell]) -> list[str]:
    """Coverage, thresholds and volumes by classes and votes; training-set size; second order."""
    first, size = (pick(cells, part=part, alpha=ALPHA) for part in ("first-order", "training-size"))
    others = [cell for cell in cells if cell["part"] not in ("first-order", "training-size")]
    by_votes = partial(pivot, first, "n_votes", down=["score", "n_classes"])
    by_votes_second = partial(pivot, others, "n_votes", down=["score", "alpha"])
    by_size = partial(pivot, size, "n_train", down=["score", "n_votes"])
    head, head_size = f"First order, α = {ALPHA:g}", f"Training-set size, K = 3, α = {ALPHA:g}"
    efficiency, threshold = mean_of("efficiency"), mean_of("threshold")
    sections = {
        "coverage": (f"{head}: coverage of the votes / of the truth", by_votes(both)),
        "threshold": (f"{head}: threshold", by_votes(threshold)),
        "volume": (f"{head}: mean volume of a set", by_votes(volume_text)),
        "efficiency": ("Efficiency for K = 3, α = 0.05", _efficiency_table(cells)),
        "second": ("Second order, K = 3: coverage of the votes / of the truth", by_votes_second(both)),
        "second-efficiency": ("Second order, K = 3: efficiency", by_votes_second(efficiency)),
        "size": (f"{head_size}: threshold of TV", _size_table(size)),
        "size-threshold": (f"{head_size}: threshold (m = 0: labels without noise)", by_size(threshold)),
        "size-efficiency": (f"{head_size}: efficiency (m = 0: labels without noise)", by_size(efficiency)),
    }
    return [text for name, (title, table) in sections.items() for text in section(name, title, table)]


def chaosnli_page(cells: Sequence[Cell]) -> list[str]:
    """The paper's table at α = 0.25 beside ours, then everything."""
    return section("paper", "α = 0.25", _chaosnli_table(cells)) + real_page(cells)


def real_page(cells: Sequence[Cell]) -> list[str]:
    """One table per part with every score and level."""
    page = []
    for part in dict.fromkeys(cell["part"] for cell in cells):
        chosen = pick(cells, part=part)
        title = f"{part}, {chosen[0]['n_train']} training items, {chosen[0].n_seeds} splits"
        page += section(part.replace(" ", "-"), title, full_table(chosen))
    return page


def both(cell: Cell) -> str:
    """Write the coverage of votes and of the truth; what falls short is set in bold."""
    votes, truth = f"{cell.mean['coverage']:.3f}", f"{cell.mean['coverage_true']:.3f}"
    votes = f"**{votes}**" if cell.verdict == "low" else votes
    return f"{votes} / " + (f"**{truth}**" if cell.truth_verdict == "short" else truth)


def mean_of(name: str) -> Text:
    """Return a function that writes the mean of a column."""
    return lambda cell: text_of(cell.mean[name])


def section(name: str, title: str, text: str) -> list[str]:
    """Give a text its heading, between marks by which a page can include it alone; nothing without a text."""
    body = f"### {title}\n\n{text}" if title else text
    return [f"<!-- --8<-- [start:{name}] -->\n{body}\n\n<!-- --8<-- [end:{name}] -->"] if text else []


def _efficiency_table(cells: Sequence[Cell]) -> str:
    """The paper shows one instance; ours is the mean over all test items and seeds."""
    parts = ("first-order", "second-order")
    chosen = [cell for cell in pick(cells, n_classes=3, alpha=0.05) if cell["part"] in parts]
    votes = sorted({cell["n_votes"] for cell in chosen})
    found = {(cell["score"], cell["n_votes"]): text_of(cell.mean["efficiency"]) for cell in chosen}
    rows = [
        [score, *(f"{found.get((score, m), '')} / {paper.get(m, '')}" for m in votes)]
        for score, paper in published.SYNTHETIC_EFFICIENCY.items()
    ]
    return markdown(["ours / paper", *(f"m = {m}" for m in votes)], rows) if votes else ""


def _size_table(cells: Sequence[Cell]) -> str:
    sizes = sorted({cell["n_train"] for cell in cells})
    own = {(c["n_votes"], c["n_train"]): plus_minus(c, "threshold") for c in pick(cells, score="tv")}
    rows = [["paper, one run", *(published.TV_THRESHOLD.get(n) for n in sizes)]]
    for votes, name in ((0, "ours, labels without noise"), (100, "ours, 100 votes")):
        rows.append([name, *(own.get((votes, n), "") for n in sizes)])
    return markdown(["training items", *map(str, sizes)], rows) if sizes else ""


def _chaosnli_table(cells: Sequence[Cell]) -> str:
    found = {(features_of(cell), cell["score"]): cell for cell in pick(cells, alpha=0.25)}
    features, scores = (list(dict.fromkeys(names)) for names in zip(*found, strict=True)) if found else ([], [])
    measures = ("coverage", "efficiency")
    rows = []
    for score in scores:
        row = [score]
        for name, paper in zip(measures, published.CHAOSNLI.get(score, ("", "")), strict=True):
            own = [found.get((who, score)) for who in features]
            row += [paper, *(plus_minus(cell, name) if cell else "" for cell in own)]
        rows.append(row)
    headings = ["score"] + [f"{name}, {who}" for name in measures for who in ("paper", *features)]
    return markdown(headings, rows) if rows else ""


PAGES: dict[str, Callable[[Sequence[Cell]], list[str]]] = {
    "synthetic": synthetic_page,
    "chaosnli": chaosnli_page,
    "cifar10h": real_page,
}
