"""`client-quotas`: quotas that gateways enforce."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT, SUCCESS
from ha_core.model.quota import QuotaEntity, QuotaKind
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, run, seeded, shown, use

WHY = ("--reason", "a test")


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = seeded()
    use(store, monkeypatch)
    return store


def quotas() -> list[dict[str, object]]:
    found: list[dict[str, object]] = document("client-quotas", "list")["quotas"]
    return found


def test_a_quota_is_set_listed_changed_and_removed() -> None:
    said = document("client-quotas", "set", "--user", "alice", "--topic", "orders", "--producer-byte-rate", "1000")
    assert said["result"] == "succeeded"
    document("client-quotas", "set", "--user", "alice", "--topic", "orders", "--consumer-byte-rate", "5")
    quota = {"user": "alice", "topic": "orders", "instance": None}
    assert quotas() == [quota | {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0}]
    assert "alice" in shown("client-quotas", "list")
    removing = ("client-quotas", "remove", "--user", "alice", "--topic", "orders")
    document(*removing, "--limit", "producer_byte_rate")
    assert quotas() == [quota | {"consumer_byte_rate": 5.0}]
    assert document(*removing, "--dry-run")["result"] == "dry run"
    assert "not limited any more" in shown(*removing)
    assert quotas() == []
    assert "No quota is set" in shown("client-quotas", "list")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--producer-byte-rate", "5"), "neither user nor instance"),
        (("--user", "alice"), "limits nothing"),
        (("--user", "alice", "--producer-byte-rate", "0"), "greater than 0"),
        (("--user", "alice", "--producer-byte-rate", "-5"), "greater than 0"),
        (("--user", "alice", "--producer-byte-rate", "1.5"), "fractional"),
        (("--user", "alice", "--producer-byte-rate", "1e300"), "at most"),
        (("--user", "", "--producer-byte-rate", "5"), "0 characters"),
        (("--user", "al\nice", "--producer-byte-rate", "5"), "unprintable"),
        (("--instance", "app\x07", "--producer-byte-rate", "5"), "unprintable"),
        (("--user", "alice", "--topic", "or ders", "--producer-byte-rate", "5"), "no topic"),
        (("--user", "<default>", "--topic", "orders", "--producer-byte-rate", "5"), "one user"),
        (("--user", "alice", "--topic", "o", "--instance", "i", "--producer-byte-rate", "5"), "one user"),
        (("--user", "alice", "--topic", "orders", "--request-percentage", "5"), "only bytes"),
    ],
)
def test_an_invalid_quota_is_refused_with_the_reason(words: tuple[str, ...], why: str) -> None:
    ended = CliRunner().invoke(build(), ["client-quotas", "set", *words])
    assert ended.exit_code == BAD_INPUT
    assert why in " ".join(ended.stderr.replace("│", " ").split())
    assert quotas() == []


def test_two_quotas_with_one_name_are_distinguished_or_refused() -> None:
    document("client-quotas", "set", "--user", "a", "--topic", "b.c", "--producer-byte-rate", "5")
    code, said = run("client-quotas", "set", "--user", "a.b", "--topic", "c", "--producer-byte-rate", "5")
    assert code == BAD_INPUT
    assert said["result"] == "refused"
    assert [(line["user"], line["topic"]) for line in quotas()] == [("a", "b.c")]


def test_the_platforms_quotas_are_published(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given quotas of the platform, and one that only gateways know
    monkeypatch.setenv("SWITCHYARD_DATABASE", f"sqlite:///{tmp_path}/platform.db")
    document("users", "create", "alice", *WHY)
    document("quotas", "set", "--user", "alice", "--topic", "orders", "--producer-byte-rate", "1000", *WHY)
    document("quotas", "set", "--instance", "tool", "--request-percentage", "12.5", *WHY)
    store.change_quota(QuotaEntity("bob"), {QuotaKind.FETCH: 5.0})
    # When they are published, first in a dry run
    assert len(document("client-quotas", "publish", "--dry-run")["changes"]) == 2
    assert len(quotas()) == 1
    code, _ = run("client-quotas", "publish", "--yes")
    # Then gateways have them
    assert code == SUCCESS
    assert {(line["user"], line["topic"], line["instance"]) for line in quotas()} == {
        ("alice", "orders", None),
        (None, None, "tool"),
        ("bob", None, None),
    }
    # and nothing is left to do
    assert document("client-quotas", "publish", "--yes")["changes"] == []
    # except for the quota that the platform does not have
    document("client-quotas", "publish", "--prune", "--yes")
    assert {line["user"] for line in quotas()} == {"alice", None}
