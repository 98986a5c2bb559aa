"""Benchmarks that anyone can run: `python -m bench [NAME…] [--quick] [--json FILE] [--seed N]`.

Each one starts a stack of its own on loopback, measures what it compares in turns within one run, and ends it.
"""
