"""``credalset predict``: credal sets for a table of predictions, of any length."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from credalset.commands import shared
from credalset.commands.inputs import Model, Predictions, note_id
from credalset.commands.shared import Alpha, ShowPython
from credalset.distributed import connect, local_cluster, score_parquet
from credalset.io.scorer import DEFAULT_ASK, Scorer
from credalset.io.tables import read_table
from credalset.sets.columns import QUESTIONS


@shared.guarded
def predict(
    calibration: Model,
    new: Annotated[str, typer.Argument(help="Predictions (features for a model): file, folder, pattern or -.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Table for the sets: a file, a folder of Parquet, or -.")],
    table: Predictions,
    alpha: Alpha = 0.1,
    ask: Annotated[str, typer.Option(help=f"{', '.join(QUESTIONS)}.")] = ",".join(DEFAULT_ASK),
    keep: Annotated[str | None, typer.Option(help="Columns to copy into the result, separated by commas.")] = None,
    out_format: Annotated[str | None, typer.Option(help="Format of the result, where its name does not say.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of a text file that is not UTF-8: cp1252.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; Parquet to a folder only.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler; needs the same.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted job in the same folder.")] = False,
    show_python: ShowPython = False,
) -> None:
    """Predict one credal set per row and write what is asked of it."""
    model = calibration.load()
    id = table.id_in(new, encoding=encoding)
    options: dict[str, Any] = {
        "alpha": alpha,
        "ask": tuple(shared.split_names(ask) or ()),
        "id": id or None,
        "columns": shared.split_names(table.columns),
        "logits": table.logits,
        "groups": table.groups,
        "weights": table.weights,
        "keep": tuple(shared.split_names(keep) or ()),
    }
    if show_python:
        _show_python(calibration, new, {"format": table.format, "encoding": encoding}, out, out_format, options)
        return
    note_id(table, id)
    options["trusted"] = calibration.trusted  # workers load it themselves
    scorer = Scorer(calibration.calibration if _is_folder(out) else model, **options)
    if alpha > 0.5:
        shared.note(f"--alpha {alpha:g} asks for {1 - alpha:.0%} coverage; --alpha {1 - alpha:.2g} for {alpha:.0%}.")
    if _is_folder(out):
        with _client(workers, scheduler) as client:
            summary = score_parquet(
                new, out, scorer, client=client, resume=resume, report=lambda p, n: shared.progress(p, n, "Scoring")
            )
        shared.stderr().print(f"Wrote {summary} to {out}")
        return
    if workers or scheduler or resume:
        raise ValueError("--workers, --scheduler and --resume need Parquet input and a folder to write to (-o sets/).")
    shared.check_table(out, out_format)
    rows = read_table(new, table.format, encoding=encoding)
    scorer = scorer.for_input(rows.schema)
    wrote = shared.write_table(out, out_format, scorer.schema, scorer.map_batches(rows.batches), "Scoring")
    shared.stderr().print(f"Wrote {wrote}")


def _show_python(
    calibration: Model, new: str, said: dict[str, Any], out: str, out_format: str | None, options: dict[str, Any]
) -> None:
    loaded = [calibration.python()] if calibration.trust else []
    made = shared.call("cs.Scorer", Scorer, "model" if loaded else repr(calibration.calibration), **options)
    if _is_folder(out):
        writes = [f"scorer = {made}", f"cs.distributed.score_parquet({new!r}, {out!r}, scorer)"]
    else:
        writes = [
            "from credalset.io.tables import read_table, table_writer",
            f"scorer = {made}",
            f"table = {shared.call('read_table', read_table, repr(new), **said)}",
            "scorer = scorer.for_input(table.schema)",
            *shared.writing(out, out_format, "scorer.schema", "scorer.map_batches(table.batches)"),
        ]
    shared.show_python(*loaded, *writes)


def _is_folder(out: str) -> bool:
    return out != "-" and (out.endswith("/") or Path(out).is_dir())


def _client(workers: int | None, scheduler: str | None) -> AbstractContextManager[Any]:
    if scheduler is not None:
        return connect(scheduler)
    return nullcontext() if workers is None else local_cluster(workers)
