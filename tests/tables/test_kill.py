"""Processes that are killed half-way: the result is byte for byte that of a run in which nothing happened."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("distributed")
pytest.importorskip("typer")

from pyarrow import parquet  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from credalset.distributed import local_cluster, score_parquet  # noqa: E402
from credalset.tables.parts import Part  # noqa: E402


@dataclass(frozen=True)
class Job:
    """Rows to score, the calibration, and digests of what a run in one process writes."""

    source: Path
    calibration: Path
    n_rows: int
    serial: dict[str, str]

    @property
    def scorer(self) -> cs.Scorer:
        return cs.Scorer(self.calibration, 0.1, ask=["lower", "labels"])


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.is_file()}


@pytest.fixture(scope="module", params=[20_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder, rng = tmp_path_factory.mktemp("job"), np.random.default_rng(0)
    step = -(-request.param // 40)
    schema = pa.schema([("task", pa.int64()), *((name, pa.float64()) for name in "abc")])
    with parquet.ParquetWriter(folder / "in.parquet", schema) as writer:
        for start in range(0, request.param, step):
            prediction = rng.dirichlet(np.ones(3), min(step, request.param - start))
            columns = [np.arange(start, start + len(prediction)), *prediction.T]
            writer.write_table(pa.table(columns, schema=schema))
    data = cs.datasets.make_synthetic(200, n_votes=20, random_state=0)
    cs.conformalize(data.distributions, data.counts, classes="abc").save(folder / "made")
    job = Job(folder / "in.parquet", folder / "made", request.param, {})
    score_parquet(job.source, folder / "serial", job.scorer)
    job.serial.update(digests(folder / "serial"))
    return job


def test_a_killed_worker_changes_nothing(job: Job, tmp_path: Path) -> None:
    killed = []
    with local_cluster(2) as client:

        def kill_one(parts: Iterable[Part], n_parts: int) -> Iterator[Part]:
            for i, part in enumerate(parts):
                if i == n_parts // 2:
                    killed.append(next(iter(client.run(os.getpid).values())))
                    os.kill(killed[0], signal.SIGKILL)
                yield part

        summary = score_parquet(job.source, tmp_path / "out", job.scorer, client=client, report=kill_one)
    assert killed
    assert summary.n_rows == job.n_rows
    assert digests(tmp_path / "out") == job.serial
    rows = parquet.read_table(tmp_path / "out", columns=["task"])["task"].to_numpy()
    assert np.array_equal(rows, np.arange(job.n_rows)), "every row once, in order"


def test_a_killed_client_leaves_what_is_finished(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["predict", str(job.calibration), str(job.source), "-o", f"{out}/", "--ask", "lower,labels"]
    command = [sys.executable, "-m", "credalset", *words, "--workers", "2"]
    client = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    while client.poll() is None and len(list(out.glob("part-*"))) < 5:
        time.sleep(0.005)
    os.killpg(client.pid, signal.SIGKILL)  # the client, and the workers with it
    client.wait()
    assert not (out / "_manifest.json").exists(), "it was too fast to be killed"
    before = {file.name: file.stat().st_mtime_ns for file in out.glob("part-*")}
    assert 5 <= len(before) < 40
    done = CliRunner().invoke(app, [*words, "--resume"])  # in one process, whoever began
    assert done.exit_code == 0, done.output
    assert f"{len(before)} of them from an earlier run" in done.stderr
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before, "computed only what was missing"
    assert digests(out) == job.serial
