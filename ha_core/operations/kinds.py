"""The table of kinds: what an operation does is looked up here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ha_core.model.operation import OperationKind
from ha_core.operations.crossing.migrate import Migrate
from ha_core.operations.kind import Kind
from ha_core.operations.single import OneRevision
from ha_core.operations.switch.steps import Switch

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(get_args(OperationKind), OneRevision()),
    "switch": Switch(),
    "migrate": Migrate(),
}
