"""Fences earlier copiers: an empty aborted transaction carries a new epoch to the leaders.

END_TXN is answered before the markers are written, and only the marker fences. A coordinator repeats a marker until it
knows that it was written, so it may be written twice: a second marker between appended batches would look like the end
of the copy. So END_TXN is sent again until the coordinator reports the transaction as completed.

After the last epoch the coordinator assigns another producer id, whose marker does not fence the old id. So no copier
appends in the last epoch: its marker fences earlier epochs, and the takeover is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ha_core.kafka.brokers import Again, Answers, Asking
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror.progress import Writer
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode

LAST_EPOCH = (1 << 15) - 2
"""The last epoch that INIT_PRODUCER_ID assigns for a producer id."""
_TRANSACTION = 1
"""Key type of FIND_COORDINATOR."""
_TIMEOUT_MS = 60_000
"""Then the coordinator ends the transaction of a stalled copier, and fences it as a successor would."""
_ADD, _END, _INIT = 3, 3, 4
"""Versions before KIP-890, where transactions begin and end implicitly."""
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}


class TakenOverError(KafkaAdminError):
    """Another copier has taken the partition over: this one stops, without a fault."""


def fence(asking: Asking, name: str, partitions: tuple[Partition, ...]) -> Writer:
    """Makes brokers refuse all earlier writers to these partitions with the transactional id `name`.

    :raises TakenOverError: another process fenced later.
    :raises NotReadyError: markers cannot be written, for example because too few replicas are in sync.
    """
    writer = _fence(asking, name, partitions)
    return writer if writer.epoch < LAST_EPOCH else _fence(asking, name, partitions)


def _fence(asking: Asking, name: str, partitions: tuple[Partition, ...]) -> Writer:
    begin = {"transactional_id": name, "transaction_timeout_ms": _TIMEOUT_MS}
    started = _at_coordinator(asking, name, ApiKey.INIT_PRODUCER_ID, begin, _INIT)
    begun = time.monotonic()
    writer = Writer(started["producer_id"], started["producer_epoch"])
    mine = {"transactional_id": name, "producer_id": writer.producer_id, "producer_epoch": writer.epoch}
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    added = [{"name": topic, "partitions": several} for topic, several in topics.items()]
    try:
        _at_coordinator(asking, name, ApiKey.ADD_PARTITIONS_TO_TXN, {**mine, "topics": added}, _ADD)
        for _ in ("begins to end", "has ended"):
            _at_coordinator(asking, name, ApiKey.END_TXN, {**mine, "committed": False}, _END)
    except TakenOverError as error:
        if time.monotonic() - begun < _TIMEOUT_MS / 2000:
            raise
        raise KafkaAdminError(asking.cluster, f"{name} stood still in the middle of a take-over.") from error
    return writer


def _at_coordinator(asking: Asking, name: str, api: ApiKey, message: Mapping[str, Any], most: int) -> dict[str, Any]:
    what = f"take over {name} ({api.name})"

    def locate(_: set[str]) -> Answers[str, int]:
        found = asking.call(None, ApiKey.FIND_COORDINATOR, {"key": name, "key_type": _TRANSACTION}, 3)
        if again := asking.again(f"find the coordinator of {name}", found["error_code"], found["error_message"]):
            yield name, again
            return
        if found["node_id"] not in asking.nodes:
            asking.metadata()
        yield name, found["node_id"]

    def ask(node: int, _: list[str]) -> Answers[str, dict[str, Any]]:
        answer = asking.call(node, api, message, most)
        parts = [part for topic in answer.get("results_by_topic", ()) for part in topic["results_by_partition"]]
        codes = {part["partition_error_code"] for part in parts}
        codes = (codes | {answer.get("error_code", 0)}) - {ErrorCode.OPERATION_NOT_ATTEMPTED, 0} or {0}
        for code in sorted(codes):
            if code in _FENCED:
                raise TakenOverError(asking.cluster, f"{name} was taken over by a later copier.")
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                yield name, Again("markers are not written yet; are enough replicas in sync?")
                return
            if again := asking.again(what, code):
                yield name, again
                return
        yield name, answer

    return asking.rounds(what, [name], locate, ask)[name]
