"""`users`, `rights`, `quotas` and `platform`, on an SQLite file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT, SUCCESS
from ha_core.model import GatewayRecord
from ha_core.operations.access import caches
from tests.cli.invoking import document, run, seeded, shown, use

WHY = ("--reason", "a test")
READ = ("--principal", "User:alice", "--type", "topic", "--name", "orders", "--operation", "read")


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of the database, which does not exist yet."""
    file = tmp_path / "platform.db"
    monkeypatch.setenv("SWITCHYARD_DATABASE", f"sqlite:///{file}")
    monkeypatch.delenv("SWITCHYARD_ZOOKEEPER", raising=False)
    return file


def test_a_user_is_made_granted_limited_revoked_and_deleted() -> None:
    assert document("users", "create", "alice", *WHY, "--owner", "shop", "--group", "shops")["result"] == "succeeded"
    assert document("rights", "grant", *READ, *WHY)["changes"][0]["version"] == 1
    quota = document("quotas", "set", "--user", "alice", "--topic", "orders", "--producer-byte-rate", "1000", *WHY)
    assert quota["changes"][0]["value"]["producer_byte_rate"] == 1000
    assert "orders" in shown("rights", "list", "--user", "alice")
    assert "shops" in shown("users", "list", "--group", "shops")

    document("rights", "revoke", *READ, *WHY)
    assert document("rights", "list")["items"] == []
    assert len(document("users", "delete", "alice", *WHY)["changes"]) == 2
    assert document("quotas", "list")["items"] == []
    assert "a test" in shown("platform", "history", "users", "alice")


def test_issuing_a_client_id_declares_its_topics_if_zookeeper_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document("users", "create", "alice", *WHY)
    alone = document("instances", "issue", "alice", "--topic", "orders", *WHY)
    assert not alone["declared"]
    assert "usage declare alice" in shown("instances", "issue", "alice", "--topic", "orders", *WHY)

    store = seeded()
    use(store, monkeypatch)
    monkeypatch.setenv("SWITCHYARD_ZOOKEEPER", "zk:2181")
    issued = document("instances", "issue", "alice", "--topic", "orders", "--topic", "bills", *WHY)

    assert issued["declared"]
    used = store.client().usage()["alice"].topics
    assert {name: [(use.instance, use.how) for use in uses] for name, uses in used.items()} == {
        topic: [(issued["client_id"], "declared")] for topic in ("bills", "orders")
    }
    assert len(document("instances", "list", "--topic", "orders")["items"]) == 3
    assert alone["client_id"] in shown("instances", "list", "--user", "alice")


def test_an_entry_is_put_by_a_process_that_does_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "alice.yaml"
    file.write_text("{name: alice, owner: shop}")
    program = "from ha_core.cli.app import build; build()()"
    words = ("platform", "put", "users", "--file", str(file), *WHY)
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (SUCCESS, "")


def test_omitted_fields_stay_and_a_password_comes_from_a_file_or_standard_input(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse\n")
    document("users", "create", "alice", *WHY, "--owner", "shop", "--password-file", str(secret))
    document("users", "set", "alice", *WHY, "--contact", "shop@example")

    (alice,) = document("users", "list")["items"]
    assert (alice["value"]["owner"], alice["value"]["contact"]) == ("shop", "shop@example")
    assert set(alice["value"]["mechanisms"]) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    typed = CliRunner().invoke(build(), ["users", "password", "alice", *WHY, "--json"], input="battery staple\n")
    assert typed.exit_code == SUCCESS
    assert "battery" not in typed.output
    assert CliRunner().invoke(build(), ["users", "password", "alice", *WHY], input="").exit_code == BAD_INPUT


def test_a_dry_run_writes_nothing() -> None:
    assert document("platform", "migrate")["before"] is None

    assert document("users", "create", "alice", *WHY, "--dry-run")["result"] == "dry run"

    assert document("users", "list")["items"] == []


@pytest.mark.parametrize("words", [("users", "create", "alice", *WHY, "--dry-run"), ("users", "list")])
def test_a_reading_command_creates_no_file(words: tuple[str, ...], database: Path) -> None:
    code, said = run(*words)

    assert (code, database.exists()) == (BAD_INPUT, False)
    assert "does not exist, and is not created here" in said["error"]


def test_without_a_configured_database_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given an operator without a configured database, and with an empty home
    monkeypatch.delenv("SWITCHYARD_DATABASE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    # When a right is granted, and the tables are migrated
    refused = [run("rights", "grant", *READ, *WHY), run("platform", "migrate")]
    # Then both are refused, and no file is created
    assert [code for code, _ in refused] == [BAD_INPUT, BAD_INPUT]
    assert "give --database, or set SWITCHYARD_DATABASE" in refused[0][1]["error"]
    assert [*tmp_path.iterdir()] == []


def test_a_change_says_whether_gateways_enforce_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given no ZooKeeper
    assert "is not known: name their ZooKeeper" in document("users", "create", "zoe", *WHY)["enforcement"][0]
    # And given one, with gateways that do not follow the platform
    store = seeded()
    use(store, monkeypatch)
    monkeypatch.setenv("SWITCHYARD_ZOOKEEPER", "zk:1")
    monkeypatch.setattr(caches, "WAIT_S", 0.3)
    store.client().register_gateway(GatewayRecord(id="gw-1", host="h", port=1, node_id=1))
    # When something is changed
    made = document("users", "create", "alice", *WHY)
    quota = shown("quotas", "set", "--user", "alice", "--producer-byte-rate", "1000", *WHY)
    # Then it is written, and reported to be in force nowhere
    assert (made["result"], made["changes"][0]["version"]) == ("succeeded", 1)
    assert made["enforcement"] == [
        "users: not in force, since no gateway follows this database (`platform:` in a gateway's configuration)."
    ]
    assert "quotas: not in force, since no service publishes the quotas of this database" in " ".join(quota.split())


@pytest.mark.parametrize(
    "words",
    [
        ("users", "create", "a\nb", *WHY),
        ("users", "delete", "nobody", *WHY),
        ("rights", "grant", *READ, *WHY),
        ("quotas", "set", "--user", "alice", "--producer-byte-rate", "0", *WHY),
        ("platform", "list", "people"),
        ("platform", "serve", "--host", "0.0.0.0"),
    ],
)
def test_an_invalid_change_is_reported_and_nothing_is_written(words: tuple[str, ...]) -> None:
    document("platform", "migrate")

    code, said = run(*words)

    assert (code, said["result"]) == (BAD_INPUT, "refused")
    assert document("platform", "history", "users")["items"] == []


@pytest.mark.parametrize("text", [json.dumps({"type": "user_rate", "value": 100}), "type: user_rate\nvalue: 100\n"])
def test_entries_of_any_kind_are_put_listed_and_deleted(text: str, tmp_path: Path) -> None:
    file = tmp_path / "setting"
    file.write_text(text)
    (made,) = document("platform", "put", "settings", "--file", str(file), *WHY)["changes"]

    assert made["key"] in shown("platform", "list", "settings")
    stale, _ = run("platform", "delete", "settings", made["key"], *WHY, "--version", "7")
    assert stale == BAD_INPUT
    assert document("platform", "delete", "settings", made["key"], *WHY)["changes"][0]["value"] is None


@pytest.mark.parametrize("data", [b"type: [", b"\xff", None])
def test_a_file_without_a_value_is_refused(data: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "setting"
    if data is not None:
        file.write_bytes(data)

    code, refused = run("platform", "put", "settings", "--file", str(file), *WHY)

    assert code == BAD_INPUT
    assert str(file) in refused["error"]


def test_tables_are_migrated_by_hand_too() -> None:
    assert document("platform", "migrate") == {"before": None, "now": "0002"}
    assert document("platform", "migrate") == {"before": "0002", "now": "0002"}
