"""A run over thousands of partitions of real brokers: in batches, with a client at work all the time.

`MANY_TOPICS=1000 MANY_BROKERS=x3 _JAVA_OPTIONS=-Xmx2g` makes it fifty thousand on three brokers each: a broker needs a
file (`ulimit -n`) and two memory maps (`vm.max_map_count`) for each of them, and more heap.
"""

import os
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from stack.harness import Stack
from tests.kit.progress import await_more
from tests.kit.running import bind, bootstrap, switchyard
from tests.kit.waiting import until
from tests.system.conftest import MakeRun
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.soak]
TOPICS, PARTITIONS = int(os.environ.get("MANY_TOPICS", "40")), 50
A_BATCH = max(20, TOPICS // 10)
PATIENCE_S = 3 * TOPICS


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    brokers = os.environ.get("MANY_BROKERS", "")
    with Stack.up({"east": f"3.9.2{brokers}", "west": f"4.3.1{brokers}"}, gateways=2) as running:
        yield running


def all_led(admin: AdminClient, topics: list[str]) -> bool:
    return all(led(admin, topic) for topic in topics)


def led(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
    return len(found) == PARTITIONS and all(partition.leader >= 0 for partition in found)


@pytest.mark.timeout(600 + 4 * PATIENCE_S)
def test_thousands_of_partitions_cross_over_in_batches_under_load(stack: Stack, make_run: MakeRun, name: str) -> None:
    # Given many topics of fifty partitions, and clients of one of them
    names = [f"{name[:40]}-{number:04}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})
    for first in range(0, TOPICS, A_BATCH):
        some = names[first : first + A_BATCH]
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in some]).values():
            created.result(60)
        until(partial(all_led, admin, some), "they have leaders", timeout_s=PATIENCE_S)
    user = name[:60]
    bind(stack, user, "east")
    run = make_run(stack, user=user)
    consumer = run.start("confluent-consumer", "r", names[0], group=f"{user}-r")
    producer = run.start("confluent-producer", "w", names[0], rate=100, idempotence="on")
    producer.wait_for(50, "acknowledged")
    # When all of them migrate without a fence, and idle ones are ended under one
    route = ("--from", "east", "--to", "west", "--reason", "test", "--yes")
    how = ("--cut", "predicted", "--preparation", "2", "--finish-after", "1", "--batch-topics", str(A_BATCH), "--wait")
    done = switchyard(stack, "migrate", f"{name[:40]}-*", *route, *how, timeout_s=600 + PATIENCE_S)
    # Then each batch (of at most 3,500 partitions) was its own operation, and every map is settled
    assert {batch["result"] for batch in done["batches"]} == {"succeeded"}, done
    assert len(done["batches"]) >= TOPICS // A_BATCH
    shown = [migration for migration in switchyard(stack, "migrations")["migrations"] if migration["topic"] in names]
    status = {migration["topic"]: (migration["status"], len(migration["partitions"])) for migration in shown}
    # A topic without records leaves nothing in its origin.
    assert status == {name: ("Migrated" if name == names[0] else "Aged", PARTITIONS) for name in names}
    # And the clients have noticed nothing
    await_more(100, producer)
    run.finish([producer], [consumer])
    run.assert_sound(names[0], complete=[f"{user}-r"])
    assert_no_client_has_failed([producer, consumer])
