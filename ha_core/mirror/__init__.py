"""Copying a partition to another cluster, without I/O: what is appended next, and where an earlier copier stopped."""
