"""What the commands on files share: options, words on stderr, tables and JSON on stdout, exit codes."""

from __future__ import annotations

import errno
import functools
import inspect
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
import typer.models
from rich.console import Console

from credalset._files import UNFINISHED
from credalset._progress import progress as bar
from credalset.commands.wording import for_terminal
from credalset.exceptions import CredalSetWarning
from credalset.io.files import format_of
from credalset.io.tables import table_writer

SCHEMA_VERSION = 1
CHECK_FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ShowPython = Annotated[bool, typer.Option("--show-python", help="Print the Python that does the same, and stop.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Miscoverage rate: 0.1 asks for 90 % coverage.")]


def stderr() -> Console:
    """Words and progress go to standard error, so that data can be piped."""
    return Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors into one sentence and the right exit code; warnings into words on stderr.

    A parameter whose type is a dataclass becomes one option for each of its fields: what commands share is said once.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: p.annotation for name, p in signature.parameters.items() if is_dataclass(p.annotation)
    }

    options = [option for parameter in signature.parameters.values() for option in _options(parameter)]
    names = [option.name for option in options if _is_option(option)]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", CredalSetWarning)
                warnings.showwarning = lambda message, *_, **__: note(for_terminal(str(message), names))
                command(**given)
        except KeyboardInterrupt:
            fail("interrupted; nothing was left half-written.", INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            fail(_about_file(error))
        except (ValueError, TypeError, ImportError) as error:
            fail(for_terminal(str(error), names))

    common = {field.name for group in groups.values() for field in fields(group) if field.default is not MISSING}
    options.sort(key=lambda option: option.name in common)  # help shows what is the command's own first
    run.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    return run


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Write a group of options out into the options that it holds."""
    group = parameter.annotation
    if not is_dataclass(group):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])


def _is_option(parameter: inspect.Parameter) -> bool:
    return any(isinstance(said, typer.models.OptionInfo) for said in get_args(parameter.annotation))


def fail(sentence: str, code: int = WRONG_USE) -> None:
    """Say what is wrong and leave."""
    stderr().print(f"error: {sentence}")
    raise typer.Exit(code)


def _about_file(error: OSError) -> str:
    if error.filename is None or error.errno is None:
        return str(error)
    path = Path(os.fsdecode(error.filename))
    hidden = re.fullmatch(rf"\.(.+)\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}", path.name)
    name = path if hidden is None else path.with_name(hidden[1])  # what was asked for, not what it is written as
    if error.errno == errno.ENOSPC:
        return f"{name}: the disk is full. Nothing was left under that name."
    return f"{name} cannot be written: {error.strerror}." if hidden else f"{name}: {error.strerror}."


def note(sentence: str) -> None:
    """Say something that is good to know."""
    stderr().print(f"note: {sentence}")


def show_python(*lines: str) -> None:
    """Print the Python that a command stands for."""
    typer.echo("\n".join(["import credalset as cs", *lines]))


def call(name: str, function: Callable[..., Any], *arguments: str, **options: Any) -> str:
    """Write down a call: arguments as they are written, options unless they are left at their default."""
    known = inspect.signature(function).parameters
    given = [f"{option}={value!r}" for option, value in options.items() if value != known[option].default]
    return f"{name}({', '.join([*arguments, *given])})"


def writing(out: str, format: str | None, schema: str, batches: str) -> list[str]:
    """Write down how batches go to a table."""
    return [
        f"with table_writer({out!r}, {schema}{'' if format is None else f', {format!r}'}) as write:",
        f"    for batch in {batches}:",
        "        write(batch)",
    ]


def write_table(out: str, format: str | None, schema: Any, batches: Iterable[Any], what: str) -> str:
    """Write batches to a table, with a bar that says what is done; return how many rows went where."""
    n_rows = 0
    with table_writer(out, schema, format) as write:
        for batch in progress(batches, None, what):
            write(batch)
            n_rows += batch.num_rows
    return f"{n_rows} rows to {'standard output' if out == '-' else out}"


def check_table(out: str, format: str | None) -> None:
    """See that a table can be written, and in which format, before anything is computed."""
    format_of(out, format)
    check_output(out)


def print_json(kind: str, **values: Any) -> None:
    """Print a JSON object that says what it is and which version of its schema it follows."""
    typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "kind": kind, **values}, indent=2, allow_nan=False))


def split_names(names: str | None) -> list[str] | None:
    """Read a list of names separated by commas."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def split_pairs(pairs: list[str] | None) -> dict[str, str] | None:
    """Read new names by old ones, old=new, given one by one or separated by commas.

    Commas belong to a name where they do not separate pairs: ``a, b=c`` is one. The last = of a pair is what splits it.
    """
    found: dict[str, str] = {}
    for said in pairs or ():
        parts = said.split(",")
        for part in [said] if "=" not in parts[0] else parts:
            old, _, new = (text.strip() for text in part.rpartition("="))
            if not old or not new:
                raise ValueError(f"--rename must say old=new, such as y=yes,n=no, but is {said!r}.")
            found[old] = new
    return found or None


def split_levels(levels: list[str]) -> list[float]:
    """Read levels, given one by one or separated by commas."""
    try:
        return [float(level) for several in levels for level in several.split(",")]
    except ValueError:
        raise ValueError(f"--alpha must be numbers such as 0.1 or 0.05,0.1, but is {', '.join(levels)!r}.") from None


def check_output(path: str, *, folder: bool = False, streams: bool = True) -> None:
    """See that a result can be written, before anything is computed."""
    if path == "-":
        if folder or not streams:
            raise ValueError(f"-o - is not possible: the result is a {'folder' if folder else 'file'}. Name it.")
        return
    target = Path(path)
    parent = target.parent
    if not parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {parent}. Create it first.")
    if folder and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{path} is there already. Choose another name, or remove it first.")
    if not folder and target.is_dir():
        raise ValueError(f"{path} is a folder. Name a file.")
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
