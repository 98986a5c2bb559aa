"""Maps the options of MirrorMaker 1 (`kafka-mirror-maker.sh`, until Kafka 3.9) to the keys of one flow.

Like MirrorMaker 1, this flow keeps topic names, and copies neither settings nor ACLs nor offsets of groups.
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
"""With MirrorMaker 1 the target's brokers created topics, with their default replication factor (-1)."""


class _Applied(NamedTuple):
    """A key of MirrorMaker 1's consumer that the flow applies.

    :ivar default: default of Kafka's consumers.
    """

    default: str
    note: str


_CONSUMER = {
    "auto.offset.reset": _Applied(
        "latest", "where the flow begins partitions that exist at its first look; it copies later ones from their start"
    ),
    "isolation.level": _Applied("read_uncommitted", "which records are copied"),
}
_GROUP = "group.id"
_WITHOUT_EFFECT = {
    "num.streams": "the flow's workers share its partitions",
    "new.consumer": "there is only one kind of consumer",
    "offset.commit.interval.ms": "the flow writes its offsets together with the copies",
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
    """:ivar remarks: one for each option or key that is mapped, or that has no effect."""

    properties: Mapping[str, Property] = field(repr=False)
    remarks: tuple[Remark, ...]


def mapped_options(
    consumer: Mapping[str, str], producer: Mapping[str, str], include: str, others: Mapping[str, str]
) -> MappedOptions:
    """Map the options to the keys of the flow.

    :param consumer: keys of `--consumer.config`, with references resolved.
    :param producer: keys of `--producer.config`, likewise.
    :param include: pattern of topics, or several patterns separated by commas.
    :param others: other given options, without their dashes.
    :raises FlowError: some options cannot be mapped; the text names all of them.
    """
    if refused := [f"- --{name}: {_REFUSED[name]}" for name in others if name in _REFUSED]:
        raise FlowError("Remove these options, or keep MirrorMaker 1 for this flow:\n" + "\n".join(refused))
    # MirrorMaker 1 removes quotes and spaces from the pattern, because some shells passed them on.
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
        remarks.append(f"{key} = {value} of the consumer applies: {applied.note}")
    remarks += _without_effect(consumer, producer)
    # Lines count from 1; a key in line 0 would be taken for a default.
    properties = {key: Property(value, line) for line, (key, value) in enumerate(keys.items(), 1)}
    return MappedOptions(properties, tuple(Remark(0, text) for text in remarks))


def _connects(key: str) -> bool:
    return key.startswith(CLIENT_PREFIXES)


def _without_effect(consumer: Mapping[str, str], producer: Mapping[str, str]) -> Iterator[str]:
    for client, keys in (("consumer", consumer), ("producer", producer)):
        for key in sorted(keys.keys() - {_GROUP, *(_CONSUMER if client == "consumer" else ())}):
            if not _connects(key):
                yield f"{key} of the {client} has no effect: the copier has no Java client"
