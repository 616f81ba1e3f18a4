"""Commands of the ``credalset`` program (extra ``cli``). A new command is one file here and one line below."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset._version import __version__
from credalset.commands.agree import agree
from credalset.commands.calibrate import calibrate
from credalset.commands.check import check
from credalset.commands.demo import demo
from credalset.commands.fit import fit
from credalset.commands.hints import Guiding
from credalset.commands.import_votes import import_votes
from credalset.commands.predict import predict
from credalset.commands.report import report

app = typer.Typer(
    name="credalset",
    cls=Guiding,
    help="Credal sets with a coverage guarantee, from annotations and predictions.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command("import")(import_votes)
for _command in (agree, fit, calibrate, predict, check, report):
    app.command()(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"credalset {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Credal sets with a coverage guarantee, from annotations and predictions."""


__all__ = ["app"]
