"""ACLs, SCRAM users and quotas of brokers become entries of the platform, or are named with the reason."""

from ha_core.model.access import AclOperation, PatternType, Permission, ResourceType
from ha_core.plan.access.onboarding import BrokerAccess, LeftOut, brought
from ha_core.plan.facts.clusters import BrokerAcl, BrokerQuotaEntity


def rule(principal: str, operation: int = AclOperation.READ, resource_type: int = ResourceType.TOPIC) -> BrokerAcl:
    return BrokerAcl(resource_type, PatternType.LITERAL, "orders", principal, "*", operation, Permission.ALLOW)


def test_a_user_of_a_rule_a_quota_or_scram_is_put_once_before_what_names_it() -> None:
    quotas: dict[BrokerQuotaEntity, dict[str, float]] = {
        (("client-id", None), ("user", "ann")): {"producer_byte_rate": 1000.0}
    }

    found = brought(BrokerAccess(frozenset({rule("User:ann")}), {"bob": ("SCRAM-SHA-512",)}, quotas))

    assert [*found.put] == ["users", "rules", "quotas"]
    assert found.put["users"] == [{"name": "ann"}, {"name": "bob"}]
    assert found.put["rules"][0] == {
        "principal": "User:ann",
        "resource_type": "topic",
        "name": "orders",
        "pattern": "literal",
        "operation": "read",
        "effect": "allow",
        "host": "*",
    }
    assert found.put["quotas"] == [{"instance": "<default>", "user": "ann", "producer_byte_rate": 1000.0}]
    assert (found.without_keys, found.left_out) == (("bob",), ())


def test_a_rule_or_quota_that_gateways_lack_is_left_out_with_the_reason() -> None:
    rules = frozenset({rule("Role:x"), rule("User:a", AclOperation.CREATE_TOKENS), rule("User:b", resource_type=6)})
    quotas: dict[BrokerQuotaEntity, dict[str, float]] = {
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
        (("user", "c"),): {"controller_mutation_rate": 2.0},
    }

    found = brought(BrokerAccess(rules, {}, quotas))

    assert found.put == {}
    assert {one.why for one in found.left_out} == {
        "its principal is no user",
        "gateways do not offer its operation",
        "gateways have no resource of its type",
        "gateways have no quotas for ip",
        "gateways do not have controller_mutation_rate 2",
    }
    assert LeftOut("quota", "ip 10.0.0.1", "gateways have no quotas for ip") in found.left_out


def test_the_gateways_own_account_is_no_client() -> None:
    quotas: dict[BrokerQuotaEntity, dict[str, float]] = {(("user", "own"),): {"consumer_byte_rate": 1.0}}

    found = brought(BrokerAccess(frozenset({rule("User:own")}), {"own": ("SCRAM-SHA-256",)}, quotas), ["own"])

    assert (found.put, found.without_keys) == ({}, ())


def test_every_user_and_the_default_quota_make_no_user() -> None:
    found = brought(BrokerAccess(frozenset({rule("User:*")}), {}, {(("user", None),): {"request_percentage": 50.0}}))

    assert "users" not in found.put
    assert found.put["quotas"] == [{"user": "<default>", "request_percentage": 50.0}]
