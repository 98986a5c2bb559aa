"""The copy log of a cluster: the compacted topic with the notes of copiers (`ha_core.mirror.notes`)."""

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import StandsInTheWayError
from ha_core.kafka.facts import TopicSpec

_REPLICATION = 3
_POLICY = "cleanup.policy"
_MAX_NOTE_BYTES = 1 << 20
"""Ten times the largest note."""
_CONFIG = {
    _POLICY: "compact",
    "max.message.bytes": str(_MAX_NOTE_BYTES),
    # A takeover reads the log from its start, and brokers never compact the active segment.
    "segment.bytes": str(16 * _MAX_NOTE_BYTES),
    "min.cleanable.dirty.ratio": "0.3",
}


def ensure_copy_log(admin: Admin, name: str, partitions: int) -> None:
    """Creates the copy log if it is missing.

    :raises StandsInTheWayError: a topic of that name has another shape, or is not compacted.
    """
    if not admin.nodes:
        admin.asking().metadata()
    replication = min(_REPLICATION, len(admin.nodes))
    config = {**_CONFIG, "min.insync.replicas": str(max(replication - 1, 1))}
    if admin.create_topics([TopicSpec(name, partitions, replication, config)]).existing:
        policy = admin.topics([name], offsets=False)[name].config.get(_POLICY, "")
        if policy != "compact":
            raise StandsInTheWayError(
                admin.cluster.name,
                f"topic {name} is the copy log, but its {_POLICY} is {policy or 'the default'}. Set "
                f"it to compact, or delete the topic if nothing is copied to this cluster yet.",
            )
