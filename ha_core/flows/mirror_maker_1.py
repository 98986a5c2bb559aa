"""The options of MirrorMaker 1 (`kafka-mirror-maker.sh`, until Kafka 3.9) as the keys of one flow.

MirrorMaker 1 keeps topics' names, and copies neither settings, ACLs nor offsets of groups; so does this flow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ha_core.flows.errors import FlowError
from ha_core.flows.keys import BEGINS_AT_GROUP, CLIENT_PREFIXES
from ha_core.flows.properties import Property
from ha_core.flows.remarks import Remark

SOURCE, TARGET = "source", "target"
_FIXED = {
    "clusters": f"{SOURCE}, {TARGET}",
    f"{SOURCE}->{TARGET}.enabled": "true",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "replication.factor": "-1",
    **{f"sync.topic.{one}.enabled": "false" for one in ("acls", "configs")},
    **{f"emit.{one}.enabled": "false" for one in ("checkpoints", "heartbeats", "offset-syncs")},
}
"""Topics were created by the target's brokers, with their own replication factor."""


class _Applied(NamedTuple):
    """A key of the consumer that the flow applies.

    :ivar default: of Kafka's consumers.
    """

    default: str
    note: str


_CONSUMER = {
    "auto.offset.reset": _Applied(
        "latest", "where partitions begin that the flow finds at its first look; later ones are copied whole"
    ),
    "isolation.level": _Applied("read_uncommitted", "which records are copied"),
}
_GROUP = "group.id"
_WITHOUT_EFFECT = {
    "num.streams": "partitions are spread over the flow's workers",
    "new.consumer": "there is one consumer only",
    "offset.commit.interval.ms": "the flow writes its positions with the copies",
    "abort.on.send.failure": "the flow skips no record; a partition that cannot be copied stops with its reason",
}
_JAVA = "it names a Java class, which cannot run here"
_REFUSED = {
    "message.handler": f"{_JAVA}, and may change, drop or rename records; the flow copies their bytes",
    "message.handler.args": "it belongs to message.handler",
    "consumer.rebalance.listener": _JAVA,
    "rebalance.listener.args": "it belongs to consumer.rebalance.listener",
}


@dataclass(frozen=True)
class MappedOptions:
    """:ivar remarks: one for each option and key that is mapped, or has no effect."""

    properties: Mapping[str, Property] = field(repr=False)
    remarks: tuple[Remark, ...]


def mapped_options(
    consumer: Mapping[str, str], producer: Mapping[str, str], include: str, others: Mapping[str, str]
) -> MappedOptions:
    """The keys of the flow.

    :param consumer: keys of `--consumer.config`, references resolved; likewise the producer's.
    :param include: pattern of topics, or several with commas.
    :param others: the other options that were given, without their dashes.
    :raises FlowError: options that cannot be mapped; names all of them.
    """
    if refused := [f"- --{name}: {_REFUSED[name]}" for name in others if name in _REFUSED]:
        raise FlowError("MirrorMaker 1 has to go on here, or these options be removed:\n" + "\n".join(refused))
    # Kafka takes quotes and spaces out of the pattern, as shells of earlier days left them there.
    topics = include.strip().strip("\"'").replace(" ", "")
    if not topics:
        raise FlowError("Name the topics: --include PATTERN")
    keys = {**_FIXED, "topics": topics}
    remarks = [f"--include is mapped to topics = {topics}, under their own names (IdentityReplicationPolicy)"]
    remarks += (f"--{name} has no effect: {_WITHOUT_EFFECT[name]}" for name in others)
    for alias, client, option in ((SOURCE, consumer, "consumer.config"), (TARGET, producer, "producer.config")):
        keys |= {f"{alias}.{key}": value for key, value in client.items() if _connects(key)}
        remarks.append(f"--{option} is mapped to the keys {alias}.…: those of its connection")
    if group := consumer.get(_GROUP):
        keys[BEGINS_AT_GROUP] = group
        remarks.append(
            f"{_GROUP} = {group} of the consumer counts: partitions that no flow has copied yet begin at its committed "
            "offsets, where MirrorMaker 1 stopped; the flow commits none"
        )
    for key, applied in _CONSUMER.items():
        value = consumer.get(key, applied.default)
        keys[f"{SOURCE}.consumer.{key}"] = value
        remarks.append(f"{key} = {value} of the consumer counts: {applied.note}")
    remarks += _without_effect(consumer, producer)
    # Lines count from 1; without them keys would seem to be defaults.
    properties = {key: Property(value, line) for line, (key, value) in enumerate(keys.items(), 1)}
    return MappedOptions(properties, tuple(Remark(0, text) for text in remarks))


def _connects(key: str) -> bool:
    return key.startswith(CLIENT_PREFIXES)


def _without_effect(consumer: Mapping[str, str], producer: Mapping[str, str]) -> Iterator[str]:
    for client, keys in (("consumer", consumer), ("producer", producer)):
        for key in sorted(keys.keys() - {_GROUP, *(_CONSUMER if client == "consumer" else ())}):
            if not _connects(key):
                yield f"{key} of the {client} has no effect: the copier has no Java client"
