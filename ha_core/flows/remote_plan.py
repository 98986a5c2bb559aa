"""The remote topics that a flow needs in its target, from the topics of both clusters as they are now.

Invariant: a copy belongs to one pair of topics. Where either of them was deleted and made again, its link id is another
one: the copier of the new pair knows nothing of the old one's offsets, and never goes on with them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ha_core.flows.topology import FlowRoute
from ha_core.plan.facts.clusters import ListedTopic

_LINK_BYTES = 6


class WantedCopy(NamedTuple):
    """A topic that is copied.

    :ivar partitions: number of partitions that both topics have.
    :ivar link: id under which its copiers keep their notes.
    :ivar topic_id: of the topic in the source, in hexadecimal; "": its brokers have none.
    """

    topic: str
    remote_topic: str
    partitions: int
    link: str
    topic_id: str = ""


class SkippedTopic(NamedTuple):
    """A topic that the flow names and does not copy now, with the reason."""

    topic: str
    reason: str


@dataclass(frozen=True)
class RemotePlan:
    """
    :ivar create: remote topics to create → the topic of the source.
    :ivar grow: remote topic → number of partitions that it needs.
    """

    create: Mapping[str, str]
    grow: Mapping[str, int]
    copies: tuple[WantedCopy, ...]
    skipped: tuple[SkippedTopic, ...]


def link_prefix(flow: str) -> str:
    """Begins the link ids of all copies of a flow."""
    return f"{flow}:"


def link_of(flow: str, source_id: str, target_id: str) -> str:
    """The link id of the copy of one topic of the source in one topic of the target."""
    return link_prefix(flow) + blake2b(f"{source_id}\0{target_id}".encode(), digest_size=_LINK_BYTES).hexdigest()


def remote_plan(
    route: FlowRoute,
    source: Mapping[str, ListedTopic],
    target: Mapping[str, ListedTopic],
    others: Mapping[str, str] | None = None,
) -> RemotePlan:
    """
    :param source: all topics of the source; likewise those of the target.
    :param others: remote topic → the flow that writes it, and not this one.
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
    """(topic, its name in the target) of the topics that the flow copies."""
    for topic in topics:
        if route.accepts(topic):
            yield topic, route.policy.format_remote_topic(route.source, topic)
