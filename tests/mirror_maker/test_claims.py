"""A worker's claims of the topics that its flow writes: each before it is created, all of them now and then."""

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


def test_a_claim_has_all_topics_of_the_worker_and_is_written_once() -> None:
    written = Written()
    claims = written.claims()

    claims.claim({"A.orders": "orders"})
    claims.claim({"A.orders": "orders"})
    claims.claim_copied({"A.bills": "bills", "A.orders": "orders"})

    assert written.topics == [{"A.orders": "orders"}, {"A.orders": "orders", "A.bills": "bills"}]
    assert written.all[0].flow == FLOW


def test_internal_topics_of_the_target_are_claimed_but_for_heartbeats_which_other_flows_write_too() -> None:
    written = Written()

    written.claims().claim_internal()
    written.claims("offset-syncs.topic.location = target\n").claim_internal()

    first, second = written.topics
    assert set(first) == {"A.checkpoints.internal", "mm2-copies.internal"}
    assert set(second) == {*first, "mm2-offset-syncs.A.internal"}
    assert set(first.values()) == {""}


def test_claims_are_written_again_now_and_then() -> None:
    written = Written()
    claims = written.claims()
    claims.claim({"A.orders": "orders"})

    claims.claim_copied({})
    assert len(written.all) == 1

    written.now += RENEWED_S
    claims.claim_copied({})
    claims.claim_copied({})
    assert written.topics == [{"A.orders": "orders"}] * 2


def test_a_claim_that_could_not_be_stored_is_tried_again() -> None:
    written = Written()
    claims = written.claims()
    written.away = True
    with pytest.raises(StoreUnavailableError):
        claims.claim({"A.orders": "orders"})

    written.away = False
    claims.claim({"A.orders": "orders"})

    assert written.topics == [{"A.orders": "orders"}]


def test_readers_of_the_source_read_copies_only_where_the_flow_carries_their_rights_over() -> None:
    written = Written()

    written.claims().claim({"A.orders": "orders"})
    written.claims("sync.topic.acls.enabled = false\n").claim({"A.orders": "orders"})

    assert [claim.readers_of_source for claim in written.all] == [True, False]


def test_a_target_that_tells_no_id_is_not_claimed_since_no_gateway_could_recognise_it() -> None:
    written = Written()

    written.claims(flow=FlowId("A->B", "a-id", "")).claim({"A.orders": "orders"})

    assert written.all == []
