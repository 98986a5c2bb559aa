"""Runs one flow in this process: its copier and its duties."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from ha_core.flows.connect_state import ConnectState
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.records import Checkpoint, OffsetSync
from ha_core.flows.remote_plan import RemotePlan
from ha_core.flows.sharing import FIRST_SHARE
from ha_core.flows.translation import SyncStore
from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror_client import FollowedTopic, MirrorClient
from ha_core.mirror_client.copy_notes import COPIES_LOG, read_copy_notes
from ha_core.mirror_maker.claims import RemoteTopicClaims
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.continuing import EarlierGenerations, Handover
from ha_core.mirror_maker.copier import COPIES_LOG_PARTITIONS, Copier
from ha_core.mirror_maker.duties import EXPECTED, Duty
from ha_core.mirror_maker.emitting import Heartbeats, OffsetSyncs
from ha_core.mirror_maker.end_to_end import EndToEnd
from ha_core.mirror_maker.first_look import FirstLook, first_look, starts
from ha_core.mirror_maker.for_mirror_maker import EVERY_S, OffsetsForMirrorMaker
from ha_core.mirror_maker.ground import FlowGround
from ha_core.mirror_maker.groups import GroupOffsets
from ha_core.mirror_maker.guarding import guard_remote_topics
from ha_core.mirror_maker.handover import offsets_producer, require_stopped
from ha_core.mirror_maker.held_partitions import HeldPartitions
from ha_core.mirror_maker.internal_topics import ensure_internal_topics
from ha_core.mirror_maker.membership import FlowMembership
from ha_core.mirror_maker.mirror_maker_1_group import GroupPlaces, begin_after_group, group_places
from ha_core.mirror_maker.name_owners import OtherWriters, RemoteTopicOwners
from ha_core.mirror_maker.producing import InternalProducer
from ha_core.mirror_maker.remote_topics import RemoteTopics
from ha_core.mirror_maker.telling import StandstillLog
from ha_core.mirror_maker.translating import ExactMaps
from ha_core.model import FlowId
from ha_core.plan.facts.clusters import Partition
from ha_core.store.errors import StoreError

log = logging.getLogger(__name__)
_SHARES_S = 3
"""Seconds between looks at this worker's shares, if the file disables `refresh.topics`."""
_SYNCS_S = 1.0
_CLAIMS_S = 1.0
_GUARDS_S = 10.0
_CONTINUING_S = 5.0
_GROUND_S = 5.0
_END_TO_END_S = 15.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


@dataclass
class FlowParts:
    """Everything that belongs to a started flow."""

    copier: Copier
    topics: RemoteTopics
    syncs: OffsetSyncs | None
    groups: GroupOffsets | None
    duties: tuple[Duty, ...]
    looked: FirstLook
    end_to_end: EndToEnd
    for_mirror_maker: OffsetsForMirrorMaker
    places: GroupPlaces | None
    plan: RemotePlan = field(default_factory=lambda: RemotePlan({}, {}, (), ()))


class RunningFlow:
    """Starts in its own thread, and retries while a cluster is unreachable, so flows do not wait for one another.

    :ivar trouble: why the flow has not started; "": it has started.
    :ivar outdated: why the flow has to be stopped and started again (`ground`); "": it runs on.
    """

    def __init__(
        self,
        flow: FlowConfig,
        clusters: FlowClusters,
        membership: FlowMembership,
        owners: RemoteTopicOwners,
        earlier: Collection[FlowConfig] = (),
        guards: bool = False,
        looked: FirstLook | None = None,
    ) -> None:
        """
        :param owners: which flow writes each remote topic; shared by all flows of this process.
        :param earlier: flows into the same target that come before this one in the file.
        :param guards: whether brokers of the target also refuse other writers of the flow's remote topics.
        :param looked: the flow's first look, if the target has lost it.
        """
        self.flow, self._clusters, self._membership, self._guards = flow, clusters, membership, guards
        self._owners, self._earlier, self._looked = owners, earlier, looked
        self.parts: FlowParts | None = None
        self.trouble, self.outdated = "it is starting", ""
        self.key = ""
        self._planned = False
        """Whether the topics were looked at once."""
        self.standstills = StandstillLog(flow.name)
        self._opened = ExitStack()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._start, name=f"{flow.name} starts", daemon=True)
        self._thread.start()

    def again(self) -> "RunningFlow":
        """Start the flow again, after `stop`."""
        looked = None if self.parts is None else self.parts.looked
        return RunningFlow(
            *(self.flow, self._clusters, self._membership, self._owners, self._earlier, self._guards), looked
        )

    def stop(self) -> None:
        """Stop the flow; returns after its threads have ended. Records in flight are acknowledged, or another copier
        copies them later."""
        self._ending.set()
        self._thread.join()
        if self.parts is not None:
            for duty in self.parts.duties:
                duty.stop()
            for duty in self.parts.duties:
                duty.join()
            self.parts.copier.stop()
            self._tell_mirror_maker(self.parts)
        self._opened.close()

    def _tell_mirror_maker(self, parts: FlowParts) -> None:
        """Before other workers take the shares: theirs are higher, and must come later."""
        try:
            told = parts.for_mirror_maker.write_last()
        except EXPECTED as error:
            log.warning("%s: MirrorMaker 2 is not told how far it has copied: %s", self.flow.name, error)
            return
        if untold := sorted(parts.copier.by_source.keys() - set(told)):
            log.warning(
                "%s: MirrorMaker 2 is not told how far %s-%d and %d more partitions are copied, which are not being "
                "copied now. Run `switchyard flows give-back` before it starts, or it doubles records.",
                self.flow.name,
                *untold[0],
                len(untold) - 1,
            )

    def _start(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._ending.is_set():
            trouble = self._tried()
            if not trouble:
                self.trouble = ""
                return
            self._opened.close()
            if self.trouble != trouble:
                log.warning("%s does not start yet: %s", self.flow.name, trouble)
            self.trouble = trouble
            self._ending.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _tried(self) -> str:
        """Try to start. Returns why the flow cannot start now; "": it has started."""
        try:
            self._open()
        except EXPECTED as error:
            return str(error) or type(error).__name__
        except Exception as error:
            log.exception("%s", self.flow.name)
            return f"{type(error).__name__}: {error}"
        return ""

    def _open(self) -> None:
        flow = self.flow
        source, target = self._admin(flow.source), self._admin(flow.target)
        ids = [_cluster_id(admin) for admin in (source, target)]
        if ids[0] and ids[0] == ids[1]:
            raise KafkaAdminError(
                flow.target, f"is the same cluster as {flow.source}: its id is {ids[0]}. Correct the file."
            )
        require_stopped(target, ConnectState.dedicated(flow.source))
        ensure_copy_log(target, COPIES_LOG, COPIES_LOG_PARTITIONS)
        ensure_internal_topics(flow, source, target)
        its_id = FlowId(flow.name, *ids)
        self.key = str(its_id)
        self._membership.join(self.key)
        self._opened.callback(self._membership.leave, self.key)
        claims = RemoteTopicClaims(flow, its_id, self._membership.claim, time.monotonic)
        claims.claim_internal()
        copier = Copier(
            flow.name,
            self._admin(flow.source),
            self._admin(flow.target),
            lambda: self._membership.shares_now(self.key),
            retakes=not self._membership.alone,
            isolation=flow.isolation,
        )
        self._opened.callback(copier.stop)  # runs also if a later part cannot be opened and the start is repeated
        topics = RemoteTopics(flow, source, target, self.leads, claims.claim, self._other_writers().of)
        to_target = InternalProducer(flow.target, self._clusters.librdkafka(flow.target))
        looked: FirstLook = {}
        if flow.begins_at == "latest":
            settings = self._clusters.librdkafka(flow.target)
            looked = first_look(flow, self.key, (source, target), settings, to_target, self.leads, self._looked)
        places = group_places(source, flow.begins_at_group) if flow.begins_at_group else None
        held = HeldPartitions(self._shares_now)
        syncs = self._syncs(copier, to_target, held)
        groups = self._groups(copier, to_target, held)
        end_to_end = EndToEnd(flow, lambda: MirrorClient(self._clusters.librdkafka(flow.target), flow.policy))
        theirs = offsets_producer(self._clusters.librdkafka(flow.target))
        for_mirror_maker = OffsetsForMirrorMaker(flow.source, self._admin(flow.target), theirs, copier.reached, held)
        claiming = Duty("claims", _CLAIMS_S, lambda: claims.claim_copied(copier.topics()))
        guarding = tuple(self._guarding(copier)) if self._guards else ()
        others = self._duties(copier, topics, syncs, groups, to_target, end_to_end, for_mirror_maker)
        duties = (claiming, *guarding, *others)
        self.parts = FlowParts(copier, topics, syncs, groups, duties, looked, end_to_end, for_mirror_maker, places)
        log.info("%s starts", flow.name)
        for duty in duties:
            duty.start(flow.name)

    def _other_writers(self) -> OtherWriters:
        self._opened.callback(self._owners.take, self.flow, ())  # frees all remote topics of the flow
        sources = {flow.source: self._admin(flow.source) for flow in self._earlier}
        return OtherWriters(self.flow, self._owners, self._earlier, lambda alias: sources[alias].list_topics())

    def leads(self) -> bool:
        """Whether this worker does the tasks that the flow needs once."""
        return FIRST_SHARE in self._membership.shares(self.key)

    def _duties(
        self,
        copier: Copier,
        topics: RemoteTopics,
        syncs: OffsetSyncs | None,
        groups: GroupOffsets | None,
        to_target: InternalProducer,
        end_to_end: EndToEnd,
        for_mirror_maker: OffsetsForMirrorMaker,
    ) -> Iterator[Duty]:
        flow = self.flow
        yield Duty("topics", flow.refresh_topics_s or _SHARES_S, self._follow)
        yield Duty("continuing", _CONTINUING_S, self._continue)
        ground = FlowGround(flow, self._admin(flow.source), self._admin(flow.target))
        yield Duty("internal topics", _GROUND_S, self._watch(ground))
        yield Duty("offsets for MirrorMaker 2", EVERY_S, for_mirror_maker.write)
        settings = RemoteTopics(flow, self._admin(flow.source), self._admin(flow.target), self.leads)
        if flow.sync_settings_s is not None:
            yield Duty("settings", flow.sync_settings_s, self._if_leading(settings.sync_settings))
        if flow.sync_acls_s is not None:
            yield Duty("ACLs", flow.sync_acls_s, self._if_leading(settings.sync_acls))
        if flow.heartbeats_s is not None:
            yield Duty("heartbeats", flow.heartbeats_s, Heartbeats(flow, to_target, self.leads).emit)
        if flow.copies_heartbeats:
            yield Duty("end-to-end latency", _END_TO_END_S, end_to_end.look)
        if syncs is not None:
            yield Duty("offset syncs", _SYNCS_S, syncs.emit)
        if groups is not None and flow.checkpoints_s is not None:
            yield Duty("checkpoints", flow.checkpoints_s, groups.emit)
            if flow.commit_offsets_s is not None:
                yield Duty("group offsets", flow.commit_offsets_s, groups.commit)

    def _guarding(self, copier: Copier) -> Iterator[Duty]:
        target = self._admin(self.flow.target)

        def guard() -> None:
            if guarded := guard_remote_topics(target, copier.topics()):
                log.info("%s: brokers refuse other writers of %s", self.flow.name, ", ".join(guarded))

        yield Duty("guards", _GUARDS_S, guard)

    def _follow(self) -> None:
        assert self.parts is not None
        if self.flow.refresh_topics_s is None and self._planned:
            self._copy(self.parts, self.parts.plan)
            return
        for plan in self.parts.topics.look():
            self._copy(self.parts, plan)
        self._planned = True

    def _copy(self, parts: FlowParts, plan: RemotePlan) -> None:
        for one in set(plan.skipped) - set(parts.plan.skipped):
            log.info("%s: topic %s is not copied: %s", self.flow.name, one.topic, one.reason)
        parts.plan = plan
        begins: dict[Partition, int] = {}
        if self.flow.begins_at == "latest":
            begins = starts(self.flow, parts.looked, plan.copies)
        if parts.places is not None:
            begins |= parts.places.starts(plan.copies)
        parts.copier.follow(plan.copies, self._membership.shares(self.key), begins)

    def _continue(self) -> None:
        assert self.parts is not None
        copier = self.parts.copier
        stopped = {id_: one for id_, one in copier.damaged().items() if id_ in copier.copies}
        foreign = [copier.copies[id_] for id_, one in stopped.items() if one.foreign]
        damaged = [copier.copies[id_] for id_, one in stopped.items() if one.damaged]
        if not foreign and not damaged:
            return
        with self._clusters.admin(self.flow.source) as source, self._clusters.admin(self.flow.target) as target:
            settings = self._clusters.librdkafka(self.flow.target)
            earlier = EarlierGenerations(self.flow.name, target, partial(read_copy_notes, settings))
            begun = earlier.begin(foreign)
            if self.parts.places is not None:
                after = [copy for copy in foreign if copy not in begun]
                begun += begin_after_group(source, target, self.parts.places, self.parts.plan.copies, after)
            copier.again(begun)
            left = [copy for copy in (*foreign, *damaged) if copy not in begun]
            copier.again(Handover(self.flow.name, self.flow.source, source, target, settings).begin(left))

    def _watch(self, ground: FlowGround) -> Callable[[], None]:
        def look() -> None:
            self.outdated = self.outdated or ground.changed()

        return look

    def _if_leading(self, work: Callable[[], None]) -> Callable[[], None]:
        return lambda: work() if self.leads() else None

    def _syncs(self, copier: Copier, to_target: InternalProducer, held: HeldPartitions) -> OffsetSyncs | None:
        flow = self.flow
        if not flow.emits_syncs:
            return None
        producer = to_target
        if flow.syncs_in == "source":
            producer = InternalProducer(flow.source, self._clusters.librdkafka(flow.source))
        where = flow.source if flow.syncs_in == "source" else flow.target
        written = FollowedTopic(self._clusters.librdkafka(where), flow.syncs_topic, OffsetSync)
        self._opened.callback(written.close)
        return OffsetSyncs(flow, producer, lambda: copier.copies, copier.coverage, held, written)

    def _groups(self, copier: Copier, to_target: InternalProducer, held: HeldPartitions) -> GroupOffsets | None:
        flow = self.flow
        if flow.checkpoints_s is None:
            return None
        source, target = self._admin(flow.source), self._admin(flow.target)
        syncs_in = flow.source if flow.syncs_in == "source" else flow.target

        def earlier() -> SyncStore:
            store = SyncStore()
            with MirrorClient(self._clusters.librdkafka(syncs_in), flow.policy) as client:
                for sync in client.offset_syncs(flow.target if flow.syncs_in == "source" else flow.source):
                    store.add(sync)
            return store

        topic = flow.policy.checkpoints_topic(flow.source)
        written = FollowedTopic(self._clusters.librdkafka(flow.target), topic, Checkpoint)
        self._opened.callback(written.close)
        maps = ExactMaps(target, copier.coverage, earlier)
        return GroupOffsets(flow, source, target, to_target, maps, lambda: copier.by_source, held, written)

    def _shares_now(self) -> frozenset[int]:
        try:
            return self._membership.shares_now(self.key)
        except StoreError:  # while ZooKeeper is unreachable, each worker keeps its shares
            return self._membership.shares(self.key)

    def _admin(self, alias: str) -> Admin:
        return self._opened.enter_context(self._clusters.admin(alias))


def _cluster_id(admin: Admin) -> str:
    return admin.asking().metadata()["cluster_id"] or ""
