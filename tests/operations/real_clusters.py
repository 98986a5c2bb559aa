"""Helpers for operations on real clusters: records, members of groups, registered gateways, stored documents."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.model import GatewayRecord, MoveOperation, Operation, Topic
from ha_core.model.evidence import DependentGroups
from ha_core.operations.engine.environment import Environment
from ha_core.operations.running import engine
from stack.harness import Stack
from tests.kafka.clients import Settings
from tests.kit.running import bootstrap

Known = Stack | Environment
"""Where the addresses of the clusters come from."""


def at(known: Known, cluster: str) -> Settings:
    """A client's settings for a cluster."""
    return {"bootstrap.servers": bootstrap(known, cluster)}


def fill(known: Known, cluster: str, topic: str, count: int, *, partitions: int, idempotent: bool = False) -> None:
    """`count` acknowledged records in each partition, written to the cluster directly."""
    producer = Producer({**at(known, cluster), "enable.idempotence": idempotent, "log_level": 3})
    for number in range(count * partitions):
        producer.produce(topic, value=b"x" * 20, key=str(number), partition=number % partitions)
    assert producer.flush(30) == 0


def expire(known: Known, cluster: str, topic: str, offset: int, *, partitions: int) -> None:
    """Do at once what retention would do: the log of each partition starts at `offset`."""
    wanted = [TopicPartition(topic, partition, offset) for partition in range(partitions)]
    admin = AdminClient(at(known, cluster))  # lives until it is answered
    for future in admin.delete_records(wanted).values():
        future.result(30)


def topics_of(known: Known, cluster: str) -> set[str]:
    return set(AdminClient(at(known, cluster)).list_topics(timeout=10).topics)


@contextmanager
def live_member(known: Known, cluster: str, group: str, topic: str) -> Iterator[Consumer]:
    """A member of the group that has its partitions of the topic, and commits nothing by itself."""
    consumer = Consumer({**at(known, cluster), "group.id": group, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


@contextmanager
def live_gateway(
    environment: Environment, name: str, drained: tuple[str, ...] = (), crossings: bool = True
) -> Iterator[None]:
    """A registered gateway that serves every revision, and has drained for the operations `drained`."""
    record = GatewayRecord(
        id=name, host="127.0.0.1", port=9092, node_id=1, revision=10**9, drained=drained, crossings=crossings
    )
    registered = environment.store.register_gateway(record)
    try:
        yield
    finally:
        registered.close()


def stored_operation(environment: Environment, operation_id: str) -> Operation:
    operation = environment.operation(operation_id)
    assert operation is not None, f"there is no operation {operation_id}"
    return operation


def stored_move(environment: Environment, operation_id: str) -> MoveOperation:
    operation = stored_operation(environment, operation_id)
    assert isinstance(operation, MoveOperation), f"operation {operation_id} is no move: {operation.kind}"
    return operation


def dependents_of(environment: Environment, operation_id: str) -> DependentGroups:
    """The result of moving the groups that were to come along with the topics of a migration."""
    groups = stored_move(environment, operation_id).evidence.groups
    assert groups is not None, f"no command has looked for the groups of {operation_id}"
    return groups


def stored_topic(environment: Environment, name: str) -> Topic:
    found = environment.store.read(Topic, name)
    assert found is not None, f"topic {name} has no document"
    return found[0]


def held(environment: Environment) -> list[str]:
    """Operations with an executor whose session has not ended."""
    holds = {lock.operation: environment.store.holding(lock.operation) for lock in environment.store.locks()}
    return [operation for operation, holding in holds.items() if holding is not None and holding.held]


def run_to_success(environment: Environment, operation_id: str) -> None:
    """Run the operation to its end. :raises AssertionError: it does not succeed."""
    report = engine.resume(environment, operation_id)
    assert report.result == "succeeded", report.error


def run_until_open(environment: Environment, operation_id: str) -> None:
    """Run the operation until its crossing is open. :raises AssertionError: it is not."""
    report = engine.resume(environment, operation_id)
    assert report.result == "crossing", report.error
