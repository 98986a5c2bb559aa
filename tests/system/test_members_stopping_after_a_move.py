"""Members that stop before they have noticed that their group was moved."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from stack.clients.kinds import CONSUMERS
from stack.clients.process import ClientProcess
from stack.history.events import Delivered
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, bootstrap

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/session/groups.py", "gateway/session/group_offsets.py", "ha_core/kafka/adoption.py"),
]


def test_members_that_stop_right_after_a_switch_commit_and_leave_in_the_target(run: Run, name: str) -> None:
    # Given members of every kind whose groups were moved once, so that both clusters have coordinators
    consumers = [run.start(kind, f"r-{kind}", name, group=f"{name}-{kind}") for kind in CONSUMERS]
    producer = run.start("confluent-producer", "w", name, rate=100)
    await_records(50, *consumers)
    run.switch("east", "west")
    await_more(400, *consumers)
    producer.stop()

    # When they are moved back and stop at once
    run.switch("west", "east")
    for consumer in consumers:
        consumer.stop(timeout_s=20)

    # Then their read records are committed in their groups' new cluster, and no session has to expire
    admin = AdminClient({"bootstrap.servers": bootstrap(run.stack, "east"), "log_level": 3})
    for consumer in consumers:
        group = consumer.options.group
        assert admin.describe_consumer_groups([group])[group].result(10).members == [], group
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        found = {(part.topic, part.partition): part.offset for part in asked.result(10).topic_partitions}
        assert found == _read_up_to(consumer), group


def _read_up_to(consumer: ClientProcess) -> dict[tuple[str, int], int]:
    events = consumer.history().clients[consumer.name]
    return {(event.topic, event.partition): event.offset + 1 for event in events if isinstance(event, Delivered)}
