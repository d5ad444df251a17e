"""Exit codes of the command line."""

PASSED, FAILED, UNUSABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
"""All checks pass; a check failed; unusable input or usage; internal error; interrupted by Ctrl-C (SIGINT)."""
SIGNALLED = 128
"""Ended by a signal: this plus its number, 130 for SIGINT (Ctrl-C), 141 for a closed pipe and 143 for SIGTERM."""
