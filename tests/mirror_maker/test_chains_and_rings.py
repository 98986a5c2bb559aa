"""A chain and a ring of clusters, run by a real MirrorMaker 2 and by our worker: Kafka's client sees no difference."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient

from bench.mirror_maker import MirrorMakerSettings, mirror_maker_of
from stack.clients import java_mirror_client
from stack.harness import Stack
from tests.kit.flows import FlowProcess, commit, flows, free_port, produce, records, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker", "ha_core/flows"), pytest.mark.timeout(900)]
ALIASES = ("A", "B", "C", "D")
FLOWS = ("A->B", "B->C", "C->D", "C->A")
"""A chain of three hops, and a ring of three clusters."""
GROUP, RECORDS, AT = "billing", 300, 123
QUICK = {
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
}
ASKED = {"A": "C", "B": "A", "C": "B", "D": "C"}
"""Cluster → the upstream cluster whose group and topics are asked for."""
REMOTE = {
    "A": {"C.orders", "C.B.orders"},
    "B": {"A.orders", "A.C.orders"},
    "C": {"B.orders", "B.A.orders"},
    "D": {"C.orders", "C.B.orders", "C.B.A.orders"},
}
"""Copies of `orders`, whose names have each alias at most once."""
Answers = dict[str, dict[str, str]]
METRICS_PORT = free_port()

stack = own_stack({"a": "3.9.2", "b": "4.3.1", "c": "3.9.2", "d": "4.3.1"}, scope="module", gateways=0)


@pytest.fixture(scope="module")
def clusters(stack: Stack) -> dict[str, str]:
    """Alias → address of a cluster with its own topic `orders`, and a group that reads it."""
    found = {alias: bootstrap(stack, alias.lower()) for alias in ALIASES}
    for alias, address in found.items():
        create_topic(address, "orders", 1)
        produce(address, "orders", (f"{alias} {number}".encode() for number in range(RECORDS)))
        commit(address, GROUP, {("orders", 0): AT})
    return found


def answers(clusters: Mapping[str, str], separator: str, version: str, folder: Path) -> Answers:
    """Cluster → answers of Kafka's client about it, with dots for separators, without other topics."""
    found: Answers = {}
    for alias, upstream in ASKED.items():
        properties = {"bootstrap.servers": clusters[alias], "replication.policy.separator": separator}
        its = java_mirror_client.ask(version, properties, upstream, GROUP, folder, ALIASES)
        found[alias] = {
            what: said if what.startswith("hops") else said.replace(separator, ".") for what, said in its.items()
        }
    return found


def properties(clusters: Mapping[str, str], separator: str) -> dict[str, str]:
    named = {f"{alias}.bootstrap.servers": address for alias, address in clusters.items()}
    return {
        "clusters": ", ".join(ALIASES),
        "topics": f"orders|.*[{separator}]orders",
        "replication.policy.separator": separator,
        **named,
        **{f"{flow}.enabled": "true" for flow in FLOWS},
        **QUICK,
    }


def until_all_are_seen(clusters: Mapping[str, str], separator: str, folder: Path, why: Callable[[], str]) -> None:
    """Wait until D sees A over three hops, and all groups have checkpoints.

    The test reads a checkpoints topic only once it exists, because Java's consumer would make the broker create it.
    """
    deadline = time.monotonic() + 300
    for alias, upstream in ASKED.items():
        topic = separator.join((upstream, "checkpoints", "internal"))
        admin = AdminClient({"bootstrap.servers": clusters[alias]})
        while topic not in admin.list_topics(timeout=20).topics:
            assert time.monotonic() < deadline, f"no {topic} in {alias}\n{why()}"
            time.sleep(1)
    while True:
        found = answers(clusters, separator, "4.3.1", folder)
        seen = found["D"]["hops-A"] == "3" and all(its["translated"] != "{}" for its in found.values())
        if seen and all(found[alias]["remote-topics"].count("orders") == len(REMOTE[alias]) for alias in ALIASES):
            return
        assert time.monotonic() < deadline, f"{found}\n{why()}"
        time.sleep(1)


@pytest.fixture(scope="module")
def of_the_real_one(clusters: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("real")
    settings = MirrorMakerSettings("MirrorMaker 2", java="-Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    with mirror_maker_of(settings, properties(clusters, "-"), folder / "home") as running:
        until_all_are_seen(clusters, "-", folder, lambda: running.log.read_text()[-2000:])
        return answers(clusters, "-", "4.3.1", folder)


@pytest.fixture(scope="module")
def running(
    clusters: dict[str, str], of_the_real_one: Answers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlowProcess]:
    folder = tmp_path_factory.mktemp("ours")
    file = write_flows(folder, clusters, properties(clusters, "."))
    with flows(file, "--metrics-port", str(METRICS_PORT)) as process:
        until_all_are_seen(clusters, ".", folder, process.text)
        yield process


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_kafkas_client_sees_our_chain_and_ring_like_those_of_a_real_mirror_maker(
    running: FlowProcess, clusters: dict[str, str], of_the_real_one: Answers, version: str, tmp_path: Path
) -> None:
    ours = answers(clusters, ".", version, tmp_path)
    for alias in ALIASES:
        for what in ("upstream-clusters", "heartbeat-topics", *(f"hops-{one}" for one in ALIASES)):
            assert ours[alias][what] == of_the_real_one[alias][what], (alias, what, running.text())
        for what in ("remote-topics", "remote-topics-of"):
            assert names(ours[alias][what]) == names(of_the_real_one[alias][what]), (alias, what)
    assert ours["D"]["hops-A"] == "3"
    assert ours["A"]["hops-A"] == "-1"


def names(said: str) -> set[str]:
    return {name for name in said.strip("[]").split(", ") if name.endswith("orders")}


def test_each_name_has_an_alias_at_most_once_and_each_copy_has_each_record_once(
    running: FlowProcess, clusters: dict[str, str]
) -> None:
    for alias, remote in REMOTE.items():
        for topic in remote:
            origin = topic.split(".")[-2]
            assert records(clusters[alias], topic) == records(clusters[origin], "orders"), topic


def test_groups_resume_at_their_record_one_hop_away(
    running: FlowProcess, clusters: dict[str, str], tmp_path: Path
) -> None:
    found = answers(clusters, ".", "4.3.1", tmp_path)
    for alias, upstream in ASKED.items():
        offset = int(found[alias]["translated"].partition(f"{upstream}.orders-0=")[2].partition("/")[0])
        assert len(records(clusters[alias], f"{upstream}.orders", 0, offset)) == RECORDS - AT


def test_metrics_have_the_age_of_heartbeats_over_all_hops(running: FlowProcess) -> None:
    def shown() -> str:
        with urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    age = 'switchyard_flow_heartbeat_age_seconds{flow="C->D",path="A->B->C->D"} '
    until(lambda: age in shown(), 60, shown)
    (seconds,) = (line.removeprefix(age) for line in shown().splitlines() if line.startswith(age))
    assert 0 <= float(seconds) < 60


def test_later_records_reach_each_cluster_once(running: FlowProcess, clusters: dict[str, str]) -> None:
    produce(clusters["A"], "orders", [b"late"])
    until(lambda: records(clusters["D"], "C.B.A.orders")[-1].value == b"late", 60, running.text)
    time.sleep(5)
    for alias, remote in REMOTE.items():
        for topic in remote:
            origin = topic.split(".")[-2]
            assert len(records(clusters[alias], topic)) == RECORDS + (origin == "A"), topic
