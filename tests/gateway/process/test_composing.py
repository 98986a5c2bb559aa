"""Long composed answers are made in a thread, and reused where they would be equal."""

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from gateway.composed import metadata as composed
from gateway.composed.ask import AnyBroker, Ask, Reply, ask_once
from gateway.composed.handlers import HANDLERS, BrokerKey, Change, Context, Handler, Long, NodeAddress
from gateway.model.nodes import NodeBook
from gateway.model.topology import ClusterTopology, Topology
from gateway.process.composing import FEW_DESCRIBED, MAX_DESCRIBING, MAX_LARGE_TOPICS, Body, Composer
from gateway.session.commands import Compose
from gateway.upstream.clusters import Clusters
from ha_core.model import Cluster, Identity, UserBindings, View
from ha_core.wire import RemoteProtocolError, decode, encode

METADATA, VERSION = 3, 9
DESCRIBE_GROUPS = 15
DESCRIBE_CLIENT_QUOTAS = 48
MANY = 1_000
GATEWAYS = [NodeAddress(0, "gw-0", 9092), NodeAddress(1, "gw-1", 9092)]


def said(count: int, leader: int = 1) -> dict[str, Any]:
    partition = {"partition_index": 0, "leader_id": leader, "replica_nodes": [leader], "isr_nodes": [leader]}
    full = {"error_code": 0, "leader_epoch": 1, "offline_replicas": [], **partition}
    topics = [{"error_code": 0, "name": f"t{n}", "is_internal": False, "partitions": [full]} for n in range(count)]
    brokers = [{"node_id": n, "host": "h", "port": 1, "rack": None} for n in (1, 2)]
    return {"throttle_time_ms": 0, "brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": topics}


async def nothing_changes(_wanted: Change) -> Any:
    raise AssertionError("nothing was to be changed")


class Answers:
    """Answers every question with `answer`."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.questions = 0
        self.users: list[str | None] = []

    async def ask_all(self, asks: Sequence[Any], user: str | None = None) -> list[Reply]:
        self.questions += 1
        self.users.append(user)
        await asyncio.sleep(0)
        return [dict(self.answer) for _ in asks]


class Book:
    async def ensure(self, brokers: Sequence[BrokerKey]) -> dict[BrokerKey, NodeAddress]:
        return {(c, b): NodeAddress(10 + b, "gw-0", 20_010 + b) for c, b in brokers}


class FakeHost:
    """A composer, its clients, and the threads that have made answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = MANY) -> None:
        self.clusters = Answers(said(count))
        self.composer = Composer(cast(Clusters, self.clusters), cast(NodeBook, Book()), nothing_changes)
        self.view = View(1, {"east": Cluster(name="east", bootstrap="h:1", default=True)})
        topology = ClusterTopology("east", True, {1: ("h", 1), 2: ("h", 2)}, {f"t{n}": {0: 1} for n in range(count)})
        self.topology = Topology({"east": topology})
        self.makers: list[str] = []
        ordinary = composed._choose

        def choose(*arguments: Any) -> Any:
            self.makers.append(threading.current_thread().name)
            return ordinary(*arguments)

        monkeypatch.setattr(composed, "_choose", choose)

    async def ask(self, user: str = "app", host: str = "gw-0", names: Sequence[str] | None = None) -> dict[str, Any]:
        request: Any = {
            "topics": None if names is None else [{"name": name} for name in names],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        identity = Identity(user, "client")
        gateways = tuple(GATEWAYS)
        context = Context(self.view, self.topology, identity, None, None, gateways, GATEWAYS[0], "id", user=user)

        def placing(nodes: Mapping[BrokerKey, NodeAddress]) -> dict[BrokerKey, NodeAddress]:
            return {broker: node._replace(host=host) for broker, node in nodes.items()}

        body: Body = await self.composer.compose(context, Compose(1, METADATA, VERSION, identity, request), placing)
        return decode(METADATA, VERSION, "response", body) if isinstance(body, bytes) else body


async def test_a_long_list_is_made_once_for_all_clients_with_equal_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(monkeypatch)
    # When clients ask for all topics at once, and again
    answers = await asyncio.gather(*(host.ask(f"user-{n}") for n in range(5)))
    answers.append(await host.ask())
    # Then the list was made once, and not by the event loop
    assert len(host.makers) == MANY
    assert threading.main_thread().name not in host.makers
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]["topics"]) == MANY
    # And a cluster was asked once for simultaneous requests
    assert host.clusters.questions <= 3
    # And a client that is shown another gateway's nodes gets those
    elsewhere = await host.ask(host="gw-1")
    assert {b["host"] for b in elsewhere["brokers"] if b["node_id"] >= 10} == {"gw-1"}


@pytest.mark.parametrize("what", ["clusters", "state", "topology", "bindings"])
async def test_a_long_list_is_rebuilt_when_one_of_its_inputs_has_changed(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    host = FakeHost(monkeypatch)
    await host.ask()
    if what == "clusters":
        host.clusters.answer = said(MANY, leader=2)
    elif what == "state":
        host.view = View(2, host.view.clusters)
    elif what == "topology":
        host.topology = Topology(dict(host.topology.clusters))
    else:
        bound = {"app": UserBindings(user="app", cluster="east")}
        host.view = View(host.view.revision, host.view.clusters, bound)
        await host.ask("other")
    made = len(host.makers)
    answer = await host.ask()
    assert len(host.makers) == made + MANY
    assert answer["topics"][0]["partitions"][0]["leader_id"] == (12 if what == "clusters" else 11)


async def test_a_short_answer_is_made_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(monkeypatch, count=3)
    await host.ask()
    assert set(host.makers) == {threading.main_thread().name}


async def test_a_long_request_is_decoded_in_a_thread_and_refused_if_it_is_malformed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = FakeHost(monkeypatch)
    names = [f"t{n}" for n in range(MANY)]
    answer = await host.ask(names=names)
    assert [topic["name"] for topic in answer["topics"]] == names
    assert threading.main_thread().name not in host.makers
    context = Context(host.view, host.topology, Identity("app", "c"), None, None, tuple(GATEWAYS), GATEWAYS[0], "id")
    request = encode(METADATA, VERSION, "request", {"topics": [{"name": name} for name in names]})
    command = Compose(1, METADATA, VERSION, context.identity, request)
    body = await host.composer.compose(context, command, dict)
    assert isinstance(body, bytes)
    with pytest.raises(RemoteProtocolError):
        await host.composer.compose(context, command._replace(request=request[:-9]), dict)


async def test_work_that_a_handler_marks_as_long_runs_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    host, makers = FakeHost(monkeypatch), list[str]()

    def handler(*_: Any) -> Any:
        yield Long()
        makers.append(threading.current_thread().name)
        return {"error_code": 0, "error_message": None, "entries": []}

    monkeypatch.setitem(HANDLERS, DESCRIBE_CLIENT_QUOTAS, handler)
    identity = Identity("app", "client")
    context = Context(host.view, host.topology, identity, None, None, tuple(GATEWAYS), GATEWAYS[0], "id")
    request: dict[str, Any] = {"components": [], "strict": False}
    body = await host.composer.compose(context, Compose(1, DESCRIBE_CLIENT_QUOTAS, 1, identity, request), dict)
    assert isinstance(body, bytes)
    assert decode(DESCRIBE_CLIENT_QUOTAS, 1, "response", body)["entries"] == []
    assert threading.main_thread().name not in makers


async def test_each_user_has_few_long_describe_requests_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(monkeypatch)
    answer, asked = asyncio.Event(), Counter[str]()

    async def ask_all(asks: Sequence[Any], user: str | None = None) -> list[Reply]:
        asked[asks[0].cluster] += 1
        await answer.wait()
        return [{"groups": []} for _ in asks]

    def handler(context: Context, _version: int, _request: Any) -> Handler:
        yield from ask_once(Ask(context.identity.user, AnyBroker(), DESCRIBE_GROUPS, {}))
        return {"groups": []}

    def describe(user: str, groups: int) -> asyncio.Task[Body]:
        identity = Identity(user, "client")
        context = Context(host.view, host.topology, identity, None, None, tuple(GATEWAYS), GATEWAYS[0], "id")
        request = {"groups": [f"g{n}" for n in range(groups)], "include_authorized_operations": False}
        command = Compose(1, DESCRIBE_GROUPS, 5, identity, request)
        return asyncio.create_task(host.composer.compose(context, command, dict))

    monkeypatch.setattr(host.clusters, "ask_all", ask_all)
    monkeypatch.setitem(HANDLERS, DESCRIBE_GROUPS, handler)
    # When users send many long requests, many short ones, and a single long one
    long = [describe("greedy", FEW_DESCRIBED + 1) for _ in range(10)]
    others = [describe("brief", 1) for _ in range(10)] + [describe("modest", FEW_DESCRIBED + 1)]
    await asyncio.sleep(0.05)
    # Then clusters get a few of the long ones, and all others
    assert asked == {"greedy": MAX_DESCRIBING, "brief": 10, "modest": 1}
    # And all get an answer
    answer.set()
    await asyncio.gather(*long, *others)
    assert asked["greedy"] == 10


async def test_each_user_has_few_metadata_requests_for_large_topics_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(monkeypatch)
    answer, at_once, asked = asyncio.Event(), host.clusters.ask_all, Counter[int]()

    async def ask_all(asks: Sequence[Any], user: str | None = None) -> list[Reply]:
        asked[len(asks[0].message["topics"])] += 1
        await answer.wait()
        return await at_once(asks)

    monkeypatch.setattr(host.clusters, "ask_all", ask_all)
    # When one user sends many requests for large and for small topics, and another user one for large topics
    much, others = [f"t{n}" for n in range(300)], [f"t{n}" for n in range(301)]
    tasks = [asyncio.create_task(host.ask("greedy", names=much)) for _ in range(3 * MAX_LARGE_TOPICS)]
    tasks += [asyncio.create_task(host.ask("greedy", names=["t0"])) for _ in range(3 * MAX_LARGE_TOPICS)]
    tasks.append(asyncio.create_task(host.ask("modest", names=others)))
    await asyncio.sleep(0.1)
    # Then clusters get some of the large requests, and all others
    assert asked == {300: MAX_LARGE_TOPICS, 1: 3 * MAX_LARGE_TOPICS, 301: 1}
    # And all get an answer
    answer.set()
    assert [len(one["topics"]) for one in await asyncio.gather(*tasks)] == [300] * 48 + [1] * 48 + [301]


@pytest.mark.parametrize("count", [1, 300, MANY], ids=["short", "long", "read beside the loop"])
async def test_a_question_counts_for_its_user_and_a_shared_one_for_none(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    host = FakeHost(monkeypatch)
    await host.ask("alice", names=[f"t{n}" for n in range(count)])
    assert set(host.clusters.users) == {"alice"}
    host.clusters.users.clear()
    await host.ask("alice")
    assert set(host.clusters.users) == {None}


async def test_a_cluster_that_is_slow_to_answer_a_long_request_delays_no_other_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a request that names many topics, whose cluster does not answer
    host = FakeHost(monkeypatch)
    hangs = asyncio.Event()
    at_once = host.clusters.ask_all

    async def ask_all(asks: Sequence[Any], user: str | None = None) -> list[Reply]:
        if asks[0].message["topics"] is not None:
            await hangs.wait()
        return await at_once(asks)

    monkeypatch.setattr(host.clusters, "ask_all", ask_all)
    waiting = asyncio.create_task(host.ask("other", names=[f"t{n}" for n in range(MANY)]))
    await asyncio.sleep(0.1)
    # When a client asks for all topics, then it gets them
    async with asyncio.timeout(5):
        assert len((await host.ask())["topics"]) == MANY
    hangs.set()
    assert len((await waiting)["topics"]) == MANY


async def test_a_user_with_many_long_requests_does_not_delay_another_user_by_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a user who has asked many long questions
    host = FakeHost(monkeypatch)
    names = [f"t{n}" for n in range(MANY)]
    greedy = [asyncio.create_task(host.ask("greedy", names=names)) for _ in range(20)]
    await asyncio.sleep(0)
    # When another one asks
    await host.ask("modest", names=names)
    # Then most of the first one's are still to come
    assert sum(task.done() for task in greedy) <= 10
    await asyncio.gather(*greedy)


async def test_a_client_that_leaves_while_its_long_list_is_made_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a client whose list of all topics is being made
    host = FakeHost(monkeypatch)
    leaving = asyncio.create_task(host.ask("leaving"))
    while not host.makers:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    # When it leaves
    leaving.cancel()
    # Then others get theirs, complete
    async with asyncio.timeout(5):
        assert len((await host.ask())["topics"]) == MANY
