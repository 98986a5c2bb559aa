"""Copying a partition to another cluster, without I/O: the next batches to append, and recovery after a takeover."""
