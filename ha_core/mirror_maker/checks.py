"""Checks flows against their live clusters, before anything starts."""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError, MirrorClientError
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.policies import HEARTBEATS
from ha_core.flows.records import Heartbeat
from ha_core.flows.remarks import Remark
from ha_core.flows.topology import Diamond, NameConflict, diamonds, local_topics, name_conflicts, walk
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError
from ha_core.mirror_client import MirrorClient
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.internal_topics import objections
from ha_core.mirror_maker.rights import missing_rights
from ha_core.model import FlowWorker
from ha_core.plan.facts.clusters import ListedTopic

_AT_ONCE = 8
_BEATS = 3
"""Number of intervals without a heartbeat after which a flow counts as stopped."""
_MAX_WAIT_S = 10.0
_LOOK_S = 0.5
_NAME = re.compile(r"[\w.-]+", re.ASCII)
"""Matches parts of `topics` that name a single topic."""


class LiveCluster(NamedTuple):
    """:ivar error: why the cluster could not be asked; "": it answers.
    :ivar away: whether the cluster is unreachable.
    """

    alias: str
    cluster_id: str = ""
    topics: Mapping[str, ListedTopic] = {}
    error: str = ""
    away: bool = False


def check_live(
    found: Configuration,
    clusters: FlowClusters,
    flows: Collection[FlowConfig],
    ours: Collection[str] = (),
    shared: bool = False,
) -> Iterator[Remark]:
    """Yields errors and remarks about these flows. An unreachable cluster is only a remark: its flows start once it is
    back.

    :param ours: names of flows that workers of this ZooKeeper run. Their heartbeats are expected.
    :param shared: whether workers know each other by ZooKeeper. Then unexpected heartbeats are only a remark, because
        a worker that has lost ZooKeeper may still write them.
    """
    aliases = sorted({alias for flow in flows for alias in (flow.source, flow.target)})
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        live = {one.alias: one for one in pool.map(lambda alias: _look(clusters, alias), aliases)}
    yield from _answers(live.values())
    topics = {alias: list(one.topics) for alias, one in live.items()}
    routes = [flow.route for flow in found.flows]
    copies = list(walk(routes, local_topics(routes, topics)))
    for conflict in name_conflicts(copies, {}):
        yield Remark(0, _text_of_conflict(conflict))
    for diamond in diamonds(copies):
        yield Remark(0, _text_of_diamond(diamond))
    reachable = [flow for flow in flows if not (live[flow.source].error or live[flow.target].error)]
    for flow in reachable:
        yield from _internal_topic_errors(clusters, flow)
        yield from _unknown_topics(flow, live[flow.source].topics)
    yield from missing_rights(clusters, reachable, {alias: one.topics for alias, one in live.items()})
    others = [flow for flow in reachable if flow.name not in ours and HEARTBEATS in live[flow.target].topics]
    for remark in running_elsewhere(clusters, others):
        yield remark._replace(error=remark.error and not shared)


def chosen_flows(found: Configuration, targets: Collection[str]) -> list[FlowConfig]:
    """The flows into these clusters; empty: all.

    :raises FlowError: the configuration does not have one of them.
    """
    aliases = [cluster.alias for cluster in found.clusters]
    if unknown := [alias for alias in targets if alias not in aliases]:
        raise FlowError(
            f"--clusters {unknown[0]} is none of the clusters of {found.name}: {', '.join(aliases) or 'it has none'}"
        )
    return [flow for flow in found.flows if not targets or flow.target in targets]


def flows_of_workers(workers: Iterable[FlowWorker]) -> set[str]:
    """Names of the flows that live workers of a ZooKeeper run."""
    return {key.partition("@")[0].removesuffix(" heartbeats") for worker in workers for key in worker.flows}


def _internal_topic_errors(clusters: FlowClusters, flow: FlowConfig) -> Iterator[Remark]:
    """Errors about internal topics that exist in a form with which the flow cannot run."""
    try:
        with clusters.admin(flow.source) as source, clusters.admin(flow.target) as target:
            yield from (Remark(0, text, error=True) for text in objections(flow, source, target))
    except KafkaAdminError as error:
        yield Remark(0, f"{flow.name}: its internal topics cannot be checked: {error}")


def _unknown_topics(flow: FlowConfig, topics: Iterable[str]) -> Iterator[Remark]:
    """Remarks about names in `topics` that the source does not list: misspelt, or hidden from this account."""
    known = list(topics)
    for text in () if flow.topics.own is not None else flow.topics.include.texts:
        if _NAME.fullmatch(text) and not any(map(re.compile(text).fullmatch, known)):
            yield Remark(
                0,
                f"{flow.name}: topics names {text}, which {flow.source} does not have, or does not show to this "
                "account: check the name, or give the account the right Describe",
            )


def running_elsewhere(clusters: FlowClusters, flows: Iterable[FlowConfig]) -> Iterator[Remark]:
    """Yields an error for each flow that another process runs now, MirrorMaker 2 or a worker that this ZooKeeper does
    not know: that process writes the flow's heartbeats."""
    by_target: dict[str, dict[tuple[str, str], FlowConfig]] = {}
    for flow in flows:
        if flow.heartbeats_s is not None:
            by_target.setdefault(flow.target, {})[flow.source, flow.target] = flow
    for target, its in by_target.items():
        policy = next(iter(its.values())).policy
        try:
            with MirrorClient(clusters.librdkafka(target), policy) as client:
                yield from _beating(client, its)
        except MirrorClientError as error:
            yield Remark(0, f"{target}: it is unknown whether another process runs flows into it: {error}")


def _beating(client: MirrorClient, flows: Mapping[tuple[str, str], FlowConfig]) -> Iterator[Remark]:
    first = _newest(client.heartbeats())
    wait_s = {
        key: min(_BEATS * (flow.heartbeats_s or 1), _MAX_WAIT_S)
        for key, flow in flows.items()
        if key in first and time.time() - first[key] / 1000 < _BEATS * (flow.heartbeats_s or 1) + _MAX_WAIT_S
    }
    until = time.monotonic() + max(wait_s.values(), default=0.0)
    beating: set[tuple[str, str]] = set()
    while wait_s.keys() - beating and time.monotonic() < until:
        time.sleep(_LOOK_S)
        now = _newest(client.heartbeats())
        beating |= {key for key in wait_s if now.get(key, 0) > first[key]}
    for source, target in sorted(beating):
        yield Remark(
            0,
            f"another process runs {source}->{target}, since it writes heartbeats to {target}: stop it first, or give "
            "both workers --zookeeper, so that they share the flow",
            error=True,
        )


def _newest(heartbeats: Iterable[Heartbeat]) -> dict[tuple[str, str], int]:
    """(source, target) → time of the flow's last heartbeat, in milliseconds since the epoch."""
    return {(one.source_alias, one.target_alias): one.timestamp_ms for one in heartbeats}


def _look(clusters: FlowClusters, alias: str) -> LiveCluster:
    try:
        with clusters.admin(alias) as admin:
            cluster_id = admin.asking().metadata()["cluster_id"] or ""
            return LiveCluster(alias, cluster_id, admin.list_topics())
    except KafkaAdminError as error:
        return LiveCluster(alias, error=str(error), away=isinstance(error, ClusterUnreachableError))


def _answers(live: Iterable[LiveCluster]) -> Iterator[Remark]:
    by_id: dict[str, str] = {}
    for one in live:
        if one.error:
            yield Remark(0, one.error, error=not one.away)
        elif one.cluster_id and (other := by_id.setdefault(one.cluster_id, one.alias)) != one.alias:
            text = f"{other} and {one.alias} are the same cluster, with the id {one.cluster_id}"
            yield Remark(0, f"{text}: correct their bootstrap.servers", error=True)


def _text_of_conflict(conflict: NameConflict) -> str:
    writers = " and ".join(conflict.writers)
    return (
        f"topic {conflict.topic} of {conflict.target} would be written by {writers}: only the flow that comes first in "
        "the file copies it; exclude it from the others"
    )


def _text_of_diamond(diamond: Diamond) -> str:
    names = " and ".join(diamond.names)
    return (
        f"records of {diamond.original} of {diamond.origin} reach {diamond.cluster} on several paths, as {names}: a "
        "consumer of all these topics reads each record more than once"
    )


def require(remarks: Iterable[Remark], name: str) -> list[Remark]:
    """The remarks that are not errors.

    :raises FlowError: there are errors; the text lists all of them.
    """
    found = list(dict.fromkeys(remarks))
    if errors := [remark.text for remark in found if remark.error]:
        raise FlowError(f"{name} cannot be run now:\n" + "\n".join(f"- {text}" for text in errors))
    return found
