"""Sources whose log comes back shorter, and grows above the copy's end again before the copy goes on."""

import struct
from pathlib import Path

import pytest

from stack.harness import Stack
from tests.kit.flow_workers import KeptWorker
from tests.kit.flows import delete_topic, produce, records, shown, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker", "ha_core/kafka"), pytest.mark.timeout(600)]

stack = own_stack(scope="module", gateways=0)


def shorten(stack: Stack, topic: str) -> None:
    """Kill the broker of *east*, and take the second half of the topic's log, as if the machine had not written it."""
    stack.kill("cluster/east")
    (folder,) = stack.dir.glob(f"parts/**/{topic}-0")
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    places, at = list[int](), 0
    while at < len(data):
        places.append(at)
        at += 12 + int(struct.unpack_from(">i", data, at + 8)[0])
    with log.open("r+b") as opened:
        opened.truncate(places[len(places) // 2])
    for one in (*folder.glob("*index"), *folder.glob("*.snapshot"), *folder.parent.glob(".kafka_cleanshutdown")):
        Path(one).unlink()


@pytest.mark.parametrize("runs", [True, False], ids=["with a worker", "without a worker"])
def test_a_source_that_was_shortened_and_written_to_since_stops_its_copy(
    stack: Stack, tmp_path: Path, runs: bool
) -> None:
    """A single node keeps its leader epoch, so its brokers do not tell. The copy went on above the lost records: it
    kept 250 of them, and lacked the 250 that had their offsets."""
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    topic = f"shortened-{runs}".lower()
    create_topic(east, topic, 1)
    file = write_flows(
        tmp_path, {"east": east, "west": west}, {"east->west.enabled": "true", "east->west.topics": topic}
    )
    with KeptWorker(file, ["--zookeeper", stack.zookeeper]) as worker:
        for number in range(10):
            produce(east, topic, (b"%d-%d" % (number, one) for one in range(50)))
        until(lambda: len(records(west, f"east.{topic}")) == 500, 90, worker.text)
        if not runs:
            worker.kill()
        before = records(west, f"east.{topic}")
        shorten(stack, topic)
        if runs:  # it must not see the log before that has grown
            worker.pause()
        stack.restart("cluster/east")
        produce(east, topic, (b"since %d" % one for one in range(1000)))
        if runs:
            worker.resume()
        else:
            worker.restart()

        def reasons() -> str:
            return str([flow["worst"] for flow in shown(stack.zookeeper)])

        until(lambda: f"{topic}-0 of east has another record at offset 499 than the copy" in reasons(), 90, reasons)
        assert records(west, f"east.{topic}") == before
        delete_topic(west, f"east.{topic}")
        until(lambda: records(west, f"east.{topic}") == records(east, topic), 90, worker.text)
