"""Code on README and the home page runs as it stands; every public name has an API entry;
word counts hold.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import json
import pydoc
import re
import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import credalset
from credalset import datasets
from credalset._batch import Batch
from credalset.calibration.base import ScoreCalibration
from credalset.calibration.noise import Noise
from credalset.calibration.thresholds import Thresholds
from credalset.scores import REGISTRY, Score
from credalset.sets import Geometry

ROOT = Path(__file__).parents[1]
PACKAGE = Path(credalset.__file__).parent
OUTPUT = "# →"
WIDEST = 90  # characters of a line of code that a page of ordinary width shows without scrolling


def run(code: str, names: dict[str, Any]) -> None:
    """Run statements one by one and compare what they print with the comments below them."""
    lines = code.split("\n")
    statements = ast.parse(code).body
    ends = [statement.lineno - 1 for statement in statements[1:]] + [len(lines)]
    for statement, end in zip(statements, ends, strict=True):
        below = [
            line.removeprefix(OUTPUT)
            for line in lines[statement.end_lineno : end]
            if line.startswith(OUTPUT)
        ]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), "page", "exec"), names)
        expected, flags = "\n".join([*below, ""]) if below else "", doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(expected, printed.getvalue(), flags), (
            f"{ast.unparse(statement)}\nprints\n{printed.getvalue()}"
        )


def test_code_to_copy() -> None:
    names: dict[str, Any] = {}
    found = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert found
    for block in found:
        assert ">>>" not in block, "prompts cannot be copied"
        assert max(map(len, block.split("\n"))) <= WIDEST, "lines are cut off"
        run(block, names)


def test_code_of_the_guides_fits_the_page() -> None:
    """Lines of more than 92 characters would be cut off beside the contents."""
    wide = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```(?:python|sh|bash)[^\n]*\n(.*?)```", text, re.DOTALL):
            lines = block.split("\n")
            if block.lstrip().startswith(">>>"):
                prompts = (">>> ", "... ")
                lines = [line.lstrip()[4:] for line in lines if line.lstrip().startswith(prompts)]
            wide += [f"{page.name}: {line}" for line in lines if len(line) > 92]
    assert not wide


def test_wrong_output_is_seen() -> None:
    with pytest.raises(AssertionError, match="prints"):
        run("print(1 + 1)\n# → 3\n", {})
    with pytest.raises(AssertionError, match="prints"):
        run("x = 2\nprint(x)\n", {})


CLASSES = {each.__name__: each for each in (Batch, Geometry, Noise, Score, Thresholds)}
CLASSES |= {"ScoreCalibration": ScoreCalibration}


def find_in_package(name: str) -> Any:
    """Return what ``module.thing``, or ``Class.method``, names."""
    parts = name.removeprefix("credalset.").split(".")
    found: Any = CLASSES.get(parts[0], credalset)
    if found is not credalset:
        parts = parts[1:]
    for part in parts:
        if isinstance(found, ModuleType) and not hasattr(found, part):
            found = import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)
    return found


def test_what_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    paths = {name for name in named if "/" in name or name.endswith(".py")}
    for path in paths:
        assert any((folder / path).exists() for folder in (ROOT, PACKAGE)), path
    dotted = {name for name in named - paths if re.fullmatch(r"[A-Za-z_]+(\.[A-Za-z_]+)+", name)}
    assert len(dotted) > 20
    for name in dotted:
        find_in_package(name)


def test_one_docstring_lists_the_scores() -> None:
    """Others refer to it, so that a new score is named in one place."""
    names = {f'``"{name}"``' for name in REGISTRY}
    assert all(name in credalset.get_score.__doc__ for name in names)
    listing = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                parts = (ast.get_docstring(node) or "").split("\n\n")
                if any(sum(name in part for name in names) > len(names) / 2 for part in parts):
                    listing.append(node.name)
    assert listing == ["get_score"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.parametrize("module", ["", "scores", "predictors", "metrics", "labels", "plotting"])
def test_every_public_name_is_on_an_api_page(module: str) -> None:
    """An entry of its own, or one for the module that defines it."""
    if module in ("predictors", "plotting"):
        pytest.importorskip({"predictors": "torch", "plotting": "matplotlib"}[module])
    pages = "\n".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")
    )
    entries = set(re.findall(r"^::: (\S+)", pages, re.MULTILINE))
    named = {entry.rpartition(".")[2] for entry in entries}
    home = getattr(credalset, module) if module else credalset
    public = getattr(home, "__all__", [name for name in dir(home) if not name.startswith("_")])
    objects = {name: getattr(home, name) for name in public}
    missing = [
        n
        for n, it in objects.items()
        if callable(it) and n not in named and it.__module__ not in entries
    ]
    assert not missing


# --- API pages ---

#: types of Python and of other packages in docstrings
OTHER_TYPES = {
    "None",
    "True",
    "False",
    "Path",
    "Generator",
    "Client",
    "Axes",
    "Figure",
    "Sequential",
    "RecordBatch",
    "Schema",
}


def api_entries() -> dict[str, Any]:
    """Return everything with an entry on an API page, and the methods shown with it."""
    found: dict[str, Any] = {}
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name, options in re.findall(r"^::: (\S+)\n((?: +.*\n)*)", text + "\n", re.MULTILINE):
            found[name] = entry = pydoc.locate(name)
            shown = re.search(r"members: (.*)", options)
            listed = (
                re.findall(r"\w+", shown[1])
                if shown
                else [n for n in dir(entry) if not n.startswith("_")]
            )
            for member in listed if inspect.isclass(entry) else ():
                method = getattr(entry, member, None)
                if callable(method) and str(getattr(method, "__module__", "")).startswith(
                    "credalset"
                ):
                    found[f"{name}.{member}"] = method
    return found


def documented(thing: Any, section: str) -> dict[str, str]:
    """Return the names in a section of a docstring, and their types."""
    doc = inspect.getdoc(thing) or ""
    part = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(\S.*)", part[1], re.MULTILINE) if part else []
    pairs = [line.partition(" : ")[::2] for line in lines]
    return {name.strip().lstrip("*"): kind for names, kind in pairs for name in names.split(",")}


def test_api_pages_describe_what_they_show() -> None:
    """Every parameter is described, and every type is public or of another package."""
    pytest.importorskip("torch"), pytest.importorskip("matplotlib")
    entries = api_entries()
    public, missing, internal = {name.rpartition(".")[2] for name in entries} | OTHER_TYPES, [], []
    for name, entry in entries.items():
        described = documented(entry, "Parameters")
        is_result = inspect.isclass(entry) and not described  # whose constructor is not shown
        if callable(entry) and not is_result:
            taken = [
                p
                for p in inspect.signature(entry).parameters
                if p not in ("self", "cls") and p[0] != "_"
            ]
            missing += [f"{name}({parameter})" for parameter in taken if parameter not in described]
        kinds = [
            *described.values(),
            *documented(entry, "Attributes").values(),
            *documented(entry, "Returns"),
        ]
        words = {word for kind in kinds for word in re.findall(r"\b[A-Z][a-z]+[A-Za-z]*\b", kind)}
        internal += [f"{name}: {word}" for word in words - public]
    assert not missing
    assert not internal


# --- console blocks ---


def demo_files(n_items: int = 2100) -> None:
    from credalset.cli.demo import MANY, _write_files

    _write_files(datasets.make_messages(n_items, n_votes=MANY, random_state=0))


def review_files() -> None:
    demo_files(1000)


def judge_files() -> None:
    """Write answers of three judges, and votes on two in five items, as the guide shows them."""
    n_items = 2000
    panel = datasets.make_judge_panel(n_items, n_votes=3, random_state=3)
    rng = np.random.default_rng(0)
    voted = rng.random(n_items) < 0.4
    best = panel.probabilities.argmax(axis=2)
    records = []
    votes = ["task,worker,label"]
    for row, item in enumerate(panel.items):
        shares = panel.probabilities[2, row].round(4).tolist()
        said: dict[str, Any] = {
            "gpt": {"probs": dict(zip(panel.classes, shares, strict=True))},
            "claude": {"label": panel.classes[best[1, row]]},
        }
        if rng.random() < 0.7:
            said["mini"] = {"label": panel.classes[best[0, row]]}
        about = {"id": item, "kind": str(panel.slices[row]), "text": f"text of {item}"}
        records.append(json.dumps(about | {"judges": said}))
        if voted[row]:
            votes += [f"{item},w{number},{panel.labels[row, number]}" for number in range(3)]
    Path("judged.jsonl").write_text("\n".join(records) + "\n", encoding="utf-8")
    Path("votes.csv").write_text("\n".join(votes) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "prepare"),
    [
        ("README.md", review_files),
        ("docs/cli.md", demo_files),
        ("docs/llm-judges.md", judge_files),
    ],
)
def test_console(page: str, prepare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands on the page run one after the other and say what is written below them."""
    from credalset.cli.app import main

    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("simulated numbers on the pages are those of current versions")
    monkeypatch.chdir(tmp_path)
    prepare()
    text = (ROOT / page).read_text(encoding="utf-8")
    console = "".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL))
    commands = re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", console, re.MULTILINE)
    assert commands
    for command, expected in commands:
        words, said = shlex.split(command), io.StringIO()
        if words[0] == "head":
            print(
                *Path(words[-1]).read_text(encoding="utf-8").splitlines()[: int(words[2])],
                sep="\n",
                file=said,
            )
        else:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                assert main(words[1:]) == 0, said.getvalue()
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        assert doctest.OutputChecker().check_output(expected, said.getvalue(), flags), (
            f"{command}\n{said.getvalue()}"
        )
