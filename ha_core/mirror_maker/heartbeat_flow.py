"""Writes the heartbeats of a disabled flow, which copies nothing.

MirrorMaker 2 writes heartbeats for every pair of clusters unless they are disabled: they show clients which clusters
can be reached.
"""

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.sharing import FIRST_SHARE
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.duties import Duty
from ha_core.mirror_maker.emitting import Heartbeats
from ha_core.mirror_maker.internal_topics import ensure_heartbeats
from ha_core.mirror_maker.membership import FlowMembership
from ha_core.mirror_maker.producing import InternalProducer


class HeartbeatFlow:
    def __init__(self, flow: FlowConfig, clusters: FlowClusters, membership: FlowMembership) -> None:
        assert flow.heartbeats_s is not None
        self.flow, self._membership, self._clusters = flow, membership, clusters
        self.key = ""
        """Contains the target's id, because another file may give the flow's aliases to other clusters."""
        self._heartbeats: Heartbeats | None = None
        self.duty = Duty("heartbeats", flow.heartbeats_s, self._emit)
        self.duty.start(flow.name)

    @property
    def trouble(self) -> str:
        return self.duty.trouble

    def stop(self) -> None:
        self.duty.stop()
        self.duty.join()
        if self.key:
            self._membership.leave(self.key)

    def _emit(self) -> None:
        if self._heartbeats is None:
            with self._clusters.admin(self.flow.target) as target:
                ensure_heartbeats(self.flow, target)
                cluster_id = target.asking().metadata()["cluster_id"] or ""
            if not self.key:
                self.key = f"{self.flow.name} heartbeats@{cluster_id}"
                self._membership.join(self.key)
            producer = InternalProducer(self.flow.target, self._clusters.librdkafka(self.flow.target))
            self._heartbeats = Heartbeats(self.flow, producer, self._leads)
        self._heartbeats.emit()

    def _leads(self) -> bool:
        return FIRST_SHARE in self._membership.shares(self.key)
