"""``credalset demo``: review built-in data."""

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

from credalset._files import staged
from credalset.acting.steps import MEANS, STEPS
from credalset.cli.app import main
from credalset.cli.shared import Seed
from credalset.datasets import Messages, make_messages

PARTS = ("train", "panel", "new")
FEW, MANY = 5, 30  # votes per message for training, and on the panel
ENDS = (0.08, 0.5, 1.0)  # where the parts end, as shares of the messages
IN_HAND = 3  # votes on each message that is reviewed
ERROR = "0.15"
SHOWN = 2  # items of each step
MARK = ".credalset-demo"  # marks a folder that the demo may replace
OWN_FILES = """\
credalset import export.json -o votes.csv                  # any annotation tool
credalset agree votes.csv                                  # do annotators agree?
credalset review predictions.csv votes.csv -o review       # predictions of a model or judge
credalset review votes.csv --texts texts.csv -o review     # without: one is trained on the texts
credalset plan review -o tasks.csv                         # the items to ask
credalset plan review new.csv -o steps.csv                 # new items, by the same rule
credalset plan review --audit 200 -o tasks.csv             # to certify votes that were bought"""


def demo(
    out: Annotated[Path, Option(file_okay=False, help="Folder for all files.")] = Path(
        "demo-output"
    ),
    n_items: Annotated[int, Option(min=300, help="Number of messages.")] = 1000,
    random_state: Seed = 0,
) -> None:
    """Review synthetic messages with three votes each: where they all stand."""
    _clear(out)
    data = make_messages(n_items, n_votes=MANY, random_state=random_state)
    say = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
    with contextlib.chdir(out):
        _write_files(data)
        say.print(
            f"{n_items:,} synthetic messages to a shop, with {IN_HAND} votes each: praise, "
            "question or complaint?\n\n"
            f"  {data.texts[3]}\n  ({', '.join(data.labels[3, :IN_HAND])})\n"
        )
        say.print(f"$ cd {shlex.quote(str(out))}", style="cyan")
        _heading(say, "1. Review", "There is no model: one is trained on the texts.")
        words = ("--error", ERROR, "--title", "Praise, question or complaint?")
        _run(say, "review", "votes.csv", "--texts", "messages.csv", "-o", "review", *words)
        _show_queue(say, data)
        _compare(say, data)
        _heading(say, "2. Plan", "The messages to ask, one vote each.")
        _run(say, "plan", "review", "-o", "tasks.csv")
        page = Path("review/report.html").resolve().as_uri()
        say.print(
            f"\nThe queue: {out / 'review/queue.csv'}\nThe page, for a browser: {page}\n",
            style="bold",
        )
    say.print("The same with your own files:\n", style="bold")
    say.print("".join(f"  {line}\n" for line in OWN_FILES.splitlines()), end="")


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


def _show_queue(say: Console, data: Messages) -> None:
    """Show the first items of each step, and why they are there."""
    import pandas as pd

    queue = pd.read_csv("review/queue.csv")
    texts = dict(zip(data.items, data.texts, strict=True))
    for step in STEPS:
        say.print(f"\n{step}: {MEANS[step]}", style="bold")
        for row in queue[queue.step == step].head(SHOWN).to_dict("records"):
            say.print(
                f"  {texts[row['task']]}\n    {row['label']}, risk {row['risk']:.2f}. {row['why']}"
            )


def _compare(say: Console, data: Messages) -> None:
    """Compare accepted labels with the whole crowd, which is known for synthetic messages."""
    import pandas as pd

    queue = pd.read_csv("review/queue.csv").set_index("task")
    accepted = queue[queue.step == "accept"]
    if not len(accepted):
        return
    row = {name: number for number, name in enumerate(data.items)}
    column = {name: number for number, name in enumerate(data.classes)}
    rows = [row[name] for name in accepted.index]
    shares = data.distributions[rows, [column[name] for name in accepted.label]]
    say.print(
        f"\nThese messages are synthetic, so that the whole crowd is known: "
        f"{1.0 - float(shares.mean()):.1%} of it disagree with the accepted labels.\n"
    )


def _clear(out: Path) -> None:
    """Make the folder; remove what an earlier demo left, and refuse a folder with anything else."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / MARK).exists():
        raise ValueError(f"{out} holds other files. Name an empty or a new folder with --out.")
    for path in out.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (out / MARK).touch()


def _write_files(data: Messages) -> None:
    """Write what is reviewed, and parts for the commands about panels, into the current folder."""
    import pandas as pd

    _write(pd.DataFrame({"task": data.items, "text": data.texts}), "messages.csv")
    some = slice(0, IN_HAND)
    _write(_votes_of(data, slice(None), some), "votes.csv")
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
            _write(_votes_of(data, rows, slice(first, last)), name)


def _votes_of(data: Messages, rows: slice, some: slice) -> Any:
    """Return some of the votes on some of the messages as a long table."""
    import pandas as pd

    labels = data.labels[rows, some]
    tasks = np.repeat(np.array(data.items[rows]), labels.shape[1])
    workers = data.workers[rows, some].ravel()
    return pd.DataFrame({"task": tasks, "worker": workers, "label": labels.ravel()})


def _write(frame: Any, name: str) -> None:
    with staged(Path(name)) as staging:  # which names the file if the disk is full
        frame.to_csv(staging, index=False)
