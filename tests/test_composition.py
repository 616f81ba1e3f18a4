"""Every option composes with every score: through `conformalize` and the classifier alike, saved and loaded.

What has no proof is refused by a sentence, the same one on both ways.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

import credalset as cs
from credalset.calibration.noise import Noise
from credalset.scores import Score

from .conftest import SCORES, random_predictions

TWINS = ("kl-nats", "normalized-tv", "normalized-ws", "normalized-inner")  # others go the same ways
CASES = [pytest.param(name, marks=pytest.mark.slow) if name in TWINS else name for name in (*SCORES, "mixture")]
NOISES: dict[str, Noise | None] = {
    "none": None,
    "bounded": cs.BoundedNoise(0.05, 0.02),
    "sampling-exact": cs.AnnotatorSampling(0.02, "exact"),
    "sampling-tv": cs.AnnotatorSampling(0.02, "tv"),
    "sampling-kl": cs.AnnotatorSampling(0.02, "kl"),
    "sampling-open": cs.AnnotatorSampling(),
    "unbiased": cs.UnbiasedVotes(),
}
N, N_NEW, K, ALPHA = 60, 8, 3, 0.3
VOTES = 400  # enough for finite scores
TRUSTED = ["tests.test_composition.Known"]


def _kind(name: str) -> Any:
    return available_if(lambda self: self.kind == name)


class Known(BaseEstimator):  # type: ignore[misc]
    """An estimator whose features are predictions; training moves them a little."""

    accepts_label_distributions = True

    def __init__(self, kind: str = "first") -> None:
        self.kind = kind

    def fit(self, X: Any, Y: Any) -> Known:
        self.mean_ = np.asarray(Y, dtype=float).mean(axis=0)
        return self

    @_kind("first")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(0.9 * X + 0.1 * self.mean_)

    @_kind("second")  # type: ignore[untyped-decorator]
    def predict_concentration(self, X: Any) -> np.ndarray:
        return np.asarray(X + self.mean_)

    @_kind("mixture")  # type: ignore[untyped-decorator]
    def predict_density(self, X: Any) -> np.ndarray:
        mixtures = np.array(X).reshape(len(X), 2, K + 1)
        mixtures[..., 1:] += self.mean_
        return mixtures


class Problem:
    """Items for a score: features, counts, keys and weights, of the calibration and of new items."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(0)
        self.score: Score = cs.get_score("density") if name == "mixture" else SCORES[name]
        n = N + N_NEW
        if name == "mixture":
            theta = 0.5 + 6.0 * rng.dirichlet(np.ones(K), (n, 2))
            self.X = np.concatenate([np.full((n, 2, 1), 0.5), theta], axis=2).reshape(n, -1)
        else:
            self.X = random_predictions(self.score, n, K, rng)
        self.kind = "mixture" if name == "mixture" else self.score.order
        mean = self.score.mean(self.score.check_prediction(self.X.reshape(n, 2, -1) if name == "mixture" else self.X))
        self.counts = rng.multinomial(VOTES, 0.5 * mean + 0.5 * rng.dirichlet(np.full(K, 20.0), n))
        self.keys, self.weights = np.arange(n) % 2, rng.exponential(size=n) + 0.05  # uneven enough to move quantiles

    def options(self, groups: str | None, weighted: bool, new: bool) -> dict[str, Any]:
        rows = slice(N, None) if new else slice(N)
        options: dict[str, Any] = {"weights": self.weights[rows]} if weighted else {}
        if groups == "keys":
            options["groups"] = self.keys[rows]
        elif groups == "predicted" and not new:
            options["groups"] = "predicted"
        return options

    def classifier(self, noise: Noise | None) -> Any:
        return cs.ConformalCredalClassifier(Known(self.kind), self.score, noise=noise)

    def predict(self, estimator: Known, new: bool) -> np.ndarray:
        method = {"first": "predict_proba", "second": "predict_concentration", "mixture": "predict_density"}[self.kind]
        return np.asarray(getattr(estimator, method)(self.X[slice(N, None) if new else slice(N)]))

    def is_refused(self, noise: Noise | None) -> bool:
        return isinstance(noise, cs.UnbiasedVotes) and (
            self.kind == "mixture" or not self.score.is_convex_at(self.score.check_prediction(self.X))
        )


@pytest.fixture(autouse=True)
def quick_and_quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small groups pool and scores may be infinite: legal here. Nothing is lost if the power goes."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CredalSetWarning)
        yield


def refusal(call: Any) -> str:
    with pytest.raises(ValueError) as caught:  # whatever it says, both ways say it
        call()
    text = str(caught.value)
    assert text.endswith((".", ")"))
    assert len(text) > 40
    return text


@pytest.mark.parametrize("noise_name", NOISES)
@pytest.mark.parametrize("name", CASES)
def test_split_calibration(name: str, noise_name: str, tmp_path: Path) -> None:
    problem, noise = Problem(name), NOISES[noise_name]
    X, counts = problem.X[:N], problem.counts[:N]
    clf = problem.classifier(noise).fit(X, counts)
    g, g_new = problem.predict(clf.estimator_, new=False), problem.predict(clf.estimator_, new=True)
    if problem.is_refused(noise):
        directly = refusal(lambda: cs.conformalize(g, counts, problem.score, noise=noise))
        assert refusal(lambda: clf.conformalize(X, counts)) == directly
        return
    seen = []
    for groups, weighted in product((None, "keys", "predicted"), (False, True)):
        made, asked = (problem.options(groups, weighted, new) for new in (False, True))
        calibration = cs.conformalize(g, counts, problem.score, noise=noise, **made)
        expected = calibration.thresholds(g_new, ALPHA, **asked)
        sets = clf.conformalize(X, counts, **made).predict_set(problem.X[N:], ALPHA, **asked)
        assert sets.threshold.tobytes() == expected.tobytes()
        seen.append(expected)
        if groups == "predicted" and weighted:  # the other combinations come back in `test_saved_rules`
            calibration.save(tmp_path / "calibration")
            again: Any = cs.load(tmp_path / "calibration")
            assert again.thresholds(g_new, ALPHA, **asked).tobytes() == expected.tobytes()
        if groups == "keys" and weighted:
            clf.save(tmp_path / "classifier")
            loaded: Any = cs.load(tmp_path / "classifier", trusted=TRUSTED)
            members = loaded.predict_set(problem.X[N:], ALPHA, **asked)
            assert members.threshold.tobytes() == expected.tobytes()
            truth = problem.counts[N:] / VOTES
            assert members.contains(truth).tolist() == sets.contains(truth).tolist()
    if (name, noise_name) != ("density", "unbiased"):  # always the whole simplex, as its documentation says
        assert len({thresholds.tobytes() for thresholds in seen}) >= 5, "options must make a difference"


@pytest.mark.parametrize("noise_name", NOISES)
@pytest.mark.parametrize("name", CASES)
def test_streams(name: str, noise_name: str, tmp_path: Path) -> None:
    problem, noise = Problem(name), NOISES[noise_name]
    if problem.is_refused(noise):
        return
    estimator = Known(problem.kind).fit(problem.X[:N], problem.counts[:N] / VOTES)
    g, g_new = problem.predict(estimator, new=False), problem.predict(estimator, new=True)
    for groups, weighted in product((None, "keys", "predicted"), (False, True)):
        made = problem.options(groups, weighted, new=False)
        calibration = cs.conformalize(g, problem.counts[:N], problem.score, noise=noise, **made)
        if weighted or groups == "keys":
            assert "weights or groups of its own" in refusal(lambda chosen=calibration: cs.Stream(chosen))
            continue
        stream = cs.Stream(calibration, ALPHA, gamma=0.1)
        first = stream.predict_set(g_new[:1])
        step = stream.update(g_new[:4], problem.counts[N : N + 4])[0]
        assert step.covered == first.contains(problem.counts[N : N + 1] / VOTES)[0]
        if groups == "predicted":
            stream.save(tmp_path / "stream")
            loaded: Any = cs.load(tmp_path / "stream")
            assert loaded.update(g_new[4:], problem.counts[N + 4 :]) == stream.update(
                g_new[4:], problem.counts[N + 4 :]
            )


@pytest.mark.parametrize("noise_name", NOISES)
@pytest.mark.parametrize("name", CASES)
def test_cross_calibration(name: str, noise_name: str, tmp_path: Path) -> None:
    problem, noise, folds = Problem(name), NOISES[noise_name], np.arange(N) % 3
    X, counts = problem.X[:N], problem.counts[:N]
    models = [Known(problem.kind).fit(X[folds != k], (counts / VOTES)[folds != k]) for k in range(3)]
    out = np.stack([problem.predict(model, new=False) for model in models])[folds, np.arange(N)]
    new = [problem.predict(model, new=True) for model in models]
    clf = problem.classifier(noise)
    for groups, weighted in product((None, "keys", "predicted"), (False, True)):
        made, asked = (problem.options(groups, weighted, is_new) for is_new in (False, True))
        if noise_name in ("unbiased", "sampling-open") or groups == "predicted":
            arguments: Any = (out, counts, folds, problem.score)
            directly = refusal(lambda a=arguments, o=made: cs.cross_conformalize(*a, noise=noise, **o))
            assert refusal(lambda o=made: clf.cross_conformalize(X, counts, folds, **o)) == directly
            continue
        calibration = cs.cross_conformalize(out, counts, folds, problem.score, noise=noise, **made)
        expected = calibration.thresholds(new, ALPHA, **asked)
        sets = clf.cross_conformalize(X, counts, folds, **made).predict_set(problem.X[N:], ALPHA, **asked)
        assert sets.threshold.tobytes() == expected.tobytes()
        if groups == "keys" or not weighted:
            calibration.save(tmp_path / "calibration")
            again: Any = cs.load(tmp_path / "calibration")
            assert again.thresholds(new, ALPHA, **asked).tobytes() == expected.tobytes()
        if groups == "keys" and weighted:
            clf.save(tmp_path / "classifier")
            loaded: Any = cs.load(tmp_path / "classifier", trusted=TRUSTED)
            members = loaded.predict_set(problem.X[N:], ALPHA, **asked)
            assert members.threshold.tobytes() == expected.tobytes()


READ = """
import sys, warnings
import numpy as np
import credalset as cs
warnings.simplefilter("ignore")
folder = sys.argv[1]
for name, noise in [pair.split(":") for pair in sys.argv[2:]]:
    path = f"{folder}/{name}-{noise}"
    loaded = cs.load(path, trusted=["tests.test_composition.Known"])
    with np.load(path + ".npz") as asked:
        sets = loaded.predict_set(asked["X"], 0.3, groups=asked["groups"], weights=asked["weights"])
    print(sets.threshold.tobytes().hex())
"""


def test_another_process_predicts_the_same_bits(tmp_path: Path) -> None:
    pairs = [("tv", "unbiased"), ("so", "sampling-kl"), ("normalized-kl", "bounded"), ("mixture", "sampling-exact")]
    pairs += [("ws", "cross"), ("density", "cross"), ("mixture", "cross")]
    expected = []
    for name, noise_name in pairs:
        problem = Problem(name)
        clf = problem.classifier(NOISES.get(noise_name, cs.AnnotatorSampling(0.02)))
        made, asked = (problem.options("keys", weighted=True, new=new) for new in (False, True))
        if noise_name == "cross":
            clf.cross_conformalize(problem.X[:N], problem.counts[:N], 3, random_state=0, **made)
        else:
            clf.fit(problem.X[:N], problem.counts[:N]).conformalize(problem.X[:N], problem.counts[:N], **made)
        clf.save(tmp_path / f"{name}-{noise_name}")
        np.savez(tmp_path / f"{name}-{noise_name}.npz", X=problem.X[N:], **asked)
        expected.append(clf.predict_set(problem.X[N:], ALPHA, **asked).threshold.tobytes().hex())
    command = [sys.executable, "-c", READ, str(tmp_path), *(":".join(pair) for pair in pairs)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == expected
