"""Tasks for Label Studio: what is written, and the round trip through the program itself."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.io.tasks import TaskItems, label_studio, read_task_items, write_label_studio

CLASSES = ["no & never", 'a "yes"']
PROGRAM = os.environ.get("LABEL_STUDIO", "label-studio")
ROWS = [
    {
        "uid": f"007-{row}",
        "the text": f"Text <{row}> & 'more' ä",
        "judges": {
            "gpt": {"probs": {CLASSES[0]: 0.3, CLASSES[1]: 0.7}},
            "mini": {"label": CLASSES[row % 2] if row else None},
        },
    }
    for row in range(4)
]


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def test_tasks_hold_texts_ids_and_what_judges_say(table: str) -> None:
    known = read_task_items(table, id="uid")
    assert (known.id, known.columns, list(known.answers)) == ("uid", ("the text",), ["gpt", "mini"])
    tasks, setup = label_studio(["007-2", "007-0"], CLASSES, known)
    assert tasks[0]["data"] == {"uid": "007-2", "the_text": "Text <2> & 'more' ä"}
    said = {each["model_version"]: each for each in tasks[0]["predictions"]}
    assert said["gpt"]["score"] == 0.7
    assert said["gpt"]["result"][0]["value"] == {"choices": [CLASSES[1]]}
    assert said["mini"]["result"][0]["value"] == {"choices": [CLASSES[0]]}
    assert [each["model_version"] for each in tasks[1]["predictions"]] == ["gpt"]
    view = ElementTree.fromstring(setup)
    shown = view.find("Text")
    choices = view.find("Choices")
    assert shown is not None
    assert choices is not None
    assert shown.attrib == {"name": "shown", "value": "$the_text"}
    assert [choice.attrib["value"] for choice in choices] == CLASSES
    for each in tasks[0]["predictions"]:
        assert each["result"][0]["from_name"] == choices.attrib["name"]
        assert each["result"][0]["to_name"] == choices.attrib["toName"] == shown.attrib["name"]


def test_judges_and_columns_may_be_named(table: str) -> None:
    known = read_task_items(table, id="uid", judges="gpt=judges.gpt.probs", shown=["the text"])
    assert list(known.answers) == ["gpt"]
    with pytest.raises(ValueError, match="no column 'other' to show"):
        read_task_items(table, id="uid", shown=["other"])


def test_without_a_table_tasks_show_names() -> None:
    tasks, setup = label_studio(["a"], ["x", "y"], TaskItems())
    assert tasks == [{"data": {"item": "a"}}]
    assert 'value="$item"' in setup


@pytest.mark.parametrize(
    ("items", "columns", "message"),
    [(["a", "b"], ("text",), "no row for 'b'"), (["a"], ("a b", "a_b"), "one name")],
)
def test_tasks_that_would_lose_something(
    items: list[str], columns: tuple[str, ...], message: str
) -> None:
    known = TaskItems("id", columns, {"a": ["x"] * len(columns)})
    with pytest.raises(ValueError, match=message):
        label_studio(items, ["x", "y"], known)


def test_answers_that_are_no_classes_are_no_predictions() -> None:
    frame = pd.DataFrame({"x": [0.2, np.nan], "y": [0.8, np.nan]}, ["a", "b"])
    known = TaskItems("id", (), {}, {"j": pd.Series(["z", "x"], ["a", "b"]), "p": frame})
    tasks, _ = label_studio(["a", "b", "c"], ["x", "y"], known)
    assert [len(task.get("predictions", [])) for task in tasks] == [1, 1, 0]


# --- the program itself: make label-studio ---


class Program:
    """A running Label Studio with one user, asked by its API."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.token = secrets.token_hex(20)
        environment = {
            **os.environ,
            "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "LATEST_VERSION_CHECK": "false",
            "COLLECT_ANALYTICS": "false",
        }
        command = [PROGRAM, "start", "--no-browser", "--port", str(port), "--data-dir", str(folder)]
        command += ["--username", "a@example.org", "--password", secrets.token_hex(8)]
        command += ["--user-token", self.token]
        self.log = (folder / "log.txt").open("w")
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )

    def wait(self, seconds: float = 900) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, "Label Studio has stopped: see its log.txt"
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=10):
                    return
            except OSError:
                time.sleep(2)
        pytest.fail("Label Studio does not answer")

    def ask(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or "null")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    if shutil.which(PROGRAM) is None:
        pytest.skip("needs Label Studio: make label-studio installs it, or name it: LABEL_STUDIO=…")
    folder = tmp_path / "data"
    folder.mkdir()
    running = Program(folder)
    try:
        running.wait()
        yield running
    finally:
        running.stop()


@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_the_round_trip(program: Program, table: str, tmp_path: Path) -> None:
    """Tasks are imported with their predictions, annotated, exported, and read as votes."""
    path = tmp_path / "tasks.json"
    names = [row["uid"] for row in ROWS]
    known = read_task_items(table, id="uid")
    setup = Path(write_label_studio(str(path), names, CLASSES, known)).read_text()
    project = program.ask("projects/", {"title": "round trip", "label_config": setup})["id"]
    program.ask(f"projects/{project}/import", json.loads(path.read_text()))
    tasks = program.ask(f"tasks/?project={project}&page_size=100&fields=all")["tasks"]
    assert sorted(task["data"]["uid"] for task in tasks) == names
    given = {}
    for task in tasks:
        row = int(task["data"]["uid"][-1])
        assert task["data"]["the_text"] == ROWS[row]["the text"]
        said = program.ask(f"predictions/?task={task['id']}")
        found = {each["model_version"]: each["result"][0]["value"]["choices"] for each in said}
        assert found["gpt"] == [CLASSES[1]]
        assert found.get("mini") == ([CLASSES[row % 2]] if row else None)
        given[task["data"]["uid"]] = CLASSES[row // 2]
        answer = {
            "from_name": "label",
            "to_name": "shown",
            "type": "choices",
            "value": {"choices": [CLASSES[row // 2]]},
        }
        program.ask(f"tasks/{task['id']}/annotations/", {"result": [answer]})
    export = tmp_path / "export.json"
    export.write_text(json.dumps(program.ask(f"projects/{project}/export?exportType=JSON")))
    table_of = cs.Annotations.read(export, task="data.uid").table
    assert dict(zip(table_of["task"], table_of["label"], strict=True)) == given
