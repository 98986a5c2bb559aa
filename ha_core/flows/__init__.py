"""Flows: MirrorMaker 2's configuration, names, records and rules, without I/O."""
