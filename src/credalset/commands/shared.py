"""What the commands on files share: options, words on stderr, tables and JSON on stdout, exit codes."""

from __future__ import annotations

import errno
import functools
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from credalset._progress import progress as bar
from credalset.annotations import Annotations
from credalset.calibration import Calibration
from credalset.exceptions import CredalSetWarning
from credalset.persistence.load import load
from credalset.tables.matching import Matched, NumberTable, match, read_numbers

SCHEMA_VERSION = 1
CHECK_FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

Id = Annotated[str, typer.Option("--id", help="Column that names the items.")]
Columns = Annotated[str | None, typer.Option("--columns", help="Columns with the numbers, separated by commas.")]
Format = Annotated[str | None, typer.Option("--format", help="csv, tsv, jsonl or parquet; else as the name says.")]
Logits = Annotated[bool, typer.Option("--logits", help="The numbers are logits: apply a softmax.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ShowPython = Annotated[bool, typer.Option("--show-python", help="Print the Python that does the same, and stop.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Miscoverage rate: 0.1 asks for 90 % coverage.")]
Votes = Annotated[str, typer.Argument(help="Votes: a long table (task, worker, label) or an annotation export.")]
Label = Annotated[str | None, typer.Option("--label", help="Column, or question of an export, with the labels.")]
Worker = Annotated[str | None, typer.Option("--worker", help="Column of the votes that names the annotators.")]
Task = Annotated[str | None, typer.Option("--task", help="Column of the votes that names the items.")]


def stderr() -> Console:
    """Words and progress go to standard error, so that data can be piped."""
    return Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors into one sentence and the right exit code; warnings into words on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", CredalSetWarning)
                warnings.showwarning = _say_warning
                command(*args, **kwargs)
        except KeyboardInterrupt:
            fail("interrupted; nothing was left half-written.", INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            fail(_about_file(error))
        except (ValueError, TypeError, ImportError) as error:
            fail(str(error))

    return run


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    stderr().print(f"note: {message}")


def fail(sentence: str, code: int = WRONG_USE) -> None:
    """Say what is wrong and leave."""
    stderr().print(f"error: {sentence}")
    raise typer.Exit(code)


def _about_file(error: OSError) -> str:
    if error.filename is None or error.errno is None:
        return str(error)
    if error.errno == errno.ENOSPC:
        return f"{error.filename}: the disk is full. Nothing was left under that name."
    return f"{error.filename}: {error.strerror}."


def note(sentence: str) -> None:
    """Say something that is good to know."""
    stderr().print(f"note: {sentence}")


def show_python(*lines: str) -> None:
    """Print the Python that a command stands for."""
    typer.echo("\n".join(["import credalset as cs", *lines]))


def call(function: str, *arguments: Any, **options: Any) -> str:
    """Write a call down, without options that are left at None, False or nothing."""
    given = [f"{name}={value!r}" for name, value in options.items() if value not in (None, False, (), [])]
    return f"{function}({', '.join([*map(repr, arguments), *given])})"


def print_json(kind: str, **values: Any) -> None:
    """Print a JSON object that says what it is and which version of its schema it follows."""
    typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "kind": kind, **values}, indent=2, allow_nan=False))


def split_names(names: str | None) -> list[str] | None:
    """Read a list of names separated by commas."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def read_votes(path: str, task: str | None = None, worker: str | None = None, label: str | None = None) -> Annotations:
    """Read votes from a long table or an annotation export, and say what it was taken for."""
    votes = Annotations.read(path, task=task, worker=worker, label=label)
    if votes.origin is not None:
        note(f"{votes.origin}.")
    return votes


def read_for(
    model: Any, path: str, format: str | None, *, id: str, columns: str | None, logits: bool, extra: Sequence[str]
) -> NumberTable:
    """Read what a calibration or model takes: predictions, or features by the names it was trained with."""
    names = split_names(columns)
    if names is None and (known := getattr(model, "feature_names_in_", None)) is not None:
        names = [str(name) for name in known]
    return read_numbers(path, format, id=id, columns=names, logits=logits, extra=extra)


def read_as(
    folder: str,
    path: str,
    format: str | None,
    *,
    id: str,
    columns: str | None,
    logits: bool,
    extra: Sequence[str] = (),
    keep_unvoted: bool = False,
) -> tuple[str, str, str]:
    """Write down how a calibration or model, and what it takes, are read."""
    model = load(folder)
    by_class = isinstance(model, Calibration)
    names = split_names(columns)
    if names is None and (known := getattr(model, "feature_names_in_", None)) is not None:
        names = [str(name) for name in known]
    numbers = call("read_numbers", path, format=format, id=id, columns=names, logits=logits, extra=list(extra))
    given = ("" if by_class else ", by_class=False") + (", keep_unvoted=True" if keep_unvoted else "")
    return (
        f"made = cs.load({folder!r})",
        f"both = match({numbers}, votes{given})",
        f"predictions = both.table.{'values' if by_class else 'features()'}",
    )


def read_matched(
    numbers: NumberTable, votes: Annotations, *, by_class: bool = True, keep_unvoted: bool = False
) -> Matched:
    """Match a table with votes and say what was left out."""
    matched = match(numbers, votes, by_class=by_class, keep_unvoted=keep_unvoted)
    for sentence in matched.notes:
        note(sentence)
    return matched


def check_output(path: str, *, folder: bool = False) -> None:
    """See that a result can be written, before anything is computed."""
    if path == "-":
        return
    target = Path(path)
    parent = target.parent
    if not parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {parent}. Create it first.")
    if folder and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{path} is there already. Choose another name, or remove it first.")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission to write into {parent}.")


def progress(things: Iterable[Any], total: int | None, what: str) -> Iterator[Any]:
    """Show a bar on stderr while things are worked through; nothing where stderr is not a terminal."""
    with bar(what, total) as advance:
        for thing in things:
            yield thing
            advance(1, "")


def quoted(*paths: str) -> str:
    """Write a command's words so that a shell reads them as they are."""
    return " ".join(map(shlex.quote, paths))
