"""Rights, quotas and usage: which rules count for a client."""
