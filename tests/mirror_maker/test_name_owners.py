"""Choosing the flow that writes a remote topic which several flows of a worker would write."""

from ha_core.flows.configuration import configuration
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.properties import parse
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror_maker.name_owners import OtherWriters, RemoteTopicOwners, flows_before

FILE = """
clusters = A, B, C
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
C.bootstrap.servers = c:9092
A->C.enabled = true
B->C.enabled = true
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
"""


class Sources:
    """The topics of each cluster; a cluster may be unreachable."""

    def __init__(self, **topics: set[str]) -> None:
        self.topics, self.away = topics, set[str]()

    def of(self, alias: str) -> set[str]:
        if alias in self.away:
            raise KafkaAdminError(alias, "is away")
        return self.topics[alias]


def flows() -> tuple[FlowConfig, FlowConfig]:
    first, second = configuration(parse(FILE, "mm2.properties"), "mm2.properties").flows
    return first, second


def writers(sources: Sources) -> tuple[OtherWriters, OtherWriters]:
    both, owners = flows(), RemoteTopicOwners()
    first, second = (OtherWriters(flow, owners, flows_before(flow, both), sources.of) for flow in both)
    return first, second


def test_the_first_flow_of_the_file_writes_a_topic_that_both_sources_have() -> None:
    sources = Sources(A={"t"}, B={"t", "u"})
    first, second = writers(sources)
    assert second.of(["t", "u"]) == {"t": "A->C"}
    assert first.of(["t"]) == {}


def test_a_later_flow_keeps_its_topic_if_it_is_created_in_an_earlier_flows_source() -> None:
    sources = Sources(A=set(), B={"t"})
    first, second = writers(sources)
    assert second.of(["t"]) == {}
    sources.topics["A"].add("t")
    assert first.of(["t"]) == {"t": "B->C"}
    assert second.of(["t"]) == {}


def test_a_remote_topic_is_free_once_its_flow_no_longer_names_it() -> None:
    sources = Sources(A={"t"}, B={"t"})
    first, second = writers(sources)
    first.of(["t"])
    sources.topics["A"].clear()
    assert second.of(["t"]) == {"t": "A->C"}
    first.of([])
    assert second.of(["t"]) == {}


def test_an_unreachable_sources_last_known_names_count() -> None:
    sources = Sources(A={"t"}, B={"t", "u"})
    _, second = writers(sources)
    second.of(["t"])
    sources.away.add("A")
    assert second.of(["t", "u"]) == {"t": "A->C"}


def test_flows_into_other_targets_are_not_asked() -> None:
    first, second = flows()
    assert flows_before(second, (first, second)) == (first,)
    assert flows_before(first, (first, second)) == ()
