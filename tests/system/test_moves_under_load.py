"""Planned moves there and back while every kind of client works through the gateways."""

import pytest

from stack.clients.kinds import CONSUMERS, PRODUCERS
from stack.harness import Stack
from stack.history.blackout import blackouts
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, bind, bootstrap, create_topic
from tests.system.conftest import MakeRun
from tests.system.watching import assert_no_client_has_failed

pytestmark = pytest.mark.stack
ROUNDS = 5
CLUSTERS = ("east", "west")


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_five_switches_there_and_back_lose_double_and_renumber_no_record_of_any_client(run: Run, name: str) -> None:
    # Given clients of every kind at work
    consumers = [run.start(kind, f"r-{kind}", name, group=f"{name}-{kind}") for kind in CONSUMERS]
    producers = [run.start(kind, f"w-{kind}", name, rate=40) for kind in PRODUCERS]
    producers.append(run.start("confluent-producer", "w-idempotent", name, rate=40, idempotence="on"))
    await_records(20, *producers, *consumers)
    # When they are moved there and back five times
    for _ in range(ROUNDS):
        for origin, target in (CLUSTERS, CLUSTERS[::-1]):
            document = run.switch(origin, target)
            assert document["result"] == "succeeded"
            await_more(20, *producers)
    run.finish(producers, consumers)
    # Then every record is there once, at its acknowledged offset, and no client has failed
    result = run.assert_sound(name, complete=[f"{name}-{kind}" for kind in CONSUMERS])
    assert len(run.cuts([name])) == 3 * 2 * ROUNDS
    assert_no_client_has_failed(run.clients)
    figures = blackouts(run.history(name), run.moves)
    print("\n".join([str(result), *(f"{client}: {numbers} ms" for client, numbers in sorted(figures.items()))]))
    assert all(number is not None for numbers in figures.values() for number in numbers)


def test_a_switch_of_one_user_does_not_move_another_on_the_same_gateways(
    run: Run, stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given two users at work
    other_name = f"other-{name}"
    create_topic(bootstrap(stack, "east"), other_name)
    bind(stack, other_name, "east")
    other = make_run(stack, user=other_name)
    clients = [
        (client_run.start("confluent-producer", f"w-{client_run.user[:5]}", client_run.user, rate=100),
         client_run.start("kafka-python-consumer", f"r-{client_run.user[:5]}", client_run.user, group=client_run.user))
        for client_run in (run, other)
    ]  # fmt: skip
    for producer, consumer in clients:
        producer.wait_for(50, "acknowledged")
        consumer.wait_for(50, "delivered")
    # When one of them is moved
    run.switch("east", "west")
    for producer, consumer in clients:
        await_more(100, producer, consumer)
    for client_run, (producer, consumer) in zip((run, other), clients, strict=True):
        client_run.finish([producer], [consumer])

    for client_run in (run, other):
        # Then both have all of their records, each where its user is
        client_run.assert_sound(client_run.user, complete=[client_run.user])
    assert {cut.target for cut in run.cuts([name])} == {"west"}
    assert other.cuts([other_name]) == ()
    assert {dump.cluster for dump in other.dumps(other_name) if dump.records} == {"east"}
    assert {dump.cluster for dump in run.dumps(name) if dump.records} == {"east", "west"}
