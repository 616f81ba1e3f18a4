"""What notebooks show: static tables that hold the numbers, with every text escaped."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

import credalset as cs
from credalset._html import Bar, html_table

HOSTILE = "<script>alert(1)</script>"


def test_cells_captions_and_names_are_escaped() -> None:
    made = html_table(HOSTILE, [HOSTILE], [[HOSTILE]], n_rows=1_001)
    assert "<script" not in made
    assert made.count("&lt;script&gt;") == 3
    assert "… and 1,000 more" in made


def test_bars_show_their_interval() -> None:
    made = html_table("", ["share"], [[Bar(0.25, 0.75, 0.5)]])
    assert 'x="22.5"' in made
    assert 'width="45.0"' in made
    assert 'cx="45.0"' in made
    assert "0.25–0.75" in made


def test_sets_show_the_ranges_of_the_first_items() -> None:
    data = cs.datasets.make_synthetic(60, n_classes=9, n_votes=20, random_state=0)
    frame = pd.DataFrame(
        data.distributions,
        index=[f"{HOSTILE}{i}" for i in range(60)],
        columns=[f"class {k}" for k in range(9)],
    )
    sets = cs.conformalize(frame, data.counts).predict_set(frame, 0.1)
    made = sets._repr_html_()
    assert "<script" not in made
    assert "6 of 9 classes shown" in made
    assert "… and 50 more" in made
    assert made.count("<tr>") == 11
    shown = np.sort(np.argsort(-sets[:10].center.mean(axis=0))[:6])
    assert re.findall(r"class \d", made) == [f"class {k}" for k in shown]
    assert f"{sets.lower()[0, shown[0]]:.2f}–{sets.upper()[0, shown[0]]:.2f}" in made


def test_empty_sets_and_empty_batches_have_tables() -> None:
    sets = cs.get_score("inner").region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.5)
    assert sets._repr_html_().count(">empty<") == 3
    assert "<tbody></tbody>" in sets[:0]._repr_html_()


def test_votes_and_agreement_show_their_numbers() -> None:
    rows = [(1, "ann", "a"), (1, "bob", "a"), (2, "ann", "b"), (2, "bob", HOSTILE)]
    votes = cs.Annotations.from_table(rows)
    for made in (votes._repr_html_(), votes.agreement(n_resamples=0)._repr_html_()):
        assert "<script" not in made
    assert '<td style="text-align:right">2</td>' in votes._repr_html_()
    assert "percent agreement" in votes.agreement(n_resamples=0)._repr_html_()
