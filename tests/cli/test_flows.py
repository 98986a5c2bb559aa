"""`flows check` with MirrorMaker 2 files, and the claims of flows."""

from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT
from ha_core.metrics.http import HttpServer
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.model import FlowId, FlowWorker
from ha_core.store.remote_topics import FlowTopics
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, run, shown, use

ROOT = Path(__file__).parents[2]

FILE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
B->A.enabled = true
B->A.consumer.isolation.level = read_uncommitted
B->A.consumer.auto.offset.reset = latest
"""


def test_the_flows_of_a_file_are_listed_with_the_records_that_they_copy(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    flows = document("flows", "check", str(file))["flows"]
    assert [(flow["flow"], flow["records"], flow["begins"]) for flow in flows] == [
        ("A->B", "committed", "earliest"),
        ("B->A", "all", "latest"),
    ]


def test_the_sample_file_gives_two_flows_without_a_remark() -> None:
    found = FlowsFile(ROOT / "deploy" / "mirror-maker.properties").read()
    assert [flow.name for flow in found.flows] == ["primary->backup", "backup->primary"]
    assert found.remarks == ()


# -- claims of remote topics ------------------------------------------------------------------------------------------

FLOW = FlowId("A->B", "a-id", "b-id")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store in which two flows of the same name, and one of another name, have claimed topics."""
    store = MemoryStore()
    for flow in (FLOW, FLOW._replace(target_id="other"), FlowId("B->A", "b-id", "a-id")):
        store.write_remote_topics(FlowTopics(flow, {f"{flow.name[0]}.orders": "orders", "own": ""}))
    use(store, monkeypatch)
    return store


def test_topics_that_only_flows_write_are_listed(store: MemoryStore) -> None:
    assert {"flow": str(FLOW), "remote_topic": "A.orders", "source": "orders"} in document("flows", "topics")
    assert len(document("flows", "topics")) == 6
    assert f"{FLOW}" in shown("flows", "topics")


def test_an_operator_releases_single_topics_or_a_whole_flow(store: MemoryStore) -> None:
    code, found = run("flows", "release", str(FLOW), "A.orders", "--yes")
    assert (code, found["released"]) == (0, ["A.orders"])
    assert store.remote_topics(FLOW) == {"own": ""}

    run("flows", "release", "B->A", "--yes")
    assert {row["flow"] for row in document("flows", "topics")} == {str(FLOW), "A->B@a-id>other"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("A->B",), "2 flows have this name"),
        (("C->A",), "no flow of this name has claimed a topic. Flows with claims: A->B@a-id>b-id, A->B@a-id>other"),
        (("B->A", "A.orders"), "has not claimed A.orders. `switchyard flows topics` lists its topics."),
    ],
)
def test_a_release_that_names_no_claim_is_refused(store: MemoryStore, words: tuple[str, ...], why: str) -> None:
    code, found = run("flows", "release", *words, "--yes")

    assert code != 0
    assert why in found["error"]
    assert len(document("flows", "topics")) == 6


def test_topics_of_a_running_flow_are_not_released(store: MemoryStore) -> None:
    worker = FlowWorker(id="w-1", host="ops1", pid=7, since="2026-11-21T10:00:00Z", flows=(str(FLOW),))
    with closing(store.register(worker)):
        code, found = run("flows", "release", str(FLOW), "--yes")

    assert code != 0
    assert "runs in worker ops1:7, which would claim its topics again" in found["error"]


def test_without_claims_the_list_of_topics_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    use(MemoryStore(), monkeypatch)

    assert document("flows", "topics") == []
    assert "No flow has claimed a topic." in shown("flows", "topics")


def test_a_pattern_of_groups_that_is_none_is_bad_input() -> None:
    words = ["mirror-client", "offsets", "A", "--bootstrap", "127.0.0.1:1", "--pattern", "["]
    ended = CliRunner().invoke(build(), words)
    assert ended.exit_code == BAD_INPUT
    assert "--pattern is no regular expression" in " ".join(ended.stderr.replace("│", " ").split())


def test_a_port_that_is_none_is_named_with_its_option() -> None:
    with pytest.raises(OSError, match=r"http 127\.0\.0\.1:99999999: ports are 0 to 65535; change --metrics-port"):
        HttpServer("127.0.0.1", 99_999_999, bytes, tuple, "--metrics-port").start()
