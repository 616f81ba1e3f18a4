"""`check_score` passes every score of ours and a stranger's,
and notices what is wrong with a broken one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import credalset as cs
from credalset.scores import (
    REGISTRY,
    KullbackLeibler,
    Score,
    TotalVariation,
    get_score,
    register_score,
    registry,
)
from credalset.sets import Geometry
from credalset.testing import check_score
from tests.conftest import SCORES


@pytest.mark.parametrize("name", SCORES)
def test_our_own_scores_pass_the_checks(name: str) -> None:
    report = check_score(SCORES[name], n_items=4)
    assert {"membership", "region", "answers", "saving"} <= set(report.checks)


@dataclass(frozen=True)
class ChiSquare(Score):
    """A score of a stranger: one formula."""

    factor: float = 1.0
    name: ClassVar[str] = "chi_square_of_the_tests"
    order: ClassVar[str] = "first"

    def formula(self, prediction: Any, distribution: Any) -> Any:
        gap = (distribution - prediction) ** 2
        return self.factor * np.where(gap > 0, gap / prediction, 0.0).sum(axis=-1)


@pytest.fixture
def registered() -> Any:
    register_score(ChiSquare)
    yield ChiSquare
    del REGISTRY[ChiSquare.name]


def test_one_formula_is_a_score(registered: type[Score], tmp_path: Path) -> None:
    predictions = np.array([[0.7, 0.3], [0.2, 0.8]])
    assert "saving" in check_score(ChiSquare(2.0), predictions).checks
    made = cs.conformalize(
        np.repeat(predictions, 20, axis=0), np.eye(2)[np.arange(40) % 2], "chi_square_of_the_tests"
    )
    made.save(tmp_path / "chi")
    assert cs.load(tmp_path / "chi").score == ChiSquare()
    g, r = 0.3, 0.05  # f = (λ − g)² / g (1 − g) for two classes
    lower, upper = ChiSquare().region([[g, 1 - g]], r).envelope()
    reach = np.sqrt(r * g * (1 - g))
    assert lower[0, 0] == pytest.approx(g - reach, abs=1e-6)
    assert upper[0, 0] == pytest.approx(g + reach, abs=1e-6)


def test_a_file_whose_score_is_not_registered_says_so(tmp_path: Path) -> None:
    register_score(ChiSquare)
    cs.conformalize([[0.7, 0.3]] * 20, np.eye(2)[np.arange(20) % 2], ChiSquare()).save(
        tmp_path / "chi"
    )
    del REGISTRY[ChiSquare.name]
    with pytest.raises(cs.FileFormatError, match="chi_square_of_the_tests"):
        cs.load(tmp_path / "chi")


def without(**replaced: Any) -> type:
    """A class that lacks something, or has it wrong."""
    return type("Loose", (TotalVariation,), {"name": "loose"} | replaced)


@dataclass(frozen=True)
class Demanding(TotalVariation):
    name = "demanding"
    strength: float = field(kw_only=True)


@dataclass(frozen=True)
class Holding(TotalVariation):
    name = "holding"
    table: Any = field(default_factory=dict)


UNREGISTRABLE = {
    "not frozen": (without(), "must be a frozen dataclass"),
    "no name of its own": (
        dataclass(frozen=True)(type("Loose", (TotalVariation,), {})),
        "must have a name",
    ),
    "a strange name": (dataclass(frozen=True)(without(name="../kl")), "must have a name"),
    "a name in use": (dataclass(frozen=True)(without(name="kl")), "name 'kl'"),
    "an unknown order": (dataclass(frozen=True)(without(order="third")), "order"),
    "no default": (Demanding, "strength"),
    "what files cannot hold": (Holding, "table"),
    "no class": (3, "takes a class derived from Score"),
}


@pytest.mark.parametrize(("score", "message"), UNREGISTRABLE.values(), ids=UNREGISTRABLE)
def test_what_cannot_be_registered(score: Any, message: str) -> None:
    before = dict(REGISTRY)
    with pytest.raises((TypeError, ValueError), match=message):
        register_score(score)
    assert before == REGISTRY


def test_check_score_wants_an_object() -> None:
    with pytest.raises(TypeError, match="must be a Score object"):
        check_score(TotalVariation)  # type: ignore[arg-type]


def test_installed_packages_announce_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    announced = dataclass(frozen=True)(without(name="announced"))
    point = SimpleNamespace(load=lambda: announced)
    monkeypatch.setattr(
        registry, "entry_points", lambda group, name: [point] if name == "announced" else []
    )
    monkeypatch.setattr(registry, "REGISTRY", dict(REGISTRY))
    assert type(get_score("announced")) is announced
    with pytest.raises(ValueError, match=r"score 'nowhere'"):
        get_score("nowhere")


class WideRegion(KullbackLeibler):
    """Seven times the radius: membership is the formula's, every answer another set's."""

    def geometry(self, prediction: Any, threshold: Any) -> Geometry:
        return KullbackLeibler().geometry(prediction, 7 * threshold)


class Ungrounded(TotalVariation):
    def formula(self, prediction: Any, distribution: Any) -> Any:
        return np.log(distribution - prediction).sum(axis=-1)


class Batched(TotalVariation):
    def formula(self, prediction: Any, distribution: Any) -> Any:
        return super().formula(prediction, distribution) + 1e-3 * distribution.shape[0]


class Elsewhere(TotalVariation):
    def best_fit(self, prediction: Any) -> Any:
        return np.eye(prediction.shape[1])[np.zeros(len(prediction), dtype=int)]


class Impatient(TotalVariation):
    """A geometry that asks for a regular set in every batch."""

    def geometry(self, prediction: Any, threshold: Any) -> Geometry:
        if not (np.isfinite(threshold) & (threshold >= 0)).any():
            raise ValueError("no set is regular")
        return super().geometry(prediction, threshold)


BROKEN = {
    "batches": (Impatient(), "batches"),
    "wide region": (WideRegion(), "region"),
    "not a number": (Ungrounded(), "numbers"),
    "batch": (Batched(), "membership|ties|region"),
    "best fit": (Elsewhere(), "best fit"),
}


@pytest.mark.parametrize(("score", "law"), BROKEN.values(), ids=BROKEN)
def test_broken_scores_are_noticed(score: Score, law: str) -> None:
    with pytest.raises(AssertionError, match=f"fails the check of ({law})"):
        check_score(score)
