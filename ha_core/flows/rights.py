"""Computes the rights that a flow's account needs on topics and clusters, and those that it lacks.

Brokers report an account's own rights on existing topics, and on the cluster. Rights to create topics, and rights on
groups and transactional ids, show only when they are used.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

READ, WRITE, CREATE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = (
    *("Read", "Write", "Create", "Alter", "Describe"),
    *("DescribeConfigs", "AlterConfigs"),
)
_BITS = {READ: 3, WRITE: 4, ALTER: 7, DESCRIBE: 8, DESCRIBE_CONFIGS: 10, ALTER_CONFIGS: 11}
"""Kafka's codes of ACL operations."""
CLUSTER = ""
_NAMED = 5
_CHECKED_INTERNAL = READ, WRITE, DESCRIBE_CONFIGS
NOT_TOLD = -(1 << 31)
"""Kafka's value of authorized operations if a broker does not report them."""


class AccountRights(NamedTuple):
    """Rights that the account of a flow needs in one of its clusters.

    :ivar resources: with SOURCE and TARGET in place of the aliases.
    :ivar use: the key, or the work, that needs them.
    """

    side: Literal["source", "target"]
    resources: str
    operations: tuple[str, ...]
    use: str


_INTERNAL = (CREATE, DESCRIBE_CONFIGS, READ, WRITE)
_ALWAYS, _SETTINGS, _ACLS = "always", "`sync.topic.configs.enabled`", "`sync.topic.acls.enabled`"
_CHECKPOINTS = "`emit.checkpoints.enabled`"
ACCOUNT_RIGHTS = (
    AccountRights("source", "copied topics", (DESCRIBE, READ), _ALWAYS),
    AccountRights("source", "copied topics", (DESCRIBE_CONFIGS,), _SETTINGS),
    AccountRights("source", "topic `mm2-offset-syncs.TARGET.internal`", _INTERNAL, "`emit.offset-syncs.enabled`"),
    AccountRights("source", "copied groups", (DESCRIBE,), _CHECKPOINTS),
    AccountRights("source", "group of MirrorMaker 1", (DESCRIBE,), "`switchyard.begins.at.group`"),
    AccountRights("source", "cluster", (DESCRIBE,), _ACLS),
    AccountRights("target", "remote topics", (CREATE, READ, WRITE), _ALWAYS),
    AccountRights("target", "remote topics", (ALTER,), "topics that get more partitions"),
    AccountRights("target", "remote topics", (ALTER_CONFIGS,), _SETTINGS),
    AccountRights("target", "topic `mm2-copies.internal`", _INTERNAL, _ALWAYS),
    AccountRights("target", "topic `mm2-offsets.SOURCE.internal`", _INTERNAL, "a MirrorMaker 2 before or after"),
    AccountRights("target", "topic `heartbeats`", _INTERNAL, "`emit.heartbeats.enabled`"),
    AccountRights("target", "topic `SOURCE.checkpoints.internal`", _INTERNAL, _CHECKPOINTS),
    AccountRights(
        *("target", "topic `mm2-offset-syncs.SOURCE.internal`"),
        *(_INTERNAL, "`offset-syncs.topic.location = target`, in place of the topic in the source"),
    ),
    AccountRights("target", "topic `mm2-first-looks.internal`", _INTERNAL, "`consumer.auto.offset.reset = latest`"),
    AccountRights("target", "transactional ids with the prefix `switchyard-copy-`", (WRITE,), _ALWAYS),
    AccountRights("target", "group `SOURCE-mm2`", (DESCRIBE,), "always: whether MirrorMaker 2 still runs"),
    AccountRights("target", "copied groups", (READ,), "`sync.group.offsets.enabled`, `flows move-group`"),
    AccountRights("target", "cluster", (ALTER, DESCRIBE), _ACLS),
    AccountRights("target", "cluster", (DESCRIBE_CONFIGS,), "new remote topics without bounds for timestamps"),
)
"""All rights that an account needs. Read, Write and Alter include Describe; AlterConfigs includes DescribeConfigs."""


class NeededRights(NamedTuple):
    """
    :ivar topic: name of the topic; CLUSTER: the rights are on the cluster.
    :ivar without: the consequence if one of the rights is missing.
    :ivar essential: whether the flow cannot run if one is missing.
    """

    alias: str
    topic: str
    operations: tuple[str, ...]
    without: str
    essential: bool


class LackingRights(NamedTuple):
    """One right that the account lacks on some topics, or on the cluster."""

    alias: str
    operation: str
    topics: tuple[str, ...]
    without: str
    essential: bool

    @property
    def text(self) -> str:
        if self.topics == (CLUSTER,):
            on = "the cluster"
        else:
            named, more = self.topics[:_NAMED], len(self.topics) - _NAMED
            on = f"the topic{'s' if len(self.topics) > 1 else ''} {', '.join(named)}"
            on += f" and {more} more" if more > 0 else ""
        return f"{self.alias}: the account lacks the right {self.operation} on {on}: {self.without}"


@dataclass(frozen=True)
class FlowNeeds:
    """
    :ivar copied: topics of the source that the flow copies.
    :ivar remote: existing remote topics of the flow.
    :ivar internal: alias → internal topics there.
    """

    source: str
    target: str
    copied: Collection[str]
    remote: Collection[str]
    internal: Mapping[str, Collection[str]]
    syncs_settings: bool
    syncs_acls: bool

    def __iter__(self) -> Iterator[NeededRights]:
        for alias, topics in self.internal.items():
            for topic in topics:
                yield NeededRights(alias, topic, _CHECKED_INTERNAL, "the flow cannot run", True)
        settings = (DESCRIBE_CONFIGS,) if self.syncs_settings else ()
        for topic in self.copied:
            yield NeededRights(self.source, topic, (READ, *settings), "they are not copied", False)
        settings = (ALTER_CONFIGS,) if self.syncs_settings else ()
        for topic in self.remote:
            yield NeededRights(self.target, topic, (READ, WRITE), "nothing is copied to them", False)
            yield NeededRights(self.target, topic, (ALTER,), "they get no more partitions", False)
            yield NeededRights(self.target, topic, settings, "they do not get their sources' settings", False)
        if self.syncs_acls:
            without = "ACLs are not synced. To run without ACL sync, set sync.topic.acls.enabled=false"
            yield NeededRights(self.source, CLUSTER, (DESCRIBE,), without, False)
            yield NeededRights(self.target, CLUSTER, (DESCRIBE, ALTER), without, False)


def lacking(needs: Iterable[NeededRights], granted: Mapping[tuple[str, str], int]) -> list[LackingRights]:
    """
    :param granted: (alias, topic) → bits of the granted operations. A missing entry means that they are unknown.
    """
    found: dict[tuple[str, str, str, bool], dict[str, None]] = {}
    for need in needs:
        bits = granted.get((need.alias, need.topic), NOT_TOLD)
        for operation in need.operations if bits != NOT_TOLD else ():
            if not bits >> _BITS[operation] & 1:
                key = need.alias, operation, need.without, need.essential
                found.setdefault(key, {})[need.topic] = None
    return [
        LackingRights(alias, operation, tuple(topics), without, essential)
        for (alias, operation, without, essential), topics in found.items()
    ]
