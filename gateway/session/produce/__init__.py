"""Produce: forwarded unchanged where possible, else judged, renamed, and split at a cut ahead."""
