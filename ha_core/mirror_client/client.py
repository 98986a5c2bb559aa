"""Reads MirrorMaker 2's internal topics in one cluster, by librdkafka."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows import reach
from ha_core.flows.errors import FlowError, MirrorClientError
from ha_core.flows.policies import HEARTBEATS, DefaultPolicy, ReplicationPolicy
from ha_core.flows.records import Checkpoint, Heartbeat, OffsetSync
from ha_core.mirror_client.reading import stops_reading
from ha_core.model.linear_pattern import LinearPattern

Record = TypeVar("Record", Heartbeat, Checkpoint, OffsetSync)
Groups = str | LinearPattern | Iterable[str]
_TIMEOUT_S = 30.0
_POLL_S = 0.2


class TranslatedPosition(NamedTuple):
    """An offset of a group, translated to this cluster.

    :ivar offset: next offset that the group reads in this cluster.
    """

    offset: int
    metadata: str


class MirrorClient:
    """Answers questions about one cluster. Each call asks the cluster; nothing is cached."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        policy: ReplicationPolicy | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """
        :param properties: librdkafka's properties for the cluster (`bootstrap.servers`, `security.protocol`, …).
            `java_properties` makes them from a Java client's properties.
        :param policy: the flows' replication policy; None: `DefaultPolicy`.
        :param timeout_s: limit of each call, in seconds.
        """
        self.policy = policy or DefaultPolicy()
        self._timeout_s = timeout_s
        # Markers are no messages. Without EOF events, reads would wait in vain for markers at the end of a log.
        fixed = {"enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
        self._consumer = Consumer({"group.id": "switchyard-mirror-client", "log_level": 3} | dict(properties) | fixed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def heartbeat_topics(self) -> set[str]:
        return reach.heartbeat_topics(self.policy, self._topics())

    def checkpoint_topics(self) -> set[str]:
        return reach.checkpoint_topics(self.policy, self._topics())

    def upstream_clusters(self) -> set[str]:
        """Aliases of clusters whose heartbeats reach this one, over any number of hops."""
        return reach.upstream_clusters(self.policy, self._topics())

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Topics that are copies from other clusters, or only those that the last hop copied from `source`."""
        return reach.remote_topics(self.policy, self._topics(), source)

    def replication_hops(self, upstream_alias: str) -> int:
        """Smallest number of hops from a cluster to this one; -1: its heartbeats do not reach this one."""
        return reach.replication_hops(self.policy, self._topics(), upstream_alias)

    def remote_consumer_offsets(
        self, groups: Groups, remote_alias: str
    ) -> dict[str, dict[tuple[str, int], TranslatedPosition]]:
        """Offsets in this cluster at which groups of another cluster resume, from their last checkpoints (KIP-1239).

        :param groups: a name, several names, or a pattern that must match the whole name.
        :returns: group → (topic here, partition) → offset; groups without a checkpoint are missing.
        """
        chosen = _chosen(groups)
        positions: dict[str, dict[tuple[str, int], TranslatedPosition]] = {}
        for checkpoint in self.checkpoints(remote_alias):
            if chosen(checkpoint.group):
                its = positions.setdefault(checkpoint.group, {})
                its[checkpoint.topic, checkpoint.partition] = TranslatedPosition(
                    checkpoint.downstream_offset, checkpoint.metadata
                )
        return positions

    def translate_offsets(self, remote_alias: str, group: str) -> dict[tuple[str, int], TranslatedPosition]:
        """`remote_consumer_offsets` of one group, like `RemoteClusterUtils.translateOffsets`."""
        return self.remote_consumer_offsets(group, remote_alias).get(group, {})

    def checkpoints(self, remote_alias: str) -> list[Checkpoint]:
        """All checkpoints of groups of a cluster, in log order; later ones replace earlier ones."""
        return list(self._records(self.policy.checkpoints_topic(remote_alias), Checkpoint))

    def heartbeats(self, topic: str = HEARTBEATS) -> list[Heartbeat]:
        """All heartbeats in one of `heartbeat_topics`, in log order."""
        return list(self._records(topic, Heartbeat))

    def last_heartbeats(self, topic: str = HEARTBEATS, count: int = 100) -> list[Heartbeat]:
        """The newest heartbeats in one of `heartbeat_topics`: those at the last `count` offsets."""
        return list(self._records(topic, Heartbeat, last=count))

    def offset_syncs(self, alias: str) -> list[OffsetSync]:
        """All offset syncs between this cluster and another one, in log order."""
        return list(self._records(self.policy.offset_syncs_topic(alias), OffsetSync))

    def _topics(self) -> set[str]:
        try:
            return set(self._consumer.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as error:
            raise MirrorClientError(f"the topics cannot be listed: {error.args[0].str()}") from None

    def _exists(self, topic: str) -> bool:
        """Asks for this topic alone: a cluster may have thousands."""
        try:
            error = self._consumer.list_topics(topic, timeout=self._timeout_s).topics[topic].error
        except KafkaException as failed:
            raise MirrorClientError(f"the topics cannot be listed: {failed.args[0].str()}") from None
        return error is None or error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART

    def _records(self, topic: str, kind: type[Record], last: int | None = None) -> Iterator[Record]:
        """Yields the records of partition 0 up to its current end. Like Kafka's client it leaves out records of another
        kind.

        :param last: read only so many of the last offsets; None: all.
        :raises MirrorClientError: the topic does not exist, or its end is not reached in time.
        """
        deadline = time.monotonic() + self._timeout_s
        if not self._exists(topic):
            raise MirrorClientError(
                f"topic {topic} does not exist: no flow has written it, or the flow has another replication policy"
            )
        partition = TopicPartition(topic, 0)
        try:
            start, end = self._consumer.get_watermark_offsets(partition, timeout=self._timeout_s)
            if last is not None:
                start = max(start, end - last)
            partition.offset = start
            self._consumer.assign([partition])
            while start < end:
                if time.monotonic() > deadline:
                    raise MirrorClientError(f"topic {topic} was not read to its end in {self._timeout_s:.0f} s")
                message = self._consumer.poll(_POLL_S)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    if stops_reading(error):
                        raise MirrorClientError(f"topic {topic} cannot be read: {error.str()}")
                    continue
                start = int(message.offset() or 0) + 1
                if start > end:
                    return
                try:
                    yield kind.decode(message.key(), message.value())
                except FlowError:
                    continue
        except KafkaException as error:
            raise MirrorClientError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
        finally:
            self._consumer.unassign()


def _chosen(groups: Groups) -> Callable[[str], bool]:
    if isinstance(groups, str):
        return groups.__eq__
    if isinstance(groups, LinearPattern):
        return groups.matches
    names = frozenset(groups)
    return names.__contains__
