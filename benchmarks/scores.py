"""Scoring speed and memory: how long a score takes compared with merely reading its two arrays.

Run ``python benchmarks/scores.py`` (4 000 000 × 10 pairs, about a minute and 1 GB) or, for a quick look,
``python benchmarks/scores.py --rows 500000``. Leaves with status 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from credalset._parallel import n_threads
from credalset._typing import FloatArray
from credalset.scores import get_score

N_CLASSES = 10
MAX_RATIO = {"tv": 2.0, "inner": 2.0, "kl": 3.0, "ws": 3.0}
MAX_EXTRA_MB = 200.0
HEADINGS = ("score", "ms", "ratio", "limit", "extra MB", "limit", "NumPy ratio", "verdict")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000, help="pairs of distributions to score")
    parser.add_argument("--repeats", type=int, default=7, help="runs of which the best counts")
    options = parser.parse_args()
    if find_spec("numba") is None:
        print("Numba is not installed (extra 'fast'): every score takes the plain NumPy way.")
    P, Q = random_distributions(options.rows, seed=0), random_distributions(options.rows, seed=1)
    rows = [measure(name, P, Q, options.repeats) for name in MAX_RATIO]
    print(f"{options.rows} pairs of {N_CLASSES} classes, float64, {n_threads()} threads, best of {options.repeats}.")
    print("ratio: time of score(P, Q) over time of P.sum(); Q.sum(). extra MB: peak memory while it runs, with the")
    print(f"result of {options.rows * 8 / 1e6:.0f} MB. NumPy ratio: the same scores without checks or compiled code.")
    print_table([HEADINGS, *rows])
    return int(any(row[-1] != "ok" for row in rows))


def measure(name: str, P: FloatArray, Q: FloatArray, repeats: int) -> tuple[str, ...]:
    score = get_score(name)
    score(P[:200_000], Q[:200_000])  # compiles, or reads what was compiled before
    extra = peak_extra_megabytes(lambda: score(P, Q))
    # One after the other in each round, so that a busy machine slows all three alike.
    contenders = [lambda: P.sum() + Q.sum(), lambda: score(P, Q), lambda: score.evaluate_rows(P, Q)]
    reading, scoring, plain = np.min([[seconds(run) for run in contenders] for _ in range(repeats)], axis=0)
    ratio = scoring / reading
    misses = ["slow"] * bool(ratio > MAX_RATIO[name]) + ["memory"] * bool(extra > MAX_EXTRA_MB)
    return (
        name,
        f"{scoring * 1e3:.0f}",
        f"{ratio:.2f}",
        f"{MAX_RATIO[name]:.2f}",
        f"{extra:.0f}",
        f"{MAX_EXTRA_MB:.0f}",
        f"{plain / reading:.2f}",
        " ".join(misses) or "ok",
    )


def random_distributions(n: int, seed: int) -> FloatArray:
    """Fill in blocks, so that making the data leaves no large freed memory behind for the scores to reuse unseen."""
    rng = np.random.default_rng(seed)
    result = np.empty((n, N_CLASSES))
    for start in range(0, n, 50_000):
        block = rng.standard_exponential(result[start : start + 50_000].shape)
        result[start : start + 50_000] = block / block.sum(axis=1, keepdims=True)
    return result


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_extra_megabytes(run: Callable[[], object]) -> float:
    """Return how far resident memory rises above its level before the run; NaN where the system does not tell.

    Linux keeps the peak itself, so no allocation of NumPy or of compiled code is missed, however short.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)  # hand back what earlier runs freed, lest its reuse hide new allocations
        Path("/proc/self/clear_refs").write_text("5")
        before = _memory_megabytes("VmRSS")
        run()
        return _memory_megabytes("VmHWM") - before
    except (AttributeError, OSError):
        return float("nan")


def _memory_megabytes(field: str) -> float:
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024 / 1e6


def print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
