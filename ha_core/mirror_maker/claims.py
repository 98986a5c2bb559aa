"""Claims the topics that only this flow writes in the target: gateways keep clients from writing to them.

A topic that the flow creates is claimed before its creation. An existing topic is claimed once this worker copies into
it: until then it may be a topic of local producers, which a claim would cut off.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.policies import HEARTBEATS
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.mirror_maker.internal_topics import internal_topics
from ha_core.model import FlowId
from ha_core.store.remote_topics import FlowTopics

RENEWED_S = 60.0
"""Seconds after which a worker writes all its claims again, in case the state was restored from a backup."""


@dataclass
class RemoteTopicClaims:
    """:ivar write: stores claims for gateways; without ZooKeeper it stores nothing."""

    flow: FlowConfig
    id: FlowId
    write: Callable[[FlowTopics], None]
    clock: Callable[[], float]
    _claimed: dict[str, str] = field(default_factory=dict)
    _written_at: float = 0.0

    def claim(self, topics: Mapping[str, str]) -> None:
        """Claim topics; returns once they are claimed.

        :param topics: remote topic → topic of the source; "": an internal topic of the flow.
        :raises StoreError: ZooKeeper cannot be asked, so the topics must not be created yet.
        """
        # Gateways recognise clusters by their ids, so a claim in a cluster without an id is of no use.
        if self.id.target_id and not topics.keys() <= self._claimed.keys():
            self._write({**self._claimed, **topics})

    def claim_internal(self) -> None:
        """Claim the flow's internal topics except heartbeats, which other flows write, too."""
        own = [topic.name for topic in internal_topics(self.flow) if not topic.in_source and topic.name != HEARTBEATS]
        self.claim(dict.fromkeys([*own, COPIES_LOG], ""))

    def claim_copied(self, topics: Mapping[str, str]) -> None:
        """Claim the topics into which this worker copies now. After `RENEWED_S`, write all claims again.

        :raises StoreError: ZooKeeper cannot be asked.
        """
        self.claim(topics)
        if self._claimed and self.clock() - self._written_at >= RENEWED_S:
            self._write(self._claimed)

    def _write(self, topics: dict[str, str]) -> None:
        self.write(FlowTopics(self.id, topics, readers_of_source=self.flow.sync_acls_s is not None))
        self._claimed, self._written_at = topics, self.clock()
