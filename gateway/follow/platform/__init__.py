"""Follows the platform: users, access rules and settings, in caches that all gateways agree on."""
