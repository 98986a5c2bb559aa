"""Workers whose clocks are wrong."""

import os
from pathlib import Path

import pytest

from ha_core.kafka.admin import Admin
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.model import Cluster
from stack.harness import Stack
from tests.kit.flows import FlowProcess, count, produce, records, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
# Heartbeats of a killed worker would keep the next one waiting.
FLOW = {"east->west.enabled": "true", "emit.heartbeats.enabled": "false"}
SKEWED = """
import os, time
_now = time.time
time.time = lambda: _now() + float(os.environ["SKEW_S"])
"""

stack = own_stack(scope="module", gateways=0)


@pytest.mark.parametrize("skew_s", [7_200, -7_200])
def test_a_worker_whose_clock_is_wrong_copies_as_others_do(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew_s: int
) -> None:
    """Its notes had its own time. Brokers from Kafka 4.0 on refuse what is an hour ahead, so nothing was copied."""
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    topic = f"orders{skew_s}"
    create_topic(east, topic, 2)
    (tmp_path / "sitecustomize.py").write_text(SKEWED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("SKEW_S", str(skew_s))
    file = write_flows(tmp_path, {"east": east, "west": west}, FLOW | {"topics": topic})
    for number in range(3):
        for partition in (0, 1):
            produce(east, topic, (b"%d %d" % (number, at) for at in range(100)), partition)
        worker = FlowProcess(file)
        try:
            for partition in (0, 1):
                until(lambda: count(west, f"east.{topic}", partition) > 0, 90, worker.text)  # noqa: B023
                wanted = records(east, topic, partition)
                until(lambda: records(west, f"east.{topic}", partition) == wanted, 90, worker.text)  # noqa: B023
        finally:
            worker.kill()


def test_the_log_of_notes_of_an_earlier_version_gets_the_brokers_times(stack: Stack, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    admin = AdminClient({"bootstrap.servers": west})
    entry = ConfigEntry("message.timestamp.type", "", incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, COPIES_LOG, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    file = write_flows(tmp_path, {"east": east, "west": west}, FLOW | {"topics": "none"})
    worker = FlowProcess(file)
    try:
        with Admin(Cluster(name="west", bootstrap=west)) as target:
            until(
                lambda: target.settings([COPIES_LOG])[COPIES_LOG]["message.timestamp.type"].value == "LogAppendTime",
                60,
                worker.text,
            )
    finally:
        worker.kill()
