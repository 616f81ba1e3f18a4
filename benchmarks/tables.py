"""Tables of any length: time and memory of ``credalset predict``, and what workers add.

``predict`` is compared with a loop written by hand that reads, scores and writes the same batches, each in a process of
its own, at two sizes; then the same rows go part by part through 1, 2 and 4 Dask workers. Bars: at most twice the time
of the loop, 600 MB, and the same memory at both sizes within 10 %. The script fails if one is missed.

    python benchmarks/tables.py                       # 10 million rows of 10 classes, some minutes and 4 GB of disk
    python benchmarks/tables.py --rows 100000         # to see that it runs
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import credalset as cs
from credalset.io.dask import local_cluster, score_parquet

BATCH_ROWS = 1 << 16
ROW_GROUP = 1 << 18
SLOWEST, LARGEST, GROWTH = 2.0, 600e6, 1.1

BY_HAND = """
import sys
import numpy as np
import pyarrow as pa
from pyarrow import parquet
import credalset as cs

calibration, source, target = sys.argv[1:]
calibration = cs.load(calibration)
names = [str(name) for name in calibration.classes]
labels = pa.array(names)
writer = None
for batch in parquet.ParquetFile(source).iter_batches(batch_size=1 << 16):
    prediction = np.column_stack([batch[name] for name in names])
    sets = calibration.predict_set(prediction, alpha=0.1)
    lower, upper = sets.envelope()
    entropy = sets.entropy_bounds(base="K")
    possible = sets.decide()
    ends = pa.array(np.concatenate([[0], possible.sum(axis=1).cumsum()]).astype(np.int32))
    columns = {"task": batch["task"], "alpha": np.full(len(sets), 0.1), "threshold": sets.threshold}
    columns |= {"empty": sets.is_empty()}
    columns |= {f"lower_{name}": lower[:, k] for k, name in enumerate(names)}
    columns |= {f"upper_{name}": upper[:, k] for k, name in enumerate(names)}
    columns |= {"entropy_lower": entropy.lower, "entropy_upper": entropy.upper}
    columns |= {"entropy_lower_gap": entropy.lower_gap, "entropy_upper_gap": entropy.upper_gap}
    columns |= {"labels": pa.ListArray.from_arrays(ends, labels.take(pa.array(np.nonzero(possible)[1])))}
    columns |= {"n_labels": possible.sum(axis=1).astype(np.int32)}
    result = pa.RecordBatch.from_pydict(columns)
    writer = writer or parquet.ParquetWriter(target, result.schema)
    writer.write_batch(result)
writer.close()
"""


@dataclass(frozen=True)
class Run:
    """Seconds by the clock and the largest resident memory of a process, in bytes."""

    seconds: float
    memory: int

    def __str__(self) -> str:
        return f"{self.seconds:8.1f} s  {self.memory / 1e6:6.0f} MB"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--score", default="kl")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--folder", type=Path, help="for files that are removed afterwards; a temporary one by default")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        return compare(Path(name), options)


def compare(folder: Path, options: argparse.Namespace) -> int:
    """Run everything and return the number of bars that were missed."""
    calibration = folder / "calibration"
    data = cs.datasets.make_synthetic(500, options.classes, n_votes=50, random_state=0)
    names = [f"class {k}" for k in range(options.classes)]
    cs.conformalize(data.distributions, data.counts, options.score, classes=names).save(calibration)
    sizes = [options.rows // 10, options.rows]
    print(f"{options.classes} classes, score {options.score}; {os.cpu_count()} cores, busy: {os.getloadavg()[0]:.1f}\n")
    print("      rows  way          time       memory   rows per second")
    runs = {}
    for rows in sizes:
        source = folder / f"{rows}.parquet"
        write_predictions(source, rows, names)
        for way, command in commands(calibration, source, folder / "sets.parquet").items():
            runs[rows, way] = run = measure(command)
            print(f"{rows:10,d}  {way:8s} {run}  {rows / run.seconds:12,.0f}", flush=True)
    written = (folder / "sets.parquet").stat().st_size
    print(f"\nbytes per row: {source.stat().st_size / rows:.0f} read, {written / rows:.0f} written")
    missed = judge(runs, sizes)
    if options.workers:
        scale(folder, calibration, source, options)
    return missed


def write_predictions(path: Path, rows: int, names: list[str]) -> None:
    """Write random predictions, a row group at a time."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, ROW_GROUP):
        size = min(ROW_GROUP, rows - start)
        prediction = rng.dirichlet(np.ones(len(names)), size)
        columns = {"task": np.arange(start, start + size)}
        table = pa.table(columns | {name: prediction[:, k] for k, name in enumerate(names)})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=ROW_GROUP)
    assert writer is not None
    writer.close()


def commands(calibration: Path, source: Path, target: Path) -> dict[str, list[str]]:
    """Return the two ways to do the same."""
    python, made, files = sys.executable, str(calibration), [str(source), str(target)]
    return {
        "by hand": [python, "-c", BY_HAND, made, *files],
        "predict": [python, "-m", "credalset", "predict", made, files[0], "-o", files[1], "--alpha", "0.1"],
    }


def measure(command: list[str]) -> Run:
    """Run a process to its end."""
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}")
    return Run(time.monotonic() - start, usage.ru_maxrss * 1024)


def judge(runs: dict[tuple[int, str], Run], sizes: list[int]) -> int:
    """Print ratios and return how many miss their bar."""
    small, large = (runs[rows, "predict"] for rows in sizes)
    bars = [
        ("time of predict against the loop by hand", large.seconds / runs[sizes[1], "by hand"].seconds, SLOWEST),
        ("memory of predict, in units of 600 MB", large.memory / LARGEST, 1.0),
        (f"memory at {sizes[1]:,d} rows against {sizes[0]:,d}", large.memory / small.memory, GROWTH),
    ]
    for what, ratio, bar in bars:
        print(f"{what}: {ratio:.2f} ({'reached' if ratio <= bar else 'MISSED'}: at most {bar:g})")
    return sum(ratio > bar for _, ratio, bar in bars)


def scale(folder: Path, calibration: Path, source: Path, options: argparse.Namespace) -> None:
    """Score the same rows part by part, in this process and by workers, with one thread each.

    Time by the clock says little where others use the machine; processor time tells what the workers add to the work.
    """
    scorer = cs.Scorer(calibration, alpha=0.1)
    os.environ["CREDALSET_NUM_THREADS"] = "1"
    scorer(next(parquet.ParquetFile(source).iter_batches(batch_size=1000)))  # kernels are compiled once per machine
    print("\nworkers      time  rows per second  against serial  processor time  memory of a worker")
    serial = None
    for n in [0, *options.workers]:
        target = folder / f"by-{n}"
        with local_cluster(n) if n else nullcontext() as client:
            before, start = sum(usage(client)[0]), time.monotonic()
            score_parquet(source, target, scorer, client=client)
            seconds, (busy, memory) = time.monotonic() - start, usage(client)
        serial = serial or seconds
        told = f"{options.rows / seconds:15,.0f}  {serial / seconds:14.2f}  {sum(busy) - before:12.1f} s"
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
