"""Metrics of processes for Prometheus: the text, and the port that serves it."""
