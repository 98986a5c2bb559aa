"""A client of MirrorMaker 2's internal topics, like Kafka's `MirrorClient` and `RemoteClusterUtils` (KIP-382).

Example::

    from ha_core.mirror_client import MirrorClient

    with MirrorClient({"bootstrap.servers": "backup:9092"}) as client:
        client.replication_hops("primary")                          # 1
        client.remote_consumer_offsets("billing", "primary")        # {("primary.orders", 0): GroupPosition(4711, "")}
"""

from ha_core.flows.errors import MirrorClientError
from ha_core.mirror_client.client import GroupPosition, MirrorClient

__all__ = ["GroupPosition", "MirrorClient", "MirrorClientError"]
