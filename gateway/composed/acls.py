"""DESCRIBE_ACLS, CREATE_ACLS and DELETE_ACLS: in the user's own cluster.

The brokers see the gateway's service account, so these rules hold for clients that connect to the cluster directly.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.composed import places
from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError, Controller, Message, Target, ask_once
from gateway.composed.handlers import Context, Handler, handles
from ha_core.wire.codes import ApiKey, ErrorCode


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(context: Context, version: int, request: Message) -> Handler:
    return _ask(context, ApiKey.DESCRIBE_ACLS, AnyBroker(), request, lambda error: error | {"resources": []})


@handles(ApiKey.CREATE_ACLS)
def create_acls(context: Context, version: int, request: Message) -> Handler:
    each = request["creations"]
    return _ask(context, ApiKey.CREATE_ACLS, Controller(), request, lambda error: {"results": [error for _ in each]})


@handles(ApiKey.DELETE_ACLS)
def delete_acls(context: Context, version: int, request: Message) -> Handler:
    return _ask(
        context,
        ApiKey.DELETE_ACLS,
        Controller(),
        request,
        lambda error: {"filter_results": [error | {"matching_acls": []} for _ in request["filters"]]},
    )


def _ask(
    context: Context, api_key: int, target: Target, request: Message, refused: Callable[[Message], Message]
) -> Handler:
    cluster, why = places.user_cluster(context), places.UNBOUND
    if cluster is not None:
        reply = yield from ask_once(Ask(cluster, target, api_key, request))
        if not isinstance(reply, ClusterUnavailableError):
            return reply
        why = str(reply)
    return refused({"error_code": ErrorCode.REQUEST_TIMED_OUT, "error_message": why})
