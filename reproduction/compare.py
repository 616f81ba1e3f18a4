"""One protocol for methods on data: ``python -m reproduction compare experiment.toml``.

An experiment file names data, a learner, methods, levels, sizes of the parts and seeds. Every
method sees the same splits and is measured in the same way. Finished runs are kept in the output
folder, so that an experiment can be stopped, continued and extended.
"""

from __future__ import annotations

import json
import math
import os
import time
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from credalset import __version__
from credalset._display import progress
from credalset._files import write_file
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.datasets import load_chaosnli, load_cifar10h, load_synthetic
from credalset.datasets.published import data_file
from credalset.exceptions import CredalSetWarning, FileFormatError
from credalset.metrics import has_exact_volumes, widths
from credalset.simplex import entropy_of_valid
from reproduction.batch import Batch, Outcome, Row, fingerprint
from reproduction.methods import METHODS, Answer, Split
from reproduction.store import Store
from reproduction.tables import markdown, text_of

QUARTERS = 4  # of the test items, by the entropy of their predictions
MAX_VOLUMES = 50  # sets whose volumes are estimated
#: measures, and their headings
MEASURES = {
    "coverage": "coverage",
    "coverage_true": "of the truth",
    "quarters": "by difficulty",
    "width": "width",
    "volume": "volume",
    "epistemic": "epistemic",
    "labels": "labels",
    "label_coverage": "label coverage",
    "decided": "decided",
    "wrong": "wrong of these",
    "empty": "empty",
    "seconds": "seconds",
}
DEFAULTS = {
    "learner": "linear",
    "methods": ["tv", "ws", "kl", "inner"],
    "alphas": [0.1],
    "seeds": 10,
    "members": 0,
    "n_classes": 3,
    "n_votes": 10,
    "n_train": 500,
    "n_calibration": 500,
    "n_test": 500,
}


@dataclass(frozen=True, eq=False)
class Data:
    """Votes (n, K), and predictions, features or texts to predict from; the truth if known."""

    counts: IntArray
    predictions: FloatArray | None = None
    features: AnyArray | None = None
    truth: FloatArray | None = None


def read_experiment(path: Path) -> dict[str, Any]:
    """Read an experiment file, with defaults for what it does not name."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} cannot be read as TOML: {error}") from None
    unknown = sorted(set(found) - set(DEFAULTS) - {"name", "data"})
    if unknown or "data" not in found:
        raise FileFormatError(
            f"{path} must name data, and may set {', '.join(DEFAULTS)}; unknown: {unknown}."
        )
    options = {"name": path.stem, **DEFAULTS, **found}
    strange = sorted(set(options["methods"]) - set(METHODS))
    if strange:
        raise FileFormatError(f"{path}: unknown methods {strange}; known are {', '.join(METHODS)}.")
    return options


def load(options: dict[str, Any], folder: Path, data_dir: Path | None) -> Data:
    """Load the data of an experiment: a name, or an .npz file beside the experiment file.

    Such a file holds ``counts``, and ``predictions`` or ``features``, and maybe ``truth``.
    """
    name = options["data"]
    if name == "chaosnli":
        nli = load_chaosnli("roberta", data_dir)
        return Data(nli.counts, features=nli.features)
    if name in ("cifar10h", "cifar10h-clip"):
        images = load_cifar10h(data_dir, model="clip" if name.endswith("clip") else "a")
        return Data(images.counts, predictions=images.probabilities)
    if name == "synthetic":
        drawn = load_synthetic(options["n_classes"], options["n_votes"])
        return Data(drawn.counts, features=drawn.X, truth=drawn.distributions)
    if name == "dices":
        source = "DICES-990 with texts and votes, one conversation per line (Aroyo et al., 2023)."
        lines = data_file("dices_990.jsonl", data_dir, source).read_text(encoding="utf-8")
        items = [json.loads(line) for line in lines.splitlines()]
        answers = ("Yes", "No", "Unsure")
        counts = np.array([[item["safe"].count(answer) for answer in answers] for item in items])
        texts = [f"{item['prompt']} {item['response']}" for item in items]
        return Data(counts, features=np.array(texts, dtype=object))
    with np.load(folder / name, allow_pickle=False) as arrays:
        held = {key: arrays[key] for key in arrays.files}
    if "counts" not in held or not {"predictions", "features"} & set(held):
        raise FileFormatError(f"{name} needs the arrays counts, and predictions or features.")
    return Data(*(held.get(key) for key in ("counts", "predictions", "features", "truth")))  # type: ignore[arg-type]


def make_split(data: Data, options: dict[str, Any], seed: int) -> tuple[Split, IntArray]:
    """Split items at random, fit the learner, and predict; return the test items too."""
    order = np.random.default_rng(seed).permutation(len(data.counts))
    ends = np.cumsum([options["n_train"], options["n_calibration"], options["n_test"]])
    if ends[-1] > len(order):
        raise ValueError(f"the parts need {ends[-1]} items, but there are {len(order)}.")
    train, calibration, test = np.split(order[: ends[-1]], ends[:2])
    votes = (data.counts[train], data.counts[calibration])
    if options["learner"] == "prefit":
        assert data.predictions is not None
        predicted = data.predictions
        return Split(predicted[train], predicted[calibration], predicted[test], *votes), test
    inputs = data.predictions if data.features is None else data.features
    assert inputs is not None
    first = _fit(options["learner"], inputs[train], votes[0], seed)
    generator = np.random.default_rng([seed, 1])
    members = []
    for _ in range(options["members"]):
        chosen = generator.choice(train, len(train))
        one = _fit(options["learner"], inputs[chosen], data.counts[chosen], seed)
        members.append(one.predict_proba(inputs[test]))
    concentrations = None
    if {"so", "density"} & set(options["methods"]) and options["learner"] == "network":
        second = _fit("second-order", inputs[train], votes[0], seed)
        predict = second.predict_concentration
        concentrations = (predict(inputs[calibration]), predict(inputs[test]))
    return Split(
        first.predict_proba(inputs[train]),
        first.predict_proba(inputs[calibration]),
        first.predict_proba(inputs[test]),
        *votes,
        members_test=np.array(members) if members else None,
        concentrations=concentrations,
    ), test


def _fit(learner: str, inputs: AnyArray, counts: IntArray, seed: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import credalset as cs

    if learner in ("network", "second-order"):
        from credalset.predictors import FirstOrderNetwork, SecondOrderNetwork

        kind = FirstOrderNetwork if learner == "network" else SecondOrderNetwork
        return make_pipeline(StandardScaler(), kind(random_state=seed)).fit(inputs, counts)
    if learner not in ("linear", "text"):
        raise ValueError(f"learner must be prefit, linear, text or network, but is {learner!r}.")
    first = StandardScaler() if learner == "linear" else TfidfVectorizer(sublinear_tf=True)
    model = make_pipeline(first, LogisticRegression(max_iter=1000))
    return cs.SoftLabelClassifier(model).fit(inputs, counts)


def measure(
    answer: Answer, counts: IntArray, truth: FloatArray | None, difficulty: FloatArray
) -> Row:
    """Measure sets on the test items; what a method does not give is NaN."""
    row: Row = dict.fromkeys(MEASURES, math.nan)
    row["quarters"] = [math.nan] * QUARTERS
    shares = counts / counts.sum(axis=1, keepdims=True)
    if answer.sets is not None:
        sets = answer.sets
        covered = sets.contains(shares)
        parts = np.array_split(np.argsort(difficulty, kind="stable"), QUARTERS)
        possible = sets.decide("e-admissible")
        settled = possible.sum(axis=1) == 1
        agrees = possible[settled].argmax(axis=1) == shares[settled].argmax(axis=1)
        some = sets if has_exact_volumes(sets) else sets[:: -(-len(sets) // MAX_VOLUMES)]
        row |= {
            "coverage": float(covered.mean()),
            "quarters": [float(covered[part].mean()) for part in parts],
            "width": float(widths(sets).mean()),
            "volume": float(np.asarray(some.volume(n_rays=128)).mean()),
            "epistemic": float(np.nanmean(sets.uncertainty("K").epistemic)),
            "labels": float(possible.sum(axis=1).mean()),
            "decided": float(settled.mean()),
            "wrong": float(1.0 - agrees.mean()) if settled.any() else math.nan,
            "empty": float(sets.is_empty().mean()),
        }
        if truth is not None:
            row["coverage_true"] = float(sets.contains(truth).mean())
    if answer.labels is not None:
        members = answer.labels.members
        row["labels"] = float(members.sum(axis=1).mean())
        row["label_coverage"] = float((shares * members).sum(axis=1).mean())
    return row


def run(path: Path, out: Path, data_dir: Path | None = None, seeds: int | None = None) -> list[Row]:
    """Run what is missing of an experiment, write its table, and return all rows."""
    options = read_experiment(path)
    options["seeds"] = seeds or options["seeds"]
    data = load(options, path.parent, data_dir)
    shared = {
        key: value for key, value in options.items() if key not in ("methods", "seeds", "name")
    }
    shared |= {
        "data_checksum": fingerprint(data.counts.astype(np.float64), data.predictions),
        "v": __version__,
    }
    store = Store(out / "compare" / options["name"])
    batches = []
    with progress(options["name"], options["seeds"]) as advance:
        for seed in range(options["seeds"]):
            split = None
            for method in options["methods"]:
                batch = Batch(
                    options["name"],
                    method,
                    f"{method}-seed-{seed}",
                    {**shared, "method": method, "seed": seed},
                    1,
                )
                batches.append(batch)
                if store.is_done(batch):
                    continue
                if split is None:
                    split, test = make_split(data, options, seed)
                store.write(batch, Outcome(_rows(data, split, test, batch, options["alphas"])))
            advance(1, f"split {seed}")
    rows = store.rows(batches)
    write_file(out / "compare" / f"{options['name']}.md", (table(rows) + "\n").encode())
    return rows


def _rows(
    data: Data, split: Split, test: IntArray, batch: Batch, alphas: Sequence[float]
) -> list[Row]:
    truth = None if data.truth is None else data.truth[test]
    difficulty = entropy_of_valid(split.test)
    rows = []
    for alpha in alphas:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredalSetWarning)  # columns of the result say the same
            start = time.process_time()
            answer = METHODS[batch.part](split, alpha)
            spent = time.process_time() - start
            row = measure(answer, data.counts[test], truth, difficulty)
        head = {"method": batch.part, "alpha": alpha, "seed": batch.options["seed"]}
        rows.append({**head, **row, "seconds": spent})
    return rows


def table(rows: Sequence[Row]) -> str:
    """Write means over the splits with 95 % intervals, one line per method and level.

    Intervals are Student's over splits. Splits of one data set overlap, so that they say how much a
    result depends on the split, not how much it would change with other data.
    """
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["alpha"]), []).append(row)
    lines = []
    for (method, alpha), own in groups.items():
        line: dict[str, str] = {"method": method, "α": f"{alpha:g}"}
        for name, heading in MEASURES.items():
            if name == "quarters":
                line[heading] = quarters_text([row[name] for row in own])
            else:
                line[heading] = interval_text([row[name] for row in own], name)
        lines.append(line)
    used = [name for name in lines[0] if any(line[name] for line in lines)]
    return markdown(used, [[line[name] for name in used] for line in lines])


def interval_text(values: Sequence[float], name: str) -> str:
    """Write a mean with half the width of its interval.

    Examples
    --------
    >>> interval_text([0.9, 0.91, 0.89], "coverage")
    '0.900 ± 0.025'
    """
    known = np.array([value for value in values if value is not None], dtype=float)
    known = known[~np.isnan(known)]
    if len(known) == 0:
        return ""
    if len(known) < 3 or name == "seconds":
        return text_of(float(known.mean()))
    return f"{text_of(float(known.mean()))} ± {text_of(float(half_width(known)))}"


def quarters_text(values: Sequence[Sequence[float]]) -> str:
    """Write the mean of each quarter, with the largest half width of their intervals.

    Examples
    --------
    >>> quarters_text([[0.9, 0.8], [0.92, 0.7], [0.91, 0.75]])
    '0.91 0.75 ± 0.12'
    """
    known = np.array(values, dtype=float)
    if np.isnan(known).all():
        return ""
    means = " ".join(f"{x:.2f}" for x in known.mean(axis=0))
    return means if len(known) < 3 else f"{means} ± {half_width(known).max():.2f}"


def half_width(values: FloatArray) -> FloatArray:
    """Return half the width of Student's 95 % interval of the mean, down the first axis."""
    n = len(values)
    return np.asarray(stats.t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n))


def experiments() -> list[Path]:
    """Return the experiment files that come with the reproduction."""
    return sorted((Path(__file__).parent / "experiments").glob("*.toml"))


def data_folder(named: Path | None) -> Path | None:
    """Return the data folder, by default that of the environment."""
    found = named or os.environ.get("CREDALSET_DATA")
    return Path(found) if found else None
