"""Results as Markdown, for the documentation: our numbers, beside the paper's if any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from reproduction import published
from reproduction.batch import Row, features_of, pick
from reproduction.tables import full_table, grid_table, pivot, plus_minus, text_of, volume_text

ALPHA = 0.1  # level of the synthetic tables


def synthetic_page(cells: Sequence[Row]) -> list[str]:
    """Coverage, thresholds and volumes by classes and votes; training-set size; second order."""
    first, size = (pick(cells, part=part, alpha=ALPHA) for part in ("first-order", "training-size"))
    others = [cell for cell in cells if cell["part"] not in ("first-order", "training-size")]
    by_votes = partial(pivot, first, "n_votes", down=["score", "n_classes"])
    by_votes_second = partial(pivot, others, "n_votes", down=["part", "score", "alpha"])
    by_size = partial(pivot, size, "n_train", down=["score", "n_votes"])
    head = f"First order, α = {ALPHA:g}"
    head_size = f"Training-set size, K = 3, α = {ALPHA:g}"
    efficiency = mean_of("efficiency")
    threshold = mean_of("threshold")
    sections = {
        "coverage": (f"{head}: coverage of the votes / of the truth", by_votes(both)),
        "threshold": (f"{head}: threshold", by_votes(threshold)),
        "volume": (f"{head}: mean volume of a set", by_votes(volume_text)),
        "efficiency": ("Efficiency for K = 3, α = 0.05: ours / paper", _efficiency_table(cells)),
        "second": (
            "Second order, K = 3: coverage of the votes / of the truth",
            by_votes_second(both),
        ),
        "second-efficiency": ("Second order, K = 3: efficiency", by_votes_second(efficiency)),
        "size": (f"{head_size}: threshold of TV", _size_table(size)),
        "size-threshold": (
            f"{head_size}: threshold (m = 0: labels without noise)",
            by_size(threshold),
        ),
        "size-efficiency": (
            f"{head_size}: efficiency (m = 0: labels without noise)",
            by_size(efficiency),
        ),
    }
    return [
        text for name, (title, table) in sections.items() for text in section(name, title, table)
    ]


def chaosnli_page(cells: Sequence[Row]) -> list[str]:
    """The paper's table at α = 0.25 beside ours, then everything."""
    return section("paper", "α = 0.25", _chaosnli_table(cells)) + real_page(cells)


def real_page(cells: Sequence[Row]) -> list[str]:
    """One table per part with every score and level."""
    page = []
    for part in dict.fromkeys(cell["part"] for cell in cells):
        chosen = pick(cells, part=part)
        title = f"{part}, {chosen[0]['n_train']} training items, {chosen[0]['n_seeds']} splits"
        page += section(part.replace(" ", "-"), title, full_table(chosen))
    return page


def both(cell: Row) -> str:
    """Write the coverage of votes and of the truth; what falls short is set in bold."""
    votes = f"{cell['coverage']:.3f}"
    truth = f"{cell['coverage_true']:.3f}"
    votes = f"**{votes}**" if cell["verdict"] == "low" else votes
    return f"{votes} / " + (f"**{truth}**" if cell["truth_verdict"] == "short" else truth)


def mean_of(name: str) -> Callable[[Row], str]:
    """Return a function that writes the mean of a column."""
    return lambda cell: text_of(cell[name])


def section(name: str, title: str, text: str) -> list[str]:
    """Give a text its heading, between marks by which a page can include it; no text, nothing."""
    body = f"### {title}\n\n{text}" if title else text
    return (
        [f"<!-- --8<-- [start:{name}] -->\n{body}\n\n<!-- --8<-- [end:{name}] -->"] if text else []
    )


def _efficiency_table(cells: Sequence[Row]) -> str:
    """The paper shows one instance; ours is the mean over all test items and seeds."""
    chosen = [
        cell
        for cell in pick(cells, n_classes=3, alpha=0.05)
        if cell["score"] in published.SYNTHETIC_EFFICIENCY
    ]
    paper = published.SYNTHETIC_EFFICIENCY

    def text(cell: Row) -> str:
        return f"{text_of(cell['efficiency'])} / {paper[cell['score']].get(cell['n_votes'], '–')}"

    return pivot(chosen, "n_votes", text, down=["score", "part"])


def _size_table(cells: Sequence[Row]) -> str:
    names = {0: "ours, labels without noise", 100: "ours, 100 votes"}
    own = pick(cells, score="tv")
    rows: dict[tuple[str], dict[str, Any]] = {
        ("paper, one run",): {},
        **{(name,): {} for name in names.values()},
    }
    for cell in own:
        n = cell["n_train"]
        rows["paper, one run",][str(n)] = published.TV_THRESHOLD.get(n)
        rows[names[cell["n_votes"]],][str(n)] = plus_minus(cell, "threshold")
    return grid_table(["training items"], rows) if own else ""


def _chaosnli_table(cells: Sequence[Row]) -> str:
    rows: dict[tuple[str], dict[str, str]] = defaultdict(dict)
    chosen = pick(cells, alpha=0.25)
    for place, name in enumerate(("coverage", "efficiency")):
        for score, paper in published.CHAOSNLI.items() if chosen else ():
            rows[score,][f"{name}, paper"] = paper[place]
        for cell in chosen:
            learner = cell["part"].rsplit(" ", 1)[1]
            label = cell["score"] + (", as published" if learner.endswith("published") else "")
            rows[label,][f"{name}, {features_of(cell)}"] = plus_minus(cell, name)
    return grid_table(["score"], rows)


PAGES: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "synthetic": synthetic_page,
    "chaosnli": chaosnli_page,
    "cifar10h": real_page,
}
