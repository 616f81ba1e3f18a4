"""``credalset demo``: the main job on built-in data, from a table of votes to a page, with the commands themselves."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console

from credalset._text import table_text
from credalset.commands import shared
from credalset.commands.check import COLUMNS, cells
from credalset.datasets import Messages, make_messages

ALPHAS = (0.05, 0.1, 0.2)
SCORES = ("kl", "tv", "ws", "inner")
PARTS = ("train", "calibration", "new")
N_FEATURES = 24
MARK = ".credalset-demo"  # a folder with this file in it is ours to write again
OWN_FILES = """\
credalset import export.json -o votes.csv             # any annotation tool
credalset agree votes.csv                             # do annotators agree?
credalset fit features.csv votes.csv -o model         # or, with predictions
                                                      # of your own model:
credalset calibrate predictions.csv votes.csv -o calibration
credalset predict calibration new.csv -o sets.parquet --alpha 0.1
credalset check calibration new.csv votes.csv
credalset report calibration new.csv votes.csv -o report.html
"""


@shared.guarded
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data.")] = 0,
    items: Annotated[int, typer.Option(min=90, help="Messages: a third each to train, calibrate and check.")] = 1500,
    votes: Annotated[int, typer.Option(min=1, help="Simulated annotators per message.")] = 30,
    alpha: Annotated[float, typer.Option(min=0.001, max=0.999, help="Miscoverage rate of the sets.")] = 0.1,
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for everything.")] = Path("demo-output"),
) -> None:
    """Go the whole way on invented messages, from votes to a page."""
    if math.isnan(alpha):
        raise typer.BadParameter("must be a number", param_hint="'--alpha'")
    data = make_messages(items, n_votes=votes, random_state=seed)
    make_directory(out)
    _clear(out)
    say = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
    with contextlib.chdir(out):
        _write_files(data)
        _introduce(say, data, out)
        _go(say, alpha)
        page = Path("report.html").resolve().as_uri()
    say.print(f"Open the page in a browser: {page}\n", style="bold")
    say.print("The same on your own files (credalset COMMAND --help tells more):\n", style="bold")
    say.print("".join(f"  {line}\n" for line in OWN_FILES.splitlines()), end="")


def _introduce(say: Console, data: Messages, out: Path) -> None:
    n_votes = data.labels.shape[1]
    counts = ", ".join(f"{n} {name}" for n, name in zip(data.counts[3], data.classes, strict=True))
    say.print(f"{len(data)} invented messages to a shop, and what {n_votes} annotators called each of them:\n")
    say.print(f"  {data.texts[3]}\n  ({counts})\n")
    say.print("votes.csv has one row per vote; train.parquet, calibration.parquet and")
    say.print(f"new.parquet have {N_FEATURES} numbers per message, as any encoder of texts gives them.\n")
    say.print(f"$ cd {shared.quoted(str(out))}", style="cyan")


def _go(say: Console, alpha: float) -> None:
    """Run one command after the other on the files in the current folder."""
    _heading(say, "1. Fit", "a model that predicts what annotators say. Skip this if you have one.")
    _run(say, "fit", "train.parquet", "votes.csv", "-o", "model")
    _run(say, "predict", "model", "calibration.parquet", "-o", "calibration-predicted.parquet", "--ask", "prediction")
    own = ("--ask", "prediction", "--keep", "text,channel")
    _run(say, "predict", "model", "new.parquet", "-o", "new-predicted.parquet", *own)

    _heading(say, "2. Calibrate", "on other messages, by four measures of how wrong a prediction is.")
    for score in SCORES:
        _run(say, "calibrate", "calibration-predicted.parquet", "votes.csv", "--score", score, "-o", f"by-{score}")

    made, new = f"by-{SCORES[0]}", "new-predicted.parquet"
    _heading(say, "3. Predict", "a credal set for each new message: what cannot be ruled out.")
    _run(say, "predict", made, new, "-o", "sets.parquet", "--alpha", f"{alpha:g}", "--keep", "text")

    _heading(say, "4. Check", "whether coverage holds on new messages, and how wide sets are.")
    levels = [word for level in ALPHAS for word in ("--alpha", f"{level:g}")]
    found = [_run(say, "check", f"by-{s}", new, "votes.csv", *levels, "--json") for s in SCORES]
    say.print(f"\n{_table(list(map(json.loads, found)))}\n")
    say.print("If the guarantee holds, observed coverage lies in its band 99 times in a hundred.")
    say.print("Width, and labels that can be the most probable one, are means: less is better.")

    _heading(say, "5. Report", "what to tell others, on one page.")
    words = ("--alpha", f"{alpha:g}", "--texts", "text", "--groups", "channel")
    _run(
        say, "report", made, new, "votes.csv", "-o", "report.html", *words, "--title", "Praise, question or complaint?"
    )
    say.print()


def _heading(say: Console, step: str, sentence: str) -> None:
    say.print(f"\n{step}", style="bold", end=" ")
    say.print(sentence)


def _run(say: Console, *words: str) -> str:
    """Run a command as a shell would, in this process, and show what it says but for notes and file names."""
    from credalset.commands import app

    say.print(f"$ credalset {shared.quoted(*words)}", style="cyan")
    said, printed, own = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["credalset", *words]  # the page tells which command made it
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            code = app(list(words), standalone_mode=False)
    finally:
        sys.argv = own
    if code not in (None, 0, shared.CHECK_FAILED):
        typer.echo(said.getvalue(), nl=False, err=True)
        raise typer.Exit(code)
    lines = [line for line in said.getvalue().splitlines() if not line.startswith(("note:", "Wrote"))]
    say.print("".join(f"  {line}\n" for line in lines), end="")
    return printed.getvalue()


def make_directory(path: Path) -> None:
    """Create the directory and see that files can be written there, before anything is computed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path).close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write into {path}: {error.strerror}", param_hint="'--out'") from None


def _clear(out: Path) -> None:
    """Remove what an earlier demo left; refuse a folder that holds anything else."""
    if any(out.iterdir()) and not (out / MARK).exists():
        raise typer.BadParameter(f"{out} holds files of yours; name an empty or a new folder", param_hint="'--out'")
    for path in out.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (out / MARK).touch()


def _write_files(data: Messages) -> None:
    """Write the votes, and features of three parts of the messages, into the current folder."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    encoder = make_pipeline(TfidfVectorizer(), TruncatedSVD(N_FEATURES, random_state=0))
    features = encoder.fit_transform(data.texts)
    _write("votes.csv", data.votes())
    third = len(data) // 3
    for i, part in enumerate(PARTS):
        rows = slice(i * third, (i + 1) * third)
        known = {} if part == "train" else {"text": data.texts[rows], "channel": data.channels[rows]}
        numbers = {f"x{k:02d}": column for k, column in enumerate(features[rows].T)}
        _write(f"{part}.parquet", {"task": data.items[rows], **known, **numbers})


def _write(path: str, columns: dict[str, Any]) -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict(columns)
    shared.write_table(path, None, batch.schema, [batch], "Writing")


def _table(checked: Sequence[dict[str, Any]]) -> str:
    lines: list[list[str]] = []
    for score, result in zip(SCORES, checked, strict=True):
        lines += [[""] * len(COLUMNS)] if lines else []
        lines += [["" if i else score, *cells(row)[:-1]] for i, row in enumerate(result["rows"])]
    return table_text(["score", *(name.split("_")[0] for name in COLUMNS[:-1])], lines, left=1)
