"""Notices that internal topics of a running flow were deleted, or that a cluster was made anew at the same addresses.

A flow makes its internal topics when it starts. From then on it goes by the ids of its clusters, and by what it has
read of these topics. So it has to start again when they are others.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.kafka.admin import Admin
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.mirror_maker.first_look import TOPIC as FIRST_LOOKS
from ha_core.mirror_maker.internal_topics import internal_topics
from ha_core.wire.codes import ErrorCode

_MISSING_S = 10.0
"""A broker that has just started does not know every topic yet."""


@dataclass
class FlowGround:
    """:ivar flow: has started: its internal topics exist."""

    flow: FlowConfig
    source: Admin
    target: Admin
    clock: Callable[[], float] = time.monotonic
    _clusters: dict[str, str] = field(default_factory=dict)
    _topics: dict[tuple[str, str], str] = field(default_factory=dict)
    """(cluster, internal topic) → its id, hexadecimal; "": the brokers have none."""
    _missing_since: dict[tuple[str, str], float] = field(default_factory=dict)

    def changed(self) -> str:
        """Why the flow has to start again; "": its clusters and internal topics are those of the first look.

        :raises KafkaAdminError: a cluster does not answer.
        """
        flow = self.flow
        in_target = [COPIES_LOG, *([FIRST_LOOKS] if flow.begins_at == "latest" else [])]
        for admin, in_source, more in ((self.source, True, ()), (self.target, False, in_target)):
            names = [topic.name for topic in internal_topics(flow) if topic.in_source == in_source]
            if why := self._look(admin, [*names, *more]):
                return why
        return ""

    def _look(self, admin: Admin, names: list[str]) -> str:
        cluster = admin.cluster.name
        answer = admin.asking().metadata(names)
        id_ = answer["cluster_id"] or ""
        if self._clusters.setdefault(cluster, id_) != id_:
            return f"{cluster} was made anew: its cluster id is {id_} now"
        for topic in answer["topics"]:
            if why := self._judge(cluster, topic):
                return why
        return ""

    def _judge(self, cluster: str, topic: Mapping[str, object]) -> str:
        key = cluster, str(topic["name"])
        if topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if key in self._topics and self.clock() - self._missing_since.setdefault(key, self.clock()) >= _MISSING_S:
                return f"its internal topic {key[1]} of {cluster} was deleted"
        elif not topic["error_code"]:
            self._missing_since.pop(key, None)
            id_ = topic["topic_id"]
            assert isinstance(id_, bytes)
            if self._topics.setdefault(key, id_.hex()) != id_.hex():
                return f"its internal topic {key[1]} of {cluster} was deleted and created again"
        return ""
