"""Differences of two clusters that stand in for each other. No effects.

Invariant: a part that was not read is reported as not compared; it is never counted as equal. Things that only the
target has are no drift: it may serve other clients too.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ha_core.model.access import AclOperation
from ha_core.model.parity import Drift
from ha_core.plan.facts.clusters import BrokerQuotaEntity, TopicAcl, TopicSetting, quota_entity_words
from ha_core.plan.facts.verdict import amount
from ha_core.plan.mirror.syncing import covers

NAMES_BROKERS = ("*.replication.throttled.replicas",)
"""Settings that differ by right: they name brokers by id."""
_ENTITY_TYPES = {"user": "users", "client-id": "clients", "ip": "ips", "topic": "topics"}
"""As `kafka-configs.sh` names them."""


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """Contents of a cluster, as far as the topics in question go.

    :ivar bootstrap: where Kafka's own tools reach it.
    :ivar topics: topic → partitions.
    :ivar settings: topic → effective settings; None: not read.
    :ivar rights: rules for topics; None: the cluster has no authorizer, or they were not read.
    :ivar quotas: entity → key → value; None: not read.
    :ivar schemas: subject → version → schema; None: no registry is named, or it was not read.
    """

    name: str
    bootstrap: str
    topics: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]] | None
    rights: frozenset[TopicAcl] | None
    quotas: Mapping[BrokerQuotaEntity, Mapping[str, float]] | None
    schemas: Mapping[str, Mapping[int, str]] | None


def drifts(
    source: ClusterContents, target: ClusterContents, ignored: Collection[str] = (), mirrored: Set[str] = frozenset()
) -> Iterator[Drift]:
    """
    :param ignored: settings, by names or patterns, that may differ.
    :param mirrored: topics with a mirror to the target, whose sync mends them; the others take Kafka's own tools.
    """
    yield from _topics(source, target, mirrored)
    if source.settings is not None and target.settings is not None:
        yield from _settings(source, target, (*NAMES_BROKERS, *ignored))
    if source.rights is not None and target.rights is not None:
        yield from _rights(source, target, mirrored)
    if source.quotas is not None and target.quotas is not None:
        yield from _quotas(source, target)
    if source.schemas is not None and target.schemas is not None:
        yield from _schemas(source, target)


def _sync(target: ClusterContents, topic: str) -> str:
    return f"switchyard mirror sync {shlex.quote(topic)} --to {target.name}"


def _tool(name: str, target: ClusterContents, *options: str) -> str:
    """A command of Kafka, for things that belong to the cluster alone."""
    return shlex.join((f"kafka-{name}.sh", "--bootstrap-server", target.bootstrap, *options))


def _topics(source: ClusterContents, target: ClusterContents, mirrored: Set[str]) -> Iterator[Drift]:
    link = f"--from {source.name} --to {target.name} --reason parity"
    for topic, partitions in sorted(source.topics.items()):
        there = target.topics.get(topic)
        if there is None:
            yield Drift(
                kind="topic",
                about=topic,
                source=amount(partitions, "partition"),
                command=f"switchyard mirror link {topic} {link}",
            )
        elif there < partitions:
            yield Drift(
                kind="partitions",
                about=topic,
                source=str(partitions),
                target=str(there),
                command=_sync(target, topic)
                if topic in mirrored
                else _tool("topics", target, "--alter", "--topic", topic, "--partitions", str(partitions)),
            )


def _settings(source: ClusterContents, target: ClusterContents, ignored: Collection[str]) -> Iterator[Drift]:
    assert source.settings is not None
    assert target.settings is not None
    for topic, settings in sorted(source.settings.items()):
        there = target.settings.get(topic)
        if there is None:
            continue
        for name, setting in sorted(settings.items()):
            if name not in there or any(fnmatchcase(name, pattern) for pattern in ignored):
                continue  # older brokers do not know it
            if setting.value is not None and setting.value != there[name].value:
                yield Drift(
                    kind="setting",
                    about=topic,
                    what=name,
                    source=setting.value,
                    target=there[name].value or "",
                    command=_alter(target, (("topic", topic),), name, setting.value),
                )


def _rights(source: ClusterContents, target: ClusterContents, mirrored: Set[str]) -> Iterator[Drift]:
    """Rules of the source that no rule of the target has for the topics that both have. A rule of the target may be
    wider."""
    assert source.rights is not None
    assert target.rights is not None
    common = source.topics.keys() & target.topics.keys()
    for rule in sorted(source.rights):
        if rule.name not in ("*",) and not any(covers(rule, topic) for topic in common):
            continue
        who = (rule.principal, rule.host, rule.operation, rule.allows)
        like = [one for one in target.rights if (one.principal, one.host, one.operation, one.allows) == who]
        if rule in target.rights or any(one.name == "*" for one in like):
            continue
        topics = [topic for topic in common if covers(rule, topic)]
        if topics and all(any(covers(one, topic) for one in like) for topic in topics):
            continue
        verb = "may" if rule.allows else "may not"
        yield Drift(
            kind="right",
            about=f"{rule.pattern} {rule.name}",
            what=f"{rule.principal} from {rule.host} {verb} {_operation(rule)}",
            source="there",
            command=_sync(target, topics[0]) if topics and mirrored >= {*topics} else _add_rule(target, rule),
        )


def _operation(rule: TopicAcl) -> str:
    """As Kafka's tools name it: `Read`, `DescribeConfigs`."""
    try:
        return AclOperation(rule.operation).name.title().replace("_", "")
    except ValueError:  # of a newer broker
        return f"operation {rule.operation}"


def _add_rule(target: ClusterContents, rule: TopicAcl) -> str:
    may = "allow" if rule.allows else "deny"
    who = (f"--{may}-principal", rule.principal, f"--{may}-host", rule.host)
    which = ("--topic", rule.name, "--resource-pattern-type", rule.pattern)
    return _tool("acls", target, "--add", *who, "--operation", _operation(rule), *which)


def _quotas(source: ClusterContents, target: ClusterContents) -> Iterator[Drift]:
    assert source.quotas is not None
    assert target.quotas is not None
    for entity, values in sorted(source.quotas.items(), key=lambda item: quota_entity_words(item[0])):
        there = target.quotas.get(entity, {})
        for key, value in sorted(values.items()):
            if there.get(key) != value:
                yield Drift(
                    kind="quota",
                    about=quota_entity_words(entity),
                    what=key,
                    source=_exactly(value),
                    target=_exactly(there[key]) if key in there else "",
                    command=_alter(target, entity, key, _exactly(value)),
                )


def _exactly(value: float) -> str:
    """All digits: `1234567`, not `1.23457e+06`, which is another quota."""
    return str(int(value)) if value.is_integer() else repr(value)


def _alter(target: ClusterContents, entity: BrokerQuotaEntity, key: str, value: str) -> str:
    named = [
        word
        for kind, name in entity
        for word in (
            "--entity-type",
            _ENTITY_TYPES[kind],
            *(("--entity-default",) if name is None else ("--entity-name", name)),
        )
    ]
    listed = f"[{value}]" if "," in value else value  # else the tool takes a comma for the next setting
    return _tool("configs", target, "--alter", *named, "--add-config", f"{key}={listed}")


def _schemas(source: ClusterContents, target: ClusterContents) -> Iterator[Drift]:
    assert source.schemas is not None
    assert target.schemas is not None
    for subject, versions in sorted(source.schemas.items()):
        there = target.schemas.get(subject, {})
        for version, schema in sorted(versions.items()):
            if there.get(version) != schema:
                yield Drift(
                    kind="schema",
                    about=subject,
                    what=f"version {version}",
                    source=_short(schema),
                    target=_short(there[version]) if version in there else "",
                    command="register it in the target's registry with its id, in mode IMPORT",
                )


def _short(schema: str) -> str:
    return schema if len(schema) <= 80 else f"{schema[:79]}…"
