"""A run over two thousand partitions of real brokers: in batches, with a client at work all the time."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs do not say so

from stack.harness import Stack
from tests.kit.running import bind, bootstrap, switchyard
from tests.system.conftest import MakeRun, two_clusters
from tests.system.watching import assert_no_client_has_failed, until

pytestmark = [pytest.mark.stack, pytest.mark.soak]
TOPICS, PARTITIONS, A_BATCH = 40, 50, 20

stack = pytest.fixture(two_clusters, scope="module")


def all_led(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
    return len(found) == PARTITIONS and all(one.leader >= 0 for one in found)


@pytest.mark.timeout(600)
def test_two_thousand_partitions_cross_over_in_batches_while_clients_work(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given forty topics of fifty partitions, and clients of one of them
    names = [f"{name[:40]}-{number:02}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})
    for created in admin.create_topics([NewTopic(one, PARTITIONS, 1) for one in names]).values():
        created.result(60)
    until(lambda: all(all_led(admin, one) for one in names), "every partition has a leader", timeout_s=120)
    user = name[:60]
    bind(stack, user, "east")
    run = make_run(stack, user=user)
    consumer = run.start("confluent-consumer", "r", names[0], group=f"{user}-r")
    producer = run.start("confluent-producer", "w", names[0], rate=100, idempotence="on")
    producer.wait_for(50, "acknowledged")
    # When all of them migrate without a fence, and what nobody writes to is ended behind one
    route = ("--from", "east", "--to", "west", "--reason", "test", "--yes")
    how = ("--cut", "predicted", "--preparation", "2", "--finish-after", "1", "--batch-topics", str(A_BATCH), "--wait")
    done = switchyard(stack, "migrate", f"{name[:40]}-*", *route, *how)
    # Then each batch was an operation of its own, and every map is settled
    assert [batch["result"] for batch in done["batches"]] == ["succeeded"] * (TOPICS // A_BATCH), done
    shown = [one for one in switchyard(stack, "migrations")["migrations"] if one["topic"] in names]
    status = {one["topic"]: (one["status"], len(one["partitions"])) for one in shown}
    # A topic that never held a record leaves nothing in its origin.
    assert status == {one: ("Migrated" if one == names[0] else "Aged", PARTITIONS) for one in names}
    # And the clients have noticed nothing
    producer.wait_for(producer.count("acknowledged") + 100, "acknowledged", timeout_s=30)
    run.finish([producer], [consumer])
    result = run.verdict(names[0], complete=[f"{user}-r"])
    assert result.sound, str(result)
    assert_no_client_has_failed([producer, consumer])
