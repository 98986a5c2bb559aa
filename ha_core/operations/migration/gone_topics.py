"""Topics with an incomplete end: gone in all clusters past the gateways, or deleted in some clusters only."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import KnownTopic, View
from ha_core.operations.engine.cluster_admins import answering
from ha_core.operations.engine.environment import Environment

WAITS_S = 60.0
"""A client's request for a deletion is normally taken up within a second."""


def gone(environment: Environment, view: View) -> tuple[str, ...]:
    """Topics with a map that no cluster has, as all of them answer now.

    Clusters are asked only about topics that none was last seen to have: nearly always none.
    """
    store = environment.store
    mapped = {name for name, topic in view.topics.items() if topic.mapped}
    for cluster in view.clusters if mapped else ():
        mapped -= store.known_names(KnownTopic, cluster)
    if not mapped:
        return ()
    up = answering(environment, view.clusters.values())
    if view.clusters.keys() - up.keys():
        return ()  # the others may have them

    def there(cluster: str) -> Collection[str]:
        try:
            return up[cluster].topic_ids(mapped).keys()
        except KafkaAdminError:
            return mapped

    return tuple(sorted(mapped.difference(*environment.pool.map(there, up))))


def half_deleted(view: View, running: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """(topic, operation, since) of topics that are deleted for clients, while no operation continues the deletion.

    :param running: ids of operations.
    """
    for name, topic in sorted(view.topics.items()):
        if topic.deletion is not None and topic.deletion.operation not in running:
            yield name, topic.deletion.operation, topic.deletion.since


def waiting(environment: Environment) -> tuple[str, ...]:
    """Topics that clients want deleted, and whose request waits for more than `WAITS_S`."""
    requests = environment.store.requested_deletions()
    late = (one.name for one in requests if not one.refused and environment.age_s(one.at) > WAITS_S)
    return tuple(sorted(late))
