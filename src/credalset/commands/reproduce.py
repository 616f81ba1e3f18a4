"""``credalset reproduce``: the paper's experiments, from data to tables and figures; stops and goes on at will."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from credalset._version import __version__
from credalset.commands.demo import _make_directory
from credalset.datasets import DataNotFoundError
from credalset.datasets.chaosnli import FEATURE_FILES
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.experiments import NAMES
from credalset.experiments.batch import Batch

TABLE_WIDTH = 100  # no narrower, lest columns be cut
PACKAGES = ("torch", "pyarrow", "matplotlib")
#: how loaders speak of their arguments, and what the same is here
SPELLINGS = {
    "with data_dir or": "with --data or",
    "encoder='cross-encoder/nli-deberta-base'": "--encoder cross-encoder/nli-deberta-base",
    "draw points with make_synthetic": "leave out --published-data",
}


def reproduce(
    experiment: Annotated[str, typer.Argument(help="synthetic, chaosnli, cifar10h, or all of them.")],
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds: 10, or 2 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: does everything work?")] = False,
    out: Annotated[Path, typer.Option(file_okay=False, help="Directory for results.")] = Path("reproduction"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes to use.")] = 1,
    data: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder with third-party data; default CREDALSET_DATA.")
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="ChaosNLI: roberta, minilm, or a file; may be repeated.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="ChaosNLI: compute features with a model of this name (extra nli).")
    ] = None,
    published_data: Annotated[
        bool, typer.Option("--published-data", help="Synthetic: the authors' own points, from the data folder.")
    ] = False,
) -> None:
    """Reproduce the paper's experiments. Stop at any time; starting again goes on where it stopped."""
    if experiment not in (*NAMES, "all"):
        raise typer.BadParameter(f"must be one of {', '.join(NAMES)}, all", param_hint="'EXPERIMENT'")
    choices = {"features": features, "encoder": encoder, "published_data": published_data}
    _check_choices(experiment, choices)
    _check_packages()
    _make_directory(out)
    console = Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    n_seeds = seeds if seeds is not None else 2 if quick else 10
    failed = []
    for name in NAMES if experiment == "all" else [experiment]:
        try:
            _reproduce_one(name, n_seeds, quick, out, jobs, data, choices, console)
        except (FileFormatError, MissingExtraError, OSError) as error:
            if experiment != "all":
                sys.exit(f"{name}: {_in_options(error)}")
            is_missing = isinstance(error, DataNotFoundError)
            outcome = "was skipped for lack of data" if is_missing else "failed"
            console.print(f"{name} {outcome}: {_in_options(error)}\n")
            failed += [] if is_missing else [name]
        except KeyboardInterrupt:
            typer.echo("\nstopped; the same command goes on from here", err=True)
            sys.exit(130)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; what to do is said above")


def _check_choices(experiment: str, choices: dict[str, Any]) -> None:
    """Refuse options that another experiment has, and features that are not there."""
    for name, owner in (("features", "chaosnli"), ("encoder", "chaosnli"), ("published_data", "synthetic")):
        if choices[name] and experiment not in (owner, "all"):
            option = f"'--{name.replace('_', '-')}'"
            raise typer.BadParameter(f"is an option of {owner}, not of {experiment}", param_hint=option)
    for file in choices["features"] or []:
        if file not in FEATURE_FILES and not Path(file).is_file():
            known = ", ".join(FEATURE_FILES)
            raise typer.BadParameter(
                f"must be {known}, or a file, but there is no file {file}", param_hint="'--features'"
            )


def _check_packages() -> None:
    """Name the extra before anything is written: the parts that need it would each name their own."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        sys.exit(str(MissingExtraError("credalset reproduce", missing[0], "reproduce")))


def _in_options(error: Exception) -> str:
    """Return the message of an error with the arguments of loaders as the options that they are here."""
    text = str(error)
    for argument, option in SPELLINGS.items():
        text = text.replace(argument, option)
    return text


def _reproduce_one(
    name: str,
    n_seeds: int,
    quick: bool,
    out: Path,
    jobs: int,
    data: Path | None,
    choices: dict[str, Any],
    console: Console,
) -> None:
    from credalset.experiments import report
    from credalset.experiments.runner import run_all
    from credalset.experiments.store import Store

    module = import_module(f"credalset.experiments.{name}")
    shared = _settings(module, name, quick, data, choices)
    batches = module.batches(shared, n_seeds)
    store = Store(out / "batches" / name, {**shared, "credalset": __version__})
    start = time.monotonic()
    with _progress(name, batches, console) as advance:
        run_all(batches, store, data, jobs=jobs, report=advance)
    report.write(name, store, batches, out, console)
    console.print(f"{name}: {time.monotonic() - start:.0f} s in this run; results are in {out}\n")


def _settings(module: Any, name: str, quick: bool, data: Path | None, choices: dict[str, Any]) -> dict[str, Any]:
    if name == "synthetic":
        shared = module.settings(quick, choices["published_data"])
    else:
        own = (choices["features"], choices["encoder"]) if name == "chaosnli" else ()
        try:
            shared = module.settings(quick, data, *own)
        except ValueError as error:  # the data are loaded for it, and nothing else can be wrong
            raise FileFormatError(str(error)) from None
    return dict(shared)


@contextmanager
def _progress(name: str, batches: list[Batch], console: Console) -> Iterator[Any]:
    """Give a function to call with each finished batch: it moves a bar, or prints a line where there is no terminal."""
    n_runs = sum(batch.n_runs for batch in batches)
    if not console.is_terminal:
        counter = {"runs": 0}

        def note(batch: Batch, was_there: bool) -> None:
            counter["runs"] += batch.n_runs
            if not was_there and batch.n_runs:
                console.print(f"{name}: {counter['runs']}/{n_runs} runs, {batch.name} is done")
            elif not was_there:
                console.print(f"{name}: timed one run of the published way, for comparison")

        yield note
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=n_runs)
        yield lambda batch, was_there: bar.update(task, advance=batch.n_runs, description=f"{name}: {batch.part}")
