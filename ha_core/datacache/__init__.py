"""Caches that agree: every node serves the same content of a source, and goes on from it while the source is away.

`core` has the rules and knows no clock, thread or ZooKeeper; `cache` runs them.
"""
