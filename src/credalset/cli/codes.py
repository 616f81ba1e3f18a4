"""Exit codes, and what is said when a command is interrupted."""

CHECK_FAILED = 1
WRONG_USE = 2
CLUSTER_FAILED = 3
INTERRUPTED = 130
PIPE_CLOSED = 141  # as of programs that the system ends
ENDED = "interrupted; no file was left half-written."
