"""Several workers of one file share its flows by ZooKeeper; one that dies is replaced."""

from pathlib import Path

import pytest

from ha_core.mirror_client import MirrorClient, MirrorClientError
from stack.harness import Stack
from tests.kit.flows import FlowProcess, copying, count, produce, records, until, write_flows
from tests.kit.remote_topics import key_of, state
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
PARTITIONS = 12

stack = own_stack(scope="module", gateways=0)


def test_workers_share_a_flow_and_one_takes_over_where_another_was_killed(stack: Stack, tmp_path: Path) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    create_topic(east, "orders", PARTITIONS)
    file = write_flows(tmp_path, {"east": east, "west": west}, {"east->west.enabled": "true"})
    options = ["--zookeeper", stack.zookeeper, "--clusters", "west"]
    first, second = FlowProcess(file, options), FlowProcess(file, options)

    def both() -> str:
        return first.text() + "\n" + second.text()

    def wrote(number: int) -> None:
        for partition in range(PARTITIONS):
            produce(east, "orders", (b"%d %d" % (number, at) for at in range(100)), partition)

    try:
        wrote(1)
        until(lambda: len(copying(stack.zookeeper)) == 2 and copying(stack.zookeeper).total() == PARTITIONS, 60, both)
        assert min(copying(stack.zookeeper).values()) > 0
        # Gateways learn which topics only the flow writes
        flow = key_of(stack, "east->west")
        claimed = {"east.orders": "orders", "east.checkpoints.internal": "", "mm2-copies.internal": ""}
        with state(stack) as store:
            assert store.remote_topics(flow) == claimed
        first.kill()
        wrote(2)
        until(lambda: all(count(west, "east.orders", one) > 200 for one in range(PARTITIONS)), 60, both)
        first = FlowProcess(file, options)
        until(lambda: len(copying(stack.zookeeper)) == 2 and copying(stack.zookeeper).total() == PARTITIONS, 60, both)
        wrote(3)
        until(lambda: all(count(west, "east.orders", one) > 300 for one in range(PARTITIONS)), 60, both)
        for partition in range(PARTITIONS):
            assert records(west, "east.orders", partition) == records(east, "orders", partition)
    finally:
        codes = [first.stop(), second.stop()]
    assert codes == [0, 0], both()


def test_workers_whose_files_give_the_same_aliases_to_other_clusters_each_write_heartbeats(
    stack: Stack, tmp_path: Path
) -> None:
    """Workers once took two flows with only heartbeats and equal aliases for one flow. Then one of the targets got no
    heartbeats, and no client could see that it can be reached."""
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    one = {"near->far.enabled": "true", "topics": "none"}
    files = [
        write_flows(tmp_path, {"near": east, "far": west}, one, "first"),
        write_flows(tmp_path, {"near": west, "far": east}, one, "second"),
    ]
    workers = [FlowProcess(file, ["--zookeeper", stack.zookeeper]) for file in files]

    def has(bootstrap: str) -> bool:
        """Heartbeats of the disabled flow."""
        try:
            with MirrorClient({"bootstrap.servers": bootstrap}) as client:
                return any((one.source_alias, one.target_alias) == ("far", "near") for one in client.heartbeats())
        except MirrorClientError:
            return False

    try:
        for address in (east, west):
            until(lambda address=address: has(address), 30, lambda: "\n".join(one.text() for one in workers))  # type: ignore[misc]
    finally:
        codes = [worker.stop() for worker in workers]
    assert codes == [0, 0]
