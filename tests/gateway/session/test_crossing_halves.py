"""A batch of which an earlier term holds the beginning, sent again while the rest is about to cross over."""

from __future__ import annotations

from typing import Any

from gateway.session.commands import Node
from gateway.session.recalled import UNKNOWN_OFFSET
from gateway.session.snapshot import Port
from ha_core.model import Crossing, Extent, LastSequences, Topic
from ha_core.model.producer import upstream_id
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.talk import WEST, Talk
from tests.gateway.session.test_crossing import records
from tests.gateway.session.test_data_path import CLIENT_PID, PRODUCE, entry, produce, produced, state

FIRST, SECOND = 100, 200
"""The cuts: from east to west, and, ahead, back to east."""
DUPLICATE = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def back() -> Any:
    """Partition 0 crosses over from west; 1 stays there."""
    extents = (
        Extent(cluster="east", start=0, end=FIRST, base=0, term=0),
        Extent(cluster="west", start=FIRST, end=SECOND, base=0, term=1),
        Extent(cluster="east", start=SECOND, base=FIRST + 7, term=2),
    )
    topic = Topic(
        name="orders",
        writer="west",
        partitions={0: extents, 1: (extents[0], extents[1].model_copy(update={"end": None}))},
        crossing=Crossing(operation="m-2", state="open", partitions=(0,)),
    )
    known = LastSequences(name="orders", partitions={p: {CLIENT_PID: (0, 3)} for p in (0, 1)}, terms={0: 1, 1: 1})
    return state(topic, sequences=known)


def sent(asked: Any, partition: int = 0) -> tuple[int, int, int]:
    """(producer id, first sequence, records) of what reached a broker."""
    (data,) = (
        one["records"]
        for topic in asked[3]["topic_data"]
        for one in topic["partition_data"]
        if one["index"] == partition
    )
    (batch,) = batches(data, 0, len(data))
    return batch.producer_id, batch.base_sequence, batch.records_count


def test_only_the_rest_of_it_is_written_and_what_of_that_passes_the_cut_follows_to_the_target() -> None:
    # Given a batch of ten records, the first four of which east holds below the first cut
    talk = Talk(back(), Port("west", 1))
    talk.ask(PRODUCE, 9, produce(("orders", 0, records(0, 10))))
    # When west, asked for the other six, takes four of them below the second cut
    (asked,) = talk.asked(WEST)
    assert sent(asked) == (upstream_id(CLIENT_PID, 1), 4, 6)
    talk.answer(WEST, asked, produced(("orders", 0, 0, SECOND - FIRST - 4)))
    # Then the last two are written to east, and the batch, which is in three places, has no one offset
    (leg,) = talk.asked(Node("east", 1, lane=1))
    assert sent(leg) == (upstream_id(CLIENT_PID, 2), 8, 2)
    talk.answer(Node("east", 1, lane=1), leg, produced(("orders", 0, 0, FIRST + 7)))
    talk.wait(0.25)
    (answer,) = talk.answers()
    assert (entry(answer)["error_code"], entry(answer)["base_offset"]) == (DUPLICATE, UNKNOWN_OFFSET)


def test_beside_a_partition_that_crosses_over_another_one_is_written_without_what_is_held() -> None:
    talk = Talk(back(), Port("west", 1))
    body = produce(("orders", 0, records(10, 2)))
    body["topic_data"][0]["partition_data"].append({"index": 1, "records": records(2, 5)})
    talk.ask(PRODUCE, 9, body)
    (asked,) = talk.asked(WEST)
    assert sent(asked, 1)[1:] == (4, 3)
