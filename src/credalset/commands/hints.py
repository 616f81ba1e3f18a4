"""Commands and options that people try first, and which of ours is meant: the nearest name is often another."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

#: commands that are tried, by the one that is meant
COMMANDS = {
    "agree": ("agreement", "kappa", "reliability"),
    "calibrate": ("calibration", "conformal", "conformalise", "conformalize"),
    "check": ("compare", "coverage", "evaluate", "evaluation", "test", "validate", "verify"),
    "fit": ("learn", "model", "train"),
    "import": ("convert", "export", "load", "read", "votes"),
    "plan": ("budget", "queue", "tasks"),
    "predict": ("apply", "infer", "prediction", "predict-set", "predict_set", "score", "sets"),
    "report": ("html", "page", "plot", "show"),
}
#: options that are tried, by the one that is meant, in commands that have it; of two, the first
OPTIONS = {
    "--texts": ("--text", "--text-column", "--keep"),
    "--alpha": ("--confidence", "--confidence-level", "--coverage", "--error", "--level", "--significance"),
    "--ask": ("--answers", "--questions"),
    "--budget": ("--max-votes", "--n", "--votes"),
    "--calibration-size": ("--conformalize-size", "--split", "--test-size"),
    "--columns": ("--column", "--features", "--text", "--text-column", "--texts"),
    "--delimiter": ("--separator",),
    "--empty": ("--na", "--na-values", "--null"),
    "--groups": ("--by", "--group", "--mondrian", "--slice"),
    "--id": ("--id-column", "--index", "--item-id", "--key"),
    "--keep": ("--extra", "--keep-columns"),
    "--label": ("--annotation", "--answer", "--class", "--labels", "--rating", "--target", "--vote"),
    "--learner": ("--base", "--classifier", "--estimator", "--model"),
    "--out": ("--dest", "--outfile", "--output", "--target"),
    "--rename": ("--map", "--merge", "--relabel"),
    "--scale": ("--categories", "--classes", "--levels", "--order", "--ordered", "--ordinal"),
    "--score": ("--method", "--metric", "--nonconformity"),
    "--seed": ("--random-seed", "--random-state"),
    "--task": ("--id", "--image", "--item-id", "--items", "--question", "--task-id", "--unit"),
    "--tidy": ("--lower", "--normalise", "--normalize", "--strip"),
    "--time": ("--date", "--timestamp", "--when"),
    "--trust": ("--trusted",),
    "--weights": ("--weight",),
    "--worker": ("--annotators", "--coder", "--rater", "--raters", "--user", "--workers"),
}
#: options that no command has, and what there is instead
NONE = {
    "--sep": "Tables are written with commas, and read whatever separates them. For a spreadsheet: sets.to_csv(path, "
    "sep=';', decimal=',', encoding='utf-8-sig') in Python.",
}
NONE |= dict.fromkeys(("--decimal", "--delimiter", "--bom"), NONE["--sep"])
NONE |= dict.fromkeys(
    ("--scale", "--unknown", "--ordinal"),
    "Votes are written as they are; say it where they are counted: agree, fit, calibrate.",
)
#: what to say of more arguments than a command takes
TOO_MANY = {
    "check": "check takes one calibration, one table and one file of votes. To compare calibrations, run it for each, "
    "or print(cs.evaluate([one, other], predictions, votes)) in Python.",
}


class Guiding(TyperGroup):
    """The commands, with a word on those that do not exist."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; where one is tried that does not exist, say which one is meant and what it does."""
        meant = next((own for own, tried in COMMANDS.items() if args[0] in tried), None)
        if args[0] not in self.commands and meant is not None:
            does = self.commands[meant].get_short_help_str(limit=200)
            ctx.fail(f"There is no command {args[0]!r}. Did you mean {meant!r}? {does}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what it has to say of its options and arguments is completed."""
        try:
            return super().invoke(ctx)
        except Exception as error:  # typer brings a click of its own, whose errors have no public name
            _complete(error)
            raise


def _complete(error: Any) -> None:
    """Say which option is meant, and which arguments are too many."""
    command, message = getattr(getattr(error, "ctx", None), "command", None), str(getattr(error, "message", ""))
    if command is None:
        return
    tried = getattr(error, "option_name", None)
    if tried is not None and hasattr(error, "possibilities"):
        own = {name: option for option in command.params for name in option.opts}
        meant = [name for name, others in OPTIONS.items() if tried in others and name in own]
        if meant:
            error.possibilities = []  # names that are only spelt alike
            error.message = f"No such option: {tried}. Did you mean {meant[0]}? {own[meant[0]].help}"
        elif tried in NONE:
            error.possibilities, error.message = [], f"No such option: {tried}. {NONE[tried]}"
    elif "unexpected extra argument" in message and command.name in TOO_MANY:
        error.message = f"{message}. {TOO_MANY[command.name]}"
