"""Plain consumers of a cluster's log, and topics whose copies have other offsets than their sources."""

import uuid
from typing import NamedTuple

from confluent_kafka import OFFSET_STORED, Consumer, Producer, TopicPartition

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.pair import Synced
from ha_core.operations.copies.syncing.passes import sync
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from tests.kafka.mirroring import caught_up, copying, wait_until
from tests.kit.moving import linked
from tests.operations.real_clusters import at


class Read(NamedTuple):
    offset: int
    value: bytes


def copy_now(environment: Environment, topic: str, partitions: int = 1) -> None:
    """A copier takes over, copies all that the source has, and ends."""
    mirror = environment.store.load().mirrors[f"{topic}@west"]
    here, there = admin_of(environment, "east"), admin_of(environment, "west")
    ensure_copy_log(there, mirror.log, mirror.log_partitions)
    ends = {key: found.last_stable for key, found in here.ends([(topic, p) for p in range(partitions)]).items()}
    with copying(here, there, copies_of(mirror, partitions), starts={}) as job:
        wait_until(lambda: caught_up(job, ends), job.statuses)


def read(environment: Environment, cluster: str, topic: str, group: str | None = None) -> list[Read]:
    """Committed records of partition 0 that a plain consumer gets: from the beginning, or from the group's commit on.

    :raises AssertionError: the group's commit is out of the log's range.
    """
    settings = {"group.id": group or "reader", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({**at(environment, cluster), **settings, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0 if group is None else OFFSET_STORED)])
    found: list[Read] = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.name() == "_PARTITION_EOF", error
                return found
            found.append(Read(message.offset() or 0, message.value() or b""))
    finally:
        consumer.close()


def write(environment: Environment, topic: str, values: list[str], keys: list[str] | None = None) -> None:
    producer = Producer({**at(environment, "east"), "log_level": 3})
    for value, key in zip(values, keys or values, strict=True):
        producer.produce(topic, value.encode(), key.encode(), partition=0)
    assert producer.flush(30) == 0


def in_transaction(environment: Environment, topic: str, values: list[str], *, aborts: bool) -> None:
    producer = Producer({**at(environment, "east"), "transactional.id": f"{topic}-{uuid.uuid4().hex}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.flush(30)
    producer.abort_transaction(30) if aborts else producer.commit_transaction(30)


def commit(environment: Environment, cluster: str, group: str, topic: str, offset: int) -> None:
    admin_of(environment, cluster).set_group_offsets(group, {(topic, 0): (offset, "m")})


def committed(environment: Environment, cluster: str, group: str, topic: str) -> int | None:
    found = admin_of(environment, cluster).group_offsets([group])[group].get((topic, 0))
    return None if found is None else found[0]


def synced(environment: Environment, topic: str, memory: Memory, route: tuple[str, str] = ("east", "west")) -> Synced:
    source, target = route
    clusters = admin_of(environment, source), admin_of(environment, target)
    return sync(environment.store, clusters, "groups", environment.now(), memory, [topic])


def created(environment: Environment, config: dict[str, str] | None = None) -> str:
    name = f"direct-{uuid.uuid4().hex[:8]}"
    admin_of(environment, "east").create_topics([TopicSpec(name, 1, 1, config or {})])
    return name


def transactional(environment: Environment) -> str:
    """Committed and aborted transactions, with their markers, in runs of a few records."""
    topic = created(environment)
    linked(environment, topic)
    for turn in range(6):
        in_transaction(environment, topic, [f"t{turn}-{n}" for n in range(3)], aborts=turn % 3 == 1)
        if turn == 3:
            copy_now(environment, topic)
    copy_now(environment, topic)
    return topic


def taken_over(environment: Environment) -> str:
    """Five copiers, one after the other, each with its marker in the copy."""
    topic = created(environment)
    linked(environment, topic)
    for turn in range(5):
        write(environment, topic, [f"o{turn}-{n}" for n in range(7)])
        copy_now(environment, topic)
    return topic
