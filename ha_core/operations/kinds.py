"""The table of kinds: what an operation does is looked up here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.operations.crossing.migrate import Migrate
from ha_core.operations.deleting import Delete
from ha_core.operations.kind import Kind
from ha_core.operations.lifecycle.aging import Age
from ha_core.operations.linking import Link
from ha_core.operations.single import OneRevision
from ha_core.operations.switch.steps import Switch
from ha_core.operations.unlinking import Unlink

_KINDS: tuple[type[Kind], ...] = (OneRevision, Age, Unlink, Delete, Switch, Migrate, Link)
"""A later one takes its names from an earlier one."""
KINDS: Mapping[str, Kind] = {name: kind() for kind in _KINDS for name in kind.names}
