"""A copy that has deleted records of its source: readers still get all records after a switch to the copy."""

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.model import SwitchOperation
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror.health import lacking
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import make_request
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kit.consumed import place_of
from tests.kit.mirroring import await_copies
from tests.kit.moving import copiers_of, linked, moved
from tests.kit.running import bind, bootstrap, create_topic
from tests.kit.stacks import operator

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]
RECORDS, GONE = 100, 60


environment = operator()


@pytest.fixture
def topic(stack: Stack, environment: Environment, name: str) -> str:
    """A topic of a user at east, mirrored to west, with the first records of the copy deleted."""
    create_topic(bootstrap(stack, "east"), name, 1)
    bind(stack, name, "east")
    produce({"bootstrap.servers": bootstrap(stack, "east")}, name, RECORDS)
    linked(environment, name)
    with copiers_of(environment, {name: 1}) as copiers, await_copies(copiers, name, "west"):
        pass
    delete(stack, "west", name, 1 + GONE)  # the copy begins with its copier's marker
    return name


def delete(stack: Stack, cluster: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster)})
    for deleted in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        deleted.result(30)


def read_all(stack: Stack, user: str, topic: str) -> list[int]:
    """Offsets that a new reader gets from the beginning to the end."""
    found = list[int]()
    reader = Consumer(
        {
            "bootstrap.servers": stack.bootstrap,
            "client.id": f"HA#{user}#{topic}",
            "group.id": f"reads-{topic}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        reader.subscribe([topic])
        for _ in range(300):
            for message in reader.consume(1000, 0.2):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                found.append(place_of(message)[2])
    finally:
        reader.close()
    raise AssertionError(f"the reader did not reach the end: {found}")


@pytest.mark.parametrize("kind", ["topic", "user"])
def test_a_switch_to_a_copy_that_begins_later_leaves_the_missing_records_to_the_old_cluster(
    stack: Stack, environment: Environment, topic: str, kind: str
) -> None:
    # Given a user of a topic whose copy has deleted 60 of 100 records, and facts recorded since
    assert read_all(stack, topic, topic) == list(range(RECORDS))
    assert not any(look.error for look in record(environment))
    # Then a comparison and the alarm report their number
    (compared,) = compare_mirrors(environment, [topic], "west", 1.0, 0).partitions
    assert (compared.state, compared.compared.lacking, compared.compared.compared) == ("lacks", GONE, RECORDS - GONE)
    told = {problem.about: (problem.code, problem.number) for problem in lacking(environment, environment.store.load())}
    assert told[f"mirror of {topic} in west"] == ("copy-begins-later", GONE)
    # And so does the dry run of a switch
    request = make_request([f"{kind}:{topic}"], "east", "west", reason="drill", include_other_users=True)
    proposal = plan(environment, request)
    (verdict,) = [one for one in proposal.verdicts if one.code == "copy-begins-later"]
    assert (verdict.level, verdict.number, verdict.unit) == ("warning", GONE, "records")
    # When the topic is switched
    report = moved(environment, proposal)
    assert report.result == "succeeded"
    # Then a reader from the beginning gets all records, at their offsets
    assert read_all(stack, topic, topic) == list(range(RECORDS))
    extents = environment.store.load().topics[topic].partitions[0]
    assert [(extent.cluster, extent.start) for extent in extents] == [("east", 0), ("west", GONE), ("west", RECORDS)]
    ended = environment.operation(report.operation)
    assert isinstance(ended, SwitchOperation)
    assert ended.evidence.gone_from_copies == {topic: GONE}
    assert f"west had deleted {GONE} records of {topic} that east has" in ended.result
    # And again after the topic is switched back
    back = make_request([f"{kind}:{topic}"], "west", "east", reason="drill", include_other_users=True)
    assert moved(environment, back).result == "succeeded"
    assert read_all(stack, topic, topic) == list(range(RECORDS))
    assert environment.store.load().topics[topic].clusters == {"east"}
