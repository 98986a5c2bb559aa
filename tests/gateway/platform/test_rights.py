"""Users and rules of the platform as rights: differences update them, and unreadable rows allow nothing."""

from typing import Any

from gateway.follow.platform.rights import PlatformRights
from ha_core.datacache.core.packed import packed
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content
from ha_core.model.access import AclOperation, ResourceType, access_rule
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.kinds.users import UserEntry

READ, TOPIC, CLUSTER = AclOperation.READ, ResourceType.TOPIC, ResourceType.CLUSTER


class Source:
    """Contents as a cache gives them, each made of the one before."""

    def __init__(self) -> None:
        self._last = Content()

    def after(self, **values: dict[str, Any] | None) -> Content:
        last_us = self._last.at_us
        rows = [packed(Row(key, last_us + 1 + number, value)) for number, (key, value) in enumerate(values.items())]
        self._last = self._last.after(rows, last_us + len(rows))
        return self._last


def rule(principal: str = "User:alice", **said: str) -> dict[str, Any]:
    fields = {"principal": principal, "resource_type": "topic", "name": "orders", "operation": "read", **said}
    return RuleEntry.read(fields).model_dump(mode="json")


def user(name: str, **said: Any) -> dict[str, Any]:
    return UserEntry.read({"name": name, **said}).model_dump(mode="json")


def reads(rights: PlatformRights, who: str = "alice", topic: str = "orders", host: str = "10.0.0.7") -> bool:
    return rights.rights.of(who, host).allows(READ, TOPIC, topic)


def test_rules_as_the_platform_writes_them_are_in_force_and_go_when_they_are_deleted() -> None:
    rights, source = PlatformRights(), Source()

    rights.follow_rules(source.after(one=rule(), two=rule(name="pay-", pattern="prefixed", host="10.0.0.7")))
    assert (reads(rights), reads(rights, topic="pay-1"), reads(rights, topic="pay-1", host="10.0.0.8")) == (
        True,
        True,
        False,
    )

    rights.follow_rules(source.after(one=None))
    assert (reads(rights), reads(rights, topic="pay-1"), len(rights.rights)) == (False, True, 1)


def test_a_users_groups_and_super_user_flag_give_rights_until_they_are_removed() -> None:
    rights, users, rules = PlatformRights(), Source(), Source()
    rights.follow_rules(rules.after(one=rule("Group:tills")))
    rights.follow_users(users.after(alice=user("alice", groups=["tills"]), ops=user("ops", super_user=True)))
    assert (reads(rights), reads(rights, "bob"), reads(rights, "ops", "anything")) == (True, False, True)

    rights.follow_users(users.after(alice=user("alice"), ops=None))

    assert (reads(rights), reads(rights, "ops")) == (False, False)


def test_a_rule_to_allow_that_cannot_be_read_is_left_out_and_counted() -> None:
    rights, source = PlatformRights(), Source()

    rights.follow_rules(source.after(one=rule(), two=rule() | {"operation": "levitate"}))

    assert reads(rights)
    assert set(rights.unreadable) == {("rules", "two")}


def test_an_unreadable_rule_that_may_deny_denies_everything_until_it_is_removed() -> None:
    # Given two of them, for the same user
    rights, source = PlatformRights(), Source()
    unknown = rule(effect="deny") | {"operation": "levitate"}
    allowed = {"one": rule(), "bob": rule("User:bob")}
    rights.follow_rules(source.after(**allowed, two=unknown, three=unknown | {"effect": "perhaps"}))
    assert not reads(rights)
    assert reads(rights, "bob")
    assert not rights.rights.of("alice", "10.0.0.7").allows(AclOperation.ALTER, CLUSTER)

    rights.follow_rules(source.after(two=None))
    assert not reads(rights)

    rights.follow_rules(source.after(three=None))
    assert reads(rights)
    assert not rights.unreadable


def test_an_unreadable_principal_denies_everything_to_everybody() -> None:
    rights, source = PlatformRights(), Source()

    rights.follow_rules(source.after(one=rule(), two={"effect": "deny", "whom": "alice"}))

    assert not reads(rights)


def test_an_unreadable_user_is_denied_everything() -> None:
    rights, users, rules = PlatformRights(), Source(), Source()
    rights.follow_rules(rules.after(one=rule()))
    rights.follow_users(users.after(alice=user("alice") | {"groups": "tills"}))
    assert not reads(rights)

    rights.follow_users(users.after(alice=user("alice", groups=["tills"])))

    assert reads(rights)
    assert not rights.unreadable


def test_rules_are_read_whatever_the_order_of_their_fields() -> None:
    # Given
    said = [
        rule("Group:tills", resource_type="group", name="till-", pattern="prefixed", operation="all", effect="deny"),
        rule("User:*", resource_type="cluster", name="kafka-cluster", operation="alter_configs"),
        rule(resource_type="transactional_id", name="*", operation="write", host="10.0.0.7"),
        rule(),
    ]
    rights, source = PlatformRights(), Source()
    # When
    orders = [said, [dict(reversed(one.items())) for one in said]]
    for number, values in enumerate(orders):
        rights.follow_rules(source.after(**{f"{number}-{at}": value for at, value in enumerate(values)}))
    # Then
    assert set(rights.rights.rules()) == {access_rule(one) for one in said}
    assert not rights.unreadable


def test_a_disabled_user_has_no_rights_and_gets_them_back_when_enabled() -> None:
    # Given users with a rule, one of them a super user
    rights, users, rules = PlatformRights(), Source(), Source()
    rights.follow_rules(rules.after(one=rule(), two=rule("User:bob")))
    rights.follow_users(
        users.after(alice=user("alice", disabled=True), bob=user("bob"), ops=user("ops", super_user=True))
    )
    assert (reads(rights), reads(rights, "bob"), reads(rights, "ops")) == (False, True, True)
    # When others are disabled, and enabled
    disabled = {name: user(name, disabled=True, super_user=name == "ops") for name in ("bob", "ops")}
    rights.follow_users(users.after(alice=user("alice"), **disabled))
    # Then
    assert (reads(rights), reads(rights, "bob"), reads(rights, "ops")) == (True, False, False)
    rights.follow_users(users.after(bob=user("bob"), ops=user("ops", super_user=True)))
    assert (reads(rights), reads(rights, "bob"), reads(rights, "ops")) == (True, True, True)
    assert rights.unreadable == {}
