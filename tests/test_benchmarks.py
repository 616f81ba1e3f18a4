"""The benchmarks run, at sizes that say nothing about speed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def geometry():
    path = list(sys.path)
    yield load("geometry")
    sys.path[:] = path


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_tables_of_any_length(capsys):
    pytest.importorskip("pyarrow")
    pytest.importorskip("typer")
    load("tables").main(["--rows", "2000", "--classes", "3", "--score", "tv", "--workers"])
    printed = capsys.readouterr().out
    assert "2,000  predict" in printed
    assert "memory at 2,000 rows against 200" in printed


@pytest.mark.slow
def test_ten_million_rows_are_scored_in_bounded_memory_and_time(capsys):
    missed = load("tables").main(["--workers"])
    assert missed == 0, capsys.readouterr().out


@pytest.fixture(scope="module")
def tiny(geometry):
    few = {3: 1}
    return geometry.Plan(
        classes=(3,),
        max_sets=4,
        round_seconds=0.0,
        repeats=1,
        slsqp_sets=few,
        probly_sets=few,
        probly_slow_sets=few,
        memory_sets=4,
        memory_classes=3,
    )


def test_every_table_is_printed(geometry, tiny, capsys):
    geometry.main(["--quick", "--no-probly"], tiny)
    printed = capsys.readouterr().out
    for title in ("Sets per second", "Targets", "SLSQP", "Peak memory"):
        assert title in printed
    assert "hellinger" in printed


def test_without_probly_it_says_so_and_goes_on(geometry, tiny, capsys):
    assert geometry.compare_with_probly(tiny, "no-such-python") == 0
    assert "probly could not be run" in capsys.readouterr().out


def test_a_python_without_probly_is_no_obstacle(geometry, tiny, capsys):
    version = "from importlib.metadata import version; version('probly')"
    if geometry.subprocess.run([sys.executable, "-c", version], capture_output=True, check=False).returncode == 0:
        pytest.skip("probly is installed here")
    assert geometry.compare_with_probly(tiny, sys.executable) == 0
    assert "probly could not be run" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["tv", "ws", "kl", "inner", "so", "hellinger"])
@pytest.mark.parametrize("n_classes", [3, 10, 100])
def test_the_sets_hold_neither_nothing_nor_everything(geometry, name, n_classes):
    sets = geometry.make_sets(name, 50, n_classes)
    uniform = [[1.0 / n_classes] * n_classes] * 50
    assert not sets.is_empty().any()
    assert not sets.contains(uniform).any()


@pytest.mark.parametrize(("value", "text"), [(0.113, "0.113"), (41, "41"), (999.9, "1k"), (1.25e6, "1.25M")])
def test_counts_have_three_digits_and_a_unit(geometry, value, text):
    assert geometry.count(value) == text


def test_the_benchmark_of_noise_keeps_its_promises(capsys):
    noise = load("noise")
    words = "--classes 2 --votes 3 --scores brier --items 100 --predictors good --repetitions 1 --columns plain average"
    assert noise.main(words.split()) == 0
    printed = capsys.readouterr().out
    assert "every promise kept" in printed
    assert "longest calibration, seconds:  plain" in printed


def test_the_benchmark_of_labels_keeps_its_promises(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CREDALSET_DATA", str(tmp_path))
    labels = load("labels")
    assert labels.main(["--quick", "--only", "K = 3"]) == 0
    printed = capsys.readouterr().out
    assert "credal kl, E-admissible" in printed
    assert "every promise kept" in printed


def test_the_benchmark_of_conditional_calibration_covers_every_kind(capsys):
    assert load("conditional").main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert "thresholds that follow" in printed
    assert "every kind is covered" in printed
