"""What people call things, and what is meant: the tables behind `_guessing`."""

from __future__ import annotations

from typing import Any

#: arguments, and other names by which they are taken
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "Y": ("y", "labels", "votes", "annotations"),
    "alpha": ("miscoverage", "error_rate", "significance", "significance_level"),
    "ask": ("columns", "questions"),
    "budget": ("n", "n_votes"),
    "calibration_size": ("conformalize_size",),
    "classes": ("categories", "class_names"),
    "conformalize_size": ("cal_size", "calib_size", "calibration_size"),
    "delimiter": ("sep", "separator"),
    "distribution": ("distributions", "labels", "votes", "Y", "y"),
    "folds": ("cv", "k", "n_folds", "n_splits"),
    "groups": ("group",),
    "items": ("ids", "item_names"),
    "label": ("category", "rating", "vote"),
    "level": ("confidence", "confidence_level"),
    "n": ("n_members", "n_samples", "size"),
    "n_rays": ("n_samples",),
    "n_resamples": ("n_boot", "n_bootstrap"),
    "names": ("mapper", "mapping"),
    "noise": ("noise_model",),
    "path": ("file", "file_name", "filename", "filepath", "out", "outfile", "output"),
    "random_state": ("random_seed", "rng", "seed"),
    "score": ("nonconformity",),
    "scores": ("nonconformities", "score"),
    "sep": ("delimiter", "separator"),
    "task": ("id", "item", "item_id"),
    "texts": ("text",),
    "utility": ("utilities",),
    "worker": ("annotator", "annotators", "columns", "rater", "raters", "user"),
}

_LABELLED: dict[str, tuple[str, ...]] = {
    "labels": ("Y", "annotations", "votes", "y"),
    "prediction": ("pred", "predictions", "y_pred"),
    "predictions": ("pred", "prediction", "y_pred"),
    "votes": ("Y", "annotations", "labels", "y"),
}

#: the same for single functions, as pictures call other things labels and predictions
ARGUMENTS_OF: dict[str, dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("conformalize", "cross_conformalize", "p_values", "predict_set", "thresholds"), _LABELLED),
    **dict.fromkeys(
        ("evaluate", "plan", "report"),
        _LABELLED | {"prediction": ("X", "pred", "predictions"), "predictions": ("X", "pred", "prediction")},
    ),
    "fit_conformalize": {"calibration_size": ("test_size",)},
}

#: arguments that change nothing where they say what is so anyway
SO_ANYWAY: dict[str, dict[str, tuple[Any, ...]]] = {
    "to_csv": {"index": (False, None), "header": (True,)},
    "to_parquet": {"index": (False, None)},
    "from_wide": {"missing": ("drop",)},
}

_COVERAGE = "alpha is the miscoverage rate, 1 − coverage: write alpha=0.1 for a coverage of 0.9."
_SCALE = "Levels of a scale: ordered=True, with classes=[...] in their order."
_LOSSES = "Losses are utilities with the other sign: utility=-costs, an array of actions by classes."

#: what is meant by an argument, beside one that the function has
BESIDE: dict[str, dict[str, str]] = {
    "alpha": dict.fromkeys(
        ("confidence", "confidence_level", "coverage", "level", "nominal", "target", "target_coverage"), _COVERAGE
    ),
    "ordered": dict.fromkeys(("is_ordered", "order", "ordinal", "scale"), _SCALE),
    "utility": dict.fromkeys(("cost", "costs", "loss", "losses"), _LOSSES),
    "weights": {"sample_weight": "Only covariate shift has weights here, the likelihood ratios weights=..."},
}

_ORDINAL = (
    "Read the votes with ordered=True, and classes=[...] in their order: agreement() then has alpha_ordinal, "
    "alpha_interval and ac2, too."
)
_CLASSIFIER = {
    "noise": "It belongs in the constructor: ConformalCredalClassifier(estimator, noise=...).",
    "noise_model": "It belongs in the constructor: ConformalCredalClassifier(estimator, noise=...).",
    "score": "It belongs in the constructor: ConformalCredalClassifier(estimator, nonconformity='kl').",
    "nonconformity": "It belongs in the constructor: ConformalCredalClassifier(estimator, nonconformity='kl').",
    "alpha": "The level is chosen when sets are predicted: predict_set(X, alpha=0.1).",
}
_IN_FOLDS = dict.fromkeys(("cv", "folds"), "Folds are made by clf.cross_conformalize(X, Y, folds=5).")
_NO_FRAME_OPTION = "The other options of pandas are those of to_frame().to_csv(path, ...)."

#: what is meant by an argument of a function, by the function's name
TOLD: dict[str, dict[str, str]] = {
    "agreement": {
        **dict.fromkeys(("kind", "metric", "ordered", "ordinal", "scale", "weights"), _ORDINAL),
        **dict.fromkeys(("measure", "method"), "All measures come at once: agreement().alpha, .kappa, .ac1, .percent."),
    },
    "fit": _CLASSIFIER | _IN_FOLDS,
    "conformalize": _CLASSIFIER | _IN_FOLDS,
    "fit_conformalize": _CLASSIFIER | _IN_FOLDS,
    "cross_conformalize": _CLASSIFIER,
    "evaluate": dict.fromkeys(
        ("compare", "nonconformity", "score", "scores"),
        "Scores are compared by clf.compare(X, Y, scores=[...]), or as a list of calibrations: "
        "credalset.evaluate([a, b], prediction, labels).",
    ),
    "load": {"allow_pickle": "Nothing that credalset saves is a pickle, and it opens none."},
    "plan": dict.fromkeys(
        ("budget", "n_items"), "What may be spent goes by name: budget=500, in votes unless cost says."
    ),
    "queue": {
        "alpha": "Sets have their level already: predict_set(X, alpha=0.1).queue().",
        "votes": "Votes cut the sets first, sets.update(votes).queue(); credalset.plan and credalset.report take them.",
        "budget": "What to spend votes on is told by credalset.plan(clf, X, votes, budget=...).",
        **dict.fromkeys(
            ("ambiguous", "decision", "unknown"), "It belongs to the rules: queue(QueueRules(unknown=0.4))."
        ),
    },
    "report": dict.fromkeys(
        ("by", "group_by", "groupby"),
        "Coverage by group is groups=[...], a key per item; by features, slices={name: values}.",
    ),
    "to_csv": {
        **dict.fromkeys(("columns", "float_format", "header", "index", "na_rep"), _NO_FRAME_OPTION),
        **dict.fromkeys(
            ("extra", "keep", "text", "texts"),
            "Columns of your own go into a frame: frame = sets.to_frame(), frame['text'] = texts, by its index.",
        ),
    },
    "train_conformalize_test_split": {"stratify": "Items are split at random, which the guarantee rests on."},
}

#: attributes, and other names under which they are looked for
CALLED: dict[str, tuple[str, ...]] = {
    "to_frame": ("as_frame", "dataframe", "df", "frame", "to_dataframe", "to_df", "to_pandas", "to_polars"),
    "prediction": ("pred", "predictions", "probabilities"),
    "predict_set": ("predict_credal_set", "predict_credal_sets", "predict_sets"),
    "save": ("dump", "store", "to_pickle", "write"),
    "select": ("iloc", "loc", "reindex"),
    "items": ("ids", "index", "names"),
}

#: what data frames have, and whatever makes one need not
IN_FRAMES = (
    *("describe", "drop", "groupby", "head", "iloc", "join", "loc", "merge", "plot", "query", "sort_values", "tail"),
    *("to_csv", "to_excel", "to_html", "to_json", "to_latex", "to_markdown", "to_parquet", "value_counts"),
)

#: names that the package does not have
IN_PACKAGE: dict[str, str] = {
    "Votes": "Votes are Annotations.",
    "agreement": "Ask votes.agreement(), with votes = Annotations.from_table(...).",
    "compare": "Ask clf.compare(X, Y, scores=[...]), or credalset.evaluate([a, b], prediction, labels).",
    "fit": "Make a classifier first: ConformalCredalClassifier(estimator).fit(X, Y).",
    "plot": "Pictures are in credalset.plotting: ternary(sets) for three classes, envelopes(sets) for more.",
    "predict": "Ask clf.predict_set(X, alpha=0.1), or conformalize(prediction, labels).predict_set(prediction).",
    "predict_set": "Ask clf.predict_set(X, alpha=0.1), or conformalize(prediction, labels).predict_set(prediction).",
    "queue": "Ask sets.queue(), with sets = clf.predict_set(X, alpha=0.1).",
    "read_csv": "Files of votes are read by Annotations.read(path).",
    "save": "Objects save themselves: clf.save(path), sets.save(path).",
    "split": "Ask train_conformalize_test_split(X, Y).",
    "train_test_split": "Ask train_conformalize_test_split(X, Y).",
}
IN_SCORES = dict.fromkeys(
    ("available", "get", "list", "list_scores", "names", "registry"),
    "All scores by name are in credalset.scores.REGISTRY; get_score(name) makes one.",
)
IN_PLOTTING = {
    **dict.fromkeys(
        ("coverage", "coverage_curve"), "violins(rows) draws that of repetitions, credalset.report(...) one."
    ),
    **dict.fromkeys(
        ("credal_sets", "plot", "sets", "simplex"), "Draw ternary(sets), or envelopes(sets) beyond 3 classes."
    ),
    "uncertainty": "It is uncertainty_map(sets).",
}
