"""The copy log of a cluster: the compacted topic with the notes of copiers (`ha_core.mirror.notes`)."""

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import StandsInTheWayError
from ha_core.kafka.facts import TopicSpec

_REPLICATION = 3
_POLICY, _STAMPS, _BY_THE_BROKER = "cleanup.policy", "message.timestamp.type", "LogAppendTime"
_MAX_NOTE_BYTES = 1 << 20
"""Ten times the largest note."""
_CONFIG = {
    _POLICY: "compact",
    "max.message.bytes": str(_MAX_NOTE_BYTES),
    # A takeover reads the log from its start, and brokers never compact the active segment.
    "segment.bytes": str(16 * _MAX_NOTE_BYTES),
    "min.cleanable.dirty.ratio": "0.3",
    # A copier's clock may be wrong, and from Kafka 4.0 on brokers refuse records that are an hour ahead (KIP-1030).
    _STAMPS: _BY_THE_BROKER,
}


def ensure_copy_log(admin: Admin, name: str, partitions: int) -> None:
    """Creates the copy log if it is missing. One of an earlier version gets the broker's timestamps, if the account may
    change it.

    :raises StandsInTheWayError: a topic of that name has another shape, or is not compacted.
    """
    if not admin.nodes:
        admin.asking().metadata()
    replication = min(_REPLICATION, len(admin.nodes))
    config = {**_CONFIG, "min.insync.replicas": str(max(replication - 1, 1))}
    if admin.create_topics([TopicSpec(name, partitions, replication, config)]).existing:
        its = admin.topics([name], offsets=False)[name].config
        policy = its.get(_POLICY, "")
        if policy != "compact":
            raise StandsInTheWayError(
                admin.cluster.name,
                f"topic {name} is the copy log, but its {_POLICY} is {policy or 'the default'}. Set "
                f"it to compact, or delete the topic if nothing is copied to this cluster yet.",
            )
        if its.get(_STAMPS) != _BY_THE_BROKER:
            admin.alter_settings({name: {_STAMPS: _BY_THE_BROKER}}, _not_fenced)


def _not_fenced() -> None:
    """All processes make the same change."""
