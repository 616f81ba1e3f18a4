"""Training many small networks: R runs of the paper's synthetic task together, against one after another.

Run ``python benchmarks/training.py`` (40 runs, about a minute) or, for a quick look,
``python benchmarks/training.py --epochs 1``. Leaves with status 1 if the ratio or the agreement of losses is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from credalset.datasets import SyntheticData, make_synthetic
from credalset.predictors import FirstOrderNetwork, fit_many

N_CLASSES, N_TRAIN, N_TEST, BATCH = 3, 500, 500, 8
MIN_RATIO = 5.0
MAX_LOSS_GAP = 0.02  # of mean losses over the runs, in nats: a few standard errors of the difference
PLAIN = {"Adam": {}, "Adam, fused": {"fused": True}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="networks to train")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the data (the paper has 100)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = [make_synthetic(N_TRAIN + N_TEST, N_CLASSES, random_state=seed) for seed in range(options.runs)]
    warm_up(data[0])

    seconds, curves, tests = {}, {}, {}
    for name, settings in PLAIN.items():
        seconds[name], results = timed(
            lambda s=settings: [train_plain(d, i, options.epochs, s) for i, d in enumerate(data)]
        )
        curves[name], tests[name] = zip(*results, strict=True)
    seconds["together"], networks = timed(lambda: train_together(data, options.epochs))
    curves["together"] = [network.loss_curve_[-1] for network in networks]
    tests["together"] = [test_loss(n.predict_proba(d.X[N_TRAIN:]), d) for n, d in zip(networks, data, strict=True)]
    return report(options, seconds, curves, tests)


def train_plain(data: SyntheticData, seed: int, epochs: int, settings: dict[str, bool]) -> tuple[float, float]:
    """Train one network as one would write it by hand; return the last training loss and the test loss."""
    torch.manual_seed(seed)
    x = torch.tensor(data.X[:N_TRAIN], dtype=torch.float32)
    y = torch.tensor(frequencies(data)[:N_TRAIN], dtype=torch.float32)
    layers = [nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Dropout(0.3), nn.Linear(16, N_CLASSES))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, **settings)
    cross_entropy = nn.CrossEntropyLoss()
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(N_TRAIN).split(BATCH):
            loss = cross_entropy(network(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
    with torch.no_grad():
        predicted = network.eval()(torch.tensor(data.X[N_TRAIN:], dtype=torch.float32)).softmax(dim=1)
    return total / N_TRAIN, test_loss(predicted.double().numpy(), data)


def train_together(data: list[SyntheticData], epochs: int) -> list[FirstOrderNetwork]:
    networks = [FirstOrderNetwork(batch_size=BATCH, epochs=epochs, random_state=seed) for seed in range(len(data))]
    return fit_many(networks, [(d.X[:N_TRAIN], d.counts[:N_TRAIN]) for d in data])


def frequencies(data: SyntheticData) -> np.ndarray:
    return data.counts / data.counts.sum(axis=1, keepdims=True)


def test_loss(predicted: np.ndarray, data: SyntheticData) -> float:
    """Cross-entropy against the true label distributions of items that were not trained on."""
    return float(-(data.distributions[N_TRAIN:] * np.log(predicted)).sum(axis=1).mean())


def warm_up(data: SyntheticData) -> None:
    """Let both ways load what they load on their first step."""
    for settings in PLAIN.values():
        train_plain(data, 0, 1, settings)
    train_together([data, data], 1)


def timed(run: Callable[[], list]) -> tuple[tuple[float, float], list]:
    """Return (seconds on the clock, seconds of processor time) and the result."""
    clock, processor = time.perf_counter(), time.process_time()
    result = run()
    return (time.perf_counter() - clock, time.process_time() - processor), result


def report(options: argparse.Namespace, seconds: dict, curves: dict, tests: dict) -> int:
    print(f"{options.runs} networks 10-256-64-16-{N_CLASSES}, {N_TRAIN} items each, batches of {BATCH}, ", end="")
    print(f"{options.epochs} epochs, {options.threads} thread(s), PyTorch {torch.__version__}.")
    steps = options.runs * options.epochs * -(-N_TRAIN // BATCH)
    rows = [("", "seconds", "CPU seconds", "CPU µs per step", "training loss", "test loss", "ratio", "CPU ratio")]
    for name, (clock, processor) in seconds.items():
        label = name if name == "together" else f"one by one, {name}"
        losses = (f"{np.mean(values[name]):.4f}" for values in (curves, tests))
        ratios = (f"{own / base:.1f}" for own, base in zip(seconds[name], seconds["together"], strict=True))
        rows.append((label, f"{clock:.1f}", f"{processor:.1f}", f"{processor / steps * 1e6:.0f}", *losses, *ratios))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    gap = max(abs(np.mean(values["together"]) - np.mean(values[name])) for values in (curves, tests) for name in PLAIN)
    ratio = min(seconds[name][0] for name in PLAIN) / seconds["together"][0]
    good = ratio >= MIN_RATIO and gap <= MAX_LOSS_GAP
    print(f"ratio to the faster plain way {ratio:.1f} (at least {MIN_RATIO:g}), ", end="")
    print(f"largest gap of mean losses {gap:.4f} (at most {MAX_LOSS_GAP:g}): {'ok' if good else 'missed'}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
