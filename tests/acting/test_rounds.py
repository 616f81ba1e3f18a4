"""Reviews again and again: never called certified without a proof, and right where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import credalset as cs
from credalset.acting.audit import audit_threshold, draw_sample, sequence
from credalset.acting.record import Record
from credalset.acting.review import Review, review_table
from tests.acting.loops import Crowd, play, table_of, terms_of, true_error

ERROR = 0.3


def simulated(seed: int, n: int = 500, k: int = 3) -> tuple[Crowd, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(k, 0.5), n)
    crowd = Crowd(truth, 0.5 * truth + 0.5 * generator.dirichlet(np.ones(k), n), generator)
    return crowd, generator.multinomial(3, truth).astype(float)


def test_bought_votes_end_the_certificate() -> None:
    crowd, start = simulated(0)
    rounds = play(crowd, start, ERROR, 4, seed=0)
    assert rounds[0].certified.any()
    assert (rounds[0].step == "ask").any()
    for later in rounds[1:]:
        assert not later.certified.any()
        assert later.sentences[0].startswith("Not certified since round 1")
        assert (later.step == "accept").any()
    assert [about.since for about in rounds[-1].record.about] == [0, 1, 1, 1]
    assert rounds[-1].record.spent == pytest.approx(0.1)


def test_audits_certify() -> None:
    crowd, start = simulated(1, n=900)
    rounds = play(crowd, start, 0.35, 4, seed=1, audit=250)
    proofs = [about.proof for about in rounds[-1].record.about]
    assert proofs[:2] == ["votes", "none"]
    assert "audit" in proofs[2:]
    for each, proof in zip(rounds, proofs, strict=True):
        assert each.certified.any() == (proof != "none")
        if proof == "audit":
            assert each.sentences[0].startswith("Certified by audit")
            assert true_error(crowd, each) <= 0.35
            assert (each.step[each.certified] == "accept").all()


def test_nothing_changes_without_new_votes() -> None:
    crowd, start = simulated(2)
    first = play(crowd, start, ERROR, 1, seed=2)[0]
    still = Crowd(crowd.truth, crowd.prediction, crowd.generator)
    again = review_table(
        table_of(still, start, 2), terms_of(ERROR, 2), record=first.record, with_sets=False
    )
    assert again.step.tolist() == first.step.tolist()
    assert again.certified.tolist() == first.certified.tolist()
    held = [each.last.held_back.tolist() for each in (first.record, again.record) if each.last]
    assert held[0] == held[1]


def at(p: np.ndarray, votes: np.ndarray, record: Record | None = None) -> Review:
    """Review without the sets, which take most of the time."""
    crowd = Crowd(p, p, np.random.default_rng(0))
    return review_table(
        table_of(crowd, votes, 0), terms_of(ERROR, 0), record=record, with_sets=False
    )


def without(counts: np.ndarray, keep: float) -> np.ndarray:
    """Return votes without those that are not for the label of most, but for a share of items."""
    most = np.eye(counts.shape[1])[counts.argmax(axis=1)] * counts
    n_kept = int(keep * len(counts))
    return np.vstack([counts[:n_kept], most[n_kept:]])


def test_votes_that_are_gone_end_the_certificate_until_they_are_back(tmp_path: Path) -> None:
    data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=4, random_state=0)
    p, counts = data.distributions, data.counts.astype(float)
    first = at(p, counts)
    assert first.certified.any()
    few = without(counts, 0.5)
    n_lost = int((counts - few).sum())
    assert n_lost > 50
    record = first.record
    said = f"Not certified since round 2: {n_lost} votes that round 1 had are missing or changed."
    for number in (2, 3):
        # Reviewing once more does not make them forgotten, nor does writing the record.
        found = at(p, few, record)
        assert found.sentences[0].startswith(said.replace("2", str(number), 1).replace(
            "round 1", f"round {number - 1}"))  # fmt: skip
        assert not found.certified.any()
        assert not found.stored.decide(p, few).proved.any()
        for name, data in found.record.to_files().items():
            (tmp_path / name).write_bytes(data)
        record = Record.read(tmp_path)
    changed = np.roll(counts, 1, axis=1)
    assert not at(p, changed, first.record).certified.any()
    # Restored votes, and votes on items that nobody was asked about, leave the certificate.
    back = at(p, counts, record)
    assert back.certified.any()
    assert back.record.about[-1].proof == "votes"
    more = counts.copy()
    quiet = np.flatnonzero(first.step != "ask")
    more[quiet, 0] += 1
    assert at(p, more, first.record).record.about[-1].since == 0


def test_an_audit_certifies_though_votes_are_gone() -> None:
    data = cs.datasets.make_synthetic(900, n_classes=3, n_votes=4, random_state=0)
    p, counts = data.distributions, data.counts.astype(float)
    record = at(p, counts).record
    few = without(counts, 0.9)
    lost = at(p, few, record)
    rows = draw_sample(np.flatnonzero(lost.step == "accept"), 250, np.random.default_rng(1))
    audited = lost.record.with_audit(rows, 0.1)
    answers = few.copy()
    answers[rows, few[rows].argmax(axis=1)] += 1
    found = at(p, answers, audited)
    assert found.record.about[-1].proof == "audit"
    # But votes that go missing while it is out are noticed, and end its certificate later.
    again = answers.copy()
    again[rows] = 0
    for before in (audited, found.record):
        later = at(p, again, before)
        assert not later.certified.any()
        assert "missing or changed" in later.sentences[0]
    restored = at(p, answers, later.record)
    assert restored.sentences[0].startswith("Not certified since round 3")


def test_votes_left_out_in_turn_prove_nothing_after_an_audit() -> None:
    """The audit was needed because votes had been bought, and they still are."""
    data = cs.datasets.make_synthetic(900, n_classes=3, n_votes=4, random_state=0)
    p, counts = data.distributions, data.counts.astype(float)
    record = at(p, counts).record
    assert record.last is not None
    rows = draw_sample(np.flatnonzero(record.last.step == "accept"), 250, np.random.default_rng(1))
    answers = counts.copy()
    answers[rows, counts[rows].argmax(axis=1)] += 1
    found = at(p, answers, record.with_audit(rows, 0.1))
    assert found.record.about[-1].proof == "audit"
    assert not found.stored.decide(p, counts).proved.any()
    more = answers.copy()
    more[np.flatnonzero(found.step == "accept"), 0] += 1
    later = at(p, more, found.record)
    assert not later.certified.any()
    assert later.sentences[0].startswith("Not certified since round 2")


def test_the_audit_exceeds_its_error_as_rarely_as_it_says() -> None:
    """Audits of items of unequal errors, sampled without replacement."""
    generator = np.random.default_rng(0)
    exceeded = {True: 0, False: 0}
    n_runs = 1500
    for _ in range(n_runs):
        risk = np.sort(generator.uniform(0.0, 0.3, 400))
        wrong = np.clip(risk + generator.normal(0.0, 0.1, 400), 0.0, 1.0)
        error = float(wrong.mean()) * 0.999  # accepting all would be just too much
        for is_ordered in (True, False):
            probability = wrong if is_ordered else generator.permutation(wrong)
            rows = draw_sample(np.arange(400), 150, generator)
            votes = generator.random(150) < probability[rows]
            grid = sequence(risk, risk[rows], error)
            found = audit_threshold(grid, risk[rows], votes.astype(float), error, 0.1)
            inside = risk <= found
            if inside.any():
                exceeded[is_ordered] += probability[inside].mean() > error
    limit = binom.ppf(0.999, n_runs, 0.1)
    assert exceeded[True] <= limit
    assert exceeded[False] <= limit


def test_an_audit_that_sees_more_errors_certifies_less() -> None:
    risk = np.linspace(0.0, 0.2, 200)
    grid = np.array([0.05, 0.1, 0.2])
    wrong = np.zeros(200)
    assert audit_threshold(grid, risk, wrong, 0.1, 0.1) == 0.2
    wrong[150:] = 1.0
    assert audit_threshold(grid, risk, wrong, 0.1, 0.1) == 0.1
    assert audit_threshold(grid, risk, np.ones(200), 0.1, 0.1) == -np.inf


def test_an_audit_is_about_the_loss_and_the_error_it_was_drawn_for() -> None:
    """Costs that are all alike are proved as the share of errors is, in their own unit."""
    data = cs.datasets.make_synthetic(900, n_classes=3, n_votes=8, random_state=0)
    generator = np.random.default_rng(0)
    few = np.array([generator.multivariate_hypergeometric(row, 3) for row in data.counts])
    for costs, error in ((None, 0.3), (5.0 * (1 - np.eye(3)), 1.5)):
        first = cs.review(data.distributions, few, error=error, costs=costs)
        rows = draw_sample(np.flatnonzero(first.step == "accept"), 250, np.random.default_rng(1))
        record = first.record.with_audit(rows, 0.1)
        more = few.copy()
        left = data.counts - few
        for row in rows:
            more[row] += np.random.default_rng(row).multivariate_hypergeometric(left[row], 1)
        found = cs.review(data.distributions, more, error=error, costs=costs, previous=record)
        assert found.record.about[-1].proof == "audit"
        assert found.certified.sum() > 200
        assert f"{error:g}" in found.sentences[0]
        assert ("mean cost" in found.sentences[0]) == (costs is not None)
        assert [row["error"] for row in found.curve() if row["certified"]] == [error]
        with pytest.raises(ValueError, match="drawn for an error of"):
            cs.review(data.distributions, more, error=0.1, costs=costs, previous=record)


def test_rounds_share_the_probability_of_failing() -> None:
    data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=4, random_state=0)
    options = {"error": 0.4, "total_rounds": 2}
    first = cs.review(data.distributions, data.counts, **options)
    assert first.record.spent == pytest.approx(0.05)
    second = cs.review(data.distributions, data.counts, error=0.4, previous=first.record)
    assert second.record.spent == pytest.approx(0.1)
    with pytest.raises(ValueError, match="divided over 2 rounds, which are over"):
        cs.review(data.distributions, data.counts, error=0.4, previous=second.record)


def test_a_record_is_read_back_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=4, random_state=0)
    found = cs.review(data.distributions, data.counts, error=0.4)
    found.save(tmp_path / "out")
    again = Record.read(tmp_path / "out")
    assert again.to_files() == found.record.to_files()
    with pytest.raises(ValueError, match="holds a review already"):
        found.save(tmp_path / "out")
    with pytest.raises(ValueError, match="does not continue"):
        found.save(tmp_path / "out", overwrite=True)
    later = cs.review(data.distributions, data.counts, error=0.4, previous=tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    later.save(tmp_path / "out", overwrite=True)
    assert len(Record.read(tmp_path / "out")) == 2
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    (tmp_path / "out" / "record.json").write_text('{"version": 1}')
    with pytest.raises(cs.FileFormatError, match="cannot be read"):
        Record.read(tmp_path / "out")


@pytest.mark.slow
def test_four_rounds_on_simulated_crowds() -> None:
    """Certified labels exceed their error in at most δ of the runs, with and without audits."""
    n_runs = 60
    exceeded = {0: 0, 200: 0}
    for seed in range(n_runs):
        for audit in exceeded:
            crowd, start = simulated(100 + seed, n=400)
            rounds = play(crowd, start, ERROR, 4, seed=seed, audit=audit)
            for number, each in enumerate(rounds):
                if not audit and number:
                    assert not each.certified.any()
            worst = max(true_error(crowd, each) for each in rounds[-1:])
            exceeded[audit] += worst > ERROR
    assert exceeded[0] == 0
    assert exceeded[200] <= binom.ppf(0.99, n_runs, 0.1)


@pytest.mark.slow
def test_four_rounds_on_real_votes() -> None:
    folder = Path(os.environ.get("CREDALSET_DATA", "nowhere"))
    if not (folder / "chaosnli_snli_mnli_roberta.npz").exists():
        pytest.skip("CREDALSET_DATA does not hold the votes of ChaosNLI")
    with np.load(folder / "chaosnli_snli_mnli_roberta.npz", allow_pickle=False) as data:
        known = data["has_roberta"]
        logits = data["roberta_logits"][known].astype(np.float64).mean(axis=1)
    with np.load(folder / "chaosnli_snli_mnli.npz", allow_pickle=False) as data:
        counts = data["counts"][known].astype(np.float64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    truth = counts / counts.sum(axis=1, keepdims=True)
    exceeded = 0
    proved = 0
    n_runs = 10
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        rows = generator.choice(len(p), 1500, replace=False)
        crowd = Crowd(truth[rows], p[rows], generator)
        start = np.array([generator.multinomial(n, q) for n, q in zip(
            generator.integers(3, 6, 1500), truth[rows], strict=True)]).astype(float)  # fmt: skip
        silent = play(crowd, start, 0.25, 4, seed)
        assert not any(each.certified.any() for each in silent[1:])
        audited = play(crowd, start, 0.25, 4, seed, audit=300)
        proved += audited[-1].record.about[-1].proof == "audit"
        exceeded += true_error(crowd, audited[-1]) > 0.25
    assert exceeded <= 3  # of 10 at δ = .1: P(more) < .02
    assert proved > 0
