"""Whatever is wrong with a file: one sentence, the right exit code and no half-written result."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from typer.testing import CliRunner, Result  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from tests.commands import vote_rows  # noqa: E402

CLASSES = ["no", "perhaps", "yes"]
N = 120


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good files: predictions, votes, features, a calibration."""
    folder = tmp_path_factory.mktemp("files")
    data = cs.datasets.make_synthetic(N, n_votes=5, random_state=0)
    tasks = [f"t{i}" for i in range(N)]
    predictions = pd.DataFrame(0.9 * data.distributions + 0.1 / 3, columns=CLASSES)
    predictions.insert(0, "task", tasks)
    predictions.to_csv(folder / "predictions.csv", index=False)
    rows = vote_rows(tasks, data.counts, CLASSES)
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(folder / "votes.csv", index=False)
    features = pd.DataFrame(data.X, columns=[f"x{j}" for j in range(data.X.shape[1])])
    features.insert(0, "task", tasks)
    features.to_csv(folder / "features.csv", index=False)
    cs.conformalize(predictions[CLASSES], data.counts, "kl").save(folder / "calibration")
    return folder


Change = Callable[[Path], None]


def table(change: Callable[[pd.DataFrame], pd.DataFrame | None]) -> Callable[[str], Change]:
    """Change a CSV file as a data frame."""

    def for_file(name: str) -> Change:
        def apply(folder: Path) -> None:
            frame = pd.read_csv(folder / name)
            changed = change(frame)
            (frame if changed is None else changed).to_csv(folder / name, index=False)

        return apply

    return for_file


def text(content: str | bytes) -> Callable[[str], Change]:
    def for_file(name: str) -> Change:
        def apply(folder: Path) -> None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

        return apply

    return for_file


def set_cell(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[3, column] = value
        return frame

    return change


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


#: what is wrong, the change to the good files, and what the sentence must say
PREDICTION_FAULTS: dict[str, tuple[Change, str]] = {
    "missing file": (remove("predictions.csv"), "predictions.csv: no such file"),
    "empty file": (text("")("predictions.csv"), "predictions.csv is empty"),
    "header only": (text("task,no,perhaps,yes\n")("predictions.csv"), "predictions.csv"),
    "no id column": (table(lambda f: f.drop(columns="task"))("predictions.csv"), "no column 'task'"),
    "a class missing": (table(lambda f: f.drop(columns="yes"))("predictions.csv"), "'yes'"),
    "a class too many": (table(lambda f: f.assign(maybe=0.1))("predictions.csv"), "do not sum to one"),
    "text for numbers": (table(set_cell("no", "many"))("predictions.csv"), "must hold numbers"),
    "a missing number": (table(set_cell("no", None))("predictions.csv"), "no value in row 3"),
    "infinity": (table(set_cell("no", "inf"))("predictions.csv"), "NaN or infinity"),
    "a negative probability": (table(set_cell("no", -0.5))("predictions.csv"), "negative"),
    "rows that do not sum to one": (table(set_cell("no", 5.0))("predictions.csv"), "do not sum to one"),
    "logits without the flag": (table(lambda f: f.assign(no=f.no * 9))("predictions.csv"), "say --logits"),
    "an id twice": (table(set_cell("task", "t0"))("predictions.csv"), "more than once"),
    "an id missing": (table(set_cell("task", None))("predictions.csv"), "without an id"),
    "wrong delimiter": (
        lambda folder: text((folder / "predictions.csv").read_text().replace(",", ":"))("predictions.csv")(folder),
        "no column 'task'",
    ),
    "ragged rows": (text("task,no,perhaps,yes\nt0,1,0\n")("predictions.csv"), "not a readable csv file"),
    "not text at all": (text(bytes(range(256)) * 4)("predictions.csv"), "predictions.csv"),
    "other ids": (table(lambda f: f.assign(task="z" + f.task))("predictions.csv"), "no item is in both tables"),
}


FEATURE_FAULTS: dict[str, tuple[Change, str]] = {
    "missing file": (remove("features.csv"), "features.csv: no such file"),
    "empty file": (text("")("features.csv"), "features.csv is empty"),
    "header only": (text("task,x0,x1\n")("features.csv"), "features.csv"),
    "no id column": (table(lambda f: f.drop(columns="task"))("features.csv"), "no column 'task'"),
    "no features": (table(lambda f: f[["task"]])("features.csv"), "no columns with features"),
    "text for numbers": (table(set_cell("x0", "many"))("features.csv"), "must hold numbers"),
    "a missing number": (table(set_cell("x0", None))("features.csv"), "no value in row 3"),
    "an id twice": (table(set_cell("task", "t0"))("features.csv"), "more than once"),
    "an id missing": (table(set_cell("task", None))("features.csv"), "without an id"),
    "ragged rows": (text("task,x0,x1\nt0,1\n")("features.csv"), "not a readable csv file"),
    "not text at all": (text(bytes(range(256)) * 4)("features.csv"), "features.csv"),
    "other ids": (table(lambda f: f.assign(task="z" + f.task))("features.csv"), "no item is in both tables"),
}

VOTE_FAULTS: dict[str, tuple[Change, str]] = {
    "missing file": (remove("votes.csv"), "votes.csv"),
    "empty file": (text("")("votes.csv"), "votes.csv is empty"),
    "no label column": (table(lambda f: f.drop(columns="label"))("votes.csv"), "votes.csv"),
    "no task column": (table(lambda f: f.drop(columns="task"))("votes.csv"), "votes.csv"),
    "a label that no column has": (table(set_cell("label", "maybe"))("votes.csv"), "'maybe'"),
    "a missing label": (table(set_cell("label", None))("votes.csv"), "missing"),
    "other ids": (table(lambda f: f.assign(task="z" + f.task))("votes.csv"), "no item is in both tables"),
    "truncated JSON": (text('{"task": "t0", "wor')("votes.jsonl"), "votes.jsonl"),
    "truncated Parquet": (text(b"PAR1\x00\x01")("votes.parquet"), "votes.parquet"),
}


def run(folder: Path, *words: str) -> Result:
    before = os.getcwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(app, list(words))
    finally:
        os.chdir(before)


@pytest.fixture
def copy(files: Path, tmp_path: Path) -> Path:
    """The good files, to be spoiled."""
    for name in ("predictions.csv", "votes.csv", "features.csv"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    (tmp_path / "calibration").symlink_to(files / "calibration")
    return tmp_path


def assert_refused(result: Result, sentence: str, folder: Path, target: str) -> None:
    assert result.exit_code == 2, (result.output, result.exception)
    assert sum(line.startswith("error: ") for line in result.stderr.splitlines()) == 1, result.stderr
    assert sentence in result.stderr.replace("\n", " "), result.stderr
    assert "Traceback" not in result.output
    left = [name for name in os.listdir(folder) if name.startswith(target) or name.endswith(".part")]
    assert left == []


@pytest.mark.parametrize("fault", PREDICTION_FAULTS)
@pytest.mark.parametrize("command", ["calibrate", "check", "report", "plan"])
def test_bad_predictions(copy: Path, command: str, fault: str) -> None:
    spoil, sentence = PREDICTION_FAULTS[fault]
    spoil(copy)
    both = ["predictions.csv", "votes.csv"]
    words = {
        "calibrate": [*both, "-o", "made"],
        "check": ["calibration", *both],
        "report": ["calibration", *both, "-o", "made.html"],
        "plan": ["calibration", *both, "--budget", "5", "-o", "made.parquet"],
    }[command]
    result = run(copy, command, *words)
    if fault == "a class too many" and command != "calibrate":  # columns are found by the names of the classes
        assert result.exit_code == 0, result.output
        return
    if fault == "other ids" and command == "plan":  # all of them may be new
        assert (result.exit_code, sentence in result.stderr) == (0, True), result.output
        return
    # Only who does not know the classes yet can tell no more than that rows do not sum to one.
    assert_refused(result, sentence if command == "calibrate" else "", copy, "made")


@pytest.mark.parametrize("fault", FEATURE_FAULTS)
def test_bad_features(copy: Path, fault: str) -> None:
    spoil, sentence = FEATURE_FAULTS[fault]
    spoil(copy)
    assert_refused(run(copy, "fit", "features.csv", "votes.csv", "-o", "made"), sentence, copy, "made")


PREDICT_ONLY = [name for name in PREDICTION_FAULTS if name not in {"other ids", "an id twice", "an id missing"}]


@pytest.mark.parametrize("fault", PREDICT_ONLY)
def test_bad_input_of_predict(copy: Path, fault: str) -> None:
    spoil, _ = PREDICTION_FAULTS[fault]
    spoil(copy)
    result = run(copy, "predict", "calibration", "predictions.csv", "-o", "made.parquet")
    if fault in {"a class too many", "header only"}:  # found by name, a further column is none of our business
        assert result.exit_code == 0, result.output
        return
    assert_refused(result, "", copy, "made")


@pytest.mark.parametrize("fault", VOTE_FAULTS)
@pytest.mark.parametrize("command", ["import", "agree", "calibrate", "check", "report", "plan", "fit"])
def test_bad_votes(copy: Path, command: str, fault: str) -> None:
    spoil, sentence = VOTE_FAULTS[fault]
    spoil(copy)
    votes = sentence if sentence.startswith("votes.") and (copy / sentence).exists() else "votes.csv"
    words = {
        "import": ["import", votes, "-o", "made.parquet"],
        "agree": ["agree", votes, "--resamples", "0"],
        "report": ["report", "calibration", "predictions.csv", votes, "-o", "made.html"],
        "calibrate": ["calibrate", "predictions.csv", votes, "-o", "made"],
        "check": ["check", "calibration", "predictions.csv", votes],
        "plan": ["plan", "calibration", "predictions.csv", votes, "--budget", "5", "-o", "made.parquet"],
        "fit": ["fit", "features.csv", votes, "-o", "made"],
    }[command]
    matched = {"import": (), "agree": (), "fit": ("other ids",), "plan": ("a label that no column has",)}.get(
        command, ("other ids", "a label that no column has")
    )
    if fault in ("other ids", "a label that no column has") and fault not in matched:
        assert run(copy, *words).exit_code == 0  # nothing is wrong with these votes by themselves
        return
    assert_refused(run(copy, *words), sentence, copy, "made")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["calibrate", "predictions.csv", "votes.csv", "-o", "made", "--score", "kk"], "'kk' is unknown"),
        (["calibrate", "predictions.csv", "votes.csv", "-o", "made", "--noise", "loud"], "--noise must be one of"),
        (
            ["calibrate", "predictions.csv", "votes.csv", "-o", "made", "--groups", "side"],
            "--groups names the column 'side'",
        ),
        (["calibrate", "predictions.csv", "votes.csv", "-o", "nowhere/made"], "no folder nowhere"),
        (["calibrate", "predictions.csv", "votes.csv", "-o", "calibration"], "is there already"),
        (["predict", "votes.csv", "predictions.csv", "-o", "made.parquet"], "is no folder"),
        (["predict", "calibration", "predictions.csv", "-o", "made.xlsx"], "its format is not known"),
        (["predict", "calibration", "predictions.csv", "-o", "made.csv", "--ask", "size"], "no question"),
        (["predict", "calibration", "predictions.csv", "-o", "made.csv", "--alpha", "2"], "between 0 and 1"),
        (["predict", "calibration", "predictions.csv", "-o", "made.csv", "--workers", "2"], "a folder to write to"),
        (["predict", "calibration", "predictions.csv", "-o", "made/"], "not a readable Parquet file"),
        (["predict", "calibration", "-", "-o", "made.csv"], "its format is not known"),
        (["check", "votes.csv", "predictions.csv", "votes.csv"], "votes.csv"),
        (["fit", "features.csv", "votes.csv", "-o", "made", "--learner", "Oracle"], "'Oracle' is not known"),
        (["fit", "features.csv", "votes.csv", "-o", "made", "--calibration-size", "2.5"], "--calibration-size"),
    ],
)
def test_wrong_use(copy: Path, words: list[str], sentence: str) -> None:
    assert_refused(run(copy, *words), sentence, copy, "made")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written(copy: Path) -> None:
    (copy / "locked").mkdir(mode=0o500)
    result = run(copy, "calibrate", "predictions.csv", "votes.csv", "-o", "locked/made")
    assert_refused(result, "no permission", copy, "made")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nobody can create files")
@pytest.mark.parametrize(
    "words",
    [
        ["import", "votes.csv", "-o", "/proc/made.csv"],
        ["calibrate", "predictions.csv", "votes.csv", "-o", "/proc/made"],
        ["predict", "calibration", "predictions.csv", "-o", "/proc/made.parquet"],
        ["report", "calibration", "predictions.csv", "votes.csv", "-o", "/proc/made.html"],
    ],
    ids=lambda words: words[0],
)
def test_an_output_that_cannot_be_written_is_named_as_it_was_asked_for(copy: Path, words: list[str]) -> None:
    assert_refused(run(copy, *words), f"{words[-1]} cannot be written", copy, "made")


def start(folder: Path, *words: str, **more: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "credalset", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload]


def test_a_full_disk(copy: Path) -> None:
    """/dev/full refuses every byte."""
    command = f"{sys.executable} -m credalset predict calibration predictions.csv -o - --out-format csv > /dev/full"
    done = subprocess.run(command, shell=True, cwd=copy, capture_output=True, check=False)
    assert done.returncode == 2, done.stderr
    assert b"error: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_disk_that_fills_up(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's error says neither which file nor, in words of ours, what happened."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_batch", full)
    result = run(copy, "predict", "calibration", "predictions.csv", "-o", "made.parquet")
    assert_refused(result, "made.parquet: the disk is full. Nothing was left under that name.", copy, "made")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow)]
)
def test_interrupted_in_the_middle(copy: Path, number: signal.Signals, code: int) -> None:
    """Killed processes have a fast test of their own, `tests.tables.test_kill`."""
    header, rows = (copy / "predictions.csv").read_text().split("\n", 1)
    (copy / "big.csv").write_text(f"{header}\n" + rows * (400_000 // N))
    process = start(copy, "predict", "calibration", "big.csv", "-o", "made.parquet")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if any(part.stat().st_size > 1000 for part in copy.glob(".made.parquet.*.part")):
            break  # some rows are written, others are not
        time.sleep(0.01)
    process.send_signal(number)
    _, words = process.communicate(timeout=60)
    assert process.returncode == code, words
    assert not (copy / "made.parquet").exists()
    if number == signal.SIGINT:
        assert b"interrupted" in words
        assert b"Traceback" not in words
        assert list(copy.glob(".made*")) == []


def test_reading_can_stop_early(copy: Path) -> None:
    """`| head` closes the pipe; that is no error."""
    command = f"{sys.executable} -m credalset predict calibration predictions.csv -o - --out-format csv | head -n 1"
    done = subprocess.run(command, shell=True, cwd=copy, capture_output=True, check=False)
    assert done.stdout.startswith(b'"task"')
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr
