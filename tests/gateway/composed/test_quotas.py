"""Client quotas as requested by Kafka's own tools."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.handlers import ChangeQuotas, Long, QuotaChange
from gateway.composed.quotas import MANY_QUOTAS, MAX_CHANGES, alter_client_quotas, describe_client_quotas
from ha_core.model.quota import DEFAULT, QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.wire import ErrorCode, decode, encode
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.playbook import Playbook, world

BYTES = {QuotaKind.PRODUCE: 1000.0}
STANDING = Quotas(
    {
        QuotaEntity("alice"): BYTES,
        QuotaEntity("alice", "app"): {QuotaKind.REQUEST: 12.5},
        QuotaEntity(DEFAULT): {QuotaKind.FETCH: 5.0},
        QuotaEntity("alice", None, "orders"): BYTES,
        QuotaEntity(None, "tool"): BYTES,
    }
)
EXACT, DEFAULT_NAME, ANY = 0, 1, 2


def described(*components: tuple[str, int, str | None], strict: bool = True) -> Any:
    request = {
        "components": [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components],
        "strict": strict,
    }
    answer = Playbook(describe_client_quotas(replace(world(), quotas=STANDING), 1, request)).result
    encoded = encode(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, "response", answer)
    return decode(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, "response", encoded)


def found(*components: tuple[str, int, str | None], strict: bool = True) -> list[dict[str, str | None]]:
    return [
        {part["entity_type"]: part["entity_name"] for part in entry["entity"]}
        for entry in described(*components, strict=strict)["entries"]
    ]


def test_quotas_are_found_by_name_default_and_type() -> None:
    assert found(("user", EXACT, "alice")) == [{"user": "alice"}]
    assert found(("user", DEFAULT_NAME, None)) == [{"user": None}]
    assert found(("user", ANY, None)) == [{"user": "alice"}, {"user": None}]
    assert found(("user", EXACT, "alice"), ("client-id", ANY, None)) == [{"user": "alice", "client-id": "app"}]
    assert found(("client-id", ANY, None)) == [{"client-id": "alice.orders"}, {"client-id": "tool"}]
    assert len(found(strict=False)) == 5
    assert found(("ip", ANY, None)) == []
    values = described(("user", EXACT, "alice"))["entries"][0]["values"]
    assert values == [{"key": "producer_byte_rate", "value": 1000.0}]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_meaningless_filter_is_refused_as_by_a_broker(components: Any, code: ErrorCode) -> None:
    answer = described(*components)
    assert answer["error_code"] == code
    assert answer["error_message"]


def entry(entity: dict[str, str | None], *ops: tuple[str, float | None]) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
    }


def altering(*entries: dict[str, Any], validate_only: bool = False, users: frozenset[str] = frozenset()) -> Playbook:
    request = {"entries": list(entries), "validate_only": validate_only}
    return Playbook(alter_client_quotas(replace(world(), quotas=STANDING, users=users), 1, request))


def test_valid_changes_are_made_and_the_others_get_errors() -> None:
    play = altering(
        entry({"user": "bob"}, ("producer_byte_rate", 5.0), ("consumer_byte_rate", None)),
        entry({"user": "bob", "client-id": None}, ("producer_byte_rate", 0.0)),
    )
    change = QuotaChange(QuotaEntity("bob"), {QuotaKind.PRODUCE: 5.0, QuotaKind.FETCH: None})
    assert play.step == ChangeQuotas("anonymous", (change,))
    play.gives([{"error_code": 0, "error_message": None}])
    first, second = play.result["entries"]
    assert first["error_code"] == 0
    assert second["error_code"] == ErrorCode.INVALID_REQUEST
    assert second["error_message"] == "Quota producer_byte_rate must be greater than 0"
    assert second["entity"] == [
        {"entity_type": "user", "entity_name": "bob"},
        {"entity_type": "client-id", "entity_name": None},
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (entry({}, ("producer_byte_rate", 1.0)), "Invalid empty client quota entity"),
        (entry({"group": "x"}, ("producer_byte_rate", 1.0)), "Unhandled client quota entity type: group"),
        (entry({"ip": "10.0.0.1"}, ("producer_byte_rate", 1.0)), "addresses"),
        (entry({"user": ""}, ("producer_byte_rate", 1.0)), "Empty user not supported"),
        (entry({"user": "<default>"}, ("producer_byte_rate", 1.0)), "default entity"),
        (entry({"user": "x" * 300}, ("producer_byte_rate", 1.0)), "300 characters"),
        (entry({"user": "x"}, ("bytes", 1.0)), "Invalid configuration key bytes"),
        (entry({"user": "x"}, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)), "Duplicate quota key"),
        (entry({"client-id": "alice.orders"}, ("request_percentage", 1.0)), "only bytes"),
    ],
)
def test_invalid_changes_are_refused_without_effect(wrong: dict[str, Any], words: str) -> None:
    play = altering(wrong)
    (said,) = play.result["entries"]
    assert said["error_code"] == ErrorCode.INVALID_REQUEST
    assert words in said["error_message"]


def test_an_entity_that_comes_twice_is_refused_once() -> None:
    play = altering(
        entry({"user": "x"}, ("producer_byte_rate", 1.0)), entry({"user": "x"}, ("producer_byte_rate", 2.0))
    )
    play.gives([{"error_code": 0, "error_message": None}])
    (said,) = play.result["entries"]
    assert "duplicate entity" in said["error_message"]


def test_validate_only_changes_nothing() -> None:
    play = altering(entry({"user": "x"}, ("producer_byte_rate", 1.0)), validate_only=True)
    assert isinstance(play.step, ChangeQuotas)
    assert play.step.validate_only
    play.gives([{"error_code": 0, "error_message": None}])
    assert play.result["entries"][0]["error_code"] == 0


@pytest.mark.parametrize(
    ("name", "users", "expected"),
    [
        ("alice.orders", frozenset(), QuotaEntity("alice", None, "orders")),
        ("tool", frozenset({"tool"}), QuotaEntity(None, "tool")),
        ("cn.shop.orders.eu", frozenset({"cn.shop"}), QuotaEntity("cn.shop", None, "orders.eu")),
        ("cn.shop.orders.eu", frozenset(), QuotaEntity(None, "cn.shop.orders.eu")),
    ],
)
def test_a_name_below_clients_keeps_its_meaning_or_gets_it_from_known_users(
    name: str, users: frozenset[str], expected: QuotaEntity
) -> None:
    play = altering(entry({"client-id": name}, ("producer_byte_rate", 1.0)), users=users)
    assert isinstance(play.step, ChangeQuotas)
    assert play.step.changes[0].entity == expected


def test_too_many_quotas_in_one_request_are_refused_together() -> None:
    entries = [entry({"user": f"u-{number}"}, ("producer_byte_rate", 1.0)) for number in range(MAX_CHANGES + 1)]
    play = altering(*entries)
    assert {said["error_code"] for said in play.result["entries"]} == {ErrorCode.INVALID_REQUEST}
    assert "send fewer" in play.result["entries"][0]["error_message"]
    assert [said["entity"] for said in play.result["entries"]] == [said["entity"] for said in entries]
    assert altering(*entries[1:]).waits


def test_many_quotas_are_listed_off_the_event_loop() -> None:
    many = Quotas({QuotaEntity(f"u-{number}"): BYTES for number in range(MANY_QUOTAS + 1)})
    request: dict[str, Any] = {"components": [], "strict": False}
    play = Playbook(describe_client_quotas(replace(world(), quotas=many), 1, request))
    assert play.step == Long()
    assert len(play.gives(None).result["entries"]) == MANY_QUOTAS + 1
