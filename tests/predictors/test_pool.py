"""The pool of judges: what it learns, how it reads, and what it refuses."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import credalset as cs
from credalset.exceptions import CredalSetWarning
from credalset.predictors import JudgePool, SoftLabelClassifier

RNG = np.random.default_rng(0)
N = 400
CLASSES = ("no", "perhaps", "yes")
TRUTH = RNG.dirichlet([0.5, 0.4, 0.6], N)
ITEMS = [f"t{i}" for i in range(N)]
KINDS = np.where(RNG.random(N) < 0.5, "short", "long")
COUNTS = RNG.multinomial(3, TRUTH)
VOTES = pd.DataFrame(COUNTS, ITEMS, CLASSES)


def draw_labels(bias: float = 0.0, seed: int = 0, missing: float = 0.0) -> pd.Series:
    """Labels of a judge that prefers yes on long items, and leaves some out."""
    rng = np.random.default_rng(seed)
    tilted = TRUTH**1.5 * np.exp(np.outer(KINDS == "long", [0.0, 0.0, bias]))
    tilted /= tilted.sum(axis=1, keepdims=True)
    codes = (rng.random(N)[:, None] > tilted.cumsum(axis=1)).sum(axis=1)
    found = pd.Series(np.array(CLASSES, dtype=object)[codes], ITEMS)
    found[rng.random(N) < missing] = None
    return found


LABELS = pd.DataFrame({"gpt": draw_labels(2.0, 1), "claude": draw_labels(0.0, 2, missing=0.3)})
PROBABILITIES = np.stack([0.6 * TRUTH + 0.4 * RNG.dirichlet(np.ones(3), N) for _ in range(3)], 1)


def loss(pool: Any, judges: Any, rows: slice, **more: Any) -> float:
    prediction = pool.predict_proba(judges, **more)
    return float(-np.sum(TRUTH[rows] * np.log(prediction), axis=1).mean())


def quiet(*args: Any, **more: Any) -> JudgePool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return JudgePool().fit(*args, **more)


# --- what it learns ---


def test_a_bias_by_kind_is_found() -> None:
    train, test = slice(0, 300), slice(300, N)
    blind = JudgePool().fit(LABELS[train], VOTES[train])
    seeing = JudgePool().fit(LABELS[train], VOTES[train], kinds=KINDS[train])
    constant = -np.sum(TRUTH[test] * np.log(COUNTS[train].sum(0) / COUNTS[train].sum()), 1).mean()
    without = loss(blind, LABELS[test], test)
    assert without < 0.9 * constant
    assert loss(seeing, LABELS[test], test, kinds=KINDS[test]) < without


def test_one_judge_without_bias_loses_less_than_one_per_cent() -> None:
    losses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = rng.dirichlet(np.ones(4), 1200)
        counts = rng.multinomial(2, truth)
        pool = JudgePool().fit(truth[:200, None], counts[:200])
        predicted = pool.predict_proba(truth[200:, None])
        floor = -np.sum(truth[200:] * np.log(truth[200:]), axis=1).mean()
        losses.append(-np.sum(truth[200:] * np.log(predicted), axis=1).mean() / floor - 1)
    assert np.mean(losses) < 0.01


def test_missing_answers_cost_little() -> None:
    thin = PROBABILITIES.copy()
    thin[RNG.random(thin.shape[:2]) < 0.3] = np.nan
    train, test = slice(0, 200), slice(200, N)
    full = loss(JudgePool().fit(PROBABILITIES[train], COUNTS[train]), PROBABILITIES[test], test)
    less = loss(JudgePool().fit(thin[train], COUNTS[train]), thin[test], test)
    assert full < less < full + 0.1


def test_out_of_fold_predictions_never_saw_the_votes() -> None:
    counts = COUNTS.copy()
    counts[50:] = 0
    before = JudgePool(ridges=(2.0,)).fit(PROBABILITIES, counts)
    counts[7] = [9, 0, 0]
    after = JudgePool(ridges=(2.0,)).fit(PROBABILITIES, counts)
    np.testing.assert_array_equal(before.oof_[7], after.oof_[7])
    assert not np.allclose(before.oof_, after.oof_)
    assert before.oof_.shape == (N, 3)
    np.testing.assert_allclose(before.oof_.sum(axis=1), 1.0)


def test_clusters_share_a_fold() -> None:
    twice = np.repeat(np.arange(N // 4), 4)
    pool = JudgePool().fit(LABELS, VOTES, clusters=twice)
    alone = JudgePool().fit(LABELS, VOTES)
    assert not np.allclose(pool.oof_, alone.oof_)
    with pytest.raises(ValueError, match="clusters"):
        JudgePool().fit(LABELS, VOTES, clusters=np.arange(N) % 3)


def test_ordinal_terms_help_ratings() -> None:
    rng = np.random.default_rng(3)
    level = rng.normal(size=N)
    grid = np.arange(1, 6)
    truth = np.exp(-((level[:, None] * 1.2 + 3 - grid) ** 2))
    truth /= truth.sum(axis=1, keepdims=True)
    votes = pd.DataFrame(rng.multinomial(1, truth), columns=grid)
    judge = {
        "gpt": np.clip(np.round(level * 1.2 + 2.2 + 0.7 * rng.normal(size=N)), 1, 5).astype(int)
    }
    few = slice(0, 60)
    named = {"gpt": judge["gpt"][few]}

    def held_back(**more: Any) -> float:
        pool = JudgePool(**more).fit(named, votes[few])
        rest = pool.predict_proba({"gpt": judge["gpt"][60:]})
        return float(-np.sum(truth[60:] * np.log(rest), axis=1).mean())

    assert held_back() < held_back(scale=False)


# --- how it reads ---


def test_forms_of_answers_agree() -> None:
    frame = JudgePool().fit(LABELS, VOTES, kinds=KINDS)
    turned = LABELS.sample(frac=1, random_state=1)
    by_item = {judge: LABELS[judge].dropna().to_dict() for judge in LABELS}
    expected = frame.predict_proba(LABELS, kinds=KINDS)
    shuffled = frame.predict_proba(turned, kinds=pd.Series(KINDS, ITEMS))
    np.testing.assert_allclose(shuffled, expected[[ITEMS.index(i) for i in turned.index]])
    other = JudgePool().fit(by_item, VOTES[::-1], kinds=pd.Series(KINDS, ITEMS))
    np.testing.assert_allclose(other.oof_, frame.oof_, atol=1e-6)
    kinds = pd.Series(KINDS, ITEMS)
    np.testing.assert_allclose(other.predict_proba(by_item, kinds=kinds), expected, atol=1e-6)
    people = cs.Annotations.from_wide(LABELS)
    again = JudgePool().fit(people, VOTES, kinds=kinds)
    assert again.judges_ == ("gpt", "claude")


def test_labels_and_probabilities_together() -> None:
    frame = pd.DataFrame(PROBABILITIES[:, 0], ITEMS, CLASSES)[["yes", "no", "perhaps"]]
    mixed = {"gpt": LABELS["gpt"], "clip": frame}
    train = VOTES.iloc[:200]
    pool = JudgePool().fit(mixed, train)
    assert pool.items_ == tuple(ITEMS)
    assert -np.sum(TRUTH * np.log(pool.oof_), axis=1).mean() < 0.95
    two_levels = pd.concat(
        {"a": frame, "b": frame**2 / (frame**2).sum(axis=1).to_numpy()[:, None]}, axis=1
    )
    assert JudgePool().fit(two_levels, train).judges_ == ("a", "b")


def test_votes_on_some_items_only_are_matched_by_name() -> None:
    some = VOTES.iloc[100:200][::-1]
    pool = JudgePool().fit(LABELS, some)
    order = JudgePool().fit(LABELS, pd.concat([VOTES.iloc[100:200]]))
    np.testing.assert_allclose(pool.oof_, order.oof_, atol=1e-6)


def test_kinds_from_columns_of_the_frame() -> None:
    frame = LABELS.assign(kind=KINDS)
    pool = JudgePool().fit(frame, VOTES, kinds="kind")
    plain = JudgePool().fit(LABELS, VOTES, kinds=KINDS)
    np.testing.assert_allclose(pool.predict_proba(frame), plain.predict_proba(LABELS, kinds=KINDS))
    search = GridSearchCV(JudgePool(), {"ridges": [(2.0,), (512.0,)]}, cv=3)
    assert search.fit(frame, VOTES, kinds="kind").best_score_ < 0


def test_columns_of_kinds_are_matched_by_name(tmp_path: Path) -> None:
    """Both columns have the same kinds, so that only their names tell them apart."""
    swap = {"long": "short", "short": "long"}
    random = RNG.permutation(KINDS)
    kinds = pd.DataFrame({"x": KINDS, "y": [swap[kind] for kind in random]}, ITEMS)
    pool = JudgePool().fit(LABELS, VOTES, kinds=kinds)
    expected = pool.predict_proba(LABELS, kinds=kinds)
    by_position = pool.predict_proba(LABELS, kinds=kinds[["y", "x"]].to_numpy())
    assert np.abs(by_position - expected).max() > 0.05
    pool.save(tmp_path / "pool")
    for one in (pool, cs.load(tmp_path / "pool")):
        assert one.kind_columns_ == ("x", "y")
        for same in (
            kinds[["y", "x"]],
            {"y": kinds["y"], "x": kinds["x"]},
            kinds.to_numpy(),  # without names: in the order of fit
        ):
            np.testing.assert_array_equal(one.predict_proba(LABELS, kinds=same), expected)
        beside = pd.concat([LABELS, kinds], axis=1)
        for judges in (beside, beside[["y", "gpt", "x", "claude"]]):
            np.testing.assert_array_equal(one.predict_proba(judges), expected)
            found = one.predict_proba(judges.iloc[:1], kinds=["y", "x"])
            np.testing.assert_array_equal(found, expected[:1])


def test_columns_of_kinds_that_do_not_match_are_refused() -> None:
    kinds = pd.DataFrame({"x": KINDS, "y": RNG.permutation(KINDS)}, ITEMS)
    pool = JudgePool(ridges=(2.0,)).fit(LABELS, VOTES, kinds=kinds)
    for wrong, message in (
        (kinds.set_axis(["p", "x"], axis=1), "no 'y' in kinds and there is no 'p'"),
        (kinds[["x"]], "no 'y' in kinds"),
        (kinds.assign(z=KINDS), "no 'z' in the kinds of fit"),
        (kinds.set_axis(["x", "x"], axis=1), "different names"),
        (kinds.set_axis(["x", None], axis=1), "different names"),
        (KINDS, "kinds has 1 column"),
        (None, "kinds is missing"),
        ("x", "kinds is the column 'x' of judges"),
    ):
        with pytest.raises(ValueError, match=message):
            pool.predict_proba(LABELS, kinds=wrong)
    nameless = JudgePool(ridges=(2.0,)).fit(LABELS, VOTES, kinds=kinds.to_numpy())
    with pytest.raises(ValueError, match="have no names"):
        nameless.predict_proba(LABELS, kinds=kinds)
    numbered = kinds.set_axis([1, 0], axis=1)
    pool = JudgePool(ridges=(2.0,)).fit(LABELS, VOTES, kinds=numbered)
    np.testing.assert_array_equal(
        pool.predict_proba(LABELS, kinds=numbered[[0, 1]]),
        pool.predict_proba(LABELS, kinds=numbered),
    )


def test_rows_are_in_the_order_of_the_first_judge_of_fit() -> None:
    pool = JudgePool(ridges=(2.0,)).fit(LABELS, VOTES)
    expected = pd.DataFrame(pool.predict_proba(LABELS), ITEMS)
    judges = {"claude": LABELS["claude"], "gpt": LABELS["gpt"].iloc[:4:-1]}
    rows = [*ITEMS[:4:-1], *ITEMS[:5]]
    without = LABELS.assign(gpt=LABELS["gpt"].where(np.arange(N) > 4, None))
    expected.iloc[:5] = pool.predict_proba(without)[:5]
    np.testing.assert_allclose(pool.predict_proba(judges), expected.loc[rows], atol=1e-12)


# --- scikit-learn ---


def test_clone_pipeline_and_grid_search() -> None:
    pool = clone(JudgePool(random_state=3))
    assert pool.random_state == 3
    pipeline = make_pipeline(FunctionTransformer(), JudgePool())
    assert pipeline.fit(PROBABILITIES, COUNTS).predict_proba(PROBABILITIES).shape == (N, 3)
    search = GridSearchCV(JudgePool(), {"ridges": [(0.5,), (1e6,)]}, cv=3).fit(
        PROBABILITIES, COUNTS
    )
    assert search.best_params_["ridges"] == (0.5,)
    assert search.best_score_ < 0
    labelled = JudgePool().fit(LABELS, VOTES)
    assert set(labelled.predict(LABELS)) <= set(CLASSES)
    assert labelled.score(LABELS, VOTES) > -1.1


def test_it_serves_the_classifier_of_sets() -> None:
    clf = cs.ConformalCredalClassifier(JudgePool(), "tv").fit(PROBABILITIES[:200], COUNTS[:200])
    sets = clf.conformalize(PROBABILITIES[200:], COUNTS[200:]).predict_set(PROBABILITIES[:5])
    assert len(sets) == 5


def test_saved_and_loaded(tmp_path: Path) -> None:
    pool = JudgePool(scale=True).fit(LABELS, VOTES, kinds={"length": KINDS, "none": [1] * N})
    pool.save(tmp_path / "pool")
    again = cs.load(tmp_path / "pool")
    kinds = {"length": KINDS, "none": [1] * N}
    np.testing.assert_array_equal(
        again.predict_proba(LABELS, kinds=kinds), pool.predict_proba(LABELS, kinds=kinds)
    )
    assert again.classes_.tolist() == list(CLASSES)
    assert again.get_params() == pool.get_params()


# --- bad input ---


def test_a_judge_that_never_answers_is_noted_and_not_used() -> None:
    silent = LABELS.assign(mute=None)
    with pytest.warns(CredalSetWarning, match="mute"):
        pool = JudgePool().fit(silent, VOTES)
    plain = JudgePool().fit(LABELS, VOTES)
    np.testing.assert_allclose(pool.oof_, plain.oof_, atol=0.02)


def test_a_judge_of_one_label_and_the_same_judge_twice_are_noted() -> None:
    with pytest.warns(CredalSetWarning, match="always gives the same label"):
        JudgePool().fit(LABELS.assign(lazy="yes"), VOTES)
    with pytest.warns(CredalSetWarning, match="same answers"):
        twice = JudgePool().fit(LABELS.assign(copy=LABELS["gpt"]), VOTES)
    np.testing.assert_allclose(twice.oof_, JudgePool().fit(LABELS, VOTES).oof_, atol=0.1)


def test_labels_that_are_no_classes_are_hints() -> None:
    frame = LABELS.copy()
    sure_no = TRUTH[:, 0] > 0.6
    frame.loc[sure_no, "gpt"] = "refused"
    with pytest.warns(CredalSetWarning, match="'refused'"):
        pool = JudgePool().fit(frame, VOTES)
    predicted = pool.predict_proba(frame)
    assert predicted.shape == (N, 3)
    assert predicted[sure_no, 0].mean() > 0.6
    with pytest.warns(CredalSetWarning, match="missing"):
        pool.predict_proba(frame.replace("refused", "sorry"))


def test_answers_that_share_no_class_with_the_votes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'gpt'.*never gives a class"):
        JudgePool().fit(LABELS.apply(lambda column: column.str.upper()), VOTES)
    with pytest.raises(ValueError, match="never gives a class"):
        JudgePool().fit(LABELS, COUNTS)


def test_probabilities_that_do_not_sum_to_one_are_refused() -> None:
    wrong = PROBABILITIES.copy()
    wrong[3, 1] *= 2
    with pytest.raises(ValueError, match=r"judge 2.*row 3"):
        JudgePool().fit(wrong, COUNTS)
    partly = PROBABILITIES.copy()
    partly[3, 1, 0] = np.nan
    with pytest.raises(ValueError, match=r"judge 2.*row 3"):
        JudgePool().fit(partly, COUNTS)


def test_judges_on_other_items_are_refused() -> None:
    other = VOTES.set_axis([f"x{i}" for i in range(N)])
    with pytest.raises(ValueError, match="no item in common"):
        JudgePool().fit(LABELS, other)
    with pytest.raises(ValueError, match="votes names its items"):
        JudgePool().fit(LABELS.reset_index(drop=True), VOTES)
    with pytest.raises(ValueError, match="no names of items"):
        JudgePool().fit({"gpt": LABELS["gpt"], "claude": LABELS["claude"].tolist()}, VOTES)
    with pytest.raises(ValueError, match="different numbers of items"):
        JudgePool().fit({"a": ["no"] * 3, "b": ["no"] * 4}, COUNTS)


def test_kinds_seen_later_get_no_bias() -> None:
    pool = JudgePool().fit(LABELS, VOTES, kinds=KINDS)
    with pytest.warns(CredalSetWarning, match="'novel'"):
        new = pool.predict_proba(LABELS[:3], kinds=["novel"] * 3)
    assert np.isfinite(new).all()
    with pytest.raises(ValueError, match="kinds has 0 columns"):
        pool.predict_proba(LABELS)
    with pytest.raises(ValueError, match="kinds must hold one value"):
        pool.predict_proba(LABELS, kinds=KINDS[:5])


def test_other_judges_than_fitted_are_refused() -> None:
    pool = JudgePool().fit(LABELS, VOTES)
    with pytest.raises(ValueError, match="judges has no 'claude'"):
        pool.predict_proba(LABELS[["gpt"]])
    assert pool.predict_proba(LABELS.assign(claude=None)).shape == (N, 3)


def test_too_few_votes_and_no_judge() -> None:
    with pytest.raises(ValueError, match="at least 5"):
        JudgePool().fit(LABELS[:3], VOTES[:3])
    with pytest.raises(ValueError, match="no judge"):
        JudgePool().fit({}, VOTES)
    with pytest.raises(ValueError, match="shape"):
        JudgePool().fit(np.ones((4, 3)), VOTES)
    with pytest.raises(ValueError, match="twice"):
        JudgePool().fit({"gpt": pd.Series(["no", "yes"], ["t1", "t1"])}, VOTES)


@pytest.mark.parametrize("n", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_classes(n: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(1000, 0.001), n)
    labels = {f"judge {j}": [rng.choice(1000, p=row) for row in truth] for j in range(3)}
    counts = np.stack([rng.multinomial(2, row) for row in truth])
    pool = quiet(labels, counts)
    assert -np.sum(truth * np.log(pool.oof_), axis=1).mean() < 0.9 * np.log(1000)


def test_pool_beats_logistic_regression_from_few_votes() -> None:
    """On the same answers, as features of one column per judge and label."""
    few = slice(0, 50)
    onehot = pd.get_dummies(LABELS.astype(object).fillna("none")).to_numpy(dtype=float)
    pool = JudgePool().fit(LABELS[few], VOTES[few])
    other = SoftLabelClassifier(LogisticRegression(max_iter=500)).fit(onehot[few], COUNTS[few])
    test = slice(50, N)
    ours = loss(pool, LABELS[test], test)
    theirs = -np.sum(TRUTH[test] * np.log(other.predict_proba(onehot[test])), axis=1).mean()
    assert ours < theirs + 0.02
