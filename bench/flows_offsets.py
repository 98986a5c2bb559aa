"""What groups are given in the target at translated offsets: by checkpoints, by offset syncs, by the copiers' notes."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from bench.ground import BenchError
from ha_core.flows.translation import SyncStore, Translated, Untranslated
from ha_core.mirror_client import MirrorClient, exact_maps

HISTORY = "history"
"""The topic that groups read: one partition with many records. The value of each is its source offset."""
EXACT = "exact map"
_READ_AT_ONCE, _READ_S = 10_000, 300.0


class Given(NamedTuple):
    """Numbers of records that a group is given a second time, and that it is never given."""

    twice: int
    never: int


def given(values: Sequence[int], committed: int, records: int) -> Given:
    """
    :param values: source offsets of the records that the group is given.
    """
    new = {value for value in values if value >= committed}
    return Given(len(values) - len(new), records - committed - len(new))


def offsets(
    flow: tuple[str, str], clusters: tuple[str, str], records: int, back: Sequence[int], noted: bool
) -> dict[str, Given | None]:
    """Way and distance → what a group is given; None: its offset is not translated.

    :param flow: aliases of source and target.
    :param clusters: their addresses.
    :param noted: whether our copiers keep notes of the copy.
    """
    (alias, target_alias), (source, target) = flow, clusters
    remote = f"{alias}.{HISTORY}"
    found: dict[str, Given | None] = {}
    with MirrorClient({"bootstrap.servers": target}) as client:
        for distance in back:
            position = client.translate_offsets(alias, f"back-{distance}").get((remote, 0))
            found[f"checkpoint, {distance} back"] = (
                None if position is None else _given(target, remote, position.offset, records - distance, records)
            )
    with MirrorClient({"bootstrap.servers": source}) as client:
        store = SyncStore()
        for sync in client.offset_syncs(target_alias):
            store.add(sync)
    exact = exact_maps({"bootstrap.servers": target}, f"{alias}->{target_alias}", [(remote, 0)]).get((remote, 0))
    for distance in back:
        committed = records - distance
        translated = {"offset syncs": store.translate(HISTORY, 0, committed)}
        if noted:
            translated[EXACT] = Untranslated("it has no notes") if exact is None else exact.translate(committed)
        for way, one in translated.items():
            found[f"{way}, {distance} back"] = (
                _given(target, remote, one.offset, committed, records) if isinstance(one, Translated) else None
            )
    return found


def _given(target: str, remote: str, offset: int, committed: int, records: int) -> Given:
    """Read the copy from an offset to its end, as a group would.

    :param committed: next offset that the group reads in the source.
    """
    settings = {"bootstrap.servers": target, "group.id": "bench", "enable.partition.eof": True, "log_level": 3}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    values = list[int]()
    try:
        consumer.assign([TopicPartition(remote, 0, offset)])
        deadline = time.monotonic() + _READ_S
        while time.monotonic() < deadline:
            for message in consumer.consume(_READ_AT_ONCE, 1.0):
                if (error := message.error()) is None:
                    values.append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return given(values, committed, records)
                else:
                    raise BenchError(f"{remote} cannot be read from offset {offset}: {error}")
    finally:
        consumer.close()
    raise BenchError(f"{remote} was not read from offset {offset} to its end")
