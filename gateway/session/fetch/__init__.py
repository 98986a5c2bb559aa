"""Fetch: forwarded unchanged where possible, else translated, and read from the clusters that hold the records."""
