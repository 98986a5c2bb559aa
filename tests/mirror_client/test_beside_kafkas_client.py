"""Our client and Kafka's own read the topics of a real MirrorMaker 2 and give the same answers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.mirror_maker import MirrorMakerSettings, mirror_maker
from ha_core.mirror_client import MirrorClient, MirrorClientError
from stack.clients import java_mirror_client
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(600)]
GROUP, ALIAS = "billing", "primary"
RECORDS = 250
WAIT_S = 180.0

stack = own_stack(scope="module")


@pytest.fixture(scope="module")
def mirrored(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of a target in which MirrorMaker 2 has emitted checkpoints of the group."""
    source, target = bootstrap(stack, "east"), bootstrap(stack, "west")
    create_topic(source, "orders", 2)
    producer = Producer({"bootstrap.servers": source})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    _commit(source, [TopicPartition("orders", 0, 100, metadata="kept"), TopicPartition("orders", 1, 17)])
    settings = MirrorMakerSettings(
        "MirrorMaker 2",
        {
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
        },
    )
    folder = tmp_path_factory.mktemp("mirror-maker")
    with (
        mirror_maker(settings, ALIAS, source, target, "orders", folder) as running,
        MirrorClient({"bootstrap.servers": target}) as client,
    ):
        deadline = time.monotonic() + WAIT_S
        while not _ready(client):
            running.check()
            assert time.monotonic() < deadline, "no checkpoint came"
            time.sleep(1)
        yield target


def _commit(source: str, offsets: list[TopicPartition]) -> None:
    consumer = Consumer({"bootstrap.servers": source, "group.id": GROUP})
    for _ in range(30):
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            time.sleep(1)
        else:
            break
    consumer.close()


def _ready(client: MirrorClient) -> bool:
    try:
        return len(client.translate_offsets(ALIAS, GROUP)) == 2 and client.replication_hops(ALIAS) == 1
    except MirrorClientError:
        return False


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_each_question_gets_the_answer_of_kafkas_client(version: str, mirrored: str, tmp_path: Path) -> None:
    with MirrorClient({"bootstrap.servers": mirrored}) as client:
        before = client.translate_offsets(ALIAS, GROUP)
        java = java_mirror_client.ask(version, {"bootstrap.servers": mirrored}, ALIAS, GROUP, tmp_path)
        offsets = client.translate_offsets(ALIAS, GROUP)
        ours = {
            "hops": str(client.replication_hops(ALIAS)),
            "heartbeat-topics": _shown(client.heartbeat_topics()),
            "checkpoint-topics": _shown(client.checkpoint_topics()),
            "upstream-clusters": _shown(client.upstream_clusters()),
            "remote-topics": _shown(client.remote_topics()),
            "remote-topics-of": _shown(client.remote_topics(ALIAS)),
        }
    # MirrorMaker 2 keeps emitting checkpoints; equal ones before and after mean equal ones in between.
    assert offsets == before
    its = ", ".join(
        f"{topic}-{partition}={position.offset}/{position.metadata}"
        for (topic, partition), position in sorted(offsets.items())
    )
    assert java == ours | {"offsets": f"{{{its}}}", "translated": f"{{{its}}}"}
    assert ours["hops"] == "1"
    # librdkafka ends a commit's metadata with a zero byte, which is kept.
    assert {partition: position.metadata for (_, partition), position in offsets.items()} == {0: "kept\0", 1: ""}


def test_a_cluster_that_is_not_upstream_is_unreachable(mirrored: str) -> None:
    with MirrorClient({"bootstrap.servers": mirrored}) as client:
        assert client.replication_hops("elsewhere") == -1
        with pytest.raises(MirrorClientError, match=r"topic elsewhere.checkpoints.internal does not exist"):
            client.translate_offsets("elsewhere", GROUP)


def test_translated_offsets_let_the_group_miss_no_record(mirrored: str) -> None:
    """MirrorMaker 2's sampled offsets are at or below the exact ones, which in a plain topic equal the source's."""
    with MirrorClient({"bootstrap.servers": mirrored}) as client:
        offsets = client.translate_offsets(ALIAS, GROUP)
    assert offsets[f"{ALIAS}.orders", 0].offset <= 100
    assert offsets[f"{ALIAS}.orders", 1].offset <= 17


def test_heartbeats_can_be_read(mirrored: str) -> None:
    with MirrorClient({"bootstrap.servers": mirrored}) as client:
        (first, *_) = client.heartbeats(f"{ALIAS}.heartbeats")
        assert (first.source_alias, first.target_alias) == ("west", ALIAS)


def _shown(names: set[str]) -> str:
    return f"[{', '.join(sorted(names))}]"
