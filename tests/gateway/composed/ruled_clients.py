"""A client under access rules: alice, at 10.0.0.1."""

from dataclasses import replace

from gateway.composed.handlers import Context
from gateway.model.rights import Denied
from ha_core.model.access import AccessRule, access_rule
from ha_core.plan.access.rights import Rights


def allow(resource_type: str, name: str, operation: str, principal: str = "User:alice", **more: str) -> AccessRule:
    said = {"principal": principal, "resource_type": resource_type, "name": name, "operation": operation}
    return access_rule({**said, "effect": "allow", **more})


def ruled(context: Context, *rules: AccessRule, denied: list[Denied] | None = None) -> Context:
    """:param denied: gets all denials."""
    rights = Rights((), rules)
    told: list[Denied] = [] if denied is None else denied
    verdicts = rights.of("alice", "10.0.0.1")
    return replace(context, rights=rights, verdicts=verdicts, rules_file="rules.yaml", deny=told.extend)
