"""Caches that agree: every node serves equal content of a source, and continues from it while the source is away.

`core` has the rules, without clock, threads or ZooKeeper; `cache` runs them.
"""
