"""One cluster: versions, targets, failures, masking. Brokers are scripted, sockets are real."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, ClusterUnavailableError, Controller, Coordinator, OneBroker
from gateway.upstream import cluster as upstream_cluster
from gateway.upstream import dial as dialling
from gateway.upstream.cluster import MAX_UNKNOWN, SEEK_PAUSE_S, UpstreamCluster
from gateway.upstream.dial import dial
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile
from tests.gateway.upstream.fake_broker import FakeBroker


@asynccontextmanager
async def connected(
    brokers: list[FakeBroker], profile: SecurityProfile | None = None
) -> AsyncIterator[UpstreamCluster]:
    cluster = UpstreamCluster(
        "east", f"127.0.0.1:{brokers[0].port}", profile or SecurityProfile(), client_id="switchyard-gateway"
    )
    try:
        yield cluster
    finally:
        await cluster.close()
        for broker in brokers:
            await broker.stop()


@asynccontextmanager
async def surveyed(count: int = 2) -> AsyncIterator[tuple[UpstreamCluster, list[FakeBroker]]]:
    """A cluster whose brokers lead partitions of `orders`."""
    brokers = [FakeBroker(n + 1) for n in range(count)]
    for broker in brokers:
        broker.brokers = brokers
        broker.topics = {"orders": {0: 1, 1: count}}
        await broker.start()
    async with connected(brokers) as cluster:
        yield cluster, brokers


def groups(request: dict[str, Any]) -> dict[str, Any]:
    return {"groups": [{"group_id": group} for group in request["groups"]]}


async def test_a_survey_shows_brokers_leaders_and_common_versions() -> None:
    async with surveyed() as (cluster, brokers):
        brokers[1].offered[ApiKey.METADATA] = (1, 8)

        await cluster.refresh()

        seen = cluster.topology
        assert seen.reachable
        assert seen.brokers == {b.broker_id: ("127.0.0.1", b.port) for b in brokers}
        assert seen.topics == {"orders": {0: 1, 1: 2}}
        assert seen.api_versions[ApiKey.METADATA] == (1, 8)


async def test_an_ask_uses_the_highest_version_that_both_sides_know() -> None:
    async with surveyed() as (cluster, brokers):
        brokers[0].offered[ApiKey.DESCRIBE_GROUPS] = (0, 3)
        brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = groups

        answer = await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]})

        assert [g["group_id"] for g in answer["groups"]] == ["g"]
        assert brokers[0].asked[-1][:2] == (ApiKey.DESCRIBE_GROUPS, 3)


async def test_an_api_that_the_broker_lacks_is_an_unavailable_cluster_and_the_error_has_both_ranges() -> None:
    async with surveyed() as (cluster, brokers):
        del brokers[0].offered[ApiKey.DESCRIBE_CLUSTER]

        with pytest.raises(ClusterUnavailableError, match=r"127.0.0.1:\d+ does not offer DESCRIBE_CLUSTER"):
            await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_CLUSTER, {})


async def test_many_asks_at_once_share_one_connection_and_get_their_own_answers() -> None:
    async with surveyed() as (cluster, brokers):
        brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = groups

        answers = await asyncio.gather(
            *(cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": [f"g{n}"]}) for n in range(300))
        )

        assert [a["groups"][0]["group_id"] for a in answers] == [f"g{n}" for n in range(300)]
        assert brokers[0].connections == 2  # one of them for metadata


async def test_a_coordinator_is_looked_up_once_and_again_after_it_has_moved() -> None:
    async with surveyed() as (cluster, brokers):
        owner = 1

        def find(request: dict[str, Any]) -> dict[str, Any]:
            found = {"node_id": owner, "host": "127.0.0.1", "port": brokers[owner - 1].port, "error_code": 0}
            return found | {"coordinators": [found | {"key": key} for key in request["coordinator_keys"]]}

        for broker in brokers:
            broker.answers[ApiKey.FIND_COORDINATOR] = find
            broker.answers[ApiKey.DESCRIBE_GROUPS] = lambda r, b=broker: {  # type: ignore[misc]
                "groups": [{"group_id": g, "error_code": 0 if b.broker_id == owner else 16} for g in r["groups"]]
            }
        target = Coordinator("group", "g")
        await cluster.ask(target, ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]})
        await cluster.ask(target, ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]})
        lookups = sum(b.count(ApiKey.FIND_COORDINATOR) for b in brokers)

        owner = 2
        answer = await cluster.ask(target, ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]})

        assert lookups == 1
        assert answer["groups"][0]["error_code"] == 0
        assert sum(b.count(ApiKey.FIND_COORDINATOR) for b in brokers) == 2


async def test_a_controller_that_has_moved_is_asked_again_after_a_survey() -> None:
    async with surveyed() as (cluster, brokers):
        for broker in brokers:
            broker.answers[ApiKey.DELETE_TOPICS] = lambda r, b=broker: {  # type: ignore[misc]
                "responses": [{"name": n, "error_code": 0 if b is b.brokers[0] else 41} for n in r["topic_names"]]
            }
            broker.offered[ApiKey.DELETE_TOPICS] = (1, 5)
        await cluster.refresh()
        for broker in brokers:
            broker.brokers = brokers[::-1]

        answer = await cluster.ask(Controller(), ApiKey.DELETE_TOPICS, {"topic_names": ["t"], "timeout_ms": 10})

        assert answer["responses"][0]["error_code"] == 0
        assert (brokers[0].count(ApiKey.DELETE_TOPICS), brokers[1].count(ApiKey.DELETE_TOPICS)) == (1, 1)


async def test_questions_do_not_dial_a_dead_cluster() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        for broker in brokers:
            await broker.stop()
        await cluster.refresh()
        dials = cluster.dialling.begun

        for _ in range(50):
            with pytest.raises(ClusterUnavailableError, match=r"cluster east is not available: 127\.0\.0\.1:\d+: "):
                await cluster.ask(AnyBroker(), ApiKey.METADATA, {"topics": []})
            with pytest.raises(ClusterUnavailableError):
                await cluster.open(1)

        assert cluster.dialling.begun == dials
        assert not cluster.topology.reachable
        assert cluster.topology.topics == {"orders": {0: 1, 1: 2}}


async def test_a_cluster_that_comes_back_is_found_by_the_background_survey() -> None:
    async with surveyed(count=1) as (cluster, brokers):
        await brokers[0].stop()
        cluster.start()
        await cluster.refresh()
        was_reachable = cluster.topology.reachable
        reachable = asyncio.Event()
        cluster._on_topology = lambda topology: reachable.set() if topology.reachable else None

        await brokers[0].start()
        await reachable.wait()

        assert not was_reachable
        assert cluster.topology.why == ""


async def test_a_broker_that_hangs_does_not_hide_others() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        brokers[0].answers[ApiKey.METADATA] = lambda _: None

        await cluster.refresh()

        assert cluster.topology.reachable


async def test_a_question_without_an_answer_in_time_fails_and_frees_those_that_wait_for_it() -> None:
    async with surveyed() as (cluster, brokers):
        # Given an open connection: dialling is not the broker's time, and may take long
        brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = groups
        await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]})
        connections = brokers[0].connections
        brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = lambda _: None
        brokers[0].answers[ApiKey.LIST_GROUPS] = lambda _: None

        first = cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]}, timeout_ms=100)
        queued = cluster.ask(OneBroker(1), ApiKey.LIST_GROUPS, {}, timeout_ms=20_000)
        outcomes = await asyncio.gather(first, queued, return_exceptions=True)

        assert [str(o) for o in outcomes] == [
            "cluster east is not available: no answer within 100 ms",
            "cluster east is not available: no answer within 0.1 s",
        ]
        assert brokers[0].connections == connections


async def test_a_missing_answer_does_not_cost_the_connection_for_metadata() -> None:
    async with surveyed(count=1) as (cluster, brokers):
        # Given a broker that is slow to return offsets
        await cluster.refresh()
        brokers[0].answers[ApiKey.LIST_OFFSETS] = lambda _: None
        # When a caller has waited for them in vain
        with pytest.raises(ClusterUnavailableError, match="no answer within 100 ms"):
            await cluster.ask(OneBroker(1), ApiKey.LIST_OFFSETS, {"topics": []}, timeout_ms=100)
        connections = brokers[0].connections
        await cluster.ask(AnyBroker(), ApiKey.METADATA, {"topics": []})
        # Then metadata comes over the existing connection, and beside a question that still waits
        assert brokers[0].connections == connections
        waiting = asyncio.create_task(cluster.ask(OneBroker(1), ApiKey.LIST_OFFSETS, {"topics": []}, timeout_ms=20_000))
        await asyncio.sleep(0.05)
        await cluster.ask(AnyBroker(), ApiKey.METADATA, {"topics": []}, timeout_ms=1_000)
        waiting.cancel()


async def test_a_survey_does_not_wait_for_requests_of_clients() -> None:
    async with surveyed(count=1) as (cluster, brokers):
        # Given a broker with hundreds of unanswered metadata requests of clients
        await cluster.refresh()
        brokers[0].answers[ApiKey.METADATA] = lambda _: None
        brokers[0].asked.clear()
        named = {"topics": [{"name": "orders"}]}
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(cluster.ask(AnyBroker(), ApiKey.METADATA, named, timeout_ms=20_000)) for _ in range(300)
        ]
        await asyncio.sleep(0.1)
        # When the cluster is surveyed, then the broker gets the request at once, and is not taken for dead
        tasks.append(asyncio.create_task(cluster.refresh()))
        async with asyncio.timeout(3):
            while all(message["topics"] is not None for _, _, message in brokers[0].asked):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_broker_that_is_slow_to_connect_does_not_make_the_cluster_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def slow(*arguments: Any) -> Any:
        await asyncio.sleep(0.4)
        return await dial(*arguments)

    async with surveyed() as (cluster, brokers):
        # Given connections that take longer to open than an answer may take
        monkeypatch.setattr(upstream_cluster, "_ANSWER_MS", 200)
        monkeypatch.setattr(upstream_cluster, "_CONNECT_MS", 50)
        monkeypatch.setattr(dialling, "dial", slow)
        brokers[1].offered[ApiKey.METADATA] = (1, 7)
        # When the cluster is surveyed
        cluster.start()
        await cluster.refresh()
        # Then it is reachable, and the slower broker's versions are known once it is connected, too
        assert cluster.topology.reachable
        both = asyncio.Event()
        cluster._on_topology = lambda new: both.set() if new.api_versions[ApiKey.METADATA][1] == 7 else None
        await asyncio.wait_for(both.wait(), 5)


async def test_the_random_controller_of_a_kraft_cluster_is_no_change() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        seen = cluster.topology
        for broker in brokers:
            broker.brokers = brokers[::-1]
        await cluster.refresh()
        await cluster.ask(AnyBroker(), ApiKey.METADATA, {"topics": [{"name": "orders"}]})
        assert cluster.topology is seen


async def test_an_unreadable_answer_fails_its_own_question_and_no_other_on_the_connection() -> None:
    async with surveyed() as (cluster, brokers):
        brokers[0].answers[ApiKey.LIST_GROUPS] = lambda _: b"\xff"
        brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = groups
        await cluster.refresh()

        with pytest.raises(ClusterUnavailableError):
            await cluster.ask(OneBroker(1), ApiKey.LIST_GROUPS, {})
        answer = await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]})

        assert answer["groups"][0]["group_id"] == "g"
        assert brokers[0].connections == 2  # one of them for metadata


def hang_up(request: dict[str, Any]) -> None:
    """As brokers do on a request that they cannot parse."""
    raise ConnectionError


async def test_a_question_that_reads_is_asked_once_more_when_a_broker_hangs_up_on_an_earlier_one() -> None:
    async with surveyed(count=1) as (cluster, brokers):
        await cluster.refresh()
        brokers[0].answers[ApiKey.DESCRIBE_ACLS] = hang_up
        brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = groups
        brokers[0].answers[ApiKey.CREATE_ACLS] = lambda r: {"results": [{"error_code": 0} for _ in r["creations"]]}

        poison = cluster.ask(OneBroker(1), ApiKey.DESCRIBE_ACLS, {"resource_type_filter": 0})
        readers = [cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": [f"g{n}"]}) for n in range(20)]
        change = cluster.ask(OneBroker(1), ApiKey.CREATE_ACLS, {"creations": []})
        ended, changed, *answers = await asyncio.gather(poison, change, *readers, return_exceptions=True)

        assert isinstance(ended, ClusterUnavailableError)
        assert [a["groups"][0]["group_id"] for a in answers if isinstance(a, dict)] == [f"g{n}" for n in range(20)]
        assert isinstance(changed, ClusterUnavailableError)


async def test_an_api_that_a_broker_hung_up_on_uses_its_own_connection_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with surveyed(count=1) as (cluster, brokers):
        # Given a broker that hung up on one question
        await cluster.refresh()
        brokers[0].answers[ApiKey.DESCRIBE_ACLS] = hang_up
        with pytest.raises(ClusterUnavailableError):
            await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_ACLS, {"resource_type_filter": 0})
        # When more questions of that API come beside a slow change
        begun = asyncio.Event()
        brokers[0].answers[ApiKey.ALTER_CLIENT_QUOTAS] = lambda _: begun.set()
        change = asyncio.create_task(cluster.ask(OneBroker(1), ApiKey.ALTER_CLIENT_QUOTAS, {"entries": []}))
        await begun.wait()
        for _ in range(3):
            with pytest.raises(ClusterUnavailableError):
                await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_ACLS, {"resource_type_filter": 0})
        # Then the change still waits, and the hang-up is counted and logged
        assert not change.done()
        change.cancel()
        assert cluster.hang_ups[ApiKey.DESCRIBE_ACLS] == 4
    assert "closed the connection instead of answering DESCRIBE_ACLS" in caplog.text


async def test_a_masked_cluster_gets_no_questions() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        cluster.mask("maintenance")
        asked = len(brokers[0].asked)

        with pytest.raises(ClusterUnavailableError, match="masked: maintenance"):
            await cluster.ask(AnyBroker(), ApiKey.METADATA, {"topics": []})
        with pytest.raises(ClusterUnavailableError, match="masked: maintenance"):
            await cluster.open(1)
        await cluster.refresh()

        assert len(brokers[0].asked) == asked
        cluster.mask(None)
        await cluster.refresh()
        assert cluster.topology.reachable


async def test_many_requests_for_a_survey_make_one() -> None:
    async with surveyed() as (cluster, brokers):
        await asyncio.gather(*(cluster.refresh() for _ in range(100)))

        assert sum(b.count(ApiKey.METADATA) for b in brokers) == 1


async def test_metadata_for_clients_refreshes_the_leaders() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        for broker in brokers:
            broker.topics["orders"] = {0: 2, 1: 2}

        await cluster.ask(AnyBroker(), ApiKey.METADATA, {"topics": [{"name": "orders"}, {"name": "none"}]})

        assert cluster.topology.topics == {"orders": {0: 2, 1: 2}}


async def test_leaders_that_many_readers_seek_are_looked_up_together() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        for broker in brokers:
            broker.topics |= {"new": {0: 2}, "newer": {0: 1}}
            broker.asked.clear()

        for _ in range(100):
            cluster.find_leaders_soon({"new"})
            cluster.find_leaders_soon({"newer"})
        await asyncio.sleep(5 * SEEK_PAUSE_S)

        assert cluster.topology.topics == {"orders": {0: 1, 1: 2}, "new": {0: 2}, "newer": {0: 1}}
        asked = [message["topics"] for b in brokers for key, _, message in b.asked if key == ApiKey.METADATA]
        assert [sorted(topic["name"] for topic in topics or ()) for topics in asked] == [["new", "newer"]]


async def test_topics_that_clients_make_up_are_looked_up_after_others_and_no_more_than_a_few_at_once() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        for broker in brokers:
            broker.asked.clear()
        for number in range(3 * MAX_UNKNOWN):
            cluster.check_exists_soon(f"made-up-{number}")
        cluster.find_leaders_soon({"orders"})
        await asyncio.sleep(5 * SEEK_PAUSE_S)
        asked = [message["topics"] for b in brokers for key, _, message in b.asked if key == ApiKey.METADATA]
        assert sorted(len(topics or ()) for topics in asked) == [1, MAX_UNKNOWN]


async def test_a_leader_that_is_not_elected_yet_is_looked_up_once_per_request() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        for broker in brokers:
            broker.topics["new"] = {0: -1}
        cluster.find_leaders_soon({"new"})
        await asyncio.sleep(5 * SEEK_PAUSE_S)
        asked = sum(b.count(ApiKey.METADATA) for b in brokers)
        await asyncio.sleep(5 * SEEK_PAUSE_S)
        assert sum(b.count(ApiKey.METADATA) for b in brokers) == asked == 2


async def test_a_masked_cluster_is_not_asked_for_leaders() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()
        cluster.mask("maintenance")
        before = sum(b.count(ApiKey.METADATA) for b in brokers)
        await cluster.find_leaders(["orders"])
        assert sum(b.count(ApiKey.METADATA) for b in brokers) == before


async def test_a_socket_for_a_client_is_connected_and_unread() -> None:
    async with surveyed() as (cluster, brokers):
        await cluster.refresh()

        sock = (await cluster.open(2)).sock

        with sock:
            assert sock.getpeername() == ("127.0.0.1", brokers[1].port)
            assert not sock.getblocking()


async def test_a_login_to_a_broker_works_and_a_wrong_password_is_named() -> None:
    broker = FakeBroker()
    broker.password = "right"
    await broker.start()
    async with connected([broker], SecurityProfile("PLAIN", "switchyard", "right")) as cluster:
        await cluster.refresh()
        sock = await cluster.open(1)
        sock.close()
        wrong = UpstreamCluster(
            "east",
            f"127.0.0.1:{broker.port}",
            SecurityProfile("PLAIN", "switchyard", "wrong"),
            client_id="switchyard-gateway",
        )
        await wrong.refresh()
        assert "refused the account switchyard: no. Correct user or password" in wrong.topology.why
        assert "wrong" not in wrong.topology.why
        await wrong.close()


class Unhurried(asyncio.SelectorEventLoop):
    """Its clock counts a pause of the machine as 5 ms at most: timers of both sides keep their distances, however busy
    the machine is."""

    def __init__(self) -> None:
        super().__init__()
        self._seen, self._counted = super().time(), 0.0

    def time(self) -> float:
        now = super().time()
        self._counted += min(now - self._seen, 0.005)
        self._seen = now
        return self._counted


def test_no_question_is_sent_after_the_end_of_a_login() -> None:
    async def run() -> None:
        # Given a broker that closes a connection at the first request after its login has expired
        broker = FakeBroker()
        broker.password, broker.login_ms = "right", 1000
        broker.answers[ApiKey.DESCRIBE_GROUPS] = groups
        await broker.start()
        async with connected([broker], SecurityProfile("PLAIN", "switchyard", "right")) as cluster:
            # When many callers ask it without a pause, for several login periods
            until = asyncio.get_running_loop().time() + 2.6

            async def ask(group: str) -> int:
                asked = 0
                while asyncio.get_running_loop().time() < until:
                    answer = await cluster.ask(OneBroker(1), ApiKey.DESCRIBE_GROUPS, {"groups": [group]})
                    assert answer["groups"][0]["group_id"] == group
                    asked += 1
                    await asyncio.sleep(0.002)
                return asked

            asked = await asyncio.gather(*(ask(f"g{n}") for n in range(8)))
        # Then every question is answered, over one connection after the other
        assert min(asked) > 10
        assert broker.connections >= 4

    with asyncio.Runner(loop_factory=Unhurried) as runner:
        runner.run(asyncio.wait_for(run(), 30))
