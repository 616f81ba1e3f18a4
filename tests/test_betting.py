"""The betting test: never wrong too often, whatever the law, and about as sharp as the normal approximation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from credalset.calibration import betting
from credalset.calibration.betting import mean_is_below

LEVEL = 0.2


def rare_and_large(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Almost always a little below the level, rarely far above it; the mean is the level."""
    return np.where(rng.random(shape) < 0.01, LEVEL + 9.9, LEVEL - 0.1)


LAWS = {
    "coin": (lambda s, rng: (rng.random(s) < LEVEL).astype(float), 1.0),
    "rare and large": (rare_and_large, LEVEL + 9.9),
    "rare and small": (lambda s, rng: np.where(rng.random(s) < 0.01, LEVEL - 9.9, LEVEL + 0.1), LEVEL + 0.1),
    "two far points": (lambda s, rng: LEVEL + np.where(rng.random(s) < 0.5, 5.0, -5.0), LEVEL + 5.0),
    "smooth": (lambda s, rng: LEVEL + np.clip(rng.normal(size=s), -3, 3), LEVEL + 3.0),
    "constant": (lambda s, rng: np.full(s, LEVEL), 1.0),
}


def rejected(values: np.ndarray, delta: float, largest: float, spread: float, level: float = LEVEL) -> np.ndarray:
    L = len(values)
    each = np.ones(L)
    return mean_is_below(values, np.array([level]), np.array([delta]), largest * each, spread * each)[:, 0]


@pytest.mark.parametrize("guess", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("law", LAWS)
def test_a_true_hypothesis_is_rarely_rejected(law: str, n: int, guess: float) -> None:
    """The mean equals the level, the hardest case; 4 000 samples, and a bound that chance breaks once in 10⁶."""
    draw, largest = LAWS[law]
    rng = np.random.default_rng([n, len(law)])
    values = draw((4000, n), rng)
    spread = guess * max(values.std(), 1e-3)
    for delta in (0.01, 0.3):
        errors = rejected(values, delta, largest, spread).sum()
        assert errors <= stats.binom.ppf(1 - 1e-6, 4000, delta)


def test_a_law_that_waits_for_the_gambler() -> None:
    """Values may depend on the past in any way that keeps their conditional mean: here they turn on who is ahead."""
    rng = np.random.default_rng(0)
    total = np.zeros(4000)
    columns = []
    for _ in range(300):
        calm = total < 0  # the gambler is losing: nothing happens; winning: everything is at stake
        step = np.where(calm, 0.01, 1.0) * np.where(rng.random(4000) < 0.5, 1.0, -1.0)
        columns.append(LEVEL + step)
        total -= step
    errors = rejected(np.stack(columns, axis=1), 0.05, LEVEL + 1.0, 0.5).sum()
    assert errors <= stats.binom.ppf(1 - 1e-6, 4000, 0.05)


@pytest.mark.parametrize(("delta", "limit"), [(0.3, 0.8), (0.01, 2.6), (0.0005, 3.6)])
def test_the_power_is_nearly_that_of_the_normal_approximation(delta: float, limit: float) -> None:
    """Half of the samples reject a mean ``limit`` standard errors away; a constant bet would need √(2 log 1/δ)."""
    rng = np.random.default_rng(1)
    values = np.clip(rng.normal(size=(400, 2000)), -3, 3)
    level = limit * values.std() / np.sqrt(2000)
    assert rejected(values, delta, 3.0, 1.0, level=level).mean() > 0.5


def test_levels_beyond_the_largest_value_need_no_evidence() -> None:
    found = mean_is_below(np.zeros((1, 0)), np.array([1.0, 2.0]), np.full(2, 0.01), np.array([1.5]), np.ones(1))
    assert found.tolist() == [[False, True]]


def test_a_bet_that_is_too_bold_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coverage test above would see a gambler who may go into debt and borrow: the bound on the bet matters."""
    monkeypatch.setattr(betting, "BOLDNESS", 50.0)
    draw, largest = LAWS["rare and large"]
    values = draw((4000, 20), np.random.default_rng(0))
    errors = rejected(values, 0.01, largest, 0.001).sum()
    assert errors > stats.binom.ppf(1 - 1e-6, 4000, 0.01)
