"""Entries of the platform for the users, ACLs and quotas that a cluster's brokers have. No effects.

Invariant: each thing that the brokers have is either in an entry, or named as left out, with the reason.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ha_core.model.access import AclOperation, PatternType, Permission, ResourceType
from ha_core.plan.facts.clusters import BrokerAcl, BrokerQuotaEntity, quota_entity_words

LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
DEFAULT = "<default>"
_ENTITIES = {"user": "user", "client-id": "instance"}
_NO_RULES_FOR = frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS, AclOperation.TWO_PHASE_COMMIT})


class LeftOut(NamedTuple):
    kind: str
    about: str
    why: str


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """
    :ivar rules: None: the cluster has no authorizer.
    :ivar scram: user → mechanisms.
    :ivar quotas: entity → key → value.
    """

    rules: frozenset[BrokerAcl] | None
    scram: Mapping[str, Collection[str]]
    quotas: Mapping[BrokerQuotaEntity, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class BroughtEntries:
    """
    :ivar put: kind → values of entries, as the form of `change_access` takes them.
    :ivar without_keys: users with SCRAM mechanisms in the brokers, whose keys no request returns.
    """

    put: Mapping[str, list[dict[str, Any]]]
    without_keys: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def brought(found: BrokerAccess, without: Collection[str] = ()) -> BroughtEntries:
    """:param without: names of accounts that are no clients, such as the gateways' own."""
    left_out: list[LeftOut] = []
    rules = [*_rules(found.rules or (), without, left_out)]
    quotas = [*_quotas(found.quotas, without, left_out)]
    named = {rule["principal"].removeprefix("User:") for rule in rules} | {quota.get("user") for quota in quotas}
    users = sorted(({*found.scram} | {name for name in named if name}) - {"*", DEFAULT, *without})
    put = {"users": [{"name": name} for name in users], "rules": rules, "quotas": quotas}
    keyless = tuple(sorted({*found.scram} - {*without}))
    return BroughtEntries({kind: entries for kind, entries in put.items() if entries}, keyless, tuple(left_out))


def _rules(rules: Iterable[BrokerAcl], without: Collection[str], left_out: list[LeftOut]) -> Iterator[dict[str, Any]]:
    for rule in sorted(rules):
        words = f"{rule.principal} on {rule.name}, operation {rule.operation}"
        kind, _, name = rule.principal.partition(":")
        if kind == "User" and name in without:
            continue
        if kind != "User":
            left_out.append(LeftOut("rule", words, "its principal is no user"))
        elif rule.resource_type not in {*ResourceType} or rule.pattern not in {*PatternType}:
            left_out.append(LeftOut("rule", words, "gateways have no resource of its type"))
        elif rule.operation not in {*AclOperation} - _NO_RULES_FOR:
            left_out.append(LeftOut("rule", words, "gateways do not offer its operation"))
        else:
            yield {
                "principal": rule.principal,
                "resource_type": ResourceType(rule.resource_type).name.lower(),
                "name": rule.name,
                "pattern": PatternType(rule.pattern).name.lower(),
                "operation": AclOperation(rule.operation).name.lower(),
                "effect": Permission(rule.permission).name.lower(),
                "host": rule.host,
            }


def _quotas(
    quotas: Mapping[BrokerQuotaEntity, Mapping[str, float]], without: Collection[str], left_out: list[LeftOut]
) -> Iterator[dict[str, Any]]:
    for entity, values in sorted(quotas.items(), key=str):
        words = quota_entity_words(entity)
        if ("user", None) not in entity and dict(entity).get("user") in {*without}:
            continue
        if strange := [kind for kind, _ in entity if kind not in _ENTITIES]:
            left_out.append(LeftOut("quota", words, f"gateways have no quotas for {strange[0]}"))
            continue
        for key in sorted(values.keys() - {*LIMITS}):
            left_out.append(LeftOut("quota", words, f"gateways do not have {key} {values[key]:g}"))
        if limits := {key: values[key] for key in LIMITS if key in values}:
            yield {_ENTITIES[kind]: DEFAULT if name is None else name for kind, name in entity} | limits
