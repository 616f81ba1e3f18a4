"""``python -m reproduction``: small runs of everything, killed and resumed, damaged and refused."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from credalset.exceptions import FileFormatError

pytest.importorskip("torch", reason="the learners need the extra 'torch'")
pytest.importorskip("pyarrow", reason="results are written as Parquet, extra 'reproduce'")

from reproduction import learner, runner, runs, synthetic
from reproduction.__main__ import main
from reproduction.batch import MEASURED, Batch, Outcome, Row
from reproduction.measure import ALL_FIRST_ORDER
from reproduction.stacked import fit_together
from reproduction.store import Store

from credalset import predictors
from credalset.calibration import conformalize
from credalset.datasets import make_synthetic

needs_data = pytest.mark.skipif(
    not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set"
)

#: one batch of each part, each a second or less
TINY = synthetic.settings(quick=True) | {
    "classes": [3],
    "votes": [5],
    "alphas": [0.2],
    "epochs": 1,
    "n_part": 30,
}
TINY |= {"sizes": [10], "n_size_part": 30, "volume_sets": 3}
SCRIPT = """
import json, sys
from credalset import predictors
from credalset.calibration import conformalize
from credalset.datasets import make_synthetic
from reproduction import learner, runner, runs, synthetic
from reproduction.store import Store
folder, jobs, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
runner.run_all(synthetic.batches(settings, 1), Store(folder), None, jobs=jobs)
"""


def run_tiny(folder: Path) -> None:
    runner.run_all(synthetic.batches(TINY, 1), Store(folder), None)


def two_processes(folder: Path) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(folder), "2", json.dumps(TINY)]


def rows_in(folder: Path) -> list[Row]:
    return Store(folder).rows(synthetic.batches(TINY, 1))


def same(left: list[Row], right: list[Row]) -> bool:
    """Equal to the last bit; unknown numbers count as equal."""
    return repr(left) == repr(right)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every batch, computed without interruption."""
    folder = tmp_path_factory.mktemp("tiny")
    run_tiny(folder)
    return folder


# --- the command ---


def test_everything_quickly_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole command: tables that fit, files that are complete,
    and a line about data that are not there.
    """
    quick, fewer = synthetic.settings, {"n_part": 20, "n_size_part": 20, "alphas": [0.1]}
    monkeypatch.setattr(synthetic, "settings", lambda *given: quick(*given) | fewer)
    command = ["all", "--quick", "--out", str(tmp_path), "--data", str(tmp_path / "none")]
    assert main(command) == 3
    told = capsys.readouterr()
    lines = told.out.splitlines()
    missing = told.err.splitlines()
    for name, file in (("chaosnli", "chaosNLI_snli.jsonl"), ("cifar10h", "cifar10h_model_a.npz")):
        assert file in next(line for line in missing if line.startswith(f"{name} was skipped"))
    assert main([*command, "--allow-missing"]) == 0
    shown = [line for line in lines if line[:6].strip() in ALL_FIRST_ORDER]
    assert len(shown) >= 8
    assert max(map(len, shown)) <= 100
    for file in (
        "synthetic.parquet",
        "synthetic.csv",
        "synthetic.md",
        "figures/house/contact-sheet.png",
        *(f"figures/house/08-synthetic-three-classes.{form}" for form in ("pdf", "svg", "png")),
    ):
        assert (tmp_path / file).stat().st_size > 0, file
    assert not list(tmp_path.rglob(".*")), "nothing half-written is left"
    check_quick_rows(tmp_path / "synthetic.parquet")


def check_quick_rows(path: Path) -> None:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert {"experiment", "part", "seed", "score", "alpha", "n_test", *MEASURED} <= set(rows[0])
    by_part: dict[str, set[str]] = {}
    for row in rows:
        by_part.setdefault(row["part"], set()).add(row["score"])
    first = set(ALL_FIRST_ORDER)
    assert by_part == {
        "first-order": first,
        "second-order": {"so", "density"},
        "second-order-published": {"so", "density"},
        "training-size": first,
    }
    grid = {(r["n_classes"], r["n_votes"], r["seed"]) for r in rows if r["part"] == "first-order"}
    assert grid == {(k, m, s) for k in (3, 4) for m in (5, 100) for s in (0, 1)}
    for row in rows:
        assert math.isnan(row["efficiency"]) == (row["n_classes"] != 3)
        assert 0.0 <= row["volume"] <= 1.0 + 1e-9
        assert 0.0 <= row["width"] <= 0.5 * row["n_classes"] + 1e-9
        assert 2.0 * (1.0 - row["decided"]) - 1e-9 <= row["labels"] <= row["n_classes"]
        assert 0.0 <= row["coverage_true"] <= 1.0
        assert abs(row["total"] - row["aleatoric"] - row["epistemic"]) < 1e-9 or math.isnan(
            row["total"]
        )


@pytest.mark.parametrize("name", ["chaosnli", "cifar10h"])
def test_missing_data_alone_is_an_error(name: str, tmp_path: Path) -> None:
    assert main([name, "--quick", "--out", str(tmp_path), "--data", str(tmp_path / "none")]) == 3


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(("name", "n_batches"), [("chaosnli", 6), ("cifar10h", 4)])
def test_real_data_quickly(
    name: str, n_batches: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [name, "--quick", "--seeds", "1", "--out", str(tmp_path)]
    assert main(options) == 0
    assert capsys.readouterr().out.count("is done") == n_batches
    assert main(options) == 0
    assert capsys.readouterr().out.count("is done") == 0, "nothing is computed twice"


@pytest.mark.parametrize("learner", ["FirstOrderNetwork", "SecondOrderNetwork"])
def test_stacks_are_as_networks_alone(learner: str) -> None:
    """Same starts, same order of items, same dropped units: the same up to rounding."""
    kind = getattr(predictors, learner)
    data = [make_synthetic(50, 3, n_votes=5, random_state=seed) for seed in range(3)]
    options: dict[str, Any] = {"epochs": 4, "learning_rate": 0.003}
    together = [kind(random_state=seed, **options) for seed in range(3)]
    labels = [one.counts / 5 for one in data]
    fit_together(together, [one.X for one in data], labels)
    for seed, network in enumerate(together):
        alone = kind(random_state=seed, **options).fit(data[seed].X, labels[seed])
        assert network.predict_proba(data[seed].X) == pytest.approx(
            alone.predict_proba(data[seed].X), abs=1e-4
        )
    start = kind(random_state=0, epochs=1, learning_rate=1e-12).fit(data[0].X, labels[0])
    moved = np.abs(start.predict_proba(data[0].X) - together[0].predict_proba(data[0].X))
    assert moved.max() > 0.01, "training did something"


@pytest.mark.slow
@pytest.mark.parametrize("learner_name", ["first-order", "second-order"])
def test_full_size_training_in_stacks_is_that_of_networks_alone(learner_name: str) -> None:
    """With the paper's sizes and epochs; rounding grows over 6 300 steps, sets hardly change."""
    chosen = runs.LEARNERS[learner_name]
    kind = getattr(predictors, chosen.network)
    settings = synthetic.settings() | {"classes": [3], "votes": [5, 100]}
    one = next(b for b in synthetic.batches(settings, 1) if b.part == learner_name)
    tasks = synthetic.tasks(one)
    together = [kind(random_state=0) for _ in tasks]
    fit_together(together, [t.train.inputs for t in tasks], [t.train.labels for t in tasks])
    for task, stacked in zip(tasks, together, strict=True):
        alone = kind(random_state=0).fit(task.train.inputs, task.train.labels)
        volumes = []
        for network in (alone, stacked):
            predict = getattr(network, chosen.method)
            calibrated = conformalize(
                predict(task.calibration.inputs), task.calibration.labels, chosen.scores[0]
            )
            sets = calibrated.predict_set(predict(task.test.inputs), 0.1)
            volumes.append(np.asarray(sets.volume()).mean())
        assert volumes[0] == pytest.approx(volumes[1], rel=0.03)
        found = [network.predict_proba(task.test.inputs) for network in (alone, stacked)]
        assert found[0] == pytest.approx(found[1], abs=0.03)


def test_ways_to_train_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default and softplus, whose density is zero at every share of zero."""
    names = ("and biases", "softplus")
    kept = [trial for trial in learner.TRIALS if trial.name.startswith(names)]
    monkeypatch.setattr(learner, "TRIALS", kept)
    command = ["learner", "--seeds", "1", "--epochs", "8", "--out", str(tmp_path)]
    assert main([*command, "--data", str(tmp_path / "none")]) == 3, "CIFAR-10H is missing"
    _, head, _, default, *others = (tmp_path / "learner.md").read_text("utf-8").splitlines()
    assert "| m = 100: volume |" in head
    assert default.endswith("| 0 | 0 |"), "neither dead outputs nor infinite thresholds"
    assert others[0].endswith("| 1.000 | 1.000 | 0 | 1 |")
    assert float(others[1].split("|")[6]) < 1.0, "smoothed labels in the score mend softplus"
    assert "learner.md" in capsys.readouterr().out


@pytest.mark.data
@needs_data
def test_ways_to_train_on_images() -> None:
    lines = learner.run_on_images(1, (1,), None, lambda line: None).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| as published, 1 epochs",
        "| the default, 1 epochs",
    ]


# --- stopping, going on, and several processes ---


def test_killed_and_resumed(tiny: Path, tmp_path: Path) -> None:
    """Workers end with their parent; what they finished is neither lost nor repeated.

    Rows do not change.

    The rows they are compared with come from one process without interruption.
    """
    folder = tmp_path / "store"
    names = {batch.name for batch in synthetic.batches(TINY, 1)}
    process = subprocess.Popen(two_processes(folder))
    deadline = time.monotonic() + 300
    while not names_in(folder) & names and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    children = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert len(children) >= 2
    assert_all_end(children)
    before = {path: path.stat().st_mtime_ns for path in results_in(folder)}
    finished = names_in(folder) & names
    assert 1 <= len(finished) < len(names), "killed midway"
    run_tiny(folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert same(rows_in(folder), rows_in(tiny))


@pytest.mark.slow
def test_several_processes_give_the_same_rows(tiny: Path, tmp_path: Path) -> None:
    """To the end; the rows of workers that are killed midway are compared in
    `test_killed_and_resumed`.
    """
    subprocess.run(two_processes(tmp_path / "store"), check=True, timeout=300)
    assert same(rows_in(tmp_path / "store"), rows_in(tiny))


def test_seeds_that_are_there_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds, then three: only the third is trained, giving the rows of three;
    what is lost is mended.
    """
    parts = ("first-order", "second-order")
    few, many = ([b for b in synthetic.batches(TINY, n) if b.part in parts] for n in (2, 3))
    store, fresh = Store(tmp_path / "grown"), Store(tmp_path / "fresh")
    runner.run_all(few, store, None)
    runner.run_all(many, fresh, None)
    (store.folder / f"{few[-1].name}.json").unlink()
    computed: list[list[int]] = []
    compute = runner.compute
    monkeypatch.setattr(
        runner,
        "compute",
        lambda g, d: computed.append([b.options["seed"] for b in g]) or compute(g, d),
    )
    runner.run_all(many, store, None)
    assert computed == [[2], [1, 2]]
    # Stacks of another size round otherwise.
    for grown, whole in zip(store.rows(many), fresh.rows(many), strict=True):
        assert {k for k in grown if isinstance(grown[k], str)} == {
            k for k in whole if isinstance(whole[k], str)
        }
        for name in ("coverage", "threshold", "volume", "width", "total"):
            assert grown[name] == pytest.approx(whole[name], abs=1e-3), name
    assert sorted(p.name for p in store.folder.iterdir()) == sorted(
        p.name for p in fresh.folder.iterdir()
    )
    runner.run_all(many, store, None)
    assert len(computed) == 2, "nothing is computed twice"


@pytest.mark.slow  # what is killed and resumed is tested above, Ctrl-C with the other commands
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted(jobs: int, tmp_path: Path) -> None:
    """Ctrl-C, which every process of the group gets: one line, status 130, nothing lost,
    nothing left running.
    """
    command = [sys.executable, "-m", "reproduction", "synthetic", "--quick", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--jobs", str(jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    deadline = time.monotonic() + 120
    while (
        len(kept := results_in(tmp_path)) < 3
        and time.monotonic() < deadline
        and process.poll() is None
    ):
        time.sleep(0.05)
    children = children_of(process.pid)
    assert jobs == 1 or len(children) >= jobs
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.strip() == "stopped; run the same command again to continue"
    assert_all_end(children)
    assert kept <= results_in(tmp_path)


def results_in(folder: Path) -> set[Path]:
    return set(folder.rglob("[!.]*.json"))


def names_in(folder: Path) -> set[str]:
    return {path.stem for path in results_in(folder)}


def assert_all_end(processes: list[int]) -> None:
    """They look for their parent twice a second, when a busy machine lets them."""
    deadline = time.monotonic() + 300
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in processes if is_alive(pid)]


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("needs /proc to see processes")
    return [int(child) for child in path.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- the store ---


def batch(**options: Any) -> Batch:
    return Batch("synthetic", "first-order", "some-batch", options, 1)


def filled(folder: Path) -> Store:
    store = Store(folder)
    row = {
        "experiment": "synthetic",
        "part": "first-order",
        "seed": 3,
        "coverage": 0.5,
        "threshold": 0.1,
    }
    store.write(batch(k=3), Outcome([row], [], {"training": 2.0}))
    return store


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.is_done(batch(k=3))
    (row,) = store.rows([batch(k=3)])
    assert (row["seed"], row["coverage"], row["threshold"]) == (3, 0.5, 0.1)
    assert store.seconds([batch(k=3)] * 2) == {"training": 4.0}
    assert store.examples([batch(k=3)]) == []
    assert not Store(tmp_path / "other").is_done(batch(k=3))


def test_numbers_come_back_to_the_last_bit(tmp_path: Path) -> None:
    store, one = Store(tmp_path), batch(k=3)
    rows = [
        {"threshold": math.inf, "coverage": 0.1 + 0.2},
        {"threshold": math.nan, "coverage": 1e-300},
    ]
    store.write(one, Outcome(rows, [{"prediction": [1 / 3, 2 / 3], "truth": None}]))
    assert same(store.rows([one]), rows)
    assert store.examples([one]) == [{"prediction": [1 / 3, 2 / 3], "truth": None}]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    store = filled(tmp_path)
    with pytest.raises(
        FileFormatError, match=r"results of other settings \(k: 3 there, 4 here\).*another --out"
    ):
        store.is_done(batch(k=4))
    assert store.is_done(batch(k=3))


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_damaged_files_are_reported(cut: int, tmp_path: Path) -> None:
    store = filled(tmp_path)
    path = tmp_path / "some-batch.json"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(
        FileFormatError, match=r"some-batch.json is damaged .*only its runs are repeated"
    ):
        store.is_done(batch(k=3))


def test_a_failing_batch_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(group: list[Batch], data_dir: Path | None) -> list[Outcome]:
        if group[0].name == "second":
            raise RuntimeError("out of luck")
        return [Outcome() for _ in group]

    monkeypatch.setattr(runner, "compute", compute)
    batches = [Batch("synthetic", name, name, {}, 1) for name in ("first", "second", "third")]
    store = Store(tmp_path)
    told: list[tuple[str, bool]] = []
    with pytest.raises(RuntimeError, match="out of luck"):
        runner.run_all(
            batches, store, None, report=lambda one, was_there: told.append((one.name, was_there))
        )
    assert [store.is_done(one) for one in batches] == [True, False, False]
    assert told == [("first", False)]
