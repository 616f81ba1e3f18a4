"""Numbers of ``python -m reproduction``: measures of the sets, bands of coverage,
verdicts and tables.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from credalset.calibration import conformalize

pytest.importorskip("torch", reason="the learners need the extra 'torch'")
pytest.importorskip("pyarrow", reason="results are kept in Parquet files, extra 'reproduce'")

from reproduction import runner, summary, synthetic, tables
from reproduction.batch import MEASURED, Row
from reproduction.measure import Part, grid_shares, measure, score_named
from reproduction.store import Store

from credalset.datasets import make_synthetic

# --- measures ---


def parts(n: int, n_classes: int) -> tuple[Part, Part]:
    data = make_synthetic(2 * n, n_classes, n_votes=20, random_state=0)
    labels = data.counts / 20
    prediction = 0.7 * data.distributions + 0.3 / n_classes
    halves = (slice(0, n), slice(n, 2 * n))
    first, second = (
        Part(prediction[rows], labels[rows], data.distributions[rows]) for rows in halves
    )
    return first, second


@pytest.mark.parametrize("name", ["tv", "ws", "kl", "inner", "normalized-kl"])
def test_measures_agree_with_the_sets(name: str) -> None:
    calibration, test = parts(60, 3)
    calibrated = conformalize(calibration.inputs, calibration.labels, score_named(name, 0.1))
    for row in measure({"score": name}, calibrated, test, [0.1, 0.3], max_sets=20, n_rays=64):
        sets = calibrated.predict_set(test.inputs, row["alpha"])
        assert row["coverage"] == sets.contains(test.labels).mean()
        assert row["coverage_true"] == sets.contains(test.truth).mean()
        assert row["efficiency"] == pytest.approx(sets.efficiency().mean(), abs=1e-12)
        assert row["volume"] == pytest.approx(np.asarray(sets.volume()).mean(), rel=1e-9)
        assert row["volume_error"] == 0.0
        assert row["total"] == pytest.approx(np.nanmean(sets.uncertainty("K").total))


def test_estimated_volumes_have_an_error() -> None:
    calibration, test = parts(60, 4)
    calibrated = conformalize(calibration.inputs, calibration.labels, "kl")
    (row,) = measure({}, calibrated, test, [0.2], max_sets=20, n_rays=128)
    sets = calibrated.predict_set(test.inputs, 0.2)
    assert 0.0 < row["volume_error"] < row["volume"]
    assert abs(row["volume"] - np.asarray(sets.volume()).mean()) < 4 * row["volume_error"]
    assert math.isnan(row["efficiency"])


def test_grid_shares_at_infinity() -> None:
    _, test = parts(10, 3)
    sets = score_named("tv", 0.0).region(test.inputs, 0.1)
    assert grid_shares(sets, [math.inf, -1.0]) == [1.0, 0.0]


# --- statistics ---


def result_rows(coverages: list[float], **changes: Any) -> list[Row]:
    key = {
        "experiment": "synthetic",
        "part": "p",
        "n_classes": 3,
        "n_votes": 5,
        "n_train": 10,
        "score": "tv",
    }
    numbers = dict.fromkeys(MEASURED, 0.5)
    sizes = {"alpha": 0.1, "n_calibration": 100, "n_test": 200}
    return [
        {**key, **sizes, **numbers, "seed": s, "coverage": c, **changes}
        for s, c in enumerate(coverages)
    ]


@pytest.mark.parametrize(("n_seeds", "alpha"), [(1, 0.1), (10, 0.1), (4, 0.3)])
def test_bands_hold_what_they_say(n_seeds: int, alpha: float) -> None:
    """Simulate split conformal prediction with plain numbers for scores."""
    rng = np.random.default_rng(0)
    rank = math.ceil(101 * (1 - alpha))
    scores = np.sort(rng.random((4000, n_seeds, 100)), axis=2)[..., rank - 1]
    observed = rng.binomial(200, scores).mean(axis=1) / 200
    low, high = summary.coverage_band(100, 200, alpha, n_seeds=n_seeds)
    inside = int(((observed >= low) & (observed <= high)).sum())
    assert stats.binomtest(inside, 4000, 0.95).proportion_ci(0.999).high > 0.95
    assert inside / 4000 < 0.975, "no wider than whole numbers of items make it"


def test_bands_of_infinite_thresholds() -> None:
    assert summary.coverage_band(9, 100, 0.05) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("coverage", "verdict", "truth"),
    [(0.90, "ok", "ok"), (0.80, "low", "short"), (0.99, "high", "ok")],
)
def test_verdicts(coverage: float, verdict: str, truth: str) -> None:
    rows = result_rows([coverage] * 10, coverage_true=coverage)
    (cell,) = summary.summarize(rows, independent=True)
    assert (cell["verdict"], cell["truth_verdict"], cell["n_seeds"]) == (verdict, truth, 10)
    assert ("Below: p, tv" in "\n".join(tables.verdict_lines([cell])[1])) == (verdict == "low")


def test_splits_of_one_data_set_get_the_wider_band() -> None:
    rows = result_rows([0.85] * 10)
    own, shared = (summary.summarize(rows, independent=flag)[0] for flag in (True, False))
    assert own["verdict"] == "low"
    assert shared["verdict"] == "ok"


def test_thresholds_that_do_not_shrink_are_named() -> None:
    def cells(*thresholds: float) -> list[Row]:
        votes = (1, 5, 100)
        rows = [
            r
            for m, t in zip(votes, thresholds, strict=True)
            for r in result_rows([0.9], n_votes=m, threshold=t)
        ]
        return summary.summarize(rows, independent=True)

    assert summary.shrinking(cells(0.9, 0.5, 0.5)) == (1, [])
    n_series, growing = summary.shrinking(cells(0.9, 0.4, 0.5))
    assert (n_series, growing[0]["thresholds"]) == (1, [0.9, 0.4, 0.5])
    assert "0.900, 0.400, 0.500" in "\n".join(tables.verdict_lines(cells(0.9, 0.4, 0.5))[1])


def test_tables() -> None:
    cells = summary.summarize(result_rows([0.9, 0.8]), independent=True)
    assert tables.to_csv(cells).splitlines()[0].startswith("experiment,part,n_classes")
    assert tables.plus_minus(cells[0], "coverage") == "0.850 ± 0.071"
    assert "| tv | 0.1 | 0.850 ± 0.071 |" in tables.full_table(cells)
    assert tables.lines(cells, 0.2) == []
    assert tables.lines(cells, 0.1)[0]["ok"] == "1/1"


@pytest.mark.slow
def test_theory_holds_in_every_cell(tmp_path: Path) -> None:
    """Three classes at full size, with fewer epochs: coverage in its band, truth covered,
    thresholds shrink.
    """
    settings = synthetic.settings() | {"classes": [3], "epochs": 30, "volume_sets": 5}
    batches = [one for one in synthetic.batches(settings, 10) if one.part == "first-order"]
    store = Store(tmp_path)
    runner.run_all(batches, store, None)
    cells = summary.summarize(store.rows(batches), independent=True)
    assert len(cells) == 4 * 8 * 3
    assert [tables.name_of(cell) for cell in cells if cell["verdict"] != "ok"] == []
    plain = [cell for cell in cells if "normalized" not in cell["score"]]
    # A mean over seeds that sits exactly at the nominal level falls below it half the time: hence
    # the band.
    short = [cell for cell in plain if cell["coverage_true"] < cell["band_low"]]
    assert [tables.name_of(cell) for cell in short] == []
    assert summary.shrinking(plain)[1] == []


@pytest.mark.slow
def test_one_cell_at_full_size(tmp_path: Path) -> None:
    """Three classes, a hundred votes, two seeds with the paper's sizes and epochs: coverage in its
    band, and sets of both learners as small as in the committed tables.
    """
    settings = synthetic.settings() | {"classes": [3], "votes": [100], "alphas": [0.1]}
    wanted = ("first-order", "second-order")
    batches = [one for one in synthetic.batches(settings, 2) if one.part in wanted]
    store = Store(tmp_path)
    runner.run_all(batches, store, None)
    cells = summary.summarize(store.rows(batches), independent=True)
    assert [tables.name_of(cell) for cell in cells if cell["verdict"] != "ok"] == []
    volumes = {cell["score"]: cell["volume"] for cell in cells}
    assert 0.01 < volumes["kl"] < 0.03
    assert 0.02 < volumes["so"] < 0.08
