"""Exit codes of the command line."""

PASSED, FAILED, UNUSABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: all checks pass; a check failed; unusable input or usage; internal error; interrupted."""
