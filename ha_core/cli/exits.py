"""Exit codes: 0 is success and nothing else."""

SUCCESS, FAILURE, BAD_INPUT = 0, 1, 2
"""`BAD_INPUT`: what was asked for cannot be done, and nothing was changed."""
