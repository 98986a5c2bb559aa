"""Frozen types of the state. Standard library and pydantic only; no clocks, no I/O."""

from ha_core.model.binding import UserBindings
from ha_core.model.cluster import Cluster, Mask
from ha_core.model.document import Document, UnreadableDocumentError
from ha_core.model.extent import Extent
from ha_core.model.gateway import GatewayRecord, VirtualNode
from ha_core.model.group import Group, Member
from ha_core.model.identity import ANONYMOUS, Identity, identify
from ha_core.model.known import KnownGroup, KnownTopic
from ha_core.model.operation import (
    HistoryEntry,
    Lock,
    MigrateOperation,
    MoveOperation,
    MoveRequest,
    MoveSet,
    Operation,
    SingleOperation,
    SwitchOperation,
)
from ha_core.model.scope import Scope
from ha_core.model.topic import Crossing, Fence, LastSequences, Topic, legal_name
from ha_core.model.usage import Usage, Use
from ha_core.model.view import View

__all__ = [
    "ANONYMOUS",
    "Cluster",
    "Crossing",
    "Document",
    "Extent",
    "Fence",
    "GatewayRecord",
    "Group",
    "HistoryEntry",
    "Identity",
    "KnownGroup",
    "KnownTopic",
    "LastSequences",
    "Lock",
    "Mask",
    "Member",
    "MigrateOperation",
    "MoveOperation",
    "MoveRequest",
    "MoveSet",
    "Operation",
    "Scope",
    "SingleOperation",
    "SwitchOperation",
    "Topic",
    "UnreadableDocumentError",
    "Usage",
    "Use",
    "UserBindings",
    "View",
    "VirtualNode",
    "identify",
    "legal_name",
]
