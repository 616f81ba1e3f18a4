"""``credalset reproduce``: the paper's experiments, from data to tables and figures; can be stopped and continued."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from credalset._progress import progress
from credalset._version import __version__
from credalset.commands.demo import make_directory
from credalset.datasets import DataNotFoundError
from credalset.datasets.chaosnli import FEATURE_FILES
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.experiments import NAMES
from credalset.experiments.batch import Batch

PACKAGES = ("torch", "pyarrow", "matplotlib")
#: options that only one experiment has
OWNERS = {"features": "chaosnli", "encoder": "chaosnli", "published_data": "synthetic"}
#: arguments in the messages of loaders, and the options that stand for them here
SPELLINGS = {
    "with data_dir or": "with --data or",
    "encoder='cross-encoder/nli-deberta-base'": "--encoder cross-encoder/nli-deberta-base",
    "draw points with make_synthetic": "leave out --published-data",
}


def reproduce(
    experiment: Annotated[str, typer.Argument(help="synthetic, chaosnli, cifar10h, or all of them.")],
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds: 10, or 2 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes, to check that everything works.")] = False,
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
    """Reproduce the paper's experiments. Stop at any time; the same command continues where it stopped."""
    if experiment not in (*NAMES, "all"):
        raise typer.BadParameter(f"must be one of {', '.join(NAMES)}, all", param_hint="'EXPERIMENT'")
    choices = {"features": features, "encoder": encoder, "published_data": published_data}
    _check_choices(experiment, choices)
    _check_packages()
    make_directory(out)
    n_seeds = seeds if seeds is not None else 2 if quick else 10
    failed = []
    for name in NAMES if experiment == "all" else [experiment]:
        own = {option: value for option, value in choices.items() if OWNERS[option] == name}
        try:
            _reproduce_one(name, n_seeds, quick, out, jobs, data, own)
        except (FileFormatError, MissingExtraError, OSError) as error:
            if experiment != "all":
                sys.exit(f"{name}: {_in_options(error)}")
            is_missing = isinstance(error, DataNotFoundError)
            outcome = "was skipped for lack of data" if is_missing else "failed"
            typer.echo(f"{name} {outcome}: {_in_options(error)}\n")
            failed += [] if is_missing else [name]
        except KeyboardInterrupt:
            typer.echo("\nstopped; run the same command again to continue", err=True)
            sys.exit(130)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the messages above say why")


def _check_choices(experiment: str, choices: dict[str, Any]) -> None:
    """Refuse options of another experiment, and feature files that do not exist."""
    for name, owner in OWNERS.items():
        if choices[name] and experiment not in (owner, "all"):
            option = f"'--{name.replace('_', '-')}'"
            raise typer.BadParameter(f"is an option of {owner}, not of {experiment}", param_hint=option)
    for file in choices["features"] or []:
        if file not in FEATURE_FILES and not Path(file).is_file():
            message = f"must be {', '.join(FEATURE_FILES)}, or a file, but there is no file {file}"
            raise typer.BadParameter(message, param_hint="'--features'")


def _check_packages() -> None:
    """Say which extra to install before anything is written."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        sys.exit(str(MissingExtraError("credalset reproduce", missing[0], "reproduce")))


def _in_options(error: Exception) -> str:
    """Return the message of an error, with options of this command in place of the loaders' arguments."""
    text = str(error)
    for argument, option in SPELLINGS.items():
        text = text.replace(argument, option)
    return text


def _reproduce_one(
    name: str, n_seeds: int, quick: bool, out: Path, jobs: int, data: Path | None, own: dict[str, Any]
) -> None:
    from credalset.experiments import report
    from credalset.experiments.runner import run_all
    from credalset.experiments.store import Store

    start = time.monotonic()
    module = import_module(f"credalset.experiments.{name}")
    try:
        shared = module.settings(quick, data, **own)
    except ValueError as error:  # the data are loaded for it, and nothing else can be wrong
        raise FileFormatError(str(error)) from None
    batches = module.batches(shared | {"credalset": __version__}, n_seeds)
    store = Store(out / "batches" / name)
    n_runs = sum(batch.n_runs for batch in batches)
    with progress(f"{name}: runs", n_runs) as advance:
        run_all(batches, store, data, jobs=jobs, report=_reporter(name, n_runs, advance))
    report.write(name, store, batches, out, typer.echo)
    typer.echo(f"{name}: {time.monotonic() - start:.0f} s in this run; results are in {out}\n")


def _reporter(name: str, n_runs: int, advance: Callable[[int, str], None]) -> Callable[[Batch, bool], None]:
    """Return a function to call with each finished batch: it moves the bar, or prints a line where that is not seen."""
    finished = 0

    def report(batch: Batch, was_there: bool) -> None:
        nonlocal finished
        finished += batch.n_runs
        advance(batch.n_runs, batch.part)
        if not was_there and not sys.stdout.isatty():
            typer.echo(f"{name}: {finished}/{n_runs} runs, {batch.name} is done")

    return report
