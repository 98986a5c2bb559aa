"""Settings of gateways from the platform: type → name → value."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.datacache.core.uncommitted import Content

EVERYBODY = "*"
"""For every other name."""

PlatformSettings = Mapping[str, Mapping[str, int]]


def settings(content: Content) -> PlatformSettings:
    """Unreadable ones are left out: their defaults hold."""
    by_type: dict[str, dict[str, int]] = {}
    for row in content.rows.all():
        fields = row.value or {}
        kind, name, value = fields.get("type"), fields.get("name"), fields.get("value")
        if isinstance(kind, str) and isinstance(name, str) and isinstance(value, int) and value > 0:
            by_type.setdefault(kind, {})[name] = value
    return by_type
