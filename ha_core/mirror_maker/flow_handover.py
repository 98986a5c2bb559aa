"""Takes a whole flow over from MirrorMaker 2, or gives it back, at an operator's command."""

from collections.abc import Mapping
from contextlib import ExitStack

from ha_core.flows.connect_state import ConnectState
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.remote_plan import remote_plan
from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.copier import COPIES_LOG_PARTITIONS, copy_partition
from ha_core.mirror_maker.handover import (
    HandoverError,
    JudgedCopies,
    begin_copies,
    ended_copies,
    ensure_offsets_topic,
    judged_copies,
    offsets_producer,
    read_source_offsets,
    require_stopped,
    write_source_offsets,
)
from ha_core.plan.facts.clusters import Partition


def take_flow(flow: FlowConfig, clusters: FlowClusters, by_hand: Mapping[Partition, int], begins: bool) -> JudgedCopies:
    """Find the offset at which each copy that MirrorMaker 2 began goes on.

    :param by_hand: partition of the source → offset at which its copy goes on, without a comparison.
    :param begins: whether to begin the copies that are not refused; otherwise nothing changes.
    :raises HandoverError: MirrorMaker 2 runs, or an offset is given for a partition that the flow does not copy.
    """
    state = ConnectState.dedicated(flow.source)
    with ExitStack() as opened:
        source, target = (opened.enter_context(clusters.admin(alias)) for alias in (flow.source, flow.target))
        require_stopped(target, state)
        copies = _copies(flow, source, target)
        if unknown := by_hand.keys() - {copy.source_key for copy in copies}:
            topic, partition = min(unknown)
            raise HandoverError(f"{flow.name} has no copy of {topic}-{partition}: correct the partition in --at")
        offsets = read_source_offsets(clusters.librdkafka(flow.target), state)
        judged = judged_copies(source, target, copies, offsets, by_hand)
        if begins:
            ensure_copy_log(target, COPIES_LOG, COPIES_LOG_PARTITIONS)
            begin_copies(source, target, state, judged.handed)
        return judged


def give_back_flow(flow: FlowConfig, clusters: FlowClusters) -> dict[Partition, int]:
    """Fence the flow's copiers, wherever they run, and write how far each has copied for MirrorMaker 2.

    :return: partition of the source → offset of the last copied record.
    :raises HandoverError: MirrorMaker 2 runs, or a copy is damaged.
    """
    state = ConnectState.dedicated(flow.source)
    with ExitStack() as opened:
        source, target = (opened.enter_context(clusters.admin(alias)) for alias in (flow.source, flow.target))
        require_stopped(target, state)
        ended = ended_copies(target, _copies(flow, source, target))
        if not ended:
            return {}
        ensure_offsets_topic(target, state)
        return write_source_offsets(offsets_producer(clusters.librdkafka(flow.target)), state, ended)


def _copies(flow: FlowConfig, source: Admin, target: Admin) -> list[CopyPartition]:
    plan = remote_plan(flow.route, source.list_topics(), target.list_topics())
    return [copy_partition(topic, number) for topic in plan.copies for number in range(topic.partitions)]
