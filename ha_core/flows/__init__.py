"""Flows: MirrorMaker 2's configuration, names, records and rules. No network I/O; reads only files named by callers."""
