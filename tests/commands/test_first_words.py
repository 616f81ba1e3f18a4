"""What people type first: other words for options and commands, and labels that need mending."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from typer.testing import CliRunner, Result  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from credalset.commands.hints import COMMANDS, OPTIONS  # noqa: E402
from credalset.commands.shared import split_pairs  # noqa: E402
from credalset.commands.wording import for_terminal  # noqa: E402

VOTES = """\
task;worker;label;stamp
a;1;low;02.01.2025 14:45
a;2;mid;02.01.2025 14:46
a;3;n/a;02.01.2025 14:47
b;1;hi;02.01.2025 14:48
b;2;high;02.01.2025 14:49
b;3;?;02.01.2025 14:50
c;1;low;01.02.2025 14:49
c;2;low;01.02.2025 14:49
"""
SCALE = ("--scale", "low,mid,high")
MENDED = (*SCALE, "--empty", "n/a,?", "--missing", "drop", "--rename", "hi=high")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text(VOTES)
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def error(*words: str) -> str:
    """The one sentence that a command says, whichever way typer breaks its lines."""
    return " ".join(run(*words, code=2).stderr.split())


# --- labels that need mending ---


def test_cells_that_mean_nothing_are_named_by_an_option(folder: Path) -> None:
    noted = run("agree", "votes.csv", "--resamples", "0").stderr
    assert "If it marks cells without a label, pass --empty '?,n/a' and --missing drop." in noted
    done = run("agree", "votes.csv", "--resamples", "0", "--json", *MENDED)
    assert json.loads(done.stdout)["n_votes"] == 6
    assert "left out: 2 without task, worker or label" in done.stderr


def test_labels_outside_of_a_scale_are_refused_with_a_remedy_or_dropped(folder: Path) -> None:
    told = error("agree", "votes.csv", "--resamples", "0", *SCALE)
    assert "3 value(s) that are not in --scale (first: 'n/a' in row 2, then" in told
    assert "Merge them with others (--rename), extend --scale, or pass --unknown drop to leave these rows out." in told
    done = run("agree", "votes.csv", "--resamples", "0", "--json", *SCALE, "--unknown", "drop")
    assert json.loads(done.stdout)["n_votes"] == 5
    assert "left out: 3 for other labels" in done.stderr
    assert "--unknown drop needs --scale" in error("agree", "votes.csv", "--unknown", "drop")
    assert "--unknown must be one of" in error("agree", "votes.csv", *SCALE, "--unknown", "skip")


def test_labels_are_merged_and_the_python_that_is_shown_does_the_same(folder: Path) -> None:
    commands = [
        ["agree", "votes.csv", "--resamples", "0", *MENDED],
        ["agree", "votes.csv", "--resamples", "0", *SCALE, "--rename", "hi=high,?=mid", "--unknown", "drop"],
    ]
    for words in commands:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(run(*words, "--show-python").stdout, {})
        assert printed.getvalue() == run(*words).stdout
    words = ["import", "votes.csv", *MENDED[2:], "--rename", "low=Low", "--tidy"]
    exec(run(*words, "-o", "one.csv", "--show-python").stdout, {})
    run(*words, "-o", "two.csv")
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()
    assert list(pd.read_csv(folder / "two.csv")["label"]) == ["low", "mid", "high", "high", "low", "low"]


def test_what_cannot_be_renamed(folder: Path) -> None:
    assert "--rename must say old=new, such as y=yes,n=no, but is 'hi'" in error("agree", "votes.csv", "--rename", "hi")
    assert "--rename names 'hy', which no label is called" in error("agree", "votes.csv", "--rename", "hy=high")
    assert split_pairs(["a=b,c=d", "e, f=g", ">=5=high"]) == {"a": "b", "c": "d", "e, f": "g", ">=5": "high"}
    assert "--rename must say old=new" in error("agree", "votes.csv", "--rename", "hi=high,low")


def test_a_label_that_the_predictions_lack_can_be_renamed(folder: Path) -> None:
    shares = pd.DataFrame(np.full((3, 3), 1 / 3), columns=["low", "mid", "high"]).assign(task=list("abc"))
    shares.to_csv("shares.csv", index=False)
    words = ("calibrate", "shares.csv", "votes.csv", "--empty", "n/a,?", "--missing", "drop")
    told = error(*words, "-o", "made")
    assert "Rename the columns, or labels as they are read: --rename hi=..." in told
    run(*words, "-o", "made", "--rename", "hi=high")
    assert cs.load("made").classes == ("low", "mid", "high")


@pytest.mark.parametrize("command", ["agree", "import"])
def test_times_that_nobody_understands_are_refused_alike(folder: Path, command: str) -> None:
    told = error(command, "votes.csv", "--time", "stamp", *(["-o", "x.csv"] if command == "import" else []))
    assert "--time must hold numbers, dates or ISO 8601 texts" in told
    assert "but holds '02.01.2025 14:45'. Write them as 2025-01-02T14:45. Leave --time out only if" in told
    assert not (folder / "x.csv").exists()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Odd. Pass empty=('', 'n/a', '?').", "Odd. Pass --empty 'n/a,?'."),
        ("Odd. Say rename={'maybe': ...}.", "Odd. Say --rename maybe=...."),
        ("Odd. Say rename={'a b': 'c', 'd': 'e'}.", "Odd. Say --rename 'a b=c,d=e'."),
    ],
)
def test_lists_and_mappings_become_words(message: str, said: str) -> None:
    assert for_terminal(message, ["empty", "rename"]) == said


# --- other words ---


def test_other_words_for_the_same_options(folder: Path) -> None:
    words = ("agree", "votes.csv", "--resamples", "0")
    same = run(*words, "--item", "task", "--annotator", "worker", "--sep", ";").stdout
    assert same == run(*words, "--task", "task", "--worker", "worker", "--delimiter", ";").stdout
    assert "--task, --item" in run("agree", "--help").stdout
    assert "--budget, --n-votes" in run("plan", "--help").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["evaluate", "x"], "There is no command 'evaluate'. Did you mean 'check'? Compare promised and observed"),
        (["conformalize"], "There is no command 'conformalize'. Did you mean 'calibrate'? Calibrate predictions of"),
        (["score"], "Did you mean 'predict'? Predict one credal set per row"),
        (["queue"], "Did you mean 'plan'? Say which items need more votes"),
        (["compare"], "Did you mean 'check'?"),
        (["agree", "v", "--ordinal"], "No such option: --ordinal. Did you mean --scale? The labels in their order"),
        (["predict", "c", "p", "--confidence", "0.9"], "Did you mean --alpha? Miscoverage rate: 0.1 asks for 90 %"),
        (["plan", "c", "p", "v", "--votes", "9"], "Did you mean --budget? What may be spent"),
        (["fit", "f", "v", "--text", "text"], "Did you mean --columns?"),
        (["report", "c", "p", "v", "--text", "text"], "Did you mean --texts?"),
        (["check", "a", "b", "p", "v"], "check takes one calibration, one table and one file of votes. To compare"),
        (["agree", "a", "b"], "extra argument"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_what_does_not_exist_is_told_what_is_meant(words: list[str], told: str) -> None:
    assert told in error(*words)


def test_hints_name_what_exists_and_nothing_that_does() -> None:
    helps = {name: run(name, "--help").stdout for name in COMMANDS}
    assert not {tried for others in COMMANDS.values() for tried in others} & set(COMMANDS)
    for option in OPTIONS:
        assert any(f"{option} " in text or f"{option}, " in text for text in helps.values()), option


def test_groups_of_a_fitted_model(folder: Path) -> None:
    data = cs.datasets.make_synthetic(240, n_votes=8, random_state=0)
    frame = pd.DataFrame(data.X).add_prefix("x").assign(task=[f"t{i}" for i in range(240)])
    frame["part"] = np.where(np.arange(240) % 2, "odd", "even")
    frame.to_csv("features.csv", index=False)
    rows = [(f"t{i}", j, f"c{k}") for i, row in enumerate(data.counts) for j, k in enumerate(np.repeat([0, 1, 2], row))]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv("many.csv", index=False)
    words = ("fit", "features.csv", "many.csv", "--groups", "part")
    run(*words, "-o", "model")
    exec(run(*words, "-o", "again", "--show-python").stdout, {})
    one, two = (cs.load(name).calibration_ for name in ("model", "again"))
    assert one.rule.groups.keys == two.rule.groups.keys
    assert set(one.rule.groups.keys) == {"even", "odd"}
    assert list(cs.load("model").feature_names_in_) == [name for name in frame if name.startswith("x")]
    run("predict", "model", "features.csv", "-o", "sets.csv", "--groups", "part")
    assert pd.read_csv("sets.csv")["threshold"].nunique() == 2
