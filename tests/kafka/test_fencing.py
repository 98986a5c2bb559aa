"""Takeovers when the epochs of a producer id are used up. Real coordinators take minutes to get there."""

import time
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, NotReadyError
from ha_core.kafka.fencing import LAST_EPOCH, fence_all
from ha_core.kafka.security import NO_SECURITY
from ha_core.mirror.progress import Writer
from ha_core.model import Cluster
from ha_core.wire.codec import decode
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.kafka.scripted_broker import answered, broker, header_of, listening

VERSIONS = {
    ApiKey.METADATA: (0, 12),
    ApiKey.FIND_COORDINATOR: (0, 3),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.END_TXN: (0, 3),
}
COPY = ("orders", 0)


class Coordinator:
    """Like Kafka's: after the last epoch it assigns another producer id.

    :ivar busy: how often it is still busy with the previous transaction.
    :ivar added: how often partitions were added to a transaction.
    :ivar ended: the producers whose markers were written.
    :ivar stuck: transactional ids whose markers cannot be written.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.busy = self.added = 0
        self.ended = list[Writer]()
        self.stuck = set[str]()
        self.port = -1

    def answer(self, frame: bytes) -> bytes:
        header = header_of(frame)
        api = ApiKey(header.api_key)
        request = decode(api, header.api_version, "request", frame, header.body_at)
        return answered(frame, self._said(api, request))

    def _said(self, api: ApiKey, request: dict[str, Any]) -> dict[str, Any]:
        here = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
        if api == ApiKey.METADATA:
            return {"brokers": [here], "topics": []}
        if api == ApiKey.FIND_COORDINATOR:
            return here | {"error_code": 0, "error_message": None}
        if api == ApiKey.INIT_PRODUCER_ID:
            id_, epoch = self.writer
            self.writer = Writer(id_, epoch + 1) if epoch < LAST_EPOCH else Writer(id_ + 1, 0)
            return {"error_code": 0, "producer_id": self.writer.producer_id, "producer_epoch": self.writer.epoch}
        if api == ApiKey.ADD_PARTITIONS_TO_TXN:
            code, self.busy = (ErrorCode.CONCURRENT_TRANSACTIONS, self.busy - 1) if self.busy else (0, 0)
            added = [
                {
                    "name": topic["name"],
                    "results_by_partition": [
                        {"partition_index": at, "partition_error_code": code} for at in topic["partitions"]
                    ],
                }
                for topic in request["topics"]
            ]
            self.added += not code
            return {"results_by_topic": added}
        if request["transactional_id"] in self.stuck:
            return {"error_code": ErrorCode.CONCURRENT_TRANSACTIONS}
        self.ended.append(Writer(request["producer_id"], request["producer_epoch"]))
        return {"error_code": 0}


def fenced(coordinator: Coordinator, *names: str) -> dict[str, Writer | KafkaAdminError]:
    """The new writer of each transactional id, or why it has none."""
    answer = broker(VERSIONS, coordinator.answer)
    # Each serves one connection: one finds the coordinator, the other one is the coordinator.
    with listening(answer) as coordinator.port, listening(answer) as bootstrap:
        cluster = Cluster(name="west", bootstrap=f"127.0.0.1:{bootstrap}")
        with Admin(cluster, NO_SECURITY) as west:
            return fence_all(west.asking(10), dict.fromkeys(names, (COPY,)))


def taken_over(coordinator: Coordinator) -> Writer:
    """The new writer."""
    writer = fenced(coordinator, "copier")["copier"]
    assert isinstance(writer, Writer)
    return writer


def test_takeover_skips_the_last_epoch_after_fencing_with_it() -> None:
    # Given a copier whose successor has the last epoch of their producer id
    coordinator = Coordinator(Writer(7, LAST_EPOCH - 1))
    # When it is taken over
    writer = taken_over(coordinator)
    # Then the markers of both are written, and the writer is one that can be fenced again
    assert writer == Writer(8, 0)
    assert list(dict.fromkeys(coordinator.ended)) == [Writer(7, LAST_EPOCH), Writer(8, 0)]


def test_adding_partitions_is_retried_while_the_coordinator_is_busy() -> None:
    # Given a coordinator that is still busy with the transaction before
    coordinator = Coordinator(Writer(7, 3))
    coordinator.busy = 2
    # When a copy is taken over, then its marker is written to it, by the next epoch
    assert taken_over(coordinator) == Writer(7, 4)
    assert coordinator.added == 1
    assert set(coordinator.ended) == {Writer(7, 4)}


def test_ids_whose_markers_cannot_be_written_do_not_keep_others_waiting() -> None:
    # Given a coordinator that cannot write the markers of some transactions
    coordinator = Coordinator(Writer(7, 0))
    coordinator.stuck = {"copier-3", "copier-97"}
    names = [f"copier-{number}" for number in range(200)]
    # When many are fenced at once
    begun = time.monotonic()
    found = fenced(coordinator, *names)
    # Then all others have a writer of their own soon, and these have the reason
    assert time.monotonic() - begun < 8.0
    stuck = {name: one for name, one in found.items() if isinstance(one, KafkaAdminError)}
    assert stuck.keys() == coordinator.stuck
    assert all(isinstance(one, NotReadyError) and "markers are not written yet" in str(one) for one in stuck.values())
    assert len({one for one in found.values() if isinstance(one, Writer)}) == 198
    assert list(found) == names
