"""DESCRIBE_ACLS, CREATE_ACLS and DELETE_ACLS: in the user's own cluster.

The brokers see the gateway's service account, so these rules hold for clients that connect to the cluster directly.
"""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import (
    Any_,
    Ask,
    Asking,
    ClusterUnavailableError,
    Context,
    Controller,
    Handler,
    Message,
    ask_once,
    handles,
)
from ha_core.wire.codes import ApiKey, ErrorCode


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(context: Context, version: int, request: Message) -> Handler:
    reply = yield from _ask(context, ApiKey.DESCRIBE_ACLS, request)
    return _error(reply) | {"resources": []} if isinstance(reply, str) else reply


@handles(ApiKey.CREATE_ACLS)
def create_acls(context: Context, version: int, request: Message) -> Handler:
    reply = yield from _ask(context, ApiKey.CREATE_ACLS, request)
    return {"results": [_error(reply) for _ in request["creations"]]} if isinstance(reply, str) else reply


@handles(ApiKey.DELETE_ACLS)
def delete_acls(context: Context, version: int, request: Message) -> Handler:
    reply = yield from _ask(context, ApiKey.DELETE_ACLS, request)
    if isinstance(reply, str):
        return {"filter_results": [_error(reply) | {"matching_acls": []} for _ in request["filters"]]}
    return reply


def _ask(context: Context, api_key: int, request: Message) -> Asking[Message | str]:
    cluster = places.user_cluster(context)
    if cluster is None:
        return "nothing says which cluster serves this user: bind the user or set a default"
    target = Any_() if api_key == ApiKey.DESCRIBE_ACLS else Controller()
    reply = yield from ask_once(Ask(cluster, target, api_key, request))
    return str(reply) if isinstance(reply, ClusterUnavailableError) else reply


def _error(why: str) -> Message:
    return {"error_code": int(ErrorCode.REQUEST_TIMED_OUT), "error_message": why}
