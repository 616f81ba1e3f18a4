"""``credalset fit``: features and votes in files to a calibrated model folder."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from credalset._progress import progress
from credalset.commands import shared
from credalset.commands.inputs import Features, Pair, Votes
from credalset.commands.shared import ShowPython

#: learners by a name of their own, with the score that suits them
NETWORKS = {
    "paper": ("FirstOrderNetwork", "kl"),
    "mixture": ("DirichletMixtureNetwork", "density"),
    "intervals": ("IntervalNetwork", "intervals"),
}


@shared.guarded
def fit(
    features: Annotated[
        str, typer.Argument(help="Features: an id column and numeric columns, or one column of lists or texts.")
    ],
    votes: Votes,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the model.")],
    table: Features,
    learner: Annotated[
        str, typer.Option(help=f"logistic, {', '.join(NETWORKS)}, or the name of a scikit-learn classifier.")
    ] = "logistic",
    score: Annotated[str | None, typer.Option(help="Nonconformity score; by default one that suits it.")] = None,
    calibration_size: Annotated[float, typer.Option(help="Share of the items kept for calibration.")] = 0.25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the learner.")] = 0,
    show_python: ShowPython = False,
) -> None:
    """Train a model on votes, and calibrate it on items kept aside."""
    from credalset._splits import part_size, take
    from credalset.classifier import ConformalCredalClassifier  # with scikit-learn, for which others need not wait

    pair = Pair(features, table, votes)
    estimator, suited = make_learner(learner, seed)
    if show_python:
        size = f"calibration_size={calibration_size}, random_state={seed}"
        shared.show_python(
            "from credalset.commands.fit import for_texts, make_learner",
            *pair.python(),
            f"estimator, score = make_learner({learner!r}, {seed})",
            "estimator = for_texts(estimator) if both.table.values.ndim == 1 else estimator",
            f"clf = cs.ConformalCredalClassifier(estimator, {'score' if score is None else repr(score)})",
            f"# split the items ({size}), then clf.fit(X, Y).conformalize(X, Y).save({out!r})",
        )
        return
    shared.check_output(out, folder=True)
    asked, matched, carried = pair.read()
    if matched.table.values.ndim == 1:
        shared.note(f"{(matched.table.names or ('',))[0]!r} holds texts: the learner gets their TF-IDF weights.")
        estimator = for_texts(estimator)
    votes.note_order(score or suited, matched.votes.classes)
    clf = ConformalCredalClassifier(estimator, score or suited)
    with progress(f"Training {learner} on {len(matched.table)} items", None):
        n = len(matched.votes)
        order = np.random.default_rng(seed).permutation(n)
        calib, train = np.split(order, [part_size(calibration_size, n, "calibration_size")])
        own = {name: take(value, calib) for name, value in carried.items()}
        clf.fit(take(asked, train), matched.votes[train])
        clf.conformalize(take(asked, calib), matched.votes[calib], **own)
    clf.save(out)
    shared.stderr().print(f"{clf.calibration_!r}\nWrote {out}")


def make_learner(name: str, seed: int) -> tuple[Any, str]:
    """Return a learner by its name, and the score that suits it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import all_estimators

    from credalset import predictors

    if name in NETWORKS:
        network, score = NETWORKS[name]
        return make_pipeline(StandardScaler(), getattr(predictors, network)(random_state=seed)), score
    known: dict[str, Any] = {"logistic": LogisticRegression}
    if name not in known:
        known = dict(all_estimators(type_filter="classifier"))  # takes seconds
    if name not in known:
        close = [known_name for known_name in known if known_name.lower().startswith(name.lower()[:5])]
        raise ValueError(
            f"--learner {name!r} is not known. Use logistic, {', '.join(NETWORKS)} or a scikit-learn classifier"
            f"{' such as ' + ', '.join(close[:3]) if close else ''}."
        )
    options = {"random_state": seed} if "random_state" in known[name]().get_params() else {}
    return make_pipeline(StandardScaler(), predictors.SoftLabelClassifier(known[name](**options))), "kl"


def for_texts(estimator: Any) -> Any:
    """Let a learner of `make_learner` read texts: TF-IDF weights of their words in place of scaled numbers."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(), *(step for _, step in estimator.steps[1:]))
