"""Finding a batch in the logs of earlier writer epochs, by its timestamp first, in a bounded number of bytes."""

from typing import Any

import pytest

from gateway.composed.ask import Ask, ClusterUnavailableError, Reply
from gateway.composed.duplicate_lookup import MAX_FETCHES, TAIL, recall
from gateway.session.produce.duplicate_offsets import EarlierBatch
from ha_core.model import Extent
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.playbook import only_partition
from tests.gateway.session.batch import batch

PRODUCER = FIRST_CLIENT_ID + 5


class Log:
    """One partition in one cluster: batches of ten records, one fetch returns two of them."""

    def __init__(self, start: int, end: int, found: dict[int, bytes]) -> None:
        self.start = start
        self.end = end
        self.found = found
        self.by_time = -1
        self.fetches = 0
        self.away = False

    def answer(self, ask: Ask) -> Reply:
        if self.away:
            return ClusterUnavailableError(ask.cluster, "away")
        if ask.api_key == ApiKey.LIST_OFFSETS:
            assert only_partition(ask.message)["timestamp"] == 1234
            entry = {"partition_index": 3, "error_code": 0, "offset": self.by_time, "timestamp": -1}
            return {"topics": [{"name": "orders", "partitions": [entry]}]}
        self.fetches += 1
        at = only_partition(ask.message)["fetch_offset"]
        part: dict[str, Any] = {"partition_index": 3, "error_code": 0, "records": b""}
        if not self.start <= at <= self.end:
            part["error_code"] = int(ErrorCode.OFFSET_OUT_OF_RANGE)
        for base in range(at - at % 10, min(self.end, at + 20), 10):
            part["records"] += self.found.get(base) or batch(base, count=10)
        return {"error_code": 0, "responses": [{"topic": "orders", "partitions": [part]}]}


def wanted(sequence: int = 40) -> EarlierBatch:
    return EarlierBatch(b"orders", 3, PRODUCER, 0, sequence, 10, 1234)


def written(base: int, writer_epoch: int, sequence: int = 40) -> dict[int, bytes]:
    return {base: batch(base, count=10, producer_id=upstream_id(PRODUCER, writer_epoch), epoch=0, sequence=sequence)}


EAST, WEST = (
    Extent(cluster="east", start=0, end=500, base=100, writer_epoch=0),
    Extent(cluster="west", start=500, end=900, base=0, writer_epoch=1),
)


def run(stays: tuple[Extent, ...], **logs: Log) -> int | None:
    steps = recall(wanted(), stays, lambda cluster: 1 if cluster in logs else None)
    replies: Any = None
    while True:
        try:
            asks = steps.send(replies)
        except StopIteration as done:
            found: int | None = done.value
            return found
        replies = [logs[ask.cluster].answer(ask) for ask in asks]


def test_a_batch_is_found_by_its_timestamp_at_its_client_offset() -> None:
    log = Log(0, 600, written(430, 0))
    log.by_time = 400
    assert run((EAST,), east=log) == 330
    assert log.fetches == 2


@pytest.mark.parametrize("by_time", [-1, 550, 100])
def test_a_batch_is_found_despite_a_misleading_timestamp(by_time: int) -> None:
    log = Log(0, 600, written(330, 0))
    log.by_time = by_time
    assert run((EAST,), east=log) == 230


def test_earlier_writer_epochs_are_searched_too() -> None:
    west, east = Log(0, 400, {}), Log(0, 600, written(590, 0))
    west.by_time, east.by_time = 390, 580
    assert run((EAST, WEST), west=west, east=east) == 490


def test_batches_of_other_producers_or_writer_epochs_or_above_the_cut_do_not_match() -> None:
    west = Log(0, 420, written(100, 0) | written(110, 1, 41) | written(400, 1))
    assert run((WEST,), west=west) is None


def test_a_search_for_a_batch_ends_after_its_bound() -> None:
    long = Extent(cluster="east", start=0, end=3 * TAIL, base=0, writer_epoch=0)
    log = Log(0, 3 * TAIL, written(0, 0))
    log.by_time = 20
    assert run((long,), east=log) is None
    assert log.fetches == MAX_FETCHES


def test_a_log_that_retention_has_shortened_is_searched_no_further() -> None:
    log = Log(700, 800, {})
    log.by_time = 150
    assert run((EAST,), east=log) is None


def test_a_batch_is_neither_found_nor_missing_while_its_cluster_is_unreachable() -> None:
    log = Log(0, 600, written(430, 0))
    log.away = True
    with pytest.raises(ClusterUnavailableError):
        run((EAST,), east=log)
    with pytest.raises(ClusterUnavailableError):
        run((EAST,))


class Forgetful(Log):
    def answer(self, ask: Ask) -> Reply:
        return {"topics": []}


def test_an_answer_without_the_partition_makes_the_client_retry() -> None:
    # Given a broker that leaves the partition out of its answer about timestamps
    log = Forgetful(0, 600, written(430, 0))
    # When it is asked, then the client has to retry
    with pytest.raises(ClusterUnavailableError):
        run((EAST,), east=log)
