"""What was recorded of clusters that do not answer when a gateway starts: better told than nothing.

Nothing that decides safety goes by it: it names topics and their partitions to clients, and no leader, end or fence.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from gateway.upstream.clusters import Clusters
from ha_core.model import KnownTopic
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

_log = logging.getLogger(__name__)

PATIENCE_S = 20.0
"""How long the start waits for it, and those who are served from other clusters with it."""


async def recall(upstream: Clusters, store: Store) -> None:
    """Of each cluster that was never seen, the topics that were recorded of it."""
    for cluster in upstream.never_seen:
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await asyncio.to_thread(store.known, KnownTopic, cluster)
        except (StoreError, TimeoutError) as error:
            _log.warning("what was recorded of cluster %s cannot be read: %s", cluster, error)
            continue
        if found:
            seen_at = min(datetime.fromisoformat(topic.at).timestamp() for topic in found.values())
            upstream.recall(cluster, {name: topic.partitions for name, topic in found.items()}, seen_at)
