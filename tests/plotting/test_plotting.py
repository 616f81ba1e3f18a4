"""Plots: what is drawn is what the sets say, nothing hides anything,
and wrong input opens no figure.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

import credalset as cs
from credalset import plotting
from credalset.plotting import style
from credalset.scores import InnerProduct, KullbackLeibler, RelativeLikelihood, TotalVariation
from credalset.sets.outline import outline, to_plane
from tests.sets.oracle import from_plane

TRIANGLE = [[0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]
SETS = TotalVariation().region(TRIANGLE, 0.1)
FOUR = TotalVariation().region([[0.25, 0.25, 0.25, 0.25]], 0.1)
SOME_EMPTY = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0], [0.6, 0.2, 0.2]], 0.5)


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(4.0, 3.5), layout="constrained").subplots()


def legend_of(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def line_named(ax: Axes, name: str) -> Any:
    (line,) = [line for line in ax.lines if line.get_label() == name]
    return line


def overlap(boxes: Sequence[Any]) -> int:
    """Number of pairs of boxes that share a point."""
    return sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def drawn(ax: Axes) -> Figure:
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    return figure


# --- ternary ---


def test_ternary_draws_the_set_and_every_mark(ax: Axes) -> None:
    sets = KullbackLeibler().region([[0.5, 0.3, 0.2]], 0.1)
    truth, votes = [0.4, 0.4, 0.2], [[3, 1, 1], [2, 2, 1]]
    assert plotting.ternary(sets, truth=truth, votes=votes, title="one", ax=ax) is ax
    (patch,) = [patch for patch in ax.patches if patch.get_label() == "credal set"]
    np.testing.assert_allclose(patch.get_path().vertices[:-1], to_plane(outline(sets)[0]))
    assert to_rgb(patch.get_facecolor()[:3]) == to_rgb(style.GREEN)
    for name, points in (
        ("prediction", sets.center),
        ("truth", [truth]),
        ("votes", [[0.6, 0.2, 0.2], [0.4, 0.4, 0.2]]),
    ):
        np.testing.assert_allclose(line_named(ax, name).get_xydata(), to_plane(np.array(points)))
    assert legend_of(ax) == ["credal set", "prediction", "truth", "votes"]
    assert ax.get_title() == "one"


def test_ternary_names_the_corners(ax: Axes) -> None:
    sets = TotalVariation().region([[0.5, 0.3, 0.2]], 0.1)
    plotting.ternary(sets, classes=["no", "maybe", "yes"], ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no", "maybe", "yes"]
    other = plotting.ternary(sets, ax=Figure().subplots())
    assert [text.get_text() for text in other.texts] == ["0", "1", "2"]
    known = plotting.ternary(
        dataclasses.replace(sets, classes=("a", "b", "c")), ax=Figure().subplots()
    )
    assert [text.get_text() for text in known.texts] == ["a", "b", "c"]


def test_several_sets_are_drawn_from_large_to_small(ax: Axes) -> None:
    sets = TotalVariation().region(np.tile([0.5, 0.3, 0.2], (3, 1)), [0.1, 0.3, 0.2])
    plotting.ternary(sets, labels=["a", "b", "c"], prediction=False, ax=ax)
    shapes = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    assert [patch.get_label() for patch in shapes] == ["b", "c", "a"]
    assert len({patch.get_edgecolor() for patch in shapes}) == 3
    assert legend_of(ax) == ["a", "b", "c"]  # in the order given, not in that of drawing


def test_empty_sets_among_others_are_named_and_crossed_out(ax: Axes) -> None:
    plotting.ternary(SOME_EMPTY, labels=["a", "b", "c"], ax=ax)
    assert legend_of(ax) == ["a (empty)", "b", "c", "prediction", "prediction, empty set"]
    np.testing.assert_allclose(
        line_named(ax, "prediction, empty set").get_xydata(), to_plane(SOME_EMPTY.center[:1])
    )
    assert len(line_named(ax, "prediction").get_xydata()) == 2


def test_empty_sets_without_labels_are_counted(ax: Axes) -> None:
    plotting.ternary(SOME_EMPTY, ax=ax)
    assert "1 of 3 empty" in [text.get_text() for text in ax.texts]


@pytest.mark.parametrize(("own", "n"), [(True, 3), (True, 12), (True, 30), (False, 3), (False, 12)])
def test_the_legend_keeps_off_the_triangle_and_inside_the_figure(own: bool, n: int) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), n), 0.05)
    place = None if own else Figure(figsize=(6.8, 4.0), layout="constrained").subplots(1, 2)[0]
    ax = plotting.ternary(sets, labels=[f"item number {i}" for i in range(n)], ax=place)
    figure = drawn(ax)
    legend = ax.get_legend()
    assert legend is not None
    (triangle,) = [patch for patch in ax.patches if patch.get_gid() == "simplex"]
    path, box = ax.transData.transform_path(triangle.get_path()), legend.get_window_extent()
    assert not path.intersects_bbox(box)
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.width
    assert ax.get_window_extent().padded(1.0).count_contains(path.vertices) == len(path.vertices)
    plt.close(figure)


def test_ternary_over_ternary_draws_one_triangle_and_one_legend_entry_each(ax: Axes) -> None:
    for row in TRIANGLE:
        plotting.ternary(TotalVariation().region([row], 0.1), ax=ax)
    assert sum(patch.get_gid() == "simplex" for patch in ax.patches) == 1
    assert legend_of(ax) == ["credal set", "prediction"]


def test_ternary_of_an_empty_set_says_so(ax: Axes) -> None:
    plotting.ternary(InnerProduct().region([[0.4, 0.3, 0.3]], 0.5), ax=ax)
    assert "empty" in [text.get_text() for text in ax.texts]
    assert legend_of(ax) == ["prediction"]


@pytest.mark.parametrize("threshold", [0.0, 0.08])
def test_ternary_shows_flat_sets(ax: Axes, threshold: float) -> None:
    plotting.ternary(KullbackLeibler().region([[0.6, 0.4, 0.0]], threshold), ax=ax)
    assert line_named(ax, "credal set").get_linewidth() > 2


# --- Dirichlet contours ---


def test_contours_of_a_dirichlet_are_where_the_density_is_that_fraction(ax: Axes) -> None:
    theta = np.array([5.0, 3.0, 2.0])
    assert plotting.dirichlet_contours(theta, levels=[0.3], ax=ax) is ax
    (patch,) = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    points = from_plane(patch.get_path().vertices)
    height = (np.log(points) * (theta - 1)).sum(axis=1)
    peak = (np.log((theta - 1) / 7) * (theta - 1)).sum()
    np.testing.assert_allclose(np.exp(height - peak), 0.3, rtol=1e-6)


def test_a_uniform_density_says_so() -> None:
    for parameters, words in (([1.0, 1.0, 1.0], ["uniform"]), ([1.0, 1.0, 2.0], [])):
        ax = plotting.dirichlet_contours(
            parameters, classes=["a", "b", "c"], ax=Figure().subplots()
        )
        assert [text.get_text() for text in ax.texts][3:] == words


# --- grids ---


def columns() -> dict[str, cs.CredalSet]:
    return {
        "TV": TotalVariation().region(TRIANGLE, 0.2),
        "Inner": InnerProduct().region(TRIANGLE, 0.5),
        "SO": RelativeLikelihood().region(1 + 20 * np.array(TRIANGLE), 0.9),
    }


@pytest.mark.parametrize("measure", ["efficiency", "volume"])
def test_grid_writes_the_size_beneath(measure: str) -> None:
    figure = Figure()
    axes = plotting.ternary_grid(columns(), truth=TRIANGLE, measure=measure, figure=figure)
    assert axes.shape == (3, 3)
    for j, sets in enumerate(columns().values()):
        for ax, size in zip(axes[:, j], getattr(sets, measure)(), strict=True):
            assert f"{size:.2f}" in [text.get_text() for text in ax.texts]
    assert [ax.get_title() for ax in axes[0]] == ["TV", "Inner", "SO"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["credal set", "prediction", "truth"]
    figure.canvas.draw()


def test_grid_draws_contours_for_second_order_columns_only() -> None:
    axes = plotting.ternary_grid(columns(), figure=Figure())
    assert [len(ax.patches) - 2 for ax in axes[1]] == [0, 0, 5]  # beyond the triangle and the set


def test_grid_labels_rows_and_writes_long_class_names_once() -> None:
    axes = plotting.ternary_grid(
        columns(),
        row_labels=["a", "b", "c"],
        classes=["entailment", "neutral", "contradiction"],
        figure=Figure(),
    )
    texts = [[text.get_text() for text in ax.texts] for ax in axes.flat]
    assert sum("entailment" in cell for cell in texts) == 1
    assert [label in cell for label, cell in zip("abc", texts[::3], strict=True)] == [True] * 3


# --- violins ---


def rows(n_seeds: int = 10) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "score": score,
            "alpha": alpha,
            "seed": seed,
            "coverage": rng.normal(1 - alpha, 0.01),
            "threshold": 0.5,
        }
        for score in ("tv", "kl", "inner")
        for alpha in (0.2, 0.1)
        for seed in range(n_seeds)
    ]


def dots(ax: Axes) -> list[np.ndarray]:
    return [
        np.sort(part.get_offsets()[:, 1]) for part in ax.collections if len(part.get_offsets()) > 1
    ]


def test_violins_show_every_run_in_its_place(ax: Axes) -> None:
    assert plotting.violins(rows(), ax=ax) is ax
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["tv", "kl", "inner"]
    expected = [
        np.sort(
            [row["coverage"] for row in rows() if (row["score"], row["alpha"]) == (score, alpha)]
        )
        for score in ("tv", "kl", "inner")
        for alpha in (0.1, 0.2)
    ]
    np.testing.assert_allclose(dots(ax), expected)
    assert legend_of(ax) == ["0.1", "0.2", "nominal"]
    means = [line.get_ydata()[0] for line in ax.lines if line.get_color() == "black"]
    np.testing.assert_allclose(means, [values.mean() for values in expected])


def test_violins_draw_nominal_lines_for_coverage(ax: Axes) -> None:
    plotting.violins(rows(), ax=ax)
    heights = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert sorted(h for h in heights if np.isfinite(h)) == pytest.approx([0.8, 0.9])
    other = plotting.violins(rows(), y="threshold", ax=Figure().subplots())
    assert not [line for line in other.lines if line.get_linestyle() == "--"]


def test_violins_take_tables_of_every_kind() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    table = pd.DataFrame(rows())
    forms = [
        table,
        pl.DataFrame(rows()),
        pa.Table.from_pylist(rows()),
        table.to_dict("list"),
        iter(rows()),
    ]
    shown = [dots(plotting.violins(form, ax=Figure().subplots())) for form in forms]
    for other in shown[1:]:
        np.testing.assert_allclose(other, shown[0])


def test_violins_count_infinite_thresholds(ax: Axes) -> None:
    data = [{"score": "tv", "threshold": value} for value in (0.1, 0.2, np.inf, np.inf)]
    plotting.violins(data, y="threshold", hue=None, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["2×∞"]
    np.testing.assert_allclose(dots(ax), [[0.1, 0.2]])


LONG = [
    "Total variation",
    "Kullback-Leibler",
    "Wasserstein",
    "Inner product",
    "Relative likelihood",
    "Hellinger",
]


def named_runs(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"score": name, "coverage": 0.9 + 0.01 * i} for name in names for i in range(4)]


@pytest.mark.parametrize(
    ("names", "columns", "turned"),
    [(LONG, 1, True), (LONG, 2, True), (["tv", "kl"], 2, False), (LONG[:2], 1, False)],
)
def test_names_of_violins_turn_where_they_would_overlap(
    names: list[str], columns: int, turned: bool
) -> None:
    ax = Figure(figsize=(6.8, 2.3), layout="constrained").subplots(1, columns, squeeze=False)[0, 0]
    plotting.violins(named_runs(names), hue=None, ax=ax)
    figure = drawn(ax)
    labels = ax.get_xticklabels()
    assert all((label.get_rotation() > 0) == turned for label in labels)
    if not turned:
        assert overlap([label.get_window_extent() for label in labels]) == 0
    assert all(label.get_window_extent().y0 >= 0 for label in labels)
    assert figure.get_figheight() == 2.3


@pytest.mark.parametrize("n", [5, 12])
def test_a_legend_of_long_names_stays_inside_the_figure(n: int) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), n), 0.1)
    ax = plotting.envelopes(
        sets, truth=sets.center, labels=[f"a long item name {i}" for i in range(n)]
    )
    figure = drawn(ax)
    legend = ax.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y1 <= figure.bbox.height
    assert (
        ax.get_window_extent().height > 0.4 * 230
    )  # of an inch: the figure grew, the axes did not shrink
    plt.close(figure)


# --- the map ---


def test_uncertainty_map_shows_the_two_parts(ax: Axes) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(5), 30), 0.1)
    assert plotting.uncertainty_map(sets, ax=ax) is ax
    parts = sets.uncertainty()
    np.testing.assert_allclose(
        ax.collections[0].get_offsets(), np.stack([parts.aleatoric, parts.epistemic], axis=1)
    )


def test_the_map_shows_how_far_bounds_may_be_off(ax: Axes, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a mark, which is the certified end, a line leads to the other end."""
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(5), 6), 0.1)
    parts = sets.uncertainty()
    gap = np.full(6, 0.06)
    wide = dataclasses.replace(parts, total_gap=gap, aleatoric_gap=gap)
    monkeypatch.setattr(cs.CredalSet, "uncertainty", lambda self, base="K": wide)
    plotting.uncertainty_map(sets, ax=ax)
    (lines,) = [part for part in ax.collections if isinstance(part, LineCollection)]
    ends = np.array(lines.get_segments())
    np.testing.assert_allclose(ends[:, 0], np.stack([parts.aleatoric, parts.epistemic], axis=1))
    np.testing.assert_allclose(
        ends[:, 1], np.stack([parts.aleatoric + 0.06, parts.epistemic - 0.12], axis=1)
    )
    assert "off by up to 0.12" in ax.get_title(loc="right")


def test_sets_without_a_number_are_grey(ax: Axes) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), 5), 0.1)
    plotting.uncertainty_map(sets, color=[1.0, np.nan, 2.0, np.inf, 3.0], ax=ax)
    shaded, grey = ax.collections
    np.testing.assert_allclose(np.asarray(shaded.get_array()), [1, 2, 3])
    parts = sets.uncertainty()
    np.testing.assert_allclose(
        grey.get_offsets(), np.stack([parts.aleatoric, parts.epistemic], axis=1)[[1, 3]]
    )
    np.testing.assert_allclose(np.asarray(grey.get_facecolor())[0, :3], to_rgb(style.LIGHT_GREY))
    unknown = plotting.uncertainty_map(sets, color=np.full(5, np.nan), ax=Figure().subplots())
    assert [len(part.get_offsets()) for part in unknown.collections] == [5]  # type: ignore[arg-type]


def test_lines_of_constant_total_are_just_that(ax: Axes) -> None:
    plotting.uncertainty_map(TotalVariation().region([[0.5, 0.5]], 0.1), base=2, ax=ax)
    totals = [line.get_xydata().sum(axis=1) for line in ax.lines]
    np.testing.assert_allclose(totals, np.array([0.25, 0.5, 0.75, 1.0])[:, None] * [[1, 1]])


def test_uncertainty_map_colours_by_number_and_by_group() -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), 6), 0.1)
    numbers = plotting.uncertainty_map(sets, color=np.arange(6.0), ax=Figure().subplots())
    np.testing.assert_allclose(numbers.collections[0].get_array(), np.arange(6))
    groups = plotting.uncertainty_map(sets, color=list("aabbab"), ax=Figure().subplots())
    assert legend_of(groups) == ["a", "b"]
    assert [len(part.get_offsets()) for part in groups.collections] == [3, 3]
    plain = plotting.uncertainty_map(sets, color="#0072B2", ax=Figure().subplots())
    np.testing.assert_allclose(plain.collections[0].get_facecolor()[0, :3], to_rgb("#0072B2"))


def test_a_hundred_thousand_sets_are_counted_in_hexagons(ax: Axes) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), 100_000), 0.1)
    plotting.uncertainty_map(sets, ax=ax)
    counts = np.asarray(ax.collections[0].get_array())
    assert counts.sum() == 100_000
    assert ax.collections[0].get_rasterized()


def test_uncertainty_map_tells_how_many_are_empty(ax: Axes) -> None:
    plotting.uncertainty_map(InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.5), ax=ax)
    assert ax.get_title(loc="right") == "1 empty, not shown"


# --- envelopes ---


def test_envelopes_are_lower_and_upper(ax: Axes) -> None:
    rng = np.random.default_rng(0)
    sets = KullbackLeibler().region(rng.dirichlet(np.ones(6), 2), [0.1, 0.3])
    truth = rng.dirichlet(np.ones(6), 2)
    assert plotting.envelopes(sets, truth=truth, labels=["a", "b"], ax=ax) is ax
    bars = np.array([[bar.get_y(), bar.get_y() + bar.get_height()] for bar in ax.patches]).reshape(
        2, 6, 2
    )  # type: ignore[attr-defined]
    np.testing.assert_allclose(bars[..., 0], sets.lower())
    np.testing.assert_allclose(bars[..., 1], sets.upper())
    centers = [line.get_ydata() for line in ax.lines if line.get_label() == "prediction"]
    np.testing.assert_allclose(centers, sets.center)
    np.testing.assert_allclose(
        [line.get_ydata() for line in ax.lines if line.get_label() == "truth"], truth
    )
    assert sorted(legend_of(ax)) == ["a", "b", "prediction", "truth"]


def test_envelopes_name_classes_and_empty_sets(ax: Axes) -> None:
    sets = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.5)
    plotting.envelopes(sets, classes=["x", "y", "z"], truth=[1.0, 0.0, 0.0], ax=ax)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["x", "y", "z"]
    assert set(legend_of(ax)) == {
        "set 0 (empty)",
        "set 1",
        "prediction, empty set",
        "truth",
        "prediction",
    }
    assert len(ax.patches) == 3  # no bars of height zero


def test_votes_on_further_items_are_matched_by_name(ax: Axes) -> None:
    votes = cs.Annotations.from_counts(
        [[4, 0], [1, 3], [0, 2]], items=["a", "b", "c"], classes=["x", "y"]
    )
    frame = pd.DataFrame([[0.4, 0.6], [0.9, 0.1]], ["b", "a"], ["x", "y"])
    sets = cs.conformalize(
        frame.to_numpy(), [[0.5, 0.5], [1.0, 0.0]], classes=["x", "y"]
    ).predict_set(frame, 0.5)
    drawn = [
        plotting.envelopes(sets, votes=v, ax=Figure().subplots())
        for v in (votes, votes.align(["b", "a"]))
    ]
    marks = [[line.get_xydata().tolist() for line in one.lines] for one in drawn]
    assert marks[0] == marks[1]


def test_more_envelopes_than_can_be_told_apart_are_refused(ax: Axes) -> None:
    many = TotalVariation().region(np.full((51, 3), 1 / 3), 0.1)
    plotting.envelopes(many[:50], ax=ax)
    with pytest.raises(ValueError, match=r"sets holds 51 sets.*Select a few"):
        plotting.envelopes(many, ax=ax)


# --- figures and errors ---


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plotting.ternary(TotalVariation().region(TRIANGLE, 0.1)),
        lambda: plotting.dirichlet_contours([3.0, 2.0, 2.0]),
        lambda: plotting.violins(rows()),
        lambda: plotting.uncertainty_map(TotalVariation().region(TRIANGLE, 0.1)),
        lambda: plotting.envelopes(TotalVariation().region(TRIANGLE, 0.1)),
        lambda: plotting.ternary_grid(columns())[0, 0],
    ],
)
def test_without_axes_a_new_figure_is_opened(draw: Any) -> None:
    current = plt.figure()
    already = len(plt.get_fignums())
    ax = draw()
    assert isinstance(ax, Axes)
    assert ax.get_figure() is not current
    assert current.axes == []
    assert len(plt.get_fignums()) == already + 1
    ax.get_figure().canvas.draw()
    plt.close(ax.get_figure())
    plt.close(current)


@pytest.mark.parametrize(
    ("call", "error", "argument"),
    [
        (lambda ax: plotting.ternary(FOUR, ax=ax), ValueError, "sets"),
        (lambda ax: plotting.ternary(SETS[:0], ax=ax), ValueError, "sets"),
        (lambda ax: plotting.ternary([[0.5, 0.3, 0.2]], ax=ax), TypeError, "sets"),
        (lambda ax: plotting.ternary(SETS, truth=[0.5, 0.5], ax=ax), ValueError, "truth"),
        (lambda ax: plotting.ternary(SETS, votes=[0.5, 0.5, 0.5], ax=ax), ValueError, "votes"),
        (lambda ax: plotting.ternary(SETS, classes=["a", "b"], ax=ax), ValueError, "classes"),
        (lambda ax: plotting.ternary(SETS, labels=["a"], ax=ax), ValueError, "labels"),
        (lambda ax: plotting.ternary(SETS, ax="left"), TypeError, "ax"),
        (lambda ax: plotting.dirichlet_contours([1.0, 2.0], ax=ax), ValueError, "concentration"),
        (
            lambda ax: plotting.dirichlet_contours([1.0, -2.0, 3.0], ax=ax),
            ValueError,
            "concentration",
        ),
        (
            lambda ax: plotting.dirichlet_contours([1.0, 2.0, 3.0], levels=[2], ax=ax),
            ValueError,
            "levels",
        ),
        (lambda ax: plotting.ternary_grid({}), TypeError, "columns"),
        (lambda ax: plotting.ternary_grid({"a": SETS, "b": SETS[:1]}), ValueError, "columns"),
        (lambda ax: plotting.ternary_grid({"a": SETS}, measure="size"), ValueError, "measure"),
        (
            lambda ax: plotting.ternary_grid({"a": SETS}, truth=[[0.5, 0.3, 0.2]] * 2),
            ValueError,
            "truth",
        ),
        (lambda ax: plotting.ternary_grid({"a": SETS}, figure=ax), TypeError, "figure"),
        (lambda ax: plotting.violins(rows(), x="model", ax=ax), ValueError, "results"),
        (lambda ax: plotting.violins([], ax=ax), ValueError, "results"),
        (
            lambda ax: plotting.violins({"score": [], "coverage": []}, hue=None, ax=ax),
            ValueError,
            "results",
        ),
        (lambda ax: plotting.violins(3, ax=ax), TypeError, "results"),
        (lambda ax: plotting.violins(rows(), y="score", ax=ax), TypeError, "y='score'"),
        (
            lambda ax: plotting.violins([*rows(), {"score": "tv"}], hue=None, ax=ax),
            ValueError,
            "y='coverage'",
        ),
        (lambda ax: plotting.uncertainty_map(SETS, color=[1, 2], ax=ax), ValueError, "color"),
        (lambda ax: plotting.uncertainty_map(SETS, base="nats", ax=ax), ValueError, "base"),
        (
            lambda ax: plotting.envelopes(SETS, truth=np.full((2, 3), 1 / 3), ax=ax),
            ValueError,
            "truth",
        ),
        (lambda ax: plotting.envelopes(SETS, classes=["a"], ax=ax), ValueError, "classes"),
    ],
)
def test_errors_name_the_argument_and_open_no_figure(
    ax: Axes, call: Any, error: type[Exception], argument: str
) -> None:
    already = plt.get_fignums()
    with pytest.raises(error, match=argument):
        call(ax)
    assert plt.get_fignums() == already


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("matplotlib", "credalset.plotting"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(cs.MissingExtraError, match=r"credalset\[plot\]"):
        import credalset.plotting  # noqa: F401


def test_colours_of_the_map_go_by_the_names_of_items() -> None:
    rng = np.random.default_rng(0)
    names = [f"i{k}" for k in range(30)]
    made = cs.conformalize(rng.dirichlet([1, 1, 1], 50), rng.dirichlet([1, 1, 1], 50))
    sets = made.predict_set(pd.DataFrame(rng.dirichlet([1, 1, 1], 30), names), alpha=0.5)
    shade = pd.Series(np.arange(30.0), names)
    more = pd.concat([shade, pd.Series({"other": 9.0})]).sample(frac=1, random_state=0)
    drawn = [
        plotting.uncertainty_map(sets, color=c, ax=Figure().subplots())
        for c in (shade.to_numpy(), shade[::-1], more)
    ]
    first, *others = (ax.collections[-1].get_array() for ax in drawn)
    for values in others:
        np.testing.assert_array_equal(values, first)
