"""A mirrored topic is written only in its source, through any port and for any user."""

import pytest

from gateway.session.snapshot import Port
from ha_core.model import Extent, Mirror, Topic, UserBindings, View
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import PRODUCE, entry, produce, produced
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

MIRROR = Mirror.of("orders", "east", "west", "link", "2026-01-01T00:00:00Z", "test")
PINNED = Topic(
    name="orders", writer="east", partitions={0: (Extent(cluster="east", start=0, end=None, base=0, writer_epoch=0),)}
)
BOUND = (
    UserBindings(user="anonymous"),
    UserBindings(user="anonymous", cluster="west"),
    UserBindings(user="anonymous", topics={"orders": "west"}),
    UserBindings(user="anonymous", instances={"app": "west"}),
)


def talk_at(port: Port | None, bindings: UserBindings) -> Talk:
    """The topic is in both clusters, in the west with a partition that the source does not have."""
    view = View(1, CLUSTERS, topics={"orders": PINNED}, mirrors={MIRROR.key: MIRROR}, bindings={"anonymous": bindings})
    found = snapshot(view, topology(east={"orders": {0: 1}}, west={"orders": {0: 1, 1: 1}}))
    return Talk(found) if port is None else Talk(found, port)


@pytest.mark.parametrize("bindings", BOUND, ids=["nowhere", "user", "user#topic", "user+instance"])
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("partition", [0, 1], ids=["of both", "of the copy only"])
@pytest.mark.parametrize("port", [None, Port("west", 1), Port("east", 1)], ids=["gateway", "west", "east"])
def test_nothing_is_ever_produced_to_the_copy(
    port: Port | None, partition: int, acks: int, bindings: UserBindings
) -> None:
    talk = talk_at(port, bindings)
    talk.ask(PRODUCE, 9, produce(("orders", partition, batch()), acks=acks))
    talk.wait(1.0)
    assert WEST not in talk.upstream


@pytest.mark.parametrize("bindings", BOUND, ids=["nowhere", "user", "user#topic", "user+instance"])
def test_a_user_bound_to_the_standby_is_sent_away_there_and_served_in_the_source(bindings: UserBindings) -> None:
    there = talk_at(Port("west", 1), bindings)
    there.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    there.wait(1.0)
    assert entry(there.answers()[0])["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER

    here = talk_at(Port("east", 1), bindings)
    request = here.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=EAST)
    here.answer(EAST, request, produced(("orders", 0, 0, 41)))
    assert entry(here.answers()[0])["base_offset"] == 41
