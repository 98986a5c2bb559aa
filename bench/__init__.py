"""Benchmarks that anyone can run: `python -m bench [NAME…] [--quick] [--json FILE] [--seed N]`.

Each starts its own stack on loopback, measures its alternatives in turns within one run, and ends it.
"""
