"""Decides which flow writes a remote topic that several flows of a worker would write.

Invariant: at any time at most one flow of this process copies into a remote topic. Two flows would mix the records of
two source topics, if the identity policy gives both copies the same name.

The flow that comes first in the file writes such a topic, so workers that share the flows choose the same one. A later
flow that already copies into the topic keeps it until it stops: a topic that is created in another source does not end
its copy.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.remote_plan import remote_names
from ha_core.kafka.errors import KafkaAdminError


@dataclass
class RemoteTopicOwners:
    """Knows which flow of this process writes each remote topic; from any thread."""

    _flows: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def owned(self, flow: FlowConfig) -> set[str]:
        with self._lock:
            return {topic for (target, topic), its in self._flows.items() if (target, its) == (flow.target, flow.name)}

    def take(self, flow: FlowConfig, topics: Iterable[str]) -> dict[str, str]:
        """Give these remote topics to the flow if no other flow has them, and free all its others.

        :return: remote topic that another flow has → that flow.
        """
        wanted = {(flow.target, topic) for topic in topics}
        with self._lock:
            for key in [key for key, its in self._flows.items() if its == flow.name and key not in wanted]:
                del self._flows[key]
            for key in wanted:
                self._flows.setdefault(key, flow.name)
            return {topic: its for target, topic in wanted if (its := self._flows[target, topic]) != flow.name}


@dataclass
class OtherWriters:
    """Finds remote topics of a flow that another flow writes.

    :ivar earlier: flows into the same target that come before this one in the file.
    :ivar topics: lists the topics of a cluster, by its alias; raises KafkaAdminError.
    """

    flow: FlowConfig
    owners: RemoteTopicOwners
    earlier: Collection[FlowConfig]
    topics: Callable[[str], Collection[str]]
    _reserved: dict[str, frozenset[str]] = field(default_factory=dict)

    def of(self, remotes: Collection[str]) -> dict[str, str]:
        """Take these remote topics for the flow, except those that another flow writes or will write.

        :return: remote topic of another flow → that flow.
        """
        new = frozenset(remotes) - self.owners.owned(self.flow)
        if new:
            self._ask_for(new)
        reserved = {remote: name for name, its in self._reserved.items() for remote in new & its}
        return reserved | self.owners.take(self.flow, [remote for remote in remotes if remote not in reserved])

    def _ask_for(self, remotes: Collection[str]) -> None:
        for flow in self.earlier:
            # Flows do not wait for an unreachable source: its last known names count.
            with suppress(KafkaAdminError):
                names = remote_names(flow.route, self.topics(flow.source))
                self._reserved[flow.name] = frozenset(remote for _, remote in names if remote in remotes)


def writes_alone(_: Collection[str]) -> Mapping[str, str]:
    """The answer of `OtherWriters.of` for a flow that shares no target with another flow."""
    return {}


def flows_before(flow: FlowConfig, flows: Iterable[FlowConfig]) -> tuple[FlowConfig, ...]:
    """Flows into the same target that come before this one."""
    found = list[FlowConfig]()
    for other in flows:
        if other.name == flow.name:
            break
        if other.target == flow.target:
            found.append(other)
    return tuple(found)
