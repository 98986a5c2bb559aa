"""Changes by gateways in the name of clients: single rules, and no partial writes."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from ha_core.model.access import ResourceType, RuleFilter
from ha_core.platform import client_changes
from ha_core.platform.changing import Edit, put
from ha_core.platform.client_changes import MAX_AT_ONCE, ClientChanges, QuotaLimitsChange
from ha_core.platform.errors import BusyError, InvalidError
from ha_core.platform.kinds.quotas import LIMITS, QuotaEntry
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.platform.serving.app import make_app
from ha_core.platform.serving.tokens import parse
from tests.registry.rest import GATEWAY, KNOWN, OPERATOR, client_with, failed

READS = {"principal": "User:alice", "resource_type": "topic", "name": "orders", "operation": "read"}


def said(**fields: str) -> dict[str, str]:
    return {**READS, **fields}


def rules(registry: Platform) -> set[str]:
    entries = [entry.entry for entry in registry.read.page("rules").stored]
    return {f"{rule.principal} {rule.operation} {rule.name}" for rule in entries if isinstance(rule, RuleEntry)}


def changes(registry: Platform) -> ClientChanges:
    return ClientChanges(registry, "alice", "CREATE_ACLS of a client, through gw-1")


@pytest.fixture
def known(registry: Platform) -> Platform:
    registry.apply([put(UserEntry(name=name, groups=("tills",))) for name in ("alice", "bob")], "somebody", "a test")
    return registry


def test_valid_rules_are_made_at_once_and_each_other_one_has_its_error(known: Platform) -> None:
    outcomes, changed_us = changes(known).create_rules(
        [
            said(),
            said(principal="User:nobody"),
            said(name="a b"),
            said(principal="Group:tills", operation="write"),
            said(resource_type="cluster", name="kafka-cluster"),
            said(),
        ]
    )

    assert [error is None for error in outcomes] == [True, False, False, True, False, True]
    assert "no user 'nobody'" in str(outcomes[1])
    assert rules(known) == {"User:alice read orders", "Group:tills write orders"}
    history = known.read.history("rules").stored
    assert {(entry.by, entry.reason) for entry in history} == {("alice", "CREATE_ACLS of a client, through gw-1")}
    assert changed_us == max(entry.changed_us for entry in history)


def test_a_repeated_request_succeeds_and_makes_no_other_version(known: Platform) -> None:
    changes(known).create_rules([said()])

    outcomes, changed_us = changes(known).create_rules([said()])

    assert (outcomes, changed_us) == ([None], 0)
    assert len(known.read.history("rules").stored) == 1


def test_filters_delete_matching_rules_and_nothing_else(known: Platform) -> None:
    changes(known).create_rules(
        [said(), said(operation="write"), said(principal="User:bob"), said(name="ord", pattern="prefixed")]
    )

    access_rules, changed_us = changes(known).delete_rules(
        [
            RuleFilter(ResourceType.TOPIC, "orders", principal="User:alice"),
            RuleFilter(name="orders", matching=True),
            RuleFilter(ResourceType.GROUP),
        ]
    )

    assert [len(rules) for rules in access_rules] == [2, 4, 0]
    assert rules(known) == set()
    assert changed_us > 0
    assert changes(known).delete_rules([RuleFilter()]) == ([[]], 0)


def test_rules_that_another_writer_changes_meanwhile_are_read_again(
    known: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a writer that creates one of the rules after it was looked up, and deletes the user of another one
    apply = Platform.apply

    def meanwhile(registry: Platform, *arguments: Any) -> Any:
        monkeypatch.setattr(Platform, "apply", apply)
        apply(registry, [put(RuleEntry.read(said()))], "another", "a test")
        apply(registry, [Edit("users", "bob", None, 1)], "another", "a test")
        return apply(registry, *arguments)

    monkeypatch.setattr(Platform, "apply", meanwhile)
    # When
    outcomes, _ = changes(known).create_rules([said(), said(principal="User:bob"), said(operation="write")])
    # Then
    assert [error is None for error in outcomes] == [True, False, True]
    assert [entry.by for entry in known.read.history("rules").stored] == ["alice", "another"]


def test_a_request_that_loses_every_race_changes_nothing(known: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    changes(known).create_rules([said()])
    apply = Platform.apply

    def meanwhile(registry: Platform, *arguments: Any) -> Any:
        stored = registry.read.find("rules", RuleEntry.read(said()).key)
        assert stored is not None
        assert stored.entry is not None
        apply(registry, [Edit("rules", stored.key, None, stored.version)], "another", "a test")
        apply(registry, [put(stored.entry)], "another", "a test")
        return apply(registry, *arguments)

    monkeypatch.setattr(Platform, "apply", meanwhile)

    with pytest.raises(BusyError):
        changes(known).delete_rules([RuleFilter()])

    assert rules(known) == {"User:alice read orders"}


def test_filters_that_read_too_many_rules_are_refused_with_the_remedy(
    known: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_changes, "MAX_LOOKED_AT", 1)
    changes(known).create_rules([said(), said(principal="User:bob")])

    with pytest.raises(InvalidError, match="name a principal"):
        changes(known).delete_rules([RuleFilter()])
    with pytest.raises(InvalidError, match="send fewer"):
        changes(known).create_rules([said()] * (MAX_AT_ONCE + 1))
    assert len(changes(known).delete_rules([RuleFilter(principal="User:bob")])[0][0]) == 1
    assert rules(known) == {"User:alice read orders"}


def test_only_gateways_write_in_the_name_of_a_client(known: Platform) -> None:
    body = {"user": "alice", "rules": [said()]}

    assert failed(client_with(known, OPERATOR).post("/v1/gateway/rules", json=body)) == (403, "forbidden")
    assert failed(client_with(known, None).post("/v1/gateway/rules", json=body)) == (401, "no_token")
    assert client_with(known, GATEWAY).post("/v1/gateway/rules", json=body).json()["results"] == [None]
    assert [entry.by for entry in known.read.history("rules").stored] == ["alice"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("rules", {"user": "alice", "rules": []}),
        ("rules", {"user": "a\x00", "rules": [READS]}),
        ("rules", {"rules": [READS]}),
        ("rules/deletions", {"user": "alice", "filters": [{"resource_type": "table"}]}),
        ("rules/deletions", {"user": "alice", "filters": [{}] * (MAX_AT_ONCE + 1)}),
    ],
)
def test_an_invalid_body_changes_nothing(known: Platform, path: str, body: dict[str, Any]) -> None:
    changes(known).create_rules([said()])

    assert failed(client_with(known, GATEWAY).post(f"/v1/gateway/{path}", json=body)) == (422, "invalid")

    assert rules(known) == {"User:alice read orders"}


def limits(registry: Platform) -> dict[str, dict[str, float]]:
    entries = [entry.entry for entry in registry.read.page("quotas").stored]
    return {
        f"{quota.user} {quota.topic} {quota.instance}": {
            name: getattr(quota, name) for name in LIMITS if getattr(quota, name) is not None
        }
        for quota in entries
        if isinstance(quota, QuotaEntry)
    }


def change(user: str | None = "alice", topic: str | None = None, **limits: float | None) -> QuotaLimitsChange:
    return QuotaLimitsChange.model_validate({"user": user, "topic": topic, "limits": limits})


def test_omitted_limits_stay_and_a_quota_without_limits_is_deleted(known: Platform) -> None:
    changes(known).change_quotas(
        [change(producer_byte_rate=5.0, consumer_byte_rate=7.0), change("bob", "t", producer_byte_rate=1)]
    )
    assert limits(known) == {
        "alice None None": {"producer_byte_rate": 5, "consumer_byte_rate": 7},
        "bob t None": {"producer_byte_rate": 1},
    }

    changes(known).change_quotas(
        [change(producer_byte_rate=None, request_percentage=12.5), change("bob", "t", producer_byte_rate=None)]
    )
    assert limits(known) == {"alice None None": {"consumer_byte_rate": 7, "request_percentage": 12.5}}
    assert changes(known).change_quotas([change("bob", consumer_byte_rate=None)]) == ([None], 0)


def test_each_invalid_quota_has_its_error_and_the_others_are_made(known: Platform) -> None:
    quota_limits_changes = [
        change(producer_byte_rate=5.0),
        change("nobody", producer_byte_rate=5.0),
        change("bob", producer_byte_rate=1.5),
        change(producer_byte_rate=6.0),
        change("bob", "orders", request_percentage=5),
        change("<default>", consumer_byte_rate=9),
    ]
    for dry_run in (True, False):
        outcomes, _ = changes(known).change_quotas(quota_limits_changes, dry_run)
        assert [error is None for error in outcomes] == [True, False, False, False, False, True]
        assert "no user 'nobody'" in str(outcomes[1])
        assert "changed twice" in str(outcomes[3])
        assert limits(known) == (
            {}
            if dry_run
            else {"alice None None": {"producer_byte_rate": 5}, "<default> None None": {"consumer_byte_rate": 9}}
        )


def test_quotas_are_only_accepted_if_they_come_into_force(known: Platform) -> None:
    body = {"user": "alice", "quotas": [{"user": "alice", "limits": {"producer_byte_rate": 5}}]}
    headers = {"Authorization": f"Bearer {GATEWAY}"}

    assert failed(client_with(known, GATEWAY).post("/v1/gateway/quotas", json=body)) == (503, "not_published")

    app = make_app(known, parse(KNOWN, "here"), publishes_quotas=True)
    assert TestClient(app).post("/v1/gateway/quotas", json=body, headers=headers).json()["results"] == [None]
