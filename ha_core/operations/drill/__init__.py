"""Drills: a scope is switched to another cluster and home again, under measurement."""
