"""``credalset reproduce``: the paper's experiments, from data to tables and figures; stops and goes on at will."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from credalset._version import __version__
from credalset.commands.demo import _make_directory
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.experiments import NAMES
from credalset.experiments.batch import Batch

TABLE_WIDTH = 100  # no narrower, lest columns be cut


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
    _make_directory(out)
    console = Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    n_seeds = seeds if seeds is not None else 2 if quick else 10
    choices = {"features": features, "encoder": encoder, "published_data": published_data}
    for name in NAMES if experiment == "all" else [experiment]:
        try:
            _reproduce_one(name, n_seeds, quick, out, jobs, data, choices, console)
        except FileNotFoundError as error:
            if experiment != "all":
                sys.exit(f"{name}: {error}")
            console.print(f"{name} was skipped for lack of data: {error}\n")
        except (FileFormatError, MissingExtraError, PermissionError) as error:
            sys.exit(f"{name}: {error}")


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
    if name == "synthetic":
        shared = module.settings(quick, choices["published_data"])
    elif name == "chaosnli":
        shared = module.settings(quick, data, choices["features"], choices["encoder"])
    else:
        shared = module.settings(quick, data)
    batches = module.batches(shared, n_seeds)
    store = Store(out / "batches" / name, {**shared, "credalset": __version__})
    start = time.monotonic()
    with _progress(name, batches, console) as advance:
        run_all(batches, store, data, jobs=jobs, report=advance)
    report.write(name, store, batches, out, console)
    console.print(f"{name}: {time.monotonic() - start:.0f} s in this run; results are in {out}\n")


@contextmanager
def _progress(name: str, batches: list[Batch], console: Console) -> Iterator[Any]:
    """Give a function to call with each finished batch: it moves a bar, or prints a line where there is no terminal."""
    n_runs = sum(batch.n_runs for batch in batches)
    if not console.is_terminal:
        counter = {"runs": 0}

        def note(batch: Batch, was_there: bool) -> None:
            counter["runs"] += batch.n_runs
            if not was_there:
                console.print(f"{name}: {counter['runs']}/{n_runs} runs, {batch.name} is done")

        yield note
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=n_runs)
        yield lambda batch, was_there: bar.update(task, advance=batch.n_runs, description=f"{name}: {batch.part}")
