"""Names that clients choose, in commands that operators paste."""

import shlex

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.probe import Probe
from ha_core.model import Cluster, GatewayRecord, Use
from ha_core.operations.engine.environment import utc_now
from ha_core.store.usage import Sighting
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, seeded, use

EAST = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)
GATEWAY = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=1, records_facts=True)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(Admin, "probe", lambda _self, **_options: Probe(True, answers=True))
    made = seeded(EAST)
    use(made, monkeypatch)
    return made


@pytest.mark.parametrize(
    "tail", ["$(touch here)", "`id`", "; id", " | sh", "' id '", '" id "', "\nid\n", "&&id", "-->x"]
)
def test_a_pasted_command_has_the_name_of_a_clients_group_as_one_word(store: MemoryStore, tail: str) -> None:
    # Given direct groups of a prefix, and a client that joins one with a hostile name through a gateway
    document("direct-groups", "add", "bills-*", "--reason", "they read past the gateways")
    store.client().register_gateway(GATEWAY)  # not before: the command would wait for it to follow
    group = f"bills-{tail}"
    store.record_usage("till", [Sighting("group", group, Use(how="join", since=utc_now()))])

    (notice,) = document("status", "--check")["notices"]

    assert (notice["code"], notice["about"]) == ("direct-group-used", f"group {group}")
    assert shlex.split(notice["command"]) == ["switchyard", "group", group]
    assert shlex.quote(group) in notice["remedy"]
