"""``review`` and ``plan`` of a review: files in, queue, page, record and rule out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.cli import plan_review
from credalset.exceptions import CredalSetWarning
from tests.cli.conftest import Run
from tests.report.pages import data_of

N = 400
CLASSES = ["no", "perhaps", "yes"]


def write_votes(counts: np.ndarray, items: list[str], path: Path) -> None:
    rows = [
        {"task": item, "worker": f"w{number}", "label": label}
        for item, row in zip(items, counts, strict=True)
        for number, label in enumerate(np.repeat(CLASSES, row))
    ]
    pd.DataFrame(rows).to_csv(path, index=False)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pd.DataFrame, np.ndarray]:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    truth = generator.dirichlet(np.full(3, 0.3), N)
    counts = generator.multinomial(generator.integers(2, 5, N), truth)
    items = [f"t{i:03d}" for i in range(N)]
    p = pd.DataFrame(0.6 * truth + 0.4 * generator.dirichlet(np.ones(3), N), columns=CLASSES)
    p.insert(0, "ticket", items)
    p["says"] = [f"text of {item}" for item in items]
    p["channel"] = np.where(np.arange(N) % 2, "mail", "chat")
    p.to_csv("predictions.csv", index=False)
    write_votes(counts, items, Path("votes.csv"))
    return p, counts


def test_queue_page_plan_and_python_agree(table: tuple[pd.DataFrame, np.ndarray], run: Run) -> None:
    p, counts = table
    command = ["review", "predictions.csv", "votes.csv", "-o", "out", "--error", "0.3"]
    said = run(*command, "--id", "ticket", "--texts", "says").err
    assert "Certified: with probability at least 0.9" in said
    assert "Assumed: items are independent" in said
    queue = pd.read_csv("out/queue.csv")
    assert queue.columns[0] == "ticket"
    assert sorted(queue.ticket) == p.ticket.tolist()
    frame = p.set_index("ticket")[CLASSES]
    found = cs.review(frame, pd.DataFrame(counts, frame.index, CLASSES), error=0.3)
    assert found.to_frame().step.tolist() == queue.step.tolist()
    assert found.to_frame().item.tolist() == queue.ticket.tolist()
    assert found.to_frame().why.tolist() == queue.why.tolist()
    page = data_of(Path("out/report.html").read_text())
    shown = {
        name: page["queue"][code]
        for name, code in zip(page["name"], page["errors"][0]["step"], strict=True)
    }
    assert shown == dict(zip(queue.ticket, queue.step, strict=True))
    run("plan", "out", "-o", "tasks.csv")
    assert pd.read_csv("tasks.csv").ticket.tolist() == queue.ticket[queue.step == "ask"].tolist()
    run("plan", "out", "predictions.csv", "--id", "ticket", "--votes-in-hand", "votes.csv",
        "-o", "steps.csv")  # fmt: skip
    steps = pd.read_csv("steps.csv").set_index("ticket").step
    assert steps.to_dict() == queue.set_index("ticket").step.to_dict()


def test_new_items_get_the_stored_rule(table: tuple[pd.DataFrame, np.ndarray], run: Run) -> None:
    p, counts = table
    run("review", "predictions.csv", "votes.csv", "-o", "out", "--error", "0.3", "--id", "ticket")
    p.assign(ticket=[f"n{i}" for i in range(N)]).to_csv("new.csv", index=False)
    write_votes(np.minimum(counts, 1), [f"n{i}" for i in range(N)], Path("some.csv"))
    told = run("plan", "out", "new.csv", "--id", "ticket", "--votes-in-hand", "some.csv",
               "-o", "steps.csv", "--json")  # fmt: skip
    answer = json.loads(told.out)
    assert answer["steps"]["accept"] > 50
    assert answer["certified"].startswith("With probability at least 0.9")
    told_off = run("plan", "out", "new.csv", "--audit", 5, "-o", "x.csv", code=2).err
    assert "leave out the predictions" in told_off


def test_steps_of_new_items_say_which_are_certified(
    table: tuple[pd.DataFrame, np.ndarray], run: Run
) -> None:
    p, counts = table
    run("review", "predictions.csv", "votes.csv", "-o", "out", "--error", "0.3", "--id", "ticket")
    queue = pd.read_csv("out/queue.csv").set_index("ticket").certified
    most = int(counts.sum(axis=1).max())
    names = [f"n{i}" for i in range(N)]
    frame = p.assign(ticket=names)
    pd.concat([frame, p[:20]]).to_csv("new.csv", index=False)
    # One half has as many votes as were certified, the other has more.
    favourite = np.eye(3, dtype=int)[p[CLASSES].to_numpy().argmax(axis=1)]
    number = np.where(np.arange(N) < N // 2, most - 1, most + 2)
    write_votes(favourite * number[:, None], names, Path("many.csv"))
    said = run("plan", "out", "new.csv", "--id", "ticket", "--votes-in-hand", "many.csv",
               "-o", "steps.csv").err  # fmt: skip
    assert "the bound does not cover them" in said
    steps = pd.read_csv("steps.csv").set_index("ticket")
    assert (steps.step[names[N // 2 :]] == "accept").any()
    assert not steps.certified[names[N // 2 :]].any()
    few = steps.loc[names[: N // 2]]
    assert few.certified.any()
    assert (few.certified == (few.step == "accept")).all()
    old = p.ticket[:20].tolist()
    assert steps.certified[old].tolist() == queue[old].tolist()
    assert 0 < steps.certified[old].sum() < 20


def test_new_items_may_all_have_votes_for_one_class(
    table: tuple[pd.DataFrame, np.ndarray], run: Run
) -> None:
    p, _ = table
    run("review", "predictions.csv", "votes.csv", "-o", "out", "--error", "0.3", "--id", "ticket")
    p[:3].assign(ticket=["n0", "n1", "n2"]).to_csv("new.csv", index=False)
    write_votes(np.tile([0, 3, 0], (3, 1)), ["n0", "n1", "n2"], Path("so-far.csv"))
    run("plan", "out", "new.csv", "--id", "ticket", "--votes-in-hand", "so-far.csv",
        "-o", "steps.csv")  # fmt: skip
    assert pd.read_csv("steps.csv").votes.tolist() == [3, 3, 3]


def test_rounds_and_an_audit(table: tuple[pd.DataFrame, np.ndarray], run: Run) -> None:
    _, counts = table
    command = ["review", "predictions.csv", "votes.csv", "-o", "out", "--error", "0.4"]
    command += ["--id", "ticket", "--json"]
    first = json.loads(run(*command).out)
    assert first["n_certified"] == first["steps"]["accept"] > 0
    assert "holds a review already" in run(*command, code=2).err
    tasks = run("plan", "out", "--audit", 100, "-o", "audit.csv").err
    assert "100 to audit" in tasks
    audit = pd.read_csv("audit.csv")
    assert list(audit.columns) == ["ticket"]
    assert len(audit) == 100 + first["steps"]["ask"]
    run("plan", "out", "--audit", 100, "-o", "again.csv")
    assert pd.read_csv("again.csv").equals(audit)
    assert "drawn for this round" in run("plan", "out", "--audit", 50, "-o", "b.csv", code=2).err
    items = [f"t{i:03d}" for i in range(N)]
    bought = counts.copy()
    for name in audit.ticket:  # everybody repeats the majority
        row = items.index(name)
        bought[row, counts[row].argmax()] += 1
    write_votes(bought, items, Path("votes.csv"))
    second = json.loads(run(*command, "--overwrite").out)
    assert second["sentences"][0].startswith("Certified by audit")
    assert second["round"] == 2
    ask = pd.read_csv("out/queue.csv").query("step == 'ask'").ticket
    for name in ask:
        bought[items.index(name), 0] += 1
    write_votes(bought, items, Path("votes.csv"))
    third = json.loads(run(*command, "--overwrite").out)
    if len(ask):
        assert third["n_certified"] == 0
        assert third["sentences"][0].startswith("Not certified since round 2")


def test_texts_instead_of_predictions(table: tuple[pd.DataFrame, np.ndarray], run: Run) -> None:
    p, _ = table
    p[["ticket", "says"]].to_csv("texts.csv", index=False)
    said = run("review", "votes.csv", "--texts", "texts.csv", "--id", "ticket", "-o", "out",
               "--error", "0.4").err  # fmt: skip
    assert "one is trained on says as text" in said
    assert Path("out/model").is_dir()
    run("plan", "out", "texts.csv", "--id", "ticket", "-o", "steps.csv")
    run("review", "votes.csv", "-o", "shares", "--error", "0.4", "--use-votes", "all")
    assert not pd.read_csv("shares/queue.csv").certified.any()


def test_wrong_use_is_told_in_a_sentence(table: tuple[pd.DataFrame, np.ndarray], run: Run) -> None:
    review = ["review", "predictions.csv", "votes.csv", "--id", "ticket"]
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    more = pd.read_csv("predictions.csv")
    more.assign(length=7).to_csv("more.csv", index=False)
    for words, message in [
        (["review", "more.csv", *review[2:], "-o", "out"], "nobody voted for 'length'"),
        ([*review, "-o", "out", "--error", "2"], "--error must lie strictly between 0 and 1"),
        ([*review, "-o", "out", "--error", "few"], "--error must be numbers"),
        ([*review, "-o", "mine"], "holds other files"),
        ([*review, "-o", "nowhere/out"], "there is no folder"),
        ([*review, "-o", "out", "--previous", "mine"], "holds no record.json"),
        (["plan", "mine", "-o", "x.csv"], "was not written by credalset"),
        (["review", "votes.csv", "-o", "out", "--groups", "channel"], "name columns of"),
    ]:
        assert message in run(*words, code=2).err
    assert not Path("out").exists()


def test_lists_of_a_review_are_safe_in_a_spreadsheet(tmp_path: Path) -> None:
    rows = [{"item": "=1+1", "text": "=2", "votes": 3}, {"item": "0", "text": "", "votes": -2}]
    with pytest.warns(CredalSetWarning) as warned:
        plan_review._write(str(tmp_path / "ask.csv"), rows, ["item", "text", "votes"])
    said = " ".join(str(each.message) for each in warned)
    assert "1 text in" in said
    assert "1 id in" in said
    found = (tmp_path / "ask.csv").read_text()
    assert found == '"item","text","votes"\n"=1+1","\'=2",3\n"0",,-2\n'


def test_texts_may_be_repeated_but_not_differ(
    table: tuple[pd.DataFrame, np.ndarray], run: Run
) -> None:
    p, _ = table
    once = p[["ticket", "says"]]
    once.loc[once.index.repeat(2)].assign(row=range(2 * N)).to_csv("texts.csv", index=False)
    words = ["review", "votes.csv", "--texts", "texts.csv", "--id", "ticket", "-o", "out"]
    told = run(*words, "--columns", "says,row", code=2).err
    assert "Each item needs one row" in told
    told = run(*words, "--columns", "says", "--error", "0.4").err
    assert f"{N} rows of texts.csv that repeat what others say" in told
    assert sorted(pd.read_csv("out/queue.csv").ticket) == p.ticket.tolist()


def test_a_table_of_texts_must_not_hold_the_votes(
    table: tuple[pd.DataFrame, np.ndarray], run: Run
) -> None:
    votes = pd.read_csv("votes.csv")
    wide = votes.groupby("task").label.agg(["first", "last"]).reset_index()
    wide["first"] = wide["first"].str.upper() + " "
    wide["says"] = [f"text {place % 7}" for place in range(len(wide))]
    wide["rating"] = np.arange(len(wide)) % 3 / 2
    wide.to_csv("texts.csv", index=False)
    told = run("review", "votes.csv", "--texts", "texts.csv", "-o", "out", code=2).err
    assert "'first', 'last' of texts.csv hold labels" in told
    assert "--columns says,rating" in told
    votes.label = votes.label.map({"no": 1, "perhaps": 2, "yes": 3})
    votes.to_csv("numbers.csv", index=False)
    wide["first"] = votes.groupby("task").label.first().to_numpy() + 0.0
    wide.to_csv("texts.csv", index=False)
    told = run("review", "numbers.csv", "--texts", "texts.csv", "-o", "out", code=2).err
    assert "'first' of texts.csv hold labels" in told
