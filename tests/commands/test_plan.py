"""`plan`: advice for every item from files, tasks to hand on, and the same from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from typer.testing import CliRunner  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from credalset.planning import outlook  # noqa: E402

CLASSES = ("no", "perhaps", "yes")
NAMES = [f"t{i}" for i in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibration, 60 predictions with costs, and votes on 50 of them."""
    home = tmp_path_factory.mktemp("plan")
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.8, 0.8, 0.8], 260)
    g = 0.7 * truth + 0.3 * rng.dirichlet([1, 1, 1], 260)
    cs.conformalize(g[:200], truth[:200], "kl", classes=CLASSES).save(home / "made")
    frame = pd.DataFrame(g[200:], columns=CLASSES)
    frame.insert(0, "task", NAMES)
    frame["price"] = np.linspace(1, 2, 60)
    frame.to_csv(home / "priced.csv", index=False)
    frame.drop(columns="price").to_parquet(home / "new.parquet")
    votes = rng.multinomial(3, truth[200:250])
    rows = [(NAMES[i], f"w{j}", CLASSES[k]) for i in range(50) for j, k in enumerate(np.repeat(np.arange(3), votes[i]))]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(home / "votes.csv", index=False)
    return home


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder, and with short simulations."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(outlook, "REPETITIONS", 3)
    monkeypatch.setattr(outlook, "BUDGETS", (1.0,))


def run(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["plan", "made", *words])
    assert result.exit_code == code, result.output
    return result


def test_items_with_and_without_votes_get_advice() -> None:
    result = run("new.parquet", "votes.csv", "--budget", "100", "-o", "plan.parquet", "--tasks", "tasks.csv")
    assert "60 items: " in result.stdout
    assert "alpha + delta = 0.11" in result.stdout
    assert "10 items without votes yet" in result.stderr
    table = pd.read_parquet("plan.parquet")
    assert list(table["task"]) == NAMES, "called as in the predictions"
    assert table["ask"].sum() <= 100
    assert list(table["votes"]) == [3] * 50 + [0] * 10
    tasks = pd.read_csv("tasks.csv")
    assert set(tasks["task"]) == set(table.loc[table["ask"] > 0, "task"])


def test_items_that_are_all_new_get_advice() -> None:
    """Nobody voted on any of them: the plan is that of `cs.plan` without votes."""
    frame = pd.read_parquet("new.parquet")
    frame.assign(task=[f"new{i}" for i in range(60)]).to_parquet("unseen.parquet")
    result = run("unseen.parquet", "votes.csv", "--budget", "50", "--most", "10", "-o", "unseen.csv")
    assert "no item is in both tables: 60 rows such as 'new0', 'new1', votes on 50 items" in result.stderr
    assert "Check the columns that name the items, unless all of them are new." in result.stderr
    assert "There are no votes to learn from" in result.stdout
    expected = cs.plan(cs.load("made"), frame[list(CLASSES)], budget=50, most=10)
    assert list(pd.read_csv("unseen.csv")["ask"]) == list(expected.ask)


def test_json_has_its_schema() -> None:
    found = json.loads(run("new.parquet", "votes.csv", "--budget", "20", "--json", "--most", "10").stdout)
    assert found["schema_version"] == 1
    assert found["kind"] == "plan"
    assert sum(found["actions"].values()) == 60
    assert found["mean_width"]["low"] <= found["mean_width"]["expected"] <= found["mean_width"]["high"]


def test_a_table_on_standard_output_is_nothing_but_the_table() -> None:
    result = run("new.parquet", "votes.csv", "--budget", "20", "-o", "-", "--out-format", "csv", "--most", "10")
    assert "60 items" in result.stderr
    assert len(result.stdout.splitlines()) == 61


def test_costs_come_from_a_column() -> None:
    run("priced.csv", "votes.csv", "--budget", "30", "--cost", "price", "-o", "priced.jsonl", "--most", "10")
    table = pd.read_json("priced.jsonl", lines=True)
    assert table["cost"].sum() <= 30 + 1e-9
    np.testing.assert_allclose(table["cost"], table["ask"] * np.linspace(1, 2, 60))


def test_the_python_that_is_shown_does_the_same() -> None:
    words = ["priced.csv", "votes.csv", "--budget", "30", "--cost", "price", "--most", "10", "--goal", "width"]
    run(*words, "-o", "one.csv", "--tasks", "one.jsonl")
    shown = run(*words, "-o", "two.csv", "--tasks", "two.jsonl", "--show-python").stdout
    exec(shown, {})
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    assert Path("one.jsonl").read_bytes() == Path("two.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "5", "--goal", "fame"], "goal must be 'label' or 'width'"),
        (["--budget", "5", "--compare", "luck"], "compare names 'luck'"),
        (["--budget", "5", "-o", "nowhere/plan.csv"], "there is no folder nowhere"),
        (["--budget", "5", "--tasks", "tasks.xlsx", "-o", "plan.csv"], "must end in .csv or .jsonl"),
        (["--budget", "5", "-o", "-", "--out-format", "csv", "--json"], "both write to standard output"),
        (["--budget", "5", "--delta", "2"], "delta must lie strictly between 0 and 1"),
    ],
    ids=["goal", "compare", "folder", "tasks", "json", "delta"],
)
def test_wrong_use_is_said_and_nothing_is_written(words: list[str], message: str) -> None:
    before = {path.name for path in Path().iterdir()}
    assert message in " ".join(run("new.parquet", "votes.csv", *words, code=2).stderr.split())
    assert {path.name for path in Path().iterdir()} == before
