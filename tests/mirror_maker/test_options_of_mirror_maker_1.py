"""`switchyard kafka-mirror-maker` between two real clusters, by the options of MirrorMaker 1."""

import subprocess
from pathlib import Path

import pytest

from stack.harness import Stack
from tests.kit.flows import PROGRAM, FlowProcess, count, produce, records, until
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(200)]

stack = own_stack(scope="module", gateways=0)


@pytest.fixture
def options(stack: Stack, tmp_path: Path) -> list[str]:
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    address = f"bootstrap.servers={bootstrap(stack, 'east')}\n"
    consumer.write_text(f"{address}group.id=mirror\nauto.offset.reset=earliest\nisolation.level=read_committed\n")
    producer.write_text(f"bootstrap.servers={bootstrap(stack, 'west')}\nacks=all\n")
    return ["--consumer.config", str(consumer), "--producer.config", str(producer)]


def test_topics_are_copied_under_their_own_names(stack: Stack, options: list[str], tmp_path: Path) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    for topic in ("orders", "payments", "private"):
        create_topic(east, topic, 1)
        produce(east, topic, (b"%d" % number for number in range(200)))
    words = ["kafka-mirror-maker", *options, "--whitelist", "orders|pay.*", "--num.streams", "2", "--new.consumer"]
    running = FlowProcess(tmp_path / "one", (), words)
    try:
        until(lambda: count(west, "orders") > 200 and count(west, "payments") > 200, 60, running.text)
        for topic in ("orders", "payments"):
            assert records(west, topic) == records(east, topic)
        assert count(west, "private") == 0
        assert running.text().count("--num.streams has no effect") == 1
    finally:
        assert running.stop() == 0, running.text()


def test_a_message_handler_is_refused_with_the_reason(options: list[str]) -> None:
    command = [
        PROGRAM,
        "kafka-mirror-maker",
        *options,
        "--include",
        "orders",
        "--message.handler",
        "com.example.Handler",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--message.handler: it names a Java class" in done.stdout + done.stderr
