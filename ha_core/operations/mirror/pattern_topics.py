"""The topics that a pattern would link now: listed from their source, and judged by the pre-flight of a link."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ha_core.flows.policies import HEARTBEATS, DefaultPolicy
from ha_core.kafka.admin import Admin
from ha_core.model import MirrorPattern, Scope, View
from ha_core.model.operation import LinkRequest
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror import linking
from ha_core.plan.facts.verdict import Verdict
from ha_core.plan.mirror.mirrored_topics import internal_topics
from ha_core.plan.mirror.patterns import written_by_flows

_POLICIES = tuple(DefaultPolicy(separator) for separator in ".-_")
"""MirrorMaker 2's policy, with each separator that topics may have."""
ID_S = 5.0
_TOPIC = "topic "
_OF_THE_WHOLE_SCOPE = frozenset({"nothing-to-move"})
"""Every topic is in the target, or is gone: the next look shows which."""


def flows_into(clusters: Collection[Admin], view: View, ids: dict[str, str]) -> dict[str, str]:
    """Topics that a flow of MirrorMaker 2 writes in one of the clusters → the flow. No cluster is asked if there are no
    flows, or if its id is known.

    :param ids: cluster → its id as its brokers tell it; ids that were asked for are added.
    """
    if not view.remote_topics:
        return {}
    for admin in clusters:
        name = admin.cluster.name
        if not ids.get(name):
            ids[name] = admin.probe(timeout_s=ID_S).cluster_id
    return written_by_flows(view, {ids[admin.cluster.name] for admin in clusters})


class SourceTopics(NamedTuple):
    """Topics of a source, by name."""

    users: list[str]
    internal: list[str]
    """Those that no pattern chooses: of the brokers, of copiers, and of MirrorMaker 2."""


def of_users(names: Iterable[str], view: View) -> SourceTopics:
    """:param names: as the source lists them."""
    known, own = SourceTopics([], []), internal_topics(view)
    for name in sorted(names):
        (known.internal if name in own or _of_mirror_maker(name, view) else known.users).append(name)
    return known


def _of_mirror_maker(name: str, view: View) -> bool:
    if not name.startswith(("__", ".")) and "internal" not in name and HEARTBEATS not in name:
        return False  # without asking each policy: there may be tens of thousands of names, every few seconds
    return (
        name == HEARTBEATS
        or any(policy.is_internal_topic(name) for policy in _POLICIES)
        # Users may have topics of such names, too: only the alias of a cluster tells.
        or any(
            policy.upstream_topic(name) == HEARTBEATS and policy.topic_source(name) in view.clusters
            for policy in _POLICIES
        )
    )


class LinksJudged(NamedTuple):
    """
    :ivar proposal: of all topics; it can begin if nothing is refused.
    :ivar refused: topic → the error that refuses it.
    :ivar against_all: errors about clusters, or about an operation in the way: no topic can be linked now.
    """

    proposal: linking.LinkProposal
    refused: dict[str, Verdict]
    against_all: tuple[Verdict, ...]

    @property
    def of_all(self) -> list[Verdict]:
        """All verdicts but those that refuse single topics."""
        return [one for one in self.proposal.verdicts if one.level != "error" or one in self.against_all]

    @property
    def sound(self) -> list[str]:
        """The topics that nothing refuses."""
        return [name for name in self.proposal.moves.topics if name not in self.refused]


def judge_links(environment: Environment, pattern: MirrorPattern, topics: Collection[str]) -> LinksJudged:
    """Changes nothing.

    :raises UnreadableDocumentError: this version cannot read a document on which a link rests.
    """
    request = LinkRequest(
        scope=Scope(topics=tuple(topics)),
        origin=pattern.source,
        target=pattern.target,
        reason=pattern.reason,
        include_other_users=True,
        pattern=pattern.key,
        **pattern.policy,
    )
    proposal = linking.plan_link(environment, request)
    refused, against_all = dict[str, Verdict](), list[Verdict]()
    for verdict in proposal.verdicts:
        if verdict.level != "error" or verdict.code in _OF_THE_WHOLE_SCOPE:
            continue
        if verdict.about.startswith(_TOPIC):
            refused.setdefault(verdict.about.removeprefix(_TOPIC), verdict)
        else:
            against_all.append(verdict)
    return LinksJudged(proposal, refused, tuple(against_all))
