"""The table of kinds, the only place that maps an operation to its effects."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.operations.engine.kind import Kind
from ha_core.operations.engine.one_revision import OneRevision
from ha_core.operations.migration.aging import Age
from ha_core.operations.migration.crossing.migrate import Migrate
from ha_core.operations.migration.topic_deletion import Delete
from ha_core.operations.mirror.linking import Link
from ha_core.operations.mirror.unlinking import Unlink
from ha_core.operations.move.switch_steps import Switch

_KINDS: tuple[type[Kind], ...] = (OneRevision, Age, Unlink, Delete, Switch, Migrate, Link)
"""A later kind overrides names of an earlier one."""
KINDS: Mapping[str, Kind] = {name: kind() for kind in _KINDS for name in kind.names}
