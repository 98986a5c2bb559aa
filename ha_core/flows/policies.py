"""Replication policies: names of remote topics and of MirrorMaker 2's internal topics (KIP-382, KIP-690, KIP-949).

A policy names copies, and reads from a name where the topic came from. `DefaultPolicy` and `IdentityPolicy` are
Kafka's; `BY_CLASS` finds them by their Java names. An operator's own policy is a class with the methods of
`ReplicationPolicy`, which its package registers as an entry point in the group `switchyard.replication_policies`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

HEARTBEATS = "heartbeats"
_MM2 = "org.apache.kafka.connect.mirror."


class ReplicationPolicy(Protocol):
    """Names the copies of topics in a flow's target."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name in the target of a topic of `source_alias`."""

    def topic_source(self, topic: str) -> str | None:
        """Alias of the cluster from which the last hop copied the topic; None: it is a local topic."""

    def upstream_topic(self, topic: str) -> str | None:
        """The topic's name one hop upstream; None: it is a local topic."""

    def offset_syncs_topic(self, alias: str) -> str: ...

    def checkpoints_topic(self, alias: str) -> str:
        """Topic in the target with the checkpoints of groups of the cluster `alias`."""

    def is_checkpoints_topic(self, topic: str) -> bool: ...

    def is_internal_topic(self, topic: str) -> bool:
        """Whether the topic is internal to Kafka or MirrorMaker, and so never copied."""


@dataclass(frozen=True)
class DefaultPolicy:
    """Remote topics are named `alias.topic`.

    :ivar separator: between alias and topic (`replication.policy.separator`).
    :ivar separates_internal: whether internal topics use that separator, too (`internal.topic.separator.enabled`).
    :ivar like_3_9: whether every topic whose name ends in `-internal` or `.internal` is internal, as in Kafka 3.9.
        Kafka 4 copies users' topics with such names (KIP-1074).
    """

    separator: str = "."
    separates_internal: bool = True
    like_3_9: bool = False

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        alias, separator, rest = topic.partition(self.separator)
        # Kafka splits as Java does, which drops empty parts at the end: `orders.` has no source.
        return alias if separator and rest.replace(self.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self.checkpoints_topic(""))

    def is_internal_topic(self, topic: str) -> bool:
        if topic.startswith(("__", ".")) or self.is_checkpoints_topic(topic):
            return True
        suffix = f"{self._internal}internal"
        if self.like_3_9:
            return topic.endswith((suffix, "-internal", ".internal"))
        return topic.startswith("mm2") and topic.endswith(suffix)

    @property
    def _internal(self) -> str:
        return self.separator if self.separates_internal else "."


@dataclass(frozen=True)
class IdentityPolicy(DefaultPolicy):
    """Remote topics have the names of their source topics, except heartbeats, whose names show their path.

    :ivar source_alias: source of every remote topic (`source.cluster.alias`), since names do not show it; None: the
        source of remote topics is unknown.
    """

    source_alias: str | None = None

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return super().format_remote_topic(source_alias, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if topic.endswith(HEARTBEATS) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if topic.endswith(HEARTBEATS) else topic


BuildPolicy = Callable[[str, bool, bool, str | None], ReplicationPolicy]
"""(separator, separates internal topics, like 3.9, alias of the source) → policy."""
BY_CLASS: dict[str, BuildPolicy] = {
    f"{_MM2}DefaultReplicationPolicy": lambda separator, internal, like_3_9, _alias: DefaultPolicy(
        separator, internal, like_3_9
    ),
    f"{_MM2}IdentityReplicationPolicy": IdentityPolicy,
    # KIP-382's name for the policy that keeps names, as MirrorMaker 1 did; Kafka ships it under the name above.
    f"{_MM2}LegacyReplicationPolicy": IdentityPolicy,
}
"""`replication.policy.class` → policy."""


def hops(policy: ReplicationPolicy, topic: str) -> Iterator[tuple[str, str]]:
    """Yields (alias of the source, name of the topic there) for each hop upstream, the last hop first.

    Ends before an alias repeats: a policy that keeps names would otherwise yield for ever.
    """
    seen: set[str] = set()
    while (source := policy.topic_source(topic)) is not None and source not in seen:
        upstream = policy.upstream_topic(topic)
        if upstream is None:
            return
        yield source, upstream
        seen.add(source)
        topic = upstream


def original_topic(policy: ReplicationPolicy, topic: str) -> str:
    """The topic's name in the cluster whose producers write it; a local topic's own name."""
    for _, upstream in hops(policy, topic):
        topic = upstream
    return topic


def is_heartbeats_topic(policy: ReplicationPolicy, topic: str) -> bool:
    return original_topic(policy, topic) == HEARTBEATS


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether the topic has already been in the target, so that copying it there would never end."""
    return any(source == target_alias for source, _ in hops(policy, topic))
