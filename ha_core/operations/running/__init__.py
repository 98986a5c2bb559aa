"""Runs operations of every kind: start, continue, undo, settle, recover orphans, whole clusters."""
