"""Compiled rules agree with a plain implementation of Kafka's semantics, and stay within their size bounds."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.model.access import (
    AccessRule,
    AccessRuleError,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    User,
    access_rule,
    address,
)
from ha_core.plan.access.rights import Rights

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
HOME, AWAY = "10.0.0.1", "10.0.0.2"


def rule(
    name: str,
    operation: AclOperation = READ,
    effect: Permission = ALLOW,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    resource: ResourceType = TOPIC,
) -> AccessRule:
    return AccessRule(principal, resource, name, pattern, operation, effect, host)


# -- a plain implementation, rule by rule, like Kafka's StandardAuthorizer ---------------------------------------------

IMPLIED = {
    AclOperation.DESCRIBE: {
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
}


def concerns(one: AccessRule, users: Sequence[User], user: str, host: str) -> bool:
    groups = next((known.groups for known in users if known.name == user), ())
    principals = {f"User:{user}", "User:*", *(f"Group:{group}" for group in groups)}
    return one.principal in principals and one.host in ("*", host)


def naive(
    users: Sequence[User],
    rules: Sequence[AccessRule],
    user: str,
    host: str,
    operation: AclOperation,
    resource: ResourceType,
    name: str,
) -> bool:
    if any(known.name == user and known.super_user for known in users):
        return True
    allowed = False
    for one in rules:
        matches = name.startswith(one.name) if one.pattern is PREFIXED else one.name in ("*", name)
        if not matches or one.resource_type is not resource or not concerns(one, users, user, host):
            continue
        if one.effect is DENY and one.operation in (ALL, operation):
            return False
        implied = IMPLIED.get(operation, {operation})
        allowed = allowed or (one.effect is ALLOW and (one.operation is ALL or one.operation in implied))
    return allowed


def naive_any(
    users: Sequence[User],
    rules: Sequence[AccessRule],
    user: str,
    host: str,
    operation: AclOperation,
    resource: ResourceType,
) -> bool:
    if naive(users, rules, user, host, operation, resource, "hardcode"):
        return True
    of_it = [
        one
        for one in rules
        if one.resource_type is resource and one.operation in (ALL, operation) and concerns(one, users, user, host)
    ]
    denied = [one for one in of_it if one.effect is DENY]
    allowed = [one for one in of_it if one.effect is ALLOW]
    if any(one.pattern is LITERAL and one.name == "*" for one in denied):
        return False
    if any(one.pattern is LITERAL and one.name == "*" for one in allowed):
        return True
    for one in allowed:
        same = one.pattern is LITERAL and any(no.pattern is LITERAL and no.name == one.name for no in denied)
        if not same and not any(no.pattern is PREFIXED and one.name.startswith(no.name) for no in denied):
            return True
    return False


names = st.sampled_from(["a", "ab", "abc", "b", "*", "hardcode", "hard", "kafka-cluster"])
rules_drawn = st.builds(
    AccessRule,
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:g", "Group:h"]),
    st.sampled_from(ResourceType),
    names,
    st.sampled_from(PatternType),
    st.sampled_from([ALL, READ, WRITE, DESCRIBE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS]),
    st.sampled_from(Permission),
    st.sampled_from(["*", HOME, AWAY]),
)
users_drawn = st.lists(
    st.builds(
        User, st.sampled_from(["alice", "bob"]), st.frozensets(st.sampled_from(["g", "h"])), st.sampled_from([True, 0])
    ),
    max_size=2,
    unique_by=lambda user: user.name,
)


@given(users_drawn, st.lists(rules_drawn, max_size=12), st.lists(rules_drawn, max_size=3), st.data())
@settings(deadline=None, max_examples=400)
def test_compiled_rules_agree_with_a_plain_implementation_also_after_changes(
    users: list[User], rules: list[AccessRule], more: list[AccessRule], data: st.DataObject
) -> None:
    # Given rights built at once, and equal ones built by changes
    fewer = data.draw(st.lists(st.sampled_from(rules), max_size=3) if rules else st.just([]))
    before = Rights((), rules)
    before.of("alice", HOME).operations(TOPIC, "ab")
    changed = before.changed({user.name: user for user in users}, more, fewer)
    gone = Counter(fewer)
    left = [*(Counter(rules) - gone).elements(), *more]  # a duplicate rule stays when it is removed once
    for user in ("alice", "bob", "carol"):
        for host in (HOME, AWAY, "10.9.9.9"):
            verdicts, other = Rights(users, left).of(user, host), changed.of(user, host)
            for resource in ResourceType:
                for operation in (READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
                    # When
                    expected_any = naive_any(users, left, user, host, operation, resource)
                    # Then
                    assert verdicts.allows_any(operation, resource) == expected_any
                    assert other.allows_any(operation, resource) == expected_any
                    for name in ("a", "ab", "abc", "abcd", "b", "z"):
                        expected = naive(users, left, user, host, operation, resource, name)
                        assert verdicts.allows(operation, resource, name) == expected
                        assert other.allows(operation, resource, name) == expected
    assert set(changed.rules()) == set(left)


def test_names_that_clients_invent_fill_no_memory() -> None:
    verdicts = Rights([], [rule("a", pattern=PREFIXED)]).of("alice", HOME)

    for number in range(25_000):
        verdicts.allows(READ, TOPIC, f"a{number}")

    assert len(verdicts._asked) <= 10_000


# -- rules in words ---------------------------------------------------------------------------------------------------

GOOD = {"principal": "User:alice", "resource_type": "topic", "name": "orders", "operation": "read", "effect": "allow"}


def test_a_rule_in_words_gets_defaults_for_missing_fields() -> None:
    assert access_rule(GOOD) == rule("orders")
    assert access_rule({**GOOD, "pattern": "prefixed", "host": "::ffff:10.0.0.1"}).host == HOME
    cluster = {"principal": "Group:ops", "resource_type": "cluster", "operation": "alter", "effect": "deny"}
    assert access_rule(cluster).name == "kafka-cluster"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"principal": ""}, "principal '': invalid"),
        ({"principal": "alice"}, "principal 'alice': invalid; write User:NAME"),
        ({"principal": "User:a\nb"}, "invalid"),
        ({"principal": "Group:*"}, "no group has all users"),
        ({"resource_type": "queue"}, "resource_type 'queue': not known; one of topic, group"),
        ({"name": "or ders"}, "no topic has it"),
        ({"name": "o" * 250}, "no topic has it"),
        ({"name": "' OR 1=1 --"}, "no topic has it"),
        ({"name": None}, "no name"),
        ({"operation": "steal"}, "operation 'steal': not known"),
        ({"operation": 3}, "operation 3: not known"),
        ({"effect": "perhaps"}, "effect 'perhaps': not known; one of deny, allow"),
        ({"pattern": "regex"}, "pattern 'regex': not known"),
        ({"host": "example.org"}, "host 'example.org': not an address"),
        ({"host": "10.0.0.0/8"}, "not an address"),
        ({"who": "me"}, "who: no such field; a rule has principal"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_field_value_and_way_out(change: dict[str, object], words: str) -> None:
    with pytest.raises(AccessRuleError) as refused:
        access_rule({**GOOD, **change})

    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["::ffff:10.0.0.1", "10.0.0.1"])
def test_an_address_has_one_form_for_ipv4_and_ipv6_sockets(text: str) -> None:
    assert address(text) == HOME


@pytest.mark.parametrize("field", ["principal", "resource_type", "operation", "effect"])
def test_a_rule_without_a_required_field_is_refused_with_its_name(field: str) -> None:
    with pytest.raises(AccessRuleError, match=f"{field}: missing"):
        access_rule({key: value for key, value in GOOD.items() if key != field})
