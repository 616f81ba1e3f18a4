"""Sets per second and memory of every question to a credal set, against SciPy's SLSQP and `probly`.

Run ``python benchmarks/geometry.py`` (about a quarter of an hour, 2 GB), or ``--quick`` for a look at the tables. The
first run makes an environment for probly in ``.venv-probly/`` (several GB: probly's entropies need torch); give
``--probly-python PATH`` to use one that exists, ``--no-probly`` to go without. Leaves with status 1 if a target is
missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, rel_entr
from scipy.stats import entropy, wasserstein_distance

sys.path.insert(0, str(Path(__file__).parent))  # for those who import this file rather than run it
from scores import peak_extra_megabytes, print_table, seconds

from credalset import CredalSet
from credalset._parallel import n_threads
from credalset._typing import FloatArray
from credalset.scores import get_score
from credalset.sets.results import Volume

HERE = Path(__file__).parent
PROBLY_HOME = HERE.parent / ".venv-probly"
REGIONS = ("tv", "ws", "kl", "inner", "so", "hellinger")
MEMORY_LIMIT_MB = 1000.0
SLSQP_FACTOR = 1e4
LARGE = 1 << 16  # elements from which a batch fills the blocks that answers are worked out in
SAME_QUESTION = ("tv", "tv-hull", "so")  # what probly builds there is the set that we build
DIRICHLET_WEIGHT = 20.0  # Σ (concentration − 1): about as sure as twenty annotators


@dataclass(frozen=True)
class Plan:
    """How much to do: the sizes of a full run, which ``--quick`` and the tests cut down."""

    classes: tuple[int, ...] = (3, 10, 100)
    max_sets: int = 1_000_000
    max_elements: int = 10_000_000
    round_seconds: float = 0.4
    repeats: int = 3
    slow_seconds: float = 5.0
    slsqp_sets: dict[int, int] = field(default_factory=lambda: {3: 10, 10: 5, 100: 1})
    probly_sets: dict[int, int] = field(default_factory=lambda: {3: 100_000, 10: 100_000, 100: 10_000})
    probly_slow_sets: dict[int, int] = field(default_factory=lambda: {3: 200, 10: 100, 100: 10})
    memory_sets: int = 1_000_000
    memory_classes: int = 10
    memory_seconds: float = 30.0


QUICK = Plan(
    classes=(3, 10),
    max_sets=20_000,
    round_seconds=0.02,
    repeats=1,
    slow_seconds=2.0,
    slsqp_sets={3: 2, 10: 1},
    probly_sets={3: 1000, 10: 1000},
    probly_slow_sets={3: 10, 10: 10},
    memory_sets=20_000,
    memory_seconds=1.0,
)

QUESTIONS: dict[str, Callable[[CredalSet], object]] = {
    "entropy": lambda sets: sets.entropy_bounds(),
    "envelope": lambda sets: sets.envelope(),
    "expectation": lambda sets: sets.upper_expectation(np.linspace(0.0, 1.0, sets.n_classes) ** 2),
    "volume": lambda sets: sets.volume(),
    "zero-one": lambda sets: sets.uncertainty(family="zero-one"),
    "decide": lambda sets: sets.decide("e-admissible"),
    "sample": lambda sets: sets.sample(10, random_state=0),
    "hartley": lambda sets: sets.generalized_hartley(),
}

# (question, region, classes, sets per second on two cores)
TARGETS = [
    ("entropy", "tv", 10, 1e6),
    ("entropy", "kl", 10, 1e5),
    ("entropy", "so", 10, 1e5),
    *(("envelope", name, 10, 1e6) for name in ("tv", "ws", "kl", "inner", "so")),
    ("volume", "tv", 10, 5e3),
    ("volume", "inner", 100, 2e4),
]


@dataclass(frozen=True)
class Rate:
    """Sets per second by the clock, and by the processor time of all threads: what free cores would give."""

    by_clock: float
    by_processor: float


Rates = dict[tuple[str, str, int], Rate]  # (question, region, classes)
Table = list[tuple[str, ...]]


def main(arguments: Sequence[str] | None = None, plan: Plan | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows the tables, proves nothing")
    parser.add_argument("--no-probly", action="store_true", help="leave probly out")
    parser.add_argument("--no-memory", action="store_true", help="leave the memory table out")
    parser.add_argument("--probly-python", metavar="PATH", help="a Python that has probly and torch")
    options = parser.parse_args(arguments)
    plan = plan or (QUICK if options.quick else Plan())
    if find_spec("numba") is None:
        print("Numba is not installed (extra 'fast'): every answer takes the plain NumPy way.")
    print(
        f"{n_threads()} threads, float64. Centres uniform on the simplex, sizes 20 to 80 % of the way to the uniform."
    )
    rates = measure_rates(plan)
    misses = check_targets(plan, rates) + compare_with_slsqp(plan, rates)
    if not options.no_probly:
        misses += compare_with_probly(plan, options.probly_python)
    if not options.no_memory:
        misses += measure_memory(plan, rates)
    return int(misses > 0 and not options.quick)


# Sets to ask about


def make_sets(name: str, n: int, n_classes: int, seed: int = 0) -> CredalSet:
    """Draw sets that hold neither everything nor the uniform distribution, of mixed sizes."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_exponential((n, n_classes))
    centers /= centers.sum(axis=1, keepdims=True)
    fraction = rng.uniform(0.2, 0.8, n)
    prediction = 1.0 + DIRICHLET_WEIGHT * centers if name == "so" else centers
    score = get_score(name)
    far = score(prediction, np.full((n, n_classes), 1.0 / n_classes))
    if name == "so":  # a fraction of the drop in log-likelihood
        threshold = -np.expm1(fraction * np.log1p(-far))
    else:  # between the smallest score there is, zero but for half-spaces, and that of the uniform distribution
        least = 1.0 - centers.max(axis=1) if name == "inner" else 0.0
        threshold = least + fraction * (far - least)
    return score.region(prediction, threshold)


# Our own speed


def measure_rates(plan: Plan) -> Rates:
    rates: Rates = {}
    rows: Table = [("region", "K", *QUESTIONS)]
    for name in REGIONS:
        for k in plan.classes:
            sets = make_sets(name, min(plan.max_sets, plan.max_elements // k), k)
            for question in QUESTIONS:
                if is_answered(question, name, k):
                    rates[question, name, k] = measure_rate(QUESTIONS[question], sets, plan)
            cells = [rates.get((question, name, k)) for question in QUESTIONS]
            marks = [estimate_mark(question, sets) for question in QUESTIONS]
            texts = ["-" if cell is None else count(cell.by_clock) + m for cell, m in zip(cells, marks, strict=True)]
            rows.append((name, str(k), *texts))
    print("\nSets per second by the clock; * an estimate from rays, † a certified bracket for the lower entropy.")
    print_table(rows)
    return rates


def is_answered(question: str, name: str, n_classes: int) -> bool:
    if question == "hartley":
        return name == "tv" and n_classes <= 15
    if question in ("entropy", "decide") and name == "hellinger":
        return n_classes < 100  # the generic way: half a minute per set
    return question != "sample" or n_classes < 100 or name == "inner"  # hit-and-run takes 10·K steps to the first


def estimate_mark(question: str, sets: CredalSet) -> str:
    one = sets[0]
    if question == "volume":
        volume = one.volume(return_error=True)
        assert isinstance(volume, Volume)
        return " " if volume.method == "exact" else "*"
    if question == "entropy":
        wide = sets.n_classes > 10 and sets.score.name == "ws"
        return "†" if wide or sets.score.name == "hellinger" else " "
    return " "


def measure_rate(ask: Callable[[CredalSet], object], sets: CredalSet, plan: Plan) -> Rate:
    """Enlarge the batch until it is in full swing and long enough to time; the best round counts."""
    n = 1
    while True:
        part = sets[:n]
        first = seconds_of(ask, part)  # may compile, or read what was compiled before
        taken = min(first, seconds_of(ask, part)) if first < plan.slow_seconds else first
        is_large = n * sets.n_classes >= LARGE
        if n == len(sets) or taken >= (0.5 * plan.round_seconds if is_large else 0.2 * plan.slow_seconds):
            break
        growth = 1.2 * plan.round_seconds / taken if is_large else 8.0
        n = min(len(sets), int(n * min(max(growth, 2.0), 64.0)))
    again = best_rate(ask, part, plan.repeats if first < plan.slow_seconds else 1)
    return Rate(max(again.by_clock, n / taken), again.by_processor)


def best_rate(ask: Callable[[CredalSet], object], sets: CredalSet, repeats: int) -> Rate:
    best, processor = np.inf, np.inf
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        ask(sets)
        best, processor = min(best, time.perf_counter() - start), min(processor, time.process_time() - used)
    return Rate(len(sets) / best, len(sets) * n_threads() / max(processor, 1e-9))


def seconds_of(ask: Callable[[CredalSet], object], sets: CredalSet) -> float:
    return seconds(lambda: ask(sets))


def check_targets(plan: Plan, rates: Rates) -> int:
    """Ask once more what there is a target for, in many rounds: other work on the machine comes and goes."""
    rows: Table = [("question", "region", "K", "target", "sets/s", "by CPU time", "verdict")]
    for question, name, k, target in TARGETS:
        rate = rates.get((question, name, k))
        if rate is not None:
            sets = make_sets(name, max(1, min(plan.max_sets, int(rate.by_clock * plan.round_seconds))), k)
            again = best_rate(QUESTIONS[question], sets, 10 * plan.repeats)
            rate = Rate(max(rate.by_clock, again.by_clock), max(rate.by_processor, again.by_processor))
            row = (question, name, str(k), count(target), count(rate.by_clock), count(rate.by_processor))
            rows.append((*row, verdict(rate.by_clock >= target)))
    print(f"\nTargets, best of many rounds. by CPU time: sets per second if {n_threads()} cores did nothing else.")
    print_table(rows)
    return number_missed(rows)


# SciPy's SLSQP from the centre, as the paper's notebooks bound the entropy


def score_of_one(sets: CredalSet, i: int, published: bool) -> tuple[Callable[[FloatArray], float], float]:
    """Return the score of set i and its threshold: by scipy.stats as published, or by the plainest NumPy."""
    g, t, r = sets.center[i], float(sets.threshold[i]), float(sets.radius[i])
    weight, positions = float((sets.prediction[i] - 1.0).sum()), np.arange(sets.n_classes)
    plain: dict[str, Callable[[FloatArray], float]] = {
        "tv": lambda y: 0.5 * float(np.abs(y - g).sum()),
        "ws": lambda y: float(np.abs(np.cumsum(y - g)).sum()),
        "kl": lambda y: float(rel_entr(y, g).sum()),
        "inner": lambda y: 1.0 - float(y @ g),
        "so": lambda y: 1.0 - float(np.exp(-weight * rel_entr(g, np.maximum(y, 1e-300)).sum())),
        "hellinger": lambda y: 1.0 - float(np.sqrt(np.maximum(y, 0.0) * g).sum()),
    }
    by_stats: dict[str, Callable[[FloatArray], float]] = {
        "ws": lambda y: float(wasserstein_distance(positions, positions, np.maximum(y, 0.0), g)),
        "kl": lambda y: float(entropy(np.maximum(y, 0.0), g)),
    }
    name = sets.score.name
    return ((plain | by_stats) if published else plain)[name], r if name == "kl" else t


def slsqp_entropy(sets: CredalSet, i: int, sign: float, published: bool) -> tuple[float, bool]:
    """Minimise sign · entropy over set i; the entropy found, and whether the point is in the set."""
    score, limit = score_of_one(sets, i, published)

    def objective(y: FloatArray) -> float:
        positive = np.maximum(y, 0.0)
        return sign * float(entropy(positive) if published else entr(positive).sum())

    constraints: list[Any] = [
        {"type": "eq", "fun": lambda y: float(y.sum()) - 1.0},
        {"type": "ineq", "fun": lambda y: limit - score(y)},
    ]
    found = minimize(
        objective,
        sets.center[i],
        method="SLSQP",
        bounds=[(0.0, 1.0)] * sets.n_classes,
        constraints=constraints,
    )
    inside = score(found.x) <= limit + 1e-6 and abs(found.x.sum() - 1.0) < 1e-6
    return sign * float(found.fun), bool(inside)


def slsqp_bounds(sets: CredalSet, published: bool) -> tuple[float, list[tuple[float, bool]], list[tuple[float, bool]]]:
    """Return the seconds per set, and what was found going down and going up."""
    start = time.perf_counter()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low = [slsqp_entropy(sets, i, 1.0, published) for i in range(len(sets))]
        high = [slsqp_entropy(sets, i, -1.0, published) for i in range(len(sets))]
    return (time.perf_counter() - start) / len(sets), low, high


def compare_with_slsqp(plan: Plan, rates: Rates) -> int:
    titles = ("published", "plain", "ours", "/ published", "/ plain", "target", "lower off", "upper off", "outside")
    rows: Table = [("region", "K", *titles, "verdict")]
    for name in REGIONS:
        for k in plan.classes:
            rate = rates.get(("entropy", name, k))
            if rate is not None:
                rows.append(slsqp_row(name, make_sets(name, plan.slsqp_sets[k], k, seed=1), rate))
    print("\nEntropy bounds against SciPy's SLSQP from the centre, in ms per set, a handful of sets each.")
    print("published: with scipy.stats, as in the paper's notebooks; plain: with the leanest NumPy. off: how far above")
    print("our lower (below our upper) entropy the plain one ends, largest, in nats; outside: how many of its points")
    print("are not in their set.")
    print_table(rows)
    return number_missed(rows)


def slsqp_row(name: str, sets: CredalSet, rate: Rate) -> tuple[str, ...]:
    published, _, _ = slsqp_bounds(sets, published=True)
    plain, low, high = slsqp_bounds(sets, published=False)
    bounds = sets.entropy_bounds()
    attained = bounds.lower + bounds.lower_gap
    low_off = [value - best for (value, inside), best in zip(low, attained, strict=True) if inside]
    high_off = [best - value for (value, inside), best in zip(high, bounds.upper, strict=True) if inside]
    held = name != "hellinger" and sets.n_classes == 10
    return (
        name,
        str(sets.n_classes),
        f"{published * 1e3:.0f}",
        f"{plain * 1e3:.0f}",
        f"{1e3 / rate.by_clock:.2g}",
        count(rate.by_clock * published),
        count(rate.by_clock * plain),
        count(SLSQP_FACTOR) if held else "-",
        f"{max(low_off, default=np.nan):.3f}",
        f"{max(high_off, default=np.nan):.3f}",
        f"{sum(not inside for _, inside in low + high)}/{2 * len(sets)}",
        verdict(rate.by_clock * published >= SLSQP_FACTOR) if held else "-",
    )


# probly, in an environment of its own


def compare_with_probly(plan: Plan, python: str | None) -> int:
    try:
        executable = python or probly_environment()
        batches = probly_batches(plan)
        theirs = ask_probly(executable, {key: arrays for key, (_, arrays) in batches.items()})
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or error
        print(f"\nprobly could not be run, so there is nothing to compare with: {str(detail).strip()[-500:]}")
        return 0
    print(f"\nprobly {theirs['version']} on Python {theirs['python']}.")
    if str(theirs["missing"]):
        print(f"This version has no sets to compare with: {theirs['missing']}")
        return 0
    rows: Table = [
        ("region", "K", "question", "sets", "probly sets/s", "ours", "ratio", "largest difference", "verdict")
    ]
    for key, (sets, _) in batches.items():
        asked = [question for question in ("entropy", "envelope", "hartley") if f"{key}/{question}/rate" in theirs]
        rows.extend(probly_row(sets, question, theirs, key, plan) for question in asked)
    print("The same sets for both; probly's best of batches of 1000, 10 000 and 100 000. Differences in nats for")
    print("entropies, bits for Hartley. probly has one kind of distance-based set: a TV ball, of which it bounds the")
    print(
        "entropy over the enclosing box; for ws, kl and inner that ball is another set, so only differences are shown."
    )
    print_table(rows)
    return number_missed(rows)


def probly_batches(plan: Plan) -> dict[str, tuple[CredalSet, dict[str, FloatArray]]]:
    """Make the sets and what probly needs to know about them, by region and number of classes."""
    batches: dict[str, tuple[CredalSet, dict[str, FloatArray]]] = {}
    for k in plan.classes:
        for name in ("tv", "ws", "kl", "inner"):
            sets = make_sets(name, plan.probly_sets[k] if name == "tv" else plan.probly_slow_sets[k], k, seed=2)
            radius = sets.radius if name == "kl" else sets.threshold
            batches[f"{name}/{k}"] = sets, {"prediction": sets.prediction, "radius": radius}
        sets = make_sets("so", plan.probly_slow_sets[k], k, seed=2)
        batches[f"so/{k}"] = sets, {"prediction": sets.prediction, "likelihood": 1.0 - sets.threshold}
        if k == 3:
            sets = make_sets("tv", plan.probly_slow_sets[k], k, seed=3)
            batches[f"tv-hull/{k}"] = sets, {"vertices": padded_vertices(sets)}
    return batches


def padded_vertices(sets: CredalSet) -> FloatArray:
    corners = [sets.vertices(i) for i in range(len(sets))]
    most = max(map(len, corners))
    return np.stack([np.concatenate([c, np.repeat(c[:1], most - len(c), axis=0)]) for c in corners])


def probly_row(sets: CredalSet, question: str, theirs: dict[str, Any], key: str, plan: Plan) -> tuple[str, ...]:
    ask = QUESTIONS[question]
    answer: Any = ask(sets)
    mine = np.stack([answer] if question == "hartley" else list(answer))
    difference = np.abs(mine - theirs[f"{key}/{question}/answer"]).max()
    start = (sets.score.name, str(sets.n_classes), question, count(len(sets)))
    if key.split("/")[0] not in SAME_QUESTION:
        return (*start, "-", "-", "-", f"{difference:.2g}", "-")
    ours = best_rate(ask, sets, 3 * plan.repeats).by_clock
    rate = float(theirs[f"{key}/{question}/rate"])
    return (*start, count(rate), count(ours), f"{ours / rate:.3g}", f"{difference:.2g}", verdict(ours >= rate))


def probly_environment() -> str:
    """Return the Python of ``.venv-probly/``, made with Python 3.13 if there is one: probly 0.9 needs it."""
    python = PROBLY_HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists() or not has_probly(str(python)):
        print(f"\nInstalling probly and torch into {PROBLY_HOME.name}/ (several GB) ...", flush=True)
        run([newest_python(), "-m", "venv", str(PROBLY_HOME)])
        run([str(python), "-m", "pip", "install", "--quiet", "probly", "torch"])
    return str(python)


def has_probly(python: str) -> bool:
    return subprocess.run([python, "-c", "import probly, torch"], capture_output=True, check=False).returncode == 0


def newest_python() -> str:
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob("3.13*/bin/python"))
    for candidate in (shutil.which("python3.13"), *map(str, pyenv)):
        works = candidate and subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0
        if candidate and works:
            return candidate
    return sys.executable


def ask_probly(python: str, batches: dict[str, dict[str, FloatArray]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays: dict[str, Any] = {f"{key}/{name}": a for key, group in batches.items() for name, a in group.items()}
        np.savez(source, **arrays)
        run([python, str(HERE / "probly_worker.py"), str(source), str(target)])
        with np.load(target) as answers:
            return dict(answers)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


# Memory


def measure_memory(plan: Plan, rates: Rates) -> int:
    questions = QUESTIONS | {"sample": lambda sets: sets.sample(1, random_state=0)}
    rows: Table = [("region", "question", "sets", "extra MB", "MB for all", "verdict")]
    for name in REGIONS[:-1]:
        sets = make_sets(name, plan.memory_sets, plan.memory_classes)
        for question, ask in questions.items():
            rate = rates.get((question, name, plan.memory_classes))
            if rate is not None:
                n = min(plan.memory_sets, max(1000, int(rate.by_clock * plan.memory_seconds)))
                extra = peak_megabytes_of(ask, sets[:n])
                full = extra if n == plan.memory_sets else extra + growth_megabytes(ask, sets, n)
                rows.append((name, question, count(n), f"{extra:.0f}", f"{full:.0f}", verdict(full <= MEMORY_LIMIT_MB)))
        del sets
    print(f"\nPeak memory above the {count(plan.memory_sets)} sets themselves, the answer included; fewer sets where")
    print(
        f"they would take too long, and what more would add from a quarter of them; at most {MEMORY_LIMIT_MB:.0f} MB."
    )
    print_table(rows)
    return number_missed(rows)


def growth_megabytes(ask: Callable[[CredalSet], object], sets: CredalSet, n: int) -> float:
    """Return what the sets beyond the first n would add, from what those beyond the first n/4 add up to n.

    Counted by allocations of Python and NumPy, which do not vary from run to run as resident memory does.
    """

    def peak(part: CredalSet) -> float:
        tracemalloc.start()
        ask(part)
        top = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        return top

    quarter = max(1, n // 4)
    per_set = max(0.0, peak(sets[:n]) - peak(sets[:quarter])) / (n - quarter)
    return per_set * (len(sets) - n)


def peak_megabytes_of(ask: Callable[[CredalSet], object], sets: CredalSet) -> float:
    return peak_extra_megabytes(lambda: ask(sets))


# Tables


def verdict(reached: bool) -> str:
    return "ok" if reached else "missed"


def number_missed(rows: Table) -> int:
    return sum(row[-1] == "missed" for row in rows)


def count(value: float) -> str:
    """Three digits and a unit: 1.2M, 350k, 41, 0.11."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
