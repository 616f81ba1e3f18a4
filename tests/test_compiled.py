"""Who waits for a compiler: nobody with a small batch, and nobody without being told."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from credalset import _compiled

# Five hundred sets of every kind are asked everything; the import system tells on whoever reaches for Numba.
SMALL_BATCHES = """
import sys
class Guard:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] != "numba", "a small batch reached for the compiler"
sys.meta_path.insert(0, Guard())
import numpy as np
from credalset.scores import REGISTRY
center = np.random.default_rng(0).dirichlet(np.ones(10), 500)
for name in sorted(set(REGISTRY) - {"normalized", "density", "prototypes"}):
    score = REGISTRY[name]()
    prediction = center if score.order == "first" else 1.0 + 20.0 * center
    sets = score.region(prediction, np.full(500, 0.6 if name == "inner" else 0.1))
    score(prediction, center)
    sets.envelope(), sets.entropy_bounds(), sets.decide(), sets.upper_expectation(np.arange(10.0)), sets.smallest_peak()
    sets[:3].volume(random_state=0), sets[:3].sample(2, random_state=0)
assert "numba" not in sys.modules
"""


def test_small_batches_never_wait_for_a_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL_BATCHES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_waiting_for_the_compiler_is_announced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")
    load = _compiled._load.__wrapped__
    for known in (False, True):
        monkeypatch.setattr(_compiled, "_is_compiled", lambda _, known=known: known)
        with caplog.at_level(logging.WARNING, "credalset"):
            assert load("credalset.scores.base_kernels") is not None
        assert ("compiling credalset.scores.base_kernels, once per machine" in caplog.text) == (not known)
        caplog.clear()
