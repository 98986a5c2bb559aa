"""Links the topics that patterns choose, as the leading job does every few seconds, in a look at each route.

A look lists the source's topics, and links those that are due by the operation with which an operator links them: the
same checks, steps, locks and history. It changes nothing else. Two processes may do so at once, or one that stood still
may go on: the operation has the locks of its topics, and before its first step looks under them once more whether the
pattern still chooses these topics, and whether they have a mirror by now. So an operator who has ended a mirror, or
removed the pattern, is not overruled by a look that began before. An operation whose process has died is continued by
the next look.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import (
    Lock,
    Mirror,
    MirrorPattern,
    MoveOperation,
    PatternLook,
    PatternTopic,
    UnreadableDocumentError,
    View,
)
from ha_core.model.mirror_pattern import MAX_TOPICS_NAMED, PatternTopicState, pattern_that_is
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.creating import interrupted
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.report import Report
from ha_core.operations.mirror.pattern_topics import flows_into, judge_links, of_users
from ha_core.operations.running import engine
from ha_core.plan.facts.verdict import Verdict
from ha_core.plan.mirror.pattern_retries import LinkRetries
from ha_core.plan.mirror.patterns import (
    TopicStanding,
    chooser,
    no_longer_chosen,
    shared_out,
    standing,
)
from ha_core.store.watching import StateReplica
from ha_core.wire.sasl import SecurityProfile

AT_ONCE = 50
"""Topics per operation. Gateways have to serve its revisions, and the next look begins right after it."""
LIST_S = 10.0
"""Timeout of a source that is asked for its topics."""
Route = tuple[str, str]
"""(source, target)"""
_ORDER = ("failed", "refused", "gone", "unmatched", "waits", "elsewhere")
"""States of topics, those that wait for an operator first."""


class RouteLook(NamedTuple):
    """Result of one look at a route.

    :ivar patterns: one for each of its patterns.
    :ivar more: whether more topics can be linked at once.
    :ivar listing_s: seconds that the source took to list its topics; 0: it did not.
    """

    patterns: list[PatternLook]
    more: bool = False
    listing_s: float = 0.0


class FollowedView:
    """The state, as of each call, by reading what has changed since the call before. Thread-safe."""

    def __init__(self, environment: Environment) -> None:
        self._guard = threading.Lock()
        self._replica = StateReplica(environment.store.tree)
        self._read = False

    def now(self) -> View:
        with self._guard:
            if self._read:
                self._replica.catch_up()
            else:
                self._replica.load()
                self._read = True
            return self._replica.view


class PatternLinking:
    """The patterns of all routes."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._view = FollowedView(environment)
        self._routes: dict[Route, RouteLinking] = {}

    def routes(self) -> list[Route]:
        """Routes of all patterns that this version can read, and of operations that a removed pattern has left. Cheap.

        :raises StoreError: ZooKeeper is away.
        """
        store = self.environment.store
        found = {pattern.route for pattern in store.find_mirror_patterns().readable}
        for operation_id in _of_patterns(store.locks()):
            operation = self.environment.operation_of(MoveOperation, operation_id)
            if operation is not None:
                found.add(operation.route)
        routes = sorted(found)
        self._routes = {
            route: self._routes.get(route) or RouteLinking(self.environment, self._view, route) for route in routes
        }
        return routes

    def look(self, route: Route) -> RouteLook:
        """Link topics of a route. One thread at a time may do so for a route.

        :raises StoreError: ZooKeeper is away.
        """
        linking = self._routes.get(route)
        return RouteLook([]) if linking is None else linking.look()


@contextmanager
def opened(
    zookeeper: str, root: str, session_timeout_s: float, profiles: Mapping[str, SecurityProfile], by: str
) -> Iterator[PatternLinking]:
    """:param by: the process, for operations that it continues."""
    settings = EnvironmentSettings(zookeeper, root, session_timeout_s=session_timeout_s, create_root=False)
    with connect(settings, by=by, profiles=profiles) as environment:
        yield PatternLinking(environment)


class RouteLinking:
    """The patterns of one route, and the topics that could not be linked."""

    def __init__(self, environment: Environment, view: FollowedView, route: Route) -> None:
        self._environment, self._view, self._route = environment, view, route
        self._retries = LinkRetries()
        self._patterns: list[MirrorPattern] = []
        self._ids: dict[str, str] = {}

    def look(self) -> RouteLook:
        store = self._environment.store
        patterns = [one for one in store.find_mirror_patterns().readable if one.route == self._route]
        if patterns != self._patterns:
            self._retries.at_once()
            self._patterns = patterns
        locks = {lock.key: lock for lock in store.locks()}
        self._continue_interrupted(locks.values())
        if not patterns:
            return RouteLook([])
        at, began_s = self._environment.now(), self._now_s()
        try:
            # Before the state: a topic that is listed has the map that was written before it was created.
            sides = self._sides()
            names = frozenset(sides[0].list_topics(LIST_S))
        except (KafkaAdminError, RefusedError) as error:
            return RouteLook([PatternLook(key=pattern.key, at=at, trouble=str(error)) for pattern in patterns])
        listing_s = self._now_s() - began_s
        try:
            view = self._view.now()
            shares = shared_out(patterns, of_users(names, view).users)
            flows = flows_into(sides, view, self._ids)
            troubles = {pattern.key: self._attempt(pattern, shares[pattern.key], locks, flows) for pattern in patterns}
            view, locks = self._view.now(), {lock.key: lock for lock in store.locks()}
        except UnreadableDocumentError as error:
            return RouteLook([PatternLook(key=pattern.key, at=at, trouble=str(error)) for pattern in patterns])
        strays = no_longer_chosen(patterns, view.mirrors.values(), names)
        stands = {
            key: [standing(view, locks, self._route, name, flows) for name in share] for key, share in shares.items()
        }
        due = {how.topic for some in stands.values() for how in some if how.state == "due"}
        self._retries.keep_only(due)
        looks = [
            self._as_look(pattern, at, troubles[pattern.key], stands[pattern.key], strays.get(pattern.key, ()))
            for pattern in patterns
        ]
        more = not any(troubles.values()) and bool(self._retries.due(due, self._now_s(), 1))
        return RouteLook(looks, more, listing_s)

    def _now_s(self) -> float:
        return self._environment.monotonic()

    def _sides(self) -> tuple[Admin, Admin]:
        """:raises RefusedError: a cluster of the route is out of service, or not registered."""
        clusters = self._environment.store.clusters()
        for name in self._route:
            masked = clusters[name].masked if name in clusters else None
            if masked is not None:
                raise RefusedError(f"{name} is masked since {masked.since} by {masked.by}: {masked.reason}")
        source, target = (admin_of(self._environment, name) for name in self._route)
        return source, target

    def _attempt(
        self, pattern: MirrorPattern, names: Iterable[str], locks: Mapping[str, Lock], flows: Mapping[str, str]
    ) -> str:
        try:
            return self._link(pattern, names, locks, flows)
        except (KafkaAdminError, RefusedError) as error:
            return str(error)

    def _link(
        self, pattern: MirrorPattern, names: Iterable[str], locks: Mapping[str, Lock], flows: Mapping[str, str]
    ) -> str:
        """Link the next topics of the pattern. Returns why none can be linked now; empty: nothing is in the way."""
        view = self._view.now()
        stands = (standing(view, locks, self._route, name, flows) for name in names)
        topics = self._retries.due([how.topic for how in stands if how.state == "due"], self._now_s(), AT_ONCE)
        if not topics:
            return ""
        environment = replace(self._environment, by=pattern.actor)
        judged = judge_links(environment, pattern, topics)
        if not judged.against_all and judged.refused and judged.sound:
            self._note(judged.refused)
            judged = judge_links(environment, pattern, judged.sound)
        if judged.against_all:
            return "" if _busy(judged.against_all) else " ".join(verdict.words for verdict in judged.against_all)
        self._note(judged.refused)
        if judged.refused or not judged.sound:
            return ""
        try:
            operation = engine.start(environment, judged.proposal, recheck=False)
        except RefusedError:
            return ""  # another operation has taken a lock meanwhile, as the next look shows
        self._perform(operation.id)
        return ""

    def _note(self, refused: Mapping[str, Verdict]) -> None:
        for name, verdict in refused.items():
            if verdict.code != "mirrored":  # another process was faster
                text = f"{verdict.text} {verdict.remedy}".rstrip()
                self._retries.refused(name, verdict.code, text, self._now_s())

    def _continue_interrupted(self, locks: Iterable[Lock]) -> None:
        """Continue operations of patterns of this route whose process has died."""
        for operation_id in _of_patterns(locks):
            operation = self._environment.operation(operation_id)
            if (
                operation is not None
                and operation.route == self._route
                and interrupted(self._environment, operation, engine.BEGUN_S)
            ):
                self._environment.say(f"operation {operation_id} of {operation.by} was interrupted; continuing it")
                self._perform(operation_id)

    def _perform(self, operation_id: str) -> None:
        """Bring an operation to its end, or undo it if its pattern does not ask for it any more."""
        operation = self._environment.operation_of(MoveOperation, operation_id)
        if operation is None:
            return
        topics = operation.moves.topics
        try:
            if operation.state in {"cut", "succeeded"} or self._still_asked_for(operation):
                report = engine.resume(self._environment, operation_id)
            else:
                self._environment.say(f"operation {operation_id}: its pattern does not ask for it any more")
                engine.undo(self._environment, operation_id)
                return
        except RefusedError as error:  # another process continues it
            self._environment.say(str(error))
            return
        self._remember(topics, report)

    def _remember(self, topics: Collection[str], report: Report) -> None:
        if report.result == "succeeded":
            self._retries.linked(topics)
        elif report.result != "interrupted":
            self._retries.failed(topics, report.error or report.result, self._now_s())

    def _still_asked_for(self, operation: MoveOperation) -> bool:
        """Under the operation's locks: no other process links or unlinks these topics meanwhile."""
        store, topics, target = self._environment.store, operation.moves.topics, self._route[1]
        key = pattern_that_is(operation.by)
        pattern = store.read(MirrorPattern, key) if key else None
        mirrors = (store.read(Mirror, f"{name}@{target}") for name in topics)
        return (
            pattern is not None
            and all(map(chooser(pattern[0]), topics))
            and all(mirror is None or mirror[0].link == operation.id for mirror in mirrors)
        )

    def _as_look(
        self,
        pattern: MirrorPattern,
        at: str,
        trouble: str,
        stands: Collection[TopicStanding],
        strays: Collection[PatternTopic],
    ) -> PatternLook:
        topics, due = [*strays], 0
        for how in stands:
            if how.state == "linked":
                continue
            if how.state != "due":
                topics.append(PatternTopic(topic=how.topic, state=how.state, reason=how.reason))
            elif (known := self._retries.troubles.get(how.topic)) is not None:
                state: PatternTopicState = "failed" if known.failed else "refused"
                topics.append(PatternTopic(topic=how.topic, state=state, code=known.code, reason=known.reason))
            else:
                due += 1
        topics.sort(key=lambda one: (_ORDER.index(one.state), one.topic))
        return PatternLook(
            key=pattern.key,
            at=at,
            trouble=trouble,
            matching=len(stands),
            linked=sum(how.state == "linked" for how in stands),
            due=due,
            topics=tuple(topics[:MAX_TOPICS_NAMED]),
            left_out=len(topics[MAX_TOPICS_NAMED:]),
        )


def _of_patterns(locks: Iterable[Lock]) -> list[str]:
    """Ids of the operations that patterns have asked for."""
    return sorted({lock.operation for lock in locks if pattern_that_is(lock.by) is not None})


def _busy(verdicts: Collection[Verdict]) -> bool:
    """Whether nothing but other operations is in the way: they end, and the next look goes on."""
    return all(verdict.cause == "busy" for verdict in verdicts)
