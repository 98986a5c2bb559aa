"""Finds the clusters and topics that a client can reach, from the names of one cluster's topics."""

from collections.abc import Iterable

from ha_core.flows.policies import ReplicationPolicy, hops, is_heartbeats_topic

UNREACHABLE = -1


def heartbeat_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """This cluster's own heartbeats topic, and copies of others' heartbeats (`A.heartbeats`)."""
    return {topic for topic in topics if is_heartbeats_topic(policy, topic)}


def checkpoint_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    return {topic for topic in topics if policy.is_checkpoints_topic(topic)}


def upstream_clusters(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """Aliases of all clusters whose heartbeats reach this one, over any number of hops."""
    return {source for topic in heartbeat_topics(policy, topics) for source, _ in hops(policy, topic)}


def remote_topics(policy: ReplicationPolicy, topics: Iterable[str], source: str | None = None) -> set[str]:
    """Topics that are copies from other clusters.

    :param source: alias of the cluster from which the last hop copied them; None: any cluster.
    """
    return {
        topic
        for topic in topics
        if not policy.is_internal_topic(topic)
        and (found := policy.topic_source(topic)) is not None
        and source in {None, found}
    }


def replication_hops(policy: ReplicationPolicy, topics: Iterable[str], upstream: str) -> int:
    """Smallest number of hops from a cluster to this one; -1: its heartbeats do not reach this one."""
    return min(
        (
            number
            for topic in heartbeat_topics(policy, topics)
            for number, (source, _) in enumerate(hops(policy, topic), start=1)
            if source == upstream
        ),
        default=UNREACHABLE,
    )
