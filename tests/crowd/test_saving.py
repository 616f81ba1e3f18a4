from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from tests.crowd.simulated import make_crowd


@pytest.fixture(scope="module")
def data():
    p, counts, _ = make_crowd(300, 3, 30, np.random.default_rng(0))
    names = [f"t{i}" for i in range(300)]
    classes = ["a", "b", "c"]
    return pd.DataFrame(p, names, classes), pd.DataFrame(counts, names, classes)


@pytest.fixture(scope="module")
def crowd(data):
    return cs.DirichletCrowd().fit(data[0][:100], data[1][:100])


def test_a_crowd_is_the_same_after_loading(crowd, data, tmp_path):
    crowd.save(tmp_path / "crowd")
    loaded = cs.load(tmp_path / "crowd")
    assert (loaded.items_, loaded.classes_) == (crowd.items_, crowd.classes_)
    assert loaded.get_params() == crowd.get_params()
    np.testing.assert_array_equal(loaded.predict(*data), crowd.predict(*data))


@pytest.mark.parametrize("method", ["panel", "imputed"])
def test_calibrations_are_the_same_after_loading(crowd, data, method, tmp_path):
    p, votes = data[0][100:], data[1][100:]
    calibration = crowd.conformalize(p, votes, in_hand=(0, 3), method=method)
    calibration.save(tmp_path / "saved")
    loaded = cs.load(tmp_path / "saved")
    assert repr(loaded) == repr(calibration)
    three = pd.DataFrame(np.tile([2, 1, 0], (len(p), 1)), p.index, p.columns)
    before, after = (each.predict_set(p, votes=three, alpha=0.2) for each in (calibration, loaded))
    np.testing.assert_array_equal(before.threshold, after.threshold)
    np.testing.assert_array_equal(before.upper(), after.upper())
    assert list(after.items) == list(p.index)


def test_policies_are_the_same_after_loading(crowd, data, tmp_path):
    policy = cs.VotingPolicy(crowd, lead=1.5, max_votes=7)
    policy.conformalize(data[0][100:], data[1][100:]).save(tmp_path / "saved")
    loaded = cs.load(tmp_path / "saved")
    assert (loaded.policy.lead, loaded.policy.max_votes) == (1.5, 7)
    np.testing.assert_array_equal(loaded.policy.ask(data[0]), policy.ask(data[0]))
    policy.save(tmp_path / "policy")
    assert cs.load(tmp_path / "policy").lead == 1.5
    own = cs.VotingPolicy(crowd, rule=lambda p, votes: votes.sum(axis=1) < 2, max_votes=5)
    for made in (own, own.conformalize(data[0][100:], data[1][100:])):
        with pytest.raises(TypeError, match="rule of your own cannot be saved"):
            made.save(tmp_path / "ruled")
    assert not (tmp_path / "ruled").exists()


def test_a_forged_crowd_is_refused(crowd, tmp_path):
    from credalset.io.folders import manifest_digest

    crowd.save(tmp_path / "crowd")
    path = tmp_path / "crowd" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["object"]["fields"]["classes"] = ["a", "b"]
    manifest["sha256"] = manifest_digest(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(cs.FileFormatError, match="classes"):
        cs.load(tmp_path / "crowd")
