"""All keys of `mm2.properties` in Kafka 3.9 and 4.3, with their defaults and their use here.

Taken from the configuration definitions that both versions print (`MirrorSourceConfig`, `MirrorCheckpointConfig`,
`MirrorHeartbeatConfig`, `MirrorConnectorConfig`), and from the worker keys that `MirrorMakerConfig` passes on.
"""

from enum import StrEnum
from typing import NamedTuple


class KeyUse(StrEnum):
    """What Switchyard does with a key."""

    APPLIED = "applied"
    WITHOUT_EFFECT = "without effect"
    """Accepted; it changes nothing here."""
    REFUSED = "refused"
    """A value other than the default is an error: it would change records or names in a way that Switchyard cannot."""


class FlowKey(NamedTuple):
    """
    :ivar default: Kafka 4.3's default.
    :ivar earlier_default: Kafka 3.9's default; None: the same.
    :ivar default_here: Switchyard's default; None: Kafka's. It is shorter for tasks that cost Switchyard little.
    :ivar note: why the key has no effect or is refused, for operators.
    :ivar valid: valid values; empty: any value of the key's type.
    """

    name: str
    default: str
    use: KeyUse = KeyUse.APPLIED
    note: str = ""
    valid: tuple[str, ...] = ()
    earlier_default: str | None = None
    default_here: str | None = None


BEGINS_AT_GROUP = "switchyard.begins.at.group"
"""Group of the source at whose committed offsets partitions begin that no flow has copied yet."""
_MM2 = "org.apache.kafka.connect.mirror."
_JAVA = "it names a Java class, which Switchyard cannot run"
_CONNECT = "it belongs to Kafka Connect, which Switchyard does not use"
_EXCLUDED_SETTINGS = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,log\.message\.timestamp\.before\.max\.ms,"
    r"log\.message\.timestamp\.after\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,"
    r"min\.insync\.replicas"
)
_EXCLUDED_SETTINGS_3_9 = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,"
    r"min\.insync\.replicas"
)

FLOW_KEYS = {
    key.name: key
    for key in (
        FlowKey("enabled", "false"),
        FlowKey("topics", ".*"),
        FlowKey(
            "topics.exclude",
            r"mm2.*\.internal,.*\.replica,__.*",
            earlier_default=r".*[\-\.]internal,.*\.replica,__.*",
        ),
        FlowKey("groups", ".*"),
        FlowKey("groups.exclude", r"console-consumer-.*,connect-.*,__.*"),
        FlowKey("config.properties.exclude", _EXCLUDED_SETTINGS, earlier_default=_EXCLUDED_SETTINGS_3_9),
        FlowKey("use.defaults.from", "target", valid=("source", "target")),
        FlowKey("replication.policy.class", f"{_MM2}DefaultReplicationPolicy"),
        FlowKey("replication.policy.separator", "."),
        FlowKey("replication.policy.internal.topic.separator.enabled", "true"),
        FlowKey("replication.factor", "2"),
        FlowKey("refresh.topics.enabled", "true"),
        FlowKey("refresh.topics.interval.seconds", "600", default_here="3"),
        FlowKey("sync.topic.configs.enabled", "true"),
        FlowKey("sync.topic.configs.interval.seconds", "600"),
        FlowKey("sync.topic.acls.enabled", "true"),
        FlowKey("sync.topic.acls.interval.seconds", "600"),
        FlowKey("refresh.groups.enabled", "true"),
        FlowKey("refresh.groups.interval.seconds", "600", default_here="10"),
        FlowKey("emit.checkpoints.enabled", "true"),
        FlowKey("emit.checkpoints.interval.seconds", "60"),
        FlowKey("sync.group.offsets.enabled", "false"),
        FlowKey("sync.group.offsets.interval.seconds", "60"),
        FlowKey("emit.heartbeats.enabled", "true"),
        FlowKey("emit.heartbeats.interval.seconds", "1"),
        FlowKey("heartbeats.replication.enabled", "true"),
        FlowKey("emit.offset-syncs.enabled", "true"),
        FlowKey("offset.lag.max", "100"),
        FlowKey("offset-syncs.topic.location", "source", valid=("source", "target")),
        FlowKey("heartbeats.topic.replication.factor", "3"),
        FlowKey("checkpoints.topic.replication.factor", "3"),
        FlowKey("offset-syncs.topic.replication.factor", "3"),
        FlowKey("metric.names.formats", "legacy", valid=("legacy", "new")),
        FlowKey("add.source.alias.to.metrics", "false", KeyUse.WITHOUT_EFFECT, "Switchyard's metrics always have it"),
        FlowKey("topic.filter.class", f"{_MM2}DefaultTopicFilter"),
        FlowKey("group.filter.class", f"{_MM2}DefaultGroupFilter"),
        FlowKey("config.property.filter.class", f"{_MM2}DefaultConfigPropertyFilter"),
        FlowKey("transforms", "", KeyUse.REFUSED, "it changes records, and Switchyard copies their bytes"),
        FlowKey("predicates", "", KeyUse.REFUSED, "it selects records, and Switchyard copies all"),
        FlowKey("key.converter", "", KeyUse.REFUSED, "Switchyard copies the bytes of keys"),
        FlowKey("value.converter", "", KeyUse.REFUSED, "Switchyard copies the bytes of values"),
        FlowKey("header.converter", "", KeyUse.REFUSED, "Switchyard copies the bytes of headers"),
        FlowKey("forwarding.admin.class", "org.apache.kafka.clients.admin.ForwardingAdmin", KeyUse.REFUSED, _JAVA),
        FlowKey("admin.timeout.ms", "60000", KeyUse.WITHOUT_EFFECT, "Switchyard's requests have their own timeouts"),
        FlowKey("consumer.poll.timeout.ms", "1000", KeyUse.WITHOUT_EFFECT, "Switchyard's copier waits for brokers"),
        FlowKey("tasks.max", "1", KeyUse.WITHOUT_EFFECT, "Switchyard spreads partitions over its processes"),
        FlowKey("tasks.max.enforce", "true", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("use.incremental.alter.configs", "requested", KeyUse.WITHOUT_EFFECT, "Switchyard always does"),
        FlowKey("errors.log.enable", "false", KeyUse.WITHOUT_EFFECT, "Switchyard logs each error"),
        FlowKey("errors.log.include.messages", "false", KeyUse.WITHOUT_EFFECT, "Switchyard never logs records"),
        FlowKey("errors.retry.delay.max.ms", "60000", KeyUse.WITHOUT_EFFECT, "Switchyard retries for ever"),
        FlowKey("errors.retry.timeout", "0", KeyUse.WITHOUT_EFFECT, "Switchyard retries for ever"),
        FlowKey(
            "errors.tolerance",
            "none",
            KeyUse.REFUSED,
            "Switchyard skips no record; a partition that cannot be copied stops with its reason",
            ("none", "all"),
        ),
        FlowKey("exactly.once.support", "requested", KeyUse.WITHOUT_EFFECT, "Switchyard copies exactly once"),
        FlowKey("exactly.once.source.support", "disabled", KeyUse.WITHOUT_EFFECT, "Switchyard copies exactly once"),
        FlowKey("transaction.boundary", "poll", KeyUse.WITHOUT_EFFECT, "Switchyard copies without transactions"),
        FlowKey("transaction.boundary.interval.ms", "", KeyUse.WITHOUT_EFFECT, "see transaction.boundary"),
        FlowKey("offsets.storage.topic", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("config.action.reload", "restart", KeyUse.WITHOUT_EFFECT, "it belongs to Kafka Connect"),
        FlowKey("auto.include.jmx.reporter", "true", KeyUse.WITHOUT_EFFECT, "Switchyard's metrics are for Prometheus"),
        FlowKey("metric.reporters", "", KeyUse.WITHOUT_EFFECT, "Switchyard's metrics are for Prometheus"),
        FlowKey("name", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("connector.class", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("connector.plugin.version", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("key.converter.plugin.version", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("value.converter.plugin.version", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey("header.converter.plugin.version", "", KeyUse.WITHOUT_EFFECT, _CONNECT),
        FlowKey(BEGINS_AT_GROUP, "", note="a key of Switchyard: where MirrorMaker 1 stopped"),
        FlowKey("source.cluster.alias", "", KeyUse.WITHOUT_EFFECT, "the alias is the one in `clusters`"),
        FlowKey("target.cluster.alias", "", KeyUse.WITHOUT_EFFECT, "the alias is the one in `clusters`"),
    )
}
"""Keys of flows: for all flows (`topics`), or for one (`A->B.topics`)."""

RENAMED = {
    "topics.blacklist": "topics.exclude",
    "topics.whitelist": "topics",
    "groups.blacklist": "groups.exclude",
    "groups.whitelist": "groups",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Key names that Kafka 4.0 removed → current names. Switchyard still accepts them."""

CLIENT_PREFIXES = ("security.", "ssl.", "sasl.", "bootstrap.servers", "client.", "request.timeout.ms", "metadata.")
"""Prefixes of keys that all Kafka clients have, for one cluster (`A.ssl.truststore.location`) or for all clusters."""

OWN_FILTERS = {
    "topic.filter.": "topics",
    "group.filter.": "groups",
    "config.property.filter.": "config.properties",
}
"""Prefix of a filter's own keys → keys that begin like this are given to it, too."""

CLIENTS = ("producer.", "consumer.", "admin.")
"""Prefixes of keys that configure one kind of client."""

WORKER_PREFIXES = (
    *("offset.storage.", "config.storage.", "status.storage.", "offset.flush.", "task.", "worker.", "group."),
    *("key.converter.", "value.converter.", "header.converter.", "listeners", "rest.", "plugin.", "heartbeat.interval"),
    *("session.timeout", "rebalance.", "connect.", "scheduled.rebalance", "admin.listeners", "topic.creation."),
    *("dedicated.mode.enable.internal.rest", "inter.worker.", "connections.", "topic.tracking.", "metrics."),
)
"""Prefixes of keys of Connect's workers: accepted, and without effect, with one exception. `A.offset.storage.topic`
names the topic in which a real MirrorMaker 2 keeps how far it has copied; Switchyard reads it at a handover."""

CLIENT_KEYS_APPLIED = {
    "consumer.auto.offset.reset": "where the flow begins partitions that exist at its first look; it copies later ones "
    "from their start",
    "consumer.isolation.level": "read_uncommitted also copies records of aborted and open transactions, as MirrorMaker "
    "2 does by default; otherwise only committed records are copied",
}
"""Keys of clients that Switchyard applies. Others have no effect, because its copier has no Java client."""
