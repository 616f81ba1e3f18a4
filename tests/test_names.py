"""The rule for names, held by every public function: named is matched, nameless follows.

A table lists all public functions that take something with rows or columns. Hypothesis shuffles the
rows and columns of named arguments, and strips the names of others, which are then in the order in
which the predictions were passed. Answers per item and class must be the same, or a ``ValueError``
must come. A public function without a row fails.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.acting.table import read_table
from credalset.evaluation import slice_coverage, worst_slice
from credalset.scores import Brier, IntervalPrediction, ScaledPrediction, TotalVariation
from tests.test_docs import api_entries

N, K = 40, 3
RNG = np.random.default_rng(0)
ITEMS = [f"item {i}" for i in range(N)]
CLASSES = ["no", "perhaps", "yes"]
TRUTH = RNG.dirichlet([0.6, 0.9, 0.7], N)
P = pd.DataFrame(0.7 * TRUTH + 0.3 * RNG.dirichlet(np.ones(K), N), ITEMS, CLASSES)
VOTES = pd.DataFrame(RNG.multinomial(14, TRUTH), ITEMS, CLASSES)
IN_HAND = pd.DataFrame(RNG.multinomial(2, TRUTH), ITEMS, CLASSES)
ASKED = pd.Series(RNG.random(N) < 0.5, ITEMS)
GROUPS = pd.Series(RNG.choice(["a", "b"], N), ITEMS)
WEIGHTS = pd.Series(RNG.uniform(0.5, 2.0, N), ITEMS)
FOLDS = pd.Series(np.arange(N) % 4, ITEMS)
FEATURES = pd.DataFrame({"x": TRUTH[:, 0], "z": RNG.normal(size=N)}, ITEMS)
LABELS = pd.Series(VOTES.idxmax(axis=1).to_numpy(), ITEMS)
TEXTS = pd.Series([f"text of {name}." for name in ITEMS], ITEMS)
UTILITY = pd.DataFrame(RNG.normal(size=(4, K)), ["w", "x", "y", "z"], CLASSES)
PER_CLASS = pd.Series(RNG.normal(size=K), CLASSES)
CLUSTERS = pd.Series([f"pair {i // 2}" for i in range(N)], ITEMS)
STRATA = pd.Series(np.repeat(["easy", "hard"], N // 2), ITEMS)
COSTS = pd.DataFrame([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [1.5, 0.2, 0.0]], CLASSES, CLASSES)
NOTHING: dict[str, Any] = {}

#: arguments of public functions that have rows or columns
ROLES = {
    *("prediction", "predictions", "votes", "distribution", "distributions", "votes_in_hand"),
    *("X", "Y", "y", "groups", "weights", "folds", "utility", "labels", "sample_weight"),
    *("texts", "images", "slices", "color", "truth", "covered", "rows", "threshold"),
    *("below", "above", "scale", "features", "sets", "asked"),
    *("judges", "kinds", "clusters"),
    *("values", "strata", "minus", "loss", "costs"),
}


@dataclass
class World:
    """Arguments of one call: which have names, and in which order they come."""

    rows: np.ndarray = field(repr=False)  # of the predictions
    columns: np.ndarray
    named: dict[str, bool]
    shuffles: dict[str, tuple[np.ndarray, np.ndarray]] = field(repr=False)
    used: set[str] = field(default_factory=set)

    def is_named(self, role: str) -> bool:
        return self.named.get(role, True)

    def give(self, role: str, value: Any, *, per_class: bool = False) -> Any:
        """Return an argument: shuffled with its names, or without names in the order asked for."""
        self.used.add(role)
        rows, columns = (self.rows, self.columns)
        if role != "predictions" and self.is_named(role):
            rows, columns = self.shuffles[role]
        if isinstance(value, pd.DataFrame):
            if not per_class:
                value = value.iloc[rows]
            if list(value.columns) == CLASSES:
                value = value.iloc[:, columns]
            if list(value.index) == CLASSES:
                value = value.iloc[columns]
        elif per_class:
            value = value.iloc[columns]
        else:
            value = value.iloc[rows]
        return value if self.is_named(role) else value.to_numpy()

    def back(self, answer: Any, *, classes: bool = False, named: Any = None) -> np.ndarray:
        """Return an answer per item (and class) in the order of the world's own tables."""
        array = np.asarray(answer)
        found = np.empty_like(array)
        found[self.rows] = array
        if not classes:
            return found
        order = self.columns if named is None else [CLASSES.index(name) for name in named]
        turned = np.empty_like(found)
        turned[:, order] = found
        return turned


ROLES_OF_WORLDS = ["predictions", *sorted(ROLES - {"predictions", "prediction"})]


def worlds() -> st.SearchStrategy[World]:
    """Draw which arguments have names, and the seed of the orders in which they come."""

    def build(seed: int, named: dict[str, bool]) -> World:
        rng = np.random.default_rng(seed)
        orders = {role: (rng.permutation(N), rng.permutation(K)) for role in ROLES_OF_WORLDS}
        return World(*orders["predictions"], named, orders)

    return st.builds(
        build,
        seed=st.integers(0, 2**32 - 1),
        named=st.fixed_dictionaries({role: st.booleans() for role in ROLES_OF_WORLDS}),
    )


CANONICAL = World(np.arange(N), np.arange(K), {}, {})
CANONICAL.shuffles = {role: (np.arange(N), np.arange(K)) for role in ROLES}


# --- calibrations that new items meet: with names of classes, as those of the world ---

PLAIN = cs.conformalize(P, VOTES, "tv")
GROUPED = cs.conformalize(P, VOTES, "kl", groups=GROUPS, weights=WEIGHTS)
CROSS = cs.cross_conformalize(P, VOTES, FOLDS, "tv")
GROUPED_CROSS = cs.cross_conformalize(P, VOTES, FOLDS, "tv", groups=GROUPS, weights=WEIGHTS)
LABELLED = cs.labels.conformalize(P, VOTES)
GROUPED_LABELS = cs.labels.conformalize(P, VOTES, groups=GROUPS, weights=WEIGHTS)
CROWD = cs.DirichletCrowd(n_consensus=1, max_iter=15).fit(P, VOTES)
OTHERS = [f"panel {i}" for i in range(N)]
PANEL = CROWD.conformalize(
    P.set_axis(OTHERS), VOTES.set_axis(OTHERS), "tv", in_hand=(0, 2), min_votes=3
)
GROUPED_PANEL = CROWD.conformalize(
    P.set_axis(OTHERS),
    VOTES.set_axis(OTHERS),
    "tv",
    in_hand=(0, 2),
    min_votes=3,
    groups=GROUPS.set_axis(OTHERS),
)
POLICY = cs.VotingPolicy(CROWD, lead=1.0, max_votes=3)
SCALED = cs.conformalize(
    ScaledPrediction(P, WEIGHTS), VOTES, cs.scores.Normalized("tv", scale="predicted")
)
SETS = PLAIN.predict_set(P, 0.3)
MEMBERS = LABELLED.predict_set(P, 0.3)
CLASSIFIER = cs.ConformalCredalClassifier(LogisticRegression(max_iter=30)).fit(FEATURES, VOTES)


def predicted(w: World) -> Any:
    return w.give("predictions", P)


def sets_of(w: World) -> Any:
    """Sets with names, or without, in the order of the predictions of the world."""
    return PLAIN.score.region(predicted(w), 0.15)


def in_class_order(w: World, votes: pd.DataFrame) -> Any:
    """Votes beside sets: without names they are in the order of the sets' classes."""
    given_votes = w.give("votes", votes)
    return given_votes if w.is_named("votes") else votes.iloc[w.rows].to_numpy()


def in_order(w: World, sets: Any) -> tuple[np.ndarray, ...]:
    lower, upper = sets.envelope()
    return (
        w.back(lower, classes=True, named=sets.classes),
        w.back(upper, classes=True, named=sets.classes),
    )


def conformalized(w: World, make: Callable[..., Any], **more: Any) -> tuple[Any, ...]:
    made = make(predicted(w), w.give("votes", VOTES), **more)
    return (np.sort(made.scores), made.n_classes)


def groups_and_weights(w: World) -> dict[str, Any]:
    return {"groups": w.give("groups", GROUPS), "weights": w.give("weights", WEIGHTS)}


def votes_and_groups(w: World) -> dict[str, Any]:
    return {"votes": w.give("votes", IN_HAND), "groups": w.give("groups", GROUPS)}


def fit_and_predict(w: World, estimator: Any, **more: Any) -> Any:
    X = w.give("predictions", FEATURES)
    fitted = estimator.fit(X, w.give("y", VOTES), **more)
    found = fitted.predict_proba(FEATURES.to_numpy() if not w.is_named("predictions") else FEATURES)
    order = list(fitted.classes_)
    if order == list(range(K)):
        assert not w.is_named("y")
        order = [CLASSES[k] for k in w.columns]
    return np.round(found[:, [order.index(name) for name in CLASSES]], 6)


def calibrated_classifier(w: World) -> Any:
    X = w.give("predictions", FEATURES)
    clf = cs.ConformalCredalClassifier(CLASSIFIER.estimator_)
    clf.conformalize(X, w.give("Y", VOTES), **groups_and_weights(w))
    return (np.sort(clf.calibration_.scores),)


def cross_classifier(w: World) -> Any:
    X = w.give("predictions", FEATURES)
    folds = w.give("folds", FOLDS)
    clf = cs.ConformalCredalClassifier(LogisticRegression(max_iter=30))
    clf.cross_conformalize(X, w.give("Y", VOTES), folds, **groups_and_weights(w))
    return (np.round(np.sort(clf.calibration_.scores), 6),)


READY = cs.ConformalCredalClassifier(CLASSIFIER.estimator_).conformalize(
    FEATURES, VOTES, GROUPS, WEIGHTS
)


def rule_of(w: World, certify: Callable[..., Any]) -> Any:
    options = {
        "groups": w.give("groups", GROUPS),
        "clusters": w.give("clusters", CLUSTERS),
        "confidence": 0.5,
    }
    if certify.__name__ == "divided":
        options["disagreement"] = 0.3
    else:
        options |= {"error": 0.5, "loss": w.give("loss", COSTS, per_class=True)}
    made = certify(predicted(w), w.give("votes", VOTES), **options)
    found: tuple[Any, ...] = (len(made.shares),)
    if made.costs is not None:
        names = made.classes or [CLASSES[k] for k in w.columns]
        order = [names.index(name) for name in CLASSES]
        found += (made.costs[np.ix_(order, order)],)
    if made.crowd is None:
        return found  # which items choose thresholds depends on their order
    return (*found, np.sort(made.shares.ravel()), np.sort(made.sizes))


def scores_by_group(made: Any) -> tuple[np.ndarray, ...]:
    """The scores of a calibration for one number of votes in hand, by group."""
    fitted = made.calibrations[0].fitted
    return tuple(
        np.sort(fitted.fits[fitted.groups.index(key)].scores) for key in sorted(fitted.groups)
    )


def never(predictions: Any, votes: Any) -> Any:
    return np.zeros(len(predictions), dtype=bool)


@cache
def rule_for_new_items() -> Any:
    return RENAMED_CROWD.accept(P, VOTES, groups=GROUPS, error=0.5, confidence=0.5)


@cache
def reviewed() -> Any:
    return cs.review(P, VOTES, error=0.4, groups=GROUPS)


def review_of(w: World) -> tuple[Any, ...]:
    """What a review reads, and a whole one: its rules depend on the order of the items."""
    groups = w.give("groups", GROUPS)
    clusters = w.give("clusters", CLUSTERS)
    votes = w.give("votes", VOTES)
    texts = w.give("texts", TEXTS)
    table, batch = read_table(predicted(w), votes, None, groups, clusters, 0)
    assert table.groups is not None
    assert table.units is not None
    of_items = [w.back(np.array(table.groups)[table.codes])]
    units = w.back(table.units)
    of_items.append(np.equal.outer(units, units))
    of_items.append(w.back(table.counts, classes=True, named=batch.classes))
    if not w.is_named("votes") or w.is_named("texts"):
        learned, of_votes = read_table(None, votes, texts, None, None, 0)
        read = learned.source.frame["text"].to_numpy()
        items = of_votes.items or [ITEMS[row] for row in w.rows]
        of_items.append(
            np.array([text == f"text of {item}." for text, item in zip(read, items, strict=True)])
        )
    else:
        of_items.append(np.ones(N, dtype=bool))
    whole = cs.review(predicted(w), votes, error=0.4, costs=w.give("costs", COSTS, per_class=True))
    return (*of_items, w.back(whole.queue.votes))


def page(w: World) -> Any:
    made = cs.report(
        PANEL,
        predicted(w),
        w.give("votes", VOTES),
        None,
        alpha=0.3,
        votes_in_hand=w.give("votes_in_hand", IN_HAND),
        texts=w.give("texts", TEXTS),
        groups=w.give("groups", GROUPS),
        slices={"f": w.give("slices", FEATURES["x"])},
    )
    slices = sorted((part.feature, part.value, float(part.coverage)) for part in made.slices)
    return (float(made.verdict.observed), made.verdict.width, str(slices))


def evaluated(w: World) -> Any:
    options: dict[str, Any] = {"groups": w.give("groups", GROUPS)}
    options["votes_in_hand"] = w.give("votes_in_hand", IN_HAND)
    votes = w.give("votes", VOTES)
    rows = cs.evaluate(PANEL, predicted(w), votes, 0.3, **options)
    weighted = cs.evaluate(GROUPED, predicted(w), votes, 0.3, **groups_and_weights(w))
    return (
        float(rows[0]["coverage"]),
        [float(row["coverage"]) for row in rows.groups],
        float(weighted[0]["threshold"]),
    )


def drawn(w: World, draw: Callable[..., Any], **options: Any) -> Any:
    from matplotlib.figure import Figure

    sets = sets_of(w)[[0]]
    first = P.index[w.rows[0]]
    one = {name: table.loc[[first]] for name, table in (("truth", P), ("votes", VOTES))}
    given_marks = {}
    for name, table in one.items():
        w.used.add(name)
        columns = w.shuffles[name][1] if w.is_named(name) else w.columns
        turned = table.iloc[:, columns]
        given_marks[name] = turned if w.is_named(name) else turned.to_numpy()
    ax = draw(sets, ax=Figure().subplots(), **given_marks, **options)
    found = {
        line.get_label(): np.asarray(line.get_ydata(), float)
        for line in ax.get_lines()
        if line.get_label() in ("truth", "votes")
    }
    order = [CLASSES.index(c) for c in sets.classes] if sets.classes else w.columns
    values = np.stack([found["truth"], found["votes"]])
    back = np.empty_like(values)
    back[:, order] = values
    # The first item of the world differs from call to call: compare with its own tables.
    expected = np.stack([one["truth"].to_numpy()[0], one["votes"].to_numpy()[0] / 14])
    return (np.abs(back - expected).max() < 1e-9,)


def policy_votes(w: World) -> Any:
    forecast = POLICY.forecast(predicted(w), w.give("votes", IN_HAND), n_draws=1, random_state=0)
    return (w.back(forecast.to_ask),)


def replayed(w: World) -> Any:
    """Which votes are used depends on chance; those of an item are all used or held back."""
    found = POLICY.replay(predicted(w), w.give("votes", VOTES), min_votes=4)
    return (w.back(found.votes + found.held_back, classes=True, named=CLASSES),)


def split_off(w: World) -> Any:
    parts = cs.train_conformalize_test_split(
        w.give("predictions", FEATURES), w.give("Y", LABELS), random_state=0
    )
    X, Y = np.concatenate([np.asarray(x) for x in parts[:3]]), np.concatenate(parts[3:])
    position = {tuple(row): i for i, row in enumerate(FEATURES.to_numpy())}
    found = np.empty(N, dtype=object)
    found[[position[tuple(row)] for row in X]] = Y
    return (found,)


def streamed_scores(w: World) -> Any:
    stream = cs.Stream(PLAIN, 0.3)
    stream.update(predicted(w), w.give("votes", VOTES))
    return (w.back(np.array(stream._seen)),)


def scaled(w: World) -> ScaledPrediction:
    return ScaledPrediction(predicted(w), w.give("scale", WEIGHTS))


def intervals(w: World) -> IntervalPrediction:
    return IntervalPrediction(
        predicted(w), w.give("below", 0.5 * P + 0.01), w.give("above", P + 0.01)
    )


def pairs(w: World, measure: Callable[..., Any]) -> Any:
    return (round(float(measure(w.give("votes", VOTES), predicted(w))), 9),)


def of_sets(w: World, measure: Callable[..., Any], **options: Any) -> Any:
    found = measure(sets_of(w), w.give("votes", VOTES), **options)
    return ({key: float(value) for key, value in found.items()} if options else float(found),)


def network(name: str) -> Callable[[World], Any]:
    def fit(w: World) -> Any:
        pytest.importorskip("torch")
        made = getattr(cs.predictors, name)(epochs=1, random_state=0)
        X = w.give("predictions", FEATURES)
        labels = w.give("y", VOTES)
        made.fit(X, labels)
        # Training depends on the order of the items: only the classes are compared.
        return (sorted(map(str, made.classes_)) == sorted(CLASSES) or not w.is_named("y"),)

    return fit


TABLE: dict[str, Callable[[World], Any]] = {
    "conformalize": lambda w: conformalized(w, cs.conformalize, **groups_and_weights(w)),
    "labels.conformalize": lambda w: conformalized(
        w, cs.labels.conformalize, **groups_and_weights(w)
    ),
    "cross_conformalize": lambda w: conformalized(
        w, cs.cross_conformalize, folds=w.give("folds", FOLDS), **groups_and_weights(w)
    ),
    "epsilon_from_counts": lambda w: (
        round(
            cs.epsilon_from_counts(
                w.give("votes", VOTES), 0.3, "tv", predictions=predicted(w)
            ).epsilon,
            9,
        ),
    ),
    "SplitCalibration.predict_set": lambda w: in_order(
        w, GROUPED.predict_set(predicted(w), 0.4, **groups_and_weights(w))
    ),
    "SplitCalibration.thresholds": lambda w: (
        w.back(GROUPED.thresholds(predicted(w), 0.4, **groups_and_weights(w))),
    ),
    "SplitCalibration.p_values": lambda w: (
        w.back(
            GROUPED.p_values(predicted(w), w.give("distributions", VOTES), **groups_and_weights(w))
        ),
    ),
    "CrossCalibration.predict_set": lambda w: in_order(
        w,
        GROUPED_CROSS.predict_set(
            [predicted(w)] * 3 + [w.give("rows", P)], 0.4, **groups_and_weights(w)
        ),
    ),
    "CrossCalibration.thresholds": lambda w: (
        w.back(
            GROUPED_CROSS.thresholds(
                [predicted(w)] * 3 + [w.give("rows", P)], 0.4, **groups_and_weights(w)
            )
        ),
    ),
    "LabelCalibration.predict_set": lambda w: (
        w.back(
            GROUPED_LABELS.predict_set(predicted(w), 0.4, **groups_and_weights(w)).members,
            classes=True,
            named=CLASSES,
        ),
    ),
    "LabelCalibration.thresholds": lambda w: (
        w.back(GROUPED_LABELS.thresholds(predicted(w), 0.4, **groups_and_weights(w))),
    ),
    "LabelCalibration.p_values": lambda w: (
        w.back(
            GROUPED_LABELS.p_values(predicted(w), **groups_and_weights(w)),
            classes=True,
            named=CLASSES,
        ),
    ),
    "LabelSets.contains": lambda w: (w.back(MEMBERS[w.rows].contains(w.give("labels", LABELS))),),
    "LabelSets.share": lambda w: (
        w.back(LABELLED.predict_set(predicted(w), 0.3).share(in_class_order(w, VOTES))),
    ),
    "CrowdCalibration.predict_set": lambda w: in_order(
        w, GROUPED_PANEL.predict_set(predicted(w), 0.4, **votes_and_groups(w))
    ),
    "CrowdCalibration.thresholds": lambda w: (
        w.back(GROUPED_PANEL.thresholds(predicted(w), 0.4, **votes_and_groups(w))),
    ),
    "CrowdCalibration.p_values": lambda w: (
        w.back(
            GROUPED_PANEL.p_values(
                predicted(w), w.give("distributions", VOTES), **votes_and_groups(w)
            )
        ),
    ),
    "DirichletCrowd.fit": lambda w: (
        round(
            float(
                cs.DirichletCrowd(1, n_consensus=0, max_iter=8)
                .fit(predicted(w), w.give("votes", VOTES))
                .law_.around[0, 0]
            ),
            3,
        ),
    ),
    "DirichletCrowd.predict": lambda w: (
        w.back(CROWD.predict(predicted(w), w.give("votes", IN_HAND)), classes=True, named=CLASSES),
    ),
    "DirichletCrowd.posterior": lambda w: (
        w.back(
            CROWD.posterior(predicted(w), w.give("votes", IN_HAND)).mean,
            classes=True,
            named=CLASSES,
        ),
    ),
    "DirichletCrowd.check": lambda w: (
        CROWD.check(predicted(w), w.give("votes", VOTES), n_simulations=1).votes[:, 2].sum(),
    ),
    "DirichletCrowd.conformalize": lambda w: scores_by_group(
        RENAMED_CROWD.conformalize(
            predicted(w),
            w.give("votes", VOTES),
            "tv",
            in_hand=(0,),
            min_votes=1,
            scale=None,
            groups=w.give("groups", GROUPS),
        )
    ),
    "DirichletCrowd.accept": lambda w: rule_of(w, RENAMED_CROWD.accept),
    "DirichletCrowd.divided": lambda w: rule_of(w, RENAMED_CROWD.divided),
    "labels.accept": lambda w: rule_of(w, cs.labels.accept),
    "VotingPolicy.ask": lambda w: (w.back(POLICY.ask(predicted(w), w.give("votes", IN_HAND))),),
    "VotingPolicy.replay": replayed,
    "VotingPolicy.conformalize": lambda w: scores_by_group(
        cs.VotingPolicy(RENAMED_CROWD, max_votes=3, rule=never).conformalize(
            predicted(w),
            w.give("votes", VOTES),
            "tv",
            min_votes=4,
            scale=None,
            groups=w.give("groups", GROUPS),
        )
    ),
    "AcceptRule.predict": lambda w: (
        w.back(
            rule_for_new_items()
            .predict(predicted(w), w.give("votes", IN_HAND), groups=w.give("groups", GROUPS))
            .risk
        ),
    ),
    "StoredRule.decide": lambda w: (
        w.back(
            reviewed()
            .stored.decide(predicted(w), w.give("votes", IN_HAND), w.give("groups", GROUPS))
            .risk
        ),
    ),
    "VotingPolicy.forecast": policy_votes,
    "VotingPolicy.compare": lambda w: (
        len(POLICY.compare(predicted(w), w.give("votes", VOTES), (0,), score="tv")),
    ),
    "Stream.predict_set": lambda w: in_order(w, cs.Stream(PLAIN, 0.3).predict_set(predicted(w))),
    "Stream.update": streamed_scores,
    "evaluate": evaluated,
    "report": page,
    "metrics.coverage": lambda w: of_sets(w, cs.metrics.coverage),
    "metrics.coverage_by_group": lambda w: of_sets(
        w, cs.metrics.coverage_by_group, groups=w.give("groups", GROUPS)
    ),
    "metrics.soft_log_loss": lambda w: pairs(w, cs.metrics.soft_log_loss),
    "metrics.soft_brier": lambda w: pairs(w, cs.metrics.soft_brier),
    "slice_coverage": lambda w: (
        [
            float(part.coverage)
            for part in slice_coverage(
                w.give("predictions", P["yes"] > 0.4), {"g": w.give("features", GROUPS)}
            )
        ],
    ),
    "worst_slice": lambda w: (
        getattr(
            worst_slice(
                w.give("predictions", P["yes"] > 0.4),
                {"g": w.give("features", GROUPS)},
                min_share=0.05,
            ),
            "n_candidates",
            None,
        ),
    ),
    "CredalSet.contains": lambda w: (w.back(sets_of(w).contains(w.give("distribution", VOTES))),),
    "CredalSet.support": lambda w: (
        w.back(sets_of(w).support(w.give("utility", PER_CLASS, per_class=True))[0]),
    ),
    "CredalSet.upper_expectation": lambda w: (
        w.back(sets_of(w).upper_expectation(w.give("utility", P))),
    ),
    "CredalSet.lower_expectation": lambda w: (
        w.back(sets_of(w).lower_expectation(w.give("utility", P))),
    ),
    "CredalSet.decide": lambda w: (
        w.back(sets_of(w).decide("maximal", w.give("utility", UTILITY, per_class=True))),
    ),
    "review": review_of,
    "CredalSet.queue": lambda w: (
        w.back(sets_of(w).queue(utility=w.give("utility", UTILITY, per_class=True)).step),
        w.back(sets_of(w).queue(votes=w.give("votes", IN_HAND), asked=w.give("asked", ASKED)).step),
    ),
    "Score.__call__": lambda w: (
        w.back(TotalVariation()(predicted(w), w.give("distribution", VOTES / 14))),
    ),
    "Score.region": lambda w: in_order(
        w, TotalVariation().region(predicted(w), w.give("threshold", 0.2 * WEIGHTS))
    ),
    "ScaledPrediction.__init__": lambda w: in_order(w, SCALED.predict_set(scaled(w), 0.4)),
    "IntervalPrediction.__init__": lambda w: in_order(
        w, cs.scores.Intervals().region(intervals(w), 0.5)
    ),
    "ConformalCredalClassifier.fit": lambda w: (
        fit_and_predict(w, cs.ConformalCredalClassifier(LogisticRegression(max_iter=200))),
    ),
    "ConformalCredalClassifier.conformalize": calibrated_classifier,
    "ConformalCredalClassifier.cross_conformalize": cross_classifier,
    "ConformalCredalClassifier.predict_set": lambda w: (
        w.back(
            READY.predict_set(
                w.give("predictions", FEATURES), 0.4, **groups_and_weights(w)
            ).threshold
        ),
    ),
    "ConformalCredalClassifier.evaluate": lambda w: (
        float(
            READY.evaluate(
                w.give("predictions", FEATURES),
                w.give("Y", VOTES),
                0.4,
                **groups_and_weights(w),
            )[0]["coverage"]
        ),
    ),
    "ConformalCredalClassifier.compare": lambda w: (
        len(CLASSIFIER.compare(w.give("predictions", FEATURES), w.give("Y", VOTES), ["tv"])),
    ),
    "SoftScoring.score": lambda w: (
        round(
            CLASSIFIER.score(
                w.give("predictions", FEATURES),
                w.give("y", VOTES),
                w.give("sample_weight", WEIGHTS),
            ),
            9,
        ),
    ),
    "SoftLabelClassifier.fit": lambda w: (
        fit_and_predict(
            w,
            cs.SoftLabelClassifier(LogisticRegression(max_iter=200)),
            sample_weight=w.give("sample_weight", WEIGHTS),
        ),
    ),
    "train_conformalize_test_split": split_off,
    "plotting.envelopes": lambda w: drawn(w, cs.plotting.envelopes, classes=None),
    "plotting.range_strip": lambda w: heights(
        cs.plotting.range_strip(sets_of(w), votes=w.give("votes", VOTES), ax=_axes())
    ),
    "plotting.coverage_by_difficulty": lambda w: heights(
        cs.plotting.coverage_by_difficulty(sets_of(w), w.give("votes", VOTES), ax=_axes())
    ),
    "plotting.rejection": lambda w: heights(
        cs.plotting.rejection(sets_of(w), w.give("votes", VOTES), ax=_axes())
    ),
    "plotting.share_calibration": lambda w: heights(
        cs.plotting.share_calibration(predicted(w), w.give("votes", VOTES), ax=_axes())
    ),
    "plotting.uncertainty_map": lambda w: (
        len(
            cs.plotting.uncertainty_map(
                sets_of(w), color=w.give("color", WEIGHTS), ax=_axes()
            ).collections
        )
        > 0,
    ),
}

SHARPER = (P**2).div((P**2).sum(axis=1), axis=0)
POOL = cs.predictors.JudgePool(ridges=(2.0,)).fit({"a": P, "b": SHARPER}, VOTES, kinds=GROUPS)
POOLED = POOL.predict_proba({"a": P, "b": SHARPER}, kinds=GROUPS)


def judged(w: World) -> dict[str, Any]:
    return {"a": w.give("predictions", P), "b": w.give("predictions", SHARPER)}


def pooled(w: World) -> bool:
    """A fit that finds its minimum to four digits predicts the same."""
    kinds = w.give("groups", GROUPS)
    pool = cs.predictors.JudgePool(ridges=(2.0,)).fit(
        judged(w), w.give("votes", VOTES), kinds=kinds, clusters=w.give("clusters", CLUSTERS)
    )
    named = pool.classes_.tolist() if isinstance(pool.classes_[0], str) else None
    found = pool.predict_proba(judged(w), kinds=kinds)
    return np.allclose(w.back(found, classes=True, named=named), POOLED, atol=1e-3)


TABLE |= {
    "JudgePool.fit": pooled,
    "JudgePool.score": lambda w: round(
        POOL.score(
            judged(w),
            in_class_order(w, VOTES),
            w.give("sample_weight", WEIGHTS),
            kinds=w.give("groups", GROUPS),
        ),
        8,
    ),
}


CASCADE = cs.cascade(
    {"a": P, "b": SHARPER},
    VOTES,
    {"a": 0.1, "b": 0.2, "person": 1.0},
    error=0.45,
    kinds=GROUPS,
    max_votes=0,
    budget=100.0,
)


def cascaded(w: World) -> tuple[Any, ...]:
    """Parts are drawn by position, so that only the items that are used are the same."""
    found = cs.cascade(
        judged(w),
        w.give("votes", VOTES),
        CASCADE.prices,
        error=0.45,
        kinds=w.give("groups", GROUPS),
        clusters=w.give("clusters", CLUSTERS),
        max_votes=0,
    )
    return np.array([found.n_fitted + found.n_certifying, found.n_items]), found.order


def next_steps(w: World) -> tuple[Any, ...]:
    asked = w.give("asked", pd.Series(np.arange(N) % 3, ITEMS))
    votes = w.give("votes", VOTES * 0)
    found = CASCADE.decide(judged(w), votes, kinds=w.give("groups", GROUPS), asked=asked)
    return w.back(found["step"]), w.back(found["risk"].round(6))


TABLE |= {"cascade": cascaded, "Cascade.decide": next_steps}
SOME_VOTES = VOTES.mul(np.arange(N) % 2, axis=0)


def estimated(w: World) -> tuple[Any, ...]:
    found = cs.estimate(
        w.give("predictions", P),
        w.give("votes", SOME_VOTES),
        groups=w.give("groups", GROUPS),
        weights=w.give("weights", WEIGHTS),
        clusters=w.give("clusters", CLUSTERS),
        strata=w.give("strata", STRATA),
        values=w.give("values", PER_CLASS, per_class=True),
    )
    shares = np.empty((3, K))
    parts = [found, *(found.groups[name] for name in sorted(found.groups))]
    shares[:, w.columns] = [part.value[:K] for part in parts]
    return shares, np.array([part.value[K] for part in parts])


def compared(w: World) -> tuple[Any, ...]:
    found = cs.judges.compare(
        judged(w),
        w.give("votes", VOTES),
        kinds=w.give("groups", GROUPS),
        clusters=w.give("clusters", CLUSTERS),
        ratings=False,
    )
    agreements = [float(row["agreement"]) for row in found.rows[:2]]
    return np.array(agreements), np.array([float(found.people["ceiling"])])


TABLE |= {"estimate": estimated, "judges.compare": compared}
RENAMED_CROWD = cs.DirichletCrowd(n_consensus=1, max_iter=15).fit(
    P.set_axis(OTHERS), VOTES.set_axis(OTHERS)
)

#: public functions without a row, by patterns of their names, and why
EXEMPT = {
    "Annotations.*": "makes names, and reads nothing beside them",
    "Conditional.__init__": "reads features alone; conformalize matches them",
    "datasets.*": "makes data",
    "simplex.*": "takes one array",
    "testing.*": "takes a score",
    "labels.majority_labels": "takes sets alone",
    "labels.annotator_labels": "takes sets alone",
    "metrics.mean*": "takes sets alone",
    "metrics.decided": "takes sets alone",
    "plotting.coverage_curve": "takes rows of results",
    "plotting.scores": "takes a calibration alone",
    "plotting.sizes": "takes sets alone",
    "plotting.slices": "takes slices",
    "plotting.violins": "takes rows of results",
    "plotting.votes_coming_in": "takes one item, and predicts as predict_set does",
    "plotting.voting": "takes rows of results",
    "plotting.dirichlet*": "takes concentrations alone",
    "plotting.ternary*": "reads marks as plotting.envelopes does",
    "Cascade.__init__": "a result",
    "*alt_test": "takes arrays of positions",
    "plotting.judges": "takes a comparison",
    "Scorer.__init__": "takes names of columns",
    "*Evaluation.__init__": "a result",
    "*Verdict.__init__": "a result",
    "Guarantee.__init__": "a result",
    "Estimated.__init__": "a result",
    "judges.Comparison.__init__": "a result",
    "CredalSet.__init__": "made by predict_set and region",
    "CrossCalibration.__init__": "made by cross_conformalize",
    "Calibration.*": "abstract: the calibrations have rows",
    "SoftScoring.predict": "takes features alone",
    "*.predict_proba": "takes features alone",
    "IntervalNetwork.predict_intervals": "takes features alone",
    "SecondOrderNetwork.predict_concentration": "takes features alone",
    "Network.fit": "reads X and y as SoftLabelClassifier.fit does",
    "*Network.__init__": "labels and loss are parameters",
    "JudgePool.__init__": "scale is a parameter",
    "AnnotatorSampling.*": "a noise model gets what conformalize has read",
    "Noise.*": "a noise model gets what conformalize has read",
    "FewVotes.*": "a noise model gets what conformalize has read",
    "UnbiasedVotes.*": "a noise model gets what conformalize has read",
    "Geometry.support": "takes arrays that are valid",
    "Record.with_audit": "takes positions",
}

#: roles by arguments that are given under the name of another one
GIVEN_AS = {
    "prediction": "predictions",
    "X": "predictions",
    "sets": "predictions",
    "covered": "predictions",
    "judges": "predictions",
    "distributions": "predictions",
    "kinds": "groups",
}
#: arguments that a row does not give, and why
NOT_GIVEN = {
    ("SplitCalibration", "votes"): "refused by this calibration",
    ("CrossCalibration", "votes"): "refused by this calibration",
    ("LabelCalibration", "votes"): "refused by this calibration",
    ("CrowdCalibration", "weights"): "refused by this calibration",
    ("Stream", "votes"): "refused by this calibration",
    ("DirichletCrowd", "scale"): "an option",
    ("VotingPolicy", "scale"): "an option",
    ("ScaledPrediction", "rows"): "given as predictions",
    ("report", "images"): "read as texts are",
    ("report", "weights"): "read as evaluate reads them",
    ("estimate", "minus"): "a pair; tests/test_estimation.py shuffles it",
    ("JudgePool", "y"): "given as votes",
    ("plotting", "labels"): "texts",
}


def _axes() -> Any:
    from matplotlib.figure import Figure

    return Figure().subplots()


def heights(ax: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(line.get_ydata(), float) for line in ax.get_lines())


def public_functions() -> Iterator[tuple[str, Any]]:
    """Yield the public functions and methods, by the name of the class or module they are in.

    They are those of public modules, and those with an entry on the API pages, which are the
    methods of results as well.
    """
    for name in cs.__all__:
        thing = getattr(cs, name)
        if isinstance(thing, types.ModuleType):
            for inner in getattr(thing, "__all__", ()):
                yield from _callables(f"{name}.{inner}", getattr(thing, inner))
        else:
            yield from _callables(name, thing)
    for name, entry in api_entries().items():
        if inspect.isfunction(entry):
            yield name.removeprefix("credalset."), entry


def _callables(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if not inspect.isclass(thing):
        if callable(thing):
            yield name, thing
        return
    for member, method in inspect.getmembers(thing, callable):
        own = str(getattr(method, "__module__", "")).startswith("credalset")
        if own and (not member.startswith("_") or member in ("__init__", "__call__")):
            yield f"{name}.{member}", method


def roles_of(function: Any) -> set[str]:
    try:
        parameters = set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()
    return parameters & ROLES


def names_of(name: str, function: Any) -> set[str]:
    """The names by which a function may be in the table."""
    return {name, getattr(function, "__qualname__", name), name.partition(".")[2]}


def test_every_public_function_has_a_row() -> None:
    missing = []
    for name, function in public_functions():
        if not roles_of(function):
            continue
        defined = getattr(function, "__qualname__", name)
        is_score = inspect.isfunction(function) and name.startswith("scores.")
        if is_score and not defined.endswith(("__call__", "region", "Prediction.__init__")):
            continue  # the extension points of scores take arrays that are valid
        known = names_of(name, function)
        if known & TABLE.keys():
            continue
        if not any(fnmatch(each, pattern) for each in known for pattern in EXEMPT):
            missing.append(f"{name} ({defined})")
    assert not missing


@cache
def functions_of_rows() -> dict[str, Any]:
    found = {}
    for name, function in public_functions():
        for known in names_of(name, function) & TABLE.keys():
            exact = known in (name, getattr(function, "__qualname__", ""))
            if exact or known not in found:
                found[known] = function
    return found


def assert_all_are_given(row: str, used: set[str]) -> None:
    """Assert that a row of the table gives every argument of its function that has a role."""
    function = functions_of_rows().get(row)
    if function is None:
        function = getattr(getattr(cs.crowd, row.partition(".")[0]), row.partition(".")[2])
    wanted = {
        role
        for role in roles_of(function)
        if (row.partition(".")[0], role) not in NOT_GIVEN and role not in used
    }
    assert not {role for role in wanted if GIVEN_AS.get(role) not in used}


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, np.ndarray) and first.dtype.kind in "fc":
        return np.allclose(first, second, atol=1e-9, equal_nan=True)
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if isinstance(first, float):
        return first == pytest.approx(second, abs=1e-9)
    return bool(first == second)


SLOW = {"cascade", "review", "report", "evaluate", "VotingPolicy.compare", "DirichletCrowd.fit"}
SLOW |= {"judges.compare", "JudgePool.fit"}


@pytest.mark.parametrize("name", TABLE)
def test_names_are_matched_or_refused(name: str) -> None:
    function = TABLE[name]
    if name.startswith("plotting"):
        pytest.importorskip("matplotlib")
    if name == "report":
        pytest.importorskip("jinja2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CANONICAL.used.clear()
        expected = function(CANONICAL)
        assert_all_are_given(name, CANONICAL.used)
        answered = []

        @settings(
            max_examples=6 if name in SLOW or "Classifier" in name else 15,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(worlds())
        def check(world: World) -> None:
            is_nameless = not world.is_named("predictions") or name.startswith(READ_FEATURES)
            if name in FOLLOW_THE_CALIBRATION and is_nameless:
                world = replace(world, columns=np.arange(K))
            try:
                found = function(world)
            except ValueError:
                return
            if found is None:
                return
            answered.append(world)
            assert _same(found, expected), {role: world.is_named(role) for role in world.used}

        check()
        # All named, and all nameless, must be answered, however they are shuffled.
        for named in (True, False):
            turned = np.array([2, 0, 1])
            if not named and name in FOLLOW_THE_CALIBRATION:
                turned = np.arange(K)
            other = (np.random.default_rng(1).permutation(N), np.array([1, 2, 0]))
            roles = sorted(ROLES)
            world = World(
                np.arange(N)[::-1],
                turned,
                dict.fromkeys(roles, named),
                dict.fromkeys(roles, other),
            )
            if named or name not in NEEDS_NAMES:
                assert _same(function(world), expected)


#: new items without names of classes are in the order of the calibration's classes
FOLLOW_THE_CALIBRATION = {
    name
    for name in TABLE
    if name.split(".")[0]
    in (
        *("SplitCalibration", "CrossCalibration", "LabelCalibration", "CrowdCalibration"),
        *("DirichletCrowd", "VotingPolicy", "Stream", "evaluate", "report", "LabelSets"),
        *("ScaledPrediction", "ConformalCredalClassifier", "SoftScoring", "Cascade"),
        *("AcceptRule", "StoredRule"),
    )
} - {"DirichletCrowd.fit", "ConformalCredalClassifier.fit"} | {"JudgePool.score"}
#: features have no classes, whose order votes without names could follow
READ_FEATURES = ("ConformalCredalClassifier", "SoftScoring")
#: positions of labels without names are those of the sets
NEEDS_NAMES: set[str] = {"LabelSets.contains"}


# --- the cases that a hostile reading found ---


def test_a_frame_and_an_array_of_votes_in_its_order() -> None:
    turned = P[["yes", "no", "perhaps"]]
    votes = VOTES[turned.columns].to_numpy()
    expected = cs.evaluate(PLAIN, P, VOTES, 0.3)[0]["coverage"]
    assert cs.evaluate(PLAIN, turned, votes, 0.3)[0]["coverage"] == expected
    made = cs.conformalize(turned, votes, "tv", classes=CLASSES)
    np.testing.assert_allclose(made.scores, PLAIN.scores, atol=1e-12)


def test_scaled_predictions_match_names_and_scales() -> None:
    back = VOTES.iloc[::-1]
    made = cs.conformalize(ScaledPrediction(P, WEIGHTS.iloc[::-1]), back, SCALED.score)
    assert made.threshold(0.3) == SCALED.threshold(0.3)


def test_rows_of_the_frames_of_folds_are_matched() -> None:
    expected = CROSS.predict_set([P] * 4, 0.3)
    mixed = CROSS.predict_set([P, P.iloc[::-1], P, P.iloc[::-1]], 0.3)
    np.testing.assert_array_equal(mixed.threshold, expected.threshold)
    again = cs.cross_conformalize(P, VOTES, FOLDS.iloc[::-1], "tv")
    np.testing.assert_array_equal(again.folds, CROSS.folds)


def test_utilities_labels_and_weights_with_names() -> None:
    np.testing.assert_array_equal(
        SETS.decide("maximal", UTILITY[["yes", "no", "perhaps"]]), SETS.decide("maximal", UTILITY)
    )
    queue = SETS.queue(utility=UTILITY[["yes", "perhaps", "no"]])
    assert queue.choices == ("w", "x", "y", "z")
    assert queue.step.tolist() == SETS.queue(utility=UTILITY).step.tolist()
    turned = PER_CLASS.iloc[::-1]
    np.testing.assert_array_equal(SETS.support(turned)[0], SETS.support(PER_CLASS)[0])
    np.testing.assert_array_equal(
        MEMBERS.contains(LABELS.iloc[::-1]), MEMBERS.contains(LABELS.tolist())
    )
    weighted = CLASSIFIER.score(FEATURES, VOTES, WEIGHTS.iloc[::-1])
    assert weighted == pytest.approx(CLASSIFIER.score(FEATURES, VOTES, WEIGHTS))


def test_predictions_of_intervals_keep_their_parts() -> None:
    parts = IntervalPrediction(P, 0.5 * P + 0.01, P + 0.01)
    made = cs.conformalize(parts, VOTES, "intervals")
    turned = [frame[["yes", "no", "perhaps"]] for frame in (P, 0.5 * P + 0.01, P + 0.01)]
    sets = made.predict_set(IntervalPrediction(*turned), 0.3)
    np.testing.assert_allclose(sets.upper(), made.predict_set(parts, 0.3).upper())
    assert sets.classes == tuple(CLASSES)


@pytest.mark.parametrize(
    "votes",
    [
        VOTES.rename(columns={"yes": "sure"}),
        VOTES.rename(index={"item 3": "item 99"}),
        VOTES.set_axis([None, *ITEMS[1:]]),
        VOTES.set_axis([ITEMS[0], *ITEMS[:-1]]),
    ],
    ids=["unknown class", "unknown item", "partly named", "named twice"],
)
def test_what_cannot_be_matched_is_refused(votes: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"votes|items"):
        cs.conformalize(P, votes)


def test_names_on_one_side_only_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"index.*to_numpy"):
        cs.conformalize(P.to_numpy(), VOTES.set_axis(range(K), axis=1))
    with pytest.raises(ValueError, match=r"columns.*to_numpy"):
        cs.conformalize(P.to_numpy(), VOTES.reset_index(drop=True))
    plain = cs.conformalize(P.to_numpy(), VOTES.to_numpy())
    with pytest.raises(ValueError, match="names of classes"):
        plain.predict_set(P)


def test_default_index_beside_the_same_numbers_in_another_order_is_refused() -> None:
    numbered = P.reset_index(drop=True)
    votes = VOTES.reset_index(drop=True)
    cs.conformalize(numbered, votes)
    with pytest.raises(ValueError, match="default index"):
        cs.conformalize(numbered.iloc[::-1], votes)
    with pytest.raises(ValueError, match="names its items"):
        cs.conformalize(numbered, votes.iloc[::-1])


def test_a_class_that_nobody_voted_for_may_be_left_out() -> None:
    two = VOTES[["yes", "no"]]
    some = two.sum(axis=1) > 0
    made = cs.conformalize(P[some], two[some], "tv")
    full = two[some].assign(perhaps=0)
    np.testing.assert_array_equal(made.scores, cs.conformalize(P[some], full, "tv").scores)


def test_composed_and_decomposed_spellings_are_one_name() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    predictions = P.rename(index={"item 0": composed})
    votes = VOTES.rename(index={"item 0": decomposed})
    np.testing.assert_array_equal(cs.conformalize(predictions, votes, "tv").scores, PLAIN.scores)


def test_brier_weights_are_parameters() -> None:
    """They belong to the score, which knows no names."""
    assert Brier(weights=(1.0, 2.0, 3.0)).weights == (1.0, 2.0, 3.0)
