"""Parity of two real clusters: planted drift is found, kept for `status --check`, and gone after it is mended."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ha_core.model.mirror_job import MirrorSync, SyncFinding
from ha_core.operations.engine.environment import Environment, utc_now
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.overview.parity_health import parity_problems
from ha_core.operations.parity.comparing import ParityOrder, compare, pairs_of
from ha_core.operations.parity.registry import RegistryError, schemas_of
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator

pytestmark = pytest.mark.stack
environment = operator()
TOPIC = "parity-orders"


def set_retention(address: str, value: str) -> None:
    entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_planted_drift_is_found_kept_and_gone_once_it_is_mended(stack: Stack, environment: Environment) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    order = ParityOrder("east", "west", (f"{TOPIC}*",), ("message.timestamp.*", "segment.*", "follower.*"))
    create_topic(east, TOPIC, 4)

    missing = compare(environment, order)

    assert [(one.kind, one.about) for one in missing.drifts] == [("topic", TOPIC)]
    (problem,) = [one for one in parity_problems(environment) if one.about == "parity of west with east"]
    assert (problem.code, problem.command) == ("parity-drift", "switchyard parity check east west")

    create_topic(west, TOPIC, 2)
    set_retention(east, "3600000")
    set_retention(west, "7200000")
    wrong = compare(environment, order)
    assert [(one.kind, one.what, one.source, one.target) for one in wrong.drifts] == [
        ("partitions", "", "4", "2"),
        ("setting", "retention.ms", "3600000", "7200000"),
    ]
    assert wrong.since == missing.since  # the pair has differed since then

    grown = environment.admin(environment.store.load().clusters["west"])
    grown.grow_topics({TOPIC: 4}, lambda: None)
    set_retention(west, "3600000")
    assert compare(environment, order, dry_run=True).count == 0
    assert environment.store.parities()[0].count == 2  # a dry run keeps nothing
    assert compare(environment, order).since == ""
    assert not [one for one in parity_problems(environment) if one.code == "parity-drift"]


def test_a_scheduled_comparison_takes_the_ignored_settings_and_registries_of_the_last_one(
    stack: Stack, environment: Environment, registry: str
) -> None:
    assert stack
    compare(environment, ParityOrder("west", "east", (f"{TOPIC}*",), ("retention.ms",), (registry, registry)))

    again = compare(environment, ParityOrder("west", "east", (f"{TOPIC}*",)))

    assert (again.ignored, again.registries) == (("retention.ms",), (registry, registry))
    assert not [part for part in again.not_compared if part.startswith("schemas")]
    assert ("west", "east") in pairs_of(environment)


def test_findings_left_to_an_operator_are_drift_and_a_cluster_that_was_away_is_not_compared(
    stack: Stack, environment: Environment
) -> None:
    assert stack
    left = SyncFinding(what="partitions", about="topic orders", reason="it does not exist in west", stop=True)
    away = SyncFinding(what="offsets", about="cluster east", reason="Cluster east does not answer", stop=True)
    later = SyncFinding(what="offsets", about="group tills", reason="it has members there")
    environment.store.keep_mirror_sync(MirrorSync.of("west", "east", "topics", utc_now(), 1, (left, away, later)))

    found = compare(environment, ParityOrder("west", "east", ("none-such",)), dry_run=True)

    assert [(one.kind, one.about, one.source) for one in found.drifts] == [
        ("partitions", "topic orders", "it does not exist in west")
    ]
    assert "offsets of mirrors, cluster east: Cluster east does not answer" in found.not_compared


@pytest.mark.parametrize(
    ("source", "target", "words"), [("east", "south", "not registered"), ("east", "east", "one cluster")]
)
def test_a_pair_that_cannot_be_compared_is_refused(
    environment: Environment, source: str, target: str, words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        compare(environment, ParityOrder(source, target))


class Registry(BaseHTTPRequestHandler):
    """Answers like a Confluent-compatible registry, for one subject."""

    def do_GET(self) -> None:
        answers: dict[str, object] = {
            "/subjects": ["orders-value"],
            "/subjects/orders-value/versions": [1],
            "/subjects/orders-value/versions/1": {"id": 3, "schema": '{ "type": "string" }'},
        }
        found = answers.get(self.path)
        self.send_response(200 if found is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_schemas_are_read_with_their_ids_and_a_registry_that_is_none_is_named(registry: str) -> None:
    assert schemas_of(f"{registry}/") == {"orders-value": {1: 'AVRO id 3: {"type":"string"}'}}
    with pytest.raises(RegistryError, match="answers 404"):
        schemas_of(f"{registry}/elsewhere")
    with pytest.raises(RegistryError, match="does not answer"):
        schemas_of("http://127.0.0.1:1")
