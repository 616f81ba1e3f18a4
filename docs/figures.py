"""Draw the pictures of the documentation.

``python docs/figures.py`` writes ``docs/regions/img`` and ``docs/img``.

The region pages show the sets that `figures` lists; before a set is drawn, the area inside its
outline is compared with `CredalSet.volume`. The pages in `PAGES` show what their own code draws:
their examples are run from top to bottom, and wherever a page shows a picture, the axes made since
the last one are saved under its name. `PICTURES` are drawn here, and what their captions say is
checked. Needs the extra ``plot``.
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
#: pages whose code draws pictures; one that several show is drawn by the first
PAGES = ("plotting", "getting-started", "votes", "llm-judges", "decisions", "ordinal")
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


def pictures_of(name: str) -> list[str]:
    """Names of the pictures that a page shows."""
    return PICTURE.findall((DOCS / f"{name}.md").read_text(encoding="utf-8"))


def drawn_by(name: str) -> dict[str, Any]:
    """Figures of a page, by file name: each is what the code before it drew last."""
    import matplotlib.pyplot as plt

    parser = doctest.DocTestParser()
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    found = {}
    start = 0
    for picture in PICTURE.finditer(page):
        for example in parser.get_examples(page[start : picture.start()]):
            exec(compile(example.source, f"{name}.md", "single"), scope)
        drawn = [scope.pop(each) for each in ("axes", "ax") if each in scope]
        if drawn:
            found[picture.group(1)] = np.ravel(drawn[0])[0].get_figure()
        start = picture.end()
    plt.close("all")  # figures stay, but no longer wait for a window
    return found


#: numbers of votes in the picture of the home page, and how many labels are possible with them
HERO = {
    0: "no vote: three labels possible",
    3: "three votes: two possible",
    10: "ten votes: one label is left",
}
MESSAGE = 472  # among the new ones: nice and angry in one


def hero() -> Any:
    """The picture of the home page: one message, and its set with no vote, three and ten."""
    from matplotlib.figure import Figure
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    data = cs.datasets.make_messages(2000, n_votes=50, random_state=0)
    learner = make_pipeline(TfidfVectorizer(), cs.SoftLabelClassifier(LogisticRegression(C=10)))
    few = first_votes(data, slice(0, 60), 5)  # the model has seen little, so that votes matter
    prediction = learner.fit(data.texts[:60], few).predict_proba(data.texts)
    crowd = cs.DirichletCrowd().fit(prediction[400:700], data.counts[400:700])
    calibration = crowd.conformalize(prediction[700:1500], data.counts[700:1500], in_hand=HERO)
    new = slice(1500, 2000)
    item = 1500 + MESSAGE
    figure = Figure(figsize=(8.4, 3.35), facecolor="white")
    sizes = []
    for axes, (number, title) in zip(figure.subplots(1, 3), HERO.items(), strict=True):
        hand = first_votes(data, new, number)
        sets = calibration.predict_set(prediction[new], alpha=0.1, votes=hand)
        covered = sets.contains((data.counts[new] - hand) / (50 - number))
        assert 0.86 < covered.mean() < 0.94, "the caption says 90 %"
        one = sets[[MESSAGE]]
        assert one.contains(data.distributions[[item]]).all(), "the caption says it holds the truth"
        words = ["no", "one", "two", "three"]
        assert words[len(one.labels()[0])] in title.partition(": ")[2], "the title counts labels"
        sizes.append(float(one.width()[0]))
        truth = data.distributions[item]
        cs.plotting.ternary(one, truth=truth, classes=data.classes, legend=False, ax=axes)
        axes.set_title(title, size=10, weight="bold", pad=12)
        said = ", ".join(
            f"{count:g} {name}"
            for name, count in zip(data.classes, hand[MESSAGE], strict=True)
            if count
        )
        place = {"transform": axes.transAxes, "ha": "center", "va": "top", "size": 8.5}
        axes.text(0.5, -0.1, said or "the model alone", **place)
    assert sizes[0] > 1.3 * sizes[1] > 1.7 * sizes[2], "each set is clearly smaller"
    handles, labels = axes.get_legend_handles_labels()
    names = {
        "credal set": "credal set, 90 % coverage",
        "prediction": "what is expected",
        "truth": "what the whole crowd would say",
    }
    texts = [names.get(label, label) for label in labels]
    figure.legend(handles, texts, loc="lower center", ncols=4, frameon=False, fontsize=9.5)
    figure.suptitle(f"“{data.texts[item]}”", size=11, style="italic", y=0.99)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.76, bottom=0.2, wspace=0.06)
    return figure


def first_votes(data: Any, rows: slice, number: int) -> Any:
    """Counts of the first votes on each item."""
    some = data.labels[rows, :number]
    return np.stack([(some == name).sum(axis=1) for name in data.classes], axis=1)


def score_shapes() -> Any:
    """One prediction, and its set by each of six scores, all calibrated for 80 % coverage."""
    from matplotlib.figure import Figure

    data = cs.datasets.make_synthetic(1500, n_classes=3, n_votes=50, random_state=3)
    prediction = 0.75 * data.distributions + 0.25 * np.roll(data.distributions, 1, axis=1)
    one = prediction[[1004]]
    figure = Figure(figsize=(8.4, 4.6), facecolor="white")
    names = ("kl", "tv", "brier", "hellinger", "ws", "inner")
    for axes, name in zip(figure.subplots(2, 3).flat, names, strict=True):
        calibration = cs.conformalize(prediction[:1000], data.counts[:1000], name)
        sets = calibration.predict_set(prediction[1000:], alpha=0.2)
        covered = sets.contains(data.counts[1000:] / 50).mean()
        assert 0.74 < covered < 0.86, f"{name} covers {covered}, not about 80 %"
        mine = calibration.predict_set(one, alpha=0.2)
        check_outlines(mine)
        cs.plotting.ternary(mine, classes=("1", "2", "3"), title=name, legend=False, ax=axes)
        axes.title.set_size(9.5)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.92, bottom=0.04, wspace=0.05, hspace=0.3)
    return figure


def coverage_spread() -> Any:
    """Coverage of 400 calibrations on 500 items each, and the distribution that the guide gives."""
    from matplotlib.figure import Figure
    from scipy.stats import beta

    generator = np.random.default_rng(0)
    seen = []
    for _ in range(400):
        truth = generator.dirichlet([1, 1, 1], 2500)
        prediction = 0.9 * truth + 0.1 / 3
        votes = generator.multinomial(10, truth)
        calibration = cs.conformalize(prediction[:500], votes[:500], "tv")
        sets = calibration.predict_set(prediction[500:], alpha=0.1)
        seen.append(float(cs.metrics.coverage(sets, votes[500:])))
    low, high = calibration.coverage_distribution(alpha=0.1).interval(0.95)
    inside = np.mean([low <= each <= high for each in seen])
    assert 0.9 < inside < 0.985, f"{inside:.3f} of the calibrations lie in the interval of 95 %"
    axes = Figure(figsize=(6.4, 2.5), facecolor="white", layout="constrained").subplots()
    axes.hist(seen, bins=28, density=True, color=("#009E73", 0.45), edgecolor="#009E73", lw=0.6)
    line = np.linspace(0.85, 0.95, 300)
    density = beta.pdf(line, 451, 50)
    axes.plot(line, density, color="black", lw=1.2, label="what is proved")
    axes.axvspan(low, high, color="0.9", zorder=0, label="95 % of the calibrations")
    axes.axvline(0.9, color="0.3", ls=(0, (4, 2)), lw=0.8)
    axes.set(xlabel="coverage of one calibration on 500 items, α = 0.1", yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    return axes.get_figure()


#: pictures that are drawn here
PICTURES = {"hero": hero, "score-shapes": score_shapes, "coverage-spread": coverage_spread}


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
    wanted = set(options.names)
    for name, make in PICTURES.items():
        if not wanted or name in wanted:
            save(make(), options.out / "img" / f"{name}.{options.format}")
    for name, panels in regions.items():
        if not wanted or name in wanted:
            save(draw(panels), options.out / "regions" / "img" / f"{name}.{options.format}")
    done: set[str] = set()
    for page in PAGES:
        if not wanted or wanted & set(pictures_of(page)) - done:
            for name, figure in drawn_by(page).items():
                if name not in done and (not wanted or name in wanted):
                    save(figure, options.out / "img" / f"{name}.{options.format}")
                    done.add(name)


if __name__ == "__main__":
    main()
