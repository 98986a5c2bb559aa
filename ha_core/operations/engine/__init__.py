"""Runs operations: start, continue, undo, release; one revision at a time, by the executor that holds the operation."""
