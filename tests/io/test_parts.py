"""Parts: every row once, finished work kept,
the same bytes whoever computes them and whoever is killed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

pa = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

import credalset as cs  # noqa: E402
from credalset import _files  # noqa: E402
from credalset.exceptions import ClusterError, CredalSetWarning, FileFormatError  # noqa: E402
from credalset.io import dask as own_dask  # noqa: E402
from credalset.io.dask import Part, local_cluster, score_parquet  # noqa: E402
from credalset.io.scorer import Scorer  # noqa: E402

N, ROW_GROUP = 1000, 130
DATA = cs.datasets.make_synthetic(200, n_votes=20, random_state=0)


def write_source(folder: Path, seed: int = 0, names: str = "abc") -> Path:
    predictions = np.random.default_rng(seed).dirichlet(np.ones(3), 2 * N)
    folder.mkdir(exist_ok=True)
    for part in range(2):
        rows = slice(part * N, (part + 1) * N)
        columns = {name: predictions[rows, k] for k, name in enumerate(names)}
        table = pa.table({"task": np.arange(2 * N)[rows], **columns})
        parquet.write_table(
            table, folder / f"{part}.parquet", row_group_size=ROW_GROUP, compression="none"
        )
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "calibration"
    cs.conformalize(DATA.distributions, DATA.counts, classes="abc").save(path)
    return path


@pytest.fixture(scope="module")
def scorer(model: Path) -> Scorer:
    return Scorer(model, 0.1, ask=["lower", "labels"])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture(scope="module")
def serial(
    source: Path, scorer: Scorer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    target = tmp_path_factory.mktemp("serial") / "out"
    score_parquet(source, target, scorer)
    return contents(target)


def stop_after(n: int) -> Any:
    def report(parts: Iterable[Part], _: object) -> Iterator[Part]:
        for i, part in enumerate(parts):
            yield part
            if i + 1 == n:
                raise KeyboardInterrupt

    return report


def interrupted(source: Path, target: Path, scorer: Scorer, n: int = 6) -> Path:
    with pytest.raises(KeyboardInterrupt):
        score_parquet(source, target, scorer, _report=stop_after(n))
    assert not (target / "_manifest.json").exists()
    return target


def test_every_row_once_and_in_order(source: Path, scorer: Scorer, tmp_path: Path) -> None:
    summary = score_parquet(source, tmp_path / "out", scorer)
    assert (summary.n_rows, summary.n_parts, summary.n_kept) == (2 * N, 16, 0)
    found = parquet.read_table(tmp_path / "out").to_pydict()
    assert found["task"] == list(range(2 * N))
    sets = cs.load(scorer.model).predict_set(
        np.column_stack([parquet.read_table(source)[c] for c in "abc"]), 0.1
    )
    assert np.array_equal(found["lower_b"], sets.lower()[:, 1])
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["rows"] == 2 * N
    assert sorted(
        path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith("part")
    ) == [
        "_manifest.json",
        "_parts",
        "_plan.json",
    ]


def test_an_interrupted_job_goes_on(
    source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path
) -> None:
    out = interrupted(source, tmp_path / "out", scorer)
    (out / ".part-000099.parquet.1.part").write_bytes(b"left by a worker that died")
    with pytest.raises(FileExistsError):
        score_parquet(source, out, scorer)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    summary = score_parquet(source, out, scorer, resume=True)
    assert summary.n_kept == 6
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert contents(out) == serial
    assert score_parquet(source, out, scorer, resume=True).n_kept == 16
    assert contents(out) == serial, "nothing changes where nothing is left to do"


@pytest.mark.parametrize("damage", ["empty", "changed", "gone"])
def test_parts_are_known_by_their_checksum(
    damage: str, source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path
) -> None:
    """An empty part counted as finished."""
    for out in (interrupted(source, tmp_path / "half", scorer), tmp_path / "whole"):
        if out.name == "whole":
            score_parquet(source, out, scorer)
        (part,) = out.glob("part-000002-*")
        data = part.read_bytes()
        part.write_bytes(
            b"" if damage == "empty" else data[:99] + bytes([data[99] ^ 1]) + data[100:]
        )
        if damage == "gone":
            part.unlink()
        kept = score_parquet(source, out, scorer, resume=True).n_kept
        assert kept == (5 if out.name == "half" else 15)
        assert contents(out) == serial


def test_a_part_that_goes_during_the_run_is_noticed(
    source: Path, scorer: Scorer, tmp_path: Path
) -> None:
    """A part deleted during the run was reported as written."""

    def thief(parts: Iterable[Part], _: object) -> Iterator[Part]:
        for part in parts:
            if part.number == 3:
                Path(part.target).unlink()
            yield part

    with pytest.raises(FileFormatError, match="part-000003"):
        score_parquet(source, tmp_path / "out", scorer, _report=thief)
    assert not (tmp_path / "out" / "_manifest.json").exists()


def test_new_rows_are_computed_again(
    source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path
) -> None:
    """Predictions of the same size, or columns that trade names, are other rows."""
    mine = tmp_path / "source"
    shutil.copytree(source, mine)
    out = interrupted(mine, tmp_path / "out", scorer)
    sizes = [file.stat().st_size for file in sorted(mine.iterdir())]
    write_source(mine, seed=1)
    assert [file.stat().st_size for file in sorted(mine.iterdir())] == sizes
    assert score_parquet(mine, out, scorer, resume=True).n_kept == 0
    write_source(mine, names="bac")
    assert score_parquet(mine, out, scorer, resume=True).n_kept == 0
    write_source(mine)
    assert score_parquet(mine, out, scorer, resume=True).n_kept == 0
    assert contents(out) == serial


def test_rows_are_known_by_what_was_read(
    source: Path, scorer: Scorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is replaced while it is read is not vouched for;
    a time zone is part of the rows.
    """
    write_source(tmp_path / "source")
    score = Scorer._score

    def replace_source(self: Scorer, batch: Any) -> Any:
        write_source(tmp_path / "source", seed=1)
        return score(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "_score", replace_source)
        score_parquet(tmp_path / "source" / "0.parquet", tmp_path / "out", scorer)
    assert (
        score_parquet(
            tmp_path / "source" / "0.parquet", tmp_path / "out", scorer, resume=True
        ).n_kept
        < 8
    )
    seen, table = set(), parquet.read_table(source)
    for zone in ("UTC", "Europe/Berlin"):
        when = pa.array([0] * len(table), pa.timestamp("us", zone))
        parquet.write_table(table.append_column("when", when), tmp_path / "x.parquet")
        seen.add(
            own_dask._digest_of_row_group(
                Part(0, str(tmp_path / "x.parquet"), 0, 9, tmp_path, "job")
            )
        )
    assert len(seen) == 2


def test_another_job_is_not_resumed(
    source: Path, scorer: Scorer, model: Path, tmp_path: Path
) -> None:
    out = interrupted(source, tmp_path / "out", scorer)
    for other in (Scorer(model, 0.2, ask=["lower", "labels"]), Scorer(model, 0.1, ask=["upper"])):
        with pytest.raises(ValueError, match="another job"):
            score_parquet(source, out, other, resume=True)
    assert score_parquet(source, out, scorer, resume=True).n_kept == 6
    (out / "_plan.json").write_text("{")
    with pytest.raises(ValueError, match="no job to resume"):
        score_parquet(source, out, scorer, resume=True)


def test_swapped_groups_are_another_calibration(source: Path, tmp_path: Path) -> None:
    groups = np.array(["x", "y"] * 100)
    for name, keys in (("one", groups), ("two", groups[::-1])):
        cs.conformalize(DATA.distributions, DATA.counts, classes="abc", groups=keys).save(
            tmp_path / name
        )
    mine = tmp_path / "source"
    mine.mkdir()
    table = parquet.read_table(source)
    parquet.write_table(
        table.append_column("g", [["x", "y"] * N]), mine / "0.parquet", row_group_size=ROW_GROUP
    )
    first, second = (
        Scorer(tmp_path / name, 0.1, ask=["width"], groups="g") for name in ("one", "two")
    )
    out = interrupted(mine, tmp_path / "out", first)
    with pytest.raises(ValueError, match="another job"):
        score_parquet(mine, out, second, resume=True)


def test_a_row_group_that_changed_is_computed_again(
    source: Path, scorer: Scorer, tmp_path: Path
) -> None:
    """Sizes and extremes are the same, the order of the rows is not."""
    mine = tmp_path / "source"
    shutil.copytree(source, mine)
    out = interrupted(mine, tmp_path / "out", scorer)
    order = np.arange(N)
    order[ROW_GROUP : 2 * ROW_GROUP] = order[ROW_GROUP : 2 * ROW_GROUP][::-1]
    table = parquet.read_table(mine / "0.parquet").take(order)
    parquet.write_table(table, mine / "0.parquet", row_group_size=ROW_GROUP, compression="none")
    assert score_parquet(mine, out, scorer, resume=True).n_kept == 5


def test_models_in_memory_travel_as_files(
    source: Path, serial: dict[str, bytes], model: Path, tmp_path: Path
) -> None:
    loaded = Scorer(cs.load(model), 0.1, ask=["lower", "labels"])
    out = interrupted(source, tmp_path / "out", loaded)
    assert (
        score_parquet(
            source, out, Scorer(cs.load(model), 0.1, ask=["lower", "labels"]), resume=True
        ).n_kept
        == 6
    )
    assert contents(out) == serial
    kept = (out / "_calibration" / "manifest.json").read_bytes()
    other = cs.conformalize(DATA.distributions, DATA.counts, classes="abc", score="tv")
    with pytest.raises(ValueError, match="another job"):
        score_parquet(source, out, Scorer(other, 0.1, ask=["lower", "labels"]), resume=True)
    assert (out / "_calibration" / "manifest.json").read_bytes() == kept, (
        "the model of the job stays"
    )


def test_rows_without_a_value_are_counted(source: Path, scorer: Scorer, tmp_path: Path) -> None:
    table = parquet.read_table(source)
    holes = table.set_column(1, "a", pa.array([None, *table["a"].to_pylist()[1:]]))
    parquet.write_table(holes, tmp_path / "x.parquet", row_group_size=ROW_GROUP)
    with pytest.warns(CredalSetWarning, match="1 row without"):
        summary = score_parquet(tmp_path / "x.parquet", tmp_path / "out", scorer)
    assert (summary.n_rows, summary.n_dropped) == (2 * N - 1, 1)


def test_what_is_not_parquet_is_named(scorer: Scorer, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no")
    (tmp_path / "x.csv").write_bytes(b"task,a,b,c\nx,1,0,0\n")
    for name in ("x.parquet", "x.csv"):
        with pytest.raises(ValueError, match=name):
            score_parquet(tmp_path / name, tmp_path / "out", scorer)


# --- two jobs in one folder ---


def at_part(n: int, what: Any) -> Any:
    """Do something else when a part is done."""

    def report(parts: Iterable[Part], _: object) -> Iterator[Part]:
        for part in parts:
            if part.number == n:
                what()
            yield part

    return report


def test_a_folder_is_written_by_one_job(
    source: Path, model: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path
) -> None:
    """Two jobs mixed their parts; the second of two resumed runs ended the first."""
    out = tmp_path / "out"

    def others() -> None:
        said = rf"out is being written by process {os.getpid()} on .* since 20\d\d-"
        for other in (scorer, Scorer(model, 0.2)):
            for resume in (False, True):
                with pytest.raises(BlockingIOError, match=said):
                    score_parquet(source, out, other, resume=resume)

    score_parquet(source, out, scorer, _report=at_part(3, others))
    assert contents(out) == serial


def test_what_another_process_writes_now_stays(
    source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path
) -> None:
    """A run removed files under way of a worker that outlived the run before."""
    out = interrupted(source, tmp_path / "out", scorer)
    with _files.staged(out / "part-000009-another.parquet") as under_way:
        assert score_parquet(source, out, scorer, resume=True).n_kept == 6
        assert under_way.exists()
        assert {name: data for name, data in contents(out).items() if name[0] != "."} == serial
    with pytest.raises(FileFormatError, match=r"'part-000009-another\.parquet' of another job"):
        score_parquet(source, out, scorer, resume=True)


def test_the_lock_ends_with_its_process(source: Path, scorer: Scorer, tmp_path: Path) -> None:
    out = interrupted(source, tmp_path / "out", scorer)
    program = (
        "import sys, time, pathlib; from credalset import _files\n"
        f"with _files.taken(pathlib.Path({str(out)!r})):\n"
        "    print('taken', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"taken\n"
        with pytest.raises(BlockingIOError, match=f"process {other.pid} on "):
            score_parquet(source, out, scorer, resume=True)
        other.kill()
    assert score_parquet(source, out, scorer, resume=True).n_kept == 6
    assert not list(out.glob(".*"))


def test_a_file_system_without_locks(
    source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path, monkeypatch: Any
) -> None:
    """Saving there went on for ever, making one hidden file after the other."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_files.fcntl, "flock", refuse)
    with pytest.warns(CredalSetWarning, match="no locks"):
        score_parquet(source, tmp_path / "out", scorer)
    assert contents(tmp_path / "out") == serial


# --- clusters ---


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    with local_cluster(2) as client:
        yield client


def test_workers_write_the_same_bytes_even_if_one_is_killed(
    source: Path, scorer: Scorer, serial: dict[str, bytes], client: Any, tmp_path: Path
) -> None:
    killed = []

    def kill_one(parts: Iterable[Part], missing: Sequence[Part]) -> Iterator[Part]:
        for i, part in enumerate(parts):
            if i == len(missing) // 2:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)
            yield part

    score_parquet(source, tmp_path / "out", scorer, client=client, _report=kill_one)
    assert killed
    assert contents(tmp_path / "out") == serial


def test_strangers_cannot_connect(client: Any) -> None:
    """TLS made for the run, the loopback interface only, no pages."""
    import distributed
    import psutil

    address = client.cluster.scheduler.address
    assert address.startswith("tls://127.0.0.1:")

    async def knock(security: Any) -> None:  # not a Client: one that is refused leaves sockets open
        comm = await distributed.comm.connect(
            address, timeout=2, **security.get_connection_args("client")
        )
        comm.abort()

    for stranger in (distributed.Security(), distributed.Security.temporary()):
        with pytest.raises((OSError, TypeError, ValueError, RuntimeError)):
            distributed.utils.LoopRunner().run_sync(knock, stranger)
    distributed.utils.LoopRunner().run_sync(
        knock, client.security
    )  # whoever has the credentials can
    me = psutil.Process()
    sockets = [
        c
        for process in (me, *me.children(recursive=True))
        for c in process.net_connections(kind="inet")
    ]
    listening = [c.laddr for c in sockets if c.status == psutil.CONN_LISTEN]
    assert len(listening) >= 4
    assert {each.ip for each in listening} == {"127.0.0.1"}
    for port in (each.port for each in listening):
        for page in ("status", "health", "info/main/workers.html"):
            with pytest.raises(OSError, match=r"404|reset|closed|refused"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)


def test_a_scheduler_with_tls_files(
    client: Any, source: Path, scorer: Scorer, tmp_path: Path
) -> None:
    made, names = client.security, ("ca", "cert", "key")
    texts = (made.tls_ca_file, made.tls_client_cert, made.tls_client_key)
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    address = client.cluster.scheduler.address
    with own_dask.connect(address, **{name: str(tmp_path / name) for name in names}) as mine:
        assert score_parquet(source, tmp_path / "out", scorer, client=mine).n_rows == 2 * N


def test_bad_rows_on_workers_are_a_sentence_about_them(
    source: Path, client: Any, model: Path, tmp_path: Path
) -> None:
    table = parquet.read_table(source)
    broken = table.set_column(1, "a", pa.array([5.0] * len(table)))
    parquet.write_table(broken, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="sum to one"):
        score_parquet(tmp_path / "x.parquet", tmp_path / "out", Scorer(model, 0.1), client=client)


class FailingClient:
    """A client whose cluster fails in some way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def wait_for_workers(self, *_: Any, **__: Any) -> None:
        raise self.error


def test_failures_of_clusters_end_in_one_error(
    source: Path, scorer: Scorer, tmp_path: Path
) -> None:
    """Scheduler gone, workers out of memory, no workers;
    what is finished can be resumed.
    """
    distributed = pytest.importorskip("distributed")
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    killed = distributed.scheduler.KilledWorker("score_part", "worker", 3)
    for error in (
        killed,
        TimeoutError("0 of 1"),
        CommClosedError("gone"),
        FutureCancelledError("key", "lost"),
    ):
        with pytest.raises(ClusterError, match="resume"):
            score_parquet(
                source, tmp_path / "out", scorer, client=FailingClient(error), resume=True
            )


def test_workers_that_do_not_come_back(
    source: Path,
    scorer: Scorer,
    serial: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any worker, the client waited forever."""
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    monkeypatch.setattr(own_dask, "PATIENCE", 20.0)  # to start
    monkeypatch.setattr(own_dask, "ASK_EVERY", 0.1)
    monkeypatch.setattr(own_dask, "TASKS_AT_ONCE", 2)

    def lose_all(parts: Iterable[Part], missing: Sequence[Part]) -> Iterator[Part]:
        for i, part in enumerate(parts):
            if i == 0:
                monkeypatch.setattr(own_dask, "PATIENCE", 0.5)
                client.cluster.scale(0)
            yield part

    with (
        local_cluster(1) as client,
        pytest.raises(ClusterError, match=r"no worker.*resume"),
    ):
        score_parquet(source, tmp_path / "out", scorer, client=client, _report=lose_all)
    score_parquet(source, tmp_path / "out", scorer, resume=True)
    assert contents(tmp_path / "out") == serial


def test_no_scheduler_at_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(own_dask, "PATIENCE", 6.0)
    for address in ("tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nonsense"):
        with pytest.raises(ClusterError, match=address), own_dask.connect(address):
            pass


@pytest.mark.parametrize(
    "greeting",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(99)],
    ids=["silent", "web", "zeros"],
)
def test_another_server_at_an_address(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent one was waited for forever; another ended in a MemoryError."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(own_dask, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                connections.append(server.accept()[0])
                connections[0].sendall(greeting)

        connections: list[socket.socket] = []
        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterError, match=address), own_dask.connect(address):
            pass
        for connection in connections:
            connection.close()


def test_workers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("cryptography")

    def refuse(**_: Any) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", refuse)
    with (
        pytest.raises(ClusterError, match="workers do not start: Nanny failed to start"),
        local_cluster(1),
    ):
        pass


def test_a_killed_client_leaves_what_is_finished(
    source: Path, model: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    program = (
        "import sys, time, credalset as cs\n"
        "def slowly(parts, n):\n"
        "    for part in parts:\n"
        "        yield part\n"
        "        time.sleep(0.05)\n"
        f"scorer = cs.Scorer({str(model)!r}, 0.1, ask=['lower', 'labels'])\n"
        f"cs.distributed.score_parquet({str(source)!r}, {str(out)!r}, scorer, _report=slowly)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program])
    while run.poll() is None and len(list(out.glob("_parts/part-*"))) < 5:
        time.sleep(0.002)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert not (out / "_manifest.json").exists()
    assert 5 <= score_parquet(source, out, scorer, resume=True).n_kept < 16
    assert contents(out) == serial


@pytest.mark.slow
def test_a_scheduler_that_dies_is_one_error(
    source: Path, scorer: Scorer, client: Any, tmp_path: Path
) -> None:
    """The last test with the client, which takes its time to close."""

    def kill_scheduler(parts: Iterable[Part], _: object) -> Iterator[Part]:
        for i, part in enumerate(parts):
            if i == 1:
                client.cluster.sync(client.cluster.scheduler.close)
            yield part

    with pytest.raises(ClusterError):
        score_parquet(source, tmp_path / "out", scorer, client=client, _report=kill_scheduler)


# --- models that the caller trusts ---


def test_what_the_caller_trusted_is_trusted_where_parts_are_scored(tmp_path: Path) -> None:
    """A forest in memory was saved beside the parts, and refused where they were scored."""
    names = [f"x{j}" for j in range(DATA.X.shape[1])]
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(DATA.X, columns=names)
    forest = RandomForestClassifier(3, min_samples_leaf=20, random_state=0)
    clf = cs.ConformalCredalClassifier(forest, "tv").fit(table[:100], DATA.counts[:100])
    clf.conformalize(table[100:], DATA.counts[100:])
    table.insert(0, "task", [f"t{i}" for i in range(len(table))])
    parquet.write_table(pa.Table.from_pandas(table), tmp_path / "new.parquet", row_group_size=50)
    scorer = Scorer(clf, 0.2, ask=["upper"])
    out = tmp_path / "out"
    with warnings.catch_warnings():
        warnings.simplefilter("error", CredalSetWarning)  # it is the caller's own forest
        interrupted(tmp_path / "new.parquet", out, scorer, 2)
        summary = score_parquet(tmp_path / "new.parquet", out, scorer, resume=True)
    assert (summary.n_rows, summary.n_kept) == (200, 2)
    found = pa.concat_tables([parquet.read_table(file) for file in sorted(out.glob("*.parquet"))])
    sets = clf.predict_set(table[names], 0.2)
    assert found["threshold"].to_pylist() == sets.threshold.tolist()
