"""Pictures of the results, drawn by `credalset.plotting` (extra ``plot``)."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credalset._files import write_file
from credalset.datasets.published import NLI_CLASSES
from credalset.plotting import ternary_grid, uncertainty_map, violins
from credalset.sets.credal_set import CredalSet
from reproduction.batch import Row, features_of, pick, plain_name
from reproduction.measure import FIRST_ORDER, score_named

DPI = 110
#: names of the scores that are shown one by one; normalised ones only appear among others
TITLES = {"tv": "TV", "ws": "WS", "kl": "KL", "inner": "Inner", "so": "SO", "density": "Density"}


def draw(
    name: str, rows: Sequence[Row], examples: Sequence[Row], folder: Path, *, quick: bool
) -> list[Path]:
    """Draw the figures of an experiment as PNGs; raises `MissingExtraError` without matplotlib.

    ``quick`` leaves out what takes longest to draw, the sets of second-order predictions.
    """
    from matplotlib import use

    use("Agg")
    drawn = []
    shown = [row for row in examples if not quick or row["score"] in FIRST_ORDER]
    for stem, figure in FIGURES[name](rows, shown):
        path = folder / f"{name}-{stem}.png"
        write_file(path, _png(figure))
        drawn.append(path)
    return drawn


def _synthetic(rows: Sequence[Row], examples: Sequence[Row]) -> list[tuple[str, Any]]:
    shown = [row for row in pick(rows, alpha=0.1) if row["score"] in TITLES]
    first = pick(shown, part="first-order")
    figures = [
        ("coverage", _violins_by_class(first, "coverage")),
        ("coverage-true", _violins_by_class(first, "coverage_true")),
        ("thresholds", _violins_by_class(first, "threshold")),
        ("volumes", _violins_by_class(first, "volume")),
    ]
    exact = pick(shown, part="training-size", n_votes=0)
    if exact:
        title = f"{_level(exact)}, K = 3, labels without noise"
        figures.append(
            ("training-size", _one_violin(exact, "n_train", "threshold", "score", title))
        )
    votes, items = (sorted({row[name] for row in examples}) for name in ("n_votes", "item"))
    if items:  # one instance, more and more votes: the rows of the paper's figure
        chosen = pick(examples, item=items[len(items) // 2])
        figures.append(("sets", _triangles(chosen, "n_votes", [f"m = {m}" for m in votes])))
    return figures


def _chaosnli(rows: Sequence[Row], examples: Sequence[Row]) -> list[tuple[str, Any]]:
    figures = []
    for features in dict.fromkeys(map(features_of, rows)):
        own, shown = (
            [row for row in some if features_of(row) == features] for some in (rows, examples)
        )
        stem = plain_name(features)
        columns = ("coverage", "efficiency")
        figures += [
            (f"{stem}-{column}", _one_violin(own, "score", column, "alpha")) for column in columns
        ]
        if shown:
            figures.append(
                (
                    f"{stem}-sets",
                    _triangles(shown, "item", ["clear", "middling", "disputed"], NLI_CLASSES),
                )
            )
    return figures


def _cifar10h(rows: Sequence[Row], examples: Sequence[Row]) -> list[tuple[str, Any]]:
    figures = [("coverage", _one_violin(pick(rows, part="prefit"), "score", "coverage", "alpha"))]
    groups = {name: pick(examples, score=name) for name in ("tv", "kl", "normalized-kl")}
    if any(groups.values()):
        figures.append(("maps", _maps({name: own for name, own in groups.items() if own})))
    return figures


def _violins_by_class(rows: Sequence[Row], column: str) -> Any:
    """One panel per score: the number of classes across, the number of votes in colour."""
    scores = list(dict.fromkeys(row["score"] for row in rows))
    figure, panels = _panels(
        -(-len(scores) // 2), 2, 8.0, 2.2, share_y=column.startswith("coverage")
    )
    for i, (ax, score) in enumerate(zip(panels, scores, strict=False)):
        violins(
            pick(rows, score=score), x="n_classes", y=column, hue="n_votes", legend=i == 1, ax=ax
        )
        ax.set_title(TITLES[score], fontsize=9)
        if i < len(scores) - 2:
            ax.set_xlabel("")
    figure.suptitle(_level(rows), fontsize=9)
    return figure


def _one_violin(rows: Sequence[Row], x: str, y: str, hue: str, title: str = "") -> Any:
    figure, (ax,) = _panels(1, 1, 8.0, 2.8)
    violins([{**row, "score": _title(row["score"])} for row in rows], x=x, y=y, hue=hue, ax=ax)
    ax.set_title(title, fontsize=9)
    if x == "n_train":
        ax.set_xlabel("training items")
    if x == "score":
        ax.set_xticks(
            ax.get_xticks(),
            [label.get_text() for label in ax.get_xticklabels()],
            rotation=20,
            ha="right",
        )
    return figure


def _maps(groups: dict[str, list[Row]]) -> Any:
    figure, panels = _panels(1, len(groups), 9.6, 3.2)
    for ax, (name, rows) in zip(panels, groups.items(), strict=True):
        label = np.array([row["label"] for row in rows])
        uncertainty_map(
            _sets(rows, 0.1),
            color=label.max(axis=1),
            color_label="largest share of the votes",
            ax=ax,
        )
        ax.set_title(f"{_title(name)}, {_level(rows)}", fontsize=9)
    for ax in panels[:-1]:  # the images are the same in all panels, and so are their colours
        for bar in [cloud.colorbar for cloud in ax.collections if cloud.colorbar is not None]:
            bar.remove()
    return figure


def _triangles(
    rows: Sequence[Row], down: str, labels: Sequence[str], classes: Sequence[str] | None = None
) -> Any:
    """One column per score, one line per value of ``down``."""
    scores = [name for name in TITLES if any(row["score"] == name for row in rows)]
    # Items go from the surest annotators to the least sure.
    place = (lambda r: -max(r["label"])) if down == "item" else (lambda r: r[down])
    by_score = {score: sorted(pick(rows, score=score), key=place) for score in scores}
    columns = {TITLES[score]: _sets(own, 0.0) for score, own in by_score.items()}
    own = by_score[scores[0]]
    label = np.array([row["label"] for row in own])
    truth = None if own[0]["truth"] is None else np.array([row["truth"] for row in own])
    axes = ternary_grid(columns, truth=truth, votes=label, row_labels=labels, classes=classes)
    for panels, sets in zip(axes.T, columns.values(), strict=True):
        _point_out_corners(panels, sets)
    figure = axes[0, 0].get_figure()
    figure.text(0.01, 0.015, _level(rows), fontsize=9)
    return figure


def _point_out_corners(panels: Sequence[Any], sets: CredalSet) -> None:
    """Say it where a set is so small around the corners that it cannot be seen."""
    has_corner = np.any(
        [sets.contains(np.tile(corner, (len(sets), 1))) for corner in np.eye(3)], axis=0
    )
    for ax, is_hidden in zip(panels, has_corner & (sets.efficiency() < 0.002), strict=True):
        if is_hidden:
            ax.text(
                0.5,
                0.42,
                "corners\nonly",
                transform=ax.transAxes,
                ha="center",
                va="center",
                fontsize=7,
            )


def _title(score: str) -> str:
    """Write the name of a score as all figures do.

    Examples
    --------
    >>> _title("normalized-kl")
    'normalised KL'
    """
    plain = score.removeprefix("normalized-")
    return TITLES[plain] if plain == score else f"normalised {TITLES[plain]}"


def _level(rows: Sequence[Row]) -> str:
    return f"α = {rows[0]['alpha']:g}"


def _sets(rows: Sequence[Row], offset: float) -> CredalSet:
    """Build the sets again from stored predictions and thresholds."""
    score = score_named(rows[0]["score"], offset)
    prediction = np.array([row["prediction"] for row in rows])
    return score.region(prediction, np.array([row["threshold"] for row in rows]))


def _panels(
    n_rows: int, n_columns: int, width: float, height: float, share_y: bool = False
) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharey=share_y).ravel()


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


Draw = Callable[[Sequence[Row], Sequence[Row]], list[tuple[str, Any]]]
FIGURES: dict[str, Draw] = {"synthetic": _synthetic, "chaosnli": _chaosnli, "cifar10h": _cifar10h}
