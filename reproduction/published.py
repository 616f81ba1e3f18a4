"""Numbers of the paper (arXiv source, commented table included), shown beside ours."""

from __future__ import annotations

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
#: pairs of ChaosNLI that the paper shows, by uid: in its introduction, and with five scores
INTRO_PAIRS = ("2965376213.jpg#3r1e", "134217n")
SHOWN_PAIRS = ("7772052674.jpg#0r1n", "4816991572.jpg#3r1c", "5075833333.jpg#3r1c")
#: efficiency of the sets of the latter at α = 0.2
SHOWN_EFFICIENCY = {
    "tv": ("0.24", "0.33", "0.31"),
    "kl": ("0.18", "0.20", "0.27"),
    "ws": ("0.28", "0.33", "0.26"),
    "inner": ("0.36", "0.41", "0.34"),
    "so": ("0.06", "0.47", "0.08"),
}
