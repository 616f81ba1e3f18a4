"""``credalset reproduce``: small runs of everything, killed and resumed, damaged and refused; and its statistics."""

from __future__ import annotations

import io
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
from scipy import stats

from credalset.calibration import conformalize
from credalset.exceptions import FileFormatError, MissingExtraError

pytest.importorskip("torch", reason="the learners need the extra 'torch'")
pytest.importorskip("pyarrow", reason="results are kept in Parquet files, extra 'reproduce'")
pytest.importorskip("typer", reason="commands need the extra 'cli'")

from typer.testing import CliRunner

from credalset.commands import app
from credalset.datasets import chaosnli as chaosnli_data
from credalset.datasets import cifar10h as cifar10h_data
from credalset.datasets import make_synthetic
from credalset.experiments import chaosnli, published, runner, summary, synthetic, tables
from credalset.experiments.batch import Batch, Outcome, Row
from credalset.experiments.measure import Effort, Part, first_order_scores, grid_shares, measure
from credalset.experiments.store import COLUMNS, Store

needs_data = pytest.mark.skipif(not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set")
NOWHERE = "http://127.0.0.1:9/nothing"  # the discard port: nobody answers

#: one batch of each part, each a second or less
TINY = synthetic.settings(quick=True) | {"classes": [3], "votes": [5], "alphas": [0.2], "epochs": 1, "n_part": 30}
TINY |= {"sizes": [10], "n_size_part": 30, "volume_sets": 3}
SCRIPT = """
import json, sys
from credalset.experiments import runner, synthetic
from credalset.experiments.store import Store
folder, jobs, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
runner.run_all(synthetic.batches(settings, 1), Store(folder, settings), None, jobs=jobs)
"""


def run_tiny(folder: Path, jobs: int = 1) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(folder), str(jobs), json.dumps(TINY)]


def rows_in(folder: Path) -> list[Row]:
    return Store(folder, TINY).rows(synthetic.batches(TINY, 1))


def same(left: list[Row], right: list[Row]) -> bool:
    """Equal to the last bit; unknown numbers count as equal."""
    return repr(left) == repr(right)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    for module in (chaosnli_data, cifar10h_data):
        monkeypatch.setattr(module, "URL", NOWHERE)
    if "data" not in request.keywords:
        monkeypatch.delenv("CREDALSET_DATA", raising=False)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every batch, computed without interruption."""
    folder = tmp_path_factory.mktemp("tiny")
    subprocess.run(run_tiny(folder), check=True, timeout=120)
    return folder


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["reproduce", *arguments])


# --- the command ---


def test_everything_quickly_without_data(tmp_path: Path) -> None:
    """The whole command: tables that fit, files that are complete, and a word about data that are not there."""
    result = invoke("all", "--quick", "--out", str(tmp_path), "--data", str(tmp_path / "none"))
    assert result.exit_code == 0, result.output
    for name, advice in (("chaosnli", "chaosNLI_snli.jsonl"), ("cifar10h", "cifar10h_model_a.npz")):
        line = next(line for line in result.output.splitlines() if line.startswith(f"{name} was skipped"))
        for needed in (advice, NOWHERE, "with --data or"):
            assert needed in line
        assert "data_dir" not in line
    shown = [line for line in result.output.splitlines() if line[:6].strip() in first_order_scores(0.0)]
    assert len(shown) >= 8
    assert max(map(len, shown)) <= 100
    assert "…" not in result.output
    assert "The published way:" in result.output
    assert "mean of 2 seeds and of K = 3, 4" in result.output
    assert result.output.count("Column ok, such as 4/5: in how many cells") == 1
    assert "0/" not in next(line for line in result.output.splitlines() if line.startswith("synthetic: "))
    assert "Coverage of the truth: at least nominal" in result.output
    for file in ("synthetic.parquet", "synthetic.csv", "synthetic.md", "figures/synthetic-coverage.png"):
        assert (tmp_path / file).stat().st_size > 0, file
    assert not list(tmp_path.rglob(".*")), "nothing half-written is left"
    check_quick_rows(tmp_path / "synthetic.parquet")


def check_quick_rows(path: Path) -> None:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert list(rows[0]) == list(COLUMNS)
    by_part: dict[str, set[str]] = {}
    for row in rows:
        by_part.setdefault(row["part"], set()).add(row["score"])
    first = set(first_order_scores(0.0))
    mixtures = {"mixture": {"mixture"}, "mixture-counts": {"mixture-counts"}}
    assert by_part == {"first-order": first, "second-order": {"so", "density"}, "training-size": first, **mixtures}
    grid = {(r["n_classes"], r["n_votes"], r["seed"]) for r in rows if r["part"] == "first-order"}
    assert grid == {(k, m, s) for k in (3, 4) for m in (5, 100) for s in (0, 1)}
    for row in rows:
        assert math.isnan(row["efficiency"]) == (row["n_classes"] != 3)
        assert 0.0 <= row["volume"] <= 1.0 + 1e-9
        assert 0.0 <= row["coverage_true"] <= 1.0
        assert abs(row["total"] - row["aleatoric"] - row["epistemic"]) < 1e-9 or math.isnan(row["total"])


@pytest.mark.parametrize("name", ["chaosnli", "cifar10h"])
def test_missing_data_alone_is_an_error(name: str, tmp_path: Path) -> None:
    result = invoke(name, "--quick", "--out", str(tmp_path), "--data", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "or name the folder that has" in result.output
    assert "Traceback" not in result.output


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(("name", "n_batches"), [("chaosnli", 6), ("cifar10h", 4)])
def test_real_data_quickly(name: str, n_batches: int, tmp_path: Path) -> None:
    options = (name, "--quick", "--seeds", "1", "--out", str(tmp_path))
    result = invoke(*options)
    assert result.exit_code == 0, result.output
    assert result.output.count("is done") == n_batches
    assert invoke(*options).output.count("is done") == 0, "nothing is computed twice"


@pytest.mark.data
@needs_data
def test_points_of_the_authors() -> None:
    settings = TINY | {"published_data": True}
    batches = synthetic.batches(settings, 1)
    assert "training-size" not in {one.part for one in batches}, "too few points for that"
    outcome = runner.compute(next(one for one in batches if one.part == "first-order"), None)
    assert {row["score"] for row in outcome.rows} == set(first_order_scores(0.0))
    assert {row["item"] for row in outcome.examples} <= set(range(30))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("nonsense",), "must be one of synthetic, chaosnli, cifar10h, all"),
        (("synthetic", "--seeds", "0"), "--seeds"),
        (("synthetic", "--jobs", "0"), "--jobs"),
        (("synthetic", "--out", "file/below"), "--out"),
        (("synthetic", "--features", "roberta"), "is an option of chaosnli, not of synthetic"),
        (("cifar10h", "--published-data"), "is an option of synthetic, not of cifar10h"),
        (("chaosnli", "--features", "robrta"), "but there is no file robrta"),
    ],
)
def test_bad_options(options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("precious")
    result = invoke(*options)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


@pytest.mark.parametrize("package", ["torch", "pyarrow", "matplotlib"])
def test_missing_packages_come_first(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = invoke("synthetic", "--quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "pip install 'credalset[reproduce]'" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["demo", "reproduce synthetic"])
def test_folders_that_cannot_be_written(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sys.modules["credalset.commands.demo"], "TemporaryFile", refuse)
    result = CliRunner().invoke(app, [*command.split(), "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "cannot write into" in result.output
    assert list(tmp_path.iterdir()) == []


def test_damaged_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One experiment: one sentence. All of them: go on, and say at the end what failed."""
    (tmp_path / "cifar10h_model_a.npz").write_bytes(b"")
    (tmp_path / "chaosNLI_snli.jsonl").write_bytes(b"{}")
    (tmp_path / "chaosnli_snli_mnli_roberta.npz").write_bytes(b"PK")
    options = ("--quick", "--out", str(tmp_path / "out"), "--data", str(tmp_path))
    for name, file in (("cifar10h", "cifar10h_model_a.npz"), ("chaosnli", "chaosNLI_snli.jsonl")):
        result = invoke(name, *options)
        assert result.exit_code == 1
        assert result.output.startswith(f"{name}: ")
        assert file in result.output
        assert len(result.output.splitlines()) == 1
    monkeypatch.setattr(sys.modules["credalset.commands.reproduce"], "NAMES", ("chaosnli", "cifar10h"))
    result = invoke("all", *options)
    assert result.exit_code == 1
    assert result.output.count(" failed: ") == 2
    assert "failed: chaosnli, cifar10h" in result.output


def test_votes_without_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setattr(chaosnli, "load_chaosnli", lambda data_dir: None)
    with pytest.raises(FileNotFoundError, match=r"no features\. .*roberta.npz or .*--features.*--encoder"):
        chaosnli.settings(True, tmp_path)


def test_without_matplotlib(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results do not need pictures."""
    from rich.console import Console

    from credalset.experiments import report

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    console = Console(record=True, width=100, file=io.StringIO())
    report.write("synthetic", Store(tiny, TINY), synthetic.batches(TINY, 1), tmp_path, console)
    assert "Figures were skipped" in console.export_text()
    assert (tmp_path / "synthetic.csv").exists()


# --- stopping, going on, and several processes ---


def test_killed_and_resumed(tiny: Path, tmp_path: Path) -> None:
    """Nothing finished is lost or repeated, and the rows are those of a run without interruption."""
    folder = tmp_path / "store"
    process = subprocess.Popen(run_tiny(folder))
    deadline = time.monotonic() + 120
    while len(list(folder.glob("[!.]*.parquet"))) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("[!.]*.parquet")}
    assert process.returncode == -signal.SIGKILL
    names = {batch.name for batch in synthetic.batches(TINY, 1)}
    finished = {path.stem for path in before} & names
    assert 1 <= len(finished) < len(names), "killed midway"
    subprocess.run(run_tiny(folder), check=True, timeout=120)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert same(rows_in(folder), rows_in(tiny))


def test_several_processes_give_the_same_rows(tiny: Path, tmp_path: Path) -> None:
    subprocess.run(run_tiny(tmp_path / "store", jobs=2), check=True, timeout=120)
    assert same(rows_in(tmp_path / "store"), rows_in(tiny))


def test_seeds_can_be_added() -> None:
    few, many = synthetic.batches(TINY, 5), synthetic.batches(TINY, 10)
    assert [batch for batch in few if batch not in many] == []
    assert len(many) > len(few)


def test_seeds_that_are_there_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds, then four: only the other two are trained, with the rows of four from the start."""
    parts = ("first-order", "mixture")
    few, many = ([b for b in synthetic.batches(TINY, n) if b.part in parts] for n in (2, 4))
    store, fresh = Store(tmp_path / "grown", TINY), Store(tmp_path / "fresh", TINY)
    runner.run_all(few, store, None)
    runner.run_all(many, fresh, None)
    computed: list[list[int]] = []
    compute = runner.compute
    monkeypatch.setattr(runner, "compute", lambda b, d: computed.append(b.options["seeds"]) or compute(b, d))
    runner.run_all(many, store, None)
    assert computed == [[2, 3], [2, 3]]
    assert same(store.rows(many), fresh.rows(many))
    assert same(store.examples(many), fresh.examples(many))
    assert sorted(p.name for p in store.folder.iterdir()) == sorted(p.name for p in fresh.folder.iterdir())
    runner.run_all(many, store, None)
    assert len(computed) == 2, "nothing is computed twice"


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted(jobs: int, tmp_path: Path) -> None:
    """Ctrl-C, which every process of the group gets: one line, status 130, nothing left running."""
    command = [sys.executable, "-m", "credalset.cli", "reproduce", "synthetic", "--quick", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--jobs", str(jobs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    deadline = time.monotonic() + 120
    is_begun = (lambda: len(children_of(process.pid)) > 2) if jobs > 1 else (tmp_path / "batches").exists
    while not is_begun() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    children = children_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.strip() == "stopped; the same command goes on from here"
    while any(is_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in children if is_alive(pid)]


def test_workers_do_not_outlive_their_parent(tmp_path: Path) -> None:
    process = subprocess.Popen(run_tiny(tmp_path / "store", jobs=2))
    children: list[int] = []
    deadline = time.monotonic() + 60
    while len(children) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
        children = children_of(process.pid)
    process.kill()
    process.wait()
    assert len(children) >= 2
    while any(is_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in children if is_alive(pid)]


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
    store = Store(folder, {"epochs": 1})
    row = {"experiment": "synthetic", "part": "first-order", "seed": 3, "score": "tv", "coverage": 0.5}
    store.write(batch(k=3), Outcome([row], [], {"training": 2.0}))
    return store


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.is_done(batch(k=3))
    (row,) = store.rows([batch(k=3)])
    assert (row["seed"], row["coverage"], row["volume"]) == (3, 0.5, None)
    assert store.seconds([batch(k=3)] * 2) == {"training": 4.0}
    assert store.examples([batch(k=3)]) == []
    assert not Store(tmp_path / "other", {}).is_done(batch(k=3))


@pytest.mark.parametrize("damage", ["missing", "cut", "foreign"])
def test_batches_without_their_examples_are_not_done(damage: str, tmp_path: Path) -> None:
    """They are computed again, rather than a figure silently missing."""
    store, one = Store(tmp_path, {"epochs": 1}), batch(k=3)
    example = {"part": "first-order", "seed": 0, "score": "tv", "item": 1, "prediction": [1.0, 0.0]}
    store.write(one, Outcome([], [example]))
    assert store.is_done(one)
    path = tmp_path / "some-batch.examples.parquet"
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    else:
        other = Store(tmp_path / "other", {})
        other.write(batch(k=4), Outcome([], [example]))
        path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    assert not store.is_done(one)
    store.write(one, Outcome([], [example]))
    assert store.is_done(one)
    assert len(store.examples([one])) == 1


def test_other_settings_are_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(FileFormatError, match=r"results of other settings \(epochs: 1 there, 2 here\).*another --out"):
        Store(tmp_path, {"epochs": 2})
    Store(tmp_path, {"epochs": 1})


def test_other_batches_are_refused(tmp_path: Path) -> None:
    store = filled(tmp_path)
    with pytest.raises(FileFormatError, match="holds another batch than some-batch with these options"):
        store.is_done(batch(k=4))


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_damaged_files_are_reported(cut: int, tmp_path: Path) -> None:
    store = filled(tmp_path)
    path = tmp_path / "some-batch.parquet"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FileFormatError, match=r"some-batch.parquet is damaged .*only its runs are repeated"):
        store.is_done(batch(k=3))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is damaged"), ("{}", "is damaged"), ('{"format_version": 99, "settings": {}}', "format version 99")],
)
def test_damaged_settings(text: str, message: str, tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        Store(tmp_path, {"epochs": 1})
    (tmp_path / "settings.json").unlink()
    with pytest.raises(FileFormatError, match=r"holds results, but no settings.json"):
        Store(tmp_path, {"epochs": 1})


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'credalset\[reproduce\]'"):
        Store(tmp_path, {})


def test_a_failing_batch_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(one: Batch, data_dir: Path | None) -> Outcome:
        if one.name == "second":
            raise RuntimeError("out of luck")
        return Outcome()

    monkeypatch.setattr(runner, "compute", compute)
    batches = [Batch("synthetic", "part", name, {}, 1) for name in ("first", "second", "third")]
    store = Store(tmp_path, {})
    told: list[tuple[str, bool]] = []
    with pytest.raises(RuntimeError, match="out of luck"):
        runner.run_all(batches, store, None, report=lambda one, was_there: told.append((one.name, was_there)))
    assert [store.is_done(one) for one in batches] == [True, False, False]
    assert told == [("first", False)]


# --- measures ---


def parts(n: int, n_classes: int) -> tuple[Part, Part]:
    data = make_synthetic(2 * n, n_classes, n_votes=20, random_state=0)
    labels = data.counts / 20
    prediction = 0.7 * data.distributions + 0.3 / n_classes
    halves = (slice(0, n), slice(n, 2 * n))
    first, second = (Part(prediction[rows], labels[rows], data.distributions[rows]) for rows in halves)
    return first, second


@pytest.mark.parametrize("name", ["tv", "ws", "kl", "inner", "normalized-kl"])
def test_measures_agree_with_the_sets(name: str) -> None:
    calibration, test = parts(60, 3)
    score = first_order_scores(0.1)[name]
    rows = measure({"score": name}, score, calibration, test, [0.1, 0.3], Effort(20, 64))
    calibrated = conformalize(calibration.prediction, calibration.labels, score)
    for row in rows:
        sets = calibrated.predict_set(test.prediction, row["alpha"])
        assert row["coverage"] == sets.contains(test.labels).mean()
        assert row["coverage_true"] == sets.contains(test.truth).mean()
        assert row["efficiency"] == pytest.approx(sets.efficiency().mean(), abs=1e-12)
        assert row["volume"] == pytest.approx(np.asarray(sets.volume()).mean(), rel=1e-9)
        assert (row["volume_error"], row["n_test"]) == (0.0, 60)
        assert row["total"] == pytest.approx(np.nanmean(sets.uncertainty("K").total))


def test_estimated_volumes_have_an_error() -> None:
    calibration, test = parts(60, 4)
    (row,) = measure({}, first_order_scores(0.0)["kl"], calibration, test, [0.2], Effort(20, 128))
    sets = conformalize(calibration.prediction, calibration.labels, "kl").predict_set(test.prediction, 0.2)
    assert 0.0 < row["volume_error"] < row["volume"]
    assert abs(row["volume"] - np.asarray(sets.volume()).mean()) < 4 * row["volume_error"]
    assert math.isnan(row["efficiency"])


def test_grid_shares_at_infinity() -> None:
    _, test = parts(10, 3)
    sets = first_order_scores(0.0)["tv"].region(test.prediction, 0.1)
    assert grid_shares(sets, [math.inf, -1.0]) == [1.0, 0.0]


# --- statistics ---


def result_rows(coverages: list[float], **changes: Any) -> list[Row]:
    key = {"experiment": "synthetic", "part": "p", "n_classes": 3, "n_votes": 5, "n_train": 10, "score": "tv"}
    numbers = dict.fromkeys(summary.AVERAGED, 0.5)
    sizes = {"alpha": 0.1, "n_calibration": 100, "n_test": 200}
    return [{**key, **sizes, **numbers, "seed": s, "coverage": c, **changes} for s, c in enumerate(coverages)]


@pytest.mark.parametrize(("n_seeds", "alpha"), [(1, 0.1), (10, 0.1), (4, 0.3)])
def test_bands_hold_what_they_say(n_seeds: int, alpha: float) -> None:
    """Simulate split conformal prediction with plain numbers for scores."""
    rng = np.random.default_rng(0)
    rank = math.ceil(101 * (1 - alpha))
    scores = np.sort(rng.random((4000, n_seeds, 100)), axis=2)[..., rank - 1]
    observed = rng.binomial(200, scores).mean(axis=1) / 200
    low, high = summary.coverage_band(100, 200, alpha, n_seeds=n_seeds)
    inside = int(((observed >= low) & (observed <= high)).sum())
    assert stats.binomtest(inside, 4000, 0.95).proportion_ci(0.999).high > 0.95
    assert inside / 4000 < 0.975, "no wider than whole numbers of items make it"


def test_bands_of_infinite_thresholds() -> None:
    assert summary.coverage_band(9, 100, 0.05) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("coverage", "verdict", "truth"), [(0.90, "ok", "ok"), (0.80, "low", "short"), (0.99, "high", "ok")]
)
def test_verdicts(coverage: float, verdict: str, truth: str) -> None:
    rows = result_rows([coverage] * 10, coverage_true=coverage)
    (cell,) = summary.summarize(rows, independent=True)
    assert (cell.verdict, cell.truth_verdict, cell.n_seeds) == (verdict, truth, 10)
    assert ("Below: p, tv" in "\n".join(tables.verdict_lines([cell]))) == (verdict == "low")
    assert cell.to_row()["verdict"] == verdict


def test_splits_of_one_data_set_get_the_wider_band() -> None:
    rows = result_rows([0.85] * 10)
    own, shared = (summary.summarize(rows, independent=flag)[0] for flag in (True, False))
    assert own.verdict == "low"
    assert shared.verdict == "ok"


def test_thresholds_that_do_not_shrink_are_named() -> None:
    def cells(*thresholds: float) -> list[summary.Cell]:
        votes = (1, 5, 100)
        rows = [r for m, t in zip(votes, thresholds, strict=True) for r in result_rows([0.9], n_votes=m, threshold=t)]
        return summary.summarize(rows, independent=True)

    assert summary.shrinking(cells(0.9, 0.5, 0.5)) == (1, [])
    n_series, growing = summary.shrinking(cells(0.9, 0.4, 0.5))
    assert (n_series, growing[0]["thresholds"]) == (1, [0.9, 0.4, 0.5])
    assert "0.900, 0.400, 0.500" in "\n".join(tables.verdict_lines(cells(0.9, 0.4, 0.5)))


def test_estimate_of_the_published_way() -> None:
    """By hand: 2 runs with K = 3 and 1 with K = 10, 200 sets each, 2 levels."""
    rows = [r for alpha in (0.1, 0.2) for r in result_rows([0.9, 0.9], alpha=alpha)]
    rows += [r for alpha in (0.1, 0.2) for r in result_rows([0.9], alpha=alpha, n_classes=10)]
    cost = published.estimate(rows, seconds_per_run=4.0)
    assert cost["training"] == 12.0
    assert cost["membership"] == pytest.approx(2 * 200 * (0.0007 + 0.0041 + 1.116))
    assert cost["entropy"] == pytest.approx(2 * 200 * 2 * 0.106 + 200 * 2 * 1.893)


def test_tables() -> None:
    cells = summary.summarize(result_rows([0.9, 0.8]), independent=True)
    assert tables.to_csv(cells).splitlines()[0].startswith("experiment,part,n_classes")
    assert tables.plus_minus(cells[0], "coverage") == "0.850 ± 0.071"
    assert "| tv | 0.1 | 0.850 ± 0.071 |" in tables.full_table(cells)
    assert tables.lines(cells, 0.2) == []
    assert tables.lines(cells, 0.1)[0]["ok"] == "1/1"


@pytest.mark.slow
def test_theory_holds_in_every_cell(tmp_path: Path) -> None:
    """Three classes at full size, with fewer epochs: coverage in its band, truth covered, thresholds shrink."""
    settings = synthetic.settings() | {"classes": [3], "epochs": 30, "volume_sets": 5}
    batches = [one for one in synthetic.batches(settings, 10) if one.part == "first-order"]
    store = Store(tmp_path, settings)
    runner.run_all(batches, store, None)
    cells = summary.summarize(store.rows(batches), independent=True)
    assert len(cells) == 4 * 8 * 3
    assert [tables.name_of(cell) for cell in cells if cell.verdict != "ok"] == []
    plain = [cell for cell in cells if "normalized" not in cell.key["score"]]
    # A mean over seeds that sits exactly at the nominal level falls below it half the time: hence the band.
    short = [cell for cell in plain if cell.mean["coverage_true"] < cell.band[0]]
    assert [tables.name_of(cell) for cell in short] == []
    assert summary.shrinking(plain)[1] == []
