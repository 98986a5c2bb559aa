"""Fetch: passed where nothing needs a look, else translated, and read from the clusters that hold what is asked for."""
