"""Whatever is wrong with a file or an option: one sentence, the right exit code,
no half-written result.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.tree import DecisionTreeClassifier

import credalset as cs
from credalset._files import taken
from credalset.cli import words
from credalset.cli.shared import visible
from tests.cli.conftest import Run
from tests.io.forging import BEGIN

Change = Callable[[Path], None]
TABLE = ["--columns", "no,perhaps,yes"]


def frame(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Change:
    return lambda path: change(pd.read_csv(path)).to_csv(path, index=False)


def cell(column: str, value: object) -> Change:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        table[column] = table[column].astype(object)
        table.loc[3, column] = value
        return table

    return frame(change)


def content(data: bytes) -> Change:
    return lambda path: path.write_bytes(data) and None  # type: ignore[func-returns-value]


#: a fault, and a word that the sentence has beside the name of the file
FAULTS: dict[str, tuple[Change, str]] = {
    "missing": (lambda path: path.unlink(), ""),
    "empty": (content(b""), ""),
    "header only": (content(b"task,no,perhaps,yes\n"), ""),
    "no id": (frame(lambda f: f.drop(columns="task")), "id"),
    "ragged": (content(b"task,no,perhaps,yes\nt0,1,0\n"), ""),
    "not text": (content(bytes(range(256)) * 4), ""),
    "truncated Parquet": (content(b"PAR1\x00\x01"), ""),
    "an id twice": (cell("task", "t160"), "task"),
}
PREDICTIONS = FAULTS | {
    "a class missing": (frame(lambda f: f.drop(columns="yes")), "yes"),
    "words": (cell("no", "many"), "no"),
    "negative": (cell("no", -0.5), ""),
    "not a distribution": (cell("no", 5.0), "columns"),
}
VOTES: dict[str, tuple[Change, str]] = {
    "missing": FAULTS["missing"],
    "empty": FAULTS["empty"],
    "no rows": (content(b"task,worker,label\n"), "no votes"),
    "no label": (frame(lambda f: f.drop(columns="label")), "label"),
    "no task": (frame(lambda f: f.drop(columns="task")), "task"),
    "an unknown label": (cell("label", "maybe"), "maybe"),
    "other items": (frame(lambda f: f.assign(task="z" + f.task)), "no item"),
    "truncated JSON": (content(b'{"task": "t0", "wor'), ""),
}


@pytest.mark.parametrize("fault", PREDICTIONS)
@pytest.mark.parametrize("command", ["calibrate", "predict"])
def test_bad_predictions(command: str, fault: str, files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    change, word = PREDICTIONS[fault]
    if command == "predict" and fault in ("an id twice", "header only"):
        pytest.skip("one set per row, however many there are and whatever they are called")
    change(files / "test.csv")
    words = {
        "calibrate": ["calibrate", "test.csv", "votes.csv", "-o", "result", *TABLE],
        "predict": ["predict", "made", "test.csv", "-o", "result"],
    }[command]
    said = run(
        *(w if w != "result" or command == "calibrate" else "result.csv" for w in words), code=2
    ).err
    assert word in said
    assert not list(files.glob("*result*"))


@pytest.mark.parametrize("fault", VOTES)
def test_bad_votes(fault: str, files: Path, run: Run) -> None:
    change, word = VOTES[fault]
    change(files / "votes.csv")
    said = run("calibrate", "calibration.csv", "votes.csv", "-o", "result", *TABLE, code=2).err
    assert word in said
    assert not list(files.glob("*result*"))


def test_null_rows_are_dropped_with_a_count(files: Path, run: Run) -> None:
    cell("no", None)(files / "calibration.csv")
    assert "1 row of" in run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE).err
    run("calibrate", "calibration.csv", "votes.csv", "-o", "strict", "--strict", *TABLE, code=2)


def test_rounded_predictions_are_renormalised(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "exact", *TABLE)
    frame(lambda f: f.round({"no": 3, "perhaps": 3, "yes": 3}))(files / "calibration.csv")
    run("calibrate", "calibration.csv", "votes.csv", "-o", "rounded", *TABLE)
    exact, rounded = (cs.load(name).threshold(0.1) for name in ("exact", "rounded"))
    assert rounded == pytest.approx(exact, rel=0.05)


def test_nested_probabilities(files: Path, run: Run) -> None:
    rows = pd.read_csv("calibration.csv")
    records = [
        {"task": r.task, "probs": {"no": r.no, "perhaps": r.perhaps, "yes": r.yes}}
        for r in rows.itertuples()
    ]
    pd.DataFrame(records).to_json("judge.jsonl", orient="records", lines=True, double_precision=15)
    run("calibrate", "judge.jsonl", "votes.csv", "-o", "nested")
    run("calibrate", "calibration.csv", "votes.csv", "-o", "flat", *TABLE)
    assert cs.load("nested").threshold(0.1) == pytest.approx(cs.load("flat").threshold(0.1))


def test_nothing_is_overwritten_unasked(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    assert (
        "--overwrite"
        in run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE, code=2).err
    )
    run(
        "calibrate",
        "calibration.csv",
        "votes.csv",
        "-o",
        "made",
        "--score",
        "tv",
        "--overwrite",
        *TABLE,
    )
    assert cs.load("made").score.name == "tv"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (
            ["calibrate", "calibration.csv", "votes.csv", "-o", "x", "--score", "nonsense"],
            "nonsense",
        ),
        (
            ["calibrate", "calibration.csv", "votes.csv", "-o", "x", "--noise", "nonsense"],
            "--noise",
        ),
        (["calibrate", "calibration.csv", "votes.csv", "-o", "no/such/folder"], "folder"),
        (["calibrate", "calibration.csv", "votes.csv", "-o", "x", "--futility", "0.1"], "--lead"),
        (
            ["calibrate", "calibration.csv", "votes.csv", "-o", "x", "--hold-out", "30"],
            "--hold-out",
        ),
        (["check", "nowhere", "test.csv", "votes.csv"], "nowhere"),
        (["import", "votes.csv", "-o", "x.csv", "--rename", "nonsense"], "--rename"),
        (["predict"], "calibration"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_options(words: list[str], name: str, files: Path, run: Run) -> None:
    before = set(files.iterdir())
    assert name in run(*words, code=2).err.lower()
    assert set(files.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--score", "wasserstein"], "--score 'wasserstein' is unknown. Did you mean 'ws'?"),
        (["--score", "KL"], "Did you mean 'kl'?"),
        (["--in-hand", "0,99"], "but --in-hand up to 99 needs 109"),
        (["--in-hand", "0,99"], "or set --method imputed"),
        (["--lead", "-1"], "--lead must be a finite number"),
        (["--id", "nothing"], "--id names the column 'nothing'"),
        (["--groups", "nothing"], "--groups names the column 'nothing'"),
    ],
)
def test_messages_name_options_of_the_command_line(
    options: list[str], sentence: str, files: Path, run: Run
) -> None:
    told = run("calibrate", "calibration.csv", "votes.csv", "-o", "x", *options, code=2).err
    assert sentence in told


def test_what_comes_next_can_be_typed(files: Path, run: Run) -> None:
    calibrate = ["calibrate", "calibration.csv", "votes.csv", "-o", "my sets", *TABLE]
    made = run(*calibrate, "--hold-out", "0.3")
    (line,) = [line for line in made.err.splitlines() if "credalset check" in line]
    check = shlex.split(line.partition(":  credalset ")[2])
    assert check[:2] == ["check", "my sets"]
    done = run(*check)
    assert "credalset report 'my sets' calibration.csv votes.csv --columns" in done.err
    assert "--votes-in-hand" not in done.err
    run(*calibrate, "--hold-out", "0.3", "--in-hand", "0", "--overwrite")
    assert "there is no --votes-in-hand" in run(*check, code=1).err  # few items are left to test


def test_verdicts_have_colours_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "accept   12   error at most 0.1, certified\nkl  0.1  valid  0.3\nerror: no"
    words.say(lines)
    assert capsys.readouterr().err == f"{lines}\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    words.say(lines)
    coloured = capsys.readouterr().err
    assert "\x1b[32mvalid\x1b[0m" in coloured
    assert "\x1b[1;31merror:" in coloured
    assert "\x1b[32maccept" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    words.say(lines)
    assert "\x1b[3" not in capsys.readouterr().err


def test_the_version(run: Run) -> None:
    assert run("--version").out == f"credalset {cs.__version__}\n"


def test_help_fits_a_screen(run: Run) -> None:
    lines = run("calibrate", "--help").out.splitlines()
    assert lines[0].startswith("Usage: credalset calibrate")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_control_characters_stay_off_the_terminal(files: Path, run: Run) -> None:
    frame(lambda f: f.assign(task="\x1b[31m" + f.task))(files / "votes.csv")
    assert (
        "\x1b"
        not in run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE, code=2).err
    )
    frame(lambda f: f.assign(label="\x1b[31m\u202e" + f.label))(files / "votes.csv")
    shown = run("agree", "votes.csv", "--n-resamples", 0).out
    assert "\\x1b[31m\\u202e" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    assert visible("\u061c\u200e\u200f\u2028\u2029").isascii()


@pytest.mark.parametrize("after", [0.0, 0.3, 0.6, 1.0, 1.5])
def test_interrupted_at_any_moment(after: float, files: Path) -> None:
    """Also while modules are imported: exit code 130, one line at most, nothing half-written."""
    command = [
        sys.executable,
        "-c",
        BEGIN,
        "calibrate",
        "calibration.csv",
        "votes.csv",
        "-o",
        "made",
        *TABLE,
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=files, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "begun\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 or (after > 0.0 and process.returncode == 0)
    assert "Traceback" not in said
    assert not [path for path in files.iterdir() if path.name.startswith(".")]


LOSES = {
    "finalizer": "class Last:\n    def __del__(self): ctrl_c()\nLast()",
    "import": "try:\n    ctrl_c()\nexcept BaseException:\n    pass",
    "text": "try:\n    exec('ctrl_c()')\nfinally:\n    raise SystemExit(0)",
}


@pytest.mark.parametrize("place", LOSES)
def test_an_interrupt_is_not_lost(place: str, tmp_path: Path) -> None:
    """Finalizers, compiled modules and event loops swallow exceptions;
    what is half-written is removed all the same.
    """
    body = (
        f"with _files.staged(pathlib.Path('table.csv')):\n{textwrap.indent(LOSES[place], '    ')}\n"
    )
    (tmp_path / "place.py").write_text(
        "import os, pathlib, signal, credalset.cli as cli, credalset.cli.app as app\n"
        "from credalset import _files\n"
        "def ctrl_c(): os.kill(os.getpid(), signal.SIGINT); os.getpid()\n"
        f"def main():\n{textwrap.indent(body, '    ')}    return 0\n"
        "app.main = main\n"
        "cli.run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "place"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        130,
        "error: interrupted; no file was left half-written.\n",
    )
    assert not list(tmp_path.glob(".*")) + list(tmp_path.glob("table*"))


@pytest.mark.parametrize("moment", ["start", "work"])
def test_interrupted_while_workers_start_or_work(moment: str, files: Path, run: Run) -> None:
    """Ctrl-C in a terminal goes to every process of the command."""
    pytest.importorskip("distributed")
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    table = pa.Table.from_pandas(pd.concat([pd.read_csv("test.csv")] * 20))
    parquet.write_table(table, "test.parquet", row_group_size=4)
    command = [
        sys.executable,
        "-m",
        "credalset",
        "predict",
        "made",
        "test.parquet",
        "-o",
        "sets/",
        "--workers",
        "2",
    ]
    process = subprocess.Popen(
        command, cwd=files, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    children = psutil.Process(process.pid).children
    while process.poll() is None and not (files / "sets" / "_parts").exists():
        time.sleep(0.05)
        if moment == "start" and len(children(recursive=True)) > 1:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "error: interrupted; no file was left half-written.\n"


def test_clusters_that_fail(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("credalset.io.dask.PATIENCE", 3.0)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    pd.read_csv("test.csv").to_parquet("test.parquet")
    said = run(
        "predict", "made", "test.parquet", "-o", "sets/", "--scheduler", "tcp://127.0.0.1:9", code=3
    ).err
    assert "127.0.0.1:9" in said


@pytest.mark.parametrize("where", [[], ["--workers", "1"]], ids=["here", "workers"])
def test_models_that_need_trust_go_to_folders(where: list[str], files: Path, run: Run) -> None:
    pytest.importorskip("distributed")
    table = pd.read_csv("features.csv").set_index("task")
    model = cs.ConformalCredalClassifier(DecisionTreeClassifier(max_depth=3))
    votes = cs.Annotations.read("votes.csv")
    model.fit(table[::2], votes.align(table[::2].index)).conformalize(
        table[1::2], votes.align(table[1::2].index)
    )
    model.save("model")
    pd.read_csv("new-features.csv").to_parquet("new.parquet")
    words = ["predict", "model", "new.parquet", "-o", "sets/", "--ask", "width", *where]
    assert "DecisionTreeClassifier" in run(*words, code=2).err
    run(*words, "--trusted", "sklearn.tree._classes.DecisionTreeClassifier,sklearn.tree._tree.Tree")
    sets = model.predict_set(pd.read_csv("new-features.csv").set_index("task"), 0.1)
    assert pd.read_parquet("sets").threshold.tolist() == sets.threshold.tolist()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "made")

    def full_without_a_name() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE, code=2).err
    assert "made: the disk is full" in said
    assert not (files / "made").exists()
    monkeypatch.setattr(os, "fsync", lambda _: full_without_a_name())
    assert "messages.csv: the disk is full" in run("demo", "--n-items", 300, code=2).err
    with monkeypatch.context() as patch:
        patch.setattr("credalset.cli.demo._write_files", lambda _: None)
        assert "votes.csv: no such file" in run("demo", "--n-items", 300, code=2).err, (
            "of a command in the demo"
        )
    with open("/dev/full", "w") as stdout:
        command = [sys.executable, "-m", "credalset", "agree", "votes.csv", "--n-resamples", "0"]
        done = subprocess.run(
            command, cwd=files, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, "standard output: the disk is full" in done.stderr) == (2, True)


def test_an_output_that_nobody_reads_any_more(files: Path, run: Run) -> None:
    """The exit code was 1, which means that a check failed."""
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    with gzip.open("many.csv.gz", "wt") as stream:
        stream.write("task,no,perhaps,yes\n")
        stream.write("".join(f"n{i},0.2,0.3,0.5\n" for i in range(40_000)))
    command = [sys.executable, "-m", "credalset", "predict", "made", "many.csv.gz", "-o", "-"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'"task"')
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_a_folder_that_another_process_writes(files: Path, run: Run) -> None:
    """Two jobs in one folder both ended with exit code 0, and mixed their parts."""
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    run("import", "test.csv", "--kind", "table", "-o", "test.parquet")
    Path("sets").mkdir()
    with taken(Path("sets")):
        for words in ([], ["--resume"]):
            said = run("predict", "made", "test.parquet", "-o", "sets/", *words, code=2).err
            assert f"is being written by process {os.getpid()} on" in said
    run("predict", "made", "test.parquet", "-o", "sets/")


def test_an_error_while_input_comes_in_ends_in_a_sentence(files: Path, run: Run) -> None:
    """Exit code 134, as Python aborts if a thread of Arrow reads while it shuts down."""
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    command = [sys.executable, "-m", "credalset", "predict", "made", "-", "-o", "sets.csv"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        rows = b"x,0.2,0.3,0.5\n" * 1000
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"task,no,perhaps,yes\nx,a,b,c\n" + 400 * rows)
            while True:
                process.stdin.write(rows)
                process.stdin.flush()
                time.sleep(0.0005)
        said = process.stderr.read().decode()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    assert process.returncode == 2, said
    assert said.count("\n") == 1, said
    assert "must hold numbers" in said
    assert not Path("sets.csv").exists()


def test_what_the_user_calls_like_an_option_is_not_taken_for_it(run: Run) -> None:
    """A folder ``out`` that was not there was called --out."""
    said = run("predict", "out", "new.csv", "-o", "sets.csv", code=2).err
    assert "out is not a folder" in said
    assert "--out" not in said
