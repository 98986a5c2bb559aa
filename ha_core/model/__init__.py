"""Frozen types of the state. Standard library and pydantic only; no clocks, no I/O."""

from ha_core.model.brought_rights import BroughtRights
from ha_core.model.checkpoints import GroupCheckpoints
from ha_core.model.checks import PlatformChange, SeenProblems
from ha_core.model.cluster import Cluster, Mask
from ha_core.model.direct_groups import DirectGroups
from ha_core.model.document import Document, UnreadableDocumentError
from ha_core.model.drill import Drill, DrillSchedule
from ha_core.model.extent import Extent
from ha_core.model.flow_declaration import FlowDeclaration
from ha_core.model.flow_worker import FlowWorker
from ha_core.model.gateway import ExpectedGateway, ExpectedNumber, GatewayRecord, VirtualNode
from ha_core.model.group import Group, Member
from ha_core.model.identity import ANONYMOUS, Identity, UserBindings, identify
from ha_core.model.known import KnownGroup, KnownTopic
from ha_core.model.lock import Lock
from ha_core.model.mirror import LEAST_BYTES_S, LostTail, Mirror, Run, Tail
from ha_core.model.mirror_job import (
    CopiedMirror,
    CopiedPartition,
    MirrorCopies,
    MirrorJob,
    MirrorReport,
    MirrorShare,
    MirrorSync,
    MirrorTask,
    PairWork,
    PartitionReport,
    SyncFinding,
)
from ha_core.model.mirror_pattern import MirrorPattern, PatternLook, PatternTopic
from ha_core.model.move_request import MoveRequest, MoveSet
from ha_core.model.operation import (
    HistoryEntry,
    MigrateOperation,
    MoveOperation,
    Operation,
    SingleOperation,
    SwitchOperation,
)
from ha_core.model.parity import Parity
from ha_core.model.provenance import Provenance
from ha_core.model.push_cursor import PushCursor
from ha_core.model.quota import QuotaUse
from ha_core.model.remote_topics import FlowId, RemoteTopicPortion
from ha_core.model.scope import Scope
from ha_core.model.seal import Seal
from ha_core.model.strict_history import StrictHistory
from ha_core.model.topic import Crossing, DeletedRecords, DeletionRequest, Fence, LastSequences, Topic, legal_name
from ha_core.model.usage import Usage, Use
from ha_core.model.view import View
from ha_core.model.waiting_approval import WaitingApproval
