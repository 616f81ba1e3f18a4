"""Cross-conformal calibration: the ball holds the CV+ set, exact sets are that set, and the promise holds."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset.scores import Score

from .conftest import SCORES, random_predictions

#: what a cross-conformal calibration takes: every score, and mixtures, for which no enclosing balls are known
CASES = [*SCORES, "mixture"]
#: one score of each geometry: the others give the same sets at other thresholds
REGIONS = [name for name in CASES if not name.startswith("normalized") and name != "kl-nats"]


def predictions(name: str, n: int, rng: np.random.Generator, n_classes: int = 3) -> tuple[Score, np.ndarray]:
    """A score and predictions for n items."""
    if name != "mixture":
        return SCORES[name], random_predictions(SCORES[name], n, n_classes, rng)
    theta = 0.5 + 8.0 * rng.dirichlet(np.ones(n_classes), (n, 2))
    return cs.get_score("density"), np.concatenate([np.full((n, 2, 1), 0.5), theta], axis=2)


def fold_models(name: str, n_folds: int, n: int, rng: np.random.Generator) -> np.ndarray:
    base = predictions(name, n, rng)[1]
    return np.stack([0.8 * base + 0.2 * predictions(name, n, rng)[1] for _ in range(n_folds)])


def votes(calibration: Any, new: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Which items let each candidate in, (n, N, M), straight from the definition."""
    score, rule = calibration.score, calibration.rule
    bounds = rule.bounds[0] + rule.noise.margin
    result = np.empty((len(bounds), new.shape[1], len(candidates)), dtype=bool)
    for i, (bound, fold) in enumerate(zip(bounds, calibration.folds, strict=True)):
        for j in range(new.shape[1]):
            copies = np.repeat(new[fold, j : j + 1], len(candidates), axis=0)
            result[i, j] = bound >= score(copies, candidates)
    return result


def models_for(score: Score, n_folds: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Predictions of fold models that differ a little."""
    base = random_predictions(score, n, 3, rng)
    noise = np.stack([random_predictions(score, n, 3, rng) for _ in range(n_folds)])
    return 0.8 * base + 0.2 * noise


def test_balls_enclose_balls(score: Score) -> None:
    if not score.has_plain_predictions:
        pytest.skip("no enclosing balls are known for prototypes and intervals, and calibration says so")
    rng = np.random.default_rng(0)
    models = models_for(score, 4, 30, rng)
    center = score.common_center(list(models))
    candidates = np.vstack([rng.dirichlet(np.ones(3), 400), rng.dirichlet(np.full(3, 0.2), 100), np.eye(3)])
    for model in models:
        for i in range(30):
            own = score(np.tile(model[i], (len(candidates), 1)), candidates)
            other = score(np.tile(center[i], (len(candidates), 1)), candidates)
            bound = score.enclosing_threshold(model[i : i + 1], center[i : i + 1], own)
            assert (other <= bound + 1e-9 * (1 + np.abs(bound))).all()


def test_the_cross_conformal_set_is_inside(score: Score) -> None:
    rng = np.random.default_rng(1)
    n, n_folds = 40, 4
    folds = np.arange(n) % n_folds
    labels = rng.dirichlet(np.ones(3), n)
    calibration = cs.cross_conformalize(random_predictions(score, n, 3, rng), labels, folds, score)
    new = models_for(score, n_folds, 5, rng)
    candidates = rng.dirichlet(np.ones(3), 300)
    sets = calibration.predict_set(new, 0.2)
    for i in range(5):
        fold_scores = np.stack([score(np.repeat(new[k, i][None], 300, axis=0), candidates) for k in range(n_folds)])
        count = 1 + (calibration.scores[:, None] >= fold_scores[folds]).sum(axis=0)
        member = count > 0.2 * (n + 1)
        assert sets[i : i + 1].contains(candidates[None])[0][member].all()


def test_coverage_of_scarce_data() -> None:
    rng = np.random.default_rng(2)
    observed, promised = [], 0.0
    for _ in range(25):
        data = cs.datasets.make_synthetic(260, n_features=3, n_votes=20, random_state=rng)
        X, Y = data.X, data.counts / 20
        folds, out, new = np.arange(60) % 6, np.empty((60, 3)), []
        for k in range(6):
            held = folds == k
            solve = np.linalg.lstsq(np.c_[X[:60][~held], np.ones((~held).sum())], Y[:60][~held], rcond=None)[0]
            g = np.clip(np.c_[X, np.ones(260)] @ solve, 0.02, None)
            g /= g.sum(axis=1, keepdims=True)
            out[held] = g[:60][held]
            new.append(g[60:])
        calibration = cs.cross_conformalize(out, Y[:60], folds, "tv")
        promised = calibration.guaranteed_coverage(0.1)
        observed.append(calibration.predict_set(new, 0.1).contains(Y[60:]).mean())
    assert np.mean(observed) >= promised
    assert 0.88 <= np.mean(observed) <= 0.99
    assert promised == pytest.approx(1 - 0.2 - min(2 * (5 / 6) / 11, (1 - 0.1) / 7))


def test_one_model_for_all_is_split_conformal() -> None:
    rng = np.random.default_rng(3)
    g, labels = rng.dirichlet(np.ones(3), 50), rng.dirichlet(np.ones(3), 50)
    calibration = cs.cross_conformalize(g, labels, np.arange(50) % 2, "kl")
    plain = cs.conformalize(g, labels, "kl")
    assert calibration.thresholds([g, g], 0.1) == pytest.approx(np.full(50, plain.threshold(0.1)))


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    score, g = predictions(name, 30, rng)
    counts, keys, new = rng.multinomial(9, np.full(3, 1 / 3), 30), ["a", "b", "a"] * 10, fold_models(name, 3, 4, rng)
    options: dict[str, Any] = {"groups": keys, "weights": np.arange(1.0, 31.0), "noise": cs.AnnotatorSampling(0.02)}
    asked: dict[str, Any] = {"groups": ["a", "b", "a", "b"], "weights": np.ones(4)}
    for chosen, of_new in (({}, {}), ({"classes": [1, 2, 3], "exact": True}, {}), (options, asked)):
        saved = cs.cross_conformalize(g, counts, np.arange(30) % 3, score, **chosen)
        saved.save(tmp_path / "c")
        loaded: Any = cs.load(tmp_path / "c")
        assert repr(loaded) == repr(saved)
        assert (loaded.classes, loaded.exact) == (saved.classes, saved.exact)
        assert loaded.thresholds(new, 0.3, **of_new).tobytes() == saved.thresholds(new, 0.3, **of_new).tobytes()


def test_refusals() -> None:
    g, labels = np.full((4, 2), 0.5), np.eye(2)[[0, 1, 0, 1]]
    for folds in ([0, 0, 0, 0], [0, 2, 0, 2], [1, 2, 1, 2]):
        with pytest.raises(ValueError, match="folds must be numbered"):
            cs.cross_conformalize(g, labels, folds)
    for odd in ([0, 1], [0.0, 1.0, 0.0, 1.0]):
        with pytest.raises(ValueError, match="folds must hold one whole number per item"):
            cs.cross_conformalize(g, labels, odd)  # type: ignore[arg-type]
    calibration = cs.cross_conformalize(g, labels, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"predictions must have shape \(2, n_items, 2\)"):
        calibration.predict_set(g, 0.5)
    with pytest.warns(cs.CredalSetWarning, match="4 calibration items are too few for alpha=0.1"):
        assert (calibration.thresholds([g, g], 0.1) == math.inf).all()


# --- the set itself ---


@pytest.mark.parametrize("name", CASES)
def test_exact_sets_are_the_definition(name: str) -> None:
    rng = np.random.default_rng(5)
    score, g = predictions(name, 23, rng)
    labels, folds = rng.dirichlet(np.ones(3), 23), np.arange(23) % 3
    calibration = cs.cross_conformalize(g, labels, folds, score, exact=True)
    new, candidates = fold_models(name, 3, 4, rng), rng.dirichlet(np.ones(3), 150)
    count = votes(calibration, new, candidates).sum(axis=0)
    for alpha in (0.125, 0.25, 0.5):
        member = calibration.predict_set(new, alpha).contains(candidates, broadcast=True)
        assert np.array_equal(member, 1 + count > alpha * 24)
    if name != "mixture":
        ball = cs.cross_conformalize(g, labels, folds, score).predict_set(new, 0.25)
        exact = calibration.predict_set(new, 0.25)
        assert (ball.contains(candidates, broadcast=True) >= exact.contains(candidates, broadcast=True)).all()


@pytest.mark.parametrize("name", REGIONS)
def test_answers_of_exact_sets(name: str) -> None:
    """Bounds hold for every member; volumes and samples agree with the share of the simplex that is in the set."""
    rng = np.random.default_rng(6)
    score, g = predictions(name, 40, rng)
    shares = 0.7 * score.mean(score.check_prediction(g)) + 0.3 * rng.dirichlet(np.ones(3), 40)
    calibration = cs.cross_conformalize(g, shares, np.arange(40) % 4, score, exact=True, classes=["a", "b", "c"])
    sets = calibration.predict_set(fold_models(name, 4, 3, rng), 0.2)
    points = rng.dirichlet(np.ones(3), 6000)
    inside = sets.contains(points, broadcast=True)
    assert inside.any(axis=1).all()
    lower, upper = sets.envelope()
    utility = np.array([0.0, 1.0, 3.0])
    high, low = sets.upper_expectation(utility), sets.lower_expectation(utility)
    least, most = sets.entropy_bounds()
    peak = sets.smallest_peak()
    for i in range(3):
        members = points[inside[i]]
        assert (members >= lower[i] - 1e-9).all()
        assert (members <= upper[i] + 1e-9).all()
        assert low[i] - 1e-9 <= (members @ utility).min() <= (members @ utility).max() <= high[i] + 1e-9
        entropies = cs.simplex.entropy(members)
        assert least[i] - 1e-9 <= entropies.min() <= entropies.max() <= most[i] + 1e-9
        assert members.max(axis=1).min() >= peak[i] - 1e-9
    value, error = sets.volume(return_error=True)
    share = inside.mean(axis=1)
    assert (np.abs(value - share) <= 4 * np.hypot(error, np.sqrt(share / 6000)) + 1e-9).all()
    drawn = sets.sample(400, random_state=0)
    assert sets.contains(drawn).all()
    for i in range(3):
        spread = points[inside[i]].std(axis=0) * np.sqrt(1 / 400 + 1 / inside[i].sum())
        assert (np.abs(drawn[i].mean(axis=0) - points[inside[i]].mean(axis=0)) <= 4.5 * spread).all()
    assert len(sets.to_rows()) == 3
    assert sets[1].contains(points, broadcast=True)[0].tolist() == inside[1].tolist()
    assert sets.decide("maximal").any(axis=1).all()
    assert "cross-conformal set" in repr(sets)
    with pytest.raises(TypeError, match="no polytope"):
        sets.vertices(0)


def test_scores_of_ones_own_have_exact_sets() -> None:
    class Plain(Score):
        """A score that nobody knows balls of."""

        name, order = "own", "first"

        def formula(self, prediction: Any, distribution: Any) -> Any:
            return ((prediction - distribution) ** 2).sum(axis=-1)

        def _region(self, prediction: Any, threshold: Any) -> Any:
            return cs.scores.TotalVariation()._region(prediction, np.sqrt(2 * threshold))

        def best_fit(self, prediction: Any) -> Any:
            return prediction

    rng = np.random.default_rng(7)
    g, labels = rng.dirichlet(np.ones(3), 30), rng.dirichlet(np.ones(3), 30)
    calibration = cs.cross_conformalize(g, labels, np.arange(30) % 2, Plain())
    sets = calibration.predict_set([g, g], 0.2)
    assert type(sets).__name__ == "CrossSet"
    expected = Plain()(g, labels) <= np.sort(calibration.scores)[math.ceil(31 * 0.8) - 1]
    assert np.array_equal(sets.contains(labels), expected)
    with pytest.raises(ValueError, match="no balls are known"):
        cs.cross_conformalize(g, labels, np.arange(30) % 2, Plain(), exact=False)


# --- noise, groups, weights ---


def test_groups_vote_among_themselves() -> None:
    rng = np.random.default_rng(8)
    g, labels, folds = rng.dirichlet(np.ones(3), 60), rng.dirichlet(np.ones(3), 60), np.arange(60) % 4
    keys = np.repeat(["a", "b"], [20, 40])
    new = fold_models("tv", 4, 6, rng)
    for exact in (None, True):
        together = cs.cross_conformalize(g, labels, folds, "tv", groups=keys, exact=exact)
        for key in ("a", "b"):
            own = keys == key
            alone = cs.cross_conformalize(g[own], labels[own], folds[own], "tv", exact=exact)
            expected = alone.thresholds(new, 0.1)
            assert np.array_equal(together.thresholds(new, 0.1, groups=[key] * 6), expected)
            candidates = rng.dirichlet(np.ones(3), 50)
            member = together.predict_set(new, 0.1, groups=[key] * 6).contains(candidates, broadcast=True)
            assert np.array_equal(member, alone.predict_set(new, 0.1).contains(candidates, broadcast=True))
    mixed = together.predict_set(new, 0.1, groups=["a", "b"] * 3)
    assert len(np.unique(mixed.threshold)) == 2
    assert together.guaranteed_coverage(0.1) == pytest.approx(1 - 2 * (0.1 * 21 + 3) / 24)
    with pytest.warns(cs.CredalSetWarning, match="no calibration item has the group 'unseen'; there are 'a', 'b'"):
        together.thresholds(new[:, :1], 0.1, groups=["unseen"])


@pytest.mark.parametrize("name", ["tv", "kl", "so", "mixture"])
def test_weighted_sets_are_the_definition(name: str) -> None:
    rng = np.random.default_rng(9)
    score, g = predictions(name, 30, rng)
    labels, folds, weights = rng.dirichlet(np.ones(3), 30), np.arange(30) % 3, rng.random(30) + 0.1
    calibration = cs.cross_conformalize(g, labels, folds, score, weights=weights, exact=True)
    new, new_weights, candidates = fold_models(name, 3, 4, rng), rng.random(4), rng.dirichlet(np.ones(3), 100)
    ballots = votes(calibration, new, candidates)
    p = np.zeros((4, 100))
    for k in range(3):
        own = weights[folds == k]
        mass = np.einsum("i,ijm->jm", own, ballots[folds == k])
        p += (new_weights[:, None] + mass) / (new_weights[:, None] + own.sum()) / 3
    for alpha in (0.15, 0.3):
        sets = calibration.predict_set(new, alpha, weights=new_weights)
        assert np.array_equal(sets.contains(candidates, broadcast=True), p > alpha)
        if name != "mixture":
            balls = cs.cross_conformalize(g, labels, folds, score, weights=weights)
            held = balls.predict_set(new, alpha, weights=new_weights).contains(candidates, broadcast=True)
            assert (held >= (p > alpha)).all()
    assert calibration.guaranteed_coverage(0.1) == pytest.approx(0.8)


def test_noise_moves_the_scores() -> None:
    rng = np.random.default_rng(10)
    g, folds, new = rng.dirichlet(np.ones(3), 50), np.arange(50) % 5, fold_models("tv", 5, 3, rng)
    counts = rng.multinomial(20, 0.8 * g + 0.2 / 3)
    plain = cs.cross_conformalize(g, counts, folds)
    bounded = cs.cross_conformalize(g, counts, folds, noise=cs.BoundedNoise(0.07, 0.05))
    assert bounded.thresholds(new, 0.15) == pytest.approx(plain.thresholds(new, 0.1) + 0.07)
    for region in ("exact", "tv", "kl", "anytime"):
        noise = cs.AnnotatorSampling(0.05, region)  # type: ignore[arg-type]
        sampled = cs.cross_conformalize(g, counts, folds, noise=noise)
        assert (sampled.rule.bounds[0] > plain.scores).all()
        assert (sampled.thresholds(new, 0.15) > plain.thresholds(new, 0.1)).all()
    assert plain.guaranteed_coverage(0.1) == pytest.approx(1 - min(0.2 + 0.9 / 6, 2 * (5.1 + 4) / 55))
    assert bounded.guaranteed_coverage(0.15) == pytest.approx(1 - 2 * (5.1 + 4) / 55 - 0.1)
    assert sampled.guaranteed_coverage(0.15) == pytest.approx(1 - (1 - plain.guaranteed_coverage(0.95 * 0.15)) / 0.95)
    with pytest.raises(ValueError, match="must be above delta"):
        bounded.thresholds(new, 0.05)


def test_the_truth_behind_the_votes_is_covered() -> None:
    rng = np.random.default_rng(11)
    observed = []
    noise = cs.AnnotatorSampling(0.05)
    for _ in range(20):
        truth = rng.dirichlet(np.ones(3), 160)
        models = [0.9 * truth + 0.1 * rng.dirichlet(np.ones(3), 160) for _ in range(4)]
        folds, counts = np.arange(60) % 4, rng.multinomial(30, truth[:60])
        out = np.stack(models)[folds, np.arange(60)]
        calibration = cs.cross_conformalize(out, counts, folds, noise=noise, exact=True)
        sets = calibration.predict_set([model[60:] for model in models], 0.2)
        observed.append(sets.contains(truth[60:]).mean())
    assert np.mean(observed) >= calibration.guaranteed_coverage(0.2)
    assert np.mean(observed) >= 0.9


def test_weighted_coverage_holds_where_unweighted_fails() -> None:
    """Hard items are rare in calibration and common among the new ones."""
    rng = np.random.default_rng(12)
    observed: dict[str, list[float]] = {"weighted": [], "plain": []}
    for _ in range(30):
        hard = rng.random(220) < np.repeat([0.1, 0.8], [120, 100])
        truth = rng.dirichlet(np.ones(3), 220)
        share = np.where(hard, 0.9, 0.1)[:, None] * rng.uniform(0.5, 1.0, (220, 1))
        models = [(1 - share) * truth + share * rng.dirichlet(np.ones(3), 220) for _ in range(3)]
        folds, ratio = np.arange(120) % 3, np.where(hard, 8.0, 0.2 / 0.9)
        out, new = np.stack(models)[folds, np.arange(120)], [model[120:] for model in models]
        weighted = cs.cross_conformalize(out, truth[:120], folds, weights=ratio[:120], exact=True)
        plain = cs.cross_conformalize(out, truth[:120], folds, exact=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CredalSetWarning)
            sets = weighted.predict_set(new, 0.15, weights=ratio[120:])
        observed["weighted"].append(sets.contains(truth[120:]).mean())
        observed["plain"].append(plain.predict_set(new, 0.15).contains(truth[120:]).mean())
    assert weighted.guaranteed_coverage(0.15) == pytest.approx(0.7)
    assert np.mean(observed["weighted"]) >= 0.7 - 3 * np.std(observed["weighted"]) / math.sqrt(30)
    assert np.mean(observed["plain"]) < plain.guaranteed_coverage(0.15), "the promise is for items like those seen"


@pytest.mark.parametrize("n_classes", [2, 5])
def test_other_numbers_of_classes_and_no_items(n_classes: int) -> None:
    rng = np.random.default_rng(13)
    score, g = predictions("tv", 30, rng, n_classes)
    calibration = cs.cross_conformalize(g, g[::-1], np.arange(30) % 3, score, exact=True)
    new = np.stack([0.9 * g[:4] + 0.1 * predictions("tv", 4, rng, n_classes)[1] for _ in range(3)])
    sets = calibration.predict_set(new, 0.3)
    value, error = sets.volume(return_error=True)
    share = sets.contains(rng.dirichlet(np.ones(n_classes), 4000), broadcast=True).mean(axis=1)
    assert (np.abs(value - share) <= 4 * np.hypot(error, np.sqrt(share / 4000)) + 1e-9).all()
    assert len(calibration.predict_set(new[:, :0], 0.3)) == 0


def test_sets_may_be_empty() -> None:
    sure, flat = np.tile([0.9, 0.05, 0.05], (40, 1)), np.full((2, 3), 1 / 3)
    calibration = cs.cross_conformalize(sure, np.tile([1.0, 0.0, 0.0], (40, 1)), np.arange(40) % 2, "inner", exact=True)
    with pytest.warns(cs.CredalSetWarning, match="2 of 2 credal sets are empty"):
        sets = calibration.predict_set([flat, flat], 0.2)
    assert sets.is_empty().all()
    assert sets.volume().tolist() == [0.0, 0.0]  # type: ignore[union-attr]
    assert np.isnan(sets.lower()).all()
    assert not sets.decide().any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": cs.UnbiasedVotes()}, "proof needs one model"),
        ({"noise": cs.AnnotatorSampling()}, "noise needs a delta"),
        ({"noise": cs.BoundedNoise(0.1, 0.01, "paper")}, "rule='paper'"),
        ({"groups": "predicted"}, "may predict different classes"),
        ({"classes": ["a", "b", "c"]}, "names 3 classes"),
    ],
)
def test_what_has_no_proof_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cs.cross_conformalize(np.full((4, 2), 0.5), np.eye(2, dtype=int)[[0, 1, 0, 1]], [0, 1, 0, 1], **options)


def test_unused_groups_and_weights_are_refused() -> None:
    g, labels = np.full((4, 2), 0.5), np.eye(2)[[0, 1, 0, 1]]
    plain = cs.cross_conformalize(g, labels, [0, 1, 0, 1])
    weighted = cs.cross_conformalize(g, labels, [0, 1, 0, 1], weights=np.ones(4))
    for calibration in (plain, weighted):
        extra = {} if calibration is plain else {"weights": np.ones(4)}
        with pytest.raises(ValueError, match="groups was given"):
            calibration.predict_set([g, g], 0.5, groups=[0] * 4, **extra)
    with pytest.raises(ValueError, match="weights was given"):
        plain.predict_set([g, g], 0.5, weights=np.ones(4))
    with pytest.raises(ValueError, match="weights is missing"):
        weighted.predict_set([g, g], 0.5)
    with pytest.raises(TypeError, match="exact must be True"):
        cs.cross_conformalize(g, labels, [0, 1, 0, 1], exact="yes")  # type: ignore[arg-type]
    assert len(weighted.predict_set([g[:0], g[:0]], 0.5, weights=[])) == 0


def test_what_only_split_calibrations_have_names_the_way_out() -> None:
    calibration: Any = cs.cross_conformalize(np.full((4, 2), 0.5), np.eye(2)[[0, 1, 0, 1]], [0, 1, 0, 1])
    for name, message in (
        ("threshold", r"no single threshold.*Use thresholds\(predictions, alpha\)"),
        ("p_values", r"no p-values.*thresholds\(predictions, alpha\)"),
        ("coverage_distribution", "Use guaranteed_coverage"),
        ("pac_threshold", r"Use thresholds\(predictions, alpha\)"),
        ("thershold", "'CrossCalibration' object has no attribute 'thershold'"),
    ):
        assert not hasattr(calibration, name)
        with pytest.raises(AttributeError, match=message):
            getattr(calibration, name)
    again = copy.deepcopy(pickle.loads(pickle.dumps(calibration)))
    assert again.folds.tolist() == [0, 1, 0, 1]


def test_blocks_of_different_shapes() -> None:
    g = np.full((4, 2), 0.5)
    calibration = cs.cross_conformalize(g, np.eye(2)[[0, 1, 0, 1]], [0, 1, 0, 1])
    odd: list[tuple[Any, str]] = [
        ([g, g[:3]], r"but has blocks of the shapes \(4, 2\), \(3, 2\)"),
        ([g, g, g], r"but has shape \(3, 4, 2\)"),
        ([g[0], g[0]], r"but has shape \(2, 2\)"),
        ([], r"but has shape \(\)"),
        (None, r"but has shape \(\)"),
        (0.5, r"but has shape \(\)"),
        (np.array(0.5), r"but has shape \(\)"),
    ]
    for predictions, message in odd:
        with pytest.raises(ValueError, match=message):
            calibration.predict_set(predictions, 0.5)
    with pytest.raises(ValueError, match="predictions must have rows of one length"):
        calibration.predict_set([g, [[0.5, 0.5], [1.0]]], 0.5)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="predictions must hold numbers"):
        calibration.predict_set("text", 0.5)  # type: ignore[arg-type]
