"""Keys of `mm2.properties`, as Kafka 3.9 and 4.3 know them, with their defaults and their use here.

Source: the configuration definitions that both versions print (`MirrorSourceConfig`, `MirrorCheckpointConfig`,
`MirrorHeartbeatConfig`, `MirrorConnectorConfig`), and the worker keys that `MirrorMakerConfig` passes on.
"""

from enum import StrEnum
from typing import Literal, NamedTuple

Kind = Literal["text", "list", "flag", "int", "seconds", "class"]


class Use(StrEnum):
    """What Switchyard does with a key."""

    APPLIED = "applied"
    WITHOUT_EFFECT = "without effect"
    """Accepted; Switchyard has nothing to do for it."""
    REFUSED = "refused"
    """A value other than the default would change the records or their names in a way that Switchyard cannot."""


class Key(NamedTuple):
    """
    :ivar default: of Kafka 4.3.
    :ivar earlier_default: of Kafka 3.9, where it differs.
    :ivar note: for people, where the use needs a word.
    :ivar valid: the values that it can have; empty: any of its kind.
    """

    name: str
    kind: Kind
    default: str
    use: Use = Use.APPLIED
    note: str = ""
    valid: tuple[str, ...] = ()
    earlier_default: str | None = None


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
        Key("enabled", "flag", "false"),
        Key("topics", "list", ".*"),
        Key(
            "topics.exclude",
            "list",
            r"mm2.*\.internal,.*\.replica,__.*",
            earlier_default=r".*[\-\.]internal,.*\.replica,__.*",
        ),
        Key("groups", "list", ".*"),
        Key("groups.exclude", "list", r"console-consumer-.*,connect-.*,__.*"),
        Key("config.properties.exclude", "list", _EXCLUDED_SETTINGS, earlier_default=_EXCLUDED_SETTINGS_3_9),
        Key("use.defaults.from", "text", "target", valid=("source", "target")),
        Key("replication.policy.class", "class", f"{_MM2}DefaultReplicationPolicy"),
        Key("replication.policy.separator", "text", "."),
        Key("replication.policy.internal.topic.separator.enabled", "flag", "true"),
        Key("replication.factor", "int", "2"),
        Key("refresh.topics.enabled", "flag", "true"),
        Key("refresh.topics.interval.seconds", "seconds", "600"),
        Key("sync.topic.configs.enabled", "flag", "true"),
        Key("sync.topic.configs.interval.seconds", "seconds", "600"),
        Key("sync.topic.acls.enabled", "flag", "true"),
        Key("sync.topic.acls.interval.seconds", "seconds", "600"),
        Key("refresh.groups.enabled", "flag", "true"),
        Key("refresh.groups.interval.seconds", "seconds", "600"),
        Key("emit.checkpoints.enabled", "flag", "true"),
        Key("emit.checkpoints.interval.seconds", "seconds", "60"),
        Key("sync.group.offsets.enabled", "flag", "false"),
        Key("sync.group.offsets.interval.seconds", "seconds", "60"),
        Key("emit.heartbeats.enabled", "flag", "true"),
        Key("emit.heartbeats.interval.seconds", "seconds", "1"),
        Key("heartbeats.replication.enabled", "flag", "true"),
        Key("emit.offset-syncs.enabled", "flag", "true"),
        Key("offset.lag.max", "int", "100"),
        Key("offset-syncs.topic.location", "text", "source", valid=("source", "target")),
        Key("heartbeats.topic.replication.factor", "int", "3"),
        Key("checkpoints.topic.replication.factor", "int", "3"),
        Key("offset-syncs.topic.replication.factor", "int", "3"),
        Key("metric.names.formats", "list", "legacy", valid=("legacy", "new")),
        Key("add.source.alias.to.metrics", "flag", "false"),
        Key("topic.filter.class", "class", f"{_MM2}DefaultTopicFilter", Use.REFUSED, _JAVA),
        Key("group.filter.class", "class", f"{_MM2}DefaultGroupFilter", Use.REFUSED, _JAVA),
        Key("config.property.filter.class", "class", f"{_MM2}DefaultConfigPropertyFilter", Use.REFUSED, _JAVA),
        Key("transforms", "list", "", Use.REFUSED, "it changes records, and Switchyard copies their bytes"),
        Key("predicates", "list", "", Use.REFUSED, "it selects records, and Switchyard copies all"),
        Key("key.converter", "class", "", Use.REFUSED, "Switchyard copies the bytes of keys"),
        Key("value.converter", "class", "", Use.REFUSED, "Switchyard copies the bytes of values"),
        Key("header.converter", "class", "", Use.REFUSED, "Switchyard copies the bytes of headers"),
        Key("forwarding.admin.class", "class", "org.apache.kafka.clients.admin.ForwardingAdmin", Use.REFUSED, _JAVA),
        Key("admin.timeout.ms", "int", "60000"),
        Key("consumer.poll.timeout.ms", "int", "1000", Use.WITHOUT_EFFECT, "Switchyard's copier waits for brokers"),
        Key("tasks.max", "int", "1", Use.WITHOUT_EFFECT, "Switchyard spreads partitions over its processes"),
        Key("tasks.max.enforce", "flag", "true", Use.WITHOUT_EFFECT, _CONNECT),
        Key("use.incremental.alter.configs", "text", "requested", Use.WITHOUT_EFFECT, "Switchyard uses it always"),
        Key("errors.log.enable", "flag", "false", Use.WITHOUT_EFFECT, "Switchyard logs each error"),
        Key("errors.log.include.messages", "flag", "false", Use.WITHOUT_EFFECT, "Switchyard never logs records"),
        Key("errors.retry.delay.max.ms", "int", "60000", Use.WITHOUT_EFFECT, "Switchyard repeats for ever"),
        Key("errors.retry.timeout", "int", "0", Use.WITHOUT_EFFECT, "Switchyard repeats for ever"),
        Key(
            "errors.tolerance",
            "text",
            "none",
            Use.REFUSED,
            "Switchyard skips no record; a partition that cannot be copied stops with its reason",
            ("none", "all"),
        ),
        Key("exactly.once.support", "text", "requested", Use.WITHOUT_EFFECT, "Switchyard copies exactly once"),
        Key("exactly.once.source.support", "text", "disabled", Use.WITHOUT_EFFECT, "Switchyard copies exactly once"),
        Key("transaction.boundary", "text", "poll", Use.WITHOUT_EFFECT, "copies need no transaction of their own"),
        Key("transaction.boundary.interval.ms", "text", "", Use.WITHOUT_EFFECT, "see transaction.boundary"),
        Key("offsets.storage.topic", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("config.action.reload", "text", "restart", Use.WITHOUT_EFFECT, "Switchyard follows the file"),
        Key("auto.include.jmx.reporter", "flag", "true", Use.WITHOUT_EFFECT, "metrics are Prometheus'"),
        Key("metric.reporters", "list", "", Use.WITHOUT_EFFECT, "metrics are Prometheus'"),
        Key("name", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("connector.class", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("connector.plugin.version", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("key.converter.plugin.version", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("value.converter.plugin.version", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("header.converter.plugin.version", "text", "", Use.WITHOUT_EFFECT, _CONNECT),
        Key("source.cluster.alias", "text", "", Use.REFUSED, "the alias is the one in `clusters`"),
        Key("target.cluster.alias", "text", "", Use.REFUSED, "the alias is the one in `clusters`"),
    )
}
"""Keys of a flow, for all flows (`topics`) or one (`A->B.topics`)."""

RENAMED = {
    "topics.blacklist": "topics.exclude",
    "topics.whitelist": "topics",
    "groups.blacklist": "groups.exclude",
    "groups.whitelist": "groups",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names that Kafka 4.0 removed → their successors. Switchyard still takes them."""

CLIENT_PREFIXES = ("security.", "ssl.", "sasl.", "bootstrap.servers", "client.", "request.timeout.ms", "metadata.")
"""Keys of every Kafka client: of a cluster (`A.ssl.truststore.location`), or of all clusters."""

CLIENTS = ("producer.", "consumer.", "admin.")
"""Prefixes of keys for one kind of client."""

WORKER_PREFIXES = (
    *("offset.storage.", "config.storage.", "status.storage.", "offset.flush.", "task.", "worker.", "group."),
    *("key.converter.", "value.converter.", "header.converter.", "listeners", "rest.", "plugin.", "heartbeat.interval"),
    *("session.timeout", "rebalance.", "connect.", "scheduled.rebalance", "admin.listeners", "topic.creation."),
    *("dedicated.mode.enable.internal.rest", "inter.worker.", "connections.", "topic.tracking.", "metrics."),
)
"""Keys of Connect's workers: accepted, and without effect. `A.offset.storage.topic` is where a real MirrorMaker 2 keeps
how far it has copied; Switchyard reads it for a takeover."""

CLIENT_KEYS_APPLIED = {
    "consumer.auto.offset.reset": "where a partition begins that was never copied",
    "consumer.isolation.level": "read_committed copies committed records only; MirrorMaker 2's default copies all",
}
"""Keys of clients that Switchyard applies; others are without effect, as its copier has no Java client."""
