"""What notebooks show: static tables that hold the numbers, with every text escaped."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

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


def test_a_queue_shows_the_first_items_of_each_step() -> None:
    data = cs.datasets.make_synthetic(60, n_classes=3, n_votes=20, random_state=0)
    queue = cs.conformalize(data.distributions, data.counts).predict_set(data.distributions).queue()
    made = queue._repr_html_()
    shown = sum(min(count, 3) for count in queue.counts().values())
    assert made.count("<tr>") == 1 + shown
    assert f"… and {60 - shown} more" in made
    assert "(not certified)" in made


def test_a_review_shows_steps_strip_and_page() -> None:
    data = cs.datasets.make_synthetic(400, n_classes=3, n_votes=4, random_state=0)
    names = [f"{HOSTILE}{i}" for i in range(400)]
    frame = pd.DataFrame(data.distributions, index=names)
    votes = pd.DataFrame(data.counts, index=names)
    found = cs.review(frame, votes, error=0.2)
    made = found._repr_html_()
    assert "<script" not in made
    for step, count in found.queue.counts().items():
        assert re.search(f">{step}</td><td[^>]*>{count}</td>", made)
    ends = re.findall(r"M[\d.]+ ([\d.]+)h[\d.]+V([\d.]+)", made)
    assert len(ends) == 280
    lower = 1 - np.array([float(bottom) for _, bottom in ends]) / 110
    assert (np.diff(lower) > -0.01).all()
    assert lower[-1] == pytest.approx(
        found.sets.lower()[np.arange(400), found.queue.label].max(), abs=0.01
    )
    page = found.show(height=300)
    assert 'sandbox="allow-scripts allow-downloads"' in page._repr_html_()
    assert page._repr_html_().count("<") == 2  # the frame; the page is an attribute, escaped
    with pytest.raises(ValueError, match="height"):
        found.show(height=0)
