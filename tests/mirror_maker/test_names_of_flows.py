"""Names of remote topics: fan-in, fan-out, both ways, identity policy, other separators, an operator's own policy."""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from stack.clients import java_mirror_client
from stack.harness import Stack
from tests.kit.flows import FlowProcess, commit, flows, produce, records, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker", "ha_core/flows"), pytest.mark.timeout(600)]
ALIASES = ("A", "B", "C")
QUICK = {"emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}
OWN_POLICY = '''
class SuffixPolicy:
    """orders of A is orders-from-A."""

    def format_remote_topic(self, source_alias, topic):
        return f"{topic}-from-{source_alias}"

    def topic_source(self, topic):
        upstream, found, alias = topic.rpartition("-from-")
        return alias if found else None

    def upstream_topic(self, topic):
        upstream, found, alias = topic.rpartition("-from-")
        return upstream if found else None

    def offset_syncs_topic(self, alias):
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias):
        return f"{alias}.checkpoints.internal"

    def is_checkpoints_topic(self, topic):
        return topic.endswith(".checkpoints.internal")

    def is_internal_topic(self, topic):
        return topic.startswith("__") or topic.endswith(".internal")
'''

stack = own_stack({"a": "3.9.2", "b": "4.3.1", "c": "4.3.1"}, scope="module", gateways=0)


@pytest.fixture(scope="module")
def clusters(stack: Stack) -> dict[str, str]:
    return {alias: bootstrap(stack, alias.lower()) for alias in ALIASES}


@pytest.fixture
def started(clusters: dict[str, str], tmp_path: Path) -> Iterator["Started"]:
    with ExitStack() as opened:
        yield Started(clusters, tmp_path, opened)


class Started:
    """Flows of one topic that each cluster has, with its own records."""

    def __init__(self, clusters: dict[str, str], folder: Path, opened: ExitStack) -> None:
        self._clusters, self._folder, self._opened = clusters, folder, opened
        self.process: FlowProcess | None = None

    def run(self, topic: str, among: Iterable[str], **properties: str) -> FlowProcess:
        named = {alias: self._clusters[alias] for alias in among}
        for alias, address in named.items():
            create_topic(address, topic, 2)
            for partition in (0, 1):
                produce(address, topic, (f"{alias} {number}".encode() for number in range(100)), partition)
        wanted = {key.replace("_to_", "->"): value for key, value in properties.items()}
        file = write_flows(self._folder, named, QUICK | wanted)
        self.process = self._opened.enter_context(flows(file))
        return self.process

    def until_copied(self, target: str, remote: str, source: str, topic: str) -> None:
        assert self.process is not None
        for partition in (0, 1):
            expected = records(self._clusters[source], topic, partition)
            assert len(expected) == 100
            until(
                lambda partition=partition, expected=expected: (
                    there(self._clusters[target], remote)  # type: ignore[misc]
                    and records(self._clusters[target], remote, partition) == expected
                ),
                60,
                self.process.text,
            )


def there(bootstrap: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap, "log_level": 3}).list_topics(timeout=10).topics


def test_topics_of_the_same_name_from_two_sources_become_two_remote_topics(started: Started) -> None:
    """Fan-in."""
    started.run(
        "in", ALIASES, **{"A_to_C.enabled": "true", "B_to_C.enabled": "true", "topics": "in", "replication.factor": "1"}
    )
    started.until_copied("C", "A.in", "A", "in")
    started.until_copied("C", "B.in", "B", "in")


def test_one_topic_is_copied_to_several_clusters(started: Started) -> None:
    """Fan-out."""
    started.run("out", ALIASES, **{"A_to_B.enabled": "true", "A_to_C.enabled": "true", "topics": "out"})
    started.until_copied("B", "A.out", "A", "out")
    started.until_copied("C", "A.out", "A", "out")


def test_topics_of_the_same_name_are_copied_both_ways_and_no_copy_comes_back(
    started: Started, clusters: dict[str, str]
) -> None:
    """Active/active."""
    both = {"A_to_B.enabled": "true", "B_to_A.enabled": "true", "topics": "both|.*[.]both"}
    process = started.run("both", "AB", **both)
    started.until_copied("B", "A.both", "A", "both")
    started.until_copied("A", "B.both", "B", "both")
    produce(clusters["A"], "both", [b"late"])
    until(lambda: records(clusters["B"], "A.both")[-1].value == b"late", 30, process.text)
    assert not there(clusters["A"], "B.A.both")
    assert not there(clusters["B"], "A.B.both")


def test_the_identity_policy_keeps_names(started: Started, clusters: dict[str, str], tmp_path: Path) -> None:
    """IdentityReplicationPolicy, in one direction. Names of heartbeats have the alias, so Kafka's client sees the flow;
    it takes the source of every other topic from its properties."""
    java = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    create_topic(clusters["A"], "same", 2)
    for partition in (0, 1):
        produce(clusters["A"], "same", (b"%d" % number for number in range(100)), partition)
    commit(clusters["A"], "same-readers", {("same", 1): 42})
    file = write_flows(
        tmp_path,
        {alias: clusters[alias] for alias in "AC"},
        QUICK | {"A->C.enabled": "true", "A->C.topics": "same", "replication.policy.class": java},
    )
    with flows(file) as process:
        for partition in (0, 1):
            until(
                lambda partition=partition: (
                    there(clusters["C"], "same")  # type: ignore[misc]
                    and records(clusters["C"], "same", partition) == records(clusters["A"], "same", partition)
                ),
                60,
                process.text,
            )
        until(lambda: there(clusters["C"], "A.heartbeats"), 30, process.text)
        for version in ("3.9.2", "4.3.1"):
            properties = {
                "bootstrap.servers": clusters["C"],
                "replication.policy.class": java,
                "source.cluster.alias": "A",
            }
            deadline_answers = java_mirror_client.ask(version, properties, "A", "same-readers", tmp_path)
            assert deadline_answers["hops"] == "1"
            assert "same" in deadline_answers["remote-topics-of"].strip("[]").split(", ")
            offset = int(deadline_answers["translated"].partition("same-1=")[2].partition("/")[0])
            assert len(records(clusters["C"], "same", 1, offset)) == 58


@pytest.mark.parametrize(
    ("topic", "more", "remote", "internal"),
    [
        ("dashed", {}, "A-dashed", "A-checkpoints-internal"),
        (
            "dotted",
            {"replication.policy.internal.topic.separator.enabled": "false"},
            "A-dotted",
            "A.checkpoints.internal",
        ),
    ],
)
def test_another_separator_is_used_in_all_names(
    started: Started,
    clusters: dict[str, str],
    topic: str,
    more: dict[str, str],
    remote: str,
    internal: str,
    tmp_path: Path,
) -> None:
    properties = {"A_to_B.enabled": "true", "topics": topic, "replication.policy.separator": "-", **more}
    process = started.run(topic, "AB", **properties)
    commit(clusters["A"], f"{topic}-readers", {(topic, 0): 7})
    started.until_copied("B", remote, "A", topic)
    until(lambda: there(clusters["B"], internal), 30, process.text)
    asked = {"bootstrap.servers": clusters["B"], "replication.policy.separator": "-", **more}

    def translated() -> str:
        return java_mirror_client.ask("4.3.1", asked, "A", f"{topic}-readers", tmp_path)["translated"]

    until(lambda: f"{remote}-0=" in translated(), 60, process.text)
    offset = int(translated().partition(f"{remote}-0=")[2].partition("/")[0])
    assert len(records(clusters["B"], remote, 0, offset)) == 93


def test_an_operators_own_policy_names_remote_topics(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy is found by its entry point, like that of an installed package."""
    package = tmp_path / "site"
    info = package / "own_policy-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "own_policy.py").write_text(OWN_POLICY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-policy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[switchyard.replication_policies]\nsuffix = own_policy:SuffixPolicy\n")
    monkeypatch.setenv("PYTHONPATH", str(package), prepend=":")
    started.run("own", "AB", **{"A_to_B.enabled": "true", "topics": "own", "replication.policy.class": "suffix"})
    started.until_copied("B", "own-from-A", "A", "own")


def test_at_most_one_flow_copies_a_topic_that_two_flows_would_write(clusters: dict[str, str], tmp_path: Path) -> None:
    """Both sources get the topic while the flows run. After a restart the first flow of the file copies it."""
    java = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    properties = QUICK | {
        "A->C.enabled": "true",
        "B->C.enabled": "true",
        "topics": "later-.*",
        "replication.policy.class": java,
    }
    file = write_flows(tmp_path, clusters, properties)
    with flows(file) as process:
        until(lambda: process.text().count(" starts") >= 2, 30, process.text)
        for number in range(3):
            for alias in "AB":
                create_topic(clusters[alias], f"later-{number}", 1)
                produce(clusters[alias], f"later-{number}", (f"{alias} {each}".encode() for each in range(200)))
        text = "would be written by A->C and B->C"
        until(lambda: text in process.text(), 60, process.text)
        time.sleep(10)
        for number in range(3):
            if there(clusters["C"], f"later-{number}"):
                found = records(clusters["C"], f"later-{number}")
                assert found in ([], *(records(clusters[alias], f"later-{number}") for alias in "AB")), process.text()
    for alias in "AB":
        create_topic(clusters[alias], "later-first", 4)
        for partition in range(4):
            produce(clusters[alias], "later-first", (f"{alias} {each}".encode() for each in range(200)), partition)
    with flows(file) as process:
        process.wait_for_text("topic later-first is not copied: later-first of C would be written by A->C and B->C")
        for partition in range(4):
            expected = records(clusters["A"], "later-first", partition)
            until(
                lambda partition=partition, expected=expected: (
                    there(clusters["C"], "later-first")  # type: ignore[misc]
                    and records(clusters["C"], "later-first", partition) == expected
                ),
                60,
                process.text,
            )
