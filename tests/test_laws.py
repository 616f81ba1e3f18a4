"""The one law: score(prediction, λ) ≤ t if and only if λ lies in region(prediction, t). Over every score."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credalset.scores import REGISTRY, Score
from tests.conftest import SCORES, random_predictions

each_score = pytest.mark.parametrize("name", SCORES)


@st.composite
def distributions(draw: st.DrawFn, n_classes: int) -> np.ndarray:
    """Points of the simplex, with exact zeros and corners drawn often."""
    kind = draw(st.sampled_from(["corner", "sparse", "tiny", "smooth"]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    if kind == "corner":
        return np.eye(n_classes)[draw(st.integers(0, n_classes - 1))]
    weights = rng.exponential(size=n_classes)
    if kind == "sparse":
        weights[rng.permutation(n_classes)[: n_classes // 2]] = 0.0
    if kind == "tiny":
        weights *= 10.0 ** rng.uniform(-200, 0, n_classes)
    return weights / weights.sum()


@st.composite
def cases(draw: st.DrawFn, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """One prediction and one label distribution, legal but often degenerate, K from 2 to 50."""
    n_classes = draw(st.integers(2, 50))
    prediction = draw(distributions(n_classes))
    if score.order == "second":
        prediction = 1.0 + prediction * draw(st.sampled_from([0.0, 1e-9, 1.0, 30.0, 1e6]))
    return prediction[None], draw(distributions(n_classes))[None]


def test_every_registered_score_is_under_the_law() -> None:
    assert {type(score) for score in SCORES.values()} == set(REGISTRY.values())


@each_score
@given(data=st.data())
def test_score_and_region_agree(name: str, data: st.DataObject) -> None:
    score = SCORES[name]
    prediction, label = data.draw(cases(score))
    value = float(score(prediction, label)[0])
    assert not math.isnan(value)
    assert score.region(prediction, value).contains(label).all(), "closed sets hold their boundary"
    if math.isfinite(value):
        below, above = np.nextafter(value, -math.inf), np.nextafter(value, math.inf)
        assert not score.region(prediction, below).contains(label).any()
        assert score.region(prediction, above).contains(label).all()
    threshold = data.draw(st.floats(-2.0, 50.0))
    assert score.region(prediction, threshold).contains(label)[0] == (value <= threshold)
    assert score.region(prediction, math.inf).contains(label).all(), "an infinite threshold admits everything"


@each_score
@given(data=st.data())
def test_regions_nest(name: str, data: st.DataObject) -> None:
    score = SCORES[name]
    n_classes = data.draw(st.integers(2, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    prediction = random_predictions(score, 1, n_classes, rng)
    candidates = rng.dirichlet(np.full(n_classes, 0.7), 200)
    small, large = np.sort(rng.normal(0.3, 1.0, 2))
    inside_small = score.region(prediction, small).contains(candidates, broadcast=True)
    inside_large = score.region(prediction, large).contains(candidates, broadcast=True)
    assert (inside_small <= inside_large).all()


@each_score
@given(data=st.data())
def test_best_fit_has_the_smallest_score(name: str, data: st.DataObject) -> None:
    score = SCORES[name]
    prediction, label = data.draw(cases(score))
    best = score.best_fit(score.check_prediction(prediction))
    value, least = score(prediction, label)[0], score(prediction, best)[0]
    assert least <= value + 1e-9 * max(1.0, abs(least))
    assert not score.region(prediction, least).is_empty()[0]
    slightly_less = least - 1e-6 * max(1.0, abs(least))
    assert score.region(prediction, slightly_less).is_empty()[0]


@each_score
@given(data=st.data())
def test_bits_do_not_depend_on_the_batch(name: str, data: st.DataObject) -> None:
    """Ties must tie exactly, however an item was batched, or closed sets lose their boundary."""
    score = SCORES[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_classes = data.draw(st.integers(2, 40))
    prediction = random_predictions(score, 37, n_classes, rng)
    labels = rng.multinomial(5, rng.dirichlet(np.ones(n_classes)), 37) / 5
    together = score(prediction, labels)
    some = range(0, 37, 4)
    alone = np.concatenate([score(prediction[i : i + 1], labels[i : i + 1]) for i in some])
    fortran = score(np.asfortranarray(prediction), np.asfortranarray(labels))
    assert np.array_equal(together[some], alone)
    assert np.array_equal(together, fortran)
    region = score.region(prediction, together)
    assert region.contains(labels).all()
    every = region.contains(labels, broadcast=True)
    assert every[np.arange(37), np.arange(37)].all()
    assert region.contains(labels[:, None, :]).all()


def test_published_formulas() -> None:
    """Each score against its formula, written out independently with SciPy."""
    from scipy.special import rel_entr
    from scipy.stats import dirichlet, wasserstein_distance

    rng = np.random.default_rng(7)
    for n_classes in (2, 3, 7, 30):
        g, y = rng.dirichlet(np.ones(n_classes), 2)
        theta = 1.0 + rng.gamma(2.0, 2.0, n_classes)
        mode = (theta - 1) / (theta - 1).sum()
        places = np.cumsum(rng.uniform(0.1, 2.0, n_classes))
        expected = {
            "tv": np.abs(g - y).sum() / 2,
            "kl": rel_entr(y, g).sum() / np.log(2),
            "inner": 1 - g @ y,
            "ws": wasserstein_distance(np.arange(n_classes), np.arange(n_classes), y, g),
            "so": 1 - dirichlet(theta).pdf(y) / dirichlet(theta).pdf(mode),
            "density": -dirichlet(theta).logpdf(y),
        }
        for name, value in expected.items():
            score = REGISTRY[name]()
            prediction = g if score.order == "first" else theta
            assert score(prediction[None], y[None])[0] == pytest.approx(value, rel=1e-9, abs=1e-12), name
        moved = REGISTRY["ws"](positions=tuple(places))(g[None], y[None])[0]  # type: ignore[call-arg]
        assert moved == pytest.approx(wasserstein_distance(places, places, y, g), rel=1e-9)
        entropy = -(g * np.log(g)).sum() / np.log(n_classes)
        adaptive = REGISTRY["normalized"](offset=0.1)(g[None], y[None])[0]  # type: ignore[call-arg]
        assert adaptive == pytest.approx(expected["tv"] / (entropy + 0.1), rel=1e-9)


def test_infinity_where_it_belongs() -> None:
    g, y = np.array([[1.0, 0.0, 0.0]]), np.array([[0.5, 0.5, 0.0]])
    assert SCORES["kl"](g, y)[0] == math.inf
    assert SCORES["kl"](g, g)[0] == 0.0
    assert SCORES["normalized-tv"](g, y)[0] == math.inf
    assert SCORES["normalized-tv"](g, g)[0] == 0.0
    theta = np.array([[3.0, 2.0, 1.0]])
    assert SCORES["density"](theta, np.array([[1.0, 0.0, 0.0]]))[0] == math.inf
    assert SCORES["so"](theta, np.array([[1.0, 0.0, 0.0]]))[0] == 1.0


def test_uniform_dirichlet_fits_everything_equally() -> None:
    """The published code divides by zero when all ReLU outputs are zero."""
    theta, labels = np.ones((4, 3)), np.array([[1, 0, 0], [0, 0.5, 0.5], [0.2, 0.3, 0.5], [0, 1, 0]])
    assert np.array_equal(SCORES["so"](theta, labels), np.zeros(4))
    assert SCORES["density"](theta, labels) == pytest.approx(np.full(4, -math.log(2)))
    assert SCORES["so"].region(theta, 0.0).contains(labels).all()
    assert SCORES["density"].region(theta, -1.0).is_empty().all()
