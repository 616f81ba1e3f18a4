"""Time and memory of ``credalset predict`` on tables of any length, and where the time goes.

The baseline is what the questions take alone: `predict_set`, envelopes, entropies and labels on
arrays in memory. Time is processor time, because other work on the machine slows the clock. Limits:
at most twice the baseline, 600 MB, and the same memory at a quarter of the rows within 10 %. The
script exits with status 1 if one is missed.

    python benchmarks/tables.py                              # a million rows of 10 classes
    python benchmarks/tables.py --jobs 1 2                   # the same with one and two threads
    python benchmarks/tables.py --rows 10000000 --workers 1 2 4   # ten million, and by Dask workers
    python benchmarks/tables.py --quick                      # to see that it runs
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import credalset as cs
from credalset.io.dask import local_cluster, score_parquet
from credalset.io.items import Records
from credalset.io.tables import read_table, table_writer

ALPHA = 0.1
ROW_GROUP = 1 << 18
LARGEST_PART = 1_000_000  # rows on which the parts of the work are timed one by one
SLOWEST, LARGEST, GROWTH = 2.0, 600e6, 1.1
REPEATS = 4  # of runs that are compared
QUESTIONS = ("predict_set", "envelope", "entropy_bounds", "decide")


class Run(NamedTuple):
    """Processor seconds, seconds by the clock, and the largest resident memory in bytes."""

    used: float
    seconds: float
    memory: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--score", default="kl")
    parser.add_argument(
        "--workers", type=int, nargs="*", default=[], help="also score by so many Dask workers"
    )
    parser.add_argument(
        "--jobs", type=int, nargs="*", default=[], help="also compare so many threads"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="for files that are removed afterwards; a temporary one by default",
    )
    parser.add_argument("--quick", action="store_true", help="few rows: the numbers mean nothing")
    options = parser.parse_args(arguments)
    options.rows = 2000 if options.quick else options.rows
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        n_missed = compare(Path(name), options)
    return 0 if options.quick else int(n_missed > 0)


def compare(folder: Path, options: argparse.Namespace) -> int:
    """Run everything and return the number of limits that were missed."""
    names = [f"class {k}" for k in range(options.classes)]
    data = cs.datasets.make_synthetic(500, options.classes, n_votes=50, random_state=0)
    calibration = cs.conformalize(data.distributions, data.counts, options.score, classes=names)
    calibration.save(folder / "calibration")
    source = folder / "new.parquet"
    target = folder / "sets.parquet"
    print(
        f"{options.classes} classes, score {options.score}; {os.cpu_count()} cores, "
        f"busy: {os.getloadavg()[0]:.1f}\n"
    )
    command = [
        sys.executable,
        "-m",
        "credalset",
        "predict",
        str(folder / "calibration"),
        str(source),
    ]
    command += ["-o", str(target), "--alpha", str(ALPHA), "--overwrite"]
    print("      rows  processor time    clock    memory  rows per second of processor time")
    runs = []
    for rows in (options.rows // 4, options.rows):
        write_predictions(source, rows, names)
        runs.append(run := measure([*command, "--jobs", "1"]))
        print(
            f"{rows:10,d}  {run.used:12.1f} s  {run.seconds:5.1f} s  {run.memory / 1e6:5.0f} MB",
            end="",
        )
        print(f"  {rows / run.used:15,.0f}", flush=True)
    size = [path.stat().st_size / options.rows for path in (source, target)]
    print(f"bytes per row: {size[0]:.0f} read, {size[1]:.0f} written\n")
    parts = time_parts(calibration, source, folder / "again.parquet", names)
    n_missed = report(parts, runs, options.rows)
    if options.jobs:
        compare_threads(folder, command, options, names)
    if options.workers:
        scale(folder, source, options)
    return n_missed


def write_predictions(path: Path, rows: int, names: list[str]) -> None:
    """Write random predictions, a row group at a time."""
    rng = np.random.default_rng(0)
    schema = pa.schema([("task", pa.int64()), *((name, pa.float64()) for name in names)])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, ROW_GROUP):
            size = min(ROW_GROUP, rows - start)
            prediction = rng.dirichlet(np.ones(len(names)), size)
            writer.write_table(
                pa.table([np.arange(start, start + size), *prediction.T], schema=schema)
            )


def measure(command: list[str]) -> Run:
    """Run a process to its end."""
    start = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        said = process.stderr.read() if process.stderr is not None else ""
        _, status, usage = os.wait4(
            process.pid, 0
        )  # tells processor time and memory, which wait does not
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return Run(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss * 1024)


def time_parts(calibration: Any, source: Path, target: Path, names: list[str]) -> dict[str, float]:
    """Return processor seconds per row of each part of the work, done once more in this process."""
    spent: dict[str, float] = {}

    @contextmanager
    def timed(part: str) -> Iterator[None]:
        start = time.process_time()
        yield
        spent[part] = spent.get(part, 0.0) + time.process_time() - start

    scorer = cs.Scorer(calibration, alpha=ALPHA).for_input(read_table(source).schema)
    batches = read_table(source).batches
    n_rows = 0
    with table_writer(target, scorer.schema) as write:
        while n_rows < LARGEST_PART:
            with timed("read Parquet"):
                batch = next(iter(batches), None)
            if batch is None:
                break
            with timed("columns to an array"):
                prediction = Records(batch, names, "the predictions").numbers(names)
            with timed("predict_set"):
                sets = calibration.predict_set(prediction, ALPHA)
            for question in QUESTIONS[1:]:
                with timed(question):
                    getattr(sets, question)()
            with timed("all of Scorer"):
                answers = scorer(batch)
            with timed("write Parquet"):
                write(answers)
            n_rows += batch.num_rows
    inner = sum(spent[part] for part in (*QUESTIONS, "columns to an array"))
    spent["answers to columns"] = max(spent.pop("all of Scorer") - inner, 0.0)
    return {part: seconds / n_rows for part, seconds in spent.items()}


def report(parts: dict[str, float], runs: list[Run], rows: int) -> int:
    """Print where the time goes and ratios to the baseline; return how many miss their limit."""
    small, large = runs
    each = large.used / rows
    parts = parts | {"start, load and the rest": max(each - sum(parts.values()), 0.0)}
    print("part of the work          µs per row   share")
    for part, seconds in parts.items():
        print(f"{part:24}  {1e6 * seconds:10.2f}  {seconds / each:6.0%}")
    alone = sum(parts[question] for question in QUESTIONS)
    print(
        f"{'questions alone':24}  {1e6 * alone:10.2f}  {alone / each:6.0%}   the "
        f"baseline: {', '.join(QUESTIONS)}\n"
    )
    limits = [
        ("processor time against the questions alone", each / alone, SLOWEST),
        ("memory, in units of 600 MB", large.memory / LARGEST, 1.0),
        (f"memory at {rows:,d} rows against {rows // 4:,d}", large.memory / small.memory, GROWTH),
    ]
    for what, ratio, limit in limits:
        print(f"{what}: {ratio:.2f} ({'kept' if ratio <= limit else 'MISSED'}: at most {limit:g})")
    return sum(ratio > limit for _, ratio, limit in limits)


def compare_threads(
    folder: Path, command: list[str], options: argparse.Namespace, names: list[str]
) -> None:
    """Print the best of some runs with each number of threads, with and without their start."""
    few = folder / "few.parquet"
    write_predictions(few, 10, names)
    nothing = [str(few) if word == str(folder / "new.parquet") else word for word in command]
    start = min(measure(nothing).seconds for _ in range(REPEATS))
    runs: dict[int, list[Run]] = {n: [] for n in options.jobs}
    written = set()
    for _ in range(REPEATS):
        for n in options.jobs:
            runs[n].append(measure([*command, "--jobs", str(n)]))
            written.add(hashlib.sha256((folder / "sets.parquet").read_bytes()).hexdigest())
    print(f"\nbest of {REPEATS} runs; {start:.2f} s are the start, for a table of ten rows")
    print("threads     clock  first / this  without the start  processor time    memory")
    first = min(run.seconds for run in runs[options.jobs[0]])
    for n, found in runs.items():
        best = min(found, key=lambda run: run.seconds)
        ratios = f"{first / best.seconds:12.2f}  {(first - start) / (best.seconds - start):17.2f}"
        used = f"{best.used:12.1f} s  {best.memory / 1e6:5.0f} MB"
        print(f"{n:7}  {best.seconds:6.2f} s  {ratios}  {used}", flush=True)
    print(f"the same bytes: {'yes' if len(written) == 1 else 'NO'}")


def scale(folder: Path, source: Path, options: argparse.Namespace) -> None:
    """Score the same rows part by part, in this process and by workers, with one thread each."""
    scorer = cs.Scorer(folder / "calibration", alpha=ALPHA)
    print("\nworkers     clock  against serial  processor time  against serial  memory of a worker")
    serial: list[float] = []
    for n in [0, *options.workers]:
        target = folder / f"by-{n}"
        with local_cluster(n) if n else nullcontext() as client:
            before = sum(usage(client)[0])
            start = time.monotonic()
            score_parquet(source, target, scorer, client=client)
            seconds, (busy, memory) = time.monotonic() - start, usage(client)
        used = sum(busy) - before
        serial = serial or [seconds, used]
        told = f"{seconds / serial[0]:14.2f}  {used:12.1f} s  {used / serial[1]:14.2f}"
        print(f"{n or 'serial':>7}  {seconds:6.1f} s  {told}  {max(memory):15,.0f} MB", flush=True)
        shutil.rmtree(target)


def usage(client: Any) -> tuple[list[float], list[float]]:
    """Return processor seconds and peak megabytes, of this process or of each worker."""
    used = [resource.getrusage(resource.RUSAGE_SELF)]
    if client is not None:
        used = list(client.run(resource.getrusage, resource.RUSAGE_SELF).values())
    return [u.ru_utime + u.ru_stime for u in used], [u.ru_maxrss * 1024 / 1e6 for u in used]


if __name__ == "__main__":
    sys.exit(main())
