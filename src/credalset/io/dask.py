"""Score folders of Parquet part by part, on one machine or many; finished parts are kept.

The unit of work is a row group. Each becomes one file, written beside its name and renamed, so that
a task which runs twice, or dies half-way, changes nothing. ``_plan.json`` says first what will be
done; ``_parts/`` holds a record of every finished part with checksums of what it was made from and
of itself; ``_manifest.json`` says last that all of them are there.

One job writes to a folder at a time: it holds a lock that ends with its process. Parts and records
are named by their job, so that a worker which outlives its job cannot write into another one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import json
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

from credalset._display import join_names, plural
from credalset._files import sweep_folder, taken, write_file
from credalset._validation import as_positive_int
from credalset.exceptions import ClusterError, CredalSetWarning, FileFormatError, need
from credalset.io.files import find_files, readable
from credalset.io.folders import read_manifest
from credalset.io.scorer import Remarks, Scorer
from credalset.io.store import write
from credalset.io.tables import BATCH_ROWS, READ_BUFFER, table_writer
from credalset.io.threads import in_order

__all__ = ["Summary", "connect", "local_cluster", "score_parquet"]


def __dir__() -> list[str]:
    return list(__all__)


PLAN, MANIFEST, MODEL, RECORDS = "_plan.json", "_manifest.json", "_calibration", "_parts"
TASKS_AT_ONCE = 4096  # that a scheduler is handed before the first are done
RETRIES = 3
JOB_DIGITS = 12  # of a job's checksum, in the names of its parts
PATIENCE = 60.0  # seconds that a scheduler may take to answer and to have a worker
POLL = 0.02  # seconds between two looks for finished parts
ASK_EVERY = 5.0  # seconds without a finished part after which workers are counted
#: the process that removes the semaphores of a program that ends at once would report them
LEFT_BEHIND = "ignore:resource_tracker:UserWarning"
#: Dask has its workers give memory back after every array, which costs them a quarter of their
#: time; glibc reads these
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 28, "MALLOC_MMAP_THRESHOLD_": 1 << 26}


class RowGroup(NamedTuple):
    """A row group of a Parquet file."""

    file: str
    number: int
    n_rows: int


class Part(NamedTuple):
    """One row group, the file its sets go to, and the job that both belong to."""

    number: int
    source: str
    row_group: int
    n_rows: int
    target: Path
    job: str

    @property
    def record(self) -> Path:
        """Where it is recorded that the part is finished."""
        return self.target.parent / RECORDS / f"{self.target.stem}.json"


#: passes finished parts on, of those that are to be computed
Report = Callable[[Iterable[Part], Sequence[Part]], Iterable[Part]]


@dataclass(frozen=True)
class Summary:
    """Summary of a run of `score_parquet`.

    Attributes
    ----------
    n_parts : int
        Number of parts in the target folder, including those of earlier runs.
    n_rows : int
        Number of rows in these parts.
    n_kept : int
        Number of parts that an earlier run had finished.
    n_dropped : int
        Number of rows that were left out because a value is missing.
    """

    n_parts: int
    n_rows: int
    n_kept: int
    n_dropped: int = 0

    def __str__(self) -> str:
        kept = f", {self.n_kept} of them from an earlier run" if self.n_kept else ""
        return f"{self.n_rows} rows in {plural(self.n_parts, 'part')}{kept}"


def score_parquet(
    source: str | Path,
    target: str | Path,
    scorer: Scorer,
    *,
    client: Any = None,
    resume: bool = False,
    n_jobs: int = 1,
    _report: Report | None = None,
) -> Summary:
    """Score a Parquet file, folder or pattern into a folder of Parquet parts, one per row group.

    Parameters
    ----------
    source : str or Path
        Parquet file, folder or pattern. With a client, every worker must be able to read it under
        this name.
    target : str or Path
        Folder for the parts, which is created if it does not exist. With a client, every worker
        must be able to write to it.
    scorer : Scorer
        The scorer that predicts the sets. If its model is not on disk, the model is saved in the
        target folder, from which the workers load it.
    client : dask.distributed.Client, optional
        Client of a Dask cluster. By default the parts are scored in this process.
    resume : bool
        Whether to keep the parts that an interrupted run of the same job has finished. Two runs are
        the same job if their input files have the same names and their models and the options of
        their scorers are the same. A part is kept if checksums show that neither its file nor its
        input rows have changed. If False, the target folder must be empty.
    n_jobs : int
        Number of threads without a client, each of which scores other parts. With a client, the
        workers of the cluster are used instead.

    Returns
    -------
    Summary
        Numbers of parts and rows.

    Raises
    ------
    BlockingIOError
        If another process writes to the target folder.
    ClusterError
        If the cluster fails: the connection to the scheduler is lost, workers die repeatedly on the
        same part, or no worker is available.

    Notes
    -----
    The parts do not depend on where they are computed, byte for byte. Every row of the source
    without missing values is in them exactly once, and in the order of the source.
    """
    need("pyarrow", "Scoring Parquet files")
    from pyarrow import parquet

    n_threads = as_positive_int(n_jobs, "n_jobs")
    folder = Path(target).resolve()
    groups = list_row_groups(str(source))
    scorer = scorer.for_input(parquet.ParquetFile(groups[0].file).schema_arrow)
    folder.mkdir(parents=True, exist_ok=True)
    with taken(folder):
        scorer, job = _start(folder, groups, scorer, resume)
        parts = list_parts(groups, folder, job)
        missing = [part for part in parts if not _is_finished(part)]
        with warnings.catch_warnings(action="ignore", category=CredalSetWarning):  # of every part
            if client is None:
                finished = in_order(lambda part: score_part(part, scorer), missing, n_threads)
            else:
                finished = _run_on(client, missing, scorer)
            for _ in _report(finished, missing) if _report is not None else finished:
                pass
        return _finish(folder, parts, len(parts) - len(missing))


def list_row_groups(source: str) -> list[RowGroup]:
    """Return the row groups of the source files, in order."""
    from pyarrow import parquet

    groups: list[RowGroup] = []
    for file in find_files(source):
        if file.member is not None or not file.path.lower().endswith((".parquet", ".pq")):
            raise ValueError(
                f"{file.name} is not a Parquet file, so it cannot be scored into a folder of "
                "Parquet."
            )
        with readable(file.name):
            metadata = parquet.ParquetFile(file.path).metadata
        path = str(Path(file.path).resolve())
        numbers = range(metadata.num_row_groups)
        groups += [RowGroup(path, i, metadata.row_group(i).num_rows) for i in numbers]
    if not groups:
        raise ValueError(f"{source} holds no rows.")
    return groups


def list_parts(groups: Sequence[RowGroup], folder: Path, job: str) -> list[Part]:
    """Return the part of each row group."""
    return [
        Part(n, *group, folder / f"part-{n:06d}-{job[:JOB_DIGITS]}.parquet", job)
        for n, group in enumerate(groups)
    ]


# --- parts ---


def score_part(part: Part, scorer: Scorer) -> Part:
    """Score one row group into its file, and record that this is done."""
    from pyarrow import parquet

    n_rows = 0
    remarks = Remarks()
    # The checksum is of what is read now, not of what may be there afterwards.
    record: dict[str, Any] = {"job": part.job, "source": _digest_of_row_group(part)}
    reader = parquet.ParquetFile(part.source, pre_buffer=False, buffer_size=READ_BUFFER)
    with readable(part.source), table_writer(part.target, scorer.schema) as write:
        for batch in reader.iter_batches(batch_size=BATCH_ROWS, row_groups=[part.row_group]):
            result, more = scorer._score(batch)
            remarks += more
            n_rows += result.num_rows
            write(result)
    record |= {"sha256": _digest_of_file(part.target), "bytes": part.target.stat().st_size}
    record |= {"rows": n_rows, "remarks": remarks.to_list()}
    _write_json(part.record, record)
    return part


def _is_finished(part: Part) -> bool:
    """Tell whether an earlier run of the job finished a part, and nothing happened to it since.

    The part must come from the same rows.
    """
    try:
        record = _read_record(part)
        is_whole = _digest_of_file(part.target) == record["sha256"]
        return is_whole and record["source"] == _digest_of_row_group(part)
    except (OSError, ValueError, KeyError):
        return False


def _read_record(part: Part) -> dict[str, Any]:
    """Return the record of a part of this job, whose file must be there in the recorded size."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record: dict[str, Any] = _read_json(part.record)
        if record["job"] == part.job and part.target.stat().st_size == record["bytes"]:
            return record
    raise FileFormatError(
        f"{part.target} was written and is gone or changed. Run again with resume."
    )


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest_of_row_group(part: Part) -> str:
    """Return a checksum of the names and types of columns and of the bytes of a row group."""
    from pyarrow import parquet

    file = parquet.ParquetFile(part.source)
    group = file.metadata.row_group(part.row_group)
    # The first line has an address in memory.
    digest = hashlib.sha256(str(file.schema).partition("\n")[2].encode())
    digest.update(file.schema_arrow.remove_metadata().serialize())  # time zones
    with open(part.source, "rb") as stream:
        for chunk in (group.column(i) for i in range(group.num_columns)):
            stream.seek(
                min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            )
            left = chunk.total_compressed_size
            while left > 0 and (data := stream.read(min(left, READ_BUFFER))):
                digest.update(data)
                left -= len(data)
    return digest.hexdigest()


# --- jobs ---


def _start(
    folder: Path, groups: Sequence[RowGroup], scorer: Scorer, resume: bool
) -> tuple[Scorer, str]:
    """Write the plan, or compare it with that of the run to go on with.

    Return a scorer that travels as a path, and the job, which is the same for equal questions to
    equal models, whenever and wherever it runs.
    """
    held = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    if held and not resume:
        raise FileExistsError(
            f"{folder} is not empty (it holds {held[0]!r}). Choose another folder, or "
            "resume the job it belongs to."
        )
    earlier = None
    with suppress(OSError, ValueError, KeyError, TypeError):
        earlier = _read_json(folder / PLAN)["job"]
    if held and earlier is None:
        raise ValueError(
            f"{folder} holds no job to resume: its {PLAN} is missing or damaged. Choose "
            "another folder."
        )
    asked = {
        each.name: getattr(scorer, each.name) for each in fields(scorer) if each.name != "_carried"
    }
    with tempfile.TemporaryDirectory() as scratch:  # another job's model stays in the folder
        model = scorer.model.resolve() if isinstance(scorer.model, Path) else Path(scratch, MODEL)
        if not isinstance(scorer.model, Path):
            write(scorer.model, model)
        asked["model"] = read_manifest(model)["sha256"]
    plan = {
        "scorer": asked,
        "sources": [[Path(group.file).name, group.number] for group in groups],
    }
    job = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    if earlier not in (None, job):
        raise ValueError(
            f"{folder} holds the parts of another job: other inputs, another model or other "
            "questions. Choose another folder."
        )
    trusted = tuple(scorer.trusted)
    if not isinstance(scorer.model, Path):
        # The caller has the model in memory: its own types are trusted where it is loaded again.
        model = folder / MODEL
        trusted += write(scorer.model, model)
    (folder / MANIFEST).unlink(missing_ok=True)
    _sweep(folder)
    _write_json(folder / PLAN, {"job": job, **plan})
    return replace(scorer, model=model, trusted=trusted), job


def _finish(folder: Path, parts: Sequence[Part], n_kept: int) -> Summary:
    """Check that the folder holds the parts of this job, all of them and no others, and say so."""
    records = [_read_record(part) for part in parts]
    strange = {file.name for file in folder.glob("part-*")} - {part.target.name for part in parts}
    if strange:
        raise FileFormatError(
            f"{folder} holds {join_names(sorted(strange))} of another job. Choose an empty folder."
        )
    n_rows = sum(record["rows"] for record in records)
    remarks = sum((Remarks.from_list(record["remarks"]) for record in records), start=Remarks())
    remarks.warn()
    n_dropped = remarks.n_dropped
    done = {"job": parts[0].job, "parts": len(parts), "rows": n_rows, "dropped": n_dropped}
    _write_json(folder / MANIFEST, done | {"complete": True})
    _sweep(folder)
    return Summary(len(parts), n_rows, n_kept, n_dropped)


def _sweep(folder: Path) -> None:
    """Remove what workers that died left half-written."""
    for each in (folder, folder / RECORDS):
        sweep_folder(each)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_file(path, (json.dumps(value, indent=1) + "\n").encode())


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# --- where parts are computed ---


def _score_remotely(part: Part, scorer: Scorer) -> Part:
    """Score a part on a worker, which would print warnings where nobody reads them."""
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        return score_part(part, scorer)


def _run_on(client: Any, parts: list[Part], scorer: Scorer) -> Iterator[Part]:
    """Run parts on a Dask cluster; a part whose worker dies runs again on another."""
    from dask import distributed

    with _explained():
        client.wait_for_workers(1, timeout=PATIENCE)
        running: Any = distributed.as_completed([], with_results=True)  # type: ignore[no-untyped-call]
        for part in parts:
            running.add(client.submit(_score_remotely, part, scorer, pure=False, retries=RETRIES))
            if running.count() >= TASKS_AT_ONCE:
                yield _next_finished(client, running)
        while running.count():
            yield _next_finished(client, running)


def _next_finished(client: Any, running: Any) -> Part:
    """Wait for a part and return it, as long as there are workers or some come in time.

    Dask waits forever if the last worker dies. It does not start a worker again that dies while it
    starts, as when memory is short.
    """
    asked = time.monotonic()
    while not running.has_ready():
        time.sleep(POLL)
        if time.monotonic() - asked > ASK_EVERY:
            client.wait_for_workers(1, timeout=PATIENCE)
            asked = time.monotonic()
    _, part = next(running)
    if isinstance(part, BaseException):  # the scheduler has forgotten it
        raise part
    finished: Part = part
    return finished


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the errors of Dask when a cluster fails into `ClusterError`."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    advice = "What is finished stays; go on with resume=True."
    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"workers died repeatedly on one part ({error.task}), most likely out of memory. Give "
            f"them more, or write smaller row groups. {advice}"
        ) from None
    except TimeoutError as error:
        raise ClusterError(
            f"no worker came within {PATIENCE:.0f} seconds: {error}. {advice}"
        ) from None
    except (
        CommClosedError,
        asyncio.CancelledError,
        concurrent.futures.CancelledError,
        ConnectionError,
    ) as error:
        raise ClusterError(
            f"the connection to the scheduler was lost ({_one_line(error)}). {advice}"
        ) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Any]:
    """Context manager that starts one-threaded Dask workers on this machine and returns a client.

    The workers listen on the loopback interface only, use TLS credentials that are created for this
    run, and have no dashboard, so that other users of the machine cannot connect.

    Parameters
    ----------
    n_workers : int
        Number of worker processes.

    Yields
    ------
    dask.distributed.Client
        Client for `score_parquet`.
    """
    distributed = need("distributed", "Scoring with several workers", extra="dask")
    import dask

    try:
        security = distributed.Security.temporary()
    except ImportError:
        need("cryptography", "Scoring with several workers", extra="dask")
        raise
    options: dict[str, Any] = {"threads_per_worker": 1, "host": "127.0.0.1"}
    options |= {
        "loop": _loop_without_interrupts(),
        "scheduler_kwargs": {"dashboard": False},
        "n_workers": n_workers,
    }
    options |= {"silence_logs": "CRITICAL"}  # what matters comes as an exception
    options |= {
        "dashboard_address": "127.0.0.1:0",
        "worker_dashboard_address": None,
        "security": security,
    }
    # Without the pages of a dashboard.
    settings: dict[str, Any] = {
        f"distributed.{each}.http.routes": [] for each in ("scheduler", "worker")
    }
    with (
        ExitStack() as stack,
        dask.config.set({"distributed.nanny.pre-spawn-environ": MALLOC, **settings}),
    ):
        try:
            cluster = stack.enter_context(distributed.LocalCluster(**options))
            client = stack.enter_context(distributed.Client(cluster, security=security))
        except (RuntimeError, OSError) as error:
            raise ClusterError(f"the workers do not start: {_one_line(error)}.") from None
        yield client


def _loop_without_interrupts() -> Any:
    """Start an event loop in a thread that ignores Ctrl-C; processes that it starts ignore it, too.

    Ctrl-C in a terminal goes to every process. This one ends the others; on their own they would
    print tracebacks.
    """
    from distributed.utils import LoopRunner

    runner = LoopRunner()
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return None
    sys.warnoptions.append(LEFT_BEHIND)
    resource_tracker.ensure_running()  # it would unblock Ctrl-C in the thread that starts it
    sys.warnoptions.remove(LEFT_BEHIND)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()  # type: ignore[no-untyped-call]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return runner.loop


@contextmanager
def connect(
    address: str, *, ca: str | None = None, cert: str | None = None, key: str | None = None
) -> Iterator[Any]:
    """Context manager that connects to a Dask scheduler and returns a client.

    The owner of a scheduler can run code in this process and on the workers. Connect only to your
    own scheduler.

    Parameters
    ----------
    address : str
        Address of the scheduler, such as ``"tls://host:8786"``.
    ca : str, optional
        File with the certificate of the TLS certificate authority.
    cert : str, optional
        File with the TLS certificate of the client.
    key : str, optional
        File with the private key of the certificate.

    Yields
    ------
    dask.distributed.Client
        Client for `score_parquet`.
    """
    distributed = need("distributed", "Scoring with several workers", extra="dask")
    files = {"tls_ca_file": ca, "tls_client_cert": cert, "tls_client_key": key}
    security = distributed.Security(
        **files | {"require_encryption": True} if any(files.values()) else {}
    )

    async def greet() -> None:  # first, as a client waits forever for what accepts and stays silent
        arguments = security.get_connection_args("client")
        comm = distributed.comm.connect(address, timeout=PATIENCE / 6, **arguments)
        (await asyncio.wait_for(comm, PATIENCE)).abort()

    try:
        # Also inside a running loop, as in notebooks.
        distributed.utils.LoopRunner().run_sync(greet)
        client = distributed.Client(address, timeout=PATIENCE / 6, security=security)
    except Exception as error:  # anything may stand at the address
        advice = "Check the address and, for tls://, the files of its credentials."
        raise ClusterError(
            f"no Dask scheduler answers at {address}: {_one_line(error)}. {advice}"
        ) from None
    with client:
        yield client
