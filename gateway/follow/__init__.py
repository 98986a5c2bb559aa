"""Follows sources of changes while the gateway runs: users, rules, settings, quotas, copies. Each file follows one
source."""
