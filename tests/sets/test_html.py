"""What a notebook shows: small, escaped, without scripts, and true."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import credalset as cs
from credalset.sets.html import CORNERS, _boundary
from credalset.sets.outline import area


def pictures(sets: cs.CredalSet) -> list[ElementTree.Element]:
    """The parsed pictures; parsing fails if anything was left open or unescaped."""
    text = sets._repr_html_().replace("<br>", "<br/>")
    return list(ElementTree.fromstring(text).iter("svg"))


@pytest.mark.parametrize("score", ["tv", "kl", "ws", "hellinger", "inner", "so"])
def test_the_triangle_has_the_area_of_the_set(score: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 8)
    found = cs.get_score(score)
    sets = found.region(1 + 9 * p if found.order == "second" else p, rng.uniform(0.2, 0.5, 8))
    for one, volume, empty in zip(sets, sets.volume(), sets.is_empty(), strict=True):
        if not empty:
            assert area([_boundary(one)]) == pytest.approx(volume, abs=0.01)


def test_the_whole_simplex_is_the_whole_triangle() -> None:
    whole = cs.get_score("tv").region([[0.2, 0.5, 0.3]], np.inf)
    assert area([_boundary(whole)]) == pytest.approx(1.0, abs=1e-3)


def test_bars_run_from_lower_to_upper() -> None:
    sets = cs.get_score("tv").region([[0.7, 0.2, 0.1, 0.0]], 0.1)
    (svg,) = pictures(sets)
    bars = [(float(r.get("x")), float(r.get("width"))) for r in svg.iter("rect") if r.get("fill") == "#00b08a"]  # type: ignore[arg-type]
    lower, upper = sets.envelope()
    expected = [(120 + 160 * a, 160 * (b - a)) for a, b in zip(lower[0], upper[0], strict=True)]
    assert np.array(bars) == pytest.approx(np.array(expected), abs=0.06)
    texts = [t.text for t in svg.iter("text")]
    assert texts[:4] == ["0", "0.60–0.80", "1", "0.10–0.30"]
    assert svg.get("aria-label", "").startswith("Lower and upper probabilities: 0 0.60 to 0.80; 1 0.10 to 0.30")


def test_names_are_escaped_and_there_is_no_script() -> None:
    hostile = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b")
    sets = cs.get_score("kl").region([[0.6, 0.3, 0.1]], 0.2)
    named = replace(sets, classes=hostile, items=np.array(["<b>bold</b> & 'quoted'"], dtype=object))
    text = named._repr_html_()
    assert "<script" not in text
    assert "<img" not in text
    assert "<b>" not in text
    assert not re.search(r"<[^>]*\son\w+=", text)
    assert len(pictures(named)) == 2


def test_a_few_sets_are_shown_and_the_rest_is_counted() -> None:
    sets = cs.get_score("tv").region(np.random.default_rng(0).dirichlet(np.ones(30), 500), 0.2)
    text = sets._repr_html_()
    assert len(pictures(sets)) == 4
    assert "… and 496 more" in text
    assert "22 more classes" in text
    assert len(text) < 16_000
    assert "more</p>" not in sets[:4]._repr_html_()


def test_empty_sets_unions_and_no_sets() -> None:
    half_spaces = cs.get_score("inner").region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.3)
    assert half_spaces._repr_html_().count("empty: no distribution") == 1
    assert len(pictures(half_spaces)) == 2
    assert pictures(half_spaces[:0]) == []
    spikes = [[[1 / 3, 60, 4, 4], [1 / 3, 4, 60, 4], [1 / 3, 4, 4, 60]]]
    triangle, _ = pictures(cs.get_score("density").region(spikes, -1.0))
    (dots,) = (path.get("d", "") for path in triangle.iter("path"))
    places = np.array([[float(x) for x in dot.split()] for dot in dots.replace("h0", "").split("M")[1:]])
    assert all((np.linalg.norm(places - corner, axis=1) < 30).any() for corner in CORNERS), "all three parts are shown"
