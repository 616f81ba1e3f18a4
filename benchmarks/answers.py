"""How long sets take to answer, for every score, in µs of processor time per set.

The questions are the envelope, the entropy bounds and decide.

Run ``python benchmarks/answers.py`` (a few minutes) or ``--quick`` for a look at the tables.
SciPy's SLSQP solves the same problems on a few of the same sets, and `probly` answers for the sets
that it has, in an environment of its own: give its Python with ``--probly-python PATH`` (probly and
torch, Python 3.13), or let the first run make one in ``.venv-probly/`` (several GB);
``--no-probly`` goes without. Leaves with status 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr

from credalset import CredalSet
from credalset.scores import get_score

HERE = Path(__file__).parent
PROBLY_HOME = HERE.parent / ".venv-probly"
SCORES = ("tv", "kl", "inner", "so", "density", "hellinger", "brier", "intervals", "ws")
BRACKETED = ("brier", "intervals", "ws")
DIRICHLET_WEIGHT = 20.0  # Σ (concentration − 1): about as sure as twenty annotators

QUESTIONS: dict[str, Callable[[CredalSet], Any]] = {
    "envelope": lambda sets: sets.envelope(),
    "entropies": lambda sets: sets.entropy_bounds(),
    "decide": lambda sets: sets.decide("e-admissible"),
}
#: µs per set, by the number of classes
BARS = {
    10: {"envelope": 10, "entropies": 20, "decide": 10},
    100: {"envelope": 100, "entropies": 200, "decide": 200},
}
SIZES = {10: 20_000, 100: 2_000}
QUICK_SIZES = {10: 200, 100: 20}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows the tables, proves nothing"
    )
    parser.add_argument("--no-probly", action="store_true", help="leave probly out")
    parser.add_argument(
        "--probly-python", metavar="PATH", help="a Python that has probly and torch"
    )
    options = parser.parse_args(arguments)
    sizes = QUICK_SIZES if options.quick else SIZES
    missed = speed_table(sizes, repeats=1 if options.quick else 5)
    if not options.no_probly:
        compare_with_probly(options.probly_python, 20 if options.quick else 1000)
    growth_table(options.quick)
    gap_table(50 if options.quick else 1000)
    return int(missed > 0 and not options.quick)


# Sets to ask about


def make_sets(name: str, n: int, k: int, seed: int = 0) -> CredalSet:
    """Sets of mixed sizes around centres that are uniform on the simplex.

    Sizes are 20 to 80 % of the way to the uniform distribution.
    """
    rng = np.random.default_rng(seed)
    centers = rng.dirichlet(np.ones(k), n)
    return sets_around(name, centers, rng.uniform(0.2, 0.8, n), rng)


def sets_around(
    name: str, centers: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> CredalSet:
    score, (n, k) = get_score(name), centers.shape
    prediction: Any = centers
    if score.order == "second":
        prediction = 1.0 + DIRICHLET_WEIGHT * centers
    if name == "intervals":
        prediction = np.stack(
            [centers, *rng.gamma(4.0, 0.25, (2, n, k)) * np.sqrt(centers / k + 1e-4)], axis=1
        )
    checked = score.check_prediction(prediction)
    least = score.evaluate_rows(checked, score.best_fit(checked))
    if name == "inner":
        least = 1.0 - centers.max(axis=1)
    return score.region(
        prediction, least + share * (score(prediction, np.full((n, k), 1.0 / k)) - least)
    )


# Our own speed, and that of SLSQP on a few of the sets


def speed_table(sizes: dict[int, int], repeats: int) -> int:
    rows = [
        ("score", "K", *QUESTIONS, "entropies / SLSQP", "envelope / SLSQP", "decide / SLSQP", "")
    ]
    missed = 0
    for k, n in sizes.items():
        for name in SCORES:
            sets = make_sets(name, n, k)
            taken = {
                question: microseconds(ask, sets, repeats) for question, ask in QUESTIONS.items()
            }
            slower = dict.fromkeys(taken, np.nan)
            if n > QUICK_SIZES[k] or k == 10:  # a hundred classes take SLSQP a while
                slower = {
                    question: slsqp_microseconds(question, sets[0]) / taken[question]
                    for question in taken
                }
            late = [question for question in taken if taken[question] > BARS[k][question]]
            missed += len(late)
            ratios = [
                f"{slower[question]:,.0f}" for question in ("entropies", "envelope", "decide")
            ]
            cells = [digits(taken[question]) for question in QUESTIONS]
            rows.append(
                (
                    name,
                    str(k),
                    *cells,
                    *ratios,
                    " ".join(f"{question} missed" for question in late) or "ok",
                )
            )
    print(
        "Processor time in µs per set, best of a few rounds, and how many times as long "
        "SLSQP takes."
    )
    print(f"Batches of {' and '.join(f'{n:,} (K = {k})' for k, n in sizes.items())}; bars: {BARS}.")
    print_table(rows)
    return missed


def microseconds(ask: Callable[[CredalSet], Any], sets: CredalSet, repeats: int) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        ask(sets)
        best = min(best, time.process_time() - start)
    return max(best, 1e-9) / len(sets) * 1e6


def slsqp_microseconds(question: str, one: CredalSet) -> float:
    """Time of SciPy's solver for one set.

    A few of the problems stand for all of them where there are many.
    """
    k = one.n_classes

    def seconds(objective: Callable[[np.ndarray], float]) -> float:
        def inside(point: np.ndarray) -> float:
            point = np.maximum(point, 1e-12)
            return float(
                one.threshold[0]
                - one.score.evaluate_rows(one.prediction, (point / point.sum())[None])[0]
            )

        start = time.process_time()
        minimize(
            objective,
            one.center[0],
            bounds=[(1e-12, 1.0)] * k,
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1.0},
                {"type": "ineq", "fun": inside},
            ],
            options={"maxiter": 100},
        )
        return time.process_time() - start

    if question == "entropies":
        total = seconds(lambda x: float(entr(x).sum())) + seconds(lambda x: -float(entr(x).sum()))
    elif question == "envelope":
        total = k * (seconds(lambda x: x[0]) + seconds(lambda x: -x[0]))
    else:  # the largest lead of a class over the others
        total = k * seconds(lambda x: float(x[1:].max() - x[0]))
    return total * 1e6


def growth_table(quick: bool) -> None:
    """How cost per set changes with the number of sets and of classes."""
    batches, classes = (
        ((10, 100), (3, 10))
        if quick
        else ((1, 10, 100, 1000, 10_000, 100_000), (3, 10, 30, 100, 300))
    )
    rows = [("score", "question", *(f"N={n:,}" for n in batches), *(f"K={k}" for k in classes))]
    for name in SCORES:
        by_size = [make_sets(name, n, 10) for n in batches]
        by_classes = [make_sets(name, 20 if quick else max(20, 10_000 // k), k) for k in classes]
        for question, ask in QUESTIONS.items():
            cells = [digits(microseconds(ask, sets, 2)) for sets in by_size + by_classes]
            rows.append((name, question, *cells))
    print(
        "\nµs per set: batches of N sets over 10 classes, then about 10,000 / K sets "
        "over K classes."
    )
    print_table(rows)


def gap_table(n: int) -> None:
    """Excess of the best member found over the certified smallest entropy, over log K (K = 10)."""
    rng = np.random.default_rng(0)
    sources = {f"Dirichlet({c})": rng.dirichlet(np.full(10, c), n) for c in (0.1, 1.0, 10.0)}
    data = Path(os.environ.get("CREDALSET_DATA", "data")) / "cifar10h_model_a.npz"
    if data.exists():
        with np.load(data) as arrays:
            logits = arrays["logits"][:n].astype(float)
        sharp = np.exp(logits - logits.max(axis=1, keepdims=True))
        sources["CIFAR-10H softmax"] = sharp / sharp.sum(axis=1, keepdims=True)
    rows = [("centres", "size", *(f"{name} mean / 90 % / max" for name in BRACKETED))]
    for source, centers in sources.items():
        for share in (0.02, 0.1, 0.3, 0.6):
            cells = []
            for name in BRACKETED:
                bounds = sets_around(
                    name, centers, np.full(len(centers), share), rng
                ).entropy_bounds(base="K")
                gap = np.asarray(bounds.lower_gap)
                cells.append(f"{gap.mean():.4f} / {np.quantile(gap, 0.9):.4f} / {gap.max():.4f}")
            rows.append((source, f"{share:.2f}", *cells))
    print(
        "\nGaps of the smallest entropy, K = 10, in units of log K; size: the way to "
        "the uniform distribution."
    )
    if not data.exists():
        print(
            "CIFAR-10H predictions are left out: CREDALSET_DATA names no folder with "
            "cifar10h_model_a.npz."
        )
    print_table(rows)


# probly, in an environment of its own


def compare_with_probly(python: str | None, n: int) -> None:
    """Ask probly about the same sets: total-variation balls, and level sets of Dirichlets."""
    batches: dict[str, tuple[CredalSet, dict[str, np.ndarray]]] = {}
    for k in (3, 10):
        tv = make_sets("tv", n, k, seed=2)
        so = make_sets("so", max(1, n // 10), k, seed=2)
        batches[f"tv/{k}"] = tv, {"prediction": tv.prediction, "radius": tv.threshold}
        batches[f"so/{k}"] = so, {"prediction": so.prediction, "likelihood": np.exp(-so.threshold)}
    try:
        theirs = ask_probly(
            python or probly_environment(), {key: arrays for key, (_, arrays) in batches.items()}
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = str(getattr(error, "stderr", None) or error).strip()
        print(f"\nprobly could not be run, so there is nothing to compare with: {detail[-300:]}")
        return
    if str(theirs["missing"]):
        print(f"\nprobly {theirs['version']} has no sets to compare with: {theirs['missing']}")
        return
    rows = [
        ("score", "K", "question", "sets", "probly µs", "ours µs", "ratio", "largest difference")
    ]
    for key, (sets, _) in batches.items():
        for question, asked in (("entropies", "entropy"), ("envelope", "envelope")):
            answer = np.stack([np.asarray(part) for part in list(QUESTIONS[question](sets))[:2]])
            difference = np.abs(answer - theirs[f"{key}/{asked}/answer"]).max()
            clock = min(wall_seconds(QUESTIONS[question], sets) for _ in range(5)) / len(sets) * 1e6
            their = 1e6 / float(theirs[f"{key}/{asked}/rate"])
            name, k = key.split("/")
            cells = (digits(their), digits(clock), digits(their / clock), f"{difference:.2g}")
            rows.append((name, k, question, str(len(sets)), *cells))
    print(
        f"\nprobly {theirs['version']} on Python {theirs['python']}, by the clock, on "
        "the same sets; it bounds the"
    )
    print(
        "entropies of a total-variation ball over the enclosing box, and samples level "
        "sets of Dirichlets."
    )
    print_table(rows)


def wall_seconds(ask: Callable[[CredalSet], Any], sets: CredalSet) -> float:
    start = time.perf_counter()
    ask(sets)
    return time.perf_counter() - start


def probly_environment() -> str:
    """Return the Python of ``.venv-probly/``; make it with this or a newer Python if need be."""
    python = PROBLY_HOME / "bin" / "python"
    if not python.exists():
        print(
            f"\nInstalling probly and torch into {PROBLY_HOME.name}/ (several GB) ...", flush=True
        )
        run([sys.executable, "-m", "venv", str(PROBLY_HOME)])
        run([str(python), "-m", "pip", "install", "--quiet", "probly", "torch"])
    return str(python)


def ask_probly(python: str, batches: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.npz"
        target = Path(folder) / "out.npz"
        arrays: dict[str, Any] = {
            f"{key}/{name}": a for key, group in batches.items() for name, a in group.items()
        }
        np.savez(source, **arrays)
        run([python, str(HERE / "probly_worker.py"), str(source), str(target)])
        with np.load(target) as answers:
            return dict(answers)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def digits(number: float) -> str:
    """Return two significant digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.6g}"


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
