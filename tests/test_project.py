"""What the workflows, the package data and the changelog say must agree."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

import credalset

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "release_notes.py"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    for action in used:
        pinned = re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
        assert pinned or action.startswith("./"), f"{action} can change without a commit of ours"


def test_one_action_has_one_commit() -> None:
    text = "".join(workflow.read_text(encoding="utf-8") for workflow in WORKFLOWS)
    pins = set(re.findall(r"uses: (\S+)@([0-9a-f]{40})", text))
    assert len({action for action, _ in pins}) == len(pins)


def test_supported_versions() -> None:
    """CI runs every Python of the classifiers, from the oldest allowed, and CONTRIBUTING agrees."""
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    tested = re.search(r"python: \[(.*)\]", workflow)
    listed = [re.fullmatch(r".*:: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    pythons = [found[1] for found in listed if found]
    assert tested is not None
    assert re.findall(r"3\.\d+", tested[1]) == pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"Python {pythons[0]} to {pythons[-1]}" in contributing
    numpy = next(line for line in PROJECT["dependencies"] if line.startswith("numpy>="))
    assert f"NumPy {numpy.removeprefix('numpy>=')} or newer" in contributing


def test_release_notes_are_the_section(tool: dict[str, Any]) -> None:
    unreleased = "# Changelog\n\n## Unreleased\n\n- a\n\n"
    changelog = f"{unreleased}## 1.2.0 - 2026-01-02\n\n### New\n\n- b\n\n## 1.2\n\n- c\n"
    assert tool["section"](changelog, "1.2.0") == "### New\n\n- b"
    assert tool["section"](changelog, "1.2") == "- c"


@pytest.mark.parametrize("changelog", ["## 1.2.0 - x\n\n- a\n", "## 1.2 - x\n\n## 1.1\n\n- a\n"])
def test_no_release_without_notes(tool: dict[str, Any], changelog: str) -> None:
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md"):
        tool["section"](changelog, "1.2")


def test_the_version_is_one(tool: dict[str, Any]) -> None:
    tool["check_version"](ROOT, credalset.__version__)
    with pytest.raises(SystemExit, match="_version"):
        tool["check_version"](ROOT, credalset.__version__ + "1")
    with pytest.raises(SystemExit, match="tag"):
        tool["main"](credalset.__version__)
    assert tool["main"](f"v{credalset.__version__}")


def test_every_fault_can_be_put_in() -> None:
    """``make mutants`` tries them; a fault that no longer fits its file would stop it."""
    faults = runpy.run_path(str(ROOT / "tools" / "mutants.py"))["FAULTS"]
    package = Path(credalset.__file__).parent
    numbers = [
        (package / fault.file).read_text(encoding="utf-8").count(fault.right) for fault in faults
    ]
    assert [fault.title for fault, n in zip(faults, numbers, strict=True) if n != 1] == []
    files = {file for fault in faults for file in fault.tests.partition(" -k ")[0].split()}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []
