"""What is meant by names that a classifier does not have."""

from __future__ import annotations

#: attributes that a classifier does not have, and what is meant
ATTRIBUTES: dict[str, str] = {
    "alpha": "The level is chosen when sets are predicted: predict_set(X, alpha=0.1).",
    "calibration": "It is calibration_, after conformalize(X, Y).",
    "calibration_": "It is there after conformalize(X, Y) or cross_conformalize(X, Y).",
    "coverage": "Ask evaluate(X, Y).",
    "estimator_": "It is there after fit(X, Y); cross_conformalize leaves estimators_, one per fold.",
    "load": "Ask credalset.load(path).",
    "p_values": "Ask calibration_.p_values(predict_proba(X), Y).",
    "plan": "Ask credalset.plan(clf, X, votes, budget=...).",
    "plot": "Pictures are in credalset.plotting: ternary(clf.predict_set(X)) for three classes.",
    "queue": "Ask predict_set(X, alpha=0.1).queue().",
    "report": "Ask credalset.report(clf, X, votes).",
    "predict_interval": "Ask predict_set(X, alpha), then lower() and upper() of the sets.",
    "threshold": "Ask calibration_.threshold(alpha).",
}

#: parameters that its constructor does not have, and what is meant
PARAMETERS: dict[str, str] = {
    "score": "the score that is calibrated is called nonconformity='kl' here, as score(X, Y) is a method.",
    "alpha": "the level is chosen when sets are predicted, predict_set(X, alpha=0.1).",
    **dict.fromkeys(("cv", "folds"), "folds are made by clf.cross_conformalize(X, Y, folds=5)."),
    **dict.fromkeys(("base", "base_estimator", "classifier", "model"), "the model is called estimator."),
}
