"""Break the code on purpose, one fault at a time, and see that the tests notice.

``make mutants`` (a few minutes) copies ``src``, puts one fault in, and runs test files of the fast
suite until one fails; without a fault they must pass. A fault that survives is a hole in the tests.
``python tools/mutants.py --list`` prints the faults.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LAWS = "tests/sets/test_oracles.py"


class Fault(NamedTuple):
    """One fault.

    What is wrong, where, the text that is replaced and by what, and the tests that should notice.
    """

    title: str
    file: str
    right: str
    wrong: str
    tests: str


FAULTS = [
    Fault(
        "items that were used before get a verdict",
        "evaluation/verdict.py",
        "if self.used or self.untested or",
        "if self.untested or",
        "tests/evaluation/test_verdict.py",
    ),
    Fault(
        "an item's text can end the script element of the page",
        "reporting/columns.py",
        'for letter in "<>&',
        'for letter in ">&',
        "tests/report/test_report.py",
    ),
    Fault(
        "the radius of a KL ball is 5 % too large",
        "scores/kullback_leibler.py",
        "KullbackLeiblerBall(prediction, threshold * math.log(self.base))",
        "KullbackLeiblerBall(prediction, 1.05 * threshold * math.log(self.base))",
        LAWS + " -k kl",
    ),
    Fault(
        "the radius of a total-variation ball is 1 % too small",
        "scores/total_variation.py",
        "TotalVariationBall(prediction, threshold)",
        "TotalVariationBall(prediction, 0.99 * threshold)",
        LAWS + " -k tv",
    ),
    Fault(
        "a sign: lower and upper ends of the envelope of a Hellinger ball",
        "scores/hellinger.py",
        "np.minimum(angle + reach, 0.5 * np.pi)",
        "np.minimum(angle - reach, 0.5 * np.pi)",
        LAWS + " -k hellinger",
    ),
    Fault(
        "the rank of the quantile is one too small",
        "calibration/levels.py",
        "return math.ceil((n + 1) * (1 - exact_level(alpha)))",
        "return math.ceil((n + 1) * (1 - exact_level(alpha))) - 1",
        "tests/calibration/test_levels.py",
    ),
    Fault(
        "the rank forgets the new item: n instead of n + 1",
        "calibration/levels.py",
        "return math.ceil((n + 1) * (1 - exact_level(alpha)))",
        "return math.ceil(n * (1 - exact_level(alpha)))",
        "tests/calibration/test_levels.py",
    ),
    Fault(
        "scores depend on the batch: a single row is summed in another order",
        "scores/base.py",
        "        if n == 1:",
        "        if n == -1:",
        "tests/scores/test_knowledge.py",
    ),
    Fault(
        "sets share memory with the caller's array",
        "scores/base.py",
        "own = map_arrays(prediction, np.array)",
        "own = prediction",
        "tests/sets/test_credal_set.py",
    ),
    Fault(
        "half-spaces are empty although a mixture is a member at rounding",
        "scores/inner_product.py",
        "threshold + slack",
        "threshold",
        "tests/scores/test_inner_product.py",
    ),
    Fault(
        "a set with a tolerance loses tied actions",
        "sets/decisions.py",
        "return TIE + sets.geometry.tolerance",
        "return TIE",
        "tests/sets/test_level_sets.py -k ties",
    ),
    Fault(
        "estimates of volume understate their error",
        "sets/volume.py",
        "error * (1.0 + 8.0 * error)",
        "0.5 * error",
        "tests/scores/test_total_variation.py -k errors",
    ),
    Fault(
        "the threshold of a normalised score is rounded away from its members",
        "scores/normalized.py",
        "np.where(np.isinf(threshold), threshold, threshold * scale)",
        "np.where(np.isinf(threshold), threshold, 0.99 * threshold * scale)",
        "tests/scores/test_normalized.py",
    ),
    Fault(
        "the largest entropy of a KL ball is that of its box",
        "scores/kullback_leibler.py",
        "        return Entropies.exact(*_entropies(self.center, self.radius))\n",
        "        from credalset.sets.box import most_even\n\n        lower, _ = "
        "_entropies(self.center, self.radius)\n"
        "        return Entropies.exact(lower, entropy_of_valid(most_even(*self.envelope())))\n",
        LAWS + " -k kl",
    ),
    Fault(
        "thresholds are 20 % too small",
        "calibration/base.py",
        "found = fitted.thresholds(level,",
        "found = 0.8 * fitted.thresholds(level,",
        "tests/calibration/test_split.py",
    ),
    Fault(
        "thresholds under vote noise are 20 % too small",
        "calibration/unbiased.py",
        "        return np.where(np.isnan(q), np.inf, q)",
        "        return 0.8 * np.where(np.isnan(q), np.inf, q)",
        "tests/calibration/test_noise.py -k oracle",
    ),
    Fault(
        "p-values leave the new item out",
        "calibration/noise.py",
        "at_least = new + reached[-1]",
        "at_least = reached[-1]",
        "tests/calibration/test_split.py",
    ),
    Fault(
        "weights under covariate shift are ignored",
        "calibration/noise.py",
        "        if self.weights is None:\n            return np.full(",
        "        if True:\n            return np.full(",
        "tests/calibration/test_groups_and_weights.py",
    ),
    Fault(
        "a group gets the items of all groups",
        "calibration/thresholds.py",
        "            rows = codes == code\n            fits.append(",
        "            rows = codes >= 0\n            fits.append(",
        "tests/calibration/test_groups_and_weights.py",
    ),
    Fault(
        "labels whose classes come in another order are taken as they are",
        "_batch.py",
        "return found if columns is None else found.reorder(columns)",
        "return found",
        "tests/test_batch.py",
    ),
    Fault(
        "items in another order are matched by position",
        "_batch.py",
        "found if rows is None else found[rows]",
        "found",
        "tests/test_batch.py",
    ),
    Fault(
        "entropies hide the gap of a bracket",
        "sets/entropies.py",
        "return least, np.maximum(found - least, 0.0), most, np.maximum(most - reached, 0.0)",
        "return least, 0.0 * found, most, 0.0 * reached",
        "tests/sets/test_level_sets.py",
    ),
    Fault(
        "chains stop before they forget their start",
        "sets/sampling.py",
        "SWEEPS = 16",
        "SWEEPS = 1",
        "tests/sets/test_sampling.py",
    ),
    Fault(
        "votes that a policy does not ask for are accepted",
        "crowd/policy.py",
        "other = ~self._asks_for(voted)",
        "other = np.zeros(len(voted), dtype=bool)",
        "tests/crowd/test_policy.py -k 'refused or initial'",
    ),
    Fault(
        "Ctrl-C leaves half-written files",
        "cli/__init__.py",
        "    remove_unfinished()\n",
        "",
        "tests/cli/test_errors.py -k lost",
    ),
    Fault(
        "names beside predictions without names are ignored",
        "_batch.py",
        "        if own is not None and known is None:\n",
        "        if False:\n",
        "tests/test_batch.py",
    ),
    Fault(
        "Wasserstein balls take all gaps between classes for equal",
        "scores/wasserstein.py",
        "        gaps = self.gaps(prediction.shape[1])\n        return WassersteinBall(",
        "        gaps = np.full_like(self.gaps(prediction.shape[1]), 1.0)\n        "
        "return WassersteinBall(",
        "tests/scores/test_wasserstein.py " + LAWS + " -k 'ws or wasserstein'",
    ),
    Fault(
        "relative likelihoods saturate at one",
        "scores/dirichlet.py",
        "        return log_density_drop(prediction, distribution)\n\n    def geometry",
        "        return -np.expm1(-log_density_drop(prediction, distribution))\n\n    def geometry",
        "tests/scores/test_dirichlet.py -k sharp",
    ),
    Fault(
        "the far branch of the smallest entropy is never looked at",
        "scores/power.py",
        "fold[rows] = np.where(least < 0",
        "fold[rows] = 0.0 * np.where(least < 0",
        "tests/scores/test_dirichlet.py -k branches",
    ),
    Fault(
        "the series of a box's volume turns the wrong way",
        "scores/intervals.py",
        "- 1j * y * self.total",
        "+ 1j * y * self.total",
        "tests/scores/test_intervals.py -k volume",
    ),
    Fault(
        "cross-conformal balls do not make up for the distance of their models",
        "scores/base.py",
        "        return threshold + self.largest_gap(model, center)",
        "        return threshold + 0.0 * self.largest_gap(model, center)",
        "tests/calibration/test_cross.py",
    ),
    Fault(
        "the half-space of an inner product is cut in the wrong place",
        "scores/inner_product.py",
        "np.maximum(threshold, least))",
        "np.maximum(threshold, least) + 0.02)",
        LAWS + " -k inner",
    ),
    Fault(
        "levels are read as short decimals, however far",
        "calibration/levels.py",
        "Fraction(float(np.finfo(number.dtype).eps)) / 2",
        "Fraction(1, 10**6)",
        "tests/calibration/test_levels.py",
    ),
    Fault(
        "items that trained a model are forgotten",
        "classifier.py",
        "self.items_ = labels.items",
        "self.items_ = None",
        "tests/test_classifier.py -k items",
    ),
    Fault(
        "labels with names are matched by position with features that have none",
        "predictors/labels.py",
        "        if items is None and _is_only_numbered(Y, name):",
        "        if items is None:",
        "tests/test_classifier_names.py",
    ),
    Fault(
        "the penalty of the second-order loss is averaged over the batch",
        "predictors/torch/networks.py",
        "excess.square().sum(dim",
        "excess.square().mean(dim",
        "tests/predictors/test_losses.py",
    ),
    Fault(
        "tidied labels lose the classes that are written with a capital letter",
        "votes/counting.py",
        "known = {tidy(name): name for name",
        "known = {name: name for name",
        "tests/votes/test_annotations.py",
    ),
    Fault(
        "repeated votes go by the order of the rows although there are times",
        "votes/counting.py",
        "moment[repeated] = as_seconds(",
        "_ = as_seconds(",
        "tests/votes/test_annotations.py",
    ),
    Fault(
        "votes dropped for other labels are not counted",
        "votes/counting.py",
        "+= len(names)",
        "+= 0",
        "tests/votes/test_annotations.py",
    ),
    Fault(
        "an epsilon for the average item is taken for every group",
        "calibration/noise.py",
        'if self._scope != "any":',
        'if self._scope == "nobody":',
        "tests/calibration/test_combinations.py",
    ),
    Fault(
        "the bound of FewVotes on the mean fails far more often than delta",
        "calibration/few_votes.py",
        "fortune = np.full(len(level), delta)",
        "fortune = np.full(len(level), 3 * delta)",
        "tests/calibration/test_few_votes.py",
    ),
    Fault(
        "confidence limits forget that there are several classes",
        "calibration/sampling.py",
        "+ 1.0, delta / n_classes\n",
        "+ 1.0, delta\n",
        "tests/calibration/test_noise.py",
    ),
    Fault(
        "the inputs of some items have the votes in hand of all",
        "calibration/base.py",
        "in_hand=None if self.in_hand is None else self.in_hand[rows],",
        "in_hand=self.in_hand,",
        "tests/crowd/test_in_hand.py -k inputs_of_some",
    ),
    Fault(
        "costs are taken by position",
        "acceptance/rule.py",
        'batch.square(costs, "loss")',
        "np.asarray(costs, dtype=float)",
        "tests/test_names.py -k labels.accept",
    ),
    Fault(
        "the cuts of a set of a formula depend on its place in the batch",
        "sets/convex_support.py",
        "* (0.1 + shifts)",
        "* (0.1 + shifts) * np.linspace(1.0, 1.5, len(x))[:, None]",
        "tests/sets/test_level_sets.py -k do_not_depend",
    ),
    Fault(
        "columns in another order than the scale of the votes are taken for its levels",
        "_batch.py",
        "all(low < high for low, high in pairwise(scale))",
        "all(low != high for low, high in pairwise(scale))",
        "tests/calibration/test_scales.py",
    ),
    Fault(
        "a label set for every vote counts the majority only",
        "labels.py",
        '    if target == "annotator":\n        return shares\n    if target == "majority":',
        '    if target in ("annotator", "majority"):',
        "tests/test_labels.py",
    ),
    Fault(
        "the level of a stream moves the wrong way",
        "calibration/stream.py",
        "self.gamma * (self.alpha - (not covered))",
        "self.gamma * ((not covered) - self.alpha)",
        "tests/calibration/test_stream.py",
    ),
    Fault(
        "the worst slice is measured on the items that it was found on",
        "evaluation/slices.py",
        "for part in (half, ~half)",
        "for part in (half, half)",
        "tests/evaluation/test_slices.py",
    ),
    Fault(
        "held-back votes include those in hand",
        "crowd/estimator.py",
        "(voted.counts[rows] - hand)[:, None, :]",
        "voted.counts[rows][:, None, :]",
        "tests/crowd/test_in_hand.py",
    ),
    Fault(
        "items get the threshold of another number of votes",
        "crowd/in_hand.py",
        "for number, part in zip(self.in_hand, self.calibrations, strict=True):",
        "for number, part in zip(self.in_hand[::-1], self.calibrations, strict=True):",
        "tests/crowd/test_in_hand.py -k mixed",
    ),
    Fault(
        "the posterior ignores the votes",
        "crowd/posterior.py",
        "return cls(law, prediction, counts, component_weights(",
        "counts = 0.0 * counts\n        return cls(law, prediction, counts, component_weights(",
        "tests/crowd/test_law.py",
    ),
    Fault(
        "predictions for calibration ignore the votes in hand",
        "crowd/in_hand.py",
        "predict_for(score, law, voted.prediction, hand)",
        "predict_for(score, law, voted.prediction, 0.0 * hand)",
        "tests/crowd/test_in_hand.py",
    ),
    Fault(
        "an exact calibration takes items that the crowd was fitted to",
        "crowd/base.py",
        "        if both:\n",
        "        if False:\n",
        "tests/crowd/test_in_hand.py -k fitted",
    ),
    Fault(
        "a policy is scored against votes that it has seen",
        "crowd/policy.py",
        "held_back = (panel.counts - used)[:, None, :]",
        "held_back = panel.counts[:, None, :]",
        "tests/crowd/test_policy.py",
    ),
    Fault(
        "sets are given for items that the policy would ask again",
        "crowd/policy.py",
        "        if again.any():",
        "        if False:",
        "tests/crowd/test_policy.py -k unfinished",
    ),
    Fault(
        "a resumed job trusts the names of its parts",
        "io/dask.py",
        'is_whole = _digest_of_file(part.target) == record["sha256"]',
        "is_whole = True",
        "tests/io/test_parts.py -k checksum",
    ),
    Fault(
        "a resumed job keeps parts whose rows have changed",
        "io/dask.py",
        'return is_whole and record["source"] == _digest_of_row_group(part)',
        "return is_whole",
        "tests/io/test_parts.py -k changed",
    ),
    Fault(
        "a file appears before it is whole",
        "_files.py",
        "        yield staging\n        _sync(staging)\n        staging.replace(path)",
        "        yield path",
        "tests/io/test_tables.py -k whole",
    ),
    Fault(
        "damaged files are loaded",
        "io/folders.py",
        "        _entry(data) == entry,\n",
        "        True,\n",
        "tests/io/test_hostile.py -k damaged",
    ),
    Fault(
        "fields of a saved object may have any type",
        "io/store.py",
        "if not fits(value, hint):",
        "if False:",
        "tests/io/test_hostile.py",
    ),
    Fault(
        "tables written for our own use are guarded against spreadsheets",
        "io/tables.py",
        "    if for_spreadsheets is not None and format in",
        "    if format in",
        "tests/io/test_tables.py -k every_text",
    ),
    Fault(
        "ids of lists of items to ask are guarded, so that their votes are lost",
        "io/tables.py",
        "        if name != self.id:",
        "        if True:",
        "tests/io/test_tables.py -k formulas",
    ),
    Fault(
        "the keys of a mapping are taken for its values",
        "_batch.py",
        "            return self._per_named_item(values, name)",
        "            return list(values)",
        "tests/test_batch.py -k mapping",
    ),
    Fault(
        "a delimiter within a quoted name splits it",
        "io/tables.py",
        "    for strict in (True, False):",
        "    for strict in (False,):",
        "tests/io/test_tables.py -k delimiters",
    ),
    Fault(
        "two Unicode forms of one id are two items",
        "io/tables.py",
        '        return unicodedata.normalize("NFC", text)',
        "        return text",
        "tests/io/test_tables.py -k spellings",
    ),
    Fault(
        "fields of JSON Lines that appear late vanish",
        "io/tables.py",
        "                if late:\n",
        "                if False:\n",
        "tests/io/test_tables.py -k late",
    ),
    Fault(
        "decimal commas change names of items",
        "io/tables.py",
        "        if name != id and _has_decimal_commas(",
        "        if _has_decimal_commas(",
        "tests/cli/test_tables.py -k only_decimal",
    ),
    Fault(
        "workers in a column of another name are lost",
        "votes/tables.py",
        "        if first.setdefault(str(task), value) != value:",
        "        if False:",
        "tests/cli/test_tables.py -k unknown_name",
    ),
    Fault(
        "labels that differ by case are not counted",
        "votes/counting.py",
        "    alike = [k for k, name in enumerate(tidied) if often[name] > 1]",
        "    alike: list[int] = []",
        "tests/cli/test_tables.py -k by_case",
    ),
    Fault(
        "texts of a table are run as formulas by spreadsheets",
        "io/tables.py",
        "quoted = None if text is None else quote_formula(text)",
        "quoted = text",
        "tests/io/test_tables.py -k formulas",
    ),
    Fault(
        "columns that are named on the command line are taken by position",
        "io/items.py",
        "    return Selection([position[label] for label in wanted], tuple(wanted))",
        "    return Selection([header for header, _ in given], tuple(wanted))",
        "tests/io/test_items.py",
    ),
    Fault(
        "rows that are left out are not counted",
        "io/scorer.py",
        "remarks.n_dropped = batch.num_rows - len(kept)",
        "remarks.n_dropped = 0",
        "tests/io/test_scorer.py tests/cli/test_workflow.py",
    ),
    Fault(
        "geometries are asked about no region",
        "sets/geometry.py",
        "    if len(rows):\n        for result",
        "    if True:\n        for result",
        "tests/sets/test_level_sets.py -k five",
    ),
    Fault(
        "frames of folds are taken by position",
        "calibration/cross.py",
        "models.append(batch.values if rows is None else batch.values[rows])",
        "models.append(batch.values)",
        "tests/test_names.py -k folds",
    ),
    Fault(
        "utilities with names are taken by position",
        "_batch.py",
        'columns = match_names(own, self.classes, "classes", name, self.name)',
        "columns = None",
        "tests/test_names.py -k utilities",
    ),
]


def run_tests(
    files: list[str], chosen: str, *, fault: Fault | None = None
) -> subprocess.CompletedProcess[str]:
    """Run test files on a copy of the package, with a fault in it or without."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if fault is not None:
            path = source / "credalset" / fault.file
            text = path.read_text(encoding="utf-8")
            if text.count(fault.right) != 1:
                raise SystemExit(
                    f"{fault.file} no longer has just one {fault.right!r}: update tools/mutants.py."
                )
            path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        command += ["-k", chosen] if chosen else []
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(
                f"the tests {files} did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done


def is_caught(fault: Fault) -> bool:
    """Tell whether the tests of a fault fail on a copy of the package that has it."""
    files, _, chosen = fault.tests.partition(" -k ")
    return run_tests(files.split(), chosen.strip("'"), fault=fault).returncode == 1


def main() -> int:
    """Try every fault, or those whose titles contain the given words; ``--list`` prints titles."""
    if sys.argv[1:] == ["--list"]:
        print("\n".join(fault.title for fault in FAULTS))
        return 0
    wanted = " ".join(sys.argv[1:])
    faults = [fault for fault in FAULTS if wanted in fault.title]
    files = sorted({file for fault in faults for file in fault.tests.partition(" -k ")[0].split()})
    clean = run_tests(files, "")
    if clean.returncode:  # tests that fail anyway would catch everything
        raise SystemExit(f"tests fail without any fault:\n{clean.stdout[-2000:]}")
    missed = 0
    for fault in faults:
        caught = is_caught(fault)
        missed += not caught
        print(f"{'caught' if caught else 'MISSED'}  {fault.title}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults are caught.")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
