"""Topics deleted in all clusters: what clients see meanwhile, what is forgotten, and what a death leaves."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import (
    DeletedRecords,
    DeletionRequest,
    Document,
    KnownGroup,
    KnownTopic,
    LastSequences,
    LostTail,
    Mirror,
    MoveRequest,
    Scope,
    Topic,
    UnreadableDocumentError,
    Usage,
    Use,
)
from ha_core.model.extent import identity
from ha_core.operations.clusters.inventory import CommittedOffsets
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.single import begin_single
from ha_core.operations.migration import topic_deletion
from ha_core.operations.migration.topic_deletion import delete, plan_deletion
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.overview import topic_health
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.running import engine
from ha_core.store.commits import StateChange, key_of
from ha_core.store.usage import Sighting
from stack.memory_store import MemoryStore
from tests.kit.operations import a_tail

pytestmark = pytest.mark.usefixtures("moved")
AT = "2026-01-01T00:00:00Z"


@dataclass
class FakeCluster:
    """Topics with their ids. `hangs`: it answers questions, and deletes nothing."""

    name: str
    ids: dict[str, str] = field(default_factory=dict)
    away: bool = False
    hangs: bool = False
    seen: list[frozenset[str]] = field(default_factory=list)
    view: Callable[[], Any] = lambda: None

    def topics(self, names: Collection[str], **_: Any) -> dict[str, Any]:
        ends = {0: SimpleNamespace(start=2, log_end=12)}
        return {name: SimpleNamespace(partitions=1, ends=ends) for name in names if name in self.ids}

    def topic_ids(self, names: Collection[str], **_: Any) -> dict[str, str]:
        return {name: self.ids[name] for name in names if name in self.ids}

    def delete_topics(self, ids: Mapping[str, str], still_ours: Callable[[], None], _s: float) -> tuple[str, ...]:
        still_ours()
        if self.hangs:
            raise KafkaAdminError(self.name, "it hangs")
        self.seen.append(frozenset(name for name in ids if self.view().deleted(name)))
        gone = [name for name, topic_id in ids.items() if self.ids.get(name) == topic_id]
        for name in gone:
            del self.ids[name]
        return tuple(gone)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, environment: Environment) -> dict[str, FakeCluster]:
    fake_clusters = {name: FakeCluster(name, view=environment.store.load) for name in ("east", "west")}

    def up(*_: Any) -> dict[str, FakeCluster]:
        return {name: cluster for name, cluster in fake_clusters.items() if not cluster.away}

    for module in (topic_deletion, topic_health):
        monkeypatch.setattr(module, "answering", up)
    monkeypatch.setattr(topic_deletion, "admin_of", lambda _, name: fake_clusters[name])
    monkeypatch.setattr(topic_deletion, "commits", lambda *_: CommittedOffsets())
    monkeypatch.setattr(topic_deletion, "fence_copiers", lambda *_: None)
    monkeypatch.setattr(topic_deletion, "open_ended_copies", lambda *_: None)
    return fake_clusters


@pytest.fixture
def moved(store: MemoryStore, environment: Environment, clusters: dict[str, FakeCluster]) -> None:
    """`orders` was moved to west and is mirrored to east; everybody remembers it."""
    puts: tuple[Document, ...] = (
        Topic(name="orders", writer="west", partitions={0: identity("west")}),
        LastSequences(name="orders", partitions={0: {7: (0, 41)}}),
        Mirror.of("orders", "west", "east", "link-1", AT, "test"),
        a_tail(since=AT, partitions={}),
    )  # fmt: skip
    store.commit(StateChange(change_id="moved", puts=puts, expected={key_of(document): None for document in puts}))
    (topic, *_) = puts
    assert isinstance(topic, Topic)
    environment.store.keep_deleted(topic, {0: 5})
    clusters["east"].ids["orders"], clusters["west"].ids["orders"] = "e1", "w1"
    environment.store.record_usage("alice", [Sighting("topic", "orders", Use(how="produce", since=AT))])
    for cluster in clusters:
        topic = KnownTopic(cluster=cluster, name="orders", at=AT, partitions=1, replication=1)
        group = KnownGroup(cluster=cluster, name="billing", at=AT, offsets={"orders": {0: 5}, "other": {0: 6}})
        environment.store.keep_known(KnownTopic, cluster, [topic])
        environment.store.keep_known(KnownGroup, cluster, [group])


def left_of(environment: Environment, topic: str) -> list[str]:
    """Where something is still said of it."""
    store, view = environment.store, environment.store.load()
    known = [KnownTopic.FOLDER for cluster in view.clusters if store.known(KnownTopic, cluster, [topic])]
    commits = [g for c in view.clusters for g in store.known(KnownGroup, c).values() if topic in g.offsets]
    return [
        *(Topic.FOLDER for name in view.topics if name == topic),
        *(LastSequences.FOLDER for name in view.sequences if name == topic),
        *(Mirror.FOLDER for mirror in view.mirrors.values() if mirror.topic == topic),
        *(LostTail.FOLDER for tail in store.lost_tails() if tail.topic == topic),
        *(DeletedRecords.FOLDER for _ in store.deleted_records([topic])),
        *known,
        *(KnownGroup.FOLDER for _ in commits),
        *(Usage.FOLDER for usage in store.usage().values() if topic in usage.topics),
    ]


def test_a_deleted_topic_is_in_no_cluster_and_nothing_is_remembered_of_it(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    (report,) = delete(environment, ["orders"], "not needed")

    assert report.result == "succeeded"
    assert [cluster.ids for cluster in clusters.values()] == [{}, {}]
    assert left_of(environment, "orders") == []
    # Clients saw it as deleted before any cluster was asked
    assert [cluster.seen for cluster in clusters.values()] == [[{"orders"}], [{"orders"}]]
    assert environment.store.known(KnownGroup, "west")["billing"].offsets == {"other": {0: 6}}
    assert environment.store.locks() == []


def test_a_dry_run_counts_the_loss_and_changes_nothing(environment: Environment) -> None:
    before = environment.store.load()

    proposal = plan_deletion(environment, ["orders"])

    assert [(verdict.level, verdict.code, verdict.number) for verdict in proposal.verdicts] == [
        ("warning", "holds-records", 20),
        ("info", "mirrored", None),
    ]
    assert proposal.held == {"orders": {"east": 10, "west": 10}}
    assert environment.store.load() == before


def test_a_topic_that_was_deleted_past_the_gateways_is_found_and_its_map_is_forgotten(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    # Given a topic that no cluster has any more, as the last look at them says too
    for cluster, fake_cluster in clusters.items():
        fake_cluster.ids.clear()
        environment.store.keep_known(KnownTopic, cluster, [])
    assert topic_health.gone(environment, environment.store.load()) == ("orders",)
    # When its deletion is asked for
    delete(environment, ["orders"], "gone")
    # Then its name is free
    assert left_of(environment, "orders") == []
    assert topic_health.gone(environment, environment.store.load()) == ()


def test_no_topic_is_reported_gone_while_a_cluster_may_have_it(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    for cluster, fake_cluster in clusters.items():
        fake_cluster.ids.clear()
        environment.store.keep_known(KnownTopic, cluster, [])
    clusters["west"].away = True

    assert topic_health.gone(environment, environment.store.load()) == ()


def test_a_cluster_that_is_away_refuses_the_deletion_and_nothing_is_changed(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    clusters["west"].away = True
    before = environment.store.load()

    with pytest.raises(RefusedError, match="--accept-away"):
        delete(environment, ["orders"], "not needed")

    assert environment.store.load() == before
    assert clusters["east"].ids == {"orders": "e1"}


def test_a_move_of_a_topic_whose_deleted_records_cannot_be_read_is_refused_before_its_fence(
    store: MemoryStore, environment: Environment
) -> None:
    store.plant("/deleted_records/orders", b'{"name":"orders","schema":2,"below":{"0":5}}')
    request = MoveRequest(scope=Scope(topics=("orders",)), origin="west", target="east", reason="test")

    with pytest.raises(UnreadableDocumentError, match="/deleted_records/orders: schema 2 is newer than 1"):
        plan(environment, request)
    # And a link, whose last step would fail after the copies were made
    with pytest.raises(UnreadableDocumentError, match="/deleted_records/orders: schema 2 is newer than 1"):
        plan_link(environment, link_request(["orders"], "west", "east", "a standby"))


def test_a_name_stays_taken_until_the_cluster_that_was_away_has_deleted_the_topic_too(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    # Given a deletion that does without a cluster
    clusters["west"].away = True
    (report,) = delete(environment, ["orders"], "not needed", accept_away=True)
    # Then clients see the topic as deleted, status says so, and the name is not free
    assert report.result == "failed"
    assert "in west" in report.error
    view = environment.store.load()
    assert view.deleted("orders")
    assert [name for name, _, _ in topic_health.half_deleted(view, ())] == ["orders"]
    # When the cluster is back and the deletion is asked for again, then it is complete
    clusters["west"].away = False
    (report,) = delete(environment, ["orders"], "not needed")
    assert report.result == "succeeded"
    assert clusters["west"].ids == {}
    assert left_of(environment, "orders") == []


def test_a_cluster_that_stops_answering_in_the_middle_leaves_the_topic_deleted_for_clients(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    clusters["west"].hangs = True
    (report,) = delete(environment, ["orders"], "not needed")

    assert report.result == "failed"
    assert environment.store.load().deleted("orders")
    assert clusters["east"].ids == {}


@pytest.mark.parametrize("at", ["unserved", "_delete_in_clusters", "_forget"])
def test_the_next_executor_completes_the_deletion_after_a_crash(
    environment: Environment, clusters: dict[str, FakeCluster], monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    # Given an executor that dies after the first revision
    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(topic_deletion, at, dies)
        with pytest.raises(KeyboardInterrupt):
            delete(environment, ["orders"], "not needed")
    (left,) = environment.store.running()
    assert left.state == "cut"
    # When a caretaker resumes the operation
    assert engine.resume(environment, left.id).result == "succeeded"
    # Then nothing is left
    assert [cluster.ids for cluster in clusters.values()] == [{}, {}]
    assert left_of(environment, "orders") == []


def test_a_topic_created_past_the_gateways_during_the_deletion_stays(
    environment: Environment, clusters: dict[str, FakeCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    def recreated(*_: Any) -> str:
        clusters["east"].ids["orders"] = "e2"
        return ""

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(topic_deletion, "unserved", recreated)
        delete(environment, ["orders"], "not needed")

    assert clusters["east"].ids == {"orders": "e2"}
    assert left_of(environment, "orders") == []


@pytest.mark.parametrize(
    ("topic", "why"),
    [("nowhere", "No cluster has it"), ("switchyard-copies", "their own state"), ("orders*", "is no topic name")],
)
def test_internal_and_unknown_topics_are_refused_by_name(environment: Environment, topic: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        delete(environment, [topic], "not needed")


# -- asked for by clients -------------------------------------------------------------------------------------------


def a_request(topic: str = "orders") -> DeletionRequest:
    return DeletionRequest(name=topic, user="alice", gateway="gw-1", at=AT)


def test_a_deletion_that_a_client_requests_is_carried_out_by_orphan_recovery(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    environment.store.request_deletion(a_request())

    for request in topic_deletion.requested(environment):
        topic_deletion.delete_requested(environment, request)

    assert environment.store.requested_deletions() == []
    assert left_of(environment, "orders") == []
    assert "alice" in environment.store.operations(1)[0].reason


def test_a_refused_deletion_names_to_the_client_the_cluster_that_prevents_it(
    environment: Environment, clusters: dict[str, FakeCluster]
) -> None:
    clusters["west"].away = True
    environment.store.request_deletion(a_request())

    topic_deletion.delete_requested(environment, a_request())

    (answer,) = environment.store.requested_deletions()
    assert (answer.refused, "cluster west" in answer.why) == ("away", True)
    # It is not tried again, and is forgotten when no gateway has fetched the answer
    environment.now = lambda: "2026-01-01T01:00:00Z"
    assert topic_deletion.requested(environment) == ()
    assert environment.store.requested_deletions() == []


def test_a_topic_that_another_operation_works_on_is_deleted_later(environment: Environment) -> None:
    begin_single(environment, "age", "another", ["topic:orders"])
    environment.store.request_deletion(a_request())

    topic_deletion.delete_requested(environment, a_request())

    assert topic_deletion.requested(environment) == (a_request(),)
    assert not environment.store.load().deleted("orders")


@pytest.mark.parametrize("path", ["/lost_tails/orders%40east%3Aswitch-1", "/sequences/orders"])
def test_a_requested_deletion_that_meets_an_unreadable_document_is_refused_and_not_tried_without_end(
    store: MemoryStore, environment: Environment, path: str
) -> None:
    store.plant(path, b'{"schema":2}')
    environment.store.request_deletion(a_request())

    said = topic_deletion.delete_requested(environment, a_request())

    # Then the log names the document, and the client is told that there is one
    assert path in said
    (answer,) = environment.store.requested_deletions()
    assert (answer.refused, path in answer.why) == ("away", False)
    assert "this version cannot read" in answer.why
    # And it is not tried again, and nothing is locked
    assert topic_deletion.requested(environment) == ()
    assert environment.store.locks() == []


def test_a_deletion_that_meets_an_unreadable_lost_tail_begins_no_operation(
    store: MemoryStore, environment: Environment
) -> None:
    store.plant("/lost_tails/orders%40east%3Aswitch-1", b'{"schema":2}')

    with pytest.raises(UnreadableDocumentError, match="/lost_tails/orders%40east"):
        delete(environment, ["orders"], "not needed")

    assert environment.store.operations(1) == []


def test_a_request_whose_topic_is_gone_already_is_settled(environment: Environment) -> None:
    environment.store.request_deletion(a_request("gone"))

    topic_deletion.delete_requested(environment, a_request("gone"))

    assert environment.store.requested_deletions() == []
