"""Runs the flows of a MirrorMaker 2 configuration on the copy engine."""
