"""Mirrors: linked, synced, compared, throttled, reversed, ended."""
