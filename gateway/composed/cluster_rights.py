"""What may be done to the cluster as a whole, as the brokers tell the gateway's account."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import Any_, Ask, Asking, ClusterUnavailableError, Context, Message, ask_once
from ha_core.wire.codes import ApiKey

NOT_ASKED = -(1 << 31)
"""Kafka's number for operations that nobody has asked for."""


def cluster_operations(context: Context, wanted: bool) -> Asking[int]:
    """The operations as a bit field, of the cluster that serves the user."""
    cluster = places.user_cluster(context)
    if not wanted or cluster not in places.usable(context):
        return NOT_ASKED
    # Brokers before 2.8 tell it with METADATA, those from 4.0 on with DESCRIBE_CLUSTER only (KIP-700).
    key, message = ApiKey.DESCRIBE_CLUSTER, Message(include_cluster_authorized_operations=True)
    if key not in context.topology.clusters[cluster].api_versions:
        key, message = ApiKey.METADATA, message | {"topics": [], "allow_auto_topic_creation": False}
    reply = yield from ask_once(Ask(cluster, Any_(), key, message, places.SURVEY_MS))
    return NOT_ASKED if isinstance(reply, ClusterUnavailableError) else int(reply["cluster_authorized_operations"])
