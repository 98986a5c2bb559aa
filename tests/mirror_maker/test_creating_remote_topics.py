"""Creating the remote topics of a flow, and planning the copies meanwhile."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from ha_core.flows.configuration import configuration
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.properties import parse
from ha_core.flows.remote_plan import SkippedTopic
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror_maker.remote_topics import RemoteTopics
from ha_core.plan.facts.clusters import ListedTopic

FILE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
sync.topic.configs.enabled = false
"""
PARTITIONS = 10


class Created(NamedTuple):
    created: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Cluster:
    """:ivar refuses: names that it does not accept."""

    def __init__(self, topics: Iterable[str], refuses: Iterable[str] = ()) -> None:
        self.topics = {name: ListedTopic(PARTITIONS, name.encode().hex()) for name in topics}
        self.refuses = set(refuses)
        self.requests: list[int] = []

    def list_topics(self) -> dict[str, ListedTopic]:
        return dict(self.topics)

    def broker_settings(self, _: Iterable[str]) -> dict[str, str]:
        return {}

    def create_topics(self, specs: list[TopicSpec], timeout_s: float) -> Created:
        self.requests.append(len(specs))
        if refused := self.refuses & {spec.name for spec in specs}:
            raise KafkaAdminError("B", f"does not accept {min(refused)}.")
        self.topics |= {spec.name: ListedTopic(spec.partitions, spec.name.encode().hex()) for spec in specs}
        return Created(tuple(spec.name for spec in specs))


def flow() -> FlowConfig:
    (found,) = configuration(parse(FILE, "mm2.properties"), "mm2.properties").flows
    return found


def remote_topics(source: Any, target: Any, leads: bool = True) -> RemoteTopics:
    return RemoteTopics(flow(), source, target, lambda: leads)


def test_topics_are_copied_while_others_are_still_created() -> None:
    # Given 250 topics of ten partitions, one of which was copied before
    source, target = Cluster(f"t{number}" for number in range(250)), Cluster(["A.t0"])
    # When a worker looks
    looks = remote_topics(source, target).look()
    # Then it plans the existing copy before it creates anything, and then the new ones of each request
    seen = [(len(plan.copies), len(target.topics)) for plan in looks]
    assert seen == [(1, 1), (101, 101), (201, 201), (250, 250), (250, 250)]
    assert target.requests == [100, 100, 49]


def test_a_worker_that_does_not_lead_plans_once_and_names_topics_that_do_not_exist_yet() -> None:
    source, target = Cluster(["t", "u"]), Cluster(["A.t"])
    (plan,) = remote_topics(source, target, leads=False).look()
    assert [copy.topic for copy in plan.copies] == ["t"]
    assert plan.skipped == (SkippedTopic("u", "A.u does not exist yet in B"),)


def test_a_topic_that_cannot_be_created_is_skipped_in_every_plan_after_it_was_refused_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = Cluster(["t", "u"]), Cluster((), refuses=["A.u"])
    topics = remote_topics(source, target)
    first = [[one.topic for one in plan.skipped] for plan in topics.look()]
    assert first == [[], [], ["u"]]
    again = [[one.topic for one in plan.skipped] for plan in topics.look()]
    assert again == [["u"], ["u"], ["u"]]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "A->B: A.u is not created: Cluster B: does not accept A.u."
    ]


def test_a_broker_that_does_not_know_a_topic_yet_ends_no_copy_of_it() -> None:
    # Given 250 topics, and a cluster whose brokers answer in turns, one of which learns of topics late
    class Behind(Cluster):
        def list_topics(self) -> dict[str, ListedTopic]:
            known = super().list_topics()
            return {} if len(known) == 201 else known

    source, target = Cluster(f"t{number}" for number in range(250)), Behind(["A.t0"])
    assert [len(plan.copies) for plan in remote_topics(source, target).look()] == [1, 101, 101, 250, 250]
