"""Mirrors: linked, throttled, unlinked, watched."""
