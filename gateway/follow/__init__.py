"""Follows what comes into force while the gateway runs: users, rules, settings, quotas, copies. Each file is a
source."""
