"""Settings of gateways from the platform."""

from __future__ import annotations

from gateway.config.settings_file import readable
from gateway.session.discovery_rates import DiscoverySettings
from ha_core.datacache.core.uncommitted import Content


def settings(content: Content) -> DiscoverySettings:
    """Unreadable ones are left out: their defaults hold."""
    by_type: dict[str, dict[str, int]] = {}
    for row in content.rows.all():
        fields = row.value or {}
        kind, name, value = fields.get("type"), fields.get("name"), fields.get("value")
        if isinstance(kind, str) and isinstance(name, str) and isinstance(value, int) and value > 0:
            by_type.setdefault(kind, {})[name] = value
    return readable(by_type)
