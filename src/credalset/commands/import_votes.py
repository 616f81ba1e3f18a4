"""``credalset import``: the export of any annotation tool to one long table of votes."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.commands import shared
from credalset.commands.inputs import VoteOptions
from credalset.exceptions import need
from credalset.votes import Annotations


@shared.guarded
def import_votes(
    export: Annotated[str, typer.Argument(help="Export of an annotation tool: file, folder, pattern, archive or -.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Long table to write: task, worker, label[, time].")],
    votes: VoteOptions,
    out_format: Annotated[str | None, typer.Option(help="Format of the result, where its name does not say.")] = None,
) -> None:
    """Turn an annotation export into one long table of votes."""
    shared.check_table(out, out_format)
    found = Annotations.read(export, **votes.options())
    batch = need("pyarrow").record_batch(found.table)
    wrote = shared.write_table(out, out_format, batch.schema, [batch], "Reading")
    shared.stderr().print("\n".join([f"{found.origin}.", *found.notes, f"Wrote {wrote.replace('rows', 'votes', 1)}"]))
