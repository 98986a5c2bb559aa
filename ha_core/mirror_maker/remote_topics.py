"""Plans a flow's copies, and creates their remote topics with settings and ACLs."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.remote_plan import RemotePlan, SkippedTopic, WantedCopy, remote_names, remote_plan
from ha_core.flows.remote_topics import TIME_BOUNDS, changes, remote_acls
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror_maker.name_owners import writes_alone
from ha_core.model.portions import portions
from ha_core.plan.facts.clusters import DescribedSetting, ListedTopic

log = logging.getLogger(__name__)
_PARTITIONS_AT_ONCE = 1_000
"""Maximum number of partitions per request that creates topics: the controller creates them before it answers."""
_CREATE_S = 60.0
_REPLICATION = 3


def _claim_nothing(_: Mapping[str, str]) -> None:
    """For an instance that creates no topics."""


def _not_fenced() -> None:
    """Changes of remote topics need no fence: if two workers make them, they make equal ones."""


@dataclass
class RemoteTopics:
    """
    :ivar leads: whether this worker creates and grows remote topics.
    :ivar claim: called before remote topics are created, with remote topic → topic of the source.
    :ivar others: of the given remote topics, those that another flow writes → that flow.
    :ivar refused: remote topic → why the target refused to create or grow it.
    """

    flow: FlowConfig
    source: Admin
    target: Admin
    leads: Callable[[], bool]
    claim: Callable[[Mapping[str, str]], None] = _claim_nothing
    others: Callable[[Collection[str]], Mapping[str, str]] = writes_alone
    refused: dict[str, str] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    """Remote topic → the last refusal that was logged."""

    def look(self) -> Iterator[RemotePlan]:
        """Create missing remote topics, and plan the copies: first those into topics that exist, then again after each
        request that creates some, since thousands of topics take minutes. The last plan skips topics that cannot be
        created."""
        route = self.flow.route
        source, target = self.source.list_topics(), self.target.list_topics()
        others = self.others([remote for _, remote in remote_names(route, source)])
        plan = remote_plan(route, source, target, others)
        if (plan.create or plan.grow) and self.leads():
            wanted, known = plan, plan.copies
            earlier = [
                SkippedTopic(topic, self.refused[remote])
                for remote, topic in plan.create.items()
                if remote in self.refused
            ]
            yield _so_far(plan, known, earlier)
            self.refused = {}
            self.claim(wanted.create)
            for _ in self._create(wanted.create, source):
                plan = remote_plan(route, source, self.target.list_topics(), others)
                known = _with(known, plan.copies)
                yield _so_far(plan, known, earlier)
            if wanted.grow:
                self._grow(wanted.grow)
                plan = remote_plan(route, source, self.target.list_topics(), others)
            plan = replace(plan, copies=_with(known, plan.copies))
        refused = [SkippedTopic(plan.create[remote], self._why(remote)) for remote in plan.create]
        yield RemotePlan(plan.create, plan.grow, plan.copies, (*plan.skipped, *refused))

    def _why(self, remote: str) -> str:
        return self.refused.get(remote, f"{remote} does not exist yet in {self.flow.target}")

    def _create(self, wanted: Mapping[str, str], source: Mapping[str, ListedTopic]) -> Iterator[None]:
        """Yields after each request."""
        settings = self._settings(wanted.values())
        specs = [
            TopicSpec(remote, source[topic].partitions, self._replication, settings.get(topic, {}))
            for remote, topic in wanted.items()
        ]
        for some in portions(specs, _PARTITIONS_AT_ONCE, lambda spec: spec.partitions):
            self._create_some(list(some))
            yield

    def _create_some(self, specs: list[TopicSpec]) -> None:
        """Create topics. If the request fails, halves are tried alone, so that a topic that cannot be created does not
        stop the others."""
        try:
            created = self.target.create_topics(specs, timeout_s=_CREATE_S)
        except KafkaAdminError as error:
            if len(specs) == 1:
                name, why = specs[0].name, str(error)
                if self._told.get(name) != why:
                    log.warning("%s: %s is not created: %s", self.flow.name, name, why)
                self._told[name] = self.refused[name] = why
                return
            for half in (specs[: len(specs) // 2], specs[len(specs) // 2 :]):
                self._create_some(half)
            return
        for spec in specs:
            self._told.pop(spec.name, None)
            if spec.name in created.created:
                log.info("%s: %s is created with %d partitions", self.flow.name, spec.name, spec.partitions)
        for note in created.notes:
            log.info("%s: %s", self.flow.name, note)

    def _grow(self, counts: Mapping[str, int]) -> None:
        if not counts:
            return
        refused = self.target.grow_topics(counts, _not_fenced)
        for remote, count in counts.items():
            if remote not in refused:
                log.info("%s: %s has %d partitions now", self.flow.name, remote, count)
        self.refused |= {remote: f"it does not get more partitions: {why}" for remote, why in refused.items()}

    @property
    def _replication(self) -> int:
        # -1 stands for the brokers' default, which is unknown before the topic exists; Kafka recommends three.
        return self.flow.replication_factor if self.flow.replication_factor > 0 else _REPLICATION

    def _settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Settings with which remote topics are created. If settings are not synced, they get no bounds for timestamps,
        and the target's defaults otherwise."""
        described: Mapping[str, Iterable[DescribedSetting]] = dict.fromkeys(topics, ())
        if self.flow.sync_settings_s is not None:
            described = self.source.described_settings(topics)
        # Brokers' defaults of these bounds have another name; a broker that has none of them does not know the setting.
        brokers = self.target.broker_settings([f"log.{name}" for name in TIME_BOUNDS])
        known = {name.removeprefix("log.") for name in brokers}
        return {
            topic: {
                name: value for name, value in self.flow.settings.of_remote(its, known).items() if value is not None
            }
            for topic, its in described.items()
        }

    def sync_settings(self) -> None:
        """Give remote topics the settings of their source topics.

        :raises KafkaAdminError: a cluster does not answer, or the target refuses a setting.
        """
        names = dict(self._names())
        described = self.source.described_settings(list(names))
        there = self.target.settings([names[topic] for topic in described])
        wanted: dict[str, dict[str, str | None]] = {}
        for topic, its in described.items():
            if (remote := names[topic]) in there:
                own = {name: found.value or "" for name, found in there[remote].items() if found.own}
                carried = self.flow.settings.of_remote(its, there[remote].keys())
                known = {name: value for name, value in carried.items() if name in there[remote]}
                if changed := changes(known, own):
                    wanted[remote] = changed
        refused = self.target.alter_settings(wanted, _not_fenced)
        for remote, changed in wanted.items():
            if remote not in refused:
                log.info("%s: settings of %s: %s", self.flow.name, remote, changed)
        if refused:
            remote, why = min(refused.items())
            raise KafkaAdminError(
                self.flow.target, f"refuses settings of {len(refused)} remote topics, such as {remote}: {why}"
            )

    def sync_acls(self) -> None:
        """Let readers of the source's topics read the copies. ACLs are only added, as in MirrorMaker 2, and never
        removed: the target's operators may have added some themselves."""
        rules, there = self.source.access_rules(), self.target.access_rules()
        if rules is None or there is None:
            return
        missing = set(remote_acls(rules, dict(self._names()))) - there
        if missing:
            self.target.add_access_rules(missing, _not_fenced)
            log.info("%s: %d ACLs are added in %s", self.flow.name, len(missing), self.flow.target)

    def _names(self) -> list[tuple[str, str]]:
        target = self.target.list_topics()
        return [
            (topic, remote)
            for topic, remote in remote_names(self.flow.route, self.source.list_topics())
            if remote in target
        ]


def _with(known: Iterable[WantedCopy], new: Iterable[WantedCopy]) -> tuple[WantedCopy, ...]:
    """All of them; the new copy into a topic counts. A broker that has not heard of a topic yet, which another one has
    told of, must not end the topic's copy."""
    return tuple({copy.remote_topic: copy for copy in (*known, *new)}.values())


def _so_far(plan: RemotePlan, copies: tuple[WantedCopy, ...], refused: Iterable[SkippedTopic]) -> RemotePlan:
    """The plan while topics are still being created.

    :param refused: topics that could not be created at the last look.
    """
    return RemotePlan({}, {}, copies, (*plan.skipped, *refused))
