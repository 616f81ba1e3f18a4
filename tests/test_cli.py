from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from credalset import __version__
from credalset.scores import REGISTRY

pytest.importorskip("typer", reason="commands need the extra 'cli'")

from typer.testing import CliRunner

from credalset.commands import app

FIRST_ORDER = [name for name, score in REGISTRY.items() if score.order == "first"]
HEADINGS = ["score", "alpha", "nominal", "coverage", "95% interval", "efficiency", "threshold", "empty"]
SMALL = ("--items", "90", "--votes", "20")


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def demo(out: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    """Run the demo; return what it printed and the rows it wrote."""
    result = invoke("demo", "--out", str(out), *options)
    assert result.exit_code == 0, result.output
    lines = (out / "sets.jsonl").read_text(encoding="utf-8").splitlines()
    return result.output, [json.loads(line, parse_constant=pytest.fail) for line in lines]


def table_lines(output: str) -> list[str]:
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("score"))
    return lines[start : next(i for i, line in enumerate(lines) if line.startswith("Wrote"))]


def test_demo_as_a_newcomer_runs_it(tmp_path: Path) -> None:
    """The whole command with its defaults in a process of its own: under a minute, coverage as promised."""
    start = time.monotonic()
    command = [sys.executable, "-W", "error", "-m", "credalset.cli", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert time.monotonic() - start < 60
    assert (done.returncode, done.stderr) == (0, "")
    assert "500 items each to train, calibrate, test" in done.stdout
    assert len((tmp_path / "demo-output" / "sets.jsonl").read_text().splitlines()) == 500 * len(FIRST_ORDER)
    rows = [line[12:].split() for line in table_lines(done.stdout)[2:] if line.strip()]
    assert len(rows) == 3 * len(FIRST_ORDER)
    for alpha, nominal, coverage, interval, *_ in rows:
        low, high = map(float, interval.split("-"))
        assert float(nominal) == pytest.approx(1 - float(alpha))
        assert low <= float(coverage) <= high
        assert abs(float(coverage) - float(nominal)) < 0.06, "four standard deviations for 500 and 500 items"


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    outputs = [demo(tmp_path / "a", "--seed", "3", *SMALL)[0] for _ in range(2)]
    first = (tmp_path / "a" / "sets.jsonl").read_bytes()
    assert outputs[0] == outputs[1]
    demo(tmp_path / "b", "--seed", "3", *SMALL)
    assert (tmp_path / "b" / "sets.jsonl").read_bytes() == first
    other, _ = demo(tmp_path / "c", "--seed", "4", *SMALL)
    assert table_lines(other) != table_lines(outputs[0])
    assert (tmp_path / "c" / "sets.jsonl").read_bytes() != first


def test_every_set_of_every_score_is_written(tmp_path: Path) -> None:
    output, rows = demo(tmp_path, *SMALL, "--alpha", "0.25")
    assert [(row["score"], row["set"]) for row in rows] == [(name, i) for name in FIRST_ORDER for i in range(30)]
    for row in rows:
        assert sum(row[f"prediction_{k}"] for k in range(3)) == pytest.approx(1.0)
        assert row["alpha"] == 0.25
        assert 0.0 <= row["efficiency"] <= 1.0
        assert row["threshold"] > 0.0
        assert (row["efficiency"] > 0.0) or row["empty"] or row["efficiency"] < 1e-3
    assert f"Wrote the 30 predicted sets of every score at alpha=0.25 to {tmp_path}" in output.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["sets.jsonl"]


def test_infinite_thresholds_are_null(tmp_path: Path) -> None:
    output, rows = demo(tmp_path, "--items", "30", "--alpha", "0.001")
    assert {row["threshold"] for row in rows} == {None}
    assert {row["efficiency"] for row in rows} == {1.0}
    assert "inf" in output


@pytest.mark.parametrize("columns", ["80", "40", "200"])
def test_table_is_whole_in_80_columns(columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    output, _ = demo(tmp_path, *SMALL)
    header, rule, *rows = table_lines(output)
    assert header.split("  ")[0].strip() == "score"
    assert [heading for heading in HEADINGS if heading not in header] == []
    assert set(rule) == {"-", " "}
    assert [row.split()[0] for row in rows if row[:1].strip()] == FIRST_ORDER
    assert "…" not in output
    assert max(map(len, table_lines(output))) <= 80


def test_odd_paths_are_printed_as_they_are(tmp_path: Path) -> None:
    output, _ = demo(tmp_path / "[bold]a:smile:", *SMALL)
    assert "[bold]a:smile:" in output.replace("\n", "")


def test_warnings_are_left_as_they_were(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        before = list(warnings.filters)
        demo(tmp_path, *SMALL)
        assert warnings.filters == before


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sets.jsonl").write_text("old")
    written: list[Any] = []

    def dumps(row: Any, **_: Any) -> str:
        written.append(row)
        if len(written) == 20:
            raise OSError("disk full")
        return ""

    monkeypatch.setattr(json, "dumps", dumps)
    assert isinstance(invoke("demo", "--out", str(tmp_path), *SMALL).exception, OSError)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("sets.jsonl", "old")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", "-1"), "--seed"),
        (("--seed", "one"), "--seed"),
        (("--items", "29"), "--items"),
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
    assert "ModuleNotFoundError: No module named 'sklearn'" in run_without("sklearn").stderr
