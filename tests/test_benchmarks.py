"""The benchmarks run, at sizes that say nothing about speed."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def answers():
    return load("answers")


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
    assert load("tables").main(["--quick", "--classes", "3", "--score", "tv"]) == 0
    printed = capsys.readouterr().out
    assert "processor time against the questions alone" in printed
    assert "memory at 2,000 rows against 500" in printed


@pytest.mark.slow
def test_millions_of_rows_are_scored_in_bounded_memory_and_time():
    """In a process of its own: a child's recorded peak is at least the size of its parent.

    A quarter of the rows is a million, as memory reaches its plateau only after some hundred
    thousand.
    """
    command = [sys.executable, str(BENCHMARKS / "tables.py"), "--rows", "4000000"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sizes_are_compared_with_the_paper(capsys):
    pytest.importorskip("torch")
    assert load("set_sizes").main(["--quick", "--no-volumes"]) == 0
    printed = capsys.readouterr().out
    assert "vs KL" in printed
    assert "intervals" in printed


def test_noise_models_cover_the_truth(capsys):
    assert load("noise").main(["--quick", "--scores", "brier"]) == 0
    printed = capsys.readouterr().out
    assert "FewVotes" in printed
    assert "every guarantee is kept" in printed


def test_every_table_of_answers_is_printed(answers, capsys, monkeypatch):
    monkeypatch.setattr(answers, "SCORES", ("tv", "ws"))
    monkeypatch.setattr(answers, "BRACKETED", ("ws",))
    assert answers.main(["--quick", "--no-probly"]) == 0
    printed = capsys.readouterr().out
    for title in (
        "Processor time in µs per set",
        "SLSQP",
        "batches of N sets",
        "Gaps of the smallest entropy",
    ):
        assert title in printed


@pytest.mark.parametrize("python", ["no-such-python", sys.executable])
def test_without_probly_it_says_so_and_goes_on(answers, python, capsys):
    version = "from importlib.metadata import version; version('probly')"
    if (
        python == sys.executable
        and answers.subprocess.run([python, "-c", version], check=False).returncode == 0
    ):
        pytest.skip("probly is installed here")
    answers.compare_with_probly(python, 2)
    assert "probly could not be run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["tv", "ws", "kl", "inner", "so", "density", "hellinger", "brier", "intervals"]
)
@pytest.mark.parametrize("n_classes", [3, 100])
def test_the_sets_hold_neither_nothing_nor_everything(answers, name, n_classes):
    sets = answers.make_sets(name, 50, n_classes)
    assert not sets.is_empty().any()
    assert not sets.contains([[1.0 / n_classes] * n_classes] * 50).any()


def test_the_benchmark_of_labels_keeps_its_guarantees(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CREDALSET_DATA", str(tmp_path))
    labels = load("labels")
    assert labels.main(["--quick", "--only", "K = 3"]) == 0
    printed = capsys.readouterr().out
    assert "credal kl, E-admissible" in printed
    assert "every guarantee is kept" in printed


def test_the_benchmark_of_conditional_calibration_covers_every_kind(capsys):
    assert load("conditional").main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert "thresholds that follow" in printed
    assert "every kind is covered" in printed


def test_accepted_labels_beside_one_label_and_an_oracle(capsys):
    act = load("act")
    if not act.is_here("clip"):
        pytest.skip("the third-party data are not here (CREDALSET_DATA)")
    assert act.main(["--quick", "--only", "clip"]) == 0
    assert "CIFAR-10H, CLIP | 1–3 | 0.05 | 900" in capsys.readouterr().out


@pytest.mark.slow
def test_accepted_labels_keep_the_error_on_panels():
    """By the votes of all annotators, on tables of 900 items."""
    act = load("act")
    for task in act.PANELS:
        if not act.is_here(task.data):
            pytest.skip("the third-party data are not here (CREDALSET_DATA)")
        errors = [act.review(task, 900, seed)["certified error"] for seed in range(20)]
        assert sum(error > task.error for error in errors) <= 5  # binomial(20, 0.1): 1 in 90
