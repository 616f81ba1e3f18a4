"""Review: each item has one step, what is certified is so, and bad input gets a sentence."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.acting.folder import load_rule
from credalset.acting.review import Review
from credalset.acting.sentences import votes_depend
from credalset.acting.steps import STEPS

N = 900


def crowd_of(n: int = N, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Distributions of a crowd, and predictions that know something about them."""
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(k, 0.3), n)
    return truth, 0.6 * truth + 0.4 * generator.dirichlet(np.ones(k), n)


def table(n: int = N, k: int = 3, seed: int = 0, low: int = 2, high: int = 6) -> tuple[Any, Any]:
    truth, p = crowd_of(n, k, seed)
    generator = np.random.default_rng([seed, 1])
    counts = generator.multinomial(generator.integers(low, high, n), truth)
    items = [f"t{i}" for i in range(n)]
    classes = [f"c{j}" for j in range(k)]
    return pd.DataFrame(p, items, classes), pd.DataFrame(counts, items, classes)


@lru_cache
def example() -> Review:
    return cs.review(*table(), error=0.25)


def test_every_item_has_one_step_and_frame_and_queue_agree() -> None:
    found = example()
    frame = found.to_frame()
    assert sum(found.queue.counts().values()) == len(found) == len(frame) == N
    assert list(frame.columns[:7]) == [
        "item", "step", "label", "risk", "votes", "further_votes", "why"
    ]  # fmt: skip
    by_item = frame.set_index("item").loc[list(found.queue.items)]
    assert by_item.step.tolist() == found.step.tolist()
    assert by_item.why.tolist() == found.queue.why.tolist()
    assert by_item.certified.tolist() == found.certified.tolist()
    assert frame.step.map(STEPS.index).is_monotonic_increasing
    assert set(frame.step) >= {"accept", "ask"}


def test_accepted_labels_are_as_right_as_certified() -> None:
    found = example()
    truth, _ = crowd_of()
    error = 1.0 - truth[np.arange(N), found.queue.label]
    accepted = found.step == "accept"
    assert accepted.sum() > 300
    assert error[accepted].mean() <= 0.25
    assert found.certified.tolist() == accepted.tolist()
    assert "Certified: with probability at least 0.9" in found.sentences[0]
    assert any("independent" in each and "one pool" in each for each in found.sentences)


@pytest.mark.slow
def test_the_error_is_exceeded_as_rarely_as_certified() -> None:
    """Over redrawn tables; many more repetitions are in the tests of the certificate itself."""
    exceeded = 0
    for seed in range(30):
        truth, p = crowd_of(400, seed=seed)
        counts = np.random.default_rng([seed, 9]).multinomial(3, truth)
        found = cs.review(p, counts, error=0.3, random_state=seed)
        accepted = found.certified
        if accepted.any():
            error = 1.0 - truth[np.arange(400), found.queue.label]
            exceeded += error[accepted].mean() > 0.3
    assert exceeded <= 6  # of 30 at δ = .1: P(more) < .03


def test_one_vote_is_held_back_from_the_decision() -> None:
    p, votes = table()
    found = example()
    last = found.record.last
    assert last is not None
    assert (votes.to_numpy()[np.arange(N), last.held_back] > 0).all()
    changed = votes.to_numpy().copy()
    rows = np.arange(0, N, 7)
    changed[rows, last.held_back[rows]] -= 1
    hand = changed[rows]
    crowd = found.rule.crowd
    outside = set(found.rule.items or ())
    kept = [i for i, row in enumerate(rows) if f"t{row}" in outside]
    risk = found.rule.predict(p.iloc[rows[kept]], pd.DataFrame(
        hand[kept], p.index[rows[kept]], p.columns
    )).risk  # fmt: skip
    np.testing.assert_allclose(risk, found.queue.risk[rows[kept]], atol=1e-12)
    assert crowd is not None


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    p, votes = table(400)
    first, second = (tmp_path / name / "out" for name in "ab")  # the page names the folder
    for folder in (first, second):
        folder.parent.mkdir()
        cs.review(p, votes, error=0.3).save(folder)
    names = sorted(path.relative_to(first) for path in first.rglob("*.*"))
    assert len(names) >= 6
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_an_interrupted_review_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from credalset.acting import folder

    p, votes = table(300)
    found = cs.review(p, votes, error=0.3)
    monkeypatch.setattr(folder, "write_queue", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        found.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_stored_rule_decides_about_new_items(tmp_path: Path) -> None:
    found = example()
    found.save(tmp_path / "out")
    rule = load_rule(tmp_path / "out")
    p, votes = table(200, seed=5, low=1, high=4)
    queue = rule.decide(p, votes)
    again = [rule.decide(p.iloc[[i]], votes.iloc[[i]]).step[0] for i in range(30)]
    assert again == queue.step[:30].tolist()
    assert queue.certified.startswith("With probability at least 0.9")
    accepted = found.rule.predict(p, votes).accepted
    assert (queue.step[accepted] == "accept").all()


def test_groups_clusters_costs_and_several_errors() -> None:
    p, votes = table()
    group = pd.Series(np.arange(N) % 2, p.index).map({0: "mail", 1: "chat"})
    found = cs.review(p, votes, error=(0.3, 0.2), groups=group)
    assert found.errors == (0.3, 0.2)
    assert found.accepted[0.3] >= found.accepted[0.2]
    assert found.rule.groups is not None
    assert "in each group" in found.sentences[0]
    clustered = cs.review(p, votes, error=0.3, clusters=pd.Series(np.arange(N) // 2, p.index))
    assert any("clusters of items are independent" in each for each in clustered.sentences)
    costs = pd.DataFrame(1.0 - np.eye(3), p.columns, p.columns) * 5
    priced = cs.review(p, votes, error=1.25, costs=costs)
    assert priced.errors == (1.25,)
    assert (priced.certified == example().certified).mean() > 0.97


def test_a_label_that_is_not_that_of_most_votes_is_explained() -> None:
    found = example()
    rows = np.arange(N)
    fewer = found.counts[rows, found.queue.label] < found.counts.max(axis=1)
    assert fewer.any()
    last = found.record.last
    assert last is not None
    for row in rows:
        sentence = f"without a vote for c{last.held_back[row]}, held back as the proof."
        assert (sentence in found.queue.why[row]) == fewer[row]


def test_a_class_bias_of_the_model_is_removed_before_anything_is_decided() -> None:
    """The rule for new items decides as the review did, with the bias that it has found."""
    p, votes = table()
    biased = p * [1.0, 6.0, 0.3]
    found = cs.review(biased.div(biased.sum(axis=1), axis=0), votes, error=0.25)
    crowd = found.rule.crowd
    assert isinstance(crowd, cs.DirichletCrowd)
    assert crowd.bias_ is not None
    held = pd.get_dummies(found.record.last.held_back).to_numpy(float)  # type: ignore[union-attr]
    rows = p.index.get_indexer(list(found.rule.items or ()))
    hand = pd.DataFrame(votes.to_numpy() - held, p.index, p.columns).iloc[rows]
    again = found.rule.predict(biased.div(biased.sum(axis=1), axis=0).iloc[rows], hand)
    np.testing.assert_allclose(again.risk, found.queue.risk[rows], atol=1e-12)
    assert found.certified.mean() > 0.8 * example().certified.mean()


def test_people_are_claimed_to_be_divided_only_where_two_votes_can_be_held_back() -> None:
    generator = np.random.default_rng(2)
    truth = generator.dirichlet(np.full(3, 2.0), 900)
    counts = generator.multinomial(generator.integers(1, 5, 900), truth)
    found = cs.review(np.full((900, 3), 1 / 3), counts, error=0.1)
    claim = next(each for each in found.sentences if "two annotators disagree" in each)
    divided = found.step == "divided"
    assert divided.sum() > 100
    assert (counts[divided].sum(axis=1) >= 2).all()
    assert 1.0 - (truth[divided] ** 2).sum(axis=1).mean() >= 0.4
    assert f"{divided.sum()} items that are claimed" in claim


def test_all_votes_are_never_called_certified() -> None:
    found = cs.review(*table(), error=0.25, decide_from="all")
    assert not found.certified.any()
    assert found.sentences[0].startswith("Not certified")
    assert (found.step == "accept").any()
    assert found.queue.risk[found.step == "accept"].mean() <= 0.25


def test_without_a_model(tmp_path: Path) -> None:
    _, votes = table()
    found = cs.review(None, votes, error=0.3)
    assert sum(found.queue.counts().values()) == N
    data = cs.datasets.make_messages(600, n_votes=5, random_state=0)
    learned = cs.review(
        None,
        cs.Annotations.from_counts(data.counts, classes=data.classes),
        texts=data.texts,
        error=0.25,
    )
    truth = data.distributions[np.arange(600), learned.queue.label]
    accepted = learned.step == "accept"
    assert accepted.sum() > 50
    assert 1.0 - truth[accepted].mean() <= 0.25
    learned.save(tmp_path / "out")
    again = cs.load(tmp_path / "out" / "model")
    assert again.predict_proba(pd.DataFrame({"text": data.texts[:5]})).shape == (5, 3)


# --- bad input ---


def test_items_without_votes_are_asked_first() -> None:
    p, votes = table(300)
    votes.iloc[::10] = 0
    found = cs.review(p, votes, error=0.3)
    assert (found.step[::10] == "ask").all()
    assert set(found.queue.order("ask")[:30]) == set(range(0, 300, 10))
    assert found.queue.why[0].startswith("No vote yet")
    left_out = cs.review(p, votes[votes.sum(axis=1) > 0], error=0.3)
    assert left_out.step.tolist() == found.step.tolist()


def test_one_vote_each() -> None:
    truth, p = crowd_of(600)
    found = cs.review(p, np.random.default_rng(0).multinomial(1, truth), error=0.3)
    accepted = found.certified
    assert accepted.any()
    assert 1.0 - truth[accepted, found.queue.label[accepted]].mean() <= 0.3


def test_all_votes_equal() -> None:
    _, p = crowd_of(300)
    found = cs.review(p, np.tile([4, 0, 0], (300, 1)), error=0.1)
    assert (found.step == "accept").mean() > 0.9
    assert set(found.queue.label[found.certified]) == {0}


@pytest.mark.parametrize("k", [2, 60])
def test_few_and_many_classes(k: int) -> None:
    p, votes = table(300, k=k)
    found = cs.review(p, votes, error=0.4)
    assert sum(found.queue.counts().values()) == 300


def test_too_few_items_for_an_error() -> None:
    p, votes = table(300)
    found = cs.review(p, votes, error=0.02)
    assert not found.certified.any()
    said = " ".join(found.sentences)
    assert "othing can be certified at an error of 0.02" in said
    assert "a forecast" in said
    assert not (found.step == "accept").any()


def test_numbers_of_votes_that_depend_on_disagreement_are_seen() -> None:
    truth, p = crowd_of(600)
    generator = np.random.default_rng(3)
    counts = generator.multinomial(2, truth)
    split = counts.max(axis=1) == 1
    counts[split] += generator.multinomial(1, truth)[split]
    assert "votes were added" in votes_depend(counts.astype(float))
    assert votes_depend(table()[1].to_numpy().astype(float)) == ""
    assert any("votes were added" in each for each in cs.review(p, counts, error=0.3).sentences)


def test_messages() -> None:
    p, votes = table(100)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"error": 1.5}, "error must lie strictly between 0 and 1"),
        ({"error": 0}, "error must lie strictly between 0 and 1"),
        ({"votes": None}, "votes are missing"),
        ({"votes": votes * 0}, "votes has no votes"),
        ({"votes": votes.rename(columns={"c0": "x"})}, "different classes"),
        ({"votes": votes.rename(index=lambda name: f"other {name}")}, "no item in common"),
        ({"votes": pd.concat([votes, votes])}, "twice"),
        ({"decide_from": "some"}, "decide_from must be"),
        ({"predictions": p[:20], "votes": votes[:20]}, "items with votes to learn from"),
    ]
    for change, message in cases:
        with pytest.raises((ValueError, TypeError), match=message):
            cs.review(**({"predictions": p, "votes": votes} | change))


def test_votes_on_other_items_are_counted() -> None:
    p, votes = table(300)
    with pytest.warns(cs.CredalSetWarning, match="50 items with votes have no prediction"):
        cs.review(p[:250], votes, error=0.3)
