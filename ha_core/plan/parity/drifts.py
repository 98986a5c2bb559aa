"""Differences of two clusters that stand in for each other. No effects.

Invariant: a part that was not read is reported as not compared; it is never counted as equal. Things that only the
target has are no drift: it may serve other clients too.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ha_core.model.parity import Drift
from ha_core.plan.facts.clusters import BrokerQuotaEntity, TopicAcl, TopicSetting, quota_entity_words
from ha_core.plan.facts.verdict import amount
from ha_core.plan.mirror.syncing import covers

NAMES_BROKERS = ("*.replication.throttled.replicas",)
"""Settings that differ by right: they name brokers by id."""


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """Contents of a cluster, as far as the topics in question go.

    :ivar topics: topic → partitions.
    :ivar settings: topic → effective settings; None: not read.
    :ivar rights: rules for topics; None: the cluster has no authorizer, or they were not read.
    :ivar quotas: entity → key → value; None: not read.
    :ivar schemas: subject → version → schema; None: no registry is named, or it was not read.
    """

    name: str
    topics: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]] | None
    rights: frozenset[TopicAcl] | None
    quotas: Mapping[BrokerQuotaEntity, Mapping[str, float]] | None
    schemas: Mapping[str, Mapping[int, str]] | None


def drifts(source: ClusterContents, target: ClusterContents, ignored: Collection[str] = ()) -> Iterator[Drift]:
    """:param ignored: settings, by names or patterns, that may differ."""
    yield from _topics(source, target)
    if source.settings is not None and target.settings is not None:
        yield from _settings(source, target, (*NAMES_BROKERS, *ignored))
    if source.rights is not None and target.rights is not None:
        yield from _rights(source, target)
    if source.quotas is not None and target.quotas is not None:
        yield from _quotas(source, target)
    if source.schemas is not None and target.schemas is not None:
        yield from _schemas(source, target)


def _topics(source: ClusterContents, target: ClusterContents) -> Iterator[Drift]:
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
                command=f"switchyard mirror sync {topic} --to {target.name}",
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
                    command=f"switchyard mirror sync {topic} --to {target.name}",
                )


def _rights(source: ClusterContents, target: ClusterContents) -> Iterator[Drift]:
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
            what=f"{rule.principal} from {rule.host} {verb}, operation {rule.operation}",
            source="there",
            command=f"switchyard mirror sync --to {target.name}",
        )


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
                    source=f"{value:g}",
                    target=f"{there[key]:g}" if key in there else "",
                    command=_alter(entity, key, value),
                )


def _alter(entity: BrokerQuotaEntity, key: str, value: float) -> str:
    """Kafka's own tool: quotas of brokers belong to their clusters."""
    named = " ".join(
        f"--entity-type {kind}s --entity-default" if name is None else f"--entity-type {kind}s --entity-name {name}"
        for kind, name in entity
    )
    return f"kafka-configs.sh --bootstrap-server … --alter --add-config {key}={value:g} {named}"


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
