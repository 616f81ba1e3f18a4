"""Majorants: their parts against slower computations, and every certificate against one that shares nothing with it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from credalset.calibration.majorants import Majorants, tables
from credalset.calibration.majorants.certificate import floors, shifts
from credalset.calibration.majorants.crowd import Crowd, dirichlet_multinomial
from credalset.calibration.majorants.mesh import Mesh
from credalset.calibration.majorants.polynomials import (
    count_vectors,
    probabilities,
    restriction,
    subdivision,
    thinned,
)
from credalset.calibration.majorants.programme import smallest_tables
from credalset.scores import Score, Wasserstein, get_score
from credalset.simplex import grid


@pytest.fixture(autouse=True)
def coarse(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick tests have fewer tables, to which the same certificate applies."""
    if request.node.get_closest_marker("slow") is None:
        for name, sizes in {"MESH": (12, 5, 3), "POINTS": (40, 14, 8)}.items():
            for n_classes, size in zip((2, 3, 4), sizes, strict=True):
                monkeypatch.setitem(getattr(tables, name), n_classes, size)


# --- polynomials ---


@pytest.mark.parametrize(("n_votes", "n_classes"), [(1, 2), (4, 3), (3, 4)])
def test_probabilities_are_multinomial(n_votes: int, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    vectors = count_vectors(n_votes, n_classes)
    assert len(np.unique(vectors, axis=0)) == len(vectors)
    for point in [*rng.dirichlet(np.ones(n_classes), 3), np.eye(n_classes)[0]]:
        expected = stats.multinomial(n_votes, point).pmf(vectors)
        assert probabilities(point, vectors) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(("n_classes", "pieces"), [(2, 5), (3, 4), (4, 3)])
def test_pieces_cover_the_simplex_without_overlap(n_classes: int, pieces: int) -> None:
    corners = subdivision(n_classes, pieces)
    volumes = np.abs(np.linalg.det(corners))
    assert volumes == pytest.approx(pieces ** -(n_classes - 1.0))
    assert len(corners) == pieces ** (n_classes - 1)
    points = np.random.default_rng(0).dirichlet(np.ones(n_classes), 200)
    inside = (np.linalg.solve(corners.transpose(0, 2, 1)[:, None], points[None, :, :, None])[..., 0] >= -1e-12).all(-1)
    assert (inside.sum(axis=0) == 1).all()


@pytest.mark.parametrize(("n_classes", "degree"), [(2, 6), (3, 4), (4, 3)])
def test_the_same_polynomial_on_a_piece(n_classes: int, degree: int) -> None:
    rng = np.random.default_rng(1)
    corners, vectors = subdivision(n_classes, 3), count_vectors(degree, n_classes)
    matrices, table = restriction(corners, degree), rng.normal(size=len(vectors))
    local = rng.dirichlet(np.ones(n_classes), 20)
    for corner, matrix in zip(corners, matrices, strict=True):
        assert (matrix >= 0).all()
        whole = probabilities(local @ corner, vectors) @ table
        assert probabilities(local, vectors) @ (matrix @ table) == pytest.approx(whole, abs=1e-13)
        assert whole.min() >= (matrix @ table).min() - 1e-13


def test_thinning_keeps_the_polynomial() -> None:
    rng = np.random.default_rng(2)
    few, many = count_vectors(3, 3), count_vectors(7, 3)
    table = rng.normal(size=len(few))
    raised = thinned(many.astype(float), few) @ table
    points = rng.dirichlet(np.ones(3), 50)
    assert probabilities(points, many) @ raised == pytest.approx(probabilities(points, few) @ table, abs=1e-13)
    assert raised.max() <= table.max()


# --- mesh ---


@pytest.mark.parametrize("ranked", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_corners_of_cells_mix_to_the_prediction(n_classes: int, ranked: bool) -> None:
    rng = np.random.default_rng(3)
    flat, edge = np.full((1, n_classes), 1 / n_classes), np.eye(n_classes)[:2].mean(axis=0)[None]
    g = np.concatenate([rng.dirichlet(np.full(n_classes, 0.5), 300), np.eye(n_classes), flat, edge])
    for pieces in (1, 4, 7):
        mesh = Mesh(n_classes, pieces, ranked)
        place = mesh.locate(g)
        mixed = np.einsum("nj,njk->nk", place.share, mesh.nodes[place.node])
        assert mixed == pytest.approx(np.take_along_axis(g, place.order, axis=1), abs=1e-14)
        assert place.share.min() >= -1e-14
        assert np.array_equal(mesh.cells[place.cell], place.node)
        assert len(mesh.cells) == pieces ** (n_classes - 1)


# --- the model, and programmes ---


def test_a_crowd_is_as_sharp_as_its_votes_say() -> None:
    rng = np.random.default_rng(4)
    g = rng.dirichlet(np.ones(3), 4000)
    for sharpness in (3.0, 40.0):
        truth = np.array([rng.dirichlet(sharpness * row + 1e-9) for row in g])
        crowd = Crowd.fit(g, rng.multinomial(10, truth).astype(float))
        found = np.exp(crowd.shares @ np.log(np.geomspace(0.7, 3000.0, 24)))
        assert found == pytest.approx(sharpness, rel=0.3)


def test_votes_of_a_dirichlet() -> None:
    vectors = count_vectors(4, 3)
    concentration = np.array([[0.5, 2.0, 3.0]])
    expected = stats.dirichlet_multinomial(concentration[0], 4).pmf(vectors)
    assert dirichlet_multinomial(concentration, vectors)[0] == pytest.approx(expected, rel=1e-10)


def test_programmes_against_a_solver() -> None:
    rng = np.random.default_rng(5)
    mean, rows, own = rng.random((3, 6)), rng.random((15, 6)), rng.random((3, 4, 6))
    square = np.stack([np.diag(rng.random(6) + 0.2) for _ in range(3)])
    bounds = np.concatenate([rng.random((3, 15)), 2.0 * rng.random((3, 4))], axis=1)
    found = smallest_tables(mean, square, rows, own, bounds, start=20.0)
    for v in range(3):
        constraints = np.concatenate([rows, own[v]])
        assert (constraints @ found[v] >= bounds[v]).all()

        def objective(x: np.ndarray, v: int = v) -> float:
            return float(mean[v] @ x + 0.5 * x @ square[v] @ x)

        solved = minimize(
            objective,
            np.full(6, 2.0),
            constraints={"type": "ineq", "fun": lambda x, c=constraints, v=v: c @ x - bounds[v]},
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert objective(found[v]) == pytest.approx(solved.fun, abs=1e-3)


# --- certificates ---


def all_votes(majorants: Majorants, prediction: np.ndarray, n_votes: int) -> np.ndarray:
    """φ_t for every way in which votes can fall on one item, (L, C)."""
    counts = count_vectors(n_votes, len(prediction)).astype(float)
    return majorants.values(np.tile(prediction, (len(counts), 1)), counts)


def check_majorant(
    majorants: Majorants, score: Score, prediction: np.ndarray, n_votes: int, points: np.ndarray, factor: float = 1.0
) -> None:
    """E[φ_t | λ] ≥ 1{f > t} at many λ, and at ever closer neighbours of the worst of them."""
    vectors = count_vectors(n_votes, len(prediction))
    rng = np.random.default_rng(0)

    def look(where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return probabilities(where, vectors), score(np.tile(prediction, (len(where), 1)), where)

    everywhere = look(points)
    for t, table in zip(majorants.thresholds, factor * all_votes(majorants, prediction, n_votes), strict=True):
        seen, (law, values) = points, everywhere
        for scale in 0.03 * 0.4 ** np.arange(6):
            left = law @ table - (values > t)
            assert left.min() >= -1e-9, f"fails by {-left.min():.3g} at t = {t:.3g}"
            worst = seen[np.argsort(left)[:5]]
            near = np.repeat(worst, 40, axis=0) + scale * rng.normal(size=(200, len(prediction)))
            seen = np.concatenate([worst, np.maximum(near, 0.0) / np.maximum(near, 0.0).sum(axis=1, keepdims=True)])
            law, values = look(seen)


def fitted(name: str | Score, n_classes: int, n_votes: int) -> tuple[Majorants, Score]:
    """Majorants fitted to 400 items, once for each size of mesh."""
    return _fitted(get_score(name), n_classes, n_votes, tables.MESH[n_classes])


@cache
def _fitted(score: Score, n_classes: int, n_votes: int, _: int) -> tuple[Majorants, Score]:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(n_classes, 0.7), 400)
    g = 0.8 * truth + 0.2 * rng.dirichlet(np.ones(n_classes), 400)
    return Majorants.fit(score, g, rng.multinomial(n_votes, truth).astype(float), 1000), score


@pytest.mark.parametrize(
    ("name", "n_votes"), [("brier", 3), ("tv", 4), ("kl", 3), ("hellinger", 2), ("inner", 3), ("normalized", 3)]
)
def test_majorants_of_three_classes_are_what_they_say(name: str, n_votes: int) -> None:
    majorants, score = fitted(name, 3, n_votes)
    rng = np.random.default_rng(7)
    points = np.concatenate([grid(3, 0.02), rng.dirichlet(np.full(3, 0.3), 1000)])
    for g in [*rng.dirichlet(np.full(3, 0.7), 2), np.array([0.98, 0.01, 0.01]), np.array([0.5, 0.5, 0.0])]:
        check_majorant(majorants, score, g, n_votes, points)


def test_majorants_of_ordered_classes_and_of_many_votes() -> None:
    """Classes that cannot be sorted; and seven votes where the tables are of degree six."""
    majorants, score = fitted(Wasserstein((0.0, 1.0, 3.0)), 3, 7)
    rng = np.random.default_rng(8)
    points = np.concatenate([grid(3, 0.02), rng.dirichlet(np.full(3, 0.3), 1000)])
    for g in rng.dirichlet(np.full(3, 0.7), 3):
        check_majorant(majorants, score, g, 7, points)
        check_majorant(majorants, score, g, 9, points)  # more votes than were seen


@pytest.mark.slow
@pytest.mark.parametrize("name", ["brier", "tv", "ws", "kl", "hellinger", "inner"])
@pytest.mark.parametrize(("n_classes", "n_votes"), [(2, 1), (2, 5), (2, 10), (3, 2), (3, 5), (3, 10), (4, 3), (4, 6)])
def test_majorants_are_what_they_say_long(name: str, n_classes: int, n_votes: int) -> None:
    majorants, score = fitted(name, n_classes, n_votes)
    rng = np.random.default_rng(9)
    points = np.concatenate(
        [grid(n_classes, 0.01 if n_classes < 4 else 0.05), rng.dirichlet(np.full(n_classes, 0.3), 9000)]
    )
    for g in [*rng.dirichlet(np.full(n_classes, 0.7), 12), np.eye(n_classes)[0], np.full(n_classes, 1 / n_classes)]:
        check_majorant(majorants, score, g, n_votes, points)


@pytest.mark.parametrize("n_votes", [1, 4, 10])
def test_two_classes_by_the_roots_of_the_derivative(n_votes: int) -> None:
    """A polynomial in one variable is smallest at a root of its derivative or at an end: exact, and nothing is cut."""
    majorants, _ = fitted("tv", 2, n_votes)
    vectors = count_vectors(n_votes, 2)
    x = np.linspace(0.0, 1.0, n_votes + 1)
    law = probabilities(np.column_stack([x, 1 - x]), vectors)
    for g in (0.03, 0.2, 0.5, 0.71):
        for t, table in zip(majorants.thresholds, all_votes(majorants, np.array([g, 1 - g]), n_votes), strict=True):
            p = np.polynomial.Polynomial.fit(x, law @ table, n_votes, domain=[0, 1])
            turning = [z.real for z in p.deriv().roots() if abs(z.imag) < 1e-9] if n_votes > 1 else []
            for low, high, wanted in ((0.0, g - t, 1.0), (g + t, 1.0, 1.0), (0.0, 1.0, 0.0)):
                if low <= high:
                    where = [low, high, *(z for z in turning if low < z < high)]
                    assert min(p(z) for z in where) >= wanted - 1e-7


def test_a_majorant_that_is_five_per_cent_too_low_is_seen() -> None:
    majorants, score = fitted("brier", 3, 3)
    points = np.concatenate([grid(3, 0.02), np.random.default_rng(7).dirichlet(np.full(3, 0.3), 2000)])
    g = np.array([0.6, 0.3, 0.1])
    check_majorant(majorants, score, g, 3, points)
    with pytest.raises(AssertionError, match="fails by"):
        check_majorant(majorants, score, g, 3, points, factor=0.95)


def test_certificates_do_not_depend_on_the_programme() -> None:
    """Any table, however bad, is mended: shifted and divided, it is a majorant at random predictions of every cell."""
    rng = np.random.default_rng(10)
    score, mesh, degree, t = get_score("tv"), Mesh(3, 3, True), 3, 0.4
    tables = 1.0 + 0.3 * rng.normal(size=(len(mesh.nodes), len(count_vectors(degree, 3))))
    shift = shifts(tables, mesh, degree)
    floor = floors(score, tables, mesh, degree, t) + shift
    assert (floor > 0.2).all()
    points = np.concatenate([grid(3, 0.02), rng.dirichlet(np.full(3, 0.3), 2000)])
    law = probabilities(points, count_vectors(degree, 3))
    for g in rng.dirichlet(np.ones(3), 40):
        place = mesh.locate(g[None])
        table = place.share[0] @ tables[place.node[0]]
        cell = place.cell[0]
        mean = law @ (table + shift[cell]) / floor[cell]
        ranked = np.take_along_axis(g[None], place.order, axis=1)
        assert (mean >= -1e-12).all()
        assert (mean >= (score(np.tile(ranked, (len(points), 1)), points) > t) - 1e-9).all()


def test_items_with_fewer_votes_than_any_table_have_the_constant_majorant() -> None:
    majorants, _ = fitted("brier", 3, 3)
    values = majorants.values(np.array([[0.5, 0.3, 0.2]]), np.array([[1.0, 0.0, 0.0]]))
    assert (values == 1.0).all()
    assert (majorants.largest >= values.max(axis=1)).all()
