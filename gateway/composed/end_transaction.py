"""END_TXN of a transaction that began in a cluster which its user has been moved out of."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import Ask, ClusterUnavailableError, Context, Coordinator, Handler, Message, handles
from ha_core.model.producer import issuer
from ha_core.wire.codes import ApiKey, ErrorCode


@handles(ApiKey.END_TXN)
def end_transaction(context: Context, version: int, request: Message) -> Handler:
    """Asks the coordinator that issued the producer's id.

    Of a transaction that was to begin after the cut it knows nothing, which librdkafka takes for fatal when it aborts:
    such a producer is told to begin anew.
    Where it is away, an abort is granted: the coordinator will do it by itself when the transaction's time is over,
    and has nothing that anybody reads until then. Whether a commit has happened only it knows: the client asks again,
    unless operators have taken the cluster out of service; then it is told to begin anew.
    """
    node, own = issuer(request["producer_id"])
    broker = places.real_broker(context, node)
    if broker is None:
        return _error(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not places.masked(context, broker[0]):
        target = Coordinator("transaction", request["transactional_id"])
        (reply,) = yield (Ask(broker[0], target, ApiKey.END_TXN, {**request, "producer_id": own}),)
        if not isinstance(reply, ClusterUnavailableError):
            nothing_to_abort = reply["error_code"] == ErrorCode.INVALID_TXN_STATE and not request["committed"]
            return _error(ErrorCode.INVALID_PRODUCER_ID_MAPPING if nothing_to_abort else reply["error_code"])
    if not request["committed"]:
        return _error(ErrorCode.NONE)
    if places.masked(context, broker[0]):
        return _error(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _error(code: int) -> Message:
    return {"error_code": int(code)}
