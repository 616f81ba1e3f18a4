"""Put an example page on the site: written anew at every build, so it is what the code writes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from credalset.calibration import conformalize
from credalset.datasets import make_messages
from credalset.evaluation import evaluate
from credalset.exceptions import CredalSetWarning
from credalset.reporting import Report, report

NAME = "example-report.html"
N_CALIBRATION = 600
BLUR = {"mail": 0.22, "chat": 0.44}  # how far the invented model is off, in logits


def example_report(
    path: str | Path | None = "report.html", n_items: int = 400, random_state: int = 0
) -> Report:
    """Write a page about invented messages.

    Three classes, a hundred votes, two channels, a model that errs in one.
    """
    rng = np.random.default_rng(random_state)
    data = make_messages(N_CALIBRATION + n_items, n_votes=100, random_state=rng)
    blur = np.array([BLUR[channel] for channel in data.channels])[:, None] * rng.gamma(
        2.0, 0.5, (len(data), 1)
    )
    prediction = softmax(
        np.log(0.9 * data.distributions + 0.1 / 3) + blur * rng.normal(size=(len(data), 3)), axis=1
    )
    first = slice(N_CALIBRATION)
    last = slice(N_CALIBRATION, None)
    calibrations = [
        conformalize(prediction[first], data.counts[first], score, classes=data.classes)
        for score in ("kl", "tv", "inner")
    ]
    return report(
        calibrations[0],
        prediction[last],
        data.counts[last],
        path,
        compare=evaluate(calibrations[1:], prediction[last], data.counts[last]),
        items=data.items[last],
        texts=data.texts[last],
        groups=data.channels[last].tolist(),
        title="Praise, question or complaint: predicted disagreement",
        _command="a synthetic model of synthetic messages",
    )


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the page to what is copied to the site."""
    from mkdocs.structure.files import File

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", CredalSetWarning
        )  # some sets of the compared scores are empty
        page = example_report(None, n_items=150).html
    files.append(File.generated(config, NAME, content=page))
    return files
