"""Users shared by several applications: an instance, topic or group moves, and the others are not disturbed."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ha_core.kafka.security import SECURITY_FILE_VARIABLE
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.clients.process import ClientProcess
from stack.harness import Stack
from tests.kit.progress import acked, await_more, await_records, given, read_all
from tests.kit.running import Run, bind, create_topics, switch, switchyard
from tests.kit.waiting import until
from tests.system.conftest import MakeRun
from tests.system.neighbour import Neighbour
from tests.system.watching import assert_no_client_has_failed

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.long(
        "ha_core/plan/routing/resolve.py",
        "ha_core/plan/move/closure.py",
        "ha_core/plan/move/users.py",
        "ha_core/model/identity.py",
        "gateway/session/routes.py",
    ),
]
USER = "orders-app"
CLUSTERS = ("east", "west")
RATE = 40


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    up = Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=2, security="sasl")
    with up as running, pytest.MonkeyPatch.context() as environment:
        environment.setenv(SECURITY_FILE_VARIABLE, running.document["security_file"])
        for user in running.users:
            bind(running, user, "east")
        yield running


def login(stack: Stack, client_id: str, user: str = USER) -> dict[str, str]:
    return {"user": user, "password": stack.users[user], "client_id": client_id}


def neighbour_of(stack: Stack, client_id: str, topic: str) -> Neighbour:
    account = client_settings(SecurityProfile("PLAIN", USER, stack.users[USER]))
    return Neighbour({"bootstrap.servers": stack.bootstrap, "client.id": client_id, **account}, topic)


def connections(stack: Stack, client_id: str) -> set[tuple[Any, ...]]:
    """The open connections of this client: gateway, start, and its broker."""
    rows = switchyard(stack, "connections", "--client-id", client_id)["connections"]
    return {(row["gateway"], row["since"], row["cluster"], row["broker"]) for row in rows}


def at_work(
    run: Run, topic: str, login: dict[str, str], readers: tuple[str, ...]
) -> tuple[list[ClientProcess], list[ClientProcess]]:
    """Starts producers with and without idempotence, and a group per kind of reader; waits for their first records."""
    consumers = [run.start(kind, f"r-{kind}", topic, group=f"{topic}-{kind}", **login) for kind in readers]
    producers = [
        run.start("confluent-producer", "w-idempotent", topic, rate=RATE, idempotence="on", **login),
        run.start("java-producer", "w-java", topic, rate=RATE, **login),
    ]
    await_records(20, *producers, *consumers)
    return producers, consumers


def go_on(producers: list[ClientProcess], consumers: list[ClientProcess], records: int = 40) -> None:
    await_more(records, *producers, *consumers)


def clusters_of(run: Run, topic: str) -> set[str]:
    """The clusters that have records of the topic."""
    return {dump.cluster for dump in run.dumps(topic) if dump.records}


def bindings(stack: Stack, user: str = USER) -> dict[str, Any]:
    return dict(switchyard(stack, "bindings", "list", user)["bindings"][user])


def test_one_of_two_instances_moves_there_and_back_and_the_other_is_not_touched(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given two applications with one user, each with its own client id and topic
    moves, stays = f"{name}-moves", f"{name}-stays"
    create_topics(stack, "east", moves, stays)
    run = make_run(stack)
    with neighbour_of(stack, stays, stays) as neighbour:
        readers = ("confluent-consumer", "java-consumer", "kafka-python-consumer")
        producers, consumers = at_work(run, moves, login(stack, moves), readers)
        neighbour.wait_for_more(50)
        troubles, connected = neighbour.troubles(), connections(stack, stays)
        # When one of them is moved to west and back
        for origin, target in (CLUSTERS, CLUSTERS[::-1]):
            document = switch(stack, f"user:{USER}+{moves}", origin=origin, target=target)
            assert document["result"] == "succeeded"
            assert bindings(stack)["instances"] == {moves: target}
            go_on(producers, consumers)
            neighbour.wait_for_more(50)
        # Then the other has seen no retry, no reconnect and no rebalance, and stays in its cluster
        assert neighbour.troubles() == troubles
        assert connections(stack, stays) == connected
    assert neighbour.failed == []
    assert len(set(neighbour.read)) == len(neighbour.read)
    assert run.cuts([stays]) == ()
    assert clusters_of(run, stays) == {"east"}
    # And the moved instance has every record once
    run.finish(producers, consumers)
    run.assert_sound(moves, complete=[f"{moves}-{kind}" for kind in readers])
    assert len(run.cuts([moves])) == 3 * 2
    assert clusters_of(run, moves) == set(CLUSTERS)
    assert_no_client_has_failed([*producers, *consumers])


def test_one_topic_of_a_user_moves_and_then_one_group(stack: Stack, make_run: MakeRun, name: str) -> None:
    # Given a group that reads two topics of its user, and producers, one of which names its topic in its client id
    one, other, group = f"{name}-one", f"{name}-other", f"{name}-group"
    create_topics(stack, "east", one, other)
    run = make_run(stack)
    readers = [
        run.start(kind, f"r-{kind}", f"{one},{other}", group=f"{group}-{kind}", **login(stack, f"{name}-readers"))
        for kind in ("confluent-consumer", "kafka-python-consumer")
    ]
    settings = {"rate": RATE, "idempotence": "on"}
    producers = [
        run.start("confluent-producer", "w-one", one, **settings, **login(stack, f"HA#{USER}#{one}")),
        run.start("confluent-producer", "w-other", other, **settings, **login(stack, f"{name}-writer")),
    ]
    await_records(20, *producers)
    await_records(40, *readers)
    # When one topic moves
    assert switch(stack, f"user:{USER}#{one}", origin="east", target="west")["result"] == "succeeded"
    go_on(producers, readers)
    # Then the other topic stays, and so do the groups
    assert bindings(stack)["topics"] == {one: "west"}
    assert run.cuts([other]) == ()
    assert {clusters_led_to(stack, group, kind) for kind in ("confluent-consumer", "kafka-python-consumer")} == {"east"}
    # And when the other topic and one of the groups follow
    assert switch(stack, f"user:{USER}#{other}", origin="east", target="west")["result"] == "succeeded"
    moved = f"{group}-confluent-consumer"
    assert switch(stack, f"user:{USER}##{moved}", origin="east", target="west")["result"] == "succeeded"
    go_on(producers, readers)
    # Then the other group stays
    assert bindings(stack)["groups"] == {moved: "west"}
    assert clusters_led_to(stack, group, "confluent-consumer") == "west"
    assert clusters_led_to(stack, group, "kafka-python-consumer") == "east"
    # And every group has every record once
    run.finish(producers, readers)
    run.assert_sound(one, other, complete=[f"{group}-confluent-consumer", f"{group}-kafka-python-consumer"])
    assert clusters_of(run, one) == clusters_of(run, other) == set(CLUSTERS)
    assert_no_client_has_failed([*producers, *readers])


def clusters_led_to(stack: Stack, group: str, kind: str) -> str:
    """The cluster to which gateways route the members of a group."""
    asked = ("explain", USER, f"{group}-members", f"group:{group}-{kind}")
    until(lambda: bool(switchyard(stack, *asked)["agree"]), "all gateways lead there")
    return str(switchyard(stack, *asked)["explanations"][0]["leading"]["cluster"])


def test_switching_a_topic_moves_the_instance_that_uses_it_or_else_the_whole_user(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given two instances of one user, each at work on a topic of its own
    user, mine, other = "billing-app", f"{name}-mine", f"{name}-other"
    create_topics(stack, "east", mine, other)
    run = make_run(stack)
    readers = ("confluent-consumer",)
    producers, consumers = at_work(run, mine, login(stack, mine, user), readers)
    more = run.start("confluent-producer", "w-other", other, rate=RATE, idempotence="on", **login(stack, other, user))
    more.wait_for(20, "acknowledged")
    # When one of the topics is switched
    assert switch(stack, f"user:{user}+#{mine}", origin="east", target="west")["result"] == "succeeded"
    go_on([*producers, more], consumers)
    # Then only the instance that uses it has moved
    assert bindings(stack, user)["instances"] == {mine: "west"}
    assert bindings(stack, user)["cluster"] == "east"
    assert run.cuts([other]) == ()
    # And when the other topic is declared for the user without an instance, the whole user moves
    switchyard(stack, "usage", "declare", user, "--topic", other)
    assert switch(stack, f"user:{user}+#{other}", origin="east", target="west")["result"] == "succeeded"
    go_on([*producers, more], consumers)
    assert bindings(stack, user)["cluster"] == "west"
    run.finish([*producers, more], consumers)
    run.assert_sound(mine, other, complete=[f"{mine}-{kind}" for kind in readers])
    assert clusters_of(run, mine) == clusters_of(run, other) == set(CLUSTERS)


def test_readers_by_pattern_get_every_record_once_while_one_of_their_topics_moves(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given topics, one of which has moved to west, and readers that subscribe by a pattern
    user, topics = "payments-app", [f"{name}-{number}" for number in range(3)]
    create_topics(stack, "east", *topics)
    run = make_run(stack)
    producers = [
        run.start(
            "confluent-producer", f"w-{topic[-1]}", topic, rate=RATE, idempotence="on", **login(stack, topic, user)
        )
        for topic in topics
    ]
    await_records(20, *producers)
    assert switch(stack, f"user:{user}#{topics[0]}", origin="east", target="west")["result"] == "succeeded"
    kinds = ("confluent-consumer", "kafka-python-consumer", "aiokafka-consumer", "java-pattern-reader")
    readers = [
        run.start(
            kind, f"r-{kind}", ",".join(topics), pattern=f"^{name}-.*", group=f"{name}-{kind}", commit="batch",
            **login(stack, f"{name}-readers", user),
        )
        for kind in kinds
    ]  # fmt: skip
    await_records(60, *readers)
    # When another topic moves
    assert switch(stack, f"user:{user}#{topics[1]}", origin="east", target="west")["result"] == "succeeded"
    go_on(producers, readers, 100)
    run.finish(producers, readers)
    # Then every group has every record of all topics once
    run.assert_sound(*topics, complete=[f"{name}-{kind}" for kind in kinds], redelivery="never")
    assert [clusters_of(run, topic) for topic in topics] == [set(CLUSTERS), set(CLUSTERS), {"east"}]
    assert_no_client_has_failed([*producers, *readers])


def test_a_binding_of_an_application_holds_for_client_ids_that_its_library_makes_at_each_start(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given an application with client ids in the form of Kafka Streams and Connect
    user = "payments-app"
    create_topics(stack, "east", name)
    forms = ("--client-ids", "streams", "--client-ids", "connect")
    switchyard(stack, "bindings", "set", f"user:{user}", *forms, "--reason", "test", "--yes")
    run = make_run(stack)

    def started(number: int) -> tuple[list[ClientProcess], list[ClientProcess]]:
        thread = f"{name}-{uuid4()}-StreamThread-{number}"
        named = {"r": f"{thread}-consumer", "w": f"{thread}-producer", "c": f"connector-producer-{name}-{number}"}
        who = {role: login(stack, client_id, user) for role, client_id in named.items()}
        reader = run.start("java-consumer", f"r{number}", name, group=name, **who["r"])
        writers = [run.start("java-producer", f"{role}{number}", name, rate=RATE, **who[role]) for role in "wc"]
        go_on(writers, [reader])
        return writers, [reader]

    producers, consumers = started(1)
    # When the application is moved by its name, and restarted
    assert switch(stack, f"user:{user}+{name}", origin="east", target="west")["result"] == "succeeded"
    go_on(producers, consumers)
    run.finish(producers, consumers)
    producers, consumers = started(2)
    # Then it is in the target, by one binding
    assert bindings(stack, user)["instances"] == {name: "west"}
    rows = switchyard(stack, "connections", "--instance", name)["connections"]
    ids = {row["client_id"] for row in rows if row["led_to"]}
    assert len(ids) == 3
    led = [switchyard(stack, "explain", user, one, f"group:{name}")["explanations"][0]["leading"] for one in ids]
    assert {(one["cluster"], one["by"]) for one in led} == {("west", "user+instance")}
    # And it has every record once, and its usage is recorded under its name
    run.finish(producers, consumers)
    run.assert_sound(name, complete=[name])
    used = switchyard(stack, "usage", "list", user)["usage"][user]["topics"][name]
    assert {use["instance"] for use in used} == {name}


def test_one_of_two_instances_is_forced_out_of_its_dead_cluster_and_the_other_is_not_touched(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given one instance in east, and one of the same user in west
    moves, stays = f"{name}-moves", f"{name}-stays"
    for cluster in CLUSTERS:
        create_topics(stack, cluster, moves)
    create_topics(stack, "west", stays)
    switchyard(stack, "bindings", "set", f"user:{USER}+{stays}", "west", "--reason", "test", "--yes")
    run = make_run(stack)
    with neighbour_of(stack, stays, stays) as neighbour:
        client = login(stack, moves)
        reader = run.start("confluent-consumer", "r", moves, group=moves, commit="batch", **client)
        writer = run.start("confluent-producer", "w", moves, rate=RATE, idempotence="on", **client)
        await_records(100, writer, reader)
        neighbour.wait_for_more(50)
        switchyard(stack, "facts", "record")
        troubles, connected = neighbour.troubles(), connections(stack, stays)
        # When east dies, and the instance there is moved by force
        stack.kill("cluster/east")
        try:
            document = switch(stack, f"user:{USER}+{moves}", origin="east", target="west", mode="forced", unread="wait")
            assert document["result"] == "succeeded"
            await_more(100, writer)
            neighbour.wait_for_more(50)
            # Then the other has seen no retry, no reconnect and no rebalance, and stays in its cluster
            assert neighbour.troubles() == troubles
            assert connections(stack, stays) == connected
        finally:
            stack.restart("cluster/east")
    assert neighbour.failed == []
    assert len(set(neighbour.read)) == len(neighbour.read)
    assert clusters_of(run, stays) == {"west"}
    # And after the log ends of east are known, the moved instance gets all acknowledged records
    writer.stop()
    switchyard(stack, "origins", "check")
    read_all({ack.value for ack in acked(writer)}, reader)
    # (Its group resumes at its last known offsets, so later records come again, at their offsets.)
    places = {(record.partition, record.offset): record.value for record in given(reader)}
    assert {((delivery.partition, delivery.offset), delivery.value) for delivery in given(reader)} == set(
        places.items()
    )
    assert clusters_of(run, moves) == set(CLUSTERS)
