"""All commands; errors and warnings become one sentence on standard error, errors an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from credalset._version import __version__
from credalset.cli.codes import CLUSTER_FAILED, ENDED, INTERRUPTED, PIPE_CLOSED, WRONG_USE
from credalset.cli.words import note, say, spelled
from credalset.exceptions import ClusterError, CredalSetWarning

#: commands in the order of the help, with the module and the name of the function. A command's
#: module is imported when it is asked for, so that no command waits for what others need.
COMMANDS = {
    "import": ("credalset.cli.votes", "import_votes"),
    "agree": ("credalset.cli.votes", "agree"),
    "fit": ("credalset.cli.fit", "fit"),
    "calibrate": ("credalset.cli.calibrate", "calibrate"),
    "review": ("credalset.cli.review", "review"),
    "predict": ("credalset.cli.predict", "predict"),
    "check": ("credalset.cli.check", "check"),
    "report": ("credalset.cli.check", "report"),
    "estimate": ("credalset.cli.judges", "estimate"),
    "plan": ("credalset.cli.plan", "plan"),
    "demo": ("credalset.cli.demo", "demo"),
}
# The exception of click, or of the copy of it in newer releases of typer.
ClickException: Any = next(
    each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException"
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"credalset {__version__}")
        raise typer.Exit


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the program with some of its commands."""
    app = typer.Typer(
        name="credalset",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=True,
    )
    app.callback()(_options)
    for name in names:
        module, function = COMMANDS[name]
        app.command(name)(getattr(import_module(module), function))
    return app


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Credal sets with a coverage guarantee, from annotations and predictions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: done. 1: a check failed. 2: wrong use or bad input. 3: the cluster failed. 130: interrupted.
    141: the reader of standard output has closed it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", CredalSetWarning)
        given = sys.argv[1:] if arguments is None else list(arguments)
        warnings.showwarning = _notes(given)
        try:
            # One command, unless something else is asked for, such as the help.
            asked = given[:1] if given and given[0] in COMMANDS else list(COMMANDS)
            app = make_app(asked)
            code = int(app(given, prog_name="credalset", standalone_mode=False) or 0)
            return _fail(ENDED, code) if code == INTERRUPTED else code
        except ClickException as error:
            error.show()
            return WRONG_USE
        except (KeyboardInterrupt, typer.Abort):
            return _fail(ENDED, INTERRUPTED)
        except BrokenPipeError:
            return _without_reader()
        except SystemExit as error:  # what Typer makes of it
            if not isinstance(error.__context__, BrokenPipeError):
                raise
            return _without_reader()
        except ClusterError as error:
            return _fail(str(error), CLUSTER_FAILED)
        except OSError as error:
            return _fail(_about_file(error), WRONG_USE)
        except (ValueError, TypeError, ImportError) as error:
            return _fail(spelled(str(error), _options_of(given)), WRONG_USE)


def _options_of(given: Sequence[str]) -> dict[str, str]:
    """Return the options of the command that was given, by the names of the arguments.

    Names that the user chose for something of their own, such as a folder ``out``, are left out.
    """
    if not given or given[0] not in COMMANDS:
        return {}
    group: Any = typer.main.get_command(make_app([given[0]]))
    parameters = group.commands[given[0]].params
    options = {each.name: each.opts[0] for each in parameters if each.opts[0].startswith("--")}
    return {name: option for name, option in options.items() if name not in given}


def _notes(given: Sequence[str]) -> Any:
    """Return a function that prints each warning once, however many batches it is about."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(spelled(str(message), _options_of(given)))

    return show


def _without_reader() -> int:
    """Send what is still to be written to standard output nowhere, without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _fail(sentence: str, code: int) -> int:
    say(f"error: {sentence}")
    return code


def _about_file(error: OSError) -> str:
    if error.errno == errno.ENOSPC:  # whoever writes a file names it
        return (
            f"{error.filename or 'standard output'}: the disk is full. Existing files are "
            "unchanged."
        )
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}."
