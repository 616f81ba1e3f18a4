"""``credalset import``: the export of any annotation tool to one long table of votes."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.annotations.readers import open_votes
from credalset.commands import shared
from credalset.commands.inputs import VoteOptions
from credalset.commands.shared import ShowPython
from credalset.tables.files import kind_of, table_writer


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
    kind_of(out, out_format, "out_format")
    shared.check_output(out)
    found = open_votes(export, **options)
    n_votes = 0
    with table_writer(out, found.schema, out_format) as write:
        for batch in shared.progress(found.record_batches(), None, "Reading"):
            write(batch)
            n_votes += batch.num_rows
    shared.stderr().print(f"{found.describe()}\nWrote {n_votes} votes to {'standard output' if out == '-' else out}")
