"""How long the authors' own code takes for the first-order runs of ``python -m reproduction synthetic``, against ours.

Run ``python -m reproduction synthetic`` first, then ``python benchmarks/reproduction.py reproduction-results``:
our times are those that the batches took, theirs are estimated from one training run, timed here, and costs per set.

The costs per set are those of the authors' notebooks on a machine with two cores: membership of the 19 969 points of
the grid, and upper and lower entropy by SLSQP. Only what was measured is counted (total variation and Kullback–Leibler;
the Wasserstein grid for three classes; entropies for 3 and 10 classes), so the estimate is a lower bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import torch
from training import N_TEST, N_TRAIN, timed, train_plain

from credalset.datasets import make_synthetic
from reproduction import synthetic
from reproduction.batch import Row
from reproduction.store import Store

#: seconds per set for membership of the grid, three classes
MEMBERSHIP = {"tv": 0.0007, "kl": 0.0041, "ws": 1.116}
#: seconds per set for both entropies, by number of classes
ENTROPY = {(3, "tv"): 0.031, (3, "kl"): 0.075, (10, "tv"): 0.654, (10, "kl"): 1.239}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where reproduce has put its results")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds that were run")
    options = parser.parse_args(arguments)
    folder = options.folder / "batches" / "synthetic"
    shared = json.loads(next(folder.glob("first-order-*.json")).read_bytes())["options"]
    settings = {name: value for name, value in shared.items() if name not in ("n_classes", "learner", "seed")}
    grid = [batch for batch in synthetic.batches(settings, options.seeds) if batch.part == "first-order"]
    store = Store(folder)
    ours = store.seconds(grid)
    torch.set_num_threads(1)
    data = make_synthetic(N_TRAIN + N_TEST, 3, random_state=0)
    train_plain(data, 0, 1, {})  # loads what PyTorch loads on its first step
    (by_clock, by_processor), _ = timed(lambda: [train_plain(data, 0, shared["epochs"], {})])
    theirs = estimate(store.rows(grid), by_processor)
    spent, clock = (ours[f"training{unit}"] + ours[f"measuring{unit}"] for unit in ("_cpu", ""))
    total = sum(theirs.values())
    print(
        f"Time of the {sum(batch.n_runs for batch in grid)} first-order runs: {spent:.0f} s of processor time "
        f"({ours['training_cpu']:.0f} s training, {ours['measuring_cpu']:.0f} s for all scores and measures); "
        f"{clock:.0f} s by the clock, waiting included.\n"
        f"The published way: {total:.0f} s = {theirs['training']:.0f} s training (one run, measured: "
        f"{by_processor:.2f} s of processor time, {by_clock:.2f} s by the clock) + {theirs['membership']:.0f} s grid "
        f"membership + {theirs['entropy']:.0f} s entropies (costs per set measured before; volumes have no "
        f"counterpart). Ratio {total / spent:.0f}, {total / clock:.0f} by the clock; training alone "
        f"{theirs['training'] / ours['training_cpu']:.1f}."
    )


def estimate(rows: Sequence[Row], seconds_per_run: float) -> dict[str, float]:
    """Return the seconds that the published way takes for the first-order runs in these rows, stage by stage.

    Membership is counted once per run, entropies once per run and level.
    """
    sets = {(row["n_classes"], row["n_votes"], row["seed"]): row["n_test"] for row in rows}
    levels = len({row["alpha"] for row in rows})
    membership = sum(n * sum(MEMBERSHIP.values()) for (k, *_), n in sets.items() if k == 3)
    entropy = sum(n * levels * sum(cost for (c, _), cost in ENTROPY.items() if c == k) for (k, *_), n in sets.items())
    return {"training": len(sets) * seconds_per_run, "membership": membership, "entropy": entropy}


if __name__ == "__main__":
    main()
