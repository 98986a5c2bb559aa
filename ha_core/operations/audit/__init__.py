"""The history as evidence: looking through it, checking its seals, exporting and pushing it."""
