"""Runs all flows of a configuration in this process until it is stopped, and follows changes of the configuration."""

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.flow_config import FlowConfig
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.heartbeat_flow import HeartbeatFlow
from ha_core.mirror_maker.membership import FlowMembership
from ha_core.mirror_maker.name_owners import RemoteTopicOwners, flows_before
from ha_core.mirror_maker.running_flow import RunningFlow
from ha_core.mirror_maker.states import FlowState, state_of

log = logging.getLogger(__name__)
_LOOK_S = 1.0
_REPORT_S = 5.0
Running = RunningFlow | HeartbeatFlow
_Start = Callable[[FlowConfig, FlowClusters, FlowMembership], Running]


class StrangerError(FlowError):
    """Another process, which this worker does not know, copies one of its flows."""


@dataclass
class Worker:
    """
    :ivar read: reads the current configuration; returns the same object until it changes; raises FlowError.
    :ivar targets: run only flows into these clusters (`--clusters`); empty: all.
    :ivar guards: whether brokers also refuse other writers of remote topics (`--guard-remote-topics`).
    """

    read: Callable[[], Configuration]
    membership: FlowMembership
    targets: Collection[str] = ()
    guards: bool = False
    running: dict[str, Running] = field(default_factory=dict)
    _owners: RemoteTopicOwners = field(default_factory=RemoteTopicOwners)
    _ending: threading.Event = field(default_factory=threading.Event)
    _found: Configuration | None = None
    _clusters: FlowClusters | None = None
    _trouble: str = ""

    def stop(self) -> None:
        """Make `run` return; from any thread or signal handler."""
        self._ending.set()

    def run(self) -> None:
        """Run the flows until `stop`.

        :raises FlowError: the configuration cannot be used at the start, or a copy loop has ended with an error.
        :raises StrangerError: another process copies a flow.
        """
        self._apply(self.read())
        looks = 0
        try:
            while not self._ending.wait(_LOOK_S):
                looks += 1
                self._check()
                if looks % round(_REPORT_S / _LOOK_S) == 0:
                    self._reread()
                    self._start_outdated()
                    self._tell()
                    if not self.membership.alone:  # else no other process can see it
                        self.membership.report({state.flow: state.to_json() for state in self.states()})
        finally:
            self._stop(list(self.running))

    def states(self) -> list[FlowState]:
        return [state_of(running) for running in self.flows()]

    def flows(self) -> list[RunningFlow]:
        """Flows that copy, sorted by name; from any thread."""
        return [running for _, running in sorted(self.running.items()) if isinstance(running, RunningFlow)]

    def _apply(self, found: Configuration) -> None:
        """Stop flows that are gone or changed, or whose clusters are reached in another way, and start the others;
        unchanged ones go on."""
        before = self._clusters
        if found is self._found and before is not None:
            clusters = before.renewed()
            if clusters is None:
                return
        else:
            clusters = FlowClusters(found.clusters, found.name)
        for remark in (*found.remarks, *clusters.remarks):
            log.warning("%s%s", remark.place, remark.text)
        wanted: dict[str, tuple[FlowConfig, _Start]] = {
            flow.name: (flow, partial(self._flow, earlier=flows_before(flow, found.flows))) for flow in found.flows
        }
        wanted |= {f"{flow.name} heartbeats": (flow, HeartbeatFlow) for flow in found.heartbeats_only}
        chosen = {name: one for name, one in wanted.items() if not self.targets or one[0].target in self.targets}
        moved = (
            set[str]() if before is None else {alias for alias in clusters.aliases if before.differs(clusters, alias)}
        )
        self._found, self._clusters = found, clusters
        ended = list[str]()
        for name, one in self.running.items():
            if one.flow != _flow_of(chosen.get(name)):
                ended.append(name)
            elif others := moved & {one.flow.source, one.flow.target}:
                log.info("%s starts again: other keys or certificates of %s", name, ", ".join(sorted(others)))
                ended.append(name)
        self._stop(ended)
        for name, (flow, start) in chosen.items():
            if name not in self.running:
                self.running[name] = start(flow, clusters, self.membership)

    def _flow(
        self,
        flow: FlowConfig,
        clusters: FlowClusters,
        membership: FlowMembership,
        earlier: Collection[FlowConfig],
    ) -> RunningFlow:
        return RunningFlow(flow, clusters, membership, self._owners, earlier, self.guards)

    def _reread(self) -> None:
        try:
            self._apply(self.read())
            self._trouble = ""
        except FlowError as error:
            if str(error) != self._trouble:
                log.warning("flows keep running as before: %s", error)
            self._trouble = str(error)

    def _start_outdated(self) -> None:
        """Start flows again whose internal topics were deleted, or whose clusters were made anew."""
        for name, running in list(self.running.items()):
            if isinstance(running, RunningFlow) and running.outdated:
                log.warning("%s starts again: %s", name, running.outdated)
                self._stop([name])
                self.running[name] = running.again()

    def _tell(self) -> None:
        for running in self.flows():
            if running.parts is not None:
                copier = running.parts.copier
                running.standstills.look(copier.standing(), copier.copies)

    def _check(self) -> None:
        for running in self.running.values():
            if isinstance(running, RunningFlow) and running.parts is not None:
                if fault := running.parts.copier.fault:
                    raise FlowError(f"{running.flow.name}: {fault}")
                if taken := running.parts.copier.taken_by_strangers():
                    raise StrangerError(
                        f"{running.flow.name}: another process copies {taken[0].topic}-{taken[0].partition} and "
                        f"{len(taken) - 1} more partitions. Stop one of the two processes, or give both --zookeeper, "
                        "so that they share the flow."
                    )

    def _stop(self, names: Collection[str]) -> None:
        ended = [self.running.pop(name) for name in names]
        threads = [threading.Thread(target=one.stop) for one in ended]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _flow_of(wanted: tuple[FlowConfig, object] | None) -> FlowConfig | None:
    return None if wanted is None else wanted[0]
