"""Fixtures and strategies that several test files share."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from credalset.scores import (
    Brier,
    InnerProduct,
    KullbackLeibler,
    Normalized,
    Score,
    TotalVariation,
    Wasserstein,
    get_score,
)
from credalset.scores.base import REGISTRY

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # tests share the cores already: further threads would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    threadpool_limits(1)

settings.register_profile(
    "default",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.load_profile("default")


@dataclass(frozen=True)
class Formula(Score):
    """A score that is only a formula, as users write them: every answer is a default."""

    name: ClassVar[str] = "formula"
    order: ClassVar[Literal["first", "second"]] = "first"

    def formula(self, prediction: Any, distribution: Any) -> Any:
        return np.sqrt(((distribution - prediction) ** 2).sum(axis=-1))


#: every registered score, and variants that behave differently; the laws run over all of them
SHIPPED = [name for name in REGISTRY if name != Normalized.name]
SCORES: dict[str, Score] = {
    **{name: get_score(name) for name in SHIPPED},
    "kl-nats": KullbackLeibler(base=float(np.e)),
    "normalized-brier": Normalized(Brier(), offset=0.1),
    "normalized-tv": Normalized(TotalVariation()),
    "normalized-ws": Normalized(Wasserstein(), offset=0.1),
    "normalized-kl": Normalized(KullbackLeibler(), offset=0.1),
    "normalized-inner": Normalized(InnerProduct(), offset=0.05),
}


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=SCORES, ids=str)
def score(request: pytest.FixtureRequest) -> Score:
    return SCORES[request.param]


def make_predictions(score: Score, distributions: np.ndarray) -> Any:
    """Predictions of the score's own kind around distributions (n, K)."""
    if score.name == "intervals":
        return np.stack(
            [distributions, *np.random.default_rng(1).gamma(2.0, 0.1, (2, *distributions.shape))],
            axis=1,
        )
    if score.order == "first":
        return distributions
    return 1.0 + distributions * np.random.default_rng(1).gamma(2.0, 5.0, (len(distributions), 1))


def random_predictions(score: Score, n: int, n_classes: int, rng: np.random.Generator) -> Any:
    """Predictions of the right kind, some sharp, some flat, none degenerate."""
    return make_predictions(score, rng.dirichlet(np.ones(n_classes), n))
