"""The topics that patterns choose, and how each of them stands: linked, to be linked now, or left alone and why.

A pattern makes mirrors of topics that its source writes, and of no others: a switch turns a mirror round, and the topic
that it has moved is the other cluster's then, whose patterns look after it. So two patterns in opposite directions
never link a topic in a circle. All that is decided here costs no question to a cluster; a topic that is due is judged
by the pre-flight of a link before anything changes.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Literal, NamedTuple, Self

from ha_core.model import Lock, Mirror, MirrorPattern, PatternTopic, View
from ha_core.model.mirror_pattern import PatternTopicState
from ha_core.plan.facts.verdict import listed

State = Literal["linked", "due"] | PatternTopicState


class TopicStanding(NamedTuple):
    """How a topic that a pattern chooses stands. `reason` is empty if it is linked or due."""

    topic: str
    state: State
    reason: str = ""


def chooser(pattern: MirrorPattern) -> Callable[[str], bool]:
    """Whether the pattern chooses a topic of its source; for many topics."""
    include, exclude = _Matcher.of((pattern.pattern,)), _Matcher.of(pattern.exclude)
    return lambda name: include.matches(name) and not exclude.matches(name)


class _Matcher(NamedTuple):
    names: frozenset[str]
    wild: re.Pattern[str] | None

    @classmethod
    def of(cls, texts: Collection[str]) -> Self:
        """:param texts: names, and patterns with `*`, `?` and `[…]`."""
        wild = [text for text in texts if any(mark in text for mark in "*?[")]
        whole = re.compile("|".join(map(translate, wild))) if wild else None
        return cls(frozenset(texts).difference(wild), whole)

    def matches(self, name: str) -> bool:
        return name in self.names or (self.wild is not None and self.wild.match(name) is not None)


def shared_out(patterns: Iterable[MirrorPattern], names: Iterable[str]) -> dict[str, list[str]]:
    """Key of each pattern → the topics that are its own, in their order. A topic that several patterns choose is the
    longest one's, whose policy is meant for fewer topics.

    :param patterns: of one route.
    """
    ranked = sorted(patterns, key=lambda one: (-len(one.pattern), one.pattern))
    shares: dict[str, list[str]] = {pattern.key: [] for pattern in ranked}
    choosers = [(chooser(pattern), shares[pattern.key]) for pattern in ranked]
    for name in names:
        for chooses, share in choosers:
            if chooses(name):
                share.append(name)
                break
    return shares


def written_by_flows(view: View, cluster_ids: Collection[str]) -> dict[str, str]:
    """Topics that a flow of MirrorMaker 2 writes, or is about to write, in one of the clusters → the flow.

    :param cluster_ids: as their brokers tell them; "": not known, and topics count then that a flow writes in any.
    """
    return {
        name: portion.flow
        for portion in view.remote_topics.values()
        if portion.target_id in cluster_ids or "" in cluster_ids
        for name in portion.topics
    }


def standing(
    view: View, locks: Mapping[str, Lock], route: tuple[str, str], name: str, flows: Mapping[str, str]
) -> TopicStanding:
    """
    :param locks: by key.
    :param route: source and target.
    :param name: a topic that the source has.
    :param flows: topics that a flow writes in either cluster. In the target it would be a second writer; records that
        it writes in the source may have come from the target. An operator who knows better links it by its name.
    """
    source, target = route
    mirror, document, lock = view.mirrors.get(f"{name}@{target}"), view.topics.get(name), locks.get(f"topic:{name}")
    if mirror is not None and mirror.source == source:
        return TopicStanding(name, "linked")
    if mirror is not None:
        return TopicStanding(name, "elsewhere", f"it is mirrored to {target} from {mirror.source}")
    if (flow := flows.get(name)) is not None:
        return TopicStanding(name, "elsewhere", f"the flow {flow} writes it")
    if lock is not None:
        return TopicStanding(name, "waits", f"operation {lock.operation} works on it")
    if document is None:
        return TopicStanding(name, "due")
    if document.deletion is not None:
        return TopicStanding(name, "waits", "it is being deleted")
    if document.crossing is not None:
        return TopicStanding(name, "waits", f"it migrates in operation {document.crossing.operation}")
    if document.mapped and document.sound and source not in document.writers:
        back = view.mirrors.get(f"{name}@{source}")
        turned = "" if back is None or back.source != target else ", and mirrored to " + source
        return TopicStanding(name, "elsewhere", f"it is written in {listed(sorted(document.writers))}{turned}")
    return TopicStanding(name, "due")


def no_longer_chosen(
    patterns: Collection[MirrorPattern], mirrors: Iterable[Mirror], names: Collection[str]
) -> dict[str, list[PatternTopic]]:
    """Key of a pattern → topics that it has linked, and that it would not link now. Their mirrors stand: a standby is
    not given up because a name has gone.

    :param patterns: of one route.
    :param names: all topics that their source has.
    """
    found: dict[str, list[PatternTopic]] = {}
    choosers = [chooser(pattern) for pattern in patterns]
    for mirror in mirrors:
        pattern = next((one for one in patterns if one.actor == mirror.by and one.route == _route(mirror)), None)
        if pattern is None:
            continue
        if mirror.topic not in names:
            reason = f"{pattern.source} does not have it any more; its mirror stands"
            found.setdefault(pattern.key, []).append(PatternTopic(topic=mirror.topic, state="gone", reason=reason))
        elif not any(chooses(mirror.topic) for chooses in choosers):
            reason = "no pattern chooses it any more; its mirror stands"
            found.setdefault(pattern.key, []).append(PatternTopic(topic=mirror.topic, state="unmatched", reason=reason))
    return found


def _route(mirror: Mirror) -> tuple[str, str]:
    return mirror.source, mirror.target


def would_link_again(patterns: Iterable[MirrorPattern], mirrors: Sequence[Mirror]) -> list[MirrorPattern]:
    """The patterns that choose topics of `mirrors`, which are to end, as they are once they leave these topics out."""
    found = []
    for pattern in patterns:
        chooses = chooser(pattern)
        chosen = [mirror.topic for mirror in mirrors if pattern.route == _route(mirror) and chooses(mirror.topic)]
        if chosen:
            found.append(pattern.excluding(tuple(sorted(chosen))))
    return found
