"""A worker and a real MirrorMaker 2 run one flow in turns, while a producer writes and a group reads."""

from pathlib import Path

import pytest

from ha_core.kafka.admin import Admin
from ha_core.mirror_client import MirrorClient
from stack.harness import Stack
from tests.kit.flows import commit, count, flows, until, write_flows
from tests.kit.handing_over import TARGET, Handovers, Load, clusters
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker"), pytest.mark.timeout(500)]
PARTITIONS, PER_S = 2, 200.0

stack = own_stack(gateways=0)


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_worker_and_mirror_maker_each_go_on_where_the_other_stopped(
    stack: Stack, tmp_path: Path, version: str
) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, TARGET)
    alias, topic = f"a{version.replace('.', '')}", f"orders-{version}"
    create_topic(east, topic, PARTITIONS)
    known = clusters(stack)
    file = write_flows(
        tmp_path,
        {alias: east, TARGET: west},
        {
            f"{alias}->{TARGET}.enabled": "true",
            f"{alias}->{TARGET}.topics": topic,
            "emit.checkpoints.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
        },
    )
    with Admin(known["east"], timeout_s=30) as source, Admin(known[TARGET], timeout_s=30) as target:
        flow = Handovers(stack, source, target, alias, topic, PARTITIONS, tmp_path, version)

        def copied(least: int) -> bool:
            return sum(count(west, flow.remote, number) for number in range(PARTITIONS)) >= least

        def level(number: int) -> bool:
            return flow.in_target(number)[-1][1] == flow.in_source(number)[-1][1]

        load = Load(east, topic, PARTITIONS, PER_S)
        try:
            with flow.mirror_maker() as theirs:
                until(lambda: copied(1500), 120)
                commit(east, "billing", {(topic, 0): 100})
                theirs.check()
            flow.await_stopped()
            before = load.written
            with flows(file) as ours:
                until(lambda: copied(before + 1500), 90, ours.text)
                commit(east, "reporting", {(topic, 0): before // PARTITIONS + 50})
                until(lambda: _translated(west, flow, "reporting") is not None, 60, ours.text)
                for number in range(PARTITIONS):
                    there, here = flow.in_target(number), flow.in_source(number)
                    assert [record for _, record in there] == [record for _, record in here][: len(there)]
                _assert_goes_on(flow, west, "reporting", before // PARTITIONS + 50, exact=True)
                _assert_goes_on(flow, west, "billing", 100, exact=False)
            with flow.mirror_maker():
                until(lambda: copied(load.written), 120)
            flow.await_stopped()
            with flows(file) as ours:
                until(lambda: copied(load.written), 90, ours.text)
                load.stop()
                until(lambda: all(level(number) for number in range(PARTITIONS)), 60, ours.text)
        finally:
            load.stop()
        for number in range(PARTITIONS):
            here, there = flow.in_source(number), flow.in_target(number)
            # MirrorMaker 2 may duplicate records at its start; our worker does not, and neither skips a record.
            assert list(dict.fromkeys(record for _, record in there)) == [record for _, record in here]


def _translated(west: str, flow: Handovers, group: str) -> int | None:
    with MirrorClient({"bootstrap.servers": west}) as client:
        position = client.translate_offsets(flow.alias, group).get((flow.remote, 0))
        return None if position is None else position.offset


def _assert_goes_on(flow: Handovers, west: str, group: str, committed: int, exact: bool) -> None:
    """Assert that the group reads every record from its committed offset on, and none below it if the translation is
    exact."""
    begin = _translated(west, flow, group)
    assert begin is not None
    read = [record for offset, record in flow.in_target(0) if offset >= begin]
    due = [record for offset, record in flow.in_source(0) if offset >= committed]
    due = due[: due.index(read[-1]) + 1]
    if exact:
        assert read == due
    assert set(due) <= set(read)
