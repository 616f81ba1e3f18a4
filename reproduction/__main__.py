"""``python -m reproduction``: the paper's experiments, from data to tables and figures."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from credalset import __version__
from credalset._display import progress
from credalset.datasets import DataNotFoundError
from reproduction import NAMES, report
from reproduction.batch import Batch
from reproduction.runner import run_all
from reproduction.store import Store


def main(arguments: Sequence[str] | None = None) -> int:
    """Run experiments and write their results; the same command continues where it was stopped."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=main.__doc__)
    parser.add_argument("experiment", choices=[*NAMES, "all"])
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to check that everything works"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reproduction-results"), help="directory for results"
    )
    parser.add_argument("--seeds", type=int, help="number of seeds: 10, or 2 with --quick")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes to use, by default all"
    )
    parser.add_argument(
        "--data", type=Path, help="folder with third-party data; default CREDALSET_DATA"
    )
    options = parser.parse_args(arguments)
    n_seeds = options.seeds or (2 if options.quick else 10)
    try:
        for name in NAMES if options.experiment == "all" else [options.experiment]:
            try:
                reproduce(name, n_seeds, options.quick, options.out, options.jobs, options.data)
            except DataNotFoundError as error:
                print(f"{name} was skipped, its data are missing: {error}\n")
                if options.experiment != "all":
                    return 2
    except KeyboardInterrupt:
        print("\nstopped; run the same command again to continue", file=sys.stderr)
        return 130
    return 0


def reproduce(
    name: str, n_seeds: int, quick: bool, out: Path, jobs: int = 1, data: Path | None = None
) -> None:
    """Compute what is missing of an experiment, then write its tables and figures into ``out``."""
    start = time.monotonic()
    experiment = import_module(f"reproduction.{name}")
    batches = experiment.batches(
        experiment.settings(quick, data) | {"credalset": __version__}, n_seeds
    )
    store = Store(out / "batches" / name)
    n_runs = sum(batch.n_runs for batch in batches)
    finished = 0
    with progress(f"{name}: runs", n_runs) as advance:

        def report_batch(batch: Batch, was_there: bool) -> None:
            nonlocal finished
            finished += batch.n_runs
            advance(batch.n_runs, batch.part)
            if not was_there and not sys.stdout.isatty():
                print(f"{name}: {finished}/{n_runs} runs, {batch.name} is done", flush=True)

        run_all(batches, store, data, jobs=jobs, report=report_batch)
    report.write(name, store, batches, out, print)
    print(f"{name}: {time.monotonic() - start:.0f} s in this run; results are in {out}\n")


if __name__ == "__main__":
    sys.exit(main())
