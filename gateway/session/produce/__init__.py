"""Produce: passed where nothing needs a look, else judged, renamed, and split at a cut that lies ahead."""
