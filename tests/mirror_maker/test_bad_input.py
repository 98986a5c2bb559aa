"""A worker does not start with unusable files or clusters: it ends with a clear error and an exit code."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from stack.harness import Stack
from tests.kit.flows import FlowProcess, count, delete_topic, flows, produce, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
NOWHERE = "127.0.0.1:1"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


def refused(file: Path, options: Sequence[str] = ()) -> str:
    """Run a worker that ends with the exit code of bad input, and return its output."""
    process = FlowProcess(file, options)
    assert process.process.wait(60) == 2, process.text()
    assert "starts" not in process.text()
    return process.text()


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"A->A.enabled": "true"}, "A->A has one cluster on both sides; remove it"),
        (
            {"X->B.enabled": "true"},
            "X->B.enabled names the cluster 'X', which `clusters` does not list (A, B)",
        ),
        (
            {"A->B.enabled": "true", "B->A.enabled": "true", "replication.policy.class": IDENTITY},
            "the flows A -> B -> A form a cycle, and their policy keeps the names of topics",
        ),
        ({"A->B.enabled": "yes"}, "A->B.enabled=yes is neither true nor false"),
        ({"A->B.enabled": "true", "A->B.topics": "["}, "topics: '[' cannot be used as a regular expression here"),
    ],
)
def test_a_file_with_errors_is_refused_before_any_cluster_is_asked(
    tmp_path: Path, properties: dict[str, str], text: str
) -> None:
    """No cluster is asked: these clusters have no brokers."""
    assert text in refused(write_flows(tmp_path, {"A": NOWHERE, "B": NOWHERE}, properties))


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "by ZooKeeper"])
def test_one_cluster_under_two_aliases_is_refused(
    stack: Stack, east: str, west: str, tmp_path: Path, shared: bool
) -> None:
    options = ["--zookeeper", stack.zookeeper] if shared else []
    file = write_flows(tmp_path, {"A": east, "B": east, "C": west}, {"A->B.enabled": "true", "A->C.enabled": "true"})
    assert "A and B are the same cluster, with the id" in refused(file, options)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "by ZooKeeper"])
@pytest.mark.parametrize(
    ("topic", "partitions", "policy", "text"),
    [
        ("A.checkpoints.internal", 1, "delete", "has cleanup.policy=delete, so retention would delete its"),
        ("A.checkpoints.internal", 3, "compact", "has 3 partitions, but its readers expect 1"),
        ("heartbeats", 2, "compact", "has 2 partitions, but its readers expect 1"),
        ("mm2-copies.internal", 3, "compact", "has 3 partitions, but its readers expect 16"),
        ("mm2-first-looks.internal", 1, "delete", "has cleanup.policy=delete"),
    ],
)
def test_internal_topics_of_another_form_are_refused(
    stack: Stack,
    east: str,
    west: str,
    tmp_path: Path,
    topic: str,
    partitions: int,
    policy: str,
    text: str,
    shared: bool,
) -> None:
    create_topic(west, topic, partitions, **{"cleanup.policy": policy})
    try:
        options = ["--zookeeper", stack.zookeeper] if shared else []
        properties = {"A->B.enabled": "true", "consumer.auto.offset.reset": "latest"}
        said = refused(write_flows(tmp_path, {"A": east, "B": west}, properties), options)
        assert f"The internal topic {topic} of B {text}" in said
    finally:
        delete_topic(west, topic)


def test_flows_to_an_unreachable_cluster_wait_and_other_flows_run(
    stack: Stack, east: str, west: str, tmp_path: Path
) -> None:
    create_topic(east, "waiting", 1)
    produce(east, "waiting", [b"one"])
    both = {f"A->{one}.{what}": value for one in "BC" for what, value in (("enabled", "true"), ("topics", "waiting"))}
    with flows(write_flows(tmp_path, {"A": east, "B": west, "C": NOWHERE}, both)) as process:
        until(lambda: count(west, "A.waiting") > 1, 60, process.text)
        until(lambda: "A->C does not start yet: Cluster C: 127.0.0.1:1 cannot be reached" in process.text(), 30)


def test_names_and_filters_that_match_nothing_are_only_remarks(east: str, west: str, tmp_path: Path) -> None:
    """They are not errors, since a topic may be created later."""
    properties = {"A->B.enabled": "true", "A->B.topics": "misspelt", "groups": ""}
    with flows(write_flows(tmp_path, {"A": east, "B": west}, properties)) as process:
        text = "A->B: topics names misspelt, which A does not have, or does not show to this account"
        until(lambda: text in process.text(), 30, process.text)
        until(lambda: "groups of A->B is blank and matches nothing" in process.text(), 30, process.text)
