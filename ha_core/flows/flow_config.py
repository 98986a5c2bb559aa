"""A flow, as its file describes it."""

from dataclasses import dataclass
from typing import Literal

from ha_core.flows.filters import NameFilter
from ha_core.flows.policies import ReplicationPolicy
from ha_core.flows.remote_topics import SettingsRule
from ha_core.flows.starts import BeginsAt
from ha_core.flows.topology import FlowRoute
from ha_core.model.isolation import Isolation


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """A flow. Intervals are seconds; None: the work is disabled.

    :ivar begins_at: where partitions begin that the flow finds at its first look.
    :ivar begins_at_group: group of the source whose committed offsets win over that; "": none.
    """

    source: str
    target: str
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    settings: SettingsRule
    replication_factor: int
    refresh_topics_s: int | None
    sync_settings_s: int | None
    sync_acls_s: int | None
    refresh_groups_s: int | None
    checkpoints_s: int | None
    commit_offsets_s: int | None
    heartbeats_s: int | None
    copies_heartbeats: bool
    emits_syncs: bool
    syncs_in: Literal["source", "target"]
    max_lag: int
    heartbeats_replication_factor: int
    checkpoints_replication_factor: int
    syncs_replication_factor: int
    begins_at: BeginsAt
    begins_at_group: str
    isolation: Isolation
    metric_formats: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def route(self) -> FlowRoute:
        return FlowRoute(self.source, self.target, self.policy, self.topics, self.copies_heartbeats)

    @property
    def syncs_topic(self) -> str:
        """Topic of the offset syncs. In the source it is named after the target; in the target, after the source
        (KIP-716)."""
        return self.policy.offset_syncs_topic(self.target if self.syncs_in == "source" else self.source)
