"""Accepted labels on real data: how many, and how wrong they are, as Markdown.

    python benchmarks/act.py --output docs/results/act.md
    python benchmarks/act.py --quick
    python benchmarks/act.py --mapie /path/to/python     # of an environment with mapie 1.6

Each split draws a table of items with a few votes each from a panel with many. Two rules certify
and treat the table (`credalset.crowd.accept.two_rules`); what they accept is compared with all
votes of the panel. Where there is no panel (LLM judges), the vote that was held back is the test.
Beside it stand an oracle, which knows the true loss at every threshold of the same risks, label
sets of one label, and a controller with abstention that takes majority labels for the truth. The
data folder is ``CREDALSET_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.acceptance.certify import guarded
from credalset.acceptance.losses import LOSSES
from credalset.acceptance.rule import Claim
from credalset.crowd.accept import Fitted, hold_back_one, two_rules

DATA = Path(os.environ.get("CREDALSET_DATA", Path(__file__).parents[2] / "shared" / "data"))
CONFIDENCE = 0.9
WORKER = Path(__file__).with_name("mapie_worker.py")


@dataclass(frozen=True)
class Task:
    """A row of the table: data, error, numbers of votes, and sizes of the tables."""

    data: str
    title: str
    error: float
    votes: tuple[int, int]
    sizes: tuple[int, ...]
    halves: bool = False


PANELS = [
    Task("A", "CIFAR-10H, model A", 0.05, (1, 3), (900, 3000)),
    Task("clip", "CIFAR-10H, CLIP", 0.05, (1, 3), (900, 3000)),
    Task("chaos", "ChaosNLI", 0.30, (3, 9), (900, 3000)),
    Task("chaos", "ChaosNLI", 0.25, (3, 9), (900, 3000)),
    Task("dices", "DICES, TF-IDF", 0.30, (3, 5), (990,), halves=True),
    Task("dices", "DICES, TF-IDF", 0.40, (3, 5), (990,), halves=True),
]
JUDGED = [
    Task("framing", "framing", 0.15, (1, 9), (2552,)),
    Task("lgbteen", "lgbteen", 0.20, (1, 9), (880,)),
    Task("summeval", "summeval", 0.40, (1, 9), (6400,)),
    Task("lesion", "lesion", 0.30, (1, 9), (500,)),
]
FILES = {"A": "cifar10h_model_a.npz", "clip": "cifar10h_clip.npz", "dices": "dices_990.jsonl"}


# --- data: predictions or texts, and votes ---


def is_here(name: str) -> bool:
    file = FILES.get(name, "chaosnli_snli_mnli.npz" if name == "chaos" else f"alttest/{name}")
    return (DATA / file).exists()


@cache
def load(name: str) -> tuple[Any, np.ndarray]:
    """Return predictions (or texts), and the votes of everybody."""
    if name in ("A", "clip"):
        with np.load(DATA / FILES[name]) as file:
            return softmax(file["logits"].astype(float), axis=1), file["counts"].astype(float)
    if name == "chaos":
        with (
            np.load(DATA / "chaosnli_snli_mnli_roberta.npz") as file,
            np.load(DATA / "chaosnli_snli_mnli.npz") as votes,
        ):
            known = file["has_roberta"]
            logits = file["roberta_logits"][known].astype(float).mean(axis=1)
            return softmax(logits, axis=1), votes["counts"][known].astype(float)
    if name == "dices":
        lines = (DATA / FILES[name]).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        texts = np.array([f"{row['prompt']}\n{row['response']}" for row in rows], dtype=object)
        classes = ("Yes", "No", "Unsure")
        return texts, np.array([[row["safe"].count(c) for c in classes] for row in rows], float)
    folder = DATA / "alttest" / name
    people, judges = (
        json.loads((folder / f"{who}_annotations.json").read_text(encoding="utf-8"))
        for who in ("human", "llm")
    )
    items = sorted({item for votes in people.values() for item in votes})
    labels = sorted(
        {str(v) for table in (people, judges) for d in table.values() for v in d.values()}
    )
    counts = [np.zeros((len(items), len(labels))) for _ in range(2)]
    row_of = {item: row for row, item in enumerate(items)}
    for table, found in zip((people, judges), counts, strict=True):
        for votes in table.values():
            for item, label in votes.items():
                if item in row_of:
                    found[row_of[item], labels.index(str(label))] += 1
    known = np.flatnonzero(counts[1].sum(axis=1) > 0)
    shares = counts[1][known] / counts[1][known].sum(axis=1, keepdims=True)
    return shares, counts[0][known]


def draw(task: Task, n: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray, np.random.Generator]:
    """Return a random table: predictions or texts, votes, and the votes of everybody."""
    rng = np.random.default_rng(seed)
    source, everybody = load(task.data)
    rows = rng.permutation(len(everybody))[:n]
    low, high = task.votes
    number = rng.integers(low, high + 1, len(rows))
    number = np.minimum(number, everybody[rows].sum(axis=1)).astype(int)
    if task in JUDGED:  # all the people there are
        return source[rows], everybody[rows], everybody[rows], rng
    votes = [
        rng.multivariate_hypergeometric(row.astype(int), m)
        for row, m in zip(everybody[rows], number, strict=True)
    ]
    return source[rows], np.array(votes, float), everybody[rows], rng


# --- one table, reviewed ---


def predict_texts(texts: np.ndarray, votes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Train on the votes of some items; predict these out of fold, and the others."""

    def model(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        words = TfidfVectorizer(min_df=2, sublinear_tf=True)
        X = words.fit_transform(texts[train])
        labels = np.tile(np.arange(votes.shape[1]), len(train))
        shares = votes[train] / votes[train].sum(axis=1, keepdims=True)
        repeated = X[np.repeat(np.arange(len(train)), votes.shape[1])]
        seen = shares.ravel() > 0
        fitted = LogisticRegression(C=1.0, max_iter=300).fit(
            repeated[seen], labels[seen], shares.ravel()[seen]
        )
        found = np.full((len(test), votes.shape[1]), 1e-3)
        found[:, fitted.classes_] += fitted.predict_proba(words.transform(texts[test]))
        return found / found.sum(axis=1, keepdims=True)

    everything = np.arange(len(texts))
    others = np.setdiff1d(everything, rows)
    found = np.empty(votes.shape)
    found[others] = model(rows, others)
    for fold in range(5):
        found[rows[fold::5]] = model(np.setdiff1d(rows, rows[fold::5]), rows[fold::5])
    return found


def review(task: Task, n: int, seed: int) -> dict[str, float]:
    """Return what is accepted of one table, with which loss."""
    source, votes, everybody, rng = draw(task, n, seed)
    truth = everybody / everybody.sum(axis=1, keepdims=True)
    is_text = task.data == "dices"

    def fit(rows: np.ndarray) -> Fitted:
        p = predict_texts(source, votes, rows) if is_text else source
        return Fitted(p, cs.DirichletCrowd().fit(p[rows], votes[rows]))

    loss = LOSSES["annotator"]
    claim = Claim(loss, (task.error,), CONFIDENCE)
    made = two_rules(fit, votes, claim, rng, halves=task.halves)
    items = np.arange(len(votes))
    held = hold_back_one(votes, rng)
    hand = votes.copy()
    hand[items, held] -= 1
    found: dict[str, float] = {"nothing": float((~np.isfinite(made.thresholds)).any())}
    thresholds = made.thresholds[made.rule, 0]
    for name, known in (("certified", hand), ("all", votes)):
        verdicts = loss.decide(made.beliefs(known))
        accepted = verdicts.risk <= thresholds
        if name == "all":
            accepted = guarded(verdicts.risk, accepted, task.error)
        wrong = 1 - truth[items, verdicts.labels]
        if task in JUDGED:
            wrong = (verdicts.labels != held).astype(float)
        order = np.argsort(verdicts.risk, kind="stable")
        within = np.cumsum(wrong[order]) / (1 + items) <= task.error
        found[name] = accepted.mean()
        found[f"{name} error"] = wrong[accepted].mean() if accepted.any() else np.nan
        found[f"{name} oracle"] = (np.flatnonzero(within).max(initial=-1) + 1) / len(items)
        if task in JUDGED and name == "all":  # which have seen the vote that tests
            found["all error"] = found["all oracle"] = np.nan
        if task in JUDGED:
            continue
        other = truth[items, verdicts.labels] < truth.max(axis=1)
        found[f"{name} other majority"] = other[accepted].mean() if accepted.any() else np.nan
    if not is_text:
        found |= one_label(source, votes, truth, task)
    return found


def one_label(p: np.ndarray, votes: np.ndarray, truth: np.ndarray, task: Task) -> dict[str, float]:
    """Accept where the set that holds an annotator's label at level ε has one label."""
    calibration = cs.labels.conformalize(p, votes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = calibration.predict_set(p, task.error)
    alone = sets.sizes() == 1
    wrong = 1 - truth[np.arange(len(p)), p.argmax(axis=1)]
    error = wrong[alone].mean() if alone.any() else np.nan
    return {"one label": alone.mean(), "one label error": error}


def abstain(python: str, task: Task, n: int, seeds: range) -> list[dict[str, float]]:
    """Let MAPIE accept: majority labels of the votes of the table, ties broken at random."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tables.npz"
        tables = {}
        truths = []
        for seed in seeds:
            p, votes, everybody, rng = draw(task, n, seed)
            top = votes == votes.max(axis=1, keepdims=True)
            tables[f"p{seed}"] = p
            tables[f"y{seed}"] = (top * rng.random(top.shape)).argmax(axis=1)
            truths.append(everybody / everybody.sum(axis=1, keepdims=True))
        np.savez(path, **tables)
        command = [python, str(WORKER), str(path), str(task.error), str(CONFIDENCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = []
    for truth, seed, threshold in zip(truths, seeds, json.loads(done.stdout), strict=True):
        p = tables[f"p{seed}"]
        accepted = p.max(axis=1) >= (np.inf if threshold is None else threshold)
        wrong = 1 - truth[np.arange(len(p)), p.argmax(axis=1)]
        error = wrong[accepted].mean() if accepted.any() else np.nan
        rows.append({"abstain": accepted.mean(), "abstain error": error})
    return rows


# --- the page ---


def summary(task: Task, rows: list[dict[str, float]]) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means of nothing
        found = {key: float(np.nanmean([row.get(key, np.nan) for row in rows])) for key in rows[0]}
    for key in ("certified", "all", "one label", "abstain"):
        errors = [row.get(f"{key} error", np.nan) for row in rows]
        found[f"{key} exceeded"] = float(np.sum(np.array(errors) > task.error))
    return found


def number(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.3f}".lstrip("0")


def table(rows: list[tuple[Task, int, int, dict[str, float]]]) -> list[str]:
    heads = [
        *("data", "votes", "ε", "n", "certified", "error", "exceeded", "nothing"),
        *("oracle", "all votes", "error", "exceeded", "oracle", "other majority"),
        *("one label", "error", "abstain", "error", "exceeded"),
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for task, n, splits, row in rows:
        get = row.get

        def count(key: str, get: Any = get, splits: int = splits) -> str:
            return "–" if get(key.split(" exc")[0]) is None else f"{get(key):.0f}/{splits}"

        cells = [
            *(task.title, f"{task.votes[0]}–{task.votes[1]}", f"{task.error:.2f}", str(n)),
            *(number(get("certified")), number(get("certified error"))),
            *(count("certified exceeded"), number(get("nothing")), number(get("certified oracle"))),
            *(number(get("all")), number(get("all error")), count("all exceeded")),
            *(number(get("all oracle")), number(get("all other majority"))),
            *(number(get("one label")), number(get("one label error"))),
            *(number(get("abstain")), number(get("abstain error")), count("abstain exceeded")),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


INTRODUCTION = """# Accepted labels

Printed by `python benchmarks/act.py`. Shares of the items of a table, means over {splits} random
tables ({fewer} of 3,000 items or more), at confidence 0.9. *Certified*: decided with one vote of
each item held back, which proves the bound; *exceeded* counts the tables on which accepted labels
disagree with more than a share ε of all annotators of the panel; *nothing* is the share of tables
on which one of the two rules certified nothing. *All votes*: the same rules with all votes in
hand, which is not certified. The *oracle* knows the true loss at every threshold of the same
risks. *One label*: label sets at level ε, calibrated on the same votes, that have one label.
*Abstain*: a controller with abstention (MAPIE 1.6), which takes majority labels of the table for
the truth. The last two predict without votes in hand.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--mapie", help="Python of an environment with mapie 1.6")
    parser.add_argument("--only", help="one data set")
    options = parser.parse_args(arguments)
    splits = 2 if options.quick else options.splits
    fewer = max(splits // 2, 2)
    groups: dict[str, list[Any]] = {"panels": [], "judges": []}
    for task in PANELS + JUDGED:
        if not is_here(task.data) or (options.only and task.data != options.only):
            continue
        for n in task.sizes[:1] if options.quick else task.sizes:
            seeds = range(fewer if n >= 3000 else splits)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = [review(task, n, seed) for seed in seeds]
            if options.mapie and task in PANELS and task.data != "dices":
                others = abstain(options.mapie, task, n, seeds)
                rows = [a | b for a, b in zip(rows, others, strict=True)]
            row = (task, n, len(seeds), summary(task, rows))
            groups["panels" if task in PANELS else "judges"].append(row)
            print(table([row])[-1], flush=True)
    lines = [INTRODUCTION.format(splits=splits, fewer=fewer), *table(groups["panels"]), ""]
    if groups["judges"]:
        lines += [
            "## LLM judges\n",
            "Predictions are the shares of six judges (four for *lesion*), votes are the people "
            "there are. There is no panel: errors are those of the votes held back, so that "
            "*exceeded* counts chance as well.\n",
            *table(groups["judges"]),
        ]
    text = "\n".join(lines) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
