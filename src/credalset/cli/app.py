"""All commands; errors and warnings become one sentence on standard error, errors an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from credalset._version import __version__
from credalset.cli import ENDED, INTERRUPTED
from credalset.cli.calibrate import calibrate
from credalset.cli.check import check, report
from credalset.cli.demo import demo
from credalset.cli.fit import fit
from credalset.cli.plan import plan
from credalset.cli.predict import predict
from credalset.cli.shared import note, say
from credalset.cli.votes import agree, import_votes
from credalset.exceptions import ClusterError, CredalSetWarning

WRONG_USE, CLUSTER_FAILED = 2, 3
# of click, or of the copy of it in newer releases of typer
ClickException: Any = next(
    each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException"
)

app = typer.Typer(
    name="credalset",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
)
app.command("import")(import_votes)
for _command in (agree, fit, calibrate, predict, check, report, plan, demo):
    app.command()(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"credalset {__version__}")
        raise typer.Exit


@app.callback()
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
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", CredalSetWarning)
        warnings.showwarning = _notes()
        try:
            code = int(app(arguments, prog_name="credalset", standalone_mode=False) or 0)
            return _fail(ENDED, code) if code == INTERRUPTED else code
        except ClickException as error:
            error.show()
            return WRONG_USE
        except (KeyboardInterrupt, typer.Abort):
            return _fail(ENDED, INTERRUPTED)
        except BrokenPipeError:  # the reader of the output has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except ClusterError as error:
            return _fail(str(error), CLUSTER_FAILED)
        except OSError as error:
            return _fail(_about_file(error), WRONG_USE)
        except (ValueError, TypeError, ImportError) as error:
            return _fail(str(error), WRONG_USE)


def _notes() -> Any:
    """Return a function that prints each warning once, however many batches it is about."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(str(message))

    return show


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
