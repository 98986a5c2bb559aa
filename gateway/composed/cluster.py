"""DESCRIBE_CLUSTER, and METADATA's fields for the cluster as a whole: its nodes and the authorized operations."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.composed import places
from gateway.composed.ask import AnyBroker, Ask, Asking, Message, ask_or
from gateway.composed.handlers import BrokerKey, Context, Handler, NeedNodes, NodeAddress, handles
from ha_core.wire.codes import ApiKey, ErrorCode

_BROKERS, _CONTROLLERS = 1, 2
NOT_ASKED = -(1 << 31)
"""Kafka's value for operations that were not requested."""


def _refused(code: int, why: str) -> Message:
    return {"error_code": code, "error_message": why, "cluster_id": "", "brokers": []}


@handles(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(context: Context, version: int, request: Message) -> Handler:
    kind = request["endpoint_type"]
    if kind == _CONTROLLERS:
        why = "controllers cannot be reached through a gateway"
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, why)
    if kind != _BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {kind} is unknown")
    cluster = places.user_cluster(context)
    brokers = context.topology.clusters[cluster].brokers if cluster in places.usable(context) else ()
    nodes = (yield NeedNodes(tuple((cluster, broker) for broker in sorted(brokers)))) if cluster and brokers else {}
    operations = yield from cluster_operations(context, request["include_cluster_authorized_operations"])
    return {
        "error_code": 0,
        "cluster_id": context.cluster_id,
        "controller_id": context.self_node.node_id,
        "brokers": [
            {"broker_id": node["node_id"], "host": node["host"], "port": node["port"]}
            for node in node_list(context, nodes, {})
        ],
        "cluster_authorized_operations": operations,
    }


def node_list(
    context: Context, nodes: Mapping[BrokerKey, NodeAddress], racks: Mapping[BrokerKey, str | None]
) -> list[Message]:
    """The gateways' own nodes, so that a client finds another gateway when this one dies, and these virtual nodes."""
    listed = {node.node_id: (node, None) for node in (*context.gateways, context.self_node)}
    return [
        {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": rack}
        for node, rack in (*listed.values(), *((node, racks.get(broker)) for broker, node in nodes.items()))
    ]


def cluster_operations(context: Context, wanted: bool) -> Asking[int]:
    """Operations that the gateway's account may perform on the user's cluster, as a bit field."""
    cluster = places.user_cluster(context)
    if not wanted or cluster not in places.usable(context):
        return NOT_ASKED
    # Brokers before 2.8 return it in METADATA, those from 4.0 on only in DESCRIBE_CLUSTER (KIP-700).
    key, message = ApiKey.DESCRIBE_CLUSTER, Message(include_cluster_authorized_operations=True)
    if key not in context.topology.clusters[cluster].api_versions:
        key, message = ApiKey.METADATA, message | {"topics": [], "allow_auto_topic_creation": False}
    ask = Ask(cluster, AnyBroker(), key, message, places.SURVEY_MS)
    reply = yield from ask_or({"cluster_authorized_operations": NOT_ASKED}, ask)
    return int(reply["cluster_authorized_operations"])
