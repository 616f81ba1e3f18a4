"""``credalset fit``: from features or texts and votes to a folder with a calibrated model."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from credalset import predictors
from credalset._display import join_names, progress
from credalset.classifier import ConformalCredalClassifier
from credalset.cli import shared
from credalset.io.store import write
from credalset.predictors.pipeline import table_pipeline

#: networks by their names on the command line, with their default scores
NETWORKS = {"paper": ("FirstOrderNetwork", "kl"), "intervals": ("IntervalNetwork", "intervals")}


def fit(
    features: Annotated[
        str, Argument(help="Features: an id, and columns of numbers, categories and texts.")
    ],
    votes: shared.VotesFile,
    out: Annotated[str, Option("--out", "-o", help="Folder for the model.")],
    learner: Annotated[
        str, Option(help=f"logistic, {', '.join(NETWORKS)} or a scikit-learn classifier.")
    ] = "logistic",
    score: Annotated[
        str | None, Option(help="Nonconformity score; the default depends on the learner.")
    ] = None,
    calibration_size: Annotated[
        float, Option(min=0.05, max=0.95, help="Share of the items kept for calibration.")
    ] = 0.25,
    hold_out: shared.HoldOut = 0.0,
    groups: shared.Groups = None,
    id: shared.Id = None,
    columns: Annotated[
        str | None,
        Option(
            help="Features, separated by commas; by default all but the id. What a column is can "
            "be said: says=text,size=number,shop=category."
        ),
    ] = None,
    random_state: shared.Seed = 0,
    strict: shared.Strict = False,
    overwrite: shared.Overwrite = False,
) -> None:
    """Train a model on votes, and calibrate it on items kept aside."""
    shared.check_output(out, overwrite, folder=True)
    estimator, suited = make_learner(learner, random_state)
    source = shared.TableSource(features, id, columns, {"groups": groups}, strict=strict)
    pair = shared.read_training(
        source, votes, features=True, hold_out=hold_out, random_state=random_state
    )
    pipeline = table_pipeline(pair.inputs.columns, pair.kinds, estimator)
    clf = ConformalCredalClassifier(pipeline, score or suited)
    order = np.random.default_rng(random_state).permutation(len(pair.items))
    aside, train = np.split(order, [round(calibration_size * len(order))])
    training = pair.take(train)
    calibrating = pair.take(aside)
    with progress(f"Training {learner} on {len(train)} items", None):
        clf.fit(training.inputs, training.votes)
    clf.conformalize(calibrating.inputs, calibrating.votes, **calibrating.extra)
    untrusted = write(clf, out)
    if untrusted:
        shared.note(
            f"{out} holds estimators of types that are not checked when they are read. The other "
            f"commands need\n--trusted {','.join(untrusted)}"
        )
    shared.say(f"{clf.calibration_!r}\nWrote {out}")
    again = shared.said_again(id=id, groups=groups)
    tested = [features, votes] if hold_out else ["held-out.csv", votes]
    shared.say_next(
        ("Test it on items kept aside", ["check", out, *tested, *again]),
        ("Sets for new items", ["predict", out, "new.csv", "-o", "sets.csv", *again]),
    )


def make_learner(name: str, random_state: int) -> tuple[Any, str]:
    """Return a learner by its name, and its default score."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils import all_estimators

    if name in NETWORKS:
        network, score = NETWORKS[name]
        return getattr(predictors, network)(random_state=random_state), score
    if name == "logistic":
        return predictors.SoftLabelClassifier(LogisticRegression(max_iter=1000)), "kl"
    known: dict[str, Any] = dict(all_estimators(type_filter="classifier"))  # takes seconds
    if name not in known:
        close = difflib.get_close_matches(name, known, 3)
        remedy = f" Close to it: {join_names(close)}." if close else ""
        raise ValueError(
            f"--learner must be logistic, {', '.join(NETWORKS)} or a scikit-learn class, "
            f"but is {name}.{remedy}"
        )
    options = {}
    if "random_state" in known[name]().get_params():
        options["random_state"] = random_state
    return predictors.SoftLabelClassifier(known[name](**options)), "kl"
