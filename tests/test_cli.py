"""The program: the demo from end to end, options, exit codes, missing extras."""

from __future__ import annotations

import doctest
import re
import resource
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from credalset import __version__, load

pytest.importorskip("typer", reason="commands need the extra 'cli'")
parquet = pytest.importorskip("pyarrow.parquet", reason="the demo needs the extra 'tables'")

from typer.testing import CliRunner  # noqa: E402

from credalset.commands import app  # noqa: E402
from credalset.commands.demo import SCORES  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
SMALL = ("--items", "90", "--votes", "5")


def invoke(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, list(arguments), **options)


def demo(out: Path, *options: str) -> str:
    result = invoke("demo", "--out", str(out), *options)
    assert result.exit_code == 0, result.output
    return result.output


def rows_of_the_table(output: str) -> list[list[str]]:
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("score"))
    end = next(i for i, line in enumerate(lines) if line.startswith("If the guarantee"))
    return [line[6:].split() for line in lines[start + 2 : end] if line.strip()]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The whole command with its defaults, in a process of its own, in less than a minute of work."""
    folder, before = tmp_path_factory.mktemp("newcomer"), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "error", "-m", "credalset", "demo"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime < 60
    return done, folder / "demo-output"


def test_demo_as_a_newcomer_runs_it(newcomer: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, out = newcomer
    assert (done.returncode, done.stderr) == (0, "")
    rows = rows_of_the_table(done.stdout)
    assert len(rows) == 3 * len(SCORES)
    for alpha, observed, band, verdict, width, constant, labels in rows:
        low, high = map(float, band.split("-"))
        assert low <= float(observed) <= high
        assert low < 1 - float(alpha) < high
        assert verdict == "valid"
        assert 0 < float(width) < float(constant) < 2
        assert 0 < float(labels) <= 3
    assert f"Open the page in a browser: {(out / 'report.html').as_uri()}" in done.stdout
    assert "credalset report by-kl new-predicted.parquet votes.csv" in (out / "report.html").read_text()
    for command in ("import", "agree", "fit", "calibrate", "predict", "check", "report"):
        assert f"  credalset {command} " in done.stdout, "what to run on files of one's own"
    sets = parquet.read_table(out / "sets.parquet")
    assert sets.num_rows == 500
    assert sets.schema.names[:4] == ["task", "text", "alpha", "threshold"]
    assert len((out / "votes.csv").read_text().splitlines()) == 1 + 1500 * 30


def test_the_walk_in_the_documentation(
    newcomer: tuple[subprocess.CompletedProcess[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands on the page, run one after the other where the demo left its files, print what the page shows."""
    monkeypatch.chdir(newcomer[1])
    checker, shown = doctest.OutputChecker(), 0
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for command, expected in re.findall(r"^\$ credalset (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            result = invoke(*shlex.split(command))
            assert result.exit_code == 0, result.output
            assert checker.check_output(expected, result.output, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (
                f"{command}\n{result.output}"
            )
            shown += 1
    assert shown > 8


def test_every_command_shown_runs_in_a_shell(tmp_path: Path) -> None:
    """What the demo prints can be typed: in a copy of its files the same commands give the same results."""
    out = tmp_path / "demo"
    shown = [line[2:] for line in demo(out, *SMALL).splitlines() if line.startswith("$ credalset ")]
    assert len(shown) == 3 + 2 * len(SCORES) + 2
    again = tmp_path / "again"
    again.mkdir()
    for name in ("votes.csv", "calibration-predicted.parquet", "new-predicted.parquet"):
        (again / name).write_bytes((out / name).read_bytes())
    script = "\n".join(["set -e", f'credalset() {{ {sys.executable} -m credalset "$@"; }}', shown[3], shown[7]])
    subprocess.run(["bash", "-c", script], cwd=again, check=True, capture_output=True, timeout=600)
    assert (again / "sets.parquet").read_bytes() == (out / "sets.parquet").read_bytes()
    assert repr(load(again / "by-kl")) == repr(load(out / "by-kl"))


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    outputs = [demo(tmp_path / "a", "--seed", "3", *SMALL) for _ in range(2)]  # the second replaces the first
    assert outputs[0] == outputs[1]
    demo(tmp_path / "c", "--seed", "4", *SMALL)
    for name in ("votes.csv", "sets.parquet"):
        assert (tmp_path / "c" / name).read_bytes() != (tmp_path / "a" / name).read_bytes()


def test_the_demo_fits_in_80_columns_prints_odd_paths_and_leaves_things_as_they_were(tmp_path: Path) -> None:
    out = tmp_path / "[bold]a :smile:"
    with warnings.catch_warnings():
        before, folder, words = list(warnings.filters), Path.cwd(), list(sys.argv)
        printed = demo(out, *SMALL)
        assert warnings.filters == before
        assert (Path.cwd(), sys.argv) == (folder, words)
    assert f"$ cd '{out}'" in printed
    lines = printed.splitlines()
    own = [line for line in lines if not line.startswith(("$", "  ", "Open the page"))]
    assert max(map(len, own)) <= 80
    assert max(len(line) for line in lines if line.startswith("  credalset")) <= 80


def test_files_of_the_user_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "precious").write_text("mine")
    result = invoke("demo", "--out", str(tmp_path), *SMALL)
    assert result.exit_code == 2
    assert "holds files of yours" in " ".join(result.output.replace("│", " ").split())
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "precious"]


def test_a_command_that_fails_stops_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "model")

    monkeypatch.setattr("credalset.classifier.ConformalCredalClassifier.save", full)
    result = invoke("demo", "--out", str(tmp_path / "out"), *SMALL)
    assert result.exit_code == 2
    assert "error: model: the disk is full" in result.output
    assert "2. Calibrate" not in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", "-1"), "--seed"),
        (("--seed", "one"), "--seed"),
        (("--items", "89"), "--items"),
        (("--items", "1e3"), "--items"),
        (("--votes", "0"), "--votes"),
        (("--alpha", "0"), "--alpha"),
        (("--alpha", "1"), "--alpha"),
        (("--alpha", "nan"), "--alpha"),
        (("--nonsense",), "--nonsense"),
        (("extra",), "extra"),
    ],
    ids=" ".join,
)
def test_bad_options(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = invoke("demo", "--out", str(tmp_path / "out"), *options)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_output_that_is_a_file(out: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    result = invoke("demo", "--out", str(tmp_path / out))
    assert result.exit_code == 2
    assert "--out" in result.output
    assert (tmp_path / "file").read_text() == "precious"


def test_version_and_help() -> None:
    assert invoke("--version").output == f"credalset {__version__}\n"
    overview = invoke("--help")
    assert overview.exit_code == 0
    assert "demo" in overview.output
    listed = invoke("--help", terminal_width=80).output.partition("Commands:")[2].splitlines()
    assert [line for line in listed if line.endswith("...")] == [], "a command's line fits into 80 columns"
    options = invoke("demo", "--help").output
    assert [name for name in ("--seed", "--items", "--votes", "--alpha", "--out") if name not in options] == []
    assert "Usage" in invoke().output, "without a command it explains itself"
    assert invoke("nonsense").exit_code == 2


BLOCK_AND_RUN = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from credalset.cli import main
main()
"""


def run_without(package: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCK_AND_RUN, package]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_missing_extra(package: str) -> None:
    done = run_without(package)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"The credalset command needs the package {package!r}. Install it with: pip install 'credalset[cli]'\n"
    )


def test_other_missing_modules_are_not_explained_away() -> None:
    assert "ModuleNotFoundError: No module named 'scipy'" in run_without("scipy").stderr


@pytest.mark.parametrize(("typed", "expected"), [(["ch"], "check"), (["predict", "--al"], "--alpha")])
def test_shells_complete_commands_and_options(
    typed: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_CREDALSET_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(["credalset", *typed]))
    monkeypatch.setenv("COMP_CWORD", str(len(typed)))
    with pytest.raises(SystemExit):
        app(prog_name="credalset")
    assert capsys.readouterr().out.split() == [expected]
