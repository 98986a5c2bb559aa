"""Keeping what belongs to a mirror besides records as in the source; the rules are in `ha_core.plan.mirror.syncing`."""
