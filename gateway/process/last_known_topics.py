"""Loads the recorded topics of clusters that do not answer when a gateway starts.

They name topics and partitions to clients, but no leaders, log ends or fences: safety does not depend on them.
"""

import asyncio
import logging
from datetime import datetime

from gateway.upstream.clusters import Clusters
from ha_core.model import KnownTopic
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

_log = logging.getLogger(__name__)

PATIENCE_S = 20.0
"""How long the start, and with it clients of other clusters, waits for them."""


async def recall(upstream: Clusters, store: Store) -> None:
    """Gives `upstream` the recorded topics of each cluster that it has never seen."""
    for cluster in upstream.never_seen:
        try:
            async with asyncio.timeout(PATIENCE_S):
                topics = await asyncio.to_thread(store.known, KnownTopic, cluster)
        except (StoreError, TimeoutError) as error:
            _log.warning("the recorded topics of cluster %s cannot be read: %s", cluster, error)
            continue
        if topics:
            seen_at = min(datetime.fromisoformat(topic.at).timestamp() for topic in topics.values())
            upstream.recall(cluster, {name: topic.partitions for name, topic in topics.items()}, seen_at)
