"""``credalset demo``: run the commands on built-in data."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from typer import Option

from credalset._display import table_text
from credalset._files import staged
from credalset.cli.app import main
from credalset.cli.shared import Seed
from credalset.crowd import VotingPolicy
from credalset.datasets import Messages, make_messages
from credalset.io.store import load

PARTS = ("train", "panel", "new")
FEW, MANY = 5, 30  # votes per message for training, and on the panel
IN_HAND = (0, 1, 2, 3, 5, 10)
ENDS = (0.08, 0.5, 1.0)  # where the parts end, as shares of the messages
MARK = ".credalset-demo"  # marks a folder that the demo may replace
OWN_FILES = """\
credalset import export.json -o votes.parquet              # any annotation tool
credalset agree votes.parquet                              # do annotators agree?
credalset calibrate predictions.csv votes.parquet -o calibration --in-hand 0,1,2,3 --hold-out 0.3
credalset predict calibration new.csv --votes-in-hand so-far.csv -o sets.parquet
credalset plan calibration new.csv --votes-in-hand so-far.csv -o tasks.csv
credalset check calibration predictions.csv votes.parquet  # is coverage as guaranteed?
credalset report calibration predictions.csv votes.parquet -o report.html"""


def demo(
    out: Annotated[Path, Option(file_okay=False, help="Folder for all files.")] = Path(
        "demo-output"
    ),
    n_items: Annotated[int, Option(min=300, help="Number of messages.")] = 2100,
    random_state: Seed = 0,
) -> None:
    """Run all commands on synthetic messages, from votes to a report."""
    _clear(out)
    data = make_messages(n_items, n_votes=MANY, random_state=random_state)
    say = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
    with contextlib.chdir(out):
        _write_files(data)
        example = (
            f"{data.texts[3]}\n  "
            f"({', '.join(f'{n} {c}' for n, c in zip(data.counts[3], data.classes, strict=True))})"
        )
        say.print(
            f"{n_items} synthetic messages to a shop, and what annotators call them:\n\n  "
            f"{example}\n"
        )
        say.print(
            f"Some train a model ({FEW} votes each), some are the panel ({MANY} votes "
            "each), and half are new."
        )
        say.print(f"$ cd {shlex.quote(str(out))}", style="cyan")
        _go(say)
        _show_item(say, data)
        _compare(say, data)
        say.print(
            f"\nOpen the report in a browser: {Path('report.html').resolve().as_uri()}\n",
            style="bold",
        )
    say.print("The same with your own files:\n", style="bold")
    say.print("".join(f"  {line}\n" for line in OWN_FILES.splitlines()), end="")


def _go(say: Console) -> None:
    """Run one command after the other on the files in the current folder."""
    _heading(
        say,
        "1. Fit",
        "a model that predicts what annotators say. If you have a model, skip this step.",
    )
    _run(say, "fit", "train.csv", "train-votes.csv", "-o", "model")
    _run(say, "predict", "model", "panel.csv", "-o", "panel-predicted.csv", "--ask", "prediction")
    keep = ("--ask", "prediction", "--keep", "text,channel")
    _run(say, "predict", "model", "new.csv", "-o", "new-predicted.csv", *keep)

    _heading(say, "2. Calibrate", "on the panel, for new messages with 0 to 10 votes.")
    numbers = ",".join(map(str, IN_HAND))
    _run(
        say,
        "calibrate",
        "panel-predicted.csv",
        "panel-votes.csv",
        "-o",
        "calibration",
        "--in-hand",
        numbers,
    )

    _heading(
        say,
        "3. Predict",
        "a credal set for each new message: without votes, and with three votes each.",
    )
    _run(say, "predict", "calibration", "new-predicted.csv", "-o", "sets.parquet")
    given = ("new-predicted.csv", "--votes-in-hand", "so-far.csv")
    _run(say, "predict", "calibration", *given, "-o", "sets-with-votes.parquet")

    _heading(say, "4. Plan", "which messages need another vote, and how many votes that will take.")
    _run(say, "plan", "calibration", *given, "-o", "tasks.csv", "--texts", "text")

    _heading(say, "5. Check and report", "on the other votes of the new messages.")
    held = ("new-predicted.csv", "later-votes.csv", "--votes-in-hand", "so-far.csv")
    say.print(_run(say, "check", "calibration", *held, "--alpha", "0.05,0.1,0.2"))
    words = ("--texts", "text", "--groups", "channel", "--title", "Praise, question or complaint?")
    _run(say, "report", "calibration", *held, "-o", "report.html", *words)


def _heading(say: Console, step: str, sentence: str) -> None:
    say.print(f"\n{step}", style="bold", end=" ")
    say.print(sentence)


def _run(say: Console, *words: str) -> str:
    """Run a command in this process, and return what it prints.

    What it says is shown, except notes and file names.
    """
    say.print(f"$ credalset {shlex.join(words)}", style="cyan")
    said = io.StringIO()
    printed = io.StringIO()
    own = sys.argv
    sys.argv = ["credalset", *words]  # the report names the command that made it
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            code = main(words)
    finally:
        sys.argv = own
    if code not in (0, 1):
        raise ValueError(said.getvalue().rpartition("error: ")[2].strip())
    lines = [
        line for line in said.getvalue().splitlines() if not line.startswith(("note:", "Wrote"))
    ]
    say.print("".join(f"  {line}\n" for line in lines), end="")
    return printed.getvalue()


def _show_item(say: Console, data: Messages) -> None:
    """Show how three votes change the set of one message."""
    import pyarrow.parquet as pq

    none, three = (
        pq.read_table(name).to_pandas() for name in ("sets.parquet", "sets-with-votes.parquet")
    )
    row = (
        none.filter(like="upper_").sum(axis=1) - three.filter(like="upper_").sum(axis=1)
    ).argmax()
    item = data.items.index(none.task[row])
    say.print(f"\nThree votes narrow the set of a message:\n\n  {data.texts[item]}\n", style="bold")
    lines = []
    for name, truth in zip(data.classes, data.distributions[item], strict=True):
        ends = (
            f"{sets[f'lower_{name}'][row]:.2f} - {sets[f'upper_{name}'][row]:.2f}"
            for sets in (none, three)
        )
        lines.append([name, *ends, f"{truth:.2f}"])
    say.print(table_text(["share of", "no votes", "three votes", "whole crowd"], lines, left=1))


def _compare(say: Console, data: Messages) -> None:
    """Show how many votes a policy saves against asking every item equally often."""
    import pandas as pd

    loaded: Any = load("calibration")
    classes = list(loaded.classes)
    predictions = pd.read_csv("new-predicted.csv", index_col="task")[
        [f"prediction_{name}" for name in classes]
    ]
    counts = pd.DataFrame(data.counts, data.items, data.classes).loc[predictions.index, classes]
    policy = VotingPolicy(loaded.crowd, lead=2.0, max_votes=15)
    rows = policy.compare(predictions.set_axis(classes, axis=1), counts, IN_HAND)
    lines = [
        [row["policy"], *(f"{row[name]:.2f}" for name in ("votes", "width", "decided"))]
        for row in rows
    ]
    say.print(
        "\nAsking until the majority is clear, against asking every message equally often:\n",
        style="bold",
    )
    say.print(table_text(["policy", "votes per message", "width", "one label left"], lines, left=1))


def _clear(out: Path) -> None:
    """Make the folder; remove what an earlier demo left, and refuse a folder with anything else."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / MARK).exists():
        raise ValueError(f"{out} holds other files. Name an empty or a new folder with --out.")
    for path in out.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (out / MARK).touch()


def _write_files(data: Messages) -> None:
    """Write messages and votes of the three parts into the current folder."""
    import pandas as pd

    ends = [0, *(round(share * len(data)) for share in ENDS)]
    for part, start, stop in zip(PARTS, ends, ends[1:], strict=False):
        rows = slice(start, stop)
        about = pd.DataFrame(
            {"task": data.items[rows], "text": data.texts[rows], "channel": data.channels[rows]}
        )
        _write(about.drop(columns=["channel"] if part == "train" else []), f"{part}.csv")
        names = {"train": {"train-votes.csv": (0, FEW)}, "panel": {"panel-votes.csv": (0, MANY)}}
        votes = names.get(part, {"so-far.csv": (0, 3), "later-votes.csv": (3, MANY)})
        for name, (first, last) in votes.items():
            labels = data.labels[rows, first:last]
            workers = data.workers[rows, first:last]
            tasks = np.repeat(np.array(data.items[rows]), last - first)
            votes_of = {"task": tasks, "worker": workers.ravel(), "label": labels.ravel()}
            _write(pd.DataFrame(votes_of), name)


def _write(frame: Any, name: str) -> None:
    with staged(Path(name)) as staging:  # which names the file if the disk is full
        frame.to_csv(staging, index=False)
