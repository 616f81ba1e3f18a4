"""Pictures: outlines are the boundaries of the sets, artists hold what was asked for, and nothing leaks."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.text import Text

import credalset as cs
from credalset import plotting
from credalset.sets.outline import area, from_plane, level_sets, outline, score_of, to_plane
from credalset.plotting import style
from credalset.scores import (
    InnerProduct,
    KullbackLeibler,
    NegativeLogDensity,
    RelativeLikelihood,
    Score,
    TotalVariation,
    get_score,
)
from credalset.sets.credal_set import CredalSet
from tests.conftest import SCORES, random_predictions

REGIONS = [name for name in SCORES if not name.startswith("normalized")]  # whose sets are those of other scores
TRIANGLE = [[0.5, 0.3, 0.2], [0.75, 0.2, 0.05], [1 / 3, 1 / 3, 1 / 3]]


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Only a test that lets a function open a figure may leave one behind, and closes it."""
    before = plt.get_fignums()
    yield
    left = [number for number in plt.get_fignums() if number not in before]
    for number in left:
        plt.close(number)
    assert left == []


def sets_of(score: Score, n: int = 6, seed: int = 0) -> CredalSet:
    """Sets of all sizes around random predictions."""
    rng = np.random.default_rng(seed)
    prediction = random_predictions(score, n, 3, rng)
    scores = score(np.repeat(prediction, 200, axis=0), rng.dirichlet(np.ones(3), 200 * n)).reshape(n, 200)
    quantile = np.linspace(0.02, 0.9, n)
    return score.region(prediction, [np.quantile(row, q) for row, q in zip(scores, quantile, strict=True)])


def legend_of(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def line_named(ax: Axes, name: str) -> Any:
    (line,) = [line for line in ax.lines if line.get_label() == name]
    return line


# --- outlines ---


@pytest.mark.parametrize("name", REGIONS)
def test_area_is_the_volume(name: str) -> None:
    sets = sets_of(SCORES[name])
    value, error = sets.volume(return_error=True, n_rays=10_000)  # Hellinger balls have an estimate only
    for one, volume, doubt in zip(sets, value, error, strict=True):
        assert area(outline(one)) == pytest.approx(volume, abs=4e-4 * volume + 4 * doubt)


@pytest.mark.parametrize("name", REGIONS)
def test_members_lie_inside_and_others_outside(name: str) -> None:
    """Points a thousandth inside or outside the polygon, towards its middle, agree with `contains`."""
    for one in sets_of(SCORES[name], seed=1):
        (loop,) = outline(one)
        middle = loop.mean(axis=0)
        within = middle + 0.998 * (loop - middle)
        assert one.contains(within, broadcast=True).all()
        edge = loop.min(axis=1) < 1e-9
        beyond = (middle + 1.002 * (loop - middle))[~edge]
        beyond = beyond[(beyond >= 0).all(axis=1)]
        assert not one.contains(beyond, broadcast=True).any()


@pytest.mark.parametrize(
    ("score", "prediction", "threshold"),
    [
        ("kl", [0.999, 0.0005, 0.0005], 0.01),
        ("kl", [1 - 1e-6, 5e-7, 5e-7], 0.5),
        ("ws", [1.0, 0.0, 0.0], 0.3),
        ("hellinger", [1.0, 0.0, 0.0], 0.02),
        ("hellinger", [0.6, 0.4, 0.0], 0.1),
        ("so", [1.0, 1.0, 400.0], 0.9),
        ("so", [2.0, 1.0, 1.0], 0.4),
        ("so", [900.0, 600.0, 500.0], 0.5),
        ("density", [3.0, 2.0, 1.0], 0.0),
    ],
)
def test_area_is_the_volume_in_odd_corners(score: str, prediction: list[float], threshold: float) -> None:
    one = get_score(score).region([prediction], threshold)
    value, error = one.volume(return_error=True, n_rays=100_000)
    assert value[0] > 0
    assert area(outline(one)) == pytest.approx(value[0], rel=2e-3 + 5 * error[0] / value[0])


def test_vertices_of_a_polytope_are_its_outline() -> None:
    one = TotalVariation().region([[0.5, 0.3, 0.2]], 0.1)
    (loop,) = outline(one)
    np.testing.assert_allclose(sorted(loop.tolist()), sorted(one.vertices(0).tolist()))


def test_empty_and_whole_sets_have_the_outline_they_should() -> None:
    assert outline(InnerProduct().region([[0.4, 0.3, 0.3]], 0.5)) == []
    assert area(outline(KullbackLeibler().region([[0.4, 0.3, 0.3]], np.inf))) == pytest.approx(1.0)
    assert area(outline(RelativeLikelihood().region([[1.0, 1.0, 1.0]], 0.5))) == pytest.approx(1.0)


def test_a_set_on_an_edge_is_a_line() -> None:
    one = KullbackLeibler().region([[0.6, 0.4, 0.0]], 0.08)
    (loop,) = outline(one)
    assert area([loop]) < 1e-9
    np.testing.assert_allclose(loop.min(axis=0)[:2], one.lower()[0, :2], atol=1e-9)
    np.testing.assert_allclose(loop.max(axis=0)[:2], one.upper()[0, :2], atol=1e-9)


def test_plane_and_back() -> None:
    points = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    np.testing.assert_allclose(from_plane(to_plane(points)), points, atol=1e-15)


@pytest.mark.parametrize("name", ["tv", "kl", "so", "inner", "hellinger"])
def test_level_sets_agree_with_rays(name: str) -> None:
    for one in sets_of(SCORES[name], seed=2):
        traced = level_sets(lambda points, one=one: score_of(one, points), [float(one.threshold[0])])[0]
        assert area(traced) == pytest.approx(area(outline(one)), abs=2e-4)


def test_level_set_with_a_hole_and_two_parts() -> None:
    def ring(points: np.ndarray) -> np.ndarray:
        return np.abs(np.linalg.norm(to_plane(points) - to_plane(np.full(3, 1 / 3)), axis=1) - 0.15)

    loops = level_sets(ring, [0.05])[0]
    assert len(loops) == 2
    assert area(loops) == pytest.approx(np.pi * (0.2**2 - 0.1**2) / (np.sqrt(3) / 4), abs=1e-3)
    apart = level_sets(lambda points: np.minimum(1 - points[:, 0], 1 - points[:, 1]), [0.2])[0]
    assert len(apart) == 2
    assert area(apart) == pytest.approx(2 * 0.2**2, abs=1e-4)


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


def test_ternary_marks_the_mode_of_a_dirichlet(ax: Axes) -> None:
    plotting.ternary(RelativeLikelihood().region([[5.0, 3.0, 2.0]], 0.5), ax=ax)
    np.testing.assert_allclose(line_named(ax, "prediction").get_xydata()[0], to_plane(np.array([4, 2, 1]) / 7))


def test_ternary_names_the_corners(ax: Axes) -> None:
    sets = TotalVariation().region([[0.5, 0.3, 0.2]], 0.1)
    plotting.ternary(sets, classes=["no", "maybe", "yes"], ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no", "maybe", "yes"]
    other = plotting.ternary(sets, ax=Figure().subplots())
    assert [text.get_text() for text in other.texts] == ["0", "1", "2"]
    known = plotting.ternary(dataclasses.replace(sets, classes=("a", "b", "c")), ax=Figure().subplots())
    assert [text.get_text() for text in known.texts] == ["a", "b", "c"]


def test_several_sets_are_drawn_from_large_to_small(ax: Axes) -> None:
    sets = TotalVariation().region(np.tile([0.5, 0.3, 0.2], (3, 1)), [0.1, 0.3, 0.2])
    plotting.ternary(sets, labels=["a", "b", "c"], prediction=False, ax=ax)
    shapes = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    assert [patch.get_label() for patch in shapes] == ["b", "c", "a"]
    assert len({patch.get_edgecolor() for patch in shapes}) == 3
    assert legend_of(ax) == ["a", "b", "c"]  # in the order given, not in that of drawing


SOME_EMPTY = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0], [0.6, 0.2, 0.2]], 0.5)


def test_empty_sets_among_others_are_named_and_crossed_out(ax: Axes) -> None:
    plotting.ternary(SOME_EMPTY, labels=["a", "b", "c"], ax=ax)
    assert legend_of(ax) == ["a (empty)", "b", "c", "prediction", "prediction, empty set"]
    np.testing.assert_allclose(line_named(ax, "prediction, empty set").get_xydata(), to_plane(SOME_EMPTY.center[:1]))
    assert len(line_named(ax, "prediction").get_xydata()) == 2


def test_empty_sets_without_labels_are_counted(ax: Axes) -> None:
    plotting.ternary(SOME_EMPTY, ax=ax)
    assert "1 of 3 empty" in [text.get_text() for text in ax.texts]


def test_a_prediction_with_an_empty_and_a_full_set_is_no_cross(ax: Axes) -> None:
    plotting.ternary(InnerProduct().region(np.tile([0.4, 0.3, 0.3], (2, 1)), [0.5, 0.68]), ax=ax)
    assert legend_of(ax) == ["credal set", "prediction"]


@pytest.mark.parametrize(
    ("size", "n"),
    [(None, 3), (None, 12), (None, 30), ((6.8, 3.0), 3), ((6.8, 3.0), 12), ((3.3, 5.0), 12), ((9, 5), 30)],
)
@pytest.mark.parametrize("layout", ["constrained", None])
def test_the_legend_keeps_off_the_triangle(size: tuple[float, float] | None, layout: Any, n: int) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), n), 0.05)
    place = None if size is None else Figure(figsize=size, layout=layout).subplots(1, 2 if size[0] > size[1] else 1)
    ax = plotting.ternary(sets, labels=[f"item number {i}" for i in range(n)], ax=np.ravel(place)[0])
    figure = drawn(ax)
    legend = ax.get_legend()
    assert legend is not None
    (triangle,) = [patch for patch in ax.patches if patch.get_gid() == "simplex"]
    path = ax.transData.transform_path(triangle.get_path())
    assert not path.intersects_bbox(legend.get_window_extent())
    assert figure.bbox.x0 <= path.get_extents().x0
    assert ax.get_window_extent().padded(1.0).count_contains(path.vertices) == len(path.vertices)
    plt.close(figure)


def test_predictions_of_very_many_sets_are_left_out(ax: Axes) -> None:
    many = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), 201), 0.05)
    plotting.ternary(many, ax=ax)
    assert legend_of(ax) == ["credal set"]
    assert "prediction" in legend_of(plotting.ternary(many[:200], ax=Figure().subplots()))


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


def test_legend_and_predictions_can_be_left_out(ax: Axes) -> None:
    plotting.ternary(TotalVariation().region(TRIANGLE, 0.1), prediction=False, legend=False, ax=ax)
    assert ax.get_legend() is None
    assert "prediction" not in [line.get_label() for line in ax.lines]


# --- Dirichlet contours ---


def test_contours_of_a_dirichlet_are_where_the_density_is_that_fraction(ax: Axes) -> None:
    theta = np.array([5.0, 3.0, 2.0])
    assert plotting.dirichlet_contours(theta, levels=[0.3], ax=ax) is ax
    (patch,) = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    points = from_plane(patch.get_path().vertices)
    height = (np.log(points) * (theta - 1)).sum(axis=1)
    peak = (np.log((theta - 1) / 7) * (theta - 1)).sum()
    np.testing.assert_allclose(np.exp(height - peak), 0.3, rtol=1e-6)


def test_contours_of_a_mixture_surround_both_components(ax: Axes) -> None:
    mixture = np.array([[0.5, 30.0, 6.0, 6.0], [0.5, 6.0, 6.0, 30.0]])
    plotting.dirichlet_contours(mixture, levels=[0.5], ax=ax)
    (patch,) = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    inside = patch.get_path().contains_points(to_plane(np.array([[0.74, 0.13, 0.13], [0.13, 0.13, 0.74]])))
    assert inside.all()
    assert not patch.get_path().contains_point(to_plane(np.full(3, 1 / 3)))


def test_a_mixture_of_one_is_that_dirichlet() -> None:
    areas = []
    for parameters in ([5.0, 3.0, 2.0], [[1.0, 5.0, 3.0, 2.0], [1.0, 5.0, 3.0, 2.0]]):
        ax = plotting.dirichlet_contours(parameters, levels=[0.3], ax=Figure().subplots())
        (patch,) = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
        areas.append(area([from_plane(patch.get_path().vertices)]))
    assert areas[0] == pytest.approx(areas[1], abs=2e-3)


def test_a_uniform_density_says_so() -> None:
    for parameters, words in (([1.0, 1.0, 1.0], ["uniform"]), ([1.0, 1.0, 2.0], []), ([[2.0, 1, 1, 1]], ["uniform"])):
        ax = plotting.dirichlet_contours(parameters, classes=["a", "b", "c"], ax=Figure().subplots())
        assert [text.get_text() for text in ax.texts][3:] == words


def test_contours_go_over_a_set(ax: Axes) -> None:
    theta = [[5.0, 3.0, 2.0]]
    plotting.dirichlet_contours(theta[0], ax=plotting.ternary(RelativeLikelihood().region(theta, 0.5), ax=ax))
    assert sum(patch.get_gid() == "simplex" for patch in ax.patches) == 1


# --- grids ---


def columns() -> dict[str, CredalSet]:
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
    with_density = plotting.ternary_grid(columns(), figure=Figure())
    without = plotting.ternary_grid(columns(), density=False, figure=Figure())
    more = [len(a.patches) - len(b.patches) for a, b in zip(with_density[0], without[0], strict=True)]
    assert more[:2] == [0, 0]
    assert more[2] > 0


def test_grid_labels_rows_and_writes_long_class_names_once() -> None:
    axes = plotting.ternary_grid(
        columns(), row_labels=["a", "b", "c"], classes=["entailment", "neutral", "contradiction"], figure=Figure()
    )
    texts = [[text.get_text() for text in ax.texts] for ax in axes.flat]
    assert sum("entailment" in cell for cell in texts) == 1
    assert [label in cell for label, cell in zip("abc", texts[::3], strict=True)] == [True] * 3


def test_grid_opens_a_figure_of_the_asked_size() -> None:
    axes = plotting.ternary_grid(columns(), figsize=(3.0, 2.5))
    assert tuple(axes[0, 0].get_figure().get_size_inches()) == (3.0, 2.5)
    plt.close(axes[0, 0].get_figure())


# --- violins ---


def rows(n_seeds: int = 10) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"score": score, "alpha": alpha, "seed": seed, "coverage": rng.normal(1 - alpha, 0.01), "threshold": 0.5}
        for score in ("tv", "kl", "inner")
        for alpha in (0.2, 0.1)
        for seed in range(n_seeds)
    ]


def dots(ax: Axes) -> list[np.ndarray]:
    return [np.sort(part.get_offsets()[:, 1]) for part in ax.collections if len(part.get_offsets()) > 1]


def test_violins_show_every_run_in_its_place(ax: Axes) -> None:
    assert plotting.violins(rows(), ax=ax) is ax
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["tv", "kl", "inner"]
    expected = [
        np.sort([row["coverage"] for row in rows() if (row["score"], row["alpha"]) == (score, alpha)])
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


@pytest.mark.parametrize(
    ("options", "heights"),
    [
        ({"y": "threshold"}, []),
        ({"y": "threshold", "nominal": 0.4}, [0.4]),
        ({"y": "threshold", "nominal": "alpha"}, [0.8, 0.9]),
        ({"nominal": False}, []),
        ({"nominal": 0.85, "hue": None}, [0.85]),
    ],
)
def test_nominal_lines_follow_the_option(ax: Axes, options: dict[str, Any], heights: list[float]) -> None:
    plotting.violins(rows(), legend=False, ax=ax, **options)
    assert sorted(line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--") == pytest.approx(heights)


def test_violins_take_tables_of_every_kind() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    table = pd.DataFrame(rows())
    forms = [table, pl.DataFrame(rows()), pa.Table.from_pylist(rows()), table.to_dict("list"), iter(rows())]
    shown = [dots(plotting.violins(form, ax=Figure().subplots())) for form in forms]
    for other in shown[1:]:
        np.testing.assert_allclose(other, shown[0])


def test_violins_over_classes_and_votes_are_in_numeric_order(ax: Axes) -> None:
    data = [
        {"n_classes": k, "n_votes": m, "coverage_true": 0.9 + 0.01 * seed, "alpha": 0.1}
        for k in (10, 3)
        for m in (100, 1, 5)
        for seed in range(4)
    ]
    plotting.violins(data, x="n_classes", y="coverage_true", hue="n_votes", ax=ax)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["3", "10"]
    assert legend_of(ax) == ["1", "5", "100", "nominal"]


def test_many_hues_still_differ(ax: Axes) -> None:
    data = [{"score": "tv", "hue": i, "coverage": 0.1 * i} for i in range(12)]
    plotting.violins(data, hue="hue", ax=ax)
    assert len({tuple(part.get_facecolor()[0]) for part in ax.collections}) == 12


def test_violins_count_infinite_thresholds(ax: Axes) -> None:
    data = [{"score": "tv", "threshold": value} for value in (0.1, 0.2, np.inf, np.inf)]
    plotting.violins(data, y="threshold", hue=None, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["2×∞"]
    np.testing.assert_allclose(dots(ax), [[0.1, 0.2]])


@pytest.mark.parametrize("n_seeds", [1, 2, 40])
def test_violins_of_few_and_many_runs(ax: Axes, n_seeds: int) -> None:
    plotting.violins(rows(n_seeds), ax=ax)
    ax.get_figure().canvas.draw()  # type: ignore[union-attr]
    assert len(ax.collections) > 0
    plotting.violins(rows(n_seeds), y="threshold", ax=ax)  # all equal: no density to speak of
    assert ax.get_ylabel() == "threshold"


def overlap(boxes: Sequence[Any]) -> int:
    """Number of pairs of boxes that share a point."""
    return sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def drawn(ax: Axes) -> Figure:
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    return figure


LONG = ["Total variation", "Kullback-Leibler", "Wasserstein", "Inner product", "Relative likelihood", "Hellinger"]


def named_runs(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"score": name, "coverage": 0.9 + 0.01 * i} for name in names for i in range(4)]


@pytest.mark.parametrize(
    ("names", "columns", "turned"), [(LONG, 1, True), (LONG, 2, True), (["tv", "kl"], 2, False), (LONG[:2], 1, False)]
)
def test_names_of_violins_turn_where_they_would_overlap(names: list[str], columns: int, turned: bool) -> None:
    ax = Figure(figsize=(6.8, 2.3), layout="constrained").subplots(1, columns, squeeze=False)[0, 0]
    plotting.violins(named_runs(names), hue=None, ax=ax)
    figure = drawn(ax)
    labels = ax.get_xticklabels()
    assert all((label.get_rotation() > 0) == turned for label in labels)
    if not turned:
        assert overlap([label.get_window_extent() for label in labels]) == 0
    assert all(label.get_window_extent().y0 >= 0 for label in labels)
    assert figure.get_figheight() == 2.3


def test_violins_share_their_names() -> None:
    """Axes above others with the same names do not show them, and say so before anything is drawn."""
    axes = Figure(figsize=(6.8, 4.0), layout="constrained").subplots(2, 1, sharex=True)
    for ax in axes:
        plotting.violins(named_runs(LONG), hue=None, ax=ax).label_outer()
    assert axes[0].get_xticklabels() == []
    assert [label.get_rotation() for label in axes[1].get_xticklabels()] == [30] * len(LONG)


@pytest.mark.parametrize("n", [5, 12])
def test_a_legend_of_long_names_stays_inside_the_figure(n: int) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), n), 0.1)
    ax = plotting.envelopes(sets, truth=sets.center, labels=[f"a long item name {i}" for i in range(n)])
    figure = drawn(ax)
    legend = ax.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y1 <= figure.bbox.height
    assert ax.get_window_extent().height > 0.4 * 230  # of an inch: the figure grew, the axes did not shrink
    plt.close(figure)


# --- entropies ---


def test_entropy_intervals_are_the_bounds(ax: Axes) -> None:
    sets = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(4), 7), 0.1)
    truth = sets.sample(1, random_state=0)[:, 0]
    assert plotting.entropy_intervals(sets, truth=truth, ax=ax) is ax
    (lines,) = [part for part in ax.collections if isinstance(part, LineCollection)]
    center = cs.simplex.entropy(sets.center, "K")
    order = np.argsort(center)
    segments = {round(float(segment[0, 0])): segment[:, 1] for segment in lines.get_segments()}
    lower, upper = sets.entropy_bounds("K")
    for place, i in enumerate(order):
        np.testing.assert_allclose(segments[place], [lower[i], upper[i]])
    predicted = line_named(ax, "prediction").get_xydata()
    np.testing.assert_allclose(predicted[np.argsort(predicted[:, 0]), 1], center[order])
    shown = line_named(ax, "truth").get_xydata()
    np.testing.assert_allclose(shown[np.argsort(shown[:, 0]), 1], cs.simplex.entropy(truth, "K")[order])
    assert legend_of(ax) == ["credal set", "prediction", "truth"]


def test_named_entropy_intervals_lie_on_their_side_from_the_top(ax: Axes) -> None:
    sets = TotalVariation().region([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], 0.05)
    plotting.entropy_intervals(sets, labels=["wide", "narrow"], order=None, base=2, ax=ax)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["wide", "narrow"]
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "entropy (bits)"
    np.testing.assert_allclose(line_named(ax, "prediction").get_ydata(), [0, 1])


def test_entropy_intervals_cross_out_empty_sets(ax: Axes) -> None:
    plotting.entropy_intervals(InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.5), ax=ax)
    assert len(line_named(ax, "prediction, empty set").get_xdata()) == 1
    assert len(line_named(ax, "prediction").get_xdata()) == 1


def test_only_what_is_drawn_is_in_the_legend_of_entropies(ax: Axes) -> None:
    plotting.entropy_intervals(InnerProduct().region([[0.4, 0.3, 0.3]], 0.5), ax=ax)
    assert legend_of(ax) == ["prediction, empty set"]


def test_one_interval_has_one_tick(ax: Axes) -> None:
    plotting.entropy_intervals(TotalVariation().region([[0.5, 0.3, 0.2]], 0.1), ax=ax)
    assert list(ax.get_xticks()) == [0]


@pytest.mark.parametrize("labels", [None, ["a", "b"]])
def test_an_interval_of_one_point_is_wider_than_its_marks(ax: Axes, labels: list[str] | None) -> None:
    sets = KullbackLeibler().region([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], [0.0, 0.3])
    plotting.entropy_intervals(sets, truth=sets.center, labels=labels, ax=ax)
    (bar,) = [line for line in ax.lines if line.get_marker() == ("_" if labels is None else "|")]
    assert len(bar.get_xdata()) == 1
    assert bar.get_markersize() > line_named(ax, "truth").get_markersize()


@pytest.mark.parametrize("repeat", [1, 4])
@pytest.mark.parametrize("own", [True, False])
def test_long_names_of_intervals_leave_room_for_them(repeat: int, own: bool) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), 5), 0.1)
    place = None if own else Figure(figsize=(6.8, 2.4), layout="constrained").subplots(1, 2)[0]
    names = [repeat * f"a long item name {i} " for i in range(5)]
    ax = plotting.entropy_intervals(sets, truth=sets.center, labels=names, ax=place)
    figure = drawn(ax)
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_window_extent().x1 <= figure.bbox.width
    assert overlap([label.get_window_extent() for label in ax.get_yticklabels()]) == 0
    assert ax.get_window_extent().width > 0.2 * figure.bbox.width
    plt.close(figure)


def test_uncertainty_map_shows_the_two_parts(ax: Axes) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(5), 30), 0.1)
    assert plotting.uncertainty_map(sets, annotate={3: "this one"}, ax=ax) is ax
    parts = sets.uncertainty()
    np.testing.assert_allclose(ax.collections[0].get_offsets(), np.stack([parts.aleatoric, parts.epistemic], axis=1))
    (note,) = [text for text in ax.texts if text.get_text() == "this one"]
    np.testing.assert_allclose(note.xy, [parts.aleatoric[3], parts.epistemic[3]])  # type: ignore[attr-defined]


def test_pictures_show_how_far_bounds_may_be_off() -> None:
    """A density set is answered for by its box: the other ends, of members, are drawn too and the doubt is written."""
    mixture = np.array([[[0.6, 12.0, 3.0, 0.4], [0.4, 0.5, 2.0, 9.0]], [[0.6, 0.5, 12.0, 3.0], [0.4, 9.0, 0.5, 2.0]]])
    sets = cs.scores.NegativeLogDensity().region(mixture, threshold=-0.5)
    parts, bounds = sets.uncertainty(), sets.entropy_bounds("K")
    assert parts.epistemic_gap.min() > 0.05
    ax = plotting.uncertainty_map(sets, ax=Figure().subplots())
    (gaps,) = [part for part in ax.collections if isinstance(part, LineCollection)]
    ends = np.array(gaps.get_segments())
    np.testing.assert_allclose(ends[:, 0], np.stack([parts.aleatoric, parts.epistemic], axis=1))
    inner = np.stack([parts.aleatoric + parts.aleatoric_gap, parts.epistemic - parts.epistemic_gap], axis=1)
    np.testing.assert_allclose(ends[:, 1], inner)
    assert f"off by up to {parts.epistemic_gap.max():.2g}" in ax.get_title(loc="right")
    ax = plotting.entropy_intervals(sets, order=None, ax=Figure().subplots())
    solid, low, high = [np.array(part.get_segments())[..., 1] for part in ax.collections]
    np.testing.assert_allclose(solid, np.stack([bounds.lower + bounds.lower_gap, bounds.upper - bounds.upper_gap], 1))
    np.testing.assert_allclose(low, np.stack([bounds.lower, solid[:, 0]], axis=1))
    np.testing.assert_allclose(high, np.stack([solid[:, 1], bounds.upper], axis=1))
    assert "not ruled out" in legend_of(ax)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_notes_cover_neither_each_other_nor_the_numbers_of_totals(own: bool, seed: int) -> None:
    sets = KullbackLeibler().region(np.random.default_rng(seed).dirichlet([6, 4, 4], 6), 0.05)
    place = None if own else Figure(figsize=(6.8, 3.0), layout="constrained").subplots(1, 2)[0]
    ax = plotting.uncertainty_map(sets, annotate={i: f"item {i}" for i in range(6)}, ax=place)
    figure = drawn(ax)
    texts = [text for text in ax.texts if text.get_text().startswith(("item", "total"))]
    assert len(texts) == 7
    boxes = [Text.get_window_extent(text) for text in texts]  # without the line to the point
    assert overlap(boxes) == 0
    frame = ax.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 for box in boxes)
    plt.close(figure)


def test_a_long_note_is_broken(ax: Axes) -> None:
    sets = KullbackLeibler().region([[0.5, 0.3, 0.2]], 0.05)
    plotting.uncertainty_map(sets, annotate={0: "a very long remark " * 6}, ax=ax)
    assert "\n" in ax.texts[-1].get_text()


def test_sets_without_a_number_are_grey(ax: Axes) -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(3), 5), 0.1)
    plotting.uncertainty_map(sets, color=[1.0, np.nan, 2.0, np.inf, 3.0], ax=ax)
    shaded, grey = ax.collections
    np.testing.assert_allclose(np.asarray(shaded.get_array()), [1, 2, 3])
    parts = sets.uncertainty()
    np.testing.assert_allclose(grey.get_offsets(), np.stack([parts.aleatoric, parts.epistemic], axis=1)[[1, 3]])
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
    bars = np.array([[bar.get_y(), bar.get_y() + bar.get_height()] for bar in ax.patches]).reshape(2, 6, 2)  # type: ignore[attr-defined]
    np.testing.assert_allclose(bars[..., 0], sets.lower())
    np.testing.assert_allclose(bars[..., 1], sets.upper())
    centers = [line.get_ydata() for line in ax.lines if line.get_label() == "prediction"]
    np.testing.assert_allclose(centers, sets.center)
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines if line.get_label() == "truth"], truth)
    assert sorted(legend_of(ax)) == ["a", "b", "prediction", "truth"]


def test_envelopes_name_classes_and_empty_sets(ax: Axes) -> None:
    sets = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.5)
    plotting.envelopes(sets, classes=["x", "y", "z"], truth=[1.0, 0.0, 0.0], ax=ax)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["x", "y", "z"]
    assert legend_of(ax) == ["set 0 (empty)", "set 1", "prediction, empty set", "truth", "prediction"]
    assert len(ax.patches) == 3  # no bars of height zero


def test_more_envelopes_than_can_be_told_apart_are_refused(ax: Axes) -> None:
    many = TotalVariation().region(np.full((51, 3), 1 / 3), 0.1)
    plotting.envelopes(many[:50], ax=ax)
    with pytest.raises(ValueError, match=r"sets holds 51 sets.*Select a few"):
        plotting.envelopes(many, ax=ax)


def test_envelopes_of_a_hundred_classes(ax: Axes) -> None:
    plotting.envelopes(TotalVariation().region([np.full(100, 0.01)], 0.1), ax=ax)
    assert len(ax.get_xticks()) < 50


# --- figures of one's own ---


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plotting.ternary(TotalVariation().region(TRIANGLE, 0.1)),
        lambda: plotting.dirichlet_contours([3.0, 2.0, 2.0]),
        lambda: plotting.violins(rows()),
        lambda: plotting.entropy_intervals(TotalVariation().region(TRIANGLE, 0.1)),
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


# --- errors ---

SETS = TotalVariation().region(TRIANGLE, 0.1)
FOUR = TotalVariation().region([[0.25, 0.25, 0.25, 0.25]], 0.1)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda ax: plotting.ternary(FOUR, ax=ax), ValueError, "sets has 4 classes"),
        (lambda ax: plotting.ternary(SETS[:0], ax=ax), ValueError, "batch without sets"),
        (lambda ax: plotting.ternary([[0.5, 0.3, 0.2]], ax=ax), TypeError, "must be a CredalSet, but is a list"),
        (lambda ax: plotting.ternary(SETS, truth=[0.5, 0.5], ax=ax), ValueError, "truth has 2 classes"),
        (lambda ax: plotting.ternary(SETS, votes=[0.5, 0.5, 0.5], ax=ax), ValueError, "votes must hold"),
        (lambda ax: plotting.ternary(SETS, classes=["a", "b"], ax=ax), ValueError, "classes must hold one name"),
        (lambda ax: plotting.ternary(SETS, labels=["a"], ax=ax), ValueError, "labels must hold one name"),
        (lambda ax: plotting.ternary(SETS, ax="left"), TypeError, "ax must be matplotlib axes"),
        (lambda ax: plotting.dirichlet_contours([1.0, 2.0], ax=ax), ValueError, r"must have shape \(3,\)"),
        (lambda ax: plotting.dirichlet_contours([1.0, -2.0, 3.0], ax=ax), ValueError, "finite positive"),
        (lambda ax: plotting.dirichlet_contours([1.0, 2.0, 3.0], levels=[2], ax=ax), ValueError, "levels must be"),
        (lambda ax: plotting.ternary_grid({}), TypeError, "columns must map titles"),
        (lambda ax: plotting.ternary_grid({"a": SETS, "b": SETS[:1]}), ValueError, "numbers of sets differ"),
        (lambda ax: plotting.ternary_grid({"a": FOUR}), ValueError, r"columns\['a'\] has 4 classes"),
        (lambda ax: plotting.ternary_grid({"a": SETS}, measure="size"), ValueError, "measure must be one of"),
        (lambda ax: plotting.ternary_grid({"a": SETS}, truth=[[0.5, 0.3, 0.2]]), ValueError, "truth has 1 rows"),
        (lambda ax: plotting.ternary_grid({"a": SETS}, figure=ax), TypeError, "figure must be a matplotlib figure"),
        (lambda ax: plotting.violins(rows(), x="model", ax=ax), ValueError, "no column 'model'; it has score, alpha"),
        (lambda ax: plotting.violins([], ax=ax), ValueError, "no column 'score', 'coverage', 'alpha'"),
        (lambda ax: plotting.violins({"score": [], "coverage": []}, hue=None, ax=ax), ValueError, "has no rows"),
        (lambda ax: plotting.violins(3, ax=ax), TypeError, "must be a list of dicts"),
        (lambda ax: plotting.violins([1, 2], ax=ax), TypeError, "one dict per row"),
        (lambda ax: plotting.violins(rows(), y="score", ax=ax), TypeError, "column 'score' must hold numbers"),
        (lambda ax: plotting.violins([*rows(), {"score": "tv"}], hue=None, ax=ax), ValueError, "no number in 1 of 61"),
        (lambda ax: plotting.violins(rows(), nominal="beta", ax=ax), ValueError, "nominal must be"),
        (
            lambda ax: plotting.violins([{"score": "tv", "coverage": 1.0}], hue=None, nominal="alpha", ax=ax),
            ValueError,
            "needs a column alpha",
        ),
        (lambda ax: plotting.entropy_intervals(SETS[:0], ax=ax), ValueError, "batch without sets"),
        (lambda ax: plotting.entropy_intervals(SETS, order="size", ax=ax), ValueError, "order must be one of"),
        (lambda ax: plotting.entropy_intervals(SETS, truth=[[1, 0, 0]], ax=ax), ValueError, "one row per set"),
        (lambda ax: plotting.entropy_intervals(SETS, base="nats", ax=ax), ValueError, "base must be"),
        (lambda ax: plotting.uncertainty_map(SETS, color=[1, 2], ax=ax), ValueError, "color must be one colour"),
        (lambda ax: plotting.uncertainty_map(SETS, annotate=[7], ax=ax), ValueError, "annotate names set 7"),
        (lambda ax: plotting.envelopes(SETS, truth=np.full((2, 3), 1 / 3), ax=ax), ValueError, "truth has 2 rows"),
        (lambda ax: plotting.envelopes(SETS, classes=["a"], ax=ax), ValueError, "classes must hold one name"),
    ],
)
def test_errors_say_what_is_wrong_and_open_no_figure(ax: Axes, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(ax)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "credalset.plotting"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(cs.MissingExtraError, match=r"credalset\[plot\]"):
        import credalset.plotting  # noqa: F401


# --- mixtures ---

MIXTURES = np.array(
    [
        [[0.6, 20.0, 6.0, 4.0], [0.4, 3.0, 5.0, 16.0]],
        [[0.5, 2000.0, 600.0, 400.0], [0.5, 300.0, 1500.0, 1600.0]],  # two specks
        [[0.7, 0.3, 0.4, 5.0], [0.3, 4.0, 2.0, 0.6]],  # infinite at the edges, were it not for the pull
        [[1.0, 6.0, 3.0, 2.0], [0.0, 1.0, 1.0, 1.0]],
    ]
)


@pytest.mark.parametrize("i", range(len(MIXTURES)))
def test_density_sets_have_the_area_and_the_members_they_should(i: int) -> None:
    score = NegativeLogDensity()
    draws = np.random.default_rng(0).dirichlet(MIXTURES[i, 0, 1:], 400)
    scores = score(np.repeat(MIXTURES[i : i + 1], 400, axis=0), draws)
    one = score.region(MIXTURES[i : i + 1], np.quantile(scores, [0.3, 0.8][i % 2]))
    loops = outline(one)
    value, error = one.volume(return_error=True, n_rays=200_000)
    assert area(loops) == pytest.approx(value[0], abs=4 * error[0] + 2e-3 * value[0])
    boundary = np.concatenate(loops)
    inner = boundary[boundary.min(axis=1) > 1e-4]
    np.testing.assert_allclose(score_of(one, inner), one.threshold[0], atol=1e-5)


def test_traced_outlines_have_no_idle_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far fewer points than were traced, none of which is visibly off the outline that is left."""
    one = NegativeLogDensity().region([[[0.4, 9, 3, 3], [0.4, 3, 9, 3], [0.2, 0.5, 0.5, 4]]], -0.5)
    thin = outline(one)
    monkeypatch.setattr("credalset.sets.outline._thin", lambda loop: loop)
    full = outline(one)
    assert len(thin) == len(full)
    assert sum(map(len, thin)) < 0.4 * sum(map(len, full))
    for few, many in zip(thin, full, strict=True):
        start, end = to_plane(few)[:, None], to_plane(np.roll(few, -1, axis=0))[:, None]
        away = to_plane(many)[None] - start
        share = (away * (end - start)).sum(axis=2) / ((end - start) ** 2).sum(axis=2)
        distance = np.linalg.norm(away - share.clip(0, 1)[..., None] * (end - start), axis=2).min(axis=0)
        assert distance.max() < 3e-5


def test_a_density_set_in_two_parts_is_drawn_in_two_parts(ax: Axes) -> None:
    one = NegativeLogDensity().region(MIXTURES[:1], -1.0)
    plotting.ternary(one, ax=ax)
    (patch,) = [patch for patch in ax.patches if patch.get_label() == "credal set"]
    assert len(patch.get_path().to_polygons()) == 2
    np.testing.assert_allclose(line_named(ax, "prediction").get_xydata(), to_plane(one.center))


def test_a_grid_may_hold_mixtures() -> None:
    sets = NegativeLogDensity().region(MIXTURES, -1.0)
    axes = plotting.ternary_grid({"mixtures": sets}, figure=Figure())
    assert all(len(ax.patches) > 2 for ax in axes[:3, 0])


# --- cross-conformal sets ---


@pytest.mark.parametrize("score", ["tv", "kl", "so"])
def test_cross_conformal_sets_are_traced(score: str) -> None:
    rng = np.random.default_rng(0)
    folds = np.arange(60) % 3
    truth = rng.dirichlet(np.full(3, 2.0), 60)
    guess = 0.7 * truth + 0.3 * rng.dirichlet(np.full(3, 2.0), 60)
    models = 0.6 * np.array([[0.5, 0.3, 0.2]]) + 0.4 * rng.dirichlet(np.full(3, 2.0), (3, 1))
    if score == "so":
        guess, models = 1 + 10 * guess, 1 + 10 * models
    sets = cs.cross_conformalize(guess, truth, folds, score=score).predict_set(list(models), alpha=0.2)
    assert sets.shape == "cross-conformal set"
    loops = outline(sets)
    value, error = sets.volume(return_error=True, n_rays=100_000)
    assert area(loops) == pytest.approx(value[0], abs=4 * error[0] + 1e-3 * value[0])
    loop = max(loops, key=len)
    middle = sets.center[0]
    assert sets.contains(middle + 0.999 * (loop - middle), broadcast=True).mean() > 0.99
    beyond = middle + 1.002 * (loop - middle)
    assert not sets.contains(beyond[(beyond > 0).all(axis=1)], broadcast=True).any()


# --- colours ---

#: what protan-, deuter- and tritanopes see of linear RGB (Machado, Oliveira and Fernandes, 2009)
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour: str, vision: Any) -> np.ndarray:
    """CIE L*a*b* of a colour as somebody sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.clip(np.array(vision) @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    x, y, z = np.where((r := xyz / [0.9505, 1.0, 1.089]) > 0.008856, np.cbrt(r), 7.787 * r + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_colours_can_be_told_apart_with_any_colour_vision(vision: str) -> None:
    """In CIE L*a*b*, where a difference of 2.3 is just noticeable."""
    seen = [lab(colour, VISION[vision]) for colour in style.PALETTE]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(apart) > 15


def test_colours_of_the_map_go_by_the_names_of_items() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = [f"i{k}" for k in range(30)]
    made = cs.conformalize(rng.dirichlet([1, 1, 1], 50), rng.dirichlet([1, 1, 1], 50))
    sets = made.predict_set(pandas.DataFrame(rng.dirichlet([1, 1, 1], 30), names), alpha=0.5)
    shade = pandas.Series(np.arange(30.0), names)
    more = pandas.concat([shade, pandas.Series({"other": 9.0})]).sample(frac=1, random_state=0)
    drawn = [
        plotting.uncertainty_map(sets, color=c, ax=Figure().subplots()) for c in (shade.to_numpy(), shade[::-1], more)
    ]
    first, *others = (ax.collections[-1].get_array() for ax in drawn)
    for values in others:
        np.testing.assert_array_equal(values, first)
