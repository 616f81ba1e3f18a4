"""Every figure of the paper, in its order: ``python -m reproduction figures``.

The figures are drawn from the results that the experiments left in the output folder, in the style
of the paper (its colours and marks) or in that of this library, as PDF, SVG and PNG.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from credalset._files import write_file
from credalset.datasets import ChaosNLI
from credalset.plotting import style, ternary, ternary_grid, uncertainty_map, violins
from credalset.scores import TotalVariation
from credalset.sets.credal_set import CredalSet
from reproduction.batch import Row, features_of, pick
from reproduction.measure import score_named
from reproduction.published import INTRO_PAIRS, SHOWN_EFFICIENCY, SHOWN_PAIRS

STYLES = ("paper", "house")
FORMATS = ("pdf", "svg", "png")
DPI = 110
#: the scores of the paper, in its order
TITLES = {"tv": "TV", "kl": "KL", "ws": "WS", "inner": "Inner", "so": "SO"}
PARTS = ("first-order", "second-order")
CORNERS = ("e", "n", "c")  # entailment, neutral and contradiction
CAPTION = 8.0  # points
#: the paper's colours and marks: green sets, orange squares, red squares for votes
PAPER: Mapping[str, Any] = {
    "GREEN": "#39AC73",
    "DARK_GREEN": "#39AC73",
    "ORANGE": "#FF9900",
    "TRUTH": style.TRUTH | {"color": "#FF9900"},
    "VOTES": style.VOTES | {"color": "#FF0000", "marker": "s", "markersize": 5.0},
}


@dataclass(frozen=True)
class Results:
    """What the experiments left: rows and examples by experiment, and the sentence pairs."""

    rows: Mapping[str, Sequence[Row]]
    examples: Mapping[str, Sequence[Row]]
    pairs: ChaosNLI | None = None


def draw_all(results: Results, folder: Path, look: str) -> tuple[list[str], list[str]]:
    """Draw what can be drawn; return the names of the figures, and of those that lack results."""
    from matplotlib import use

    use("Agg")
    drawn, missing = [], []
    with _in_style(look):
        for number, (name, (experiment, draw)) in enumerate(FIGURES.items(), start=1):
            if experiment and not results.rows.get(experiment):
                missing.append(f"{name} (run the experiment {experiment} first)")
                continue
            figure = draw(results)
            stem = f"{number:02}-{name}"
            for form in FORMATS:
                write_file(folder / f"{stem}.{form}", _file(figure, form))
            drawn.append(stem)
    if drawn:
        write_file(folder / "contact-sheet.png", _contact_sheet(folder, drawn))
    return drawn, missing


@contextmanager
def _in_style(look: str) -> Iterator[None]:
    """Give marks and sets the colours of the paper for a while."""
    before = {name: getattr(style, name) for name in PAPER}
    try:
        for name, value in PAPER.items() if look == "paper" else ():
            setattr(style, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(style, name, value)


# --- illustrations ---


def credal_sets(results: Results) -> Any:
    """A single distribution, partial knowledge, and complete ignorance."""
    figure, axes = _panels(1, 3, 6.8, 2.1)
    center = np.array([[0.25, 0.4, 0.35]])
    titles = ("precise", "partial knowledge", "ignorance")
    for ax, radius, title in zip(axes, (0.0, 0.15, np.inf), titles, strict=True):
        ternary(
            TotalVariation().region(center, radius),
            prediction=radius == 0.0,
            title=title,
            classes=("$y_1$", "$y_2$", "$y_3$"),
            legend=False,
            ax=ax,
        )
    return figure


def intro_pairs(results: Results) -> Any:
    """Two pairs of sentences beside each other, their votes and their sets."""
    rows = pick(_of_pairs(results, INTRO_PAIRS), score="kl")
    figure, axes = _panels(1, 4, 9.0, 2.1, ratios=[2.0, 1.3, 2.0, 1.3])
    sets = _sets(rows)
    for i, row in enumerate(rows):
        _write_pair(axes[2 * i], results.pairs, row, width=42)
        _triangle(axes[2 * i + 1], sets[i], np.array(row["label"]), "")
    figure.supxlabel(_legend("KL, ", rows), fontsize=CAPTION)
    return figure


def three_pairs(results: Results) -> Any:
    """Three pairs of sentences with five scores; below, our efficiency and the paper's."""
    rows = _of_pairs(results, SHOWN_PAIRS)
    figure, axes = _panels(3, 1 + len(TITLES), 9.4, 1.65, ratios=[2.6, *[1.3] * len(TITLES)])
    lines = axes.reshape(3, -1)
    for column, (score, title) in enumerate(TITLES.items(), start=1):
        own = pick(rows, score=score)
        sets = _sets(own)
        sizes = sets.efficiency()
        lines[0, column].set_title(title, fontsize=9)
        for i, row in enumerate(own):
            below = f"{sizes[i]:.2f} ({SHOWN_EFFICIENCY[score][i]})"
            _triangle(lines[i, column], sets[i], np.array(row["label"]), below)
            if column == 1:
                _write_pair(lines[i, 0], results.pairs, row, width=46)
    figure.supxlabel(_legend("efficiency (the paper's); ", rows), fontsize=CAPTION)
    return figure


def _of_pairs(results: Results, pairs: Sequence[str]) -> list[Row]:
    rows = [row for row in _nli(results.examples["chaosnli"]) if row["name"] in pairs]
    return sorted(rows, key=lambda row: pairs.index(row["name"]))


def _nli(rows: Sequence[Row]) -> list[Row]:
    """Return what comes from the paper's learners with one kind of features, the best if there."""
    own = [row for row in rows if row["part"].endswith(PARTS)]
    kinds = {features_of(row) for row in own}
    features = next(name for name in ("deberta", "roberta", "minilm") if name in kinds)
    return [row for row in own if features_of(row) == features]


def _legend(start: str, rows: Sequence[Row]) -> str:
    marks = "green: credal set; orange: votes of 100 people; black dot or contours: prediction"
    corners = "corners: e entailment, n neutral, c contradiction"
    return f"{start}{_level(rows)}; {corners}\n{marks}"


def _write_pair(ax: Any, pairs: ChaosNLI | None, row: Row, width: int) -> None:
    ax.axis("off")
    ax.text(0.0, 0.5, _pair_text(pairs, row, width), va="center", fontsize=7, linespacing=1.25)


def _pair_text(pairs: ChaosNLI | None, row: Row, width: int) -> str:
    label = ", ".join(f"{share:.2f}" for share in row["label"])
    if pairs is None:
        return f"{row['name']}\nTrue dist.: [{label}]"
    place = pairs.uid.tolist().index(row["name"])
    texts = {"Premise": pairs.premises[place], "Hypothesis": pairs.hypotheses[place]}
    told = [fill(f"{name}: {' '.join(text.split())}", width) for name, text in texts.items()]
    return "\n".join([*told, f"True dist.: [{label}]"])


def _triangle(ax: Any, one: CredalSet, truth: Any, below: str) -> None:
    """One set with its marks, second-order predictions with their contours."""
    from credalset.plotting import dirichlet_contours

    is_first = one.score.order == "first"
    ternary(one, truth=truth, prediction=is_first, classes=CORNERS, legend=False, ax=ax)
    if one.score.order == "second":
        dirichlet_contours(one.prediction[0], levels=(0.1, 0.3, 0.5, 0.7, 0.9), ax=ax)
    ax.text(0.5, -0.06, below, transform=ax.transAxes, ha="center", va="top", fontsize=8)


def more_votes(results: Results) -> Any:
    """The sets of one item as votes are added."""
    examples = results.examples["synthetic"]
    items = sorted({row["item"] for row in examples})
    chosen = [
        row
        for row in pick(examples, item=items[len(items) // 2])
        if row["score"] in TITLES and row["part"] in PARTS
    ]
    columns = {
        title: sorted(own, key=lambda row: row["n_votes"])
        for score, title in TITLES.items()
        if (own := pick(chosen, score=score))
    }
    first = next(iter(columns.values()))
    axes = ternary_grid(
        {title: _sets(rows) for title, rows in columns.items()},
        truth=np.array([row["truth"] for row in first]),
        votes=np.array([row["label"] for row in first]),
        row_labels=[f"m = {row['n_votes']}" for row in first],
    )
    figure = axes[0, 0].get_figure()
    figure.text(0.01, 0.015, _level(first), fontsize=9)
    return figure


# --- violins ---


def chaosnli_violins(results: Results) -> Any:
    """Coverage and efficiency of the five scores at every level."""
    own = _titled([row for row in _nli(results.rows["chaosnli"]) if row["score"] in TITLES])
    figure, axes = _panels(2, 1, 8.0, 2.5)
    for ax, column in zip(axes, ("coverage", "efficiency"), strict=True):
        violins(own, x="score", y=column, hue="alpha", legend=column == "coverage", ax=ax)
        ax.set_xlabel("")
    return figure


def synthetic_tv(results: Results) -> Any:
    """Coverage and quantile of TV by classes and votes."""
    return _by_classes(results, ["tv"])


def synthetic_all(results: Results) -> Any:
    """Coverage and quantile of the four first-order scores."""
    return _by_classes(results, ["tv", "kl", "ws", "inner"])


def _by_classes(results: Results, scores: Sequence[str]) -> Any:
    rows = pick(results.rows["synthetic"], part="first-order", alpha=0.1)
    columns = {
        "coverage": "coverage of the votes",
        "coverage_true": "coverage of the truth",
        "threshold": "quantile of the scores",
    }
    figure, axes = _panels(len(scores), 3, 11.0, 2.2)
    axes = axes.reshape(len(scores), -1)
    for line, score in zip(axes, scores, strict=True):
        for ax, (column, title) in zip(line, columns.items(), strict=True):
            violins(
                pick(rows, score=score),
                x="n_classes",
                y=column,
                hue="n_votes",
                legend=column == "threshold" and score == scores[0],
                ax=ax,
            )
            ax.set(xlabel="classes K", ylabel=f"{TITLES[score]}: {title}")
            ax.yaxis.label.set_size(8)
    for place in (0, 1):
        _share_y(axes[:, place])
    return figure


def three_classes(results: Results) -> Any:
    """Coverage and efficiency of all five scores for K = 3, a row for each number of votes."""
    rows = [
        row
        for row in pick(results.rows["synthetic"], n_classes=3)
        if row["score"] in TITLES and row["part"] in PARTS
    ]
    votes = sorted({row["n_votes"] for row in rows})
    columns = {
        "coverage": "coverage of the votes",
        "coverage_true": "coverage of the truth",
        "efficiency": "efficiency",
    }
    figure, axes = _panels(len(votes), 3, 11.0, 2.1)
    for line, n_votes in zip(axes.reshape(len(votes), -1), votes, strict=True):
        own = _titled(pick(rows, n_votes=n_votes))
        for ax, (column, title) in zip(line, columns.items(), strict=True):
            is_first = n_votes == votes[0] and column == "efficiency"
            violins(own, x="score", y=column, hue="alpha", legend=is_first, ax=ax)
            ax.set(xlabel="", ylabel=f"m = {n_votes}: {title}")
            ax.yaxis.label.set_size(8)
    for place in (0, 2):  # coverage of the truth by one vote would hide all other differences
        _share_y(axes.reshape(len(votes), -1)[:, place])
    return figure


def training_size(results: Results) -> Any:
    """Thresholds by number of training items, labels without noise."""
    rows = pick(results.rows["synthetic"], part="training-size", n_votes=0, alpha=0.1)
    own = _titled([row for row in rows if row["score"] in TITLES])
    figure, (ax,) = _panels(1, 1, 8.0, 2.8)
    violins(own, x="n_train", y="threshold", hue="score", ax=ax)
    ax.set_xlabel("training items")
    return figure


def cifar10h_maps(results: Results) -> Any:
    """Aleatoric against epistemic uncertainty of test images, as in the later version."""
    examples = results.examples["cifar10h"]
    groups = {name: pick(examples, score=name) for name in ("tv", "kl", "normalized-kl")}
    shown = {name: rows for name, rows in groups.items() if rows}
    figure, panels = _panels(1, len(shown), 9.6, 3.2)
    for ax, (name, rows) in zip(panels, shown.items(), strict=True):
        shares = np.array([row["label"] for row in rows]).max(axis=1)
        uncertainty_map(
            _sets(rows, 0.1), color=shares, color_label="largest share of the votes", ax=ax
        )
        plain = TITLES[name.removeprefix("normalized-")]
        ax.set_title(f"{'normalised ' * (plain != TITLES.get(name))}{plain}", fontsize=9)
    for ax in panels[:-1]:  # the images are the same in all panels, and so are their colours
        for bar in [cloud.colorbar for cloud in ax.collections if cloud.colorbar is not None]:
            bar.remove()
    return figure


# --- shared ---


def _share_y(axes: Sequence[Any]) -> None:
    """Give panels below each other one scale, so that they can be compared."""
    ends = np.array([ax.get_ylim() for ax in axes])
    for ax in axes:
        ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def _titled(rows: Sequence[Row]) -> list[Row]:
    """Name the scores as the paper does, in its order."""
    order = list(TITLES)
    ranked = sorted(rows, key=lambda row: order.index(row["score"]))
    return [{**row, "score": TITLES[row["score"]]} for row in ranked]


def _level(rows: Sequence[Row]) -> str:
    return f"α = {rows[0]['alpha']:g}"


def _sets(rows: Sequence[Row], offset: float = 0.0) -> CredalSet:
    """Build the sets again from stored predictions and thresholds."""
    score = score_named(rows[0]["score"], offset)
    prediction = np.array([row["prediction"] for row in rows])
    return score.region(prediction, np.array([row["threshold"] for row in rows]))


def _panels(
    n_rows: int,
    n_columns: int,
    width: float,
    height: float,
    ratios: Sequence[float] | None = None,
) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, width_ratios=ratios)
    return figure, axes.ravel()


def _file(figure: Any, form: str) -> bytes:
    """Save a figure without dates, so that equal figures are equal files."""
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=DPI, metadata=metadata[form])
    return buffer.getvalue()


def _contact_sheet(folder: Path, stems: Sequence[str]) -> bytes:
    """All figures on one page."""
    from matplotlib.image import imread

    figure, axes = _panels(-(-len(stems) // 2), 2, 14.0, 4.2)
    for ax in axes:
        ax.axis("off")
    for ax, stem in zip(axes, stems, strict=False):
        ax.imshow(imread(folder / f"{stem}.png"))
        ax.set_title(stem, fontsize=9)
    return _file(figure, "png")


#: figures in the paper's order: the experiment that each needs, and the function that draws it; the
#: last two belong to the later version and to the authors' code
FIGURES: dict[str, tuple[str, Callable[[Results], Any]]] = {
    "credal-sets": ("", credal_sets),
    "chaosnli-two-pairs": ("chaosnli", intro_pairs),
    "chaosnli-three-pairs": ("chaosnli", three_pairs),
    "chaosnli-violins": ("chaosnli", chaosnli_violins),
    "synthetic-tv": ("synthetic", synthetic_tv),
    "synthetic-all-scores": ("synthetic", synthetic_all),
    "synthetic-more-votes": ("synthetic", more_votes),
    "synthetic-three-classes": ("synthetic", three_classes),
    "cifar10h-maps": ("cifar10h", cifar10h_maps),
    "synthetic-training-size": ("synthetic", training_size),
}
