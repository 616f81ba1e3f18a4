"""``credalset predict``: credal sets for a table of predictions, of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from credalset._display import plural, progress
from credalset.calibration.base import as_level
from credalset.cli import shared
from credalset.io.dask import Part, connect, local_cluster, score_parquet
from credalset.io.items import find_id, with_votes
from credalset.io.scorer import DEFAULT_ASK, Scorer
from credalset.io.tables import count_rows, read_table, table_writer
from credalset.io.threads import n_cores, tuned_for_threads
from credalset.sets.columns import QUESTIONS
from credalset.votes import Annotations
from credalset.votes.files import read_vote_table

VOTES = "votes"  # column with the counts of the votes in hand


def predict(
    calibration: shared.Model,
    new: Annotated[
        str, Argument(help="Predictions, features or texts: file, folder, pattern, or -.")
    ],
    out: Annotated[
        str, Option("--out", "-o", help="Table to write, a folder/ of Parquet files, or -.")
    ],
    alpha: shared.Alpha = 0.1,
    votes_in_hand: shared.InHand = None,
    ask: Annotated[str, Option(help=f"Columns to write: {', '.join(QUESTIONS)}.")] = ",".join(
        DEFAULT_ASK
    ),
    keep: Annotated[
        str | None, Option(help="Columns to copy to the result, separated by commas.")
    ] = None,
    groups: shared.Groups = None,
    weights: shared.Weights = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    trusted: shared.Trusted = None,
    strict: shared.Strict = False,
    workers: Annotated[
        int | None, Option(min=1, help="Number of worker processes, for a folder.")
    ] = None,
    scheduler: Annotated[
        str | None, Option(help="Address of a Dask scheduler, for a folder.")
    ] = None,
    jobs: Annotated[
        int | None, Option(min=1, help="Number of threads in this process; by default, all cores.")
    ] = None,
    tls: Annotated[str | None, Option(help="TLS files of the scheduler: ca,cert,key.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue an interrupted job, for a folder.")
    ] = False,
    overwrite: shared.Overwrite = False,
) -> None:
    """Predict one credal set per row of a table."""
    as_level(alpha)  # warns of a coverage in place of a miscoverage rate
    if jobs is not None and (workers or scheduler):
        raise ValueError("--jobs is for one process: leave it out with --workers and --scheduler.")
    n_threads = n_cores() if jobs is None else jobs
    model = shared.load_model(calibration, trusted)
    if votes_in_hand is not None:
        shared.check_in_hand(model, calibration)
    elif shared.uses_votes(model):
        shared.note(shared.NO_VOTES)
    is_folder = out != "-" and (out.endswith("/") or Path(out).is_dir())
    schema = None if new == "-" else read_table(new).schema
    if id is None:
        id = "task" if schema is None else find_id(schema.names)
    scorer = Scorer(
        calibration if is_folder else model,
        alpha=alpha,
        ask=shared.split(ask),
        id=id,
        keep=shared.split(keep),
        columns=shared.split(columns) or None,
        groups=groups,
        weights=weights,
        logits=logits,
        trusted=shared.split(trusted),
        votes=None if votes_in_hand is None else VOTES,
        strict=strict,
    )
    if not is_folder:
        if workers or scheduler or resume:
            raise ValueError(
                f"--workers, --scheduler and --resume write a folder, but --out is {out}. Write "
                "-o sets/"
            )
        shared.check_output(out, overwrite)
        votes = None if votes_in_hand is None else read_vote_table(votes_in_hand)
        with tuned_for_threads():
            n_rows = _score_file(scorer, new, out, votes, n_threads)
        where = "standard output" if out == "-" else out
        shared.say(f"Wrote {plural(n_rows, 'row')} to {where}")
        return
    if votes_in_hand is not None:
        raise ValueError(
            f"--votes-in-hand writes one table, but --out is the folder {out}. Name a file."
        )
    with _client(workers, scheduler, shared.split(tls)) as client, tuned_for_threads():
        summary = score_parquet(
            new, out, scorer, client=client, resume=resume, n_jobs=n_threads, _report=_report_parts
        )
    shared.say(f"Wrote {summary} to {out}")


def _score_file(
    scorer: Scorer, new: str, out: str, votes: Annotations | None, n_threads: int
) -> int:
    """Score a table batch by batch and return the number of rows written."""
    table = read_table(new)
    if votes is not None:
        table = with_votes(table, votes, scorer.id or "task", scorer.calibration.classes, VOTES)
    scorer = scorer.for_input(table.schema)
    n_rows = 0
    with (
        table_writer(out, scorer.schema) as write,
        progress("Scoring", lambda: count_rows(new), unit="rows") as advance,
    ):
        for batch in scorer.map_batches(table.batches, n_threads):
            write(batch)
            n_rows += batch.num_rows
            advance(batch.num_rows, "")
    return n_rows


def _report_parts(finished: Iterable[Part], missing: Sequence[Part]) -> Iterator[Part]:
    with progress("Scoring", sum(part.n_rows for part in missing), unit="rows") as advance:
        for part in finished:
            yield part
            advance(part.n_rows, "")


def _client(
    workers: int | None, scheduler: str | None, tls: list[str]
) -> AbstractContextManager[Any]:
    if scheduler is not None:
        if len(tls) not in (0, 3):
            raise ValueError("--tls must name three files: ca,cert,key.")
        return connect(scheduler, **dict(zip(("ca", "cert", "key"), tls, strict=False)))
    return nullcontext() if workers is None else local_cluster(workers)
