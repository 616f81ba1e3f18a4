"""Time and memory of the commands on many votes of many workers, and how they grow.

A million votes of ten thousand workers on two hundred thousand items, and a quarter of that: from
an export to agreement, a calibration, sets and a check. Time is processor time, because other work
on the machine slows the clock. The script exits with status 1 if a command takes more than five
minutes or 3 GB, or more than 6 times as long for four times as many votes.

    python benchmarks/many_votes.py            # a few minutes
    python benchmarks/many_votes.py --quick    # to see that it runs
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

N_VOTES, N_WORKERS, N_ITEMS = 1_000_000, 10_000, 200_000
CLASSES = [f"class {k}" for k in range(5)]
SHARE = 4  # of the votes in the smaller run
SLOWEST, LARGEST, GROWTH = 300.0, 3e9, 6.0

COMMANDS = {
    "import": "import export.csv -o votes.parquet --overwrite",
    "agree": "agree votes.parquet",
    "calibrate": "calibrate half.parquet votes.parquet -o made --overwrite",
    "calibrate --in-hand": (
        "calibrate half.parquet votes.parquet -o crowd --overwrite --in-hand 0,1 --method imputed"
    ),
    "predict": "predict made rest.parquet -o sets.parquet --overwrite",
    "check": "check made rest.parquet votes.parquet",
}


class Run(NamedTuple):
    """Processor seconds, seconds by the clock, and the largest resident memory in bytes."""

    used: float
    seconds: float
    memory: int


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few votes: the numbers mean nothing")
    options = parser.parse_args(arguments)
    scale = 1000 if options.quick else 1
    runs = []
    for share in (SHARE, 1):
        with tempfile.TemporaryDirectory() as folder:
            n_votes = write_tables(Path(folder), share * scale)
            print(f"{n_votes:,d} votes, {N_WORKERS // (share * scale):,d} workers", flush=True)
            runs.append({name: measure(Path(folder), line) for name, line in COMMANDS.items()})
            for name, run in runs[-1].items():
                print(
                    f"  {name:20} {run.used:8.1f} s of processor time  {run.seconds:8.1f} s by the "
                    f"clock  {run.memory / 1e6:6.0f} MB",
                    flush=True,
                )
    few, many = runs
    n_missed = 0
    print(f"\ntimes as long for {SHARE} times as many votes")
    for name in COMMANDS:
        growth = many[name].used / few[name].used
        is_kept = growth <= GROWTH and many[name].seconds <= SLOWEST
        is_kept = is_kept and many[name].memory <= LARGEST
        n_missed += not is_kept
        print(f"  {name:20} {growth:6.1f}  {'kept' if is_kept else 'MISSED'}")
    return 0 if options.quick else int(n_missed > 0)


def write_tables(folder: Path, share: int) -> int:
    """Write an export of votes, and predictions for two halves of the items."""
    rng = np.random.default_rng(0)
    n_votes, n_items, n_workers = (n // share for n in (N_VOTES, N_ITEMS, N_WORKERS))
    truth = rng.dirichlet(np.ones(len(CLASSES)), n_items)
    items = np.array([f"item {i:06d}" for i in range(n_items)])
    item = rng.permutation(np.repeat(np.arange(n_items), n_votes // n_items))
    label = (truth.cumsum(axis=1)[item] < rng.random((n_votes, 1))).sum(axis=1)
    worker = rng.integers(0, n_workers, n_votes)
    export = {
        "task": items[item],
        "worker": np.char.add("worker ", worker.astype(str)),
        "label": np.array(CLASSES)[label],
    }
    csv.write_csv(pa.table(export), folder / "export.csv")
    predictions = 0.8 * truth + 0.2 / len(CLASSES)
    columns = dict(zip(CLASSES, predictions.T, strict=True))
    table = pa.table({"task": items, **columns})
    parquet.write_table(table[: n_items // 2], folder / "half.parquet")
    parquet.write_table(table[n_items // 2 :], folder / "rest.parquet")
    return n_votes


def measure(folder: Path, line: str) -> Run:
    """Run a command to its end."""
    command = [sys.executable, "-m", "credalset", *line.split()]
    start = time.monotonic()
    with open(folder / "said", "w+") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode not in (0, 1):
            sys.exit(f"{line} ended with {process.returncode}: {said.read()}")
    return Run(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss * 1024)


if __name__ == "__main__":
    sys.exit(main())
