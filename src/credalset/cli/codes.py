"""Exit codes, and what is said when a command is interrupted."""

CHECK_FAILED = 1
WRONG_USE = 2
CLUSTER_FAILED = 3
INTERRUPTED = 130
ENDED = "interrupted; no file was left half-written."
