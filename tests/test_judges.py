"""Judges beside people: the alternative annotator test, comparisons, files and commands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import credalset as cs
from credalset.io.judged import read_judges
from credalset.judges import CONSTANT, POOL, _benjamini_yekutieli, alt_test, compare
from credalset.predictors import JudgePool

DATA = Path(os.environ.get("CREDALSET_DATA", "data")) / "alttest"
N = 300
CLASSES = ("no", "perhaps", "yes")
ITEMS = [f"t{i}" for i in range(N)]
RNG = np.random.default_rng(0)
TRUTH = RNG.dirichlet([0.4, 0.3, 0.5], N)
KINDS = np.where(RNG.random(N) < 0.5, "short", "long")


def drawn(truth: np.ndarray, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    codes = (rng.random(len(truth))[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    return [CLASSES[code] for code in codes]


PEOPLE = pd.DataFrame({f"p{j}": drawn(TRUTH, 10 + j) for j in range(4)}, ITEMS)
VOTES = cs.Annotations.from_wide(PEOPLE)
GOOD = TRUTH**2 / (TRUTH**2).sum(axis=1, keepdims=True)
JUDGES = pd.DataFrame(
    {
        "good": drawn(GOOD, 1),
        "noise": drawn(np.full((N, 3), 1 / 3), 2),
        "same as good": drawn(GOOD, 3),
    },
    ITEMS,
)


# --- the alternative annotator test ---


def slow_alt_test(
    people: np.ndarray, judge: np.ndarray, epsilon: float, positions: Any
) -> tuple[float, float]:
    """As the paper words it, item by item."""
    p_values, advantages = [], []
    for person in range(people.shape[1]):
        wins, losses = [], []
        for votes, said in zip(people, judge, strict=True):
            others = [v for j, v in enumerate(votes) if j != person and v >= 0]
            if votes[person] < 0 or not others or said < 0:
                continue

            def score(label: int, others: list[int] = others) -> float:
                if positions is None:
                    return float(np.mean([label == other for other in others]))
                off = [(positions[label] - positions[other]) ** 2 for other in others]
                return -float(np.sqrt(np.mean(off)))

            wins.append(score(said) >= score(votes[person]))
            losses.append(score(votes[person]) >= score(said))
        if len(wins) < 30:
            continue
        difference = np.array(losses, float) - np.array(wins, float)
        p_values.append(stats.ttest_1samp(difference, epsilon, alternative="less").pvalue)
        advantages.append(np.mean(wins))
    return _benjamini_yekutieli(np.array(p_values), 0.05) / len(p_values), np.mean(advantages)


@pytest.mark.parametrize("positions", [None, [0.0, 1.0, 3.0]])
def test_alt_test_equals_its_definition(positions: Any) -> None:
    rng = np.random.default_rng(0)
    people = np.array([[CLASSES.index(x) for x in row] for row in PEOPLE.to_numpy()])
    people[rng.random(people.shape) < 0.2] = -1
    people[270:, 3] = -1
    judge = np.array([CLASSES.index(x) for x in JUDGES["good"]])
    judge[rng.random(N) < 0.1] = -1
    found = alt_test(people, judge, 0.1, positions=positions)
    assert found is not None
    expected = slow_alt_test(people, judge, 0.1, positions)
    assert (found.winning_rate, found.advantage) == pytest.approx(expected)


def test_benjamini_yekutieli() -> None:
    p = np.array([0.001, 0.008, 0.039, 0.041, 0.2])
    adjusted = stats.false_discovery_control(p, method="by")
    assert _benjamini_yekutieli(p, 0.05) == (adjusted <= 0.05).sum()


def test_people_with_few_items_are_left_out() -> None:
    people = np.full((40, 2), -1)
    people[:29] = 1
    assert alt_test(people, np.ones(40, int)) is None


def read_task(task: str) -> tuple[Any, Any]:
    if not (DATA / task).exists():
        pytest.skip("needs the data of the alternative annotator test (CREDALSET_DATA)")
    people = json.loads((DATA / task / "human_annotations.json").read_text())
    models = json.loads((DATA / task / "llm_annotations.json").read_text())
    rows = [(item, who, label) for who, own in people.items() for item, label in own.items()]
    return models, cs.Annotations.from_table(rows)


@pytest.mark.data
@pytest.mark.parametrize("task", ["lgbteen", "framing", "summeval", "lesion"])
def test_published_results(task: str) -> None:
    """Table 2 of Calderon, Reichart and Dror (2025), to two digits."""
    models, votes = read_task(task)
    published = json.loads((DATA / "published.json").read_text())
    epsilon = published["epsilon"][task]
    is_rating = published["alignment"][task] == "-RMSE"
    labels = list(votes.classes or ())
    place = {item: row for row, item in enumerate(votes.items or ())}
    items, workers, codes = votes.ballots.codes.T  # type: ignore[union-attr]
    people = np.full((len(votes), len(votes.workers or ())), -1)
    people[items, workers] = codes
    for model, (winning_rate, advantage) in published["tasks"][task].items():
        choices = np.full(len(votes), -1)
        for item, label in models[model].items():
            if item in place:
                if label not in labels:
                    labels.append(label)
                choices[place[item]] = labels.index(label)
        positions = labels if is_rating else None
        found = alt_test(people, choices, epsilon, positions=positions)
        assert found is not None
        assert round(found.winning_rate, 2) == winning_rate
        assert found.advantage == pytest.approx(advantage, abs=0.0051)


# --- comparisons ---


@pytest.fixture(scope="module")
def found() -> Any:
    return compare(JUDGES, VOTES, kinds=KINDS, prices={"good": 0.02, "noise": 0.5})


def test_rows_of_judges_pool_and_constant(found: Any) -> None:
    rows = {row["judge"]: row for row in found.rows}
    assert list(rows) == ["good", "noise", "same as good", POOL, CONSTANT]
    share = VOTES.distributions
    codes = [CLASSES.index(label) for label in JUDGES["good"]]
    agreement = share[np.arange(N), codes].mean()
    assert rows["good"]["agreement"] == pytest.approx(agreement)
    assert rows["good"]["agreement"].low < agreement < rows["good"]["agreement"].high
    assert rows["good"]["log_loss"] < rows["noise"]["log_loss"]
    assert rows[POOL]["log_loss"] < rows["good"]["log_loss"]
    assert rows[CONSTANT]["beyond"] == 0.0
    assert rows["good"]["beyond"] > 0.1 > rows["noise"]["beyond"]
    assert rows["noise"]["without"].low < 0.01
    assert rows["good"]["without"].low > 0
    assert (rows["good"]["price"], rows[POOL]["price"]) == (0.02, None)
    assert found.keep == ("good", "same as good")


def test_people_agree_as_annotations_say(found: Any) -> None:
    expected = VOTES.agreement(n_resamples=0).percent
    assert found.people["agreement"] == pytest.approx(float(expected))


def test_constants_are_those_of_the_kind() -> None:
    votes = pd.DataFrame(0, ITEMS, CLASSES)
    votes.loc[KINDS == "short", "no"] = 3
    votes.loc[KINDS == "long", "yes"] = 3
    result = compare(JUDGES, votes, kinds=KINDS)
    assert result.rows[-1]["agreement"] == 1.0
    assert compare(JUDGES, votes).rows[-1]["agreement"] < 0.6
    assert any("who voted" in note for note in result.notes)
    assert result.rows[-1]["winning_rate"] is None


def test_confusions_and_kinds(found: Any) -> None:
    first = found.confusions[0]
    rows = np.flatnonzero(JUDGES[first["judge"]] == first["says"])
    label = CLASSES.index(first["people say"])
    assert first["share"] == pytest.approx(VOTES.distributions[rows, label].sum() / N)
    assert {row["kind"] for row in found.kinds} == {"short", "long"}
    assert len(found.kinds) == 10


def test_it_prints_and_turns_into_plain_values(found: Any) -> None:
    text = str(found)
    for part in ("good", POOL, CONSTANT, "Best alone", "±"):
        assert part in text
    json.dumps(found.to_dict())
    assert len(found.to_frame()) == 5


def test_a_constant_that_passes_is_said() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame(np.where(rng.random((N, 3)) < 0.93, "no", "yes"), ITEMS)
    judge = {"lazy": pd.Series(np.where(rng.random(N) < 0.9, "no", "yes"), ITEMS)}
    result = compare(judge, cs.Annotations.from_wide(people))
    assert "So does a constant" in result.summary
    assert "no better than a constant" in result.summary


def test_ratings_use_the_median_and_squares() -> None:
    rng = np.random.default_rng(0)
    level = rng.normal(size=N)
    people = {
        f"p{j}": np.clip(np.round(3 + level + 0.7 * rng.normal(size=N)), 1, 5) for j in range(3)
    }
    table = [
        (item, who, int(x))
        for who, own in people.items()
        for item, x in zip(ITEMS, own, strict=True)
    ]
    votes = cs.Annotations.from_table(table)
    judge = {"gpt": pd.Series(np.clip(np.round(3 + level), 1, 5).astype(int), ITEMS)}
    rated = compare(judge, votes)
    labelled = compare(judge, votes, ratings=False)
    assert rated.rows[0]["advantage"] > labelled.rows[0]["advantage"]
    assert rated.rows[0]["winning_rate"] == 1.0


def test_clusters_widen_intervals() -> None:
    cluster = np.repeat(np.arange(N // 10), 10)
    order = np.argsort(TRUTH[:, 0])
    cluster = cluster[np.argsort(order)]
    alone = compare(JUDGES[["good"]], VOTES).rows[0]["agreement"]
    together = compare(JUDGES[["good"]], VOTES, clusters=cluster).rows[0]["agreement"]
    assert together.high - together.low > 1.2 * (alone.high - alone.low)


def test_prices_of_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match="'claude'"):
        compare(JUDGES, VOTES, prices={"claude": 1.0})
    with pytest.raises(ValueError, match="epsilon"):
        compare(JUDGES, VOTES, epsilon=-1.0)


def test_picture(found: Any) -> None:
    pytest.importorskip("matplotlib")
    ax = cs.plotting.judges(found)
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "good"


# --- files ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three judges in one nested JSONL, one missing sometimes, and votes on a quarter."""
    lines = []
    for row, item in enumerate(ITEMS):
        judges: dict[str, Any] = {
            "gpt": {"probs": dict(zip(CLASSES, GOOD[row].round(6).tolist(), strict=True))},
            "claude": {"label": JUDGES["same as good"].iloc[row], "why": "because"},
        }
        if row % 3:
            judges["tiny"] = {"label": JUDGES["noise"].iloc[row]}
        lines.append(json.dumps({"id": item, "kind": str(KINDS[row]), "judges": judges}))
    (tmp_path / "answers.jsonl").write_text("\n".join(lines) + "\n")
    rows = ["task,worker,label"]
    rows += [f"{item},{who},{PEOPLE.loc[item, who]}" for item in ITEMS[: N // 4] for who in PEOPLE]
    (tmp_path / "votes.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_judges_are_found_in_nested_records(folder: Path) -> None:
    path = str(folder / "answers.jsonl")
    table = read_judges(path, extra={"kind": "kind"})
    assert list(table.answers) == ["gpt", "claude", "tiny"]
    np.testing.assert_allclose(table.answers["gpt"].loc["t5", list(CLASSES)], GOOD[5].round(6))
    assert table.answers["tiny"].isna().sum() == 100
    assert table.extra["kind"].tolist() == KINDS.tolist()
    named = read_judges(path, "a=judges.gpt.probs,b=judges.claude.label")
    assert list(named.answers) == ["a", "b"]
    votes = cs.Annotations.read(folder / "votes.csv")
    pool = JudgePool().fit(table.answers, votes, kinds=table.extra["kind"])
    assert pool.oof_.shape == (N, 3)


def test_columns_that_are_no_judges_are_refused(folder: Path) -> None:
    path = str(folder / "answers.jsonl")
    for spec, message in (
        ("a=judges.gtp.probs", "judges.gtp.probs"),
        ("a=judges.gpt", "several objects"),
        ("a=kind,a=id", "twice"),
        (",", "no judge"),
    ):
        with pytest.raises(ValueError, match=message):
            read_judges(path, spec)
    with pytest.raises(ValueError, match="kinds"):
        read_judges(path, extra={"kinds": "size"})
    flat = folder / "flat.csv"
    flat.write_text("id,gpt\nt1,yes\nt2,no\n")
    with pytest.raises(ValueError, match="--judges gpt=column"):
        read_judges(str(flat))
    assert read_judges(str(flat), "gpt").answers["gpt"].tolist() == ["yes", "no"]


def test_labels_by_judge_and_item(tmp_path: Path) -> None:
    path = tmp_path / "llm.json"
    path.write_text(json.dumps({judge: JUDGES[judge].to_dict() for judge in JUDGES}))
    table = read_judges(str(path))
    assert list(table.answers) == list(JUDGES)
    assert table.answers["good"]["t7"] == JUDGES.loc["t7", "good"]
    people = tmp_path / "people.json"
    people.write_text(json.dumps({who: PEOPLE[who].to_dict() for who in PEOPLE}))
    votes = cs.Annotations.read(people)
    assert votes.workers == tuple(PEOPLE)
    np.testing.assert_array_equal(votes.counts, VOTES.select(votes.items or ()).counts)


# --- commands ---


def command(*arguments: Any) -> int:
    pytest.importorskip("typer")
    from credalset.cli.app import main

    return main([str(argument) for argument in arguments])


def test_agree_with_judges(folder: Path, capsys: Any) -> None:
    votes, answers = folder / "votes.csv", folder / "answers.jsonl"
    assert command("agree", votes, "--judges", answers, "--kinds", "kind") == 0
    printed = capsys.readouterr().out
    assert "gpt" in printed
    assert CONSTANT in printed
    picture = folder / "judges.svg"
    spec = "a=judges.gpt.probs,b=judges.claude.label"
    more = ("--judges", spec, "--price", "a=0.01,b=0.1", "--plot", picture, "--json")
    assert command("agree", answers, votes, *more) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["judge"] for row in found["judges"]] == ["a", "b", POOL, CONSTANT]
    assert found["judges"][1]["price"] == 0.1
    assert picture.stat().st_size > 1000
    assert command("agree", votes, "--judges", "gpt=label") == 2
    assert command("agree", answers, votes, "--price", "gpt") == 2


def test_estimate_with_judges(folder: Path, capsys: Any) -> None:
    votes, answers = folder / "votes.csv", folder / "answers.jsonl"
    assert command("estimate", answers, votes, "--judges", "auto", "--kinds", "kind") == 0
    assert "yes" in capsys.readouterr().out
    arguments = ("--judges", "auto", "--groups", "kind", "--width", "0.2", "--json")
    assert command("estimate", answers, votes, *arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == 9
    assert found["items_needed"]["yes"] > 10
    for row in found["rows"]:
        assert row["lower"] <= row["value"] <= row["upper"]
    assert command("estimate", answers, votes, "--judges", "auto", "--ratings") == 2


def test_estimate_from_predictions(folder: Path, capsys: Any) -> None:
    table = pd.DataFrame(GOOD, ITEMS, CLASSES).rename_axis("task").assign(kind=KINDS)
    table.to_csv(folder / "predictions.csv")
    arguments = ("--groups", "kind", "--json", "--these")
    assert command("estimate", folder / "predictions.csv", folder / "votes.csv", *arguments) == 0
    found = json.loads(capsys.readouterr().out)
    expected = cs.estimate(
        table[list(CLASSES)],
        cs.Annotations.read(folder / "votes.csv"),
        population="these",
    )
    assert found["rows"][0]["value"] == pytest.approx(expected.value[0], abs=1e-6)
    assert found["population"] == "these"
