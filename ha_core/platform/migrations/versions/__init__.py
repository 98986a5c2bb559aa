"""One file a step, each named by the one before it."""
