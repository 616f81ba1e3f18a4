"""What goes with items one by one (groups, weights, truths, sizes) is matched by their names,
as labels are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import credalset as cs

pd = pytest.importorskip("pandas")

N = 120
RNG = np.random.default_rng(0)
TRUTH = RNG.dirichlet([1.0, 1.0, 1.0], N)
NAMES = [f"t{i}" for i in range(N)]
P = pd.DataFrame(0.8 * TRUTH + 0.2 / 3, index=NAMES, columns=["a", "b", "c"])
VOTES = pd.DataFrame(RNG.multinomial(20, TRUTH), index=NAMES, columns=["a", "b", "c"])
GROUPS = pd.Series(np.where(TRUTH.max(axis=1) > 0.6, "clear", "torn"), index=NAMES)
WEIGHTS = pd.Series(RNG.uniform(0.5, 2.0, N), index=NAMES)
SHUFFLED = RNG.permutation(N)


def same(first: Any, second: Any) -> bool:
    return bool(np.array_equal(np.asarray(first), np.asarray(second)))


@pytest.mark.parametrize(
    "conformalize", [cs.conformalize, cs.labels.conformalize], ids=["credal", "labels"]
)
def test_groups_and_weights_of_a_calibration(conformalize: Any) -> None:
    ordered = conformalize(P, VOTES, "tv", groups=GROUPS, weights=WEIGHTS)
    mixed = conformalize(
        P, VOTES, "tv", groups=GROUPS.iloc[SHUFFLED], weights=WEIGHTS.iloc[SHUFFLED]
    )
    new = {"groups": GROUPS, "weights": WEIGHTS}
    other = {name: values.iloc[SHUFFLED] for name, values in new.items()}
    assert same(mixed.thresholds(P, 0.2, **new), ordered.thresholds(P, 0.2, **new))
    assert same(ordered.thresholds(P, 0.2, **other), ordered.thresholds(P, 0.2, **new))
    with pytest.raises(ValueError, match="groups names its items"):
        ordered.thresholds(P.to_numpy(), 0.2, **other)


def test_groups_when_sets_are_predicted_and_candidates_judged() -> None:
    calibration = cs.conformalize(P, VOTES, "tv", groups=GROUPS)
    sets, mixed = (
        calibration.predict_set(P, 0.2, groups=g) for g in (GROUPS, GROUPS.iloc[SHUFFLED])
    )
    assert same(sets.threshold, mixed.threshold)
    p_values = calibration.p_values(P, VOTES, groups=GROUPS)
    assert same(calibration.p_values(P, VOTES, groups=GROUPS.iloc[SHUFFLED]), p_values)


def test_groups_of_a_cross_conformal_calibration() -> None:
    folds = np.arange(N) % 3
    ordered = cs.cross_conformalize(P, VOTES, folds, "tv", groups=GROUPS)
    mixed = cs.cross_conformalize(P, VOTES, folds, "tv", groups=GROUPS.iloc[SHUFFLED])
    expected = ordered.thresholds([P] * 3, 0.2, groups=GROUPS)
    assert same(mixed.thresholds([P] * 3, 0.2, groups=GROUPS.iloc[SHUFFLED]), expected)


def test_features_that_thresholds_follow() -> None:
    features = pd.DataFrame({"clear": GROUPS == "clear", "size": TRUTH[:, 0]})
    ordered = cs.conformalize(P, VOTES, "tv", groups=cs.Conditional(features))
    mixed = cs.conformalize(P, VOTES, "tv", groups=cs.Conditional(features.iloc[SHUFFLED]))
    expected = ordered.thresholds(P, 0.2, groups=features)
    assert same(mixed.thresholds(P, 0.2, groups=features.iloc[SHUFFLED]), expected)
    assert same(mixed.thresholds(P, 0.2, groups=cs.Conditional(features)[SHUFFLED]), expected)


def test_truths_and_votes_in_pictures() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure
    sets = cs.conformalize(P, VOTES, "tv").predict_set(P, 0.2)[:3]
    some, mixed = VOTES.iloc[:3], VOTES.iloc[[2, 0, 1]][["c", "a", "b"]]
    drawn = []
    for given in (some, mixed):
        ax = cs.plotting.envelopes(sets, truth=given, votes=given, ax=figure().subplots())
        drawn.append(
            [line.get_ydata() for line in ax.get_lines() if line.get_label() in ("truth", "votes")]
        )
    assert same(drawn[0], drawn[1])
    assert [text.get_text() for text in ax.get_legend().get_texts()][:3] == NAMES[:3]


def test_names_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="1 item of predictions has no groups"):
        cs.conformalize(P, VOTES, groups=GROUPS.rename({"t0": "t999"}))


def test_a_table_that_knows_more_items_is_looked_up() -> None:
    calibration = cs.conformalize(P, VOTES, groups=GROUPS)
    some = P.iloc[[7, 3, 50]]
    expected = calibration.thresholds(some, 0.2, groups=GROUPS.iloc[[7, 3, 50]])
    assert same(calibration.thresholds(some, 0.2, groups=GROUPS), expected)
    with pytest.raises(ValueError, match="groups"):
        calibration.thresholds(some.rename({"t7": "unknown"}), 0.2, groups=GROUPS)
    pytest.importorskip("jinja2")
    texts = pd.Series([f"text of {name}!" for name in NAMES], index=NAMES).iloc[SHUFFLED]
    page = cs.report(cs.conformalize(P, VOTES), P.iloc[60:], VOTES.iloc[60:], None, texts=texts)
    assert "text of t61!" in page.html
    assert "text of t3!" not in page.html
