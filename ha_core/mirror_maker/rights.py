"""Asks the clusters of flows which rights their accounts have."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.remarks import Remark
from ha_core.flows.remote_plan import remote_names
from ha_core.flows.rights import CLUSTER, FlowNeeds, NeededRights, lacking
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.first_look import TOPIC as FIRST_LOOKS
from ha_core.mirror_maker.internal_topics import internal_topics
from ha_core.plan.facts.clusters import ListedTopic
from ha_core.wire.codes import ApiKey

_METADATA_VERSION = 10
"""The last version of METADATA that reports rights on the cluster."""
Topics = Mapping[str, ListedTopic]


def missing_rights(
    clusters: FlowClusters, flows: Collection[FlowConfig], topics: Mapping[str, Topics]
) -> Iterator[Remark]:
    """Yields an error for each missing right without which a flow cannot run, and a remark for each one without which
    a part of the flow fails.

    :param topics: alias → topics, of each cluster that answers.
    """
    needs = [need for flow in flows for need in _needs(flow, topics)]
    granted: dict[tuple[str, str], int] = {}
    for alias in sorted({need.alias for need in needs}):
        wanted = {need.topic for need in needs if need.alias == alias} - {CLUSTER}
        try:
            with clusters.admin(alias) as admin:
                granted |= {(alias, topic): bits for topic, bits in granted_operations(admin, wanted)}
        except KafkaAdminError as error:
            yield Remark(0, f"{alias}: the rights of the account are unknown: {error}")
    for found in lacking(dict.fromkeys(needs), granted):
        yield Remark(0, found.text, error=found.essential)


def granted_operations(admin: Admin, topics: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields (topic, bits of the operations that this account may do); CLUSTER stands for the cluster."""
    message = {
        "topics": [{"name": name} for name in sorted(topics)],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    answer = admin.asking().call(None, ApiKey.METADATA, message, _METADATA_VERSION)
    yield CLUSTER, answer["cluster_authorized_operations"]
    for topic in answer["topics"]:
        if not topic["error_code"]:
            yield topic["name"], topic["topic_authorized_operations"]


def _needs(flow: FlowConfig, topics: Mapping[str, Topics]) -> Iterable[NeededRights]:
    source, target = topics[flow.source], topics[flow.target]
    names = dict(remote_names(flow.route, source))
    own: dict[str, list[str]] = {flow.source: [], flow.target: [COPIES_LOG]}
    if flow.begins_at == "latest":
        own[flow.target].append(FIRST_LOOKS)
    for one in internal_topics(flow):
        own[flow.source if one.in_source else flow.target].append(one.name)
    return FlowNeeds(
        flow.source,
        flow.target,
        tuple(names),
        [remote for remote in names.values() if remote in target],
        {alias: [name for name in its if name in topics[alias]] for alias, its in own.items()},
        flow.sync_settings_s is not None,
        flow.sync_acls_s is not None,
    )
