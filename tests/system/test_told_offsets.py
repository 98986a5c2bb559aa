"""What real producers are told: of every record the offset at which it is read, also where the answer was lost."""

from __future__ import annotations

import pytest

from stack.harness import Stack
from stack.history.events import Acked, Failed, Noted
from tests.kit.running import Run, bind, bootstrap, create_topic, switchyard
from tests.system.conftest import MakeRun, two_clusters

pytestmark = pytest.mark.stack
PARTITIONS = 3
AT_FULL_SPEED = {
    "idempotence": "on",
    "rate": 0,
    "linger_ms": 0,
    "settings": ("batch.num.messages=7", "queue.buffering.max.messages=300", "reconnect.backoff.max.ms=500"),
}
"""Small batches, five of them on their way all the time: some are appended and not answered, whenever it ends."""

stack = pytest.fixture(two_clusters, scope="module")


@pytest.fixture
def run(stack: Stack, make_run: MakeRun, name: str) -> Run:
    create_topic(bootstrap(stack, "east"), name, PARTITIONS)
    bind(stack, name, "east")
    return make_run(stack, user=name)


def served_by(stack: Stack, gateway: int, user: str) -> str:
    """A client id of the user whose clients are sent to the ports of that gateway."""
    from confluent_kafka.admin import AdminClient

    known = switchyard(stack, "status")["gateways"]
    first_port = next(one["first_node_port"] for one in known if one["id"] == f"gw-{gateway}")
    for number in range(40):
        client_id = f"HA#{user}#{number}"
        client = AdminClient({"bootstrap.servers": stack.bootstrap, "client.id": client_id, "log_level": 3})
        found = client.list_topics(user, timeout=20)
        leaders = {one.leader for one in found.topics[user].partitions.values()}
        if all(0 <= found.brokers[leader].port - first_port < 100 for leader in leaders):
            return client_id
    raise AssertionError(f"none of 40 client ids is served by gateway {gateway}")


@pytest.mark.timeout(400)
def test_what_was_appended_before_a_move_and_is_sent_again_behind_it_is_told_the_offset_at_which_it_is_read(
    stack: Stack, run: Run, name: str
) -> None:
    producers = [
        run.start("confluent-producer", f"w{n}", name, client_id=served_by(stack, 1, name), **AT_FULL_SPEED)
        for n in range(2)
    ]
    for origin, target in (("east", "west"), ("west", "east")):
        # Given producers whose batches are on their way through a gateway
        for producer in producers:
            producer.wait_for(producer.count("acknowledged") + 200, "acknowledged")
        # When it dies, and their topic has moved before they find another gateway
        with run.fault("gateway/1 killed"):
            stack.kill("gateway/1")
            run.switch(origin, target)
            for producer in producers:
                producer.wait_for(producer.count("acknowledged") + 200, "acknowledged")
        stack.restart("gateway/1")
    for producer in producers:
        producer.stop()
    # Then nobody was told an offset that another record has, and of nearly all the right one
    run.start("confluent-consumer", "reader", name, seek="beginning", to_end=True).wait()
    history = run.history(name)
    result = run.verdict(name, complete=["reader"], redelivery="never")
    assert result.sound, str(result)
    events = [event for known in history.clients.values() for event in known]
    assert [one for one in events if isinstance(one, Failed) or (isinstance(one, Noted) and one.fatal)] == []
    told = [event for event in events if isinstance(event, Acked)]
    silent = [event for event in told if event.offset < 0]
    print(f"{len(told)} records acknowledged, {len(silent)} of them without an offset")
    assert len(silent) <= len(told) / 1000
