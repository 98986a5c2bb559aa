"""Runs the flows of a MirrorMaker 2 configuration."""
