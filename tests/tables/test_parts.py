"""Parts: every row once, finished work kept, the same bytes whoever computes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.distributed import score_parquet  # noqa: E402
from credalset.tables import Scorer  # noqa: E402
from credalset.tables.parts import Part  # noqa: E402

N, ROW_GROUP = 2000, 130


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    predictions = np.random.default_rng(0).dirichlet(np.ones(3), 2 * N)
    for part in range(2):
        rows = slice(part * N, (part + 1) * N)
        columns = {name: predictions[rows, k] for k, name in enumerate("abc")}
        table = pa.table({"task": np.arange(2 * N)[rows], **columns})
        parquet.write_table(table, folder / f"{part}.parquet", row_group_size=ROW_GROUP)
    return folder


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    data = cs.datasets.make_synthetic(200, n_votes=20, random_state=0)
    return Scorer(cs.conformalize(data.distributions, data.counts, classes="abc"), 0.1, ask=["lower", "labels"])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture(scope="module")
def serial(source: Path, scorer: Scorer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    target = tmp_path_factory.mktemp("serial") / "out"
    score_parquet(source, target, scorer)
    return contents(target)


def test_every_row_once_and_in_order(source: Path, scorer: Scorer, tmp_path: Path) -> None:
    summary = score_parquet(source, tmp_path / "out", scorer)
    assert str(summary) == f"{2 * N} rows in 32 parts"
    found = parquet.read_table(tmp_path / "out").to_pydict()
    assert found["task"] == list(range(2 * N))
    sets = scorer.model.predict_set(np.column_stack([parquet.read_table(source)[name] for name in "abc"]), 0.1)
    assert np.array_equal(found["lower_b"], sets.lower()[:, 1])
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["rows"] == 2 * N


def test_an_interrupted_job_goes_on(source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path) -> None:
    def stop(parts: Iterable[Part], _: int) -> Iterator[Part]:
        for i, part in enumerate(parts):
            if i == 5:
                raise KeyboardInterrupt
            yield part

    with pytest.raises(KeyboardInterrupt):
        score_parquet(source, tmp_path / "out", scorer, report=stop)
    assert not (tmp_path / "out" / "_manifest.json").exists()
    (tmp_path / "out" / ".part-000099.parquet.1.part").write_bytes(b"left by a worker that died")
    with pytest.raises(FileExistsError, match="is not empty"):
        score_parquet(source, tmp_path / "out", scorer)
    before = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in contents(tmp_path / "out")}
    summary = score_parquet(source, tmp_path / "out", scorer, resume=True)
    assert summary.n_kept == 6
    kept = [name for name in before if name.startswith("part-")]
    assert all((tmp_path / "out" / name).stat().st_mtime_ns == before[name] for name in kept)
    assert contents(tmp_path / "out") == serial


def test_another_job_is_not_resumed(source: Path, scorer: Scorer, tmp_path: Path) -> None:
    score_parquet(source, tmp_path / "out", scorer)
    for other in (Scorer(scorer.loaded, 0.2, ask=["lower", "labels"]), Scorer(scorer.loaded, 0.1, ask=["upper"])):
        with pytest.raises(ValueError, match="the parts of another job"):
            score_parquet(source, tmp_path / "out", other, resume=True)
    (tmp_path / "out" / "_plan.json").write_text("{")
    with pytest.raises(ValueError, match="no job to resume"):
        score_parquet(source, tmp_path / "out", scorer, resume=True)


def test_what_is_not_parquet_is_named(scorer: Scorer, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"x\.parquet is not a readable Parquet file"):
        score_parquet(tmp_path / "x.parquet", tmp_path / "out", scorer)


def test_the_command_asks_a_scheduler(
    source: Path, scorer: Scorer, serial: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that runs already computes the same bytes; where none answers, a sentence says so."""
    distributed = pytest.importorskip("distributed")
    testing, commands = pytest.importorskip("typer.testing"), pytest.importorskip("credalset.commands")
    scorer.model.save(tmp_path / "calibration")
    words = ["predict", str(tmp_path / "calibration"), str(source), "--ask", "lower,labels"]
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        out = ["-o", f"{tmp_path}/out/", "--scheduler", cluster.scheduler_address]
        done = testing.CliRunner().invoke(commands.app, [*words, *out])
    assert done.exit_code == 0, done.output
    parts = {name: data for name, data in serial.items() if name.endswith(".parquet")}
    assert {name: data for name, data in contents(tmp_path / "out").items() if name.endswith(".parquet")} == parts
    monkeypatch.setattr("credalset.distributed.PATIENCE", "1s")
    nobody = testing.CliRunner().invoke(
        commands.app, [*words, "-o", f"{tmp_path}/none/", "--scheduler", "tcp://127.0.0.1:9"]
    )
    assert nobody.exit_code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in nobody.output
    assert not (tmp_path / "none").exists()
