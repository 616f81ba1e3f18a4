"""How long the authors' own code takes for the same work: a timed training loop, and costs per set measured before.

The costs per set are those of the authors' notebooks on a machine with two cores: membership of the 19 969 points of
the grid, and upper and lower entropy by SLSQP. Only what was measured is counted (total variation and Kullback–Leibler;
the Wasserstein grid for three classes; entropies for 3 and 10 classes), so the estimate is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from credalset.datasets import SyntheticData
from credalset.experiments.batch import Outcome, Row

#: seconds per set for membership of the grid, three classes
MEMBERSHIP = {"tv": 0.0007, "kl": 0.0041, "ws": 1.116}
#: seconds per set for both entropies, by number of classes
ENTROPY = {(3, "tv"): 0.031, (3, "kl"): 0.075, (10, "tv"): 0.654, (10, "kl"): 1.239}

# Numbers of the paper (arXiv source, commented table included), for our tables to show beside ours.
#: ChaosNLI at α = 0.25: coverage and efficiency, mean and standard deviation over ten splits
CHAOSNLI = {
    "tv": ("0.75 ± 0.017", "0.30 ± 0.004"),
    "kl": ("0.75 ± 0.011", "0.27 ± 0.004"),
    "ws": ("0.76 ± 0.006", "0.27 ± 0.005"),
    "inner": ("0.75 ± 0.013", "0.23 ± 0.005"),
}
#: synthetic, K = 3, α = 0.05: efficiency of the set of one instance, by number of votes
SYNTHETIC_EFFICIENCY = {
    "tv": {1: "1.00", 5: "0.46", 10: "0.64", 100: "0.06"},
    "kl": {1: "1.00", 5: "0.67", 10: "0.58", 100: "0.09"},
    "ws": {1: "0.70", 5: "0.39", 10: "0.68", 100: "0.09"},
    "inner": {1: "1.00", 5: "0.22", 10: "0.00", 100: "0.00"},
    "so": {1: "1.00", 5: "1.00", 10: "0.74", 100: "0.43"},
}
#: threshold of total variation by number of training items, K = 3, α = 0.1, in one published run
TV_THRESHOLD = {10: 0.671, 50: 0.349, 100: 0.172, 500: 0.048, 1000: 0.051}


def train_one(data: SyntheticData, options: dict[str, Any]) -> Outcome:
    """Time one run of the paper's first-order learner, trained alone in PyTorch as one would write it by hand."""
    import torch
    from torch import nn

    from credalset.predictors.torch.training import one_thread

    outcome = Outcome()
    n = options["n_part"]
    x = torch.tensor(data.X[:n], dtype=torch.float32)
    y = torch.tensor(data.counts[:n] / data.counts[:n].sum(axis=1, keepdims=True), dtype=torch.float32)
    layers = [nn.Linear(x.shape[1], 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Dropout(0.3), nn.Linear(16, y.shape[1]))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
    cross_entropy = nn.CrossEntropyLoss()

    def epoch() -> None:
        order = torch.randperm(n)
        for rows in (order[start : start + 8] for start in range(0, n, 8)):
            loss = cross_entropy(network(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    with one_thread(), torch.random.fork_rng():
        epoch()  # loads what PyTorch loads on its first step
        with outcome.timed("one_run"):
            for _ in range(options["epochs"]):
                epoch()
    return outcome


def estimate(rows: Sequence[Row], seconds_per_run: float) -> dict[str, float]:
    """Return the seconds that the published way takes for the first-order runs in these rows, stage by stage.

    Membership is counted once per run, entropies once per run and level.
    """
    sets = {(row["n_classes"], row["n_votes"], row["seed"]): row["n_test"] for row in rows}
    levels = len({row["alpha"] for row in rows})
    membership = sum(n * sum(MEMBERSHIP.values()) for (k, *_), n in sets.items() if k == 3)
    entropy = sum(n * levels * sum(cost for (c, _), cost in ENTROPY.items() if c == k) for (k, *_), n in sets.items())
    return {"training": len(sets) * seconds_per_run, "membership": membership, "entropy": entropy}
