"""Plans the remote topics that a flow needs in its target, from the current topics of both clusters.

Invariant: a copy belongs to one pair of topics. If either of them was deleted and created again, the new pair has
another link id: its copier does not find the notes of the old pair, and never goes on at the old offsets.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ha_core.flows.topology import FlowRoute
from ha_core.plan.facts.clusters import ListedTopic

_LINK_BYTES = 6


class WantedCopy(NamedTuple):
    """A topic that the flow copies now.

    :ivar partitions: number of partitions that both topics have.
    :ivar link: id under which the copiers of this pair of topics keep their notes.
    :ivar topic_id: id of the source topic, in hexadecimal; "": the source's brokers have no topic ids.
    """

    topic: str
    remote_topic: str
    partitions: int
    link: str
    topic_id: str = ""


class SkippedTopic(NamedTuple):
    """A topic that the flow names but does not copy now, with the reason."""

    topic: str
    reason: str


@dataclass(frozen=True)
class RemotePlan:
    """
    :ivar create: remote topic to create → its source topic.
    :ivar grow: remote topic that needs more partitions → their number.
    """

    create: Mapping[str, str]
    grow: Mapping[str, int]
    copies: tuple[WantedCopy, ...]
    skipped: tuple[SkippedTopic, ...]


def link_prefix(flow: str) -> str:
    """The prefix of the link ids of all copies of a flow."""
    return f"{flow}:"


def link_of(flow: str, source_id: str, target_id: str) -> str:
    """The link id of a copy.

    :param source_id: topic id in the source.
    :param target_id: topic id in the target.
    """
    return link_prefix(flow) + blake2b(f"{source_id}\0{target_id}".encode(), digest_size=_LINK_BYTES).hexdigest()


def remote_plan(
    route: FlowRoute,
    source: Mapping[str, ListedTopic],
    target: Mapping[str, ListedTopic],
    others: Mapping[str, str] | None = None,
) -> RemotePlan:
    """
    :param source: all topics of the source.
    :param target: all topics of the target.
    :param others: remote topic → the other flow that writes it.
    """
    create, grow = dict[str, str](), dict[str, int]()
    copies, skipped = list[WantedCopy](), list[SkippedTopic]()
    for topic, remote in sorted(remote_names(route, source)):
        here, there = source[topic], target.get(remote)
        if others and remote in others:
            writers = " and ".join(sorted([route.name, others[remote]]))
            why = f"{remote} of {route.target} would be written by {writers}: exclude it from one of them"
            skipped.append(SkippedTopic(topic, why))
        elif here.error or (there is not None and there.error):
            skipped.append(SkippedTopic(topic, here.error or f"{remote} in {route.target}: {there and there.error}"))
        elif there is None:
            create[remote] = topic
        else:
            if there.partitions < here.partitions:
                grow[remote] = here.partitions
            link = link_of(route.name, here.topic_id, there.topic_id)
            copies.append(WantedCopy(topic, remote, min(here.partitions, there.partitions), link, here.topic_id))
    return RemotePlan(create, grow, tuple(copies), tuple(skipped))


def remote_names(route: FlowRoute, topics: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (topic, its name in the target) for each topic that the flow copies."""
    for topic in topics:
        if route.accepts(topic):
            yield topic, route.policy.format_remote_topic(route.source, topic)
