"""Migrations of many topics: planned, judged, cut into batches, listed, waited for."""
