"""The topic in which a real MirrorMaker 2 keeps how far it has copied (`mm2-offsets.A.internal`), read and written."""

from collections.abc import Mapping
from typing import Any, NewType

from confluent_kafka import Producer

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.plan.facts.clusters import Partition

OffsetsProducer = NewType("OffsetsProducer", Producer)
"""A producer that partitions keys as Java's does. Records of one key in two partitions have no order."""


def offsets_producer(settings: Mapping[str, Any]) -> OffsetsProducer:
    """:param settings: of librdkafka, for the target."""
    raise NotImplementedError


def ensure_offsets_topic(target: Admin, state: ConnectState, partitions: int = 25, replication: int = 3) -> None:
    """Creates the topic as Connect does, if it is missing.

    :raises StandsInTheWayError: it exists and is not compacted, with which Connect would not start.
    """
    raise NotImplementedError


def read_source_offsets(
    settings: Mapping[str, Any], state: ConnectState, timeout_s: float = 60.0
) -> dict[Partition, int]:
    """Partition of the source → offset of the last record that MirrorMaker 2 knows as copied.

    :param settings: of librdkafka, for the target.
    :return: empty if the topic does not exist.
    :raises HandoverError: the topic cannot be read to its end.
    """
    raise NotImplementedError


def write_source_offsets(
    producer: OffsetsProducer, state: ConnectState, next_offsets: Mapping[Partition, int], timeout_s: float = 30.0
) -> dict[Partition, int]:
    """Makes a real MirrorMaker 2 go on at these source offsets. All replicas in sync have them when it returns.

    :param next_offsets: partition of the source → offset below which the target has acknowledged everything:
        `CopyStatus.source` of a running loop, `Reached.source` of an ended one. Unknown ones are left out.
    :return: offsets as written, of the last copied records.
    :raises HandoverError: the target does not acknowledge them.
    """
    raise NotImplementedError
