"""``credalset import``: the export of any annotation tool to one long table of votes."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.annotations.readers import open_votes
from credalset.commands import shared
from credalset.commands.inputs import VoteOptions
from credalset.commands.shared import ShowPython


@shared.guarded
def import_votes(
    export: Annotated[str, typer.Argument(help="Export of an annotation tool: file, folder, pattern, archive or -.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Long table to write: task, worker, label[, time].")],
    votes: VoteOptions,
    weight: Annotated[str | None, typer.Option(help="Column that says how much each vote counts.")] = None,
    one_vs_rest: Annotated[str | None, typer.Option(help="Turn votes into votes for or against this label.")] = None,
    out_format: Annotated[str | None, typer.Option(help="Format of the result, where its name does not say.")] = None,
    show_python: ShowPython = False,
) -> None:
    """Turn an annotation export into one long table of votes."""
    options = votes.options() | {"weight": weight, "one_vs_rest": one_vs_rest}
    if show_python:
        shared.show_python(
            "from credalset.annotations.readers import open_votes",
            "from credalset.tables.files import table_writer",
            f"votes = {shared.call('open_votes', open_votes, repr(export), **options)}",
            *shared.writing(out, out_format, "votes.schema", "votes.record_batches()"),
        )
        return
    shared.check_table(out, out_format)
    found = open_votes(export, **options)
    wrote = shared.write_table(out, out_format, found.schema, found.record_batches(), "Reading")
    shared.stderr().print(f"{found.describe()}\nWrote {wrote.replace('rows', 'votes', 1)}")
