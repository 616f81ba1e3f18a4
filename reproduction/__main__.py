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
from credalset._files import write_file
from credalset.datasets import DataNotFoundError, load_chaosnli
from reproduction import NAMES, report
from reproduction.batch import Batch
from reproduction.runner import run_all
from reproduction.store import Store

MISSING = 3  # exit status when data are missing
RESULTS = Path("reproduction-results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run experiments and write their results; the same command continues where it was stopped."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        print("\nstopped; run the same command again to continue", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=main.__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--out", type=Path, default=RESULTS, help="directory for results")
    shared.add_argument(
        "--data", type=Path, help="folder with third-party data; default CREDALSET_DATA"
    )
    shared.add_argument(
        "--allow-missing", action="store_true", help="exit with 0 although data are missing"
    )
    for name in (*NAMES, "all"):
        what = "all experiments and figures" if name == "all" else f"the experiment {name}"
        one = commands.add_parser(name, parents=[shared], help=f"run {what}")
        one.add_argument(
            "--quick", action="store_true", help="tiny sizes, to check that everything works"
        )
        one.add_argument("--seeds", type=int, help="number of seeds: 10, or 2 with --quick")
        one.add_argument(
            "--jobs", type=int, default=os.cpu_count() or 1, help="processes; by default all cores"
        )
        one.set_defaults(run=_experiments, names=NAMES if name == "all" else (name,))
    drawn = commands.add_parser(
        "figures", parents=[shared], help="draw every figure of the paper from finished experiments"
    )
    drawn.add_argument("--style", choices=("paper", "house"), default="house")
    drawn.set_defaults(run=_figures)
    compared = commands.add_parser(
        "compare", parents=[shared], help="measure methods by one protocol, from experiment files"
    )
    compared.add_argument(
        "experiments", type=Path, nargs="*", help="TOML files; by default all that come with it"
    )
    compared.add_argument("--seeds", type=int, help="number of splits, instead of the file's")
    compared.set_defaults(run=_compare)
    learned = commands.add_parser(
        "learner", parents=[shared], help="train second-order networks in a dozen ways, and compare"
    )
    learned.add_argument("--seeds", type=int, default=10, help="number of seeds")
    learned.add_argument("--epochs", type=int, default=100, help="passes over the training items")
    learned.set_defaults(run=_learner)
    fetched = commands.add_parser(
        "fetch", parents=[shared], help="check the published files, and download what is missing"
    )
    fetched.set_defaults(run=_fetch)
    return parser


def _experiments(options: argparse.Namespace) -> int:
    n_seeds = options.seeds or (2 if options.quick else 10)
    missing = []
    for name in options.names:
        try:
            reproduce(name, n_seeds, options.quick, options.out, options.jobs, options.data)
        except DataNotFoundError as error:
            missing.append(f"{name} was skipped, its data are missing: {error}")
    if len(options.names) > 1:
        options.style = "house"
        _figures(options)
    return _report_missing(missing, options.allow_missing)


def _report_missing(missing: Sequence[str], is_allowed: bool, cure: str = "Get the data") -> int:
    """Say what is missing, last so that it is seen, and return the exit status."""
    if not missing:
        return 0
    print("\n".join(missing), file=sys.stderr)
    if is_allowed:
        return 0
    print(f"{cure}, or pass --allow-missing to do without.", file=sys.stderr)
    return MISSING


def reproduce(
    name: str, n_seeds: int, quick: bool, out: Path, jobs: int = 1, data: Path | None = None
) -> None:
    """Compute what is missing of an experiment, then write its tables into ``out``."""
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


def _figures(options: argparse.Namespace) -> int:
    from reproduction.figures import Results, draw_all

    stores = {name: Store(options.out / "batches" / name) for name in NAMES}
    found = {name: store.everything() for name, store in stores.items()}
    try:
        pairs = load_chaosnli(None, options.data) if found["chaosnli"].rows else None
    except DataNotFoundError:
        pairs = None  # names of the pairs instead of their texts
    results = Results(
        {name: one.rows for name, one in found.items()},
        {name: one.examples for name, one in found.items()},
        pairs,
    )
    folder = options.out / "figures" / options.style
    drawn, missing = draw_all(results, folder, options.style)
    print(f"{len(drawn)} figures as PDF, SVG and PNG, and contact-sheet.png, are in {folder}")
    return _report_missing(
        [f"not drawn: {name}" for name in missing], options.allow_missing, "Run the experiments"
    )


def _compare(options: argparse.Namespace) -> int:
    from reproduction import compare

    missing = []
    for path in options.experiments or compare.experiments():
        try:
            rows = compare.run(path, options.out, options.data, options.seeds)
        except DataNotFoundError as error:
            missing.append(f"{path.stem} was skipped, its data are missing: {error}")
            continue
        print(f"{path.stem}\n\n{compare.table(rows)}\n")
    return _report_missing(missing, options.allow_missing)


def _learner(options: argparse.Namespace) -> int:
    from reproduction import learner
    from reproduction.pages import section

    def tell(line: str) -> None:
        print(line, flush=True)

    missing = []
    page = section("votes", "", learner.run(options.seeds, options.epochs, tell))
    try:
        table = learner.run_on_images(options.seeds, learner.EPOCHS, options.data, tell)
        page += section("images", "", table)
    except DataNotFoundError as error:
        missing.append(f"CIFAR-10H was skipped, its data are missing: {error}")
    write_file(options.out / "learner.md", ("\n\n".join(page) + "\n").encode())
    print(f"The tables are in {options.out / 'learner.md'}.")
    return _report_missing(missing, options.allow_missing)


def _fetch(options: argparse.Namespace) -> int:
    from reproduction.fetch import fetch

    folder = options.data or os.environ.get("CREDALSET_DATA")
    if folder is None:
        print("Name a folder with --data or CREDALSET_DATA.", file=sys.stderr)
        return MISSING
    return _report_missing(fetch(Path(folder), print), options.allow_missing)


if __name__ == "__main__":
    sys.exit(main())
