"""Clusters: registered, masked, asked what they hold, and last seen."""
