"""Produce with a cut ahead: cut 100, and the target's log begins at 7."""

from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from gateway.session.commands import BrokerLane
from ha_core.model import Crossing, Extent, LastSequences, Topic
from ha_core.wire import ErrorCode
from ha_core.wire.records import Batch, batches
from tests.gateway.session.messages import (
    CLIENT_PID,
    PRODUCE,
    entry,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import EAST, Talk

CUT, BASE = 100, 7
RAISED = 500
TARGET_LANE = BrokerLane("west", 1, lane=1)
REFUSED, TAKEN = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0
SCOPE = frozenset({b"orders"}), frozenset[bytes]()


def topic(crossing: str | None = "open", **fields: Any) -> Topic:
    fields.setdefault("writer", "west" if crossing is None else "east")
    return Topic(
        name="orders",
        partitions={
            0: (
                Extent(cluster="east", start=0, end=CUT, base=0, writer_epoch=0),
                Extent(cluster="west", start=CUT, base=BASE, writer_epoch=1),
            )
        },
        crossing=None if crossing is None else Crossing(operation="m-1", state=crossing),  # type: ignore[arg-type]
        **fields,
    )


def settled(revision: int = 2, last: int | None = None) -> Any:
    known = {} if last is None else {0: {CLIENT_PID: (0, last)}}
    return state(topic(None), sequences=LastSequences(name="orders", partitions=known, terms={0: 1}), revision=revision)


def records(sequence: int, count: int = 1, codec: int = 0, producer_id: int = CLIENT_PID) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, producer_id, 0 if producer_id >= 0 else -1, sequence, 1 << 20)
    for number in range(count):
        builder.append(number, 1_700_000_000_000, None, b"value %d of %d" % (sequence + number, count), [])
    return bytes(builder.build())


def ask(talk: Talk, data: bytes, acks: int = -1) -> None:
    talk.ask(PRODUCE, 9, produce(("orders", 0, data), acks=acks))


def arrived(talk: Talk, node: Any) -> list[tuple[Any, Batch]]:
    """(request, its one batch) of everything that reached a broker since the last call."""
    found = []
    for asked in talk.asked(node):
        data = asked.records
        (batch,) = batches(data, 0, len(data))
        found.append((asked, batch))
    return found


def answer(talk: Talk, node: Any, asked: Any, offset: int, error: int = 0) -> None:
    talk.answer(node, asked, produced(("orders", 0, error, offset)))


def sent(talk: Talk, data: bytes, acks: int = -1) -> Any:
    """A request with one batch, as the origin gets it."""
    ask(talk, data, acks)
    ((asked, _),) = arrived(talk, EAST)
    return asked


def outcome(talk: Talk) -> list[tuple[int, int]]:
    """(error, client offset) of every request answered since the last call."""
    talk.wait(0.25)
    return [(e["error_code"], e["base_offset"]) for e in map(entry, talk.answers())]


def told(talk: Talk, node: Any, asked: Any, offset: int, error: int = 0) -> list[tuple[int, int]]:
    """The outcome for the client when a broker answers."""
    answer(talk, node, asked, offset, error)
    return outcome(talk)


def answers(talk: Talk, node: Any, offset: int, error: int = 0) -> None:
    """A broker answers the only request that has reached it since the last call."""
    ((asked, _),) = arrived(talk, node)
    answer(talk, node, asked, offset, error)


def takes(talk: Talk, node: Any, offset: int, error: int = 0) -> list[tuple[int, int]]:
    """The outcome for the client after `answers`."""
    answers(talk, node, offset, error)
    return outcome(talk)


def cut_at(cut: int, crossing: str | None = "proposed", *, base: int = BASE, name: str = "orders") -> Topic:
    """The topic with another cut, or after a crossing there."""
    extents = (
        Extent(cluster="east", start=0, end=cut, base=0, writer_epoch=0),
        Extent(cluster="west", start=cut, base=base, writer_epoch=1),
    )
    return topic(crossing).model_copy(update={"name": name, "partitions": {0: extents}})


def plain(data: bytes, *, acks: int = -1, timeout_ms: int = 30_000) -> dict[str, Any]:
    return {**produce(("orders", 0, data), acks=acks), "timeout_ms": timeout_ms}
