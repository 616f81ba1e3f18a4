"""Break things at random and count what happens.

Kills, forgeries, full disks, lost workers (``make faults``). ``python tools/faults.py workers``
runs the rows whose names hold one of the words.

The fast tests try every step once; this tries many at random. It prints a Markdown table of trials
and outcomes and leaves with exit code 1 if an outcome is not one of those that are promised.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import Table, parquet
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import credalset as cs
from credalset import _files
from credalset.cli.app import main
from credalset.exceptions import ClusterError, FileFormatError
from credalset.io.dask import local_cluster, score_parquet
from credalset.io.tables import read_table
from credalset.votes.files import read_vote_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.io.forging import BEGIN, calibrate, classify, forge, forge_arrays, leaves, put

DATA = cs.datasets.make_synthetic(400, n_votes=20, random_state=0)
CLASSES = ["no", "perhaps", "yes"]
WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    10**8,
    10**400,
    1.5,
    1e300,
    "",
    "x",
    [],
    ["x"],
    {},
    {"x": 1},
    [[]] * 9,
]
WRONG += [
    {"array": "scores"},
    {"float": "nan"},
    {"fraction": [1, 0]},
    {"texts": ["a"]},
    {"list": [1]},
    {"skops": "x"},
]
PROMISED = {
    "old",
    "new",
    "nothing",
    "whole copy named",
    "refused",
    "legal",
    "one sentence that names the file",
}
PROMISED |= {"the same bytes", "the same bytes after --resume", "exit 130", "finished before"}
PROMISED |= {"one writes, the other is refused", "one after the other"}
PROMISED |= {"every item in both tables", "all fields", "one sentence that names the field"}
OUTCOMES = """After a kill, the older result (`old`), the new one (`new`) or,
if there was none before, `nothing` is there, and nothing else. A forged folder is `refused` with
`FileFormatError`, or its values are `legal`: they could have been saved."""


# --- children ---


class Child:
    """A forked process that runs a function, and what it returned as text."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                said = str(work())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said[:500].encode(errors="replace"))
            os._exit(0)
        os.close(writing)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code, and what the function returned."""
        with os.fdopen(self.reading, errors="replace") as stream:
            said = stream.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), said


def in_child(work: Callable[[], Any], kill_after: float | None = None) -> tuple[int, str]:
    """Run a function in a forked process and perhaps kill it.

    Return its exit code and what it returned, as text.
    """
    child = Child(work)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child.pid, signal.SIGKILL)
    return child.end()


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    in_child(work)
    return time.perf_counter() - start


def _run(line: str) -> Callable[[], int]:
    return lambda: main(line.split())


def contents(path: Path) -> Any:
    """The bytes of a file, or of a folder without what is hidden; None if there is nothing."""
    if path.is_dir():
        return {
            file.name: file.read_bytes()
            for file in path.iterdir()
            if file.is_file() and file.name[0] != "."
        }
    return path.read_bytes() if path.exists() else None


# --- trials ---


def kill_saves(folder: Path, n: int, chance: random.Random, exchange: bool) -> Iterator[str]:
    """Kill -9 at a random moment of a save over an older object."""
    old = calibrate("kl")
    new = calibrate("ws")
    path = folder / "saved"
    possible = _files._exchange
    _files._exchange = possible if exchange else lambda one, other: False
    old.save(path)
    longest = max(_seconds(lambda: new.save(path)) for _ in range(3))
    for _ in range(n):
        old.save(path)
        in_child(lambda: new.save(path), chance.uniform(0, longest))
        try:
            yield {"kl": "old", "ws": "new"}[cs.load(path).score.name]
        except FileNotFoundError as error:
            copy = Path(str(error).partition("whole copy is ")[2].partition(": rename")[0])
            yield "whole copy named" if cs.load(copy).score.name in ("kl", "ws") else "LOST"
        except FileFormatError:
            yield "DAMAGED"
    old.save(path)
    _files._exchange = possible
    yield from ["LEFTOVERS"] * len([file for file in folder.iterdir() if file.name != "saved"])


def write_job(folder: Path) -> None:
    """Tables of a small job and a calibration, in what becomes the current folder."""
    os.chdir(folder)
    items = [f"t{i}" for i in range(400)]
    table = pd.DataFrame(DATA.distributions, columns=CLASSES)
    table.insert(0, "task", items)
    table[:200].to_csv(folder / "calibration.csv", index=False)
    table[200:].to_csv(folder / "test.csv", index=False)
    parquet.write_table(Table.from_pandas(table[200:]), folder / "test.parquet", row_group_size=10)
    item, label = np.nonzero(DATA.counts)
    long = pd.DataFrame({"task": np.array(items)[item], "label": np.array(CLASSES)[label]})
    long = long.loc[long.index.repeat(DATA.counts[item, label].astype(int))].reset_index(drop=True)
    long.assign(worker=[f"w{i}" for i in range(len(long))]).to_csv(
        folder / "votes.csv", index=False
    )
    calibrate("kl", classes=CLASSES).save(folder / "first")


#: what a command writes, and the command
COMMANDS = {
    "votes.parquet": "import votes.csv -o {out}/votes.parquet --overwrite",
    "made": "calibrate calibration.csv votes.csv -o {out}/made --overwrite --score {score}",
    "sets.csv": "predict first test.csv -o {out}/sets.csv --overwrite --alpha {alpha}",
    "page.html": "report first test.csv votes.csv -o {out}/page.html --overwrite --alpha {alpha}",
}
OLD = {"score": "kl", "alpha": 0.1}
NEW = {"score": "tv", "alpha": 0.2}


def kill_commands(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Kill -9 at a random moment of a command that replaces an older result or writes a first."""
    write_job(folder)
    for number in range(n):
        name, line = list(COMMANDS.items())[number % len(COMMANDS)]
        path = folder / name
        in_child(_run(line.format(out=folder, **NEW)))
        new = contents(path)
        longest = _seconds(_run(line.format(out=folder, **OLD)))
        old = contents(path)
        if chance.random() < 0.3:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            old = None
        in_child(_run(line.format(out=folder, **NEW)), chance.uniform(0, longest))
        found = contents(path)
        yield (
            "new"
            if found == new
            else ("DAMAGED" if found != old else "nothing" if old is None else "old")
        )


def forge_folders(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Random values in random places of manifests and arrays, with recomputed checksums."""
    texts = make_pipeline(TfidfVectorizer(), LogisticRegression())
    stream = cs.Stream(calibrate())
    stream.update(DATA.distributions[:3], DATA.counts[:3])
    things = [
        calibrate("kl", classes=CLASSES),
        calibrate("ws", noise=cs.AnnotatorSampling(0.05)),
        stream,
        classify(),
    ]
    things += [
        calibrate("tv", groups=["a", "b"] * 20),
        calibrate("kl").predict_set(DATA.distributions[:9], 0.1),
    ]
    things += [
        cs.ConformalCredalClassifier(texts).fit(["good day", "bad day"] * 9, [[3, 1], [1, 3]] * 9)
    ]
    for i, thing in enumerate(things):
        thing.save(folder / f"{i}")
    for _ in range(n):
        path = folder / "forged"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(folder / str(chance.randrange(len(things))), path)
        _forge(path, chance)
        start = time.perf_counter()
        code, said = in_child(lambda path=path: f"legal: {cs.load(path)!r}"[:50])
        outcome = "refused" if said.startswith("FileFormatError") else said.partition(":")[0]
        outcome = (
            outcome
            if code == 0 and outcome in ("refused", "legal")
            else f"CRASH ({code}, {said[:60]})"
        )
        yield outcome if time.perf_counter() - start < 5 else f"SLOW {outcome}"


def _forge(path: Path, chance: random.Random) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    places = leaves({key: manifest[key] for key in ("object", "files", "versions")})[1:]
    if (path / "arrays.npz").exists() and chance.random() < 0.4:
        name, array = chance.choice(
            sorted(np.load(path / "arrays.npz").items(), key=lambda pair: pair[0])
        )
        changed = [
            array[:-1],
            array.astype(np.float32),
            -array - 1,
            array * np.inf,
            np.zeros(0),
            np.array(array.T[None]),
        ]
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(IndexError):
            forge_arrays(path, **{name: chance.choice(changed)})
        return
    chosen = [
        (chance.choice(places), chance.choice(WRONG)) for _ in range(chance.choice([1, 1, 2]))
    ]
    for place, wrong in chosen:
        with contextlib.suppress(KeyError, IndexError, TypeError, UnicodeEncodeError):
            forge(path, lambda manifest, place=place, wrong=wrong: put(manifest, place, wrong))  # type: ignore[misc]


def fill_disk(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Save and run commands on a disk of 64 to 512 KB that is full at some point."""
    disk = folder / "disk"
    disk.mkdir()
    write_job(folder)
    for number in range(n):
        size = chance.randrange(64, 512)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            yield "skipped: mounting a small disk needs root"
            return
        try:
            yield _fill(disk, list(COMMANDS)[number % len(COMMANDS)])
        finally:
            subprocess.run(["umount", str(disk)], check=True)


def _fill(disk: Path, name: str) -> str:
    in_child(_run(COMMANDS[name].format(out=disk, **OLD)))
    old = contents(disk / name)
    free = 1 << 19
    while free:  # all is taken but for a few bytes
        with contextlib.suppress(OSError), open(disk / f"filler{free}", "wb") as stream:
            stream.write(bytes(free))
        free //= 2
    command = [sys.executable, "-m", "credalset", *COMMANDS[name].format(out=disk, **NEW).split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [said for said in done.stderr.splitlines() if not said.startswith("note: ")]
    is_said = len(errors) == 1 and f"{disk}/{name}" in errors[0] and done.returncode == 2
    is_kept = contents(disk / name) == old and not [
        file for file in disk.iterdir() if file.name.startswith(".")
    ]
    return (
        "one sentence that names the file"
        if is_said and is_kept
        else f"WRONG: {done.stderr[-200:]}"
    )


def lose_workers(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Kill -9 workers of Dask at random moments of a run; the result is that of one process."""
    write_job(folder)
    table = pd.concat([pd.read_csv(folder / "test.csv")] * 40)
    parquet.write_table(
        Table.from_pandas(table, preserve_index=False), folder / "new.parquet", row_group_size=80
    )
    scorer = cs.Scorer(folder / "first", 0.1)
    score_parquet(folder / "new.parquet", folder / "serial", scorer)
    for number in range(n):
        target = folder / f"out{number}"
        with local_cluster(2) as client:
            outcome = _score_and_kill(client, folder / "new.parquet", target, scorer, chance)
        same = contents(target) == contents(folder / "serial")
        yield outcome if same else "OTHER BYTES"


def _score_and_kill(
    client: Any, source: Path, target: Path, scorer: Any, chance: random.Random
) -> str:
    def killing(parts: Iterable[Any], missing: Sequence[Any]) -> Iterator[Any]:
        moments = {chance.randrange(len(missing)) for _ in range(chance.randrange(1, 4))}
        for i, part in enumerate(parts):
            if i in moments:
                with contextlib.suppress(Exception):
                    os.kill(chance.choice(sorted(client.run(os.getpid).values())), signal.SIGKILL)
            yield part

    try:
        score_parquet(source, target, scorer, client=client, _report=killing)
    except ClusterError:
        score_parquet(source, target, scorer, resume=True)
        return "the same bytes after --resume"
    return "the same bytes"


def race(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Start two jobs in one folder at about the same time; every second time both resume one.

    One of them writes all parts. The other says which process does, or that the folder is not
    empty, or finds that all is done.
    """
    write_job(folder)
    table = pd.concat([pd.read_csv(folder / "test.csv")] * 5)
    parquet.write_table(
        Table.from_pandas(table, preserve_index=False), folder / "new.parquet", row_group_size=50
    )
    for alpha in (0.1, 0.2):
        in_child(_run(f"predict first new.parquet -o alone{alpha}/ --alpha {alpha}"))
    alone = [contents(folder / f"alone{alpha}") for alpha in (0.1, 0.2)]
    for number in range(n):
        target = folder / f"out{number}"
        second = "0.1 --resume" if number % 2 else "0.2"
        first = "0.1 --resume" if number % 2 else "0.1"
        lines = [
            f"predict first new.parquet -o {target}/ --alpha {asked}" for asked in (first, second)
        ]
        children = [_say_and_run(lines[0])]
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.5)]))
        children.append(_say_and_run(lines[1]))
        said = [child.end()[1] for child in children]
        refused = [words for words in said if not words.startswith("0")]
        is_named = all(
            words.startswith("2")
            and ("is being written by process" in words or "not empty" in words)
            for words in refused
        )
        if contents(target) not in alone:
            yield "MIXED PARTS"
        elif len(refused) == 2 or not is_named:
            yield f"WRONG: {said}"
        else:
            yield "one writes, the other is refused" if refused else "one after the other"


def _say_and_run(line: str) -> Child:
    """Start a command in a child, which returns its exit code and its words."""

    def work() -> str:
        words = io.StringIO()
        with contextlib.redirect_stderr(words):
            code = main(line.split())
        return f"{code} {words.getvalue()}"

    return Child(work)


def interrupt(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Ctrl-C, to all processes, at a random moment of a command; every second time with workers."""
    write_job(folder)
    for number in range(n):
        line = f"predict first test.parquet -o sets{number}/" + " --workers 2" * (number % 2)
        command = [sys.executable, "-c", BEGIN, *line.split()]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes)
        process.stdout.readline()  # until then, Ctrl-C ends Python before any code of ours
        time.sleep(chance.uniform(0, 8 if number % 2 else 3))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=120)
        codes = {130: "exit 130", 0: "finished before"}
        yield (
            "TRACEBACK"
            if "Traceback" in said
            else codes.get(process.returncode, f"EXIT {process.returncode}")
        )


def write_odd_ids(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """Random ids from export to sets: quotes, line breaks, formulas, two Unicode forms."""
    letters = [*"=+-@'\"|,;\t\n\r 0aé\u0301\ufeff\u2028\U0001f600", "NA", "1.10"]
    os.chdir(folder)
    calibrate("kl", classes=CLASSES).save(folder / "first")
    for number in range(n):
        drawn = {"".join(chance.choices(letters, k=chance.randrange(1, 6))) for _ in range(200)}
        ids = {unicodedata.normalize("NFC", text) for text in drawn}
        rows = [{"task": text, "no": "0.2", "perhaps": "0.3", "yes": "0.5"} for text in sorted(ids)]
        votes = [
            {"task": row["task"], "worker": f"w{w}", "label": CLASSES[w]}
            for row in rows
            for w in range(2)
        ]
        for name, table in (("predictions.jsonl", rows), ("export.jsonl", votes)):
            form = chance.choice(["NFC", "NFD"])
            with open(folder / name, "w", encoding="utf-8") as stream:
                for row in table:
                    task = unicodedata.normalize(form, row["task"])
                    stream.write(json.dumps(row | {"task": task}) + "\n")
        suffix = ("csv", "tsv", "jsonl", "parquet")[number % 4]
        lines = [
            f"import export.jsonl -o votes.{suffix} --overwrite",
            f"predict first predictions.jsonl -o sets.{suffix} --overwrite --ask prediction",
            f"import sets.{suffix} --kind table -o again.{suffix} --overwrite",
        ]
        codes = [in_child(_run(line))[1] for line in lines]
        voted = set(read_vote_table(folder / f"votes.{suffix}").items or ())
        table = read_table(folder / f"again.{suffix}")
        predicted = {text for batch in table.batches for text in batch.column("task").to_pylist()}
        is_whole = codes == ["0"] * 3 and voted == predicted == ids
        yield "every item in both tables" if is_whole else "ITEMS LOST"


def add_fields_late(folder: Path, n: int, chance: random.Random) -> Iterator[str]:
    """A field of JSON Lines that first appears at a random record, in votes and in predictions."""
    for number in range(n):
        size = 40_000
        first = chance.randrange(1, size)
        path = folder / f"{number}.jsonl"
        with open(path, "w", encoding="utf-8") as stream:
            for i in range(size):
                row = {"task": f"t{i // 2}", "label": CLASSES[i % 2]}
                stream.write(json.dumps(row | ({"worker": "w"} if i >= first else {})) + "\n")
        if number % 2:
            votes = read_vote_table(path)
            # Items of which both votes are known to be by one worker count the later one only.
            overruled = size // 2 - (first + 1) // 2
            yield "all fields" if votes.n_votes.sum() == size - overruled else "FIELDS LOST"
            continue
        try:
            table = read_table(path)
            found = pa.Table.from_batches(table.batches, table.schema)
            yield "all fields" if "worker" in found.schema.names else "FIELDS LOST"
        except FileFormatError as error:
            is_named = "'worker'" in str(error) and path.name in str(error)
            yield "one sentence that names the field" if is_named else f"WRONG: {error}"


TRIALS: dict[str, tuple[Callable[..., Iterator[str]], int, dict[str, Any]]] = {
    "kill -9 during a save over an older folder": (kill_saves, 400, {"exchange": True}),
    "the same where names cannot be exchanged": (kill_saves, 200, {"exchange": False}),
    "kill -9 of import, calibrate, predict, report": (kill_commands, 80, {}),
    "forged folders with recomputed checksums": (forge_folders, 800, {}),
    "full disk during import, calibrate, predict, report": (fill_disk, 12, {}),
    "kill -9 of Dask workers": (lose_workers, 25, {}),
    "two jobs, or one job twice, started in one folder": (race, 60, {}),
    "Ctrl-C during predict, with and without workers": (interrupt, 16, {}),
    "200 odd ids in two Unicode forms through import and predict": (write_odd_ids, 40, {}),
    "a field that first appears in a late record": (add_fields_late, 20, {}),
}


def run(size: float, seed: int, words: Sequence[str] = ()) -> int:
    """Run trials and print the table; return 1 if something happened that is not promised."""
    here = f"Python {platform.python_version()} on {platform.system()}"
    print(
        f"# Fault tests\n\n`make faults` on {datetime.date.today()}, {here}, seed "
        f"{seed}. {OUTCOMES}\n"
    )
    print("| What was done | Trials | Outcomes |\n|---|---|---|", flush=True)
    broken = 0
    for name, (trial, n, options) in TRIALS.items():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            outcomes = Counter(
                trial(Path(folder), max(1, round(n * size)), random.Random(seed), **options)
            )
            os.chdir("/")
        broken += any(
            outcome not in PROMISED and not outcome.startswith("skipped") for outcome in outcomes
        )
        told = ", ".join(f"{times} {outcome}" for outcome, times in outcomes.most_common())
        print(f"| {name} | {outcomes.total()} | {told} |", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="rows to run, by words of their names")
    parser.add_argument("--size", type=float, default=1.0, help="times the usual number of trials")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sys.exit(run(arguments.size, arguments.seed, arguments.words))
