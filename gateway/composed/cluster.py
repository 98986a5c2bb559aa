"""DESCRIBE_CLUSTER: the gateways, and the virtual nodes of the brokers that serve this user."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.composed import places
from gateway.composed.ask import BrokerKey, Context, Handler, Message, NeedNodes, NodeAddress, handles
from gateway.composed.cluster_rights import cluster_operations
from gateway.composed.metadata import node_list
from ha_core.wire.codes import ApiKey, ErrorCode

_BROKERS = 1


@handles(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(context: Context, version: int, request: Message) -> Handler:
    if request["endpoint_type"] != _BROKERS:
        return {
            "error_code": int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            "error_message": "controllers cannot be reached through a gateway",
            "cluster_id": context.cluster_id,
            "brokers": [],
        }
    cluster = places.user_cluster(context)
    nodes: Mapping[BrokerKey, NodeAddress] = {}
    if cluster in places.usable(context):
        brokers = sorted(context.topology.clusters[cluster].brokers)
        if brokers:
            nodes = yield NeedNodes(tuple((cluster, broker) for broker in brokers))
    operations = yield from cluster_operations(context, request["include_cluster_authorized_operations"])
    listed: list[Message] = [
        {"broker_id": node["node_id"], "host": node["host"], "port": node["port"]}
        for node in node_list(context, nodes, {})
    ]
    return {
        "error_code": 0,
        "cluster_id": context.cluster_id,
        "controller_id": context.self_node.node_id,
        "brokers": listed,
        "cluster_authorized_operations": operations,
    }
