"""Score folders of Parquet part by part, on one machine or many: what is finished is never done again.

The unit of work is a row group. Each becomes one file, written beside its name and renamed, so that a task which runs
twice, or dies half-way, changes nothing. ``_plan.json`` says first what will be done, ``_manifest.json`` last what was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from credalset._files import UNFINISHED, write_file
from credalset.annotations.readers.files import find_paths
from credalset.exceptions import need
from credalset.tables.files import BATCH_ROWS, open_parquet, readable, table_writer
from credalset.tables.scorer import Scorer

if TYPE_CHECKING:
    import pyarrow as pa

PLAN, MANIFEST, CALIBRATION = "_plan.json", "_manifest.json", "_calibration"
TASKS_AT_ONCE = 4096  # that a scheduler is handed before the first are done
RETRIES = 3


class Part(NamedTuple):
    """One row group and the file its sets go to."""

    number: int
    source: str
    row_group: int
    rows: int
    target: str


@dataclass(frozen=True)
class Summary:
    """What a run did: parts and rows in all, and how many of the parts were there already."""

    n_parts: int
    n_rows: int
    n_kept: int

    def __str__(self) -> str:
        kept = f", {self.n_kept} of them from an earlier run" if self.n_kept else ""
        return f"{self.n_rows} rows in {self.n_parts} part{'' if self.n_parts == 1 else 's'}{kept}"


def score_parquet(
    source: str | Path,
    target: str | Path,
    scorer: Scorer,
    *,
    client: Any = None,
    resume: bool = False,
    report: Callable[[Iterable[Part], int], Iterable[Part]] | None = None,
) -> Summary:
    """Score a Parquet file, folder or pattern into a folder of Parquet parts, one per row group.

    Parameters
    ----------
    source : str or Path
        Parquet file, folder or pattern. With a client it must be readable under this name by every worker.
    target : str or Path
        Folder for the parts; created if it is not there. Workers write to it, too.
    scorer : Scorer
        What to ask. A calibration that is not on disk is saved in the target, for the workers to load.
    client : dask.distributed.Client, optional
        Where to run; in this process, one part after the other, by default.
    resume : bool
        Keep the parts that an interrupted run of the same job has finished. Without it, a target that holds anything is
        refused.
    report : callable, optional
        Wraps the parts as they are finished, with their number: a progress bar.

    Returns
    -------
    Summary

    Notes
    -----
    The parts are byte for byte the same whoever computes them. Every row of the source is in them exactly once, in
    order: part by part, row by row.
    """
    need("pyarrow", "Scoring Parquet files")
    from pyarrow import parquet

    folder = Path(target)
    parts = list_parts(str(source), folder)
    scorer = scorer.for_input(parquet.ParquetFile(parts[0].source).schema_arrow)
    plan = _plan(parts, scorer)
    _start(folder, plan, resume)
    scorer = _on_disk(scorer, folder)
    missing = [part for part in parts if not Path(part.target).exists()]
    finished = _run_here(missing, scorer) if client is None else _run_on(client, missing, scorer)
    for _ in report(finished, len(missing)) if report is not None else finished:
        pass
    _sweep(folder)
    rows = sum(part.rows for part in parts)
    _write_json(folder / MANIFEST, {**plan, "rows": rows, "complete": True})
    return Summary(len(parts), rows, len(parts) - len(missing))


def list_parts(source: str, folder: Path) -> list[Part]:
    """Return one part per row group of the source files, in order."""
    from pyarrow import parquet

    groups: list[tuple[str, int, int]] = []
    for file in map(str, find_paths(source)):
        with readable(file, "Parquet"):
            metadata = parquet.ParquetFile(file).metadata
        groups += [(file, i, metadata.row_group(i).num_rows) for i in range(metadata.num_row_groups)]
    if not groups:
        raise ValueError(f"{source} holds no rows.")
    return [Part(n, *group, str(folder / f"part-{n:06d}.parquet")) for n, group in enumerate(groups)]


def score_part(part: Part, scorer: Scorer) -> Part:
    """Score one row group into its file; nothing is done if the file is there."""
    if not Path(part.target).exists():
        with table_writer(part.target, scorer.schema) as write:
            for batch in scorer.map_batches(_batches(part)):
                write(batch)
    return part


def _batches(part: Part) -> Iterator[pa.RecordBatch]:
    yield from open_parquet(part.source).iter_batches(batch_size=BATCH_ROWS, row_groups=[part.row_group])


def _run_here(parts: Iterable[Part], scorer: Scorer) -> Iterator[Part]:
    return (score_part(part, scorer) for part in parts)


def _run_on(client: Any, parts: list[Part], scorer: Scorer) -> Iterator[Part]:
    """Run parts on a Dask cluster; a part whose worker dies runs again on another."""
    from dask import distributed

    waiting = iter(parts)
    running: Any = distributed.as_completed([])  # type: ignore[no-untyped-call]
    for part in waiting:
        running.add(client.submit(score_part, part, scorer, pure=False, retries=RETRIES))
        if running.count() >= TASKS_AT_ONCE:
            yield next(running).result()
    for future in running:
        yield future.result()


def _plan(parts: list[Part], scorer: Scorer) -> dict[str, Any]:
    """Describe the job: equal for equal jobs, whenever and wherever they run."""
    asked = {each.name: getattr(scorer, each.name) for each in fields(scorer) if each.name not in ("loaded", "carried")}
    questions = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}
    questions["calibration"] = repr(scorer.calibration)
    questions["scores"] = hashlib.sha256(scorer.calibration.scores.tobytes()).hexdigest()
    listed = [[Path(p.source).name, Path(p.source).stat().st_size, *p[2:4], Path(p.target).name] for p in parts]
    plan = {"scorer": questions, "parts": listed}
    return {"job": hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest(), **plan}


def _start(folder: Path, plan: dict[str, Any], resume: bool) -> None:
    """Make the folder ready, or refuse one that holds something else."""
    folder.mkdir(parents=True, exist_ok=True)
    held = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    if held and not resume:
        raise FileExistsError(
            f"{folder} is not empty (it holds {held[0]!r}). Choose another folder, or resume the job it belongs to."
        )
    if held:
        try:
            earlier = json.loads((folder / PLAN).read_text(encoding="utf-8"))["job"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(f"{folder} holds no job to resume: its {PLAN} is missing or damaged.") from None
        if earlier != plan["job"]:
            raise ValueError(
                f"{folder} holds the parts of another job: other files, another calibration or other questions. "
                "Choose another folder."
            )
    _sweep(folder)
    _write_json(folder / PLAN, plan)


def _sweep(folder: Path) -> None:
    """Remove what workers that died left half-written."""
    for file in folder.glob(f".*{UNFINISHED}"):
        file.unlink(missing_ok=True)


def _on_disk(scorer: Scorer, folder: Path) -> Scorer:
    """Return a scorer that travels as a path."""
    if isinstance(scorer.loaded, Path):
        return replace(scorer, loaded=scorer.loaded.resolve())
    saved = folder / CALIBRATION
    if not saved.exists():
        scorer.loaded.save(saved)
    return replace(scorer, loaded=saved.resolve())


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_file(path, (json.dumps(value, indent=1) + "\n").encode())
