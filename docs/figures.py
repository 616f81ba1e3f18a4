"""Draw the pictures of the documentation.

``python docs/figures.py`` writes ``docs/regions/img`` and ``docs/img``.

The region pages show the sets that `figures` lists; before a set is drawn, the area inside its
outline is compared with `CredalSet.volume`. The gallery shows what its own code draws: the examples
of ``docs/plotting.md`` are run from top to bottom, and wherever the page shows a picture, the axes
made last are saved under its name. Needs the extra ``plot``.
"""

from __future__ import annotations

import argparse
import doctest
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import credalset as cs
import credalset.plotting
from credalset.scores import Brier
from credalset.sets.credal_set import CredalSet

DOCS = Path(__file__).parent
GALLERY = DOCS / "plotting.md"
PICTURE = re.compile(r"^!\[[^\]]*\]\(img/([\w-]+)\.svg\)", re.MULTILINE)


@dataclass(frozen=True)
class Panel:
    """One triangle: a title, and sets drawn over each other from the largest to the smallest."""

    title: str
    sets: CredalSet


def first_order(
    title: str, score: str | cs.scores.Score, prediction: list[float], thresholds: list[float]
) -> Panel:
    """The same prediction at several thresholds."""
    rows = np.tile(prediction, (len(thresholds), 1))
    return Panel(title, cs.get_score(score).region(rows, thresholds))


def dirichlets(title: str, mode: list[float], weights: list[float], threshold: float) -> Panel:
    """Dirichlet predictions with one mode and several weights, all at one threshold.

    It is a threshold of the relative likelihood.
    """
    return Panel(title, cs.get_score("so").region(1.0 + np.outer(weights, mode), threshold))


def sided(title: str, prediction: list[list[float]], thresholds: list[float]) -> Panel:
    """Probability intervals at several thresholds: a distribution, half-widths below and above."""
    return Panel(
        title,
        cs.get_score("intervals").region(np.tile(prediction, (len(thresholds), 1, 1)), thresholds),
    )


def figures() -> dict[str, list[Panel]]:
    """Every picture of the region pages, by file name."""
    inside = [0.5, 0.3, 0.2]
    edge = [0.75, 0.2, 0.05]
    spread = cs.scores.Wasserstein(positions=(0, 1, 5))
    return {
        "total-variation": [
            first_order("r = 0.05, 0.1, 0.2", "tv", inside, [0.05, 0.1, 0.2]),
            first_order("near an edge, same radii", "tv", edge, [0.05, 0.1, 0.2]),
            first_order("r = 0.35 holds the centroid", "tv", inside, [0.35]),
        ],
        "wasserstein": [
            first_order("positions 0, 1, 2;  r = 0.1, 0.2, 0.4", "ws", inside, [0.1, 0.2, 0.4]),
            first_order("near an edge, same radii", "ws", edge, [0.1, 0.2, 0.4]),
            first_order("positions 0, 1, 5;  r = 0.2, 0.5, 1", spread, inside, [0.2, 0.5, 1.0]),
        ],
        "kullback-leibler": [
            first_order("t = 0.015, 0.06, 0.3 bits", "kl", inside, [0.015, 0.06, 0.3]),
            first_order("near an edge, same thresholds", "kl", edge, [0.015, 0.06, 0.3]),
            first_order("one class ruled out, t = 0.08", "kl", [0.6, 0.4, 0.0], [0.08]),
        ],
        "half-space": [
            first_order("t = 0.55, 0.61, 0.68", "inner", inside, [0.55, 0.61, 0.68]),
            first_order("confident, same thresholds", "inner", edge, [0.55, 0.61, 0.68]),
            first_order(
                "ambiguous, same thresholds", "inner", [0.41, 0.35, 0.24], [0.55, 0.61, 0.68]
            ),
        ],
        "reverse-kullback-leibler": [
            dirichlets("W = 10, 50, 200;  t = 2.3", inside, [10.0, 50.0, 200.0], 2.3),
            dirichlets("near an edge, same weights", edge, [10.0, 50.0, 200.0], 2.3),
            dirichlets("a concentration of one, W = 10, 50", [0.6, 0.4, 0.0], [10.0, 50.0], 2.3),
        ],
        "brier": [
            first_order("t = 0.005, 0.03, 0.12", "brier", inside, [0.005, 0.03, 0.12]),
            first_order("near an edge, same thresholds", "brier", edge, [0.005, 0.03, 0.12]),
            first_order("weights 1, 1, 6", Brier((1, 1, 6)), inside, [0.005, 0.03, 0.12]),
        ],
        "intervals": [
            sided(
                "wider below than above",
                [inside, [0.3, 0.2, 0.1], [0.2, 0.1, 0.1]],
                [0.3, 0.6, 1.0],
            ),
            sided(
                "near an edge, same sides",
                [edge, [0.3, 0.2, 0.1], [0.2, 0.1, 0.1]],
                [0.3, 0.6, 1.0],
            ),
            sided(
                "one class known closely",
                [inside, [0.25, 0.25, 0.03], [0.25, 0.25, 0.03]],
                [0.5, 1.0],
            ),
        ],
        "hellinger": [
            first_order("t = 0.003, 0.02, 0.08", "hellinger", inside, [0.003, 0.02, 0.08]),
            first_order("near an edge, same thresholds", "hellinger", edge, [0.003, 0.02, 0.08]),
            first_order(
                "one class ruled out, t = 0.02, 0.08", "hellinger", [0.6, 0.4, 0.0], [0.02, 0.08]
            ),
        ],
    }


def check_outlines(sets: CredalSet) -> None:
    """Compare the area inside each outline with the volume of the set."""
    from credalset.sets.outline import area, outline

    size, error = sets.volume(return_error=True)
    for one, volume, doubt in zip(sets, size, error, strict=True):
        assert abs(area(outline(one)) - volume) < 2e-4 + 5 * doubt, "outline and volume disagree"


def draw_panel(axes: Any, panel: Panel) -> None:
    """Draw sets, after a check of their outlines."""
    from credalset.plotting import ternary

    check_outlines(panel.sets[~panel.sets.is_empty()])
    ternary(panel.sets, classes=("1", "2", "3"), title=panel.title, legend=False, ax=axes)


def draw(panels: list[Panel]) -> Any:
    """One picture: a row of triangles with a common key."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.15), facecolor="white")
    rows = figure.subplots(1, len(panels))
    for axes, panel in zip(rows, panels, strict=True):
        draw_panel(axes, panel)
        axes.title.set_size(9.5)
    handles, labels = rows[0].get_legend_handles_labels()
    key = dict(zip(labels, handles, strict=True))
    names = {"credal set": "members", "prediction": "centre"}
    texts = [names.get(label, label) for label in key]
    figure.legend(key.values(), texts, loc="lower center", ncols=4, frameon=False, fontsize=9.5)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.86, bottom=0.14, wspace=0.08)
    return figure


def gallery() -> dict[str, Any]:
    """Figures of the gallery, by file name: each is what the code before it drew last."""
    parser = doctest.DocTestParser()
    page = GALLERY.read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    found = {}
    start = 0
    for picture in PICTURE.finditer(page):
        for example in parser.get_examples(page[start : picture.start()]):
            exec(compile(example.source, str(GALLERY), "single"), scope)
        drawn = scope.pop("axes", None)
        found[picture.group(1)] = np.ravel(scope["ax"] if drawn is None else drawn)[0].get_figure()
        start = picture.end()
    return found


#: messages of the picture on the home page, by their place among the new ones, and what their sets
#: say
HERO = {
    490: "accept: one label is left",
    461: "divided: people disagree",
    433: "ask: more votes will tell",
}


def hero() -> Any:
    """The picture of the home page.

    Three messages, what annotators said, and what the model does not rule out.
    """
    import textwrap

    from matplotlib.figure import Figure
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    data = cs.datasets.make_messages(2000, n_votes=50, random_state=0)
    learner = make_pipeline(TfidfVectorizer(), cs.SoftLabelClassifier(LogisticRegression(C=100)))
    prediction = learner.fit(data.texts[:1000], data.counts[:1000]).predict_proba(data.texts[1000:])
    sets = cs.conformalize(prediction[:500], data.counts[1000:1500], "kl").predict_set(
        prediction[500:], alpha=0.1
    )
    step = sets.queue().step
    figure = Figure(figsize=(8.4, 3.6), facecolor="white")
    for axes, (row, title) in zip(figure.subplots(1, 3), HERO.items(), strict=True):
        item = 1500 + row
        assert title.split(":")[0] == step[row]
        cs.plotting.ternary(
            sets[row], votes=data.counts[item], classes=data.classes, legend=False, ax=axes
        )
        axes.set_title(title, size=10, weight="bold", pad=42)
        words = "\n".join(textwrap.wrap(data.texts[item], 42))
        axes.text(
            0.5,
            1.09,
            words,
            transform=axes.transAxes,
            ha="center",
            va="bottom",
            size=8,
            style="italic",
        )
    handles, labels = axes.get_legend_handles_labels()
    names = {"credal set": "credal set, 90 % coverage", "votes": "what 50 annotators said"}
    texts = [names.get(label, label) for label in labels]
    figure.legend(handles, texts, loc="lower center", ncols=4, frameon=False, fontsize=9.5)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.75, bottom=0.12, wspace=0.06)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure, the same file every time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=200)


def main() -> None:
    """Draw all pictures, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="which pictures; all by default")
    parser.add_argument(
        "--out", type=Path, default=DOCS, help="folder to write regions/img and img into"
    )
    parser.add_argument("--format", default="svg", choices=["svg", "png"])
    options = parser.parse_args()
    import matplotlib as mpl

    mpl.use("Agg")
    warnings.simplefilter(
        "ignore", cs.CredalSetWarning
    )  # half-spaces of the gallery that are empty
    mpl.rcParams["svg.hashsalt"] = "credalset"  # the same file every time
    regions = figures()
    wanted = set(
        options.names or [*regions, "hero", *PICTURE.findall(GALLERY.read_text(encoding="utf-8"))]
    )
    if "hero" in wanted:
        save(hero(), options.out / "img" / f"hero.{options.format}")
    for name, panels in regions.items():
        if name in wanted:
            save(draw(panels), options.out / "regions" / "img" / f"{name}.{options.format}")
    if wanted - {*regions, "hero"}:
        for name, figure in gallery().items():
            if name in wanted:
                save(figure, options.out / "img" / f"{name}.{options.format}")


if __name__ == "__main__":
    main()
