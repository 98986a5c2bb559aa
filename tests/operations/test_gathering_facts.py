"""Facts about clusters that answer in part, or not at all: no healthy one is reported lost, no fact forgotten."""

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError, RequestRefusedError
from ha_core.kafka.probe import Probe
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Group, KnownGroup, MoveSet
from ha_core.operations.clusters.collect_facts import gather
from ha_core.operations.clusters.inventory import lag_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.requests import make_request
from ha_core.store.commits import StateChange

NOW, SEEN = "2026-11-21T10:01:30Z", "2026-11-21T10:00:00Z"


@pytest.fixture
def healthy(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Both clusters answer."""
    monkeypatch.setattr(Admin, "probe", lambda _self, *_names, **_options: Probe(True, answers=True))
    environment.now = lambda: NOW
    return environment


def failing(monkeypatch: pytest.MonkeyPatch, method: str, error: KafkaAdminError) -> None:
    def fail(*_: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(Admin, method, fail)


@pytest.mark.parametrize("scope", ["topic:or/ders", "topic:..", f"topic:{'o' * 250}", "user:ann#or ders"])
def test_an_illegal_topic_name_is_refused_before_any_cluster_is_asked(scope: str) -> None:
    with pytest.raises(RefusedError, match="No topic can be called"):
        make_request([scope], "east", "west", reason="test")


def test_illegal_topic_names_in_recorded_usage_are_not_asked_for_and_do_not_exist(
    healthy: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster that notes for which topics it is asked
    asked: list[list[str]] = []

    def topics(_self: Admin, names: list[str], **_options: object) -> dict[str, TopicDescription]:
        asked.append(names)
        return {}

    monkeypatch.setattr(Admin, "topics", topics)
    monkeypatch.setattr(Admin, "producers", lambda *_args, **_options: {})
    monkeypatch.setattr(Admin, "topic_defaults", lambda *_args, **_options: {})
    monkeypatch.setattr(Admin, "broker_settings", lambda *_args, **_options: {})
    # When facts of an illegal name and of a legal one are gathered
    facts = gather(healthy, healthy.store.load(), ["east"], MoveSet(topics=("or/ders", "orders")))
    # Then it was asked for the legal one only
    assert asked == [["orders"]]
    illegal = facts.topic("east", "or/ders")
    assert illegal is not None
    assert not illegal.exists


@pytest.mark.parametrize(
    "error",
    [
        RequestRefusedError("east", "could not read the metadata of topic x: INVALID_TOPIC_EXCEPTION (17)."),
        NotReadyError("east", "could not describe the groups within 15 s."),
        ClusterUnreachableError("east", "east-2:9092", "(broker 2, as the cluster advertises it) timed out"),
    ],
)
def test_a_cluster_that_answers_but_refuses_a_request_is_not_called_unreachable(
    error: KafkaAdminError, healthy: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "topics", error)

    facts = gather(healthy, healthy.store.load(), ["east"], MoveSet(topics=("orders",))).clusters["east"]

    assert (facts.reachable, facts.answers) == (False, True)
    assert str(error) in facts.error


def known(environment: Environment) -> None:
    group = KnownGroup(cluster="east", name="billing", at=SEEN, state="Stable", offsets={"orders": {0: 7}})
    environment.store.keep_known(KnownGroup, "east", [group])


def test_commits_of_a_group_whose_coordinator_is_down_are_shown_as_last_seen_with_their_age(
    healthy: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(healthy)
    failing(monkeypatch, "describe_groups", NotReadyError("east", "it has no coordinator"))
    monkeypatch.setattr(Admin, "topics", lambda *_args, **_options: {})

    lag = lag_of(healthy, "billing")

    (row,) = lag.partitions
    assert (row.topic, row.committed, row.coordinator, row.age_s) == ("orders", 7, "east", 90.0)
    assert "last seen 90 s ago" in lag.coordinators["east"]
    assert "it has no coordinator" in lag.unasked["east"]


def test_commits_of_groups_in_an_unreachable_cluster_are_shown_as_last_recorded(environment: Environment) -> None:
    environment.now = lambda: NOW
    known(environment)

    assert [row.committed for row in lag_of(environment, "billing").partitions] == [7]


def test_a_group_of_an_unreachable_and_never_recorded_cluster_is_shown_as_unknown(
    environment: Environment,
) -> None:
    group = Group(name="billing", cluster="east")
    environment.store.commit(StateChange(change_id="group", puts=(group,), expected={(Group, "billing"): None}))

    lag = lag_of(environment, "billing")

    assert lag.partitions == ()
    assert "Nothing was recorded of the group" in lag.unasked["east"]
    with pytest.raises(RefusedError, match="now or when last seen"):
        lag_of(environment, "no-such-group")
