from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.crowd.estimator import draw_votes
from tests.crowd.simulated import (
    assert_in_bands,
    hold_back,
    load_chaosnli,
    load_cifar10h,
    make_crowd,
    nearly_exact,
    needs_data,
    on_faces,
    shares,
)


@pytest.fixture(scope="module")
def crowd():
    p, counts, _ = make_crowd(500, 3, 30, np.random.default_rng(9))
    return cs.DirichletCrowd().fit(p, counts)


def covered(calibration, p, counts, h, rng, alpha=0.1):
    """Number of new items whose held-back votes are in the sets."""
    hand, back = hold_back(counts, h, rng)
    return int(calibration.predict_set(p, alpha, votes=hand).contains(shares(back)).sum())


def test_votes_are_drawn_as_from_an_urn():
    counts = np.tile([3.0, 0.0, 2.0], (4000, 1))
    drawn = draw_votes(counts, (0, 2, 5), np.random.default_rng(0))
    assert not drawn[0].any()
    np.testing.assert_array_equal(drawn[5], counts)
    assert (drawn[2].sum(axis=1) == 2).all()
    both = (drawn[2][:, 0] == 2).mean()
    assert abs(both - 0.3) < 0.03  # 3/5 · 2/4
    short = draw_votes(np.array([[1.0, 0.0]]), (3,), np.random.default_rng(0))
    np.testing.assert_array_equal(short[3], [[1.0, 0.0]])


def panel_hits(n_classes, score, n_splits):
    rng = np.random.default_rng(n_classes)
    p, counts, _ = make_crowd(300, n_classes, 20, rng)
    crowd = cs.DirichletCrowd(max_iter=20).fit(p, counts)
    hits = []
    for split in range(n_splits):
        p, counts, _ = make_crowd(
            199, n_classes, rng.integers(8, 30, 199), rng
        )  # unequal numbers of votes
        calibration = crowd.conformalize(
            p[:99],
            counts[:99],
            score,
            in_hand=(0, 3),
            method="panel",
            min_votes=8,
            random_state=split,
        )
        hits.append(covered(calibration, p[99:], counts[99:], (0, 3)[split % 2], rng))
    return hits


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("score", ["kl", "tv"])
def test_panel_coverage_is_exact(n_classes, score):
    assert_in_bands(panel_hits(n_classes, score, 50), 99, 100)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_panel_coverage_is_exact_over_many_splits(n_classes):
    assert_in_bands(panel_hits(n_classes, "kl", 300), 99, 100)


def test_panel_coverage_with_ties():
    rng = np.random.default_rng(0)
    kinds = rng.dirichlet(np.ones(3), 3)  # three predictions, eleven votes: scores tie in hundreds
    crowd = cs.DirichletCrowd(max_iter=10).fit(kinds, np.ones((3, 3), dtype=int))
    hits = []
    for _ in range(80):
        p = kinds[rng.integers(3, size=150)]
        counts = np.stack([rng.multinomial(11, row) for row in p])
        calibration = crowd.conformalize(
            p[:50], counts[:50], in_hand=(1,), min_votes=2, method="panel"
        )
        hits.append(covered(calibration, p[50:], counts[50:], 1, rng))
    assert_in_bands(hits, 50, 100, ties=True)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("load", [load_cifar10h, load_chaosnli])
@pytest.mark.parametrize("h", [0, 1, 3, 10])
def test_panel_coverage_on_real_crowds(load, h):
    p, counts = load()
    order = np.random.default_rng(0).permutation(len(p))[:2500]
    p, counts = p[order], counts[order]
    crowd = cs.DirichletCrowd().fit(p[:500], counts[:500])
    hits = []
    for split in range(200):
        rng = np.random.default_rng(split)
        rows = 500 + rng.permutation(len(p) - 500)[:600]
        one, two = rows[:300], rows[300:]
        calibration = crowd.conformalize(
            p[one], counts[one], in_hand=(h,), method="panel", random_state=split
        )
        hits.append(covered(calibration, p[two], counts[two], h, rng))
    assert_in_bands(hits, 300, 300, ties=True)
    assert np.mean(hits) / 300 < 0.915


@needs_data
def test_three_votes_narrow_the_sets_of_real_crowds():
    for load, most in ((load_cifar10h, 0.45), (load_chaosnli, 0.80)):
        p, counts = load()
        order = np.random.default_rng(0).permutation(len(p))[:1500]
        p, counts = p[order], counts[order]
        crowd = cs.DirichletCrowd().fit(p[:500], counts[:500])
        calibration = crowd.conformalize(
            p[500:1000], counts[500:1000], in_hand=(0, 3), method="panel"
        )
        hand, _ = hold_back(counts[1000:], 3, np.random.default_rng(0))
        none, three = (
            calibration.predict_set(p[1000:]),
            calibration.predict_set(p[1000:], votes=hand),
        )
        width = [(sets.upper() - sets.lower()).sum() for sets in (none, three)]
        assert width[1] <= most * width[0]


def test_mixed_numbers_get_the_thresholds_of_their_own(crowd):
    rng = np.random.default_rng(0)
    p, counts, _ = make_crowd(400, 3, 30, rng)
    calibration = crowd.conformalize(p[:200], counts[:200], in_hand=(0, 1, 3), method="panel")
    hands = [hold_back(counts[200:], h, rng)[0] for h in (0, 1, 3)]
    number = rng.integers(3, size=200)
    mixed = np.choose(number[:, None], hands)
    sets = calibration.predict_set(p[200:], votes=mixed, alpha=0.2)
    for i, h in enumerate((0, 1, 3)):
        rows = number == i
        alone = calibration.predict_set(p[200:][rows], votes=mixed[rows], alpha=0.2)
        np.testing.assert_array_equal(sets.threshold[rows], alone.threshold)
        np.testing.assert_array_equal(sets.upper()[rows], alone.upper())
        assert (alone.threshold == calibration.threshold(0.2, in_hand=h)).all()
    none, three = (calibration.predict_set(p[200:], votes=hands[i]).width() for i in (0, 2))
    assert three.mean() < none.mean()


def test_inputs_of_some_items_keep_their_votes(crowd):
    p, counts, _ = make_crowd(300, 3, 30, np.random.default_rng(0))
    calibration = crowd.conformalize(p[:200], counts[:200], in_hand=(0, 1, 3))
    hand = np.zeros((100, 3))
    hand[::3, 0] = 1.0
    hand[1::3, 1] = 3.0
    inputs = calibration._read(p[200:], votes=hand)
    level = Fraction(1, 5)
    rows = np.arange(40, 70)
    some = calibration._predict(inputs.take(rows), level)
    np.testing.assert_array_equal(
        some.threshold, calibration._predict(inputs, level)[rows].threshold
    )


def test_sets_are_centred_between_the_posterior_mean_and_its_mode(crowd):
    p, counts, _ = make_crowd(200, 3, 30, np.random.default_rng(0))
    hand, _ = hold_back(counts, 3, np.random.default_rng(0))
    posterior = crowd.posterior(p, hand)
    calibration = crowd.conformalize(p, counts, in_hand=(3,), method="panel")
    expected = shares(posterior.mean ** (1 + 1 / np.sqrt(1 + posterior.strength))[:, None])
    center = calibration.predict_set(p, votes=hand).prediction.rows
    np.testing.assert_allclose(center, expected)


@pytest.mark.parametrize("score", ["tv", "kl", "inner", "brier", "hellinger", "ws", "so"])
def test_every_score_is_calibrated(crowd, score):
    rng = np.random.default_rng(1)
    p, counts, _ = make_crowd(500, 3, 40, rng)
    calibration = crowd.conformalize(p[:250], counts[:250], score, in_hand=(3,), method="panel")
    assert 0.8 < covered(calibration, p[250:], counts[250:], 3, rng) / 250 <= 1


def test_groups_are_covered_each(crowd):
    rng = np.random.default_rng(2)
    p, counts, _ = make_crowd(1200, 3, 40, rng)
    groups = np.where(p.max(axis=1) > 0.6, "sure", "unsure")
    calibration = crowd.conformalize(
        p[:600], counts[:600], in_hand=(2,), method="panel", groups=groups[:600]
    )
    assert calibration.guarantee.within == "each group"
    hand, back = hold_back(counts[600:], 2, rng)
    sets = calibration.predict_set(p[600:], votes=hand, groups=groups[600:])
    assert len(np.unique(sets.threshold)) == 2
    inside = sets.contains(shares(back))
    for group in ("sure", "unsure"):
        assert inside[groups[600:] == group].mean() > 0.84
    with pytest.raises(ValueError, match="groups"):
        crowd.conformalize(p, counts, groups=groups[:7])


def test_groups_and_numbers_of_votes_may_mix(crowd):
    rng = np.random.default_rng(4)
    p, counts, _ = make_crowd(600, 3, 40, rng)
    groups = np.where(p.max(axis=1) > 0.6, "sure", "unsure")
    calibration = crowd.conformalize(
        p[:500], counts[:500], in_hand=(0, 2), method="panel", groups=groups[:500]
    )
    hand, _ = hold_back(counts, 2, rng)
    hand[::2] = 0
    sets = calibration.predict_set(p[500:], votes=hand[500:], groups=groups[500:])
    keys = list(zip(groups[500:], hand[500:].sum(axis=1), strict=True))
    assert (
        len(set(keys))
        == len(np.unique(sets.threshold))
        == len({*zip(keys, sets.threshold, strict=True)})
        == 4
    )


def test_items_without_votes_enough_are_left_out(crowd):
    p, counts, _ = make_crowd(300, 3, np.arange(300) % 10, np.random.default_rng(4))
    with pytest.warns(cs.CredalSetWarning, match="120 of 300"):
        panel = crowd.conformalize(p, counts, in_hand=(0, 3), min_votes=1)
    assert panel.min_votes == 4
    assert panel.n_items == 180
    with pytest.warns(cs.CredalSetWarning, match="30 of 300"):
        imputed = crowd.conformalize(p, counts, in_hand=(0, 3), method="imputed")
    assert imputed.n_items == 270
    first, second = (len(each.scores) for each in imputed.calibrations)
    assert second / first == 210 / 270


def test_fitted_items_are_refused_by_exact_routes_only():
    p, counts, _ = make_crowd(300, 3, 30, np.random.default_rng(0))
    names = [f"t{i}" for i in range(300)]
    predictions, votes = pd.DataFrame(p, index=names), pd.DataFrame(counts, index=names)
    crowd = cs.DirichletCrowd().fit(predictions[:150], votes[:150])
    for calibrate in (crowd.conformalize, cs.VotingPolicy(crowd, max_votes=5).conformalize):
        with pytest.raises(ValueError, match="fitted"):
            calibrate(predictions[100:], votes[100:])
        assert calibrate(predictions[150:], votes[150:]).method == "panel"
    assert crowd.conformalize(predictions[:150], votes[:150], method="imputed").method == "imputed"


def test_the_guarantee_is_that_of_the_method(crowd):
    p, counts, _ = make_crowd(60, 3, 13, np.random.default_rng(3))
    panel = crowd.conformalize(p, counts, in_hand=(0, 3))  # few items do not make it approximate
    assert panel.method == "panel"
    assert (panel.guarantee.covers, panel.guarantee.is_exact) == ("further", True)
    assert "(13 or more)" in str(panel.guarantee)
    assert "looking at the item or its votes" in str(panel.guarantee)
    with pytest.raises(ValueError, match="in_hand to at most 3"):
        crowd.conformalize(p, counts, in_hand=(0, 4))
    imputed = crowd.conformalize(p, counts, in_hand=(0, 4), method="imputed")
    assert (imputed.guarantee.covers, imputed.guarantee.is_exact) == ("true", False)
    assert "Dirichlet crowd" in str(imputed.guarantee)
    assert "not guaranteed" in str(imputed.guarantee)
    with pytest.raises(ValueError, match="in_hand to at most 13"):
        crowd.conformalize(p, counts, in_hand=(0, 14), method="imputed")


def test_shares_of_fewer_votes_than_on_the_panel_are_covered_less_often(crowd):
    """The guarantee is for as many votes as the panel has: shares of fewer scatter more."""
    rng, coverage = np.random.default_rng(5), {}
    p, counts, _ = make_crowd(6000, 3, 40, rng)
    calibration = crowd.conformalize(p[:2000], counts[:2000], in_hand=(5,))
    for n_votes in (40, 15):
        some = hold_back(counts[2000:], n_votes, rng)[0]
        coverage[n_votes] = covered(calibration, p[2000:], some, 5, rng) / 4000
    assert coverage[40] == pytest.approx(0.9, abs=0.025)
    assert coverage[15] < 0.86
    assert "as many votes in all as the panel items" in str(calibration.guarantee)


def test_a_number_of_votes_that_depends_on_the_item_needs_groups(crowd):
    """Votes for some kind of items only: thresholds of all items are too small,
    those of each kind are not.
    """
    rng = np.random.default_rng(0)
    kinds = [
        make_crowd(1000, 3, 30, rng, strength=s, wrong=w)[:2] for s, w in ((0.1, 0.0), (4.0, 0.0))
    ]
    p, counts = (np.stack(parts, axis=1).reshape(2000, 3) for parts in zip(*kinds, strict=True))
    kind, new = np.arange(2000) % 2 == 1, slice(1000, 2000)
    hand = np.where(kind[:, None], hold_back(counts, 3, rng)[0], 0)
    rates = []
    for groups in (None, kind):
        own = [{} if groups is None else {"groups": groups[rows]} for rows in (slice(1000), new)]
        calibration = crowd.conformalize(p[:1000], counts[:1000], in_hand=(0, 3), **own[0])
        sets = calibration.predict_set(p[new], votes=hand[new], **own[1])
        rates.append(sets.contains(shares((counts - hand)[new])).mean())
    assert rates[0] < 0.85 < 0.87 < rates[1]
    assert "group" in str(calibration.guarantee)


@pytest.mark.parametrize("method", ["panel", "imputed"])
def test_other_numbers_of_votes_are_thinned(crowd, method):
    p, counts, _ = make_crowd(900, 3, 20, np.random.default_rng(3))
    calibration = crowd.conformalize(p[:300], counts[:300], in_hand=(0, 2, 5), method=method)
    hand, _ = hold_back(counts[300:], 7, np.random.default_rng(0))
    hand[:100] = hold_back(hand[:100], 3, np.random.default_rng(0))[0]
    with pytest.warns(cs.CredalSetWarning, match="600 of 600"):
        sets = calibration.predict_set(p[300:], votes=hand)
    number = np.where(np.arange(600) < 100, 2, 5)
    np.testing.assert_array_equal(
        sets.threshold, [calibration.threshold(0.1, in_hand=h) for h in number]
    )
    with pytest.warns(cs.CredalSetWarning):
        some = calibration.predict_set(
            p[300:][450::-2], votes=hand[450::-2]
        )  # another batch in another order
    np.testing.assert_array_equal(some.prediction.rows, sets.prediction.rows[450::-2])
    np.testing.assert_array_equal(some.prediction.scale, sets.prediction.scale[450::-2])
    with pytest.raises(ValueError, match="in_hand"):
        calibration.threshold(0.1, in_hand=1)
    with pytest.raises(ValueError, match="in_hand"):
        crowd.conformalize(p, counts, in_hand=(2, 5), method=method).predict_set(
            p[:1], votes=[[1, 0, 0]]
        )


def test_thinned_votes_are_a_random_part(crowd):
    p, counts, _ = make_crowd(4000, 3, 20, np.random.default_rng(3))
    calibration = crowd.conformalize(p[:100], counts[:100], in_hand=(0, 2))
    with pytest.warns(cs.CredalSetWarning):
        used = calibration._thin(crowd._read(p, np.tile([3, 0, 2], (4000, 1))))
    assert (used.sum(axis=1) == 2).all()
    assert abs((used[:, 0] == 2).mean() - 0.3) < 0.03  # 3/5 · 2/4


@pytest.mark.parametrize(
    "wrong", [{"in_hand": (-1,)}, {"in_hand": ()}, {"method": "guess"}, {"min_votes": 0}]
)
def test_wrong_choices_are_refused(crowd, wrong):
    p, counts, _ = make_crowd(50, 3, 20, np.random.default_rng(3))
    with pytest.raises(ValueError, match=next(iter(wrong))):
        crowd.conformalize(p, counts, **wrong)


def imputed_coverage(p, counts, truth, n_votes, score="brier", n_fit=None, seed=0, hands=None):
    """Coverage of the truth with imputed calibration,
    and the width relative to a calibration with the truth.
    """
    rng, half = np.random.default_rng(seed), len(p) // 2
    few, _ = hold_back(counts, n_votes, rng)
    crowd = cs.DirichletCrowd().fit(p[:half], few[:half])
    hands = hands or (0, n_votes)
    calibration = crowd.conformalize(
        p[:half], few[:half], score, in_hand=hands, method="imputed", random_state=seed
    )
    found = []
    for h in hands:
        hand, _ = hold_back(few, h, rng)
        sets = calibration.predict_set(p[half:], votes=hand[half:])
        centre = calibration.predict_set(p, votes=hand).prediction.rows
        best = cs.conformalize(centre[:half], truth[:half], score).predict_set(centre[half:])
        width, least = ((each.upper() - each.lower()).sum() for each in (sets, best))
        found.append((sets.contains(truth[half:]).mean(), width / least))
    return np.array(found)


def test_imputed_coverage_is_about_right_for_dirichlet_crowds():
    data = make_crowd(3000, 3, 5, np.random.default_rng(0), wrong=0.1)
    for coverage, width in imputed_coverage(*data, 5):
        assert abs(coverage - 0.9) < 0.04
        assert abs(width - 1) < 0.15


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("score", ["brier", "tv"])
@pytest.mark.parametrize("n_votes", [3, 5, 10])
@pytest.mark.parametrize("load", [load_cifar10h, load_chaosnli])
def test_imputed_coverage_on_real_crowds(load, n_votes, score):
    p, counts = load()
    found = []
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(len(p))[:4000]
        hands = tuple(sorted({0, 1, n_votes // 2, n_votes}))
        data = p[rows], counts[rows], shares(counts[rows])
        found.append(imputed_coverage(*data, n_votes, score, seed=seed, hands=hands))
    coverage, width = np.moveaxis(np.mean(found, axis=0), 1, 0)
    assert (np.abs(coverage - 0.9) < 0.03).all(), coverage
    assert (width < 1.1).all(), width


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n_classes", "low", "high"),
    [
        (nearly_exact, 3, 0.80, 1.00),
        (nearly_exact, 10, 0.80, 1.00),
        (on_faces, 2, 0.80, 1.00),
        (on_faces, 3, 0.70, 1.00),
        (on_faces, 10, 0.55, 1.00),
    ],
)
def test_simulations_that_break_the_imputed_route(make, n_classes, low, high):
    """What the guide shows: coverage is off where the crowd is no Dirichlet crowd."""
    data = make(3000, n_classes, 3, np.random.default_rng(0))
    coverage = imputed_coverage(*data, 3)[:, 0]
    assert (coverage >= low).all(), coverage
    assert (coverage <= high).all(), coverage


def test_ordinal_scores_take_order_and_positions_of_the_scale(crowd):
    """The scale of the votes was lost on the way, and distances were those of the columns."""
    p, votes = make_crowd(200, 3, 30, np.random.default_rng(7))[:2]
    rows = [
        (i, k)
        for i, row in enumerate(votes.astype(int))
        for k in np.repeat(["low", "mid", "high"], row)
    ]
    table = pd.DataFrame(
        [(f"t{i}", w, k) for w, (i, k) in enumerate(rows)], columns=["task", "worker", "label"]
    )
    annotations = cs.Annotations.from_table(table, scale={"low": 0, "mid": 1, "high": 5})
    frame = pd.DataFrame(p, index=[f"t{i}" for i in range(200)], columns=["low", "mid", "high"])
    turned, known, new = frame[["high", "low", "mid"]], annotations[:50], annotations[50:]
    with pytest.raises(ValueError, match="no names of classes"):
        crowd.conformalize(frame, annotations, "ws", in_hand=(0, 1))
    one = cs.DirichletCrowd().fit(turned[:50], known)
    assert one.classes_ == ("low", "mid", "high")
    expected = (
        cs.DirichletCrowd()
        .fit(frame[:50], known)
        .conformalize(frame[50:], new, "ws", in_hand=(0, 1))
    )
    made = one.conformalize(turned[50:], new, "ws", in_hand=(0, 1))
    assert made.threshold(0.2) == expected.threshold(0.2)
    assert made.predict_set(turned[50:]).classes == ("low", "mid", "high")
    assert cs.VotingPolicy(one, max_votes=5).conformalize(
        turned[50:], new, "ws"
    ).score.positions == (0.0, 1.0, 5.0)
    other = cs.DirichletCrowd().fit(turned[:50], known.to_frame())  # without a scale
    for source in (other, cs.VotingPolicy(other, max_votes=5)):
        with pytest.raises(ValueError, match="votes are on the scale"):
            source.conformalize(frame[50:], new, "ws")


def test_imputed_draws_count_as_one_item_each():
    """Twenty draws of five items are five items: too few for a level of one in twenty."""
    p, counts, _ = make_crowd(100, 3, 4, np.random.default_rng(0))
    crowd = cs.DirichletCrowd(max_iter=10).fit(p, counts)
    few = crowd.conformalize(p[:5], counts[:5], in_hand=(0,), method="imputed")
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        assert (few.predict_set(p[5:], 0.05).width() == 1.5).all()
    assert np.isfinite(few.threshold(0.2))
    enough = crowd.conformalize(p[:30], counts[:30], in_hand=(0,), method="imputed")
    part = enough.calibrations[0]
    # The smallest threshold below which the draws weigh at least (n + 1)(1 − α), at 1 / L each.
    rank = int(np.ceil(31 * 0.9 * 20 - 1e-9))
    assert enough.threshold(0.1) == np.sort(part.scores)[rank - 1]
    keys = ["a"] * 5 + ["b"] * 25
    grouped = crowd.conformalize(p[:30], counts[:30], in_hand=(0,), method="imputed", groups=keys)
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        sets = grouped.predict_set(p[:30], 0.1, groups=keys)
    assert (sets.width()[:5] == 1.5).all()
    assert (sets.width()[5:] < 1.5).all()


def test_votes_do_not_test_imputed_sets_but_the_model_is_tested():
    p, counts, _ = make_crowd(600, 3, 4, np.random.default_rng(0))
    crowd = cs.DirichletCrowd(max_iter=30).fit(p[:300], counts[:300])
    imputed = crowd.conformalize(p[:300], counts[:300], "brier", in_hand=(0,), method="imputed")
    found = cs.evaluate(imputed, p[300:], counts[300:], alpha=0.1)
    assert found[0]["verdict"] == "not tested"
    assert np.isnan(found[0]["coverage"])
    assert found[0]["hardest"] is None
    assert 0 < found.assumption.p_value <= 1
    assert "Dirichlet crowd" in str(found)
    assert "hidden votes" in found.verdicts[0].sentence
    hand = hold_back(counts[300:], 1, np.random.default_rng(0))[0]
    again = cs.evaluate(imputed, p[300:], counts[300:] - hand, 0.1, votes_in_hand=hand)
    assert again.assumption.votes[:, 2].sum() == found.assumption.votes[:, 2].sum()
    panel = cs.evaluate(
        crowd.conformalize(p[300:450], counts[300:450], in_hand=(0,), min_votes=2),
        p[450:],
        counts[450:],
        0.1,
    )
    assert panel.assumption is None
    assert panel[0]["verdict"] == "valid"
