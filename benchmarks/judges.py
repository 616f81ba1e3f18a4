"""Several LLM judges and few people, on real tasks: pools, tests and cascades, as Markdown.

    python benchmarks/judges.py --output docs/results/judges.md
    python benchmarks/judges.py --quick --only lgbteen

The four tasks are those of the alternative annotator test (Calderon, Reichart and Dror, ACL 2025).
Splits are by document: the items of one document are all in one part. Every number is a mean over
splits, with their standard deviation. The data folder is ``CREDALSET_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegressionCV

import credalset as cs

DATA = Path(os.environ.get("CREDALSET_DATA", Path(__file__).parents[2] / "shared" / "data"))
TASKS = ("summeval", "lgbteen", "lesion", "framing")
SIZES = (50, 200, None)  # items with votes that fit; None: a third of the task
ERROR = 0.3
CASCADES = (0.3, 0.2)
JUDGE, PERSON = 0.01, 0.30  # prices
PARTS = ("pool", "people", "cascade")


@dataclass(frozen=True)
class Task:
    """Votes and answers of one task, with the question and the document of each item."""

    name: str
    votes: cs.Annotations
    judges: pd.DataFrame
    kinds: list[str]
    clusters: np.ndarray
    ratings: bool
    epsilon: float

    def take(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the arguments of a pool for some items."""
        return {
            "judges": self.judges.iloc[rows],
            "votes": self.votes.align([self.votes.items[row] for row in rows]),
            "kinds": [self.kinds[row] for row in rows],
        }


@cache
def load(name: str) -> Task:
    folder = DATA / "alttest" / name
    people = json.loads((folder / "human_annotations.json").read_text(encoding="utf-8"))
    models = json.loads((folder / "llm_annotations.json").read_text(encoding="utf-8"))
    published = json.loads((DATA / "alttest" / "published.json").read_text(encoding="utf-8"))
    rows = [(item, who, label) for who, own in people.items() for item, label in own.items()]
    votes = cs.Annotations.from_table(rows)
    items = list(votes.items)
    judges = pd.DataFrame({model: pd.Series(own) for model, own in models.items()})
    documents = [item.split("__")[0] for item in items]
    return Task(
        name,
        votes,
        judges.reindex(items).astype(object),
        [item.rsplit("__", 1)[-1] for item in items],
        np.unique(documents, return_inverse=True)[1],
        published["alignment"][name] == "-RMSE",
        published["epsilon"][name],
    )


def split(task: Task, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n items of a third of the documents, and the items of all others."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(task.clusters.max() + 1)
    size = np.bincount(task.clusters)[order].cumsum()
    chosen = order[: int(np.searchsorted(size, len(task.votes) / 3)) + 1]
    inside = np.isin(task.clusters, chosen)
    fit = generator.permutation(np.flatnonzero(inside))[:n]
    return np.sort(fit), np.flatnonzero(~inside)


# --- pools ---


def mean_of_judges(task: Task, rows: np.ndarray) -> np.ndarray:
    """Return the shares of the judges' labels, with half a vote for each class."""
    classes = list(task.votes.classes)
    answers = task.judges.iloc[rows].to_numpy(dtype=object)
    counts = np.stack([(answers == label).sum(axis=1) for label in classes], axis=1)
    shares = counts + 0.5
    return shares / shares.sum(axis=1, keepdims=True)


def regression(task: Task, fit: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predict by multinomial logistic regression on the labels, one row per vote."""
    columns = pd.get_dummies(task.judges.astype(str)).to_numpy(dtype=float)
    counts = task.votes.counts[fit]
    row, label = np.nonzero(counts)
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 1, 5), cv=3, scoring="neg_log_loss", max_iter=300
    )
    model.fit(columns[fit][row], label, sample_weight=counts[row, label])
    found = []
    for rows in (fit, new):
        full = np.full((len(rows), task.votes.n_classes), 1e-4)
        full[:, model.classes_] += model.predict_proba(columns[rows])
        found.append(full / full.sum(axis=1, keepdims=True))
    return found[0], found[1]


def pooled(task: Task, fit: np.ndarray, new: np.ndarray, kinds: bool) -> tuple[Any, Any]:
    """Predict by a pool; out of fold for the items that it was fitted to."""
    own = task.take(fit)
    other = task.take(new)
    if not kinds:
        own["kinds"] = None
        other["kinds"] = None
    pool = cs.predictors.JudgePool().fit(**own, clusters=task.clusters[fit])
    return pool.oof_, pool.predict_proba(other["judges"], kinds=other["kinds"])


def evaluate(task: Task, n: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Return log score, disagreement with a person, and what is accepted without a vote."""
    fit, new = split(task, n, seed)
    counts = task.votes.counts
    share = counts[new] / counts[new].sum(axis=1, keepdims=True)
    made = {
        "mean of judges": (mean_of_judges(task, fit), mean_of_judges(task, new)),
        "logistic regression": regression(task, fit, new),
        "pool without kinds": pooled(task, fit, new, kinds=False),
        "pool": pooled(task, fit, new, kinds=True),
    }
    found = {}
    for name, (known, predicted) in made.items():
        crowd = cs.DirichletCrowd(class_bias=name == "mean of judges").fit(known, counts[fit])
        if name == "mean of judges":  # through the crowd, as before there were pools
            predicted = crowd.predict(predicted, np.zeros_like(predicted))
            crowd = cs.DirichletCrowd(class_bias=False).fit(
                crowd.predict(known, np.zeros_like(known)), counts[fit]
            )
        loss = -(share * np.log(np.maximum(predicted, 1e-12))).sum(axis=1).mean()
        wrong = 1 - share[np.arange(len(new)), predicted.argmax(axis=1)].mean()
        rule = crowd.accept(predicted, counts[new], error=ERROR, in_hand=0)
        found[name] = (float(loss), float(wrong), float(rule.shares[0, 0]))
    return found


def pool_table(task: Task, splits: int, sizes: tuple[Any, ...]) -> list[str]:
    lines = []
    for size in sizes:
        n = len(task.votes) // 3 if size is None else size
        found = [evaluate(task, n, seed) for seed in range(splits)]
        for name in found[0]:
            values = np.array([each[name] for each in found])
            cells = [
                f"{mean:.3f} ± {spread:.3f}"
                for mean, spread in zip(values.mean(axis=0), values.std(axis=0), strict=True)
            ]
            lines.append(f"| {task.name} | {n} | {name} | {' | '.join(cells)} |")
    return lines


# --- judges beside people ---


def people_table(task: Task) -> list[str]:
    published = json.loads((DATA / "alttest" / "published.json").read_text(encoding="utf-8"))
    found = cs.judges.compare(
        task.judges,
        task.votes,
        kinds=task.kinds,
        clusters=task.clusters,
        ratings=task.ratings,
        epsilon=task.epsilon,
    )
    lines = []
    for row in found.rows:
        known = published["tasks"][task.name].get(row["judge"])
        paper = "" if known is None else f"{known[0]:.2f}, {known[1]:.2f}"
        without = "" if row["without"] is None else f"{float(row['without']):+.3f}"
        lines.append(
            f"| {task.name} | {row['judge']} | {float(row['agreement']):.3f} | "
            f"{row['winning_rate']:.2f}, {row['advantage']:.2f} | {paper} | {row['beyond']:+.2f} | "
            f"{row['log_loss']:.3f} | {without} |"
        )
    return lines


# --- cascades ---


def cascade_table(task: Task, splits: int) -> list[str]:
    prices = dict.fromkeys(task.judges, JUDGE) | {"person": PERSON}
    lines = []
    for error in CASCADES:
        found = [
            cs.cascade(
                task.judges, task.votes, prices, error=error, kinds=task.kinds, random_state=seed
            ).rows
            for seed in range(splits)
        ]
        cost, accepted = (
            np.array([[row[name] for row in rows] for rows in found])
            for name in ("cost", "accepted")
        )
        n_judges = len(task.judges.columns)
        kept = [0, 1, 2, 3, 4, 5, 2 * n_judges, 2 * n_judges + 1]
        for place in kept:
            row = found[0][place]
            judges = ("no judge", "the best judge", "the best two")
            words = judges[row["judges"]] if row["judges"] < 3 else f"all {row['judges']}"
            words += ", then a person" if row["votes"] else ""
            lines.append(
                f"| {task.name} | {error:g} | {words} | {cost[:, place].mean():.3f} | "
                f"{accepted[:, place].mean():.2f} ± {accepted[:, place].std():.2f} |"
            )
    return lines


HEADS = {
    "pool": "| task | items to fit | prediction | log score | disagreement | accepted |\n"
    "|---|--:|---|--:|--:|--:|",
    "people": "| task | judge | agreement | ω, ρ | published | ρ beyond constant | log score alone "
    "| pool without it |\n|---|---|--:|--:|--:|--:|--:|--:|",
    "cascade": "| task | error | plan | cost per item | accepted |\n|---|--:|---|--:|--:|",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", type=Path, help="write the tables to this file, too")
    parser.add_argument("--quick", action="store_true", help="one split, 50 items")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", help="one task")
    parser.add_argument("--part", choices=PARTS, help="one of the tables")
    options = parser.parse_args(arguments)
    splits = 1 if options.quick else options.splits
    sizes = SIZES[:1] if options.quick else SIZES
    made: dict[str, list[str]] = {part: [] for part in PARTS}
    for name in TASKS:
        if not (DATA / "alttest" / name).exists() or options.only not in (None, name):
            continue
        task = load(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for part in PARTS:
                if options.part not in (None, part):
                    continue
                if part == "pool":
                    made[part] += pool_table(task, splits, sizes)
                elif part == "people":
                    made[part] += people_table(task)
                else:
                    made[part] += cascade_table(task, splits)
                print(f"{name}: {part}", flush=True)
    text = "\n\n".join(f"{HEADS[part]}\n" + "\n".join(rows) for part, rows in made.items() if rows)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
