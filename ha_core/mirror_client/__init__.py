"""A client for MirrorMaker 2's internal topics, like Kafka's `MirrorClient` and `RemoteClusterUtils` (KIP-382).

Example::

    from ha_core.mirror_client import MirrorClient

    with MirrorClient({"bootstrap.servers": "backup:9092"}) as client:
        client.replication_hops("primary")                          # 1
        client.translate_offsets("primary", "billing")              # {("primary.orders", 0): …(4711, "")}

    exact_maps({"bootstrap.servers": "backup:9092"}, "primary->backup", [("primary.orders", 0)])  # any offset, exactly

    with MirrorClient(java_properties(Path("client.properties")).settings) as client:
        …
"""

from ha_core.flows.errors import MirrorClientError
from ha_core.mirror_client.client import MirrorClient, TranslatedPosition
from ha_core.mirror_client.exact import ExactMap, exact_maps
from ha_core.mirror_client.followed_topic import FollowedTopic
from ha_core.mirror_client.java_properties import JavaProperties, java_properties

__all__ = [
    "ExactMap",
    "FollowedTopic",
    "JavaProperties",
    "MirrorClient",
    "MirrorClientError",
    "TranslatedPosition",
    "exact_maps",
    "java_properties",
]
