"""Use against quotas: rates, and what is owed by them. No clock, no I/O."""
