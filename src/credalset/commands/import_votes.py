"""``credalset import``: the export of any annotation tool to one long table of votes."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.annotations.readers import READERS, open_votes
from credalset.commands import shared
from credalset.commands.shared import ShowPython
from credalset.tables.files import kind_of, table_writer

KINDS = ", ".join(READERS)


@shared.guarded
def import_votes(
    export: Annotated[str, typer.Argument(help="Export of an annotation tool: file, folder, pattern, archive or -.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Long table to write: task, worker, label[, time].")],
    kind: Annotated[str | None, typer.Option(help=f"What the export is, if it is not recognised: {KINDS}.")] = None,
    task: Annotated[str | None, typer.Option(help="Column or field that names the items.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column or field that names the annotators.")] = None,
    label: Annotated[str | None, typer.Option(help="Column or question that holds the labels.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column that says how much each vote counts.")] = None,
    one_vs_rest: Annotated[str | None, typer.Option(help="Turn votes into votes for or against this label.")] = None,
    out_format: Annotated[str | None, typer.Option(help="Format of the result, where its name does not say.")] = None,
    show_python: ShowPython = False,
) -> None:
    """Turn an annotation export into one long table of votes."""
    if show_python:
        shared.show_python(f"votes = cs.Annotations.read({export!r})")
        return
    kind_of(out, out_format)
    shared.check_output(out)
    votes = open_votes(export, kind, task=task, worker=worker, label=label, weight=weight, one_vs_rest=one_vs_rest)
    n_votes = 0
    with table_writer(out, votes.schema, out_format) as write:
        for batch in shared.progress(votes.record_batches(), None, "Reading"):
            write(batch)
            n_votes += batch.num_rows
    shared.stderr().print(f"{votes.describe()}\nWrote {n_votes} votes to {'standard output' if out == '-' else out}")
