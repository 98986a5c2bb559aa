"""A new snapshot holds at once, and costs each connection only the topics that it uses."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.runtime import time_sliced_sweep
from gateway.runtime.time_sliced_sweep import TimeSlicedSweep
from gateway.session.commands import Cause
from gateway.session.produce.writer_epochs import WriterEpochs
from gateway.session.snapshot import Snapshot, fences
from ha_core.model import Extent, Fence, Topic, View
from ha_core.wire import ErrorCode, encode, encode_request
from tests.gateway.process.host import FakeHost
from tests.gateway.session.talk import CLUSTERS, EAST, Talk, snapshot

FETCH, PRODUCE = 1, 0


def mapped(name: str, fence: Fence | None = None) -> Topic:
    return Topic(
        name=name,
        writer="east",
        partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=0),)},
        fence=fence,
    )


class Unread(dict[str, Topic]):
    """Topics by name, which must not be iterated."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all topics are gone through")

    keys = values = items = __iter__  # type: ignore[assignment]


def many(revision: int, fence: Fence | None = None, *, read: bool = False) -> Snapshot:
    topics = {f"t{n}": mapped(f"t{n}", fence) for n in range(3)}
    standing = fences(View(revision, CLUSTERS, topics=topics))
    held = topics if read else Unread(topics)
    return Snapshot(View(revision, CLUSTERS, topics=held), snapshot().topology, snapshot().apis, fences=standing)


def test_a_session_looks_at_the_topics_that_it_uses_and_at_no_others() -> None:
    # Given a client that waits for records, and has a write of which the refusal is held for a fence
    talk = Talk(many(1, Fence(operation="op"), read=True))
    talk.ask(PRODUCE, 7, produce("t2", acks=1))
    talk.ask(FETCH, 6, fetch("t0"))
    assert talk.answers() == []
    # When revisions come whose topics must not be iterated
    for revision in range(2, 5):
        state = many(revision)
        talk.writer_epochs.follow(state.view, talk.now, ["t1"])
        talk.take(talk.session.follow(state, talk.now))
    # Then the held answer goes out nevertheless
    assert talk.answers()[0]["responses"][0]["partition_responses"][0]["error_code"] != 0


def test_a_writer_epoch_is_watched_from_the_first_produce_to_it() -> None:
    writer_epochs = WriterEpochs()
    writer_epochs.follow(View(1, topics={"t": mapped("t")}), 100.0)
    moved = Topic(
        name="t",
        writer="west",
        partitions={
            0: (
                Extent(cluster="east", start=0, end=5, base=0, writer_epoch=0),
                Extent(cluster="west", start=5, base=0, writer_epoch=1),
            )
        },
    )
    writer_epochs.follow(View(2, topics={"t": moved}), 200.0, ["t"])
    for revision in range(3, 40):
        writer_epochs.follow(View(revision, topics={"t": moved}), 200.0 + revision, [])
    assert writer_epochs.watched((b"t", 0), 1, 7, 201.0)
    assert not writer_epochs.watched((b"t", 0), 1, 7, 261.0)


def test_changes_of_topics_without_producers_are_bounded_and_caught_up_in_slices() -> None:
    # Given topics that every revision changes, without producers
    writer_epochs = WriterEpochs()
    topics = {f"t{n}": mapped(f"t{n}") for n in range(3)}
    # When revisions come
    named = [writer_epochs.follow(View(revision, topics=topics), 100.0 + revision, topics) for revision in range(1, 10)]
    # Then topics to catch up are returned in slices
    assert named == [[]] * 7 + [[b"t0", b"t1", b"t2"]] * 2
    for name in named[-1]:
        writer_epochs.catch_up(name)
        writer_epochs.catch_up(name)
    assert writer_epochs.follow(View(10, topics=topics), 110.0, topics) == []


def produce(topic: str, acks: int) -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": b""}]}]
    return {"acks": acks, "timeout_ms": 1000, "topic_data": data}


def fetch(topic: str) -> dict[str, Any]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    return {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1, "topics": [{"topic": topic, "partitions": partitions}]}


async def test_every_request_is_decided_on_the_newest_state_even_before_the_sweep_reaches_its_session() -> None:
    # Given a connection, and a fence that its turn has not come to follow yet
    host = FakeHost()
    connection, client = host.client()
    topics = {"orders": Topic(name="orders", fence=Fence(operation="op"))}
    host.snapshot = Snapshot(View(9, CLUSTERS, topics=topics), host.snapshot.topology, host.snapshot.apis)
    # When its client writes
    body = encode(PRODUCE, 7, "request", produce("orders", acks=1))
    await host.loop.sock_sendall(client, encode_request(PRODUCE, 7, 1, "app", body))
    answer = await asyncio.wait_for(host.loop.sock_recv(client, 4096), 5)
    # Then that is refused, and no broker hears of it
    assert int(ErrorCode.NOT_LEADER_OR_FOLLOWER).to_bytes(2, "big") in answer
    assert host.brokers == []
    assert EAST not in connection.session.upstreams
    connection.end(Cause.SHUTDOWN)
    client.close()


def test_following_lets_the_loop_run_in_between_and_leaves_no_connection_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given twenty connections of which each takes longer than a turn
    monkeypatch.setattr(time_sliced_sweep, "SLICE_S", 0.001)
    turns: list[Callable[[], None]] = []
    seen: list[int] = []

    class Loop:
        def call_soon(self, call: Callable[[], None]) -> None:
            turns.append(call)

    def follow(one: int) -> None:
        seen.append(one)
        time.sleep(0.002)

    following_all = TimeSlicedSweep[int](Loop(), follow)  # type: ignore[arg-type]
    # When a revision comes, and another one while half of them have followed
    following_all.visit_all(range(20))
    while len(seen) < 10:
        turns.pop()()
    following_all.visit_all(range(20))
    assert len(turns) == 1
    while turns:
        turns.pop()()
    # Then the waiting ones come first, and all have followed since
    assert seen == [*range(10), *range(10, 20), *range(10)]
    assert following_all.done
