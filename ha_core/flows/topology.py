"""Follows topics through all flows: finds all copies, and records that would reach a cluster twice.

Invariant: a flow never copies a topic into a cluster that the topic's name already contains. So an alias occurs at most
once in a chain, each chain ends, and so does `walk`. With a policy that keeps names, a name does not show the topic's
path. Flows with such a policy must not form a cycle; `check_cycles` finds cycles before any topic is listed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import NameFilter
from ha_core.flows.policies import HEARTBEATS, ReplicationPolicy, is_cycle, is_heartbeats_topic

MAX_COPIES = 1_000_000
"""Maximum number of copies of all flows together. A full mesh of n clusters copies each topic about n! times."""


@dataclass(frozen=True)
class FlowRoute:
    """The part of a flow that decides which topics it copies.

    :ivar heartbeats: whether the flow copies heartbeats even if its filter excludes them
        (`heartbeats.replication.enabled`).
    """

    source: str
    target: str
    policy: ReplicationPolicy
    topics: NameFilter
    heartbeats: bool = True

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    def accepts(self, topic: str) -> bool:
        """Whether the flow copies this topic of its source."""
        if is_heartbeats_topic(self.policy, topic) and self.heartbeats:
            accepted = True
        else:
            accepted = self.topics.accepts(topic) and not self.policy.is_internal_topic(topic)
        return accepted and not is_cycle(self.policy, topic, self.target)


class RemoteTopic(NamedTuple):
    """A topic that a flow copies, and its copy.

    :ivar original: the topic's name in the cluster whose producers write it.
    :ivar path: aliases on the topic's way, from the cluster whose producers write it to the target.
    """

    flow: str
    source: str
    topic: str
    target: str
    remote_topic: str
    original: str
    path: tuple[str, ...]


class NameConflict(NamedTuple):
    """A topic of the target with two writers: two flows, or a flow and local producers."""

    target: str
    topic: str
    writers: tuple[str, ...]


class Diamond(NamedTuple):
    """Records of one topic that reach a cluster on two paths."""

    original: str
    origin: str
    cluster: str
    names: tuple[str, ...]


def check_cycles(routes: Iterable[FlowRoute]) -> None:
    """:raises FlowError: flows whose policies keep names form a cycle, in which records would circulate for ever."""
    probe = "switchyard"
    after: dict[str, list[str]] = {}
    for route in routes:
        if route.source == route.target:
            raise FlowError(f"flow {route.name} has one cluster on both sides; remove it")
        if route.policy.format_remote_topic(route.source, probe) == probe:
            after.setdefault(route.source, []).append(route.target)
    done: set[str] = set()
    for start in after:
        if (cycle := _cycle(start, after, done)) is not None:
            raise FlowError(
                f"the flows {' -> '.join(cycle)} form a cycle, and their policy keeps the names of topics: records "
                "would circulate for ever. Use DefaultReplicationPolicy, or disable one of these flows."
            )


def _cycle(start: str, after: Mapping[str, list[str]], done: set[str]) -> list[str] | None:
    """A cycle that can be reached from `start`; None: there is none. Adds the nodes that it has finished to `done`."""
    path: list[str] = []
    waiting = [iter([start])]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            if path:
                done.add(path.pop())
        elif node in path:
            return [*path[path.index(node) :], node]
        elif node not in done:
            path.append(node)
            waiting.append(iter(after.get(node, ())))
    return None


def walk(routes: Iterable[FlowRoute], topics: Mapping[str, Iterable[str]]) -> Iterator[RemoteTopic]:
    """All copies that the flows make, including copies of copies.

    :param topics: cluster → its topics that no flow writes.
    :raises FlowError: there are more than `MAX_COPIES`.
    """
    by_source: dict[str, list[FlowRoute]] = {}
    for route in routes:
        by_source.setdefault(route.source, []).append(route)
    waiting: list[tuple[str, str, str, tuple[str, ...]]] = [
        (cluster, topic, topic, (cluster,)) for cluster, its in topics.items() for topic in its
    ]
    seen: set[tuple[str, str, str]] = set()
    while waiting:
        cluster, topic, original, path = waiting.pop()
        for route in by_source.get(cluster, ()):
            if not route.accepts(topic) or (route.name, topic, path[0]) in seen:
                continue
            seen.add((route.name, topic, path[0]))
            if len(seen) > MAX_COPIES:
                raise FlowError(
                    f"the flows would make more than {MAX_COPIES} copies; use fewer flows, or narrower topics"
                )
            remote = route.policy.format_remote_topic(cluster, topic)
            its_path = (*path, route.target)
            yield RemoteTopic(route.name, cluster, topic, route.target, remote, original, its_path)
            waiting.append((route.target, remote, original, its_path))


def local_topics(routes: Iterable[FlowRoute], listed: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Topics of each cluster whose names show that they are not copies by these flows.

    :param listed: cluster → all its topics.
    """
    found = {cluster: set(topics) for cluster, topics in listed.items()}
    for route in routes:
        here = found.get(route.target)
        if here is not None:
            here -= {topic for topic in here if _is_copy_of(route, topic)}
    return found


def _is_copy_of(route: FlowRoute, topic: str) -> bool:
    if route.policy.topic_source(topic) != route.source:
        return False
    upstream = route.policy.upstream_topic(topic)
    return upstream is not None and upstream != topic and route.accepts(upstream)


def name_conflicts(made: Iterable[RemoteTopic], local: Mapping[str, Iterable[str]]) -> Iterator[NameConflict]:
    """Topics with more than one writer, sorted by cluster and name."""
    writers: dict[tuple[str, str], set[str]] = {}
    for copy in made:
        writers.setdefault((copy.target, copy.remote_topic), set()).add(f"{copy.flow} ({copy.topic})")
    for (target, topic), flows in sorted(writers.items()):
        everyone = sorted(flows) + (["local producers"] if topic in local.get(target, ()) else [])
        if len(everyone) > 1:
            yield NameConflict(target, topic, tuple(everyone))


def diamonds(made: Iterable[RemoteTopic]) -> Iterator[Diamond]:
    """Topics whose records reach a cluster twice, under two names. Heartbeats do so on purpose: each shows a path."""
    by_origin: dict[tuple[str, str, str], set[str]] = {}
    for copy in made:
        if copy.original != HEARTBEATS:
            by_origin.setdefault((copy.target, copy.path[0], copy.original), set()).add(copy.remote_topic)
    for (cluster, origin, original), names in sorted(by_origin.items()):
        if len(names) > 1:
            yield Diamond(original, origin, cluster, tuple(sorted(names)))
