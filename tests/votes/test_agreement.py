"""Agreement: published worked examples to every printed digit, the definitions written out,
and honest intervals.
"""

from __future__ import annotations

import json
import pickle
import time
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credalset import Annotations, CredalSetWarning
from credalset.votes import Agreement
from credalset.votes.agreement import resample, statistics

nan = float("nan")

#: Fleiss (1971), table 1, thirty patients by six psychiatrists, as spelt out by statsmodels and R's
#: irr
DIAGNOSES = [
    "444444", "222555", "233335", "555555", "222444", "113333",
    "333355", "113334", "114444", "555555", "144444", "124444",
    "222333", "144444", "224445", "333335", "111455", "111112",
    "224444", "133555", "555555", "244444", "224555", "114444",
    "144445", "222224", "111155", "224444", "133333", "555555",
]  # fmt: skip
#: Krippendorff (2011), example C: twelve units, four observers, missing values; also Gwet's
#: cac.raw4raters
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
    [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
]
#: Wikipedia, "Krippendorff's alpha", a computational example: three coders, fifteen units
CODERS = [
    [nan, nan, nan, nan, nan, 3, 4, 1, 2, 1, 1, 3, 3, nan, 3],
    [1, nan, 2, 1, 3, 3, 4, 3, nan, nan, nan, nan, nan, nan, nan],
    [nan, nan, 2, 1, 3, 4, 4, nan, 2, 1, 1, 3, 3, nan, 4],
]
#: Wikipedia, "Fleiss' kappa", worked example: ten subjects, fourteen raters, five categories
PSYCHOLOGISTS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip
#: Gwet's distrib.6raters in the R package irrCAC: the first fifteen patients of Fleiss (1971)
SIX_RATERS = [
    [0, 0, 0, 6, 0], [0, 3, 0, 0, 3], [0, 1, 4, 0, 1], [0, 0, 0, 0, 6], [0, 3, 0, 3, 0],
    [2, 0, 4, 0, 0], [0, 0, 4, 0, 2], [2, 0, 3, 1, 0], [2, 0, 0, 4, 0], [0, 0, 0, 0, 6],
    [1, 0, 0, 5, 0], [1, 1, 0, 4, 0], [0, 3, 3, 0, 0], [1, 0, 0, 5, 0], [0, 2, 0, 3, 1],
]  # fmt: skip


def quick(votes: Annotations) -> Agreement:
    return votes.agreement(n_resamples=0)


def printed(value: float, digits: int) -> str:
    return f"{float(value):.{digits}f}"


# --- published examples ---


def test_fleiss_1971():
    """Measuring nominal scale agreement among many raters, Psychological Bulletin 76: κ = .430;
    by diagnosis p. 381.
    """
    votes = Annotations.from_wide([list(row) for row in DIAGNOSES])
    assert votes.counts.sum(axis=0).tolist() == [26, 26, 30, 55, 43]
    result = quick(votes)
    assert printed(result.kappa, 3) == "0.430"
    assert printed(result.kappa, 7) == "0.4302445"  # kappam.fleiss of R's irr
    assert [printed(row["kappa"], 3) for row in result.classes] == [
        "0.245",
        "0.245",
        "0.520",
        "0.471",
        "0.566",
    ]
    assert [printed(row["share"], 3) for row in result.classes] == [
        "0.144",
        "0.144",
        "0.167",
        "0.306",
        "0.239",
    ]


def test_fleiss_kappa_of_wikipedia():
    result = quick(Annotations.from_counts(PSYCHOLOGISTS))
    assert printed(result.kappa, 3) == "0.210"
    assert printed(result.percent, 3) == "0.378"
    by_item = statistics(np.array(PSYCHOLOGISTS), np.eye(10), None)["percent"]
    wanted = [1.000, 0.253, 0.308, 0.440, 0.330, 0.462, 0.242, 0.176, 0.286, 0.286]
    assert [printed(p, 3) for p in by_item] == [printed(p, 3) for p in wanted]


def test_krippendorff_2011_example_c():
    """Computing Krippendorff's alpha-reliability: nominal .743, ordinal .815."""
    result = quick(Annotations.from_wide(np.array(OBSERVERS).T, scale=True))
    assert printed(result.alpha, 3) == "0.743"
    assert printed(result.alpha_ordinal, 3) == "0.815"
    assert (result.n_items, result.n_votes, result.n_paired) == (12, 41, 11)


def test_krippendorff_alpha_of_wikipedia():
    result = quick(Annotations.from_wide(np.array(CODERS).T, scale=True))
    assert printed(result.alpha, 3) == "0.691"


def test_gwet_raw_ratings():
    """irrCAC, vignettes "overview" and "weighting": cac.raw4raters, unweighted and quadratic."""
    result = quick(Annotations.from_wide(np.array(OBSERVERS).T, scale=True))
    assert printed(result.percent, 7) == "0.8181818"
    assert printed(result.ac1, 5) == "0.77544"
    assert printed(result.kappa, 5) == "0.76117"
    assert printed(result.alpha, 5) == "0.74342"


def test_gwet_distribution_of_raters():
    """irrCAC, vignettes "overview" and "weighting": distrib.6raters, unweighted and quadratic."""
    result = quick(Annotations.from_counts(SIX_RATERS, scale=True))
    assert printed(result.percent, 7) == "0.5511111"
    assert printed(result.ac1, 7) == "0.4448007"
    assert printed(result.kappa, 7) == "0.4139265"
    assert printed(result.alpha, 7) == "0.4204384"


def test_gwet_two_raters():
    """irrCAC, vignette "overview": cont3x3abstractors, two abstractors on a hundred patients."""
    table = [[13, 0, 0], [0, 20, 7], [0, 4, 56]]
    rows = [[i, j] for i in range(3) for j in range(3) for _ in range(table[i][j])]
    result = quick(Annotations.from_wide(rows, scale=True))
    assert printed(result.percent, 2) == "0.89"
    assert printed(result.kappa, 7) == "0.7962397"  # Scott's π: what Fleiss' κ is for two
    assert printed(result.ac1, 7) == "0.8493305"
    assert printed(result.alpha, 7) == "0.7972585"


# --- the definitions, written out vote by vote ---


def written_out(counts, ordered=False):
    """Every statistic from lists of votes, as its definition reads."""
    n_classes = len(counts[0])
    units = [[k for k, c in enumerate(row) for _ in range(c)] for row in counts]
    rated = [unit for unit in units if unit]
    paired = [unit for unit in units if len(unit) >= 2]
    pairs = [list(permutations(unit, 2)) for unit in paired]
    observed = np.mean([np.mean([a == b for a, b in unit]) for unit in pairs])
    share = np.mean(
        [[unit.count(k) / len(unit) for k in range(n_classes)] for unit in rated], axis=0
    )
    coincidence = np.zeros((n_classes, n_classes))
    for unit, unit_pairs in zip(paired, pairs, strict=True):
        for a, b in unit_pairs:
            coincidence[a, b] += 1 / (len(unit) - 1)
    votes = coincidence.sum(axis=1)
    n = votes.sum()

    def alpha(distance):
        cells = [(c, k) for c in range(n_classes) for k in range(n_classes)]
        expected = sum(votes[c] * votes[k] * distance(c, k) for c, k in cells) / (n - 1)
        return 1 - sum(coincidence[c, k] * distance(c, k) for c, k in cells) / expected

    def between(c, k):
        low, high = min(c, k), max(c, k)
        return (votes[low : high + 1].sum() - (votes[low] + votes[high]) / 2) ** 2

    def beyond(p, e):
        return (p - e) / (1 - e)

    found = {
        "percent": observed,
        "kappa": beyond(observed, (share**2).sum()),
        "ac1": beyond(observed, (share * (1 - share)).sum() / (n_classes - 1)),
        "alpha": alpha(lambda c, k: float(c != k)),
        "class_agreement": np.diag(coincidence) / votes,
    }
    return found | ({"alpha_ordinal": alpha(between)} if ordered else {})


COUNTS = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=8)


@given(COUNTS.filter(lambda rows: any(sum(row) >= 2 for row in rows)), st.booleans())
@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # of the definitions, where they divide by zero
def test_statistics_are_their_definitions(counts, ordered):
    result = quick(Annotations.from_counts(counts, scale=ordered))
    with np.errstate(all="ignore"):
        wanted = written_out(counts, ordered)
        for k, row in enumerate(result.classes):
            np.testing.assert_allclose(
                float(row["agreement"]), wanted["class_agreement"][k], rtol=1e-9, atol=1e-12
            )
            two = [[row_[k], sum(row_) - row_[k]] for row_ in counts]
            binary = written_out(two)
            for name in ("kappa", "alpha"):
                np.testing.assert_allclose(float(row[name]), binary[name], rtol=1e-9, atol=1e-9)
    for name, value in wanted.items():
        if name != "class_agreement":
            got = float(getattr(result, name))
            if np.isnan(value) or np.isinf(value):
                assert not np.isfinite(got), name
            else:
                np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_columns_need_not_be_in_the_order_of_the_scale():
    votes = Annotations.from_counts(SIX_RATERS, classes=list("abcde"), scale=list("abcde"))
    moved = votes.reorder(list("cadbe"))
    assert moved.scale == (2.0, 0.0, 3.0, 1.0, 4.0)
    assert quick(moved).alpha_ordinal == pytest.approx(quick(votes).alpha_ordinal, rel=1e-12)


def test_one_level_leaves_nothing_to_explain_whatever_rounding_says():
    assert np.isnan(
        quick(Annotations.from_counts([[0, 3, 0], [0, 7, 0]], scale=True)).alpha_ordinal
    )


def test_nominal_data_have_no_ordinal_statistic():
    assert quick(Annotations.from_counts(SIX_RATERS)).alpha_ordinal is None


def test_unused_classes_change_ac1_only():
    plain = quick(Annotations.from_counts(SIX_RATERS))
    wider = quick(Annotations.from_counts([[*row, 0] for row in SIX_RATERS]))
    assert (wider.percent, wider.kappa, wider.alpha) == pytest.approx(
        (plain.percent, plain.kappa, plain.alpha), rel=1e-12
    )
    assert wider.ac1 > plain.ac1
    assert np.isnan(wider.classes[-1]["agreement"])
    assert np.isnan(wider.classes[-1]["kappa"])


def test_votes_that_all_agree():
    one = quick(Annotations.from_counts([[3, 0], [2, 0]]))
    assert (one.percent, one.ac1) == (1.0, 1.0)
    assert np.isnan(one.kappa)  # chance agreement is one: nothing is left to explain
    assert np.isnan(one.alpha)
    both = quick(Annotations.from_counts([[3, 0], [0, 2]]))
    assert (both.percent, both.kappa, both.alpha, both.ac1) == (1.0, 1.0, 1.0, 1.0)


def test_items_without_votes_and_with_one():
    votes = Annotations.from_counts([*SIX_RATERS, [0] * 5, [1, 0, 0, 0, 0]])
    result, plain = quick(votes), quick(Annotations.from_counts(SIX_RATERS))
    assert (result.n_items, result.n_paired) == (17, 15)
    assert result.alpha == pytest.approx(plain.alpha, rel=1e-12)  # pairable votes only
    assert result.percent == pytest.approx(plain.percent, rel=1e-12)
    assert result.kappa != pytest.approx(
        plain.kappa, rel=1e-6
    )  # the single vote counts among the shares


def test_agreement_needs_an_item_with_two_votes():
    with pytest.raises(ValueError, match="two votes"):
        Annotations.from_counts([[1, 0], [0, 1]]).agreement()


@pytest.mark.parametrize(
    "options", [{"level": 1.0}, {"level": 95}, {"n_resamples": -1}, {"n_resamples": 2.5}]
)
def test_options_are_checked(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Annotations.from_counts(SIX_RATERS).agreement(**options)


# --- intervals ---


def test_intervals_are_percentiles_over_resampled_items():
    """The same distribution as resampling items one by one: compared by quantiles of many draws."""
    counts = np.array(SIX_RATERS)
    rng = np.random.default_rng(1)
    with np.errstate(invalid="ignore"):
        drawn = [
            written_out(counts[rng.integers(15, size=15)].tolist())["alpha"] for _ in range(1500)
        ]
    low, high = np.quantile(drawn, [0.05, 0.95])
    result = Annotations.from_counts(counts).agreement(level=0.9, n_resamples=20_000)
    # standard error of such a quantile is about 0.006 here
    assert result.alpha.low == pytest.approx(low, abs=0.02)
    assert result.alpha.high == pytest.approx(high, abs=0.02)


def test_seeds_and_levels():
    votes = Annotations.from_counts(SIX_RATERS)
    first, again = votes.agreement(random_state=7), votes.agreement(random_state=7)
    assert (first.alpha.low, first.alpha.high) == (again.alpha.low, again.alpha.high)
    assert votes.agreement(random_state=8).alpha.low != first.alpha.low
    wide, narrow = votes.agreement(level=0.99), votes.agreement(level=0.5)
    assert wide.kappa.low < narrow.kappa.low < narrow.kappa < narrow.kappa.high < wide.kappa.high
    assert np.isnan(quick(votes).alpha.low)


@pytest.mark.slow
def test_intervals_cover_what_resampling_can_promise():
    """95 % intervals for 200 items hold the value of the population about as often as they say."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([1.0, 1.0, 1.0], size=200_000)
    population = quick(Annotations.from_counts(rng.multinomial(5, truth))).alpha
    hits = 0
    for seed in range(400):
        part = truth[rng.choice(len(truth), 200, replace=False)]
        found = (
            Annotations.from_counts(rng.multinomial(5, part))
            .agreement(n_resamples=500, random_state=seed)
            .alpha
        )
        hits += found.low <= population <= found.high
    assert 0.91 * 400 <= hits <= 0.98 * 400


# --- annotators ---

ROWS = [
    ("t1", "ann", "a"), ("t1", "bob", "a"), ("t1", "eve", "b"),
    ("t2", "ann", "b"), ("t2", "bob", "b"),
    ("t3", "ann", "a"), ("t3", "eve", "a"),
    ("t4", "eve", "b"),
]  # fmt: skip


def test_annotators_against_the_others_on_their_items():
    workers = {row["worker"]: row for row in Annotations.from_table(ROWS).agreement().workers}
    # ann: half of the two others on t1, bob on t2, eve on t3; eve: none of two on t1, ann on t3; t4
    # has nobody else
    assert {name: float(row["agreement"]) for name, row in workers.items()} == pytest.approx(
        {"ann": (0.5 + 1 + 1) / 3, "bob": (0.5 + 1) / 2, "eve": (0 + 1) / 2}
    )
    assert {name: row["votes"] for name, row in workers.items()} == {"ann": 3, "bob": 2, "eve": 2}
    # of the seven votes on t1 to t3, four are for a; ann uses a twice and b once
    chance = (2 / 3) * (4 / 7) + (1 / 3) * (3 / 7)
    assert workers["ann"]["kappa"] == pytest.approx((2.5 / 3 - chance) / (1 - chance))
    assert (
        workers["ann"]["agreement"].low
        <= workers["ann"]["agreement"]
        <= workers["ann"]["agreement"].high
    )


def test_an_annotator_who_answers_at_random_stands_out():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    rows = [
        (i, f"w{w}", int(truth[i]) if rng.random() < 0.9 else int(rng.integers(3)))
        for i in range(400)
        for w in range(4)
    ]
    rows += [(i, "random", int(rng.integers(3))) for i in range(400)]
    result = Annotations.from_table(rows).agreement()
    by_name = {row["worker"]: row for row in result.workers}
    assert by_name["random"]["agreement"].high < min(
        by_name[f"w{w}"]["agreement"].low for w in range(4)
    )
    assert abs(by_name["random"]["kappa"]) < 0.1
    assert str(result).splitlines()[-1].startswith("'random'")


def test_intervals_do_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(3)
    pairs = [(task, worker) for task in range(300) for worker in rng.choice(9, 4, replace=False)]
    table = pd.DataFrame(pairs, columns=["task", "worker"]).assign(
        label=rng.choice(list("abc"), len(pairs))
    )
    first, second = (
        Annotations.from_table(frame).agreement()
        for frame in (table, table.sample(frac=1.0, random_state=0))
    )
    for mine, other in zip(
        first.to_dict()["overall"].values(), second.to_dict()["overall"].values(), strict=True
    ):
        assert mine == pytest.approx(other, rel=1e-12)
    assert repr(first.classes) == repr(second.classes)
    by_name = [{row["worker"]: repr(row) for row in result.workers} for result in (first, second)]
    assert by_name[0] == by_name[1]


def test_an_annotator_alone():
    rows = [("t1", "ann", "a"), ("t1", "bob", "a"), ("t2", "eve", "b")]
    eve = Annotations.from_table(rows).agreement().workers[2]
    assert eve["votes"] == 0
    assert np.isnan(eve["agreement"])
    assert np.isnan(eve["kappa"])


def test_resampled_means():
    values = np.repeat([0.0, 0.5, 1.0], 100)
    distinct, frequency = np.unique(values, return_counts=True)
    means = (
        np.concatenate(list(resample(frequency, 5000, np.random.default_rng(1))))
        @ distinct
        / len(values)
    )
    assert means.shape == (5000,)
    assert means.mean() == pytest.approx(values.mean(), abs=5 * values.std() / np.sqrt(300 * 5000))
    assert means.std() == pytest.approx(values.std() / np.sqrt(300), rel=0.05)


def test_without_workers_there_is_no_table_of_them():
    result = Annotations.from_counts(SIX_RATERS).agreement()
    assert result.workers is None
    assert "worker" not in str(result)


# --- how it looks ---


def test_the_table_fits_a_terminal():
    rng = np.random.default_rng(0)
    names = ["a rather long name of a class, longer than any table", *map(str, range(30))]
    table = {
        "task": np.repeat(np.arange(100), 5),
        "worker": rng.integers(0, 40, 500),
        "label": rng.integers(0, 31, 500),
    }
    frame = pd.DataFrame(table).assign(label=lambda f: [names[k] for k in f["label"]])
    text = str(Annotations.from_table(frame, classes=names, scale=True).agreement())
    assert max(map(len, text.splitlines())) <= 80
    assert "… and 19 more" in text
    assert text.endswith("… the 10 lowest of 40 workers")
    assert len(text.splitlines()) < 60


def test_undefined_statistics_print_as_a_dash():
    lines = str(Annotations.from_counts([[3, 0], [2, 0]]).agreement()).splitlines()
    assert ["Fleiss'", "kappa", "-", "-"] in [line.split() for line in lines]


def test_json_round_trip():
    result = Annotations.from_table(ROWS, scale=True).agreement()
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["schema_version"] == 1
    assert told["overall"]["alpha"] == {
        "value": result.alpha,
        "low": result.alpha.low,
        "high": result.alpha.high,
    }
    assert set(told["overall"]) == {"percent", "kappa", "alpha", "alpha_ordinal", "ac1"}
    assert [row["class"] for row in told["classes"]] == ["a", "b"]
    assert [row["worker"] for row in told["workers"]] == ["ann", "bob", "eve"]
    alone = json.dumps(
        Annotations.from_counts([[3, 0], [2, 0]]).agreement().to_dict(), allow_nan=False
    )
    assert json.loads(alone)["overall"]["kappa"]["value"] is None
    assert json.loads(alone)["workers"] is None


def test_names_that_json_does_not_know_become_text():
    votes = Annotations.from_counts([[2, 1]], classes=["a", (1, 2)])
    assert [row["class"] for row in votes.agreement().to_dict()["classes"]] == ["a", "(1, 2)"]


def test_results_are_pickled_with_their_annotators():
    result = Annotations.from_table(ROWS).agreement()
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    assert repr(again.alpha) == repr(result.alpha)


def test_a_million_votes():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.5] * 3, 200_000)
    counts = rng.multinomial(5, truth)
    result = Annotations.from_counts(counts).agreement()
    assert (result.n_votes, result.n_paired) == (1_000_000, 200_000)
    assert result.alpha.high - result.alpha.low < 0.01
    part = quick(Annotations.from_counts(counts[:2000]))
    assert part.alpha == pytest.approx(result.alpha, abs=0.05)


def test_many_workers_take_time_in_proportion(tmp_path: Path) -> None:
    """A million votes of 10 000 workers take half a minute; this is a tenth of them."""
    random = np.random.default_rng(0)
    item = np.repeat(np.arange(20_000), 5)
    worker = random.integers(1000, size=len(item))
    label = random.integers(5, size=len(item))
    path = tmp_path / "votes.csv"
    rows = zip(item, worker, label, strict=True)
    path.write_text("task,worker,label\n" + "".join(f"t{i},w{w},c{k}\n" for i, w, k in rows))
    start = time.process_time()
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        votes = Annotations.read(path)
    agreement = votes.agreement()
    assert len(agreement.workers or ()) == 1000
    assert time.process_time() - start < 15
