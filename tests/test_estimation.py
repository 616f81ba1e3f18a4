"""Averages from predictions and few votes, against ppi-python and simulations."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import credalset as cs
from credalset.estimation import _corrected, _Sample, wilson_bounds

DATA = Path(os.environ.get("CREDALSET_DATA", "data"))

# What ppi-python 0.2.3 returns for `example`: ppi_mean_pointestimate and ppi_mean_ci (alpha=0.05),
# one row per class, at a fixed power (lam) and at its own choice (lam=None).
PPI = {
    0.0: (
        [0.2875, 0.3875, 0.325],
        [
            [0.2085388213463807, 0.36646117865361927],
            [0.3044631499322404, 0.47053685006775964],
            [0.24542359159438037, 0.40457640840561965],
        ],
    ),
    0.5: (
        [0.3130272704933048, 0.3776487691783672, 0.30932396032832793],
        [
            [0.244645304584519, 0.3814092364020906],
            [0.30019353168136653, 0.4551040066753679],
            [0.23667325593992014, 0.3819746647167357],
        ],
    ),
    1.0: (
        [0.3385545409866096, 0.3677975383567345, 0.2936479206566559],
        [
            [0.2711810420174592, 0.40592803995576],
            [0.2856785276258637, 0.4499165490876053],
            [0.21727831635031292, 0.3700175249629989],
        ],
    ),
}
PPI_CHOICE = [0.32673007666931364, 0.37725850619336265, 0.30415907905429784]
N_VOTED, N_MORE = 80, 600


def example() -> tuple[np.ndarray, np.ndarray]:
    """Predictions of 680 items and two votes on the first 80."""
    rng = np.random.default_rng(7)
    prediction = rng.dirichlet([1, 1, 1], N_VOTED + N_MORE)
    truth = 0.6 * prediction + 0.4 * rng.dirichlet([1, 1, 1], N_VOTED + N_MORE)
    counts = np.array([rng.multinomial(2, row) for row in truth])
    counts[N_VOTED:] = 0
    return prediction, counts


@pytest.mark.parametrize("power", PPI)
def test_equal_to_ppi_python_at_a_fixed_power(power: float) -> None:
    """It divides by n where the variance of a sample is divided by n − 1."""
    prediction, counts = example()
    share = np.full(counts.shape, np.nan)
    share[:N_VOTED] = counts[:N_VOTED] / 2
    is_voted = counts.any(axis=1)
    sample = _Sample(share, prediction, is_voted, counts * 1.0, None, None, None, None)
    value, variance, freedom = _corrected(sample, np.full(3, power), "like")
    expected, interval = PPI[power]
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    residual = share[:N_VOTED] - power * prediction[:N_VOTED]
    further = power * prediction[N_VOTED:]
    by_n = residual.var(axis=0) / N_VOTED + further.var(axis=0) / N_MORE
    half = np.diff(interval, axis=1)[:, 0] / 2
    np.testing.assert_allclose(1.959963984540054 * np.sqrt(by_n), half, rtol=1e-9)
    unbiased = residual.var(axis=0, ddof=1) / N_VOTED + further.var(axis=0, ddof=1) / N_MORE
    np.testing.assert_allclose(variance, unbiased, rtol=1e-12)
    assert freedom == N_VOTED - 1


def test_near_ppi_python_with_its_own_power() -> None:
    prediction, counts = example()
    found = cs.estimate(prediction, counts)
    assert (np.abs(found.value - PPI_CHOICE) < 0.1 * found.error).all()


def test_the_power_minimises_the_standard_error() -> None:
    prediction, counts = example()
    found = cs.estimate(prediction, counts)
    share = np.where(counts.any(axis=1)[:, None], counts / 2, np.nan)
    sample = _Sample(share, prediction, counts.any(axis=1), None, None, None, None, None)
    for power in np.linspace(0, 1, 41):
        other = _corrected(sample, np.full(3, power), "like")[1]
        assert (found.error**2 <= other + 1e-12).all()
    assert (found.error <= found.error_alone).all()


def simulate(
    truth: np.ndarray,
    prediction: np.ndarray,
    n: int,
    n_items: int,
    n_votes: int,
    n_runs: int,
    **options: Any,
) -> np.ndarray:
    """Share of runs in which each interval covers."""
    rng = np.random.default_rng(0)
    covered = []
    is_like = options.get("population", "like") == "like"
    for _ in range(n_runs):
        if is_like:
            rows = rng.integers(0, len(truth), n_items)
            average = truth.mean(axis=0)
        else:
            rows = rng.permutation(len(truth))[:n_items]
            average = truth[rows].mean(axis=0)
        counts = np.zeros((n_items, truth.shape[1]))
        counts[:n] = rng.multinomial(n_votes, truth[rows[:n]])
        found = cs.estimate(prediction[rows], counts, **options)
        if "values" in options:
            average = np.append(average, average @ options["values"])
        covered.append((found.lower <= average) & (average <= found.upper))
    return np.mean(covered, axis=0)


@pytest.mark.parametrize(
    ("n", "n_votes", "options"),
    [
        (60, 1, {}),
        (200, 3, {"values": [1.0, 2.0, 5.0]}),
        (200, 1, {"population": "these"}),
        (300, 3, {"population": "these", "values": [1.0, 2.0, 5.0]}),
    ],
)
def test_coverage(n: int, n_votes: int, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    truth = rng.dirichlet([0.7, 0.5, 0.4], 6000)
    prediction = 0.6 * truth + 0.4 * rng.dirichlet([0.7, 0.5, 0.4], 6000)
    covered = simulate(truth, prediction, n, 600, n_votes, 300, **options)
    # 99.9 % of a binomial at .95, which is .903 to .99
    assert (covered > 0.903).all()
    assert covered.mean() < 0.985


# Measured .928 and .923 with 200 items of three votes, few of which have a vote for the rare class.
TOO_LOW = {("like", 0.7, 0.03), ("like", 1.0, 0.03)}
SHORT = pytest.mark.xfail(strict=True, reason="rare shares of clustered votes reach .92 to .93")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "quality", "share"),
    [
        pytest.param(*case, marks=[SHORT] if case in TOO_LOW else [])
        for case in product(("like", "these"), (0.0, 0.7, 1.0), (0.03, 0.1, 0.3))
    ],
)
def test_coverage_at_length(population: str, quality: float, share: float) -> None:
    rng = np.random.default_rng(1)
    mean = np.array([share, 1 - share])
    truth = rng.dirichlet(4 * mean, 20_000)
    prediction = quality * truth + (1 - quality) * rng.dirichlet(4 * mean, 20_000)
    for n, n_votes in ((100, 1), (200, 3)):
        options: dict[str, Any] = {"population": population}
        covered = simulate(truth, prediction, n, 1000, n_votes, 1000, **options)
        assert (covered >= 0.93).all()
        assert share < 0.1 or (covered < 0.975).all()


def real_votes(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and votes: of classifiers, or of the mean of LLM judges."""
    if name == "summeval":
        folder = DATA / "alttest" / name
        people, models = (
            json.loads((folder / f"{who}_annotations.json").read_text()) for who in ("human", "llm")
        )
        items = sorted({item for own in people.values() for item in own})
        votes, said = (
            np.array(
                [[sum(own.get(i) == k for own in who.values()) for k in range(1, 6)] for i in items]
            )
            for who in (people, models)
        )
        return (said + 0.5) / (said + 0.5).sum(axis=1, keepdims=True), votes.astype(float)
    if name == "cifar10h":
        with np.load(DATA / "cifar10h_model_a.npz") as file:
            return softmax(file["logits"].astype(float), axis=1), file["counts"].astype(float)
    with (
        np.load(DATA / "chaosnli_snli_mnli_roberta.npz") as file,
        np.load(DATA / "chaosnli_snli_mnli.npz") as votes_of,
    ):
        known = file["has_roberta"]
        logits = file["roberta_logits"][known].astype(float).mean(axis=1)
        return softmax(logits, axis=1), votes_of["counts"][known].astype(float)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["chaosnli", "cifar10h", "summeval"])
@pytest.mark.parametrize(("population", "n_votes"), [("like", 1), ("these", 3)])
def test_coverage_on_real_votes(name: str, population: str, n_votes: int) -> None:
    """.93 to .97 over the estimates, and none is below .92 (of 1 000 runs at .95: .93 to .97)."""
    if not DATA.exists():
        pytest.skip("needs the data folder (CREDALSET_DATA)")
    prediction, votes = real_votes(name)
    truth = votes / votes.sum(axis=1, keepdims=True)
    values = np.arange(1.0, truth.shape[1] + 1)
    options: dict[str, Any] = {"population": population, "values": values}
    covered = simulate(truth, prediction, 200, 1500, n_votes, 1000, **options)
    assert 0.93 <= covered.mean() <= 0.97
    assert covered.min() > 0.92


def test_never_much_wider_than_votes_alone() -> None:
    """On average over runs at most 2 %, whether the predictions help or not."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.7, 0.5, 0.4], 800)
    for quality in (0.0, 0.1, 0.6):
        noise = rng.dirichlet([0.7, 0.5, 0.4], 800)
        prediction = quality * truth + (1 - quality) * noise
        ratios = []
        for _ in range(40):
            rows = rng.permutation(800)
            counts = np.zeros((800, 3))
            counts[:60] = rng.multinomial(1, truth[rows[:60]])
            widths = []
            for given in (prediction[rows], np.full((800, 3), 1 / 3)):
                found = cs.estimate(given, counts)
                widths.append(found.upper - found.lower)
            ratios.append(widths[0] / widths[1])
        assert np.mean(ratios) <= 1.02


def test_strata_and_weights_repair_an_uneven_sample() -> None:
    rng = np.random.default_rng(0)
    misses = {"plain": 0, "strata": 0, "weights": 0}
    for _ in range(150):
        kind = rng.integers(0, 2, 1500)
        truth = rng.dirichlet([1.0, 1.0], 1500)
        truth[kind == 1] = rng.dirichlet([4.0, 1.0], int((kind == 1).sum()))
        prediction = 0.5 * truth + 0.25
        chance = np.where(kind == 1, 0.3, 0.06)
        chosen = rng.random(1500) < chance
        counts = np.where(chosen[:, None], rng.multinomial(1, truth), 0)
        average = 0.65
        for name, options in (
            ("plain", {}),
            ("strata", {"strata": kind}),
            ("weights", {"weights": 1 / chance}),
        ):
            found = cs.estimate(prediction, counts, **options)
            misses[name] += not found.lower[0] <= average <= found.upper[0]
    assert misses["plain"] > 30
    assert misses["strata"] <= 17  # 99.9 % of a binomial at .05
    assert misses["weights"] <= 17


def test_clusters_widen_intervals_to_cover() -> None:
    rng = np.random.default_rng(0)
    alone = together = 0
    for _ in range(200):
        document = np.repeat(np.arange(150), 4)
        truth = np.repeat(rng.dirichlet([0.4, 0.4], 150), 4, axis=0)
        counts = rng.multinomial(1, truth)
        counts[240:] = 0
        prediction = rng.dirichlet([1.0, 1.0], 600)
        plain = cs.estimate(prediction, counts)
        by_document = cs.estimate(prediction, counts, clusters=document)
        alone += not plain.lower[0] <= 0.5 <= plain.upper[0]
        together += not by_document.lower[0] <= 0.5 <= by_document.upper[0]
    assert alone > 25
    assert together <= 21


def test_cluster_of_one_item_each_is_no_cluster() -> None:
    prediction, counts = example()
    plain = cs.estimate(prediction, counts)
    alone = cs.estimate(prediction, counts, clusters=np.arange(len(counts)))
    np.testing.assert_allclose(alone.error, plain.error, rtol=0.01)


def test_groups_are_estimated_alone() -> None:
    prediction, counts = example()
    group = np.where(np.arange(len(counts)) % 2, "b", "a")
    found = cs.estimate(prediction, counts, groups=group, values=[1, 2, 3])
    alone = cs.estimate(prediction[::2], counts[::2], values=[1, 2, 3])
    np.testing.assert_allclose(found.groups["a"].value, alone.value)
    assert found.names == (0, 1, 2, "mean")
    assert "a" in str(found)
    assert len(found.to_frame()) == 12


def test_differences_are_paired() -> None:
    rng = np.random.default_rng(0)
    prediction, counts = example()
    other = np.roll(counts, 1, axis=1)
    found = cs.estimate(prediction, counts, minus=(prediction, counts))
    np.testing.assert_allclose(found.value, 0.0, atol=1e-12)
    found = cs.estimate(prediction, counts, minus=(np.roll(prediction, 1, axis=1), other))
    assert (found.lower < found.value).all()
    one = cs.estimate(prediction, counts).value
    assert abs(found.value[0] - (one[0] - one[2])) < 0.1
    with pytest.raises(ValueError, match="minus has 3 items"):
        cs.estimate(prediction, counts, minus=(prediction[:3], counts[:3]))
    del rng


def test_names_are_matched() -> None:
    prediction, counts = example()
    items = [f"t{i}" for i in range(len(counts))]
    frame = pd.DataFrame(prediction, items, ["a", "b", "c"])
    votes = pd.DataFrame(counts[:N_VOTED], items[:N_VOTED], ["a", "b", "c"])
    expected = cs.estimate(prediction, counts, values=[1, 2, 5])
    found = cs.estimate(frame.iloc[::-1], votes[["c", "a", "b"]], values={"c": 5, "a": 1, "b": 2})
    np.testing.assert_allclose(found.value, expected.value)
    assert found.names == ("a", "b", "c", "mean")


def test_rare_shares_have_wilsons_bounds() -> None:
    low, high = wilson_bounds(np.array([0.03]), np.sqrt([0.03 * 0.97 / 100]), 1.959964, 100)
    np.testing.assert_allclose([low[0], high[0]], [0.01025, 0.08452], atol=2e-5)  # 3 of 100
    counts = np.zeros((500, 2))
    counts[:100, 1] = 1
    found = cs.estimate(np.full((500, 2), 0.5), counts, values=[0, 10])
    assert found.lower[0] == 0.0
    assert 0.03 < found.upper[0] < 0.05
    assert found.lower[2] < 9.7
    assert found.upper[2] == pytest.approx(10.0)


def test_how_many_items_are_needed() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.7, 0.7], 8000)
    prediction = 0.5 * truth + 0.25
    counts = np.zeros((8000, 2))
    counts[:300] = rng.multinomial(3, truth[:300])
    found = cs.estimate(prediction, counts)
    needed = found.items_for(0.06, votes_per_item=1)[0]
    counts[:] = 0
    counts[: int(needed)] = rng.multinomial(1, truth[: int(needed)])
    again = cs.estimate(prediction, counts)
    assert 0.054 < again.upper[0] - again.lower[0] < 0.066
    assert found.items_for(0.06, votes_per_item=3)[0] < needed
    assert np.isinf(found.items_for(1e-5)).all()
    with pytest.raises(ValueError, match="votes_per_item"):
        again.items_for(0.06, votes_per_item=2)


def test_bad_input() -> None:
    prediction, counts = example()
    with pytest.raises(ValueError, match="votes on 0 items"):
        cs.estimate(prediction, counts * 0)
    with pytest.raises(ValueError, match="level"):
        cs.estimate(prediction, counts, 1.5)
    with pytest.raises(ValueError, match="population"):
        cs.estimate(prediction, counts, population="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="values has no 2"):
        cs.estimate(prediction, counts, values={0: 1, 1: 2})
    with pytest.raises(ValueError, match="values must hold"):
        cs.estimate(prediction, counts, values=[1, 2])
    with pytest.raises(ValueError, match="groups"):
        cs.estimate(prediction, counts, groups=np.arange(len(counts)) // 3)
    with pytest.raises(ValueError, match="weights"):
        cs.estimate(prediction, counts, weights=-np.ones(len(counts)))
    with pytest.raises(ValueError, match="strata"):
        cs.estimate(prediction, counts, strata=np.arange(len(counts)) // 100)
    with pytest.raises(ValueError, match="clusters"):
        cs.estimate(prediction, counts, clusters=np.zeros(len(counts)))


def test_all_items_voted_needs_no_prediction() -> None:
    prediction, counts = example()
    found = cs.estimate(prediction[:N_VOTED], counts[:N_VOTED])
    np.testing.assert_allclose(found.value, counts[:N_VOTED].mean(axis=0) / 2)
    assert (found.power == 0).all()
    these = cs.estimate(prediction[:N_VOTED], counts[:N_VOTED], population="these")
    assert (these.error < found.error).all()
