"""A worker's claims of the topics that its flow writes: each before its creation, and all again every minute."""

from collections.abc import Mapping

import pytest

from ha_core.flows.configuration import configuration
from ha_core.flows.properties import parse
from ha_core.mirror_maker.claims import RENEWED_S, RemoteTopicClaims
from ha_core.model import FlowId
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.remote_topics import FlowTopics

FLOW = FlowId("A->B", "a-id", "b-id")
FILE = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"


class Written:
    """The claims that were stored."""

    def __init__(self) -> None:
        self.all: list[FlowTopics] = []
        self.away = False
        self.now = 1_000.0

    def __call__(self, topics: FlowTopics) -> None:
        if self.away:
            raise StoreUnavailableError("ZooKeeper is away")
        self.all.append(topics)

    @property
    def topics(self) -> list[Mapping[str, str]]:
        return [written.topics for written in self.all]

    def claims(self, more: str = "", flow: FlowId = FLOW) -> RemoteTopicClaims:
        (found,) = configuration(parse(FILE + more, "mm2.properties"), "mm2.properties").flows
        return RemoteTopicClaims(found, flow, self, lambda: self.now)


def test_a_claim_names_all_topics_of_the_worker_and_is_written_only_after_a_change() -> None:
    written = Written()
    claims = written.claims()

    claims.claim({"A.orders": "orders"})
    claims.claim({"A.orders": "orders"})
    claims.claim_copied({"A.bills": "bills", "A.orders": "orders"})

    assert written.topics == [{"A.orders": "orders"}, {"A.orders": "orders", "A.bills": "bills"}]
    assert written.all[0].flow == FLOW


def test_internal_topics_of_the_target_are_claimed_except_heartbeats() -> None:
    written = Written()

    written.claims().claim_internal()
    written.claims("offset-syncs.topic.location = target\n").claim_internal()

    first, second = written.topics
    assert set(first) == {"A.checkpoints.internal", "mm2-copies.internal"}
    assert set(second) == {*first, "mm2-offset-syncs.A.internal"}
    assert set(first.values()) == {""}


def test_claims_are_written_again_after_a_minute() -> None:
    written = Written()
    claims = written.claims()
    claims.claim({"A.orders": "orders"})

    claims.claim_copied({})
    assert len(written.all) == 1

    written.now += RENEWED_S
    claims.claim_copied({})
    claims.claim_copied({})
    assert written.topics == [{"A.orders": "orders"}] * 2


def test_a_claim_that_could_not_be_stored_is_retried() -> None:
    written = Written()
    claims = written.claims()
    written.away = True
    with pytest.raises(StoreUnavailableError):
        claims.claim({"A.orders": "orders"})

    written.away = False
    claims.claim({"A.orders": "orders"})

    assert written.topics == [{"A.orders": "orders"}]


def test_a_claim_says_whether_the_flow_carries_over_the_rights_of_the_sources_readers() -> None:
    written = Written()

    written.claims().claim({"A.orders": "orders"})
    written.claims("sync.topic.acls.enabled = false\n").claim({"A.orders": "orders"})

    assert [claim.readers_of_source for claim in written.all] == [True, False]


def test_topics_of_a_target_without_a_cluster_id_are_not_claimed() -> None:
    written = Written()

    written.claims(flow=FlowId("A->B", "a-id", "")).claim({"A.orders": "orders"})

    assert written.all == []
