"""Creates the internal topics of a flow, and checks existing ones."""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ha_core.flows.errors import FlowError
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.policies import HEARTBEATS
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.topics import TopicDescription
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.mirror_maker.copier import COPIES_LOG_PARTITIONS
from ha_core.mirror_maker.first_look import TOPIC as FIRST_LOOKS

log = logging.getLogger(__name__)
_POLICY = "cleanup.policy"
_BROKERS_DEFAULT = -1
_REPLICATION = 3
_NOT_MADE_BY_CLIENTS = {COPIES_LOG, FIRST_LOOKS}
"""See `compact`."""


class InternalTopic(NamedTuple):
    """:ivar replication: replication factor; -1: the brokers' default."""

    name: str
    in_source: bool
    replication: int


def internal_topics(flow: FlowConfig) -> Iterator[InternalTopic]:
    """The internal topics that the flow writes."""
    if flow.heartbeats_s is not None:
        yield InternalTopic(HEARTBEATS, in_source=False, replication=flow.heartbeats_replication_factor)
    if flow.checkpoints_s is not None:
        topic = flow.policy.checkpoints_topic(flow.source)
        yield InternalTopic(topic, in_source=False, replication=flow.checkpoints_replication_factor)
    if flow.emits_syncs:
        in_source = flow.syncs_in == "source"
        yield InternalTopic(flow.syncs_topic, in_source, flow.syncs_replication_factor)


def ensure_internal_topics(flow: FlowConfig, source: Admin, target: Admin) -> None:
    """Create the missing internal topics, compacted and with one partition, as MirrorMaker 2 does.

    :raises FlowError: an internal topic exists in another form.
    """
    for admin, in_source in ((source, True), (target, False)):
        _ensure(flow, admin, [topic for topic in internal_topics(flow) if topic.in_source == in_source])


def objections(flow: FlowConfig, source: Admin, target: Admin) -> Iterator[str]:
    """Yields an error, with the way out, for each internal topic that exists in a form that the flow cannot use."""
    its = list(internal_topics(flow))
    in_target = {topic.name: 1 for topic in its if not topic.in_source} | {COPIES_LOG: COPIES_LOG_PARTITIONS}
    if flow.begins_at == "latest":
        in_target[FIRST_LOOKS] = 1
    for admin, wanted in ((source, {topic.name: 1 for topic in its if topic.in_source}), (target, in_target)):
        there = admin.topics(list(wanted), offsets=False)
        for name, found in there.items():
            yield from _objections(admin.cluster.name, found, wanted[name])


def ensure_heartbeats(flow: FlowConfig, target: Admin) -> None:
    """`ensure_internal_topics` for a flow that only writes heartbeats."""
    _ensure(flow, target, [topic for topic in internal_topics(flow) if topic.name == HEARTBEATS])


def _ensure(flow: FlowConfig, admin: Admin, topics: Iterable[InternalTopic]) -> None:
    wanted = {topic.name: topic for topic in topics}
    there = admin.topics(list(wanted), offsets=False)
    errors = [text for name in there for text in _objections(admin.cluster.name, there[name], 1)]
    if errors:
        raise FlowError(" ".join(errors))
    compact(admin, there.values())
    missing = [_spec(topic) for name, topic in wanted.items() if name not in there]
    if missing:
        for note in admin.create_topics(missing).notes:
            log.info("%s: %s", flow.name, note)


def compact(admin: Admin, topics: Iterable[TopicDescription]) -> None:
    """Compact those of these topics that have no policy of their own: brokers make such a topic when a client writes to
    it after it was deleted (`auto.create.topics.enable`), as the producers of a running flow do.

    :raises FlowError: the account may not change them.
    """
    made = [topic.name for topic in topics if _POLICY not in topic.config and topic.defaults.get(_POLICY) != "compact"]
    refused = admin.alter_settings({name: {_POLICY: "compact"} for name in made}, _not_fenced) if made else {}
    if refused:
        name, why = min(refused.items())
        raise FlowError(f"The internal topic {name} of {admin.cluster.name} cannot be set to {_POLICY}=compact: {why}")


def _not_fenced() -> None:
    """All workers make the same change."""


def _objections(cluster: str, topic: TopicDescription, partitions: int) -> Iterator[str]:
    if topic.partitions != partitions:
        yield (
            f"The internal topic {topic.name} of {cluster} has {topic.partitions} partitions, but its readers expect "
            f"{partitions}: delete it, so that it is created anew, or use another replication.policy.separator."
        )
    policy = topic.config.get(_POLICY)
    if policy is None and topic.name in _NOT_MADE_BY_CLIENTS:
        policy = topic.defaults.get(_POLICY, "delete")
    if policy is not None and policy != "compact":
        yield (
            f"The internal topic {topic.name} of {cluster} has {_POLICY}={policy}, so retention would delete its "
            f"records: set {_POLICY}=compact."
        )


def _spec(topic: InternalTopic) -> TopicSpec:
    replication = _REPLICATION if topic.replication == _BROKERS_DEFAULT else topic.replication
    return TopicSpec(topic.name, 1, replication, {_POLICY: "compact"})
