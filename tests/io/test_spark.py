"""The recipe of docs/large-data.md runs under Spark as it is written there."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="Spark is not installed: pip install pyspark")
if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
    pytest.skip("there is no Java virtual machine for Spark", allow_module_level=True)

from pyarrow import parquet  # noqa: E402

import credalset as cs  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "large-data.md"


@pytest.mark.filterwarnings("ignore")
def test_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    data = cs.datasets.make_synthetic(1000, n_votes=20, random_state=0)
    cs.conformalize(data.distributions[:200], data.counts[:200], classes="abc").save("calibration")
    (tmp_path / "predictions").mkdir()
    columns = {
        "task": [f"t{i}" for i in range(1000)],
        **{name: data.distributions[:, k] for k, name in enumerate("abc")},
    }
    parquet.write_table(pa.table(columns), "predictions/0.parquet", row_group_size=300)
    recipe = next(
        code
        for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if "mapInArrow" in code
    )
    names: dict[str, object] = {}
    exec(recipe.replace("SparkSession.builder.", 'SparkSession.builder.master("local[2]").'), names)
    names["spark"].stop()  # type: ignore[attr-defined]
    found = parquet.read_table("sets").sort_by("task").to_pydict()
    rows = np.argsort(columns["task"])
    assert found["task"] == sorted(columns["task"]), "every row once"
    sets = cs.load("calibration").predict_set(data.distributions[rows], alpha=0.1)
    assert np.array_equal(found["lower_b"], sets.lower()[:, 1])
    assert [len(labels) for labels in found["labels"]] == sets.decide().sum(axis=1).tolist()
