"""A cluster dies: its consumers keep their partitions, and all resume where their groups are moved."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.security import NO_SECURITY
from ha_core.wire import ApiKey
from stack.clients.process import ClientProcess
from stack.harness import Stack
from stack.history.events import Revoked
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, switchyard
from tests.kit.stacks import own_stack
from tests.system.conftest import bound_run

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "gateway/session/groups.py", "gateway/session/group_offsets.py", "gateway/upstream", "ha_core/kafka/adoption.py"
    ),
]
KINDS = ("kafka-python", "java", "confluent")
OUTAGE_S = 6.0
"""Long enough for consumers to request metadata, commit and send heartbeats, all without success."""

stack = own_stack()


run = bound_run(east_dies=True)


class Told:
    """Each gateway's METADATA of a topic: error and partitions."""

    def __init__(self, stack: Stack, topic: str) -> None:
        self._topic = topic
        self._connections = []
        for gateway in stack.gateways:
            host, port = gateway["bootstrap"].rsplit(":", 1)
            until_s, client_id = Deadline.after(120), f"HA#{topic}#{topic}"
            self._connections.append(
                BlockingConnection(gateway["id"], host, int(port), NO_SECURITY, until_s, client_id=client_id)
            )
        self.all: set[tuple[int, tuple[int, ...]]] = set()

    def ask(self) -> None:
        message = {"topics": [{"name": self._topic}], "allow_auto_topic_creation": False}
        for connection in self._connections:
            (topic,) = connection.call(ApiKey.METADATA, message)["topics"]
            numbers = (partition["partition_index"] for partition in topic["partitions"])
            self.all.add((topic["error_code"], tuple(sorted(numbers))))
        time.sleep(0.02)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def revoked(member: ClientProcess, since: float, before: float) -> list[Revoked]:
    events = member.history().clients[member.name]
    return [event for event in events if isinstance(event, Revoked) and since < event.t < before]


def test_consumers_of_a_dead_cluster_keep_their_partitions_and_read_on_where_their_groups_are_moved(
    run: Run, stack: Stack, name: str
) -> None:
    # Given a member of a group of each kind, which commits while it reads, and recorded facts of their cluster
    writer = run.start("confluent-producer", "w", name, rate=50)
    members = [run.start(f"{kind}-consumer", kind, name, group=f"{name}-{kind}") for kind in KINDS]
    await_records(100, *members)
    switchyard(stack, "facts", "record")
    told = Told(stack, name)
    # When the cluster dies, and some time later its clients are moved by force
    died = time.time()
    stack.kill("cluster/east")
    while time.time() < died + OUTAGE_S:
        told.ask()
    moved = time.time()
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(run.switch, "east", "west", mode="forced", unread="skip")
        while not moving.done():
            told.ask()
    assert moving.result()["result"] == "succeeded"
    for _ in range(50):
        told.ask()
    told.close()
    # Then METADATA has had the partitions all the time: otherwise a group leader would revoke them
    assert told.all == {(0, (0, 1, 2))}
    assert {member.name: revoked(member, died, moved) for member in members} == {kind: [] for kind in KINDS}
    # And all clients go on
    await_more(100, writer, *members, timeout_s=60)
