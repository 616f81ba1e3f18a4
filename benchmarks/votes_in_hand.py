"""Votes in hand on ChaosNLI and CIFAR-10H: widths, decided items and coverage, as Markdown.

    python benchmarks/votes_in_hand.py --output docs/results/votes_in_hand.md
    python benchmarks/votes_in_hand.py --quick

Ten random splits of each data set (two with ``--quick``) into items that fit the crowd, calibrate
and test. Numbers are means over the splits with 95 % intervals. Finished parts are kept in a file
(``--keep``), so that a run that was cut off goes on where it stopped. The data folder is
``CREDALSET_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import entr, softmax
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression

import credalset as cs

DATA = Path(os.environ.get("CREDALSET_DATA", Path(__file__).parents[2] / "shared" / "data"))
ALPHA = 0.1
IN_HAND = (0, 1, 2, 3, 5, 10)
NAMES = {"cifar": "CIFAR-10H", "chaos": "ChaosNLI"}
RAW = {"clip": "CIFAR-10H, CLIP without training", "roberta": "ChaosNLI, RoBERTa as it is"}
SCALED = ("kl", "tv", "brier", "ws")
PARTS = {
    "cifar": (1000, 1500, 1500),
    "chaos": (500, 750, 750),
}  # items to fit, to calibrate, to test
ACCEPTED = {"cifar": (0.03, 0.05), "chaos": (0.2, 0.25)}
ERRORS = {"cifar": 0.05, "chaos": 0.25}
BUDGETS = {"cifar": (0.25, 0.5, 1.0, 2.0), "chaos": (1.0, 2.0, 5.0, 10.0)}
MEASURES = ["width", "median", "decided", "wrong", "coverage", "q1", "q2", "q3", "q4"]
Row = dict[str, float]


# --- data ---


def load(name: str, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and votes in random order.

    For ChaosNLI those that did not train the linear model.
    """
    rng = np.random.default_rng(split)
    if name in ("cifar", "clip"):
        with np.load(DATA / f"cifar10h_{'model_a' if name == 'cifar' else name}.npz") as file:
            p = softmax(file["logits"].astype(float), axis=1)
            counts = file["counts"].astype(int)
        order = rng.permutation(len(p))
        return p[order], counts[order]
    with (
        np.load(DATA / "chaosnli_snli_mnli_roberta.npz") as file,
        np.load(DATA / "chaosnli_snli_mnli.npz") as votes,
    ):
        known = file["has_roberta"]
        logits = file["roberta_logits"][known].astype(float)
        counts = votes["counts"][known].astype(int)
        snli = (votes["source"][known] == "snli").astype(float)[:, None]
    flat = logits.reshape(-1, 9)
    features = np.hstack([flat, softmax(logits, axis=2).reshape(-1, 9), snli, flat * snli])
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    order = rng.permutation(len(counts))
    train = order[:1083]
    rest = order[1083:]
    if name == "roberta":
        return softmax(logits, axis=2).mean(axis=1)[rest], counts[rest]
    labels = np.tile(np.arange(3), len(train))
    weights = counts[train].ravel() / 100
    model = LogisticRegression(C=0.1, max_iter=500).fit(
        np.repeat(features[train], 3, axis=0), labels, weights
    )
    return model.predict_proba(features[rest]), counts[rest]


def parts_of(name: str, split: int) -> list[tuple[np.ndarray, np.ndarray]]:
    p, counts = load(name, split)
    ends = np.cumsum((0, *PARTS["cifar" if len(p) == 10_000 else "chaos"]))
    return [(p[a:b], counts[a:b]) for a, b in pairwise(ends)]


def hold_back(counts: np.ndarray, h: int, rng: np.random.Generator) -> np.ndarray:
    """Draw h votes of each item without replacement."""
    return np.stack([rng.multivariate_hypergeometric(row, h) for row in counts])


def shares(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum(axis=1, keepdims=True)


def measure(sets: Any, truth: np.ndarray, g: np.ndarray | None = None) -> Row:
    """Measure sets; with the predictions g of the crowd also by quartile of their entropy."""
    admissible = sets.decide("e-admissible")
    number = admissible.sum(axis=1)
    width = 0.5 * (sets.upper() - sets.lower()).sum(axis=1)
    covered = sets.contains(truth)
    one = number == 1
    wrong = (admissible.argmax(axis=1) != truth.argmax(axis=1))[one]
    row = {
        "width": width.mean(),
        "median": np.median(width),
        "labels": number.mean(),
        "decided": (number <= 1).mean(),
        "wrong": wrong.mean() if one.any() else np.nan,
        "coverage": covered.mean(),
    }
    if g is not None:
        order = np.argsort(entr(g).sum(axis=1), kind="stable")
        quarters = np.array_split(order, 4)
        row |= {f"q{i + 1}": covered[rows].mean() for i, rows in enumerate(quarters)}
    return row


# --- what is measured: each function returns rows of numbers for one split ---


def in_hand(name: str, split: int) -> dict[str, Row]:
    """Panel calibration with 0 to 10 votes in hand."""
    fit, calibrate, (p, counts) = parts_of(name, split)
    rng = np.random.default_rng(100 + split)
    found = {}
    alone = cs.conformalize(*calibrate, score="kl").predict_set(p, ALPHA)
    found["0, prediction alone"] = measure(alone, shares(counts))
    crowd = cs.DirichletCrowd().fit(*fit)
    calibration = crowd.conformalize(
        *calibrate, "kl", in_hand=IN_HAND, method="panel", random_state=split
    )
    for h in IN_HAND:
        hand = hold_back(counts, h, rng)
        sets = calibration.predict_set(p, ALPHA, votes=hand)
        found[str(h)] = measure(sets, shares(counts - hand), crowd.predict(p, hand))
    return found


def adaptive(name: str, split: int) -> dict[str, Row]:
    """Sets with and without the scale of the posterior, and without the class bias.

    Also around the mean of the posterior, which is what `DirichletCrowd.predict` returns.
    """
    fit, calibrate, (p, counts) = parts_of(name, split)
    found = {}
    plain = cs.DirichletCrowd(class_bias=False).fit(*fit)
    corrected = cs.DirichletCrowd().fit(*fit)
    for h in (0, 3):
        hand = hold_back(counts, h, np.random.default_rng(500 + split))
        truth = shares(counts - hand)
        used = hold_back(calibrate[1], h, np.random.default_rng(600 + split))
        around = plain.predict(calibrate[0], used)
        g = plain.predict(p, hand)
        made = cs.conformalize(around, calibrate[1] - used, "kl").predict_set(g, ALPHA)
        found[f"{h}, kl, plain around the mean, no class bias"] = measure(made, truth, g)
        for title, scale, crowd in (
            ("plain, no class bias", None, plain),
            ("plain", None, corrected),
            ("scaled", "posterior", corrected),
        ):
            g = crowd.predict(p, hand)
            for score in SCALED if crowd is not plain else ("kl",):
                made = crowd.conformalize(
                    *calibrate, score, in_hand=(h,), scale=scale, random_state=split
                )
                sets = made.predict_set(p, ALPHA, votes=hand)
                found[f"{h}, {score}, {title}"] = measure(sets, truth, g)
    return found


def imputed(name: str, split: int) -> dict[str, Row]:
    """Calibration items with 3, 5 or 10 votes each.

    Imputed, plain, proved, and an oracle that knows all votes.
    """
    fit, calibrate, (p, counts) = parts_of(name, split)
    p_calib = np.concatenate([fit[0], calibrate[0]])
    all_votes = np.concatenate([fit[1], calibrate[1]])
    rng = np.random.default_rng(200 + split)
    found = {}
    truth = shares(counts)
    for m in (3, 5, 10):
        few = hold_back(all_votes, m, rng)
        new = hold_back(counts, m, rng)
        crowd = cs.DirichletCrowd().fit(p_calib, few)
        numbers = sorted({0, 1, m // 2, m})
        for score in ("brier", "tv", "kl"):
            calibration = crowd.conformalize(
                p_calib, few, score, in_hand=numbers, method="imputed", random_state=split
            )
            for h in numbers:
                hand = hold_back(few, h, rng)
                hand_new = hold_back(new, h, rng)
                sets = calibration.predict_set(p, ALPHA, votes=hand_new)
                scaled = calibration.predict_set(p_calib, votes=hand).prediction
                row = measure(sets, truth)
                oracle = cs.conformalize(scaled, all_votes, calibration.score)
                row["oracle"] = mean_width(oracle.predict_set(sets.prediction, ALPHA))
                g = scaled.rows
                g_new = sets.prediction.rows
                row["ratio"] = row["width"] / row["oracle"]
                if m - h >= 2:
                    row["plain"] = mean_width(
                        cs.conformalize(g, few - hand, score).predict_set(g_new, ALPHA)
                    )
                if m - h >= 2 and score == "brier":
                    row |= proved(g, few - hand, g_new)
                found[f"{m}, {h}, {score}"] = row
    return found


def proved(g: np.ndarray, votes: np.ndarray, g_new: np.ndarray) -> Row:
    """Widths of distribution-free routes to the distribution behind votes that did not predict."""
    found = {}
    for name, noise in (("unbiased", cs.UnbiasedVotes()), ("moments", cs.FewVotes(delta=0.01))):
        found[name] = mean_width(
            cs.conformalize(g, votes, "brier", noise=noise).predict_set(g_new, ALPHA)
        )
    return found


def mean_width(sets: Any) -> float:
    return float(0.5 * (sets.upper() - sets.lower()).sum(axis=1).mean())


def policies(name: str, split: int) -> dict[str, Row]:
    """Policies against the same number of votes for all items.

    Each is calibrated as a whole, with the same votes held back.
    """
    fit, *others = parts_of(name, split)
    crowd = cs.DirichletCrowd().fit(*fit)
    items = [np.concatenate(parts) for parts in zip(*others, strict=True)]
    chosen = {f"lead {lead}": cs.VotingPolicy(crowd, lead=lead) for lead in (1.5, 2.0, 2.5, 3.0)}
    chosen["lead 2.5, futility 0.01"] = cs.VotingPolicy(crowd, lead=2.5, futility=0.01)
    chosen["lead 2.5 or width 0.5"] = cs.VotingPolicy(crowd, lead=2.5, width=0.5)
    for accept in ACCEPTED[name]:
        chosen[f"accept {accept}"] = cs.VotingPolicy(crowd, accept=accept)
    found = {}
    options = {title: {} for title in chosen}
    for title, more in (
        ("plain", {"scale": None}),
        ("tv", {"score": "tv"}),
        ("tv, plain", {"score": "tv", "scale": None}),
    ):
        chosen[f"lead 2.0, {title}"] = chosen["lead 2.0"]
        options[f"lead 2.0, {title}"] = more
    for title, policy in chosen.items():
        rows = policy.compare(
            *items,
            () if found else (1, 2, 5, 10, 20),
            alpha=ALPHA,
            error=ERRORS[name],
            random_state=split,
            **options[title],
        )
        for row in rows:
            name_of = (
                title
                if row["policy"] == "policy"
                else f"uniform {row['policy'].removesuffix(' votes')}"
            )
            found[name_of] = {
                column: row[column]
                for column in ("votes", "width", "decided", "coverage", "accepted", "error")
            }
    forecast = chosen["lead 2.0"].forecast(items[0], n_draws=20)
    found["lead 2.0"]["forecast"] = forecast.total / len(items[0])
    return found


def order(name: str, split: int) -> dict[str, Row]:
    """Whom to ask next at a given budget: smallest lead, ActiveLab, or items at random."""
    fit, _, (p, counts) = parts_of(name, split)
    p = p[:600]
    counts = counts[:600]
    crowd = cs.DirichletCrowd().fit(*fit)
    top = counts.argmax(axis=1)
    orders: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "smallest lead": lambda votes: _leads(crowd, p, votes.sum(axis=2)),
        "ActiveLab": lambda votes: _activelab(p, votes),
        "random": lambda votes: (
            votes.sum(axis=(1, 2)) + np.random.default_rng(split).random(len(p))
        ),
    }
    found = {}
    step = len(p) // 10
    for title, rank in orders.items():
        rng = np.random.default_rng(300 + split)
        queue = [rng.permutation(np.repeat(np.arange(counts.shape[1]), row)) for row in counts]
        votes = np.zeros((*counts.shape, 40), dtype=int)
        used = np.zeros(len(p), dtype=int)
        for budget in BUDGETS[name]:
            while used.sum() < budget * len(p):
                open_items = np.where(used < 40, rank(votes), np.inf)
                for i in np.argsort(open_items)[: min(step, int(budget * len(p)) - used.sum())]:
                    votes[i, queue[i][used[i]], used[i]] = 1
                    used[i] += 1
            hand = votes.sum(axis=2)
            g = crowd.predict(p, hand)
            error = 0.5 * np.abs(g - shares(counts - hand)).sum(axis=1)
            found[f"{title}, {budget:g}"] = {
                "wrong": (g.argmax(axis=1) != top).mean(),
                "tv": error.mean(),
            }
    return found


def _leads(crowd: cs.DirichletCrowd, p: np.ndarray, votes: np.ndarray) -> np.ndarray:
    lead, deviation = crowd.posterior(p, votes).lead()
    return lead / np.maximum(deviation, 1e-12)


def _activelab(p: np.ndarray, votes: np.ndarray) -> np.ndarray:
    from cleanlab.multiannotator import get_active_learning_scores

    has = votes.any(axis=(1, 2))
    scores = np.empty(len(p))
    labels = np.where(votes.any(axis=1), votes.argmax(axis=1).astype(float), np.nan)
    labels = labels[:, votes.any(axis=(0, 1))]
    if not has.any():
        return get_active_learning_scores(pred_probs_unlabeled=p)[1]
    rest = None if has.all() else p[~has]
    scores[has], other = get_active_learning_scores(labels[has], p[has], rest)
    scores[~has] = other
    return scores


def broken(name: str, split: int) -> dict[str, Row]:
    """Synthetic crowds that are no Dirichlet crowds.

    Coverage of the imputed route with three votes, score brier.
    """
    rng = np.random.default_rng(400 + split)
    found = {}
    for title, make in SIMULATIONS.items():
        for k in (2, 3, 10):
            p = rng.dirichlet(np.ones(k), 2000)
            truth = make(p, rng)
            few = np.stack([rng.multinomial(3, row) for row in truth])
            crowd = cs.DirichletCrowd().fit(p[:1000], few[:1000])
            calibration = crowd.conformalize(
                p[:1000], few[:1000], "brier", in_hand=(0, 3), method="imputed"
            )
            for h, hand in ((0, None), (3, few[1000:])):
                sets = calibration.predict_set(p[1000:], ALPHA, votes=hand)
                g = calibration.predict_set(
                    p[:1000], votes=None if hand is None else few[:1000]
                ).prediction
                oracle = cs.conformalize(g, truth[:1000], calibration.score).predict_set(
                    sets.prediction, ALPHA
                )
                ratio = mean_width(sets) / mean_width(oracle)
                found[f"{title}, {k}, {h}"] = {
                    "coverage": sets.contains(truth[1000:]).mean(),
                    "ratio": ratio,
                }
            check = crowd.check(p[1000:], few[1000:], n_simulations=99)
            found[f"{title}, {k}, 0"]["p"] = check.p_value
    return found


def _faces(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    first = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)
    second = np.where(rng.random(len(p)) < 0.4, rng.integers(p.shape[1], size=len(p)), first)
    return 0.5 * (np.eye(p.shape[1])[first] + np.eye(p.shape[1])[second])


def _around(p: np.ndarray, strength: Any, rng: np.random.Generator) -> np.ndarray:
    rows = np.broadcast_to(strength, (len(p),))
    draws = np.stack([rng.dirichlet(s * row + 0.02) for s, row in zip(rows, p, strict=True)])
    return draws / draws.sum(axis=1, keepdims=True)


SIMULATIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "unanimous, or split between two classes": _faces,
    "predictions that are nearly exact": lambda p, rng: _around(p, 300.0, rng),
    "half of the predictions nearly exact, half far off": lambda p, rng: _around(
        p, np.where(rng.random(len(p)) < 0.5, 200.0, 1.0), rng
    ),
    "a third of the predictions with classes in reverse": lambda p, rng: _around(
        np.where(rng.random((len(p), 1)) < 0.33, p[:, ::-1], p), 30.0, rng
    ),
}


# --- running and printing ---


def collect(
    part: Callable[[str, int], dict[str, Row]], name: str, n_splits: int, kept: Path
) -> dict[str, list[Row]]:
    """Run one part over all splits, taking from the file what is finished."""
    done = json.loads(kept.read_text()) if kept.is_file() else {}
    rows: dict[str, list[Row]] = {}
    for split in range(n_splits):
        key = f"{part.__name__} {name} {split}"
        if key not in done:
            found = part(name, split)
            done[key] = {
                title: {k: float(v) for k, v in row.items()} for title, row in found.items()
            }
            kept.write_text(json.dumps(done))
        for title, row in done[key].items():
            rows.setdefault(title, []).append(row)
    return rows


def cell(rows: list[Row], column: str) -> str:
    values = [row[column] for row in rows if column in row and np.isfinite(row[column])]
    if not values:
        return "–"
    half = (
        student.ppf(0.975, max(len(values) - 1, 1)) * np.std(values, ddof=1) / np.sqrt(len(values))
    )
    return f"{np.mean(values):.3f} ± {half:.3f}" if len(values) > 1 else f"{np.mean(values):.3f}"


def table(head: str, rows: dict[str, list[Row]], columns: list[str]) -> list[str]:
    lines = [f"| {head} | {' | '.join(columns)} |", "|" + "---|" * (1 + len(columns))]
    lines += [
        f"| {title} | {' | '.join(cell(each, c) for c in columns)} |"
        for title, each in rows.items()
    ]
    return [*lines, ""]


def write(n_splits: int, kept: Path) -> list[str]:
    both = list(NAMES)
    lines = [
        "# Votes in hand: measured",
        "",
        f"Means over {n_splits} random splits with 95 % intervals, alpha = {ALPHA}. Width is half "
        "of the sum of upper minus lower probabilities, decided the share of items with at most "
        "one E-admissible label, and wrong the share of these whose label is not that of most "
        "votes held back; q1 to q4 are coverages by quartile of the entropy that the crowd "
        "predicts, from the easiest to the hardest. Written by `benchmarks/votes_in_hand.py`.",
        "",
    ]
    for name in both:
        lines += [f"## {NAMES[name]}: votes in hand, panel calibration, score kl", ""]
        lines += table("votes in hand", collect(in_hand, name, n_splits, kept), MEASURES)
    for name, title in (NAMES | RAW).items():
        lines += [f"## {title}: sets with and without the scale of the posterior", ""]
        lines += table("votes, score, sets", collect(adaptive, name, n_splits, kept), MEASURES)
    for name in both:
        lines += [f"## {NAMES[name]}: calibration items with few votes", ""]
        lines += [
            "Imputed width and coverage of the share of all votes; widths of the oracle and "
            "of other routes.",
            "",
        ]
        columns = ["width", "coverage", "oracle", "ratio", "plain", "unbiased", "moments"]
        lines += table("votes, in hand, score", collect(imputed, name, n_splits, kept), columns)
    for name in both:
        lines += [f"## {NAMES[name]}: policies, at most 20 votes, panel calibration, score kl", ""]
        lines += [
            "All policies draw on the same 20 votes of each item and are scored against its "
            "other votes. Labels are accepted with a certified error of "
            f"{ERRORS[name]} at confidence 0.9; error is how often the other votes disagree.",
            "",
        ]
        columns = ["votes", "width", "decided", "coverage", "accepted", "error", "forecast"]
        lines += table("policy", collect(policies, name, n_splits, kept), columns)
    lines += ["## Whom to ask next", ""]
    try:
        import cleanlab  # noqa: F401
    except ImportError:
        lines += [
            "Not measured: cleanlab is not installed (pip install 'credalset[activelab]').",
            "",
        ]
    else:
        lines += [
            "Share of items with another most probable label than all votes, and total "
            "variation distance.",
            "",
        ]
        for name in both:
            found = collect(order, name, min(n_splits, 5), kept)
            lines += table(f"{NAMES[name]}, mean votes per item", found, ["wrong", "tv"])
    lines += ["## Crowds that violate the model: imputed, three votes, score brier", ""]
    lines += table(
        "crowd, classes, in hand",
        collect(broken, "", min(n_splits, 5), kept),
        ["coverage", "ratio", "p"],
    )
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two splits")
    parser.add_argument("--output", type=Path, help="file for the tables")
    parser.add_argument(
        "--keep", type=Path, help="file of finished parts; remove it to measure again"
    )
    chosen = parser.parse_args(arguments)
    if not (DATA / "cifar10h_model_a.npz").is_file():
        print(f"Not measured: {DATA} does not hold ChaosNLI and CIFAR-10H. Set CREDALSET_DATA.")
        return
    n_splits = 2 if chosen.quick else 10
    kept = chosen.keep or Path(tempfile.gettempdir()) / f"credalset-votes-in-hand-{n_splits}.json"
    warnings.simplefilter("ignore", cs.CredalSetWarning)
    text = "\n".join(write(n_splits, kept))
    print(text)
    if chosen.output:
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        chosen.output.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
