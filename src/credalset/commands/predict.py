"""``credalset predict``: credal sets for a table of predictions, of any length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from credalset.commands import shared
from credalset.commands.shared import Alpha, Columns, Format, Id, Logits, ShowPython
from credalset.distributed import connect, local_cluster, score_parquet
from credalset.tables.files import kind_of, read_table, table_writer
from credalset.tables.scorer import DEFAULT_ASK, Scorer


@shared.guarded
def predict(
    calibration: Annotated[str, typer.Argument(help="Folder of a calibration or a calibrated model.")],
    new: Annotated[str, typer.Argument(help="Predictions (features for a model): file, folder, pattern or -.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Table for the sets: a file, a folder of Parquet, or -.")],
    alpha: Alpha = 0.1,
    ask: Annotated[str, typer.Option(help="prediction, lower, upper, entropy, labels, width, volume.")] = ",".join(
        DEFAULT_ASK
    ),
    groups: Annotated[str | None, typer.Option(help="Column with a group for each item.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column with a weight for each item.")] = None,
    id: Id = "task",
    keep: Annotated[str | None, typer.Option(help="Columns to copy into the result, separated by commas.")] = None,
    columns: Columns = None,
    logits: Logits = False,
    format: Format = None,
    out_format: Annotated[str | None, typer.Option(help="Format of the result, where its name does not say.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; Parquet to a folder only.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler; needs the same.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted job in the same folder.")] = False,
    show_python: ShowPython = False,
) -> None:
    """Predict one credal set per row and write what is asked of it."""
    names, kept = shared.split_names(columns), shared.split_names(keep) or ()
    if show_python:
        made = shared.call(
            *("cs.Scorer", calibration),
            alpha=alpha,
            ask=ask.split(","),
            id=id or None,
            columns=names,
            logits=logits,
            groups=groups,
            weights=weights,
            keep=tuple(kept),
        )
        if _is_folder(out):
            shared.show_python(f"scorer = {made}", f"cs.distributed.score_parquet({new!r}, {out!r}, scorer)")
            return
        text = [name for name in (id, groups) if name]
        shared.show_python(
            "from credalset.tables.files import read_table, table_writer",
            f"table = {shared.call('read_table', new, format, text=text)}",
            f"scorer = {made}.for_input(table.schema)",
            f"with table_writer({out!r}, scorer.schema{'' if out_format is None else f', {out_format!r}'}) as write:",
            "    for batch in scorer.map_batches(table.batches):",
            "        write(batch)",
        )
        return
    if not Path(calibration).is_dir():
        raise ValueError(f"{calibration} is no folder. Give the folder that calibrate or fit wrote.")
    scorer = Scorer(calibration, alpha, ask.split(","), id or None, names, logits, groups, weights, kept)
    if _is_folder(out):
        with _client(workers, scheduler) as client:
            summary = score_parquet(
                new, out, scorer, client=client, resume=resume, report=lambda p, n: shared.progress(p, n, "Scoring")
            )
        shared.stderr().print(f"Wrote {summary} to {out}")
        return
    if workers or scheduler or resume:
        raise ValueError("--workers, --scheduler and --resume need Parquet input and a folder to write to (-o sets/).")
    shared.check_output(out)
    n_rows = _stream(scorer, new, format, out, out_format)
    shared.stderr().print(f"Wrote {n_rows} rows to {'standard output' if out == '-' else out}")


def _stream(scorer: Scorer, new: str, format: str | None, out: str, out_format: str | None) -> int:
    kind_of(out, out_format)
    table = read_table(new, format, text=[name for name in (scorer.id, scorer.groups) if name])
    scorer = scorer.for_input(table.schema)
    n_rows = 0
    with table_writer(out, scorer.schema, out_format) as write:
        for batch in shared.progress(scorer.map_batches(table.batches), None, "Scoring"):
            write(batch)
            n_rows += batch.num_rows
    return n_rows


def _is_folder(out: str) -> bool:
    return out.endswith("/") or Path(out).is_dir()


@contextmanager
def _client(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    if scheduler is not None:
        with connect(scheduler) as client:
            yield client
    elif workers is not None:
        with local_cluster(workers) as client:
            yield client
    else:
        yield None
