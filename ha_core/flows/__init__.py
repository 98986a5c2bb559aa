"""Flows: MirrorMaker 2's configuration, names, records and rules. No network; it reads only files that it is given."""
