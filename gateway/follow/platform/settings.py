"""Settings of gateways as the platform has them: type → name → value."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.datacache.core.uncommitted import Content

EVERYBODY = "*"
"""For each that has none of its own."""

PlatformSettings = Mapping[str, Mapping[str, int]]


def settings(content: Content) -> PlatformSettings:
    """What cannot be read is left out: its default holds."""
    found: dict[str, dict[str, int]] = {}
    for row in content.rows.all():
        said = row.value or {}
        kind, name, value = said.get("type"), said.get("name"), said.get("value")
        if isinstance(kind, str) and isinstance(name, str) and isinstance(value, int) and value > 0:
            found.setdefault(kind, {})[name] = value
    return found
