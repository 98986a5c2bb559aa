"""Reasons to refuse a request or a partition: error codes for clients, and labels of metrics."""

from collections.abc import Callable, Mapping
from enum import Enum

from gateway.session.request import Message, Request
from ha_core.wire import ApiKey, Destination, ErrorCode
from ha_core.wire.apis import Api

MAX_HOLD_S = 0.2
"""Longest time that a refusal waits for its fence to be lifted. It is far below every request timeout: a long hold runs
into the client's own timers, and its batches into CVE-2026-35554."""

BEGIN_ANEW = ErrorCode.UNKNOWN_PRODUCER_ID
"""Makes a transactional producer abort its transaction and ask for a new id, in every library that supports KIP-360.
Java since 4.0 takes INVALID_PRODUCER_ID_MAPPING for fatal (KIP-890, KIP-1050): docs/gateway.md has the table."""
_KEEPS_ITS_ID = ("kafka-python/",)
"""Software (KIP-511) whose transactional producers abort on `BEGIN_ANEW`, keep their producer id, and abort again
endlessly. INVALID_PRODUCER_ID_MAPPING is fatal there: it ends the producer, and the application creates a new one."""
_Codes = Mapping[Destination | ApiKey, ErrorCode]
_LOOK_ANEW: _Codes = {
    Destination.TOPIC: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Destination.GROUP: ErrorCode.NOT_COORDINATOR,
    Destination.TRANSACTION: ErrorCode.NOT_COORDINATOR,
}
"""Default codes: the client looks for the leader or coordinator again, and retries."""


class Refusal(Enum):
    """(label of the metric, words for the log, error codes by API or destination, time that the answer is held).

    Under a fence, an API with an answer in its row (`Api.fenced`) uses that one.
    """

    FENCE = (
        "fence",
        "an operation holds a fence",
        {Destination.COMPOSED: ErrorCode.COORDINATOR_NOT_AVAILABLE},
        MAX_HOLD_S,
    )
    LEASE = "lease", "the lease is lost", {Destination.GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    STARTING = "starting", "the gateway has not loaded the state yet"
    NO_BROKER = "no_broker", "this node has no broker"
    MASKED = "masked", "the cluster is masked"
    UNREADABLE = "unreadable", "a document that its route depends on cannot be read"
    DAMAGED = "damaged", "the topic's map is damaged"
    ELSEWHERE = "elsewhere", "a map or a binding leads to another cluster"
    CONCEALED = (
        "concealed",
        "the topic is being deleted, or is a copy log",
        dict.fromkeys((Destination.TOPIC, Destination.TRANSACTION), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
    NO_LEADER = "no_leader", "its leader or coordinator is not known"
    CROSSING = "crossing", "a cut lies ahead, and neither the origin nor the target can take the batch yet"
    ORDER = "order", "an earlier batch of its producer comes first"
    NEW_TERM = "new_term", "its producer has not opened the writer epoch"
    LOOK_UP = "look_up", "an earlier writer epoch holds the batch, and its offset is looked up"
    OUTLIVED = (
        "outlived",
        "its producer has begun a newer epoch in an earlier writer epoch",
        {Destination.TOPIC: ErrorCode.INVALID_PRODUCER_EPOCH},
    )
    FOREIGN_PRODUCER = (
        "foreign_producer",
        "another or an unknown cluster issued the producer id",
        {
            # A 4.x broker answers this to a batch whose transaction its coordinator does not know. Java since 4.0 takes
            # INVALID_PRODUCER_ID_MAPPING for fatal there, and repeats a batch after UNKNOWN_PRODUCER_ID.
            Destination.TOPIC: ErrorCode.INVALID_TXN_STATE,
            Destination.TRANSACTION: BEGIN_ANEW,
            # BEGIN_ANEW is fatal there; after this code all clients can abort.
            ApiKey.TXN_OFFSET_COMMIT: ErrorCode.ILLEGAL_GENERATION,
        },
    )
    WRITTEN_ELSEWHERE = (
        "written_elsewhere",
        "a partition added to the transaction is written in another cluster",
        {Destination.TRANSACTION: BEGIN_ANEW},
    )
    INVALID = (
        "invalid",
        "its transactional id is empty, or only one of producer id and epoch is set",
        {Destination.TRANSACTION: ErrorCode.INVALID_REQUEST},
    )
    NO_PRODUCER_ID = (
        "no_producer_id",
        "the next block of producer ids is not allocated yet",
        {Destination.TRANSACTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
    )
    DISCOVERY_ONLY = (
        "discovery_only",
        "this listener serves discovery only: METADATA, FIND_COORDINATOR, INIT_PRODUCER_ID and API_VERSIONS",
        {Destination.COMPOSED: ErrorCode.UNSUPPORTED_VERSION, Destination.NODE: ErrorCode.UNSUPPORTED_VERSION},
    )
    DENIED = "denied", "its user lacks the right", {Destination.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    REMOTE_TOPIC = (
        "remote_topic",
        "only its flow writes the topic",
        {Destination.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    )
    DIRECT = (
        "direct_group",
        "the group is a direct group, whose commits are no client offsets",
        dict.fromkeys((Destination.GROUP, Destination.TRANSACTION), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    )
    DENIED_TRANSACTION = (
        "denied_transaction",
        "its user lacks the right to the transactional id",
        {Destination.TOPIC: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
    )
    FOLLOWER = (
        "follower",
        "the client says that it is a broker",
        {Destination.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    )
    REPEATED = (
        "repeated",
        "the request names the partition more than once",
        {Destination.TOPIC: ErrorCode.INVALID_REQUEST},
    )
    NO_OFFSET = "no_offset", "it asks for a negative offset", {Destination.TOPIC: ErrorCode.OFFSET_OUT_OF_RANGE}

    def __init__(self, label: str, words: str, codes: _Codes = _LOOK_ANEW, hold_s: float = 0.0) -> None:
        self.label = label
        self.words = words
        self._codes = {**_LOOK_ANEW, **codes}
        self.hold_s = hold_s

    def code(self, api: Api, software: str | None = None) -> ErrorCode:
        """The error code of an answer; NONE: the request is answered at once, without an error.

        :param software: the client's software name and version (KIP-511), `name/version`.
        """
        if self is Refusal.FENCE and api.fenced is not None:
            return api.fenced
        code = self._codes.get(api.key) or self._codes[api.destination]
        if code is BEGIN_ANEW and software is not None and software.startswith(_KEEPS_ITS_ID):
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return code


FOR_GOOD = (Refusal.DENIED, Refusal.REMOTE_TOPIC)
"""The client may not write the topic. It does not send the batch again."""


def refusal_frame(
    request: Request, message: Message, refusal: Refusal, amend: Callable[[Message], Message] | None
) -> bytes:
    """The encoded refusal, for reasons whose error code does not depend on the client's software."""
    return request.answer(refusal_answer(request, message, refusal, None, amend))


def refusal_answer(
    request: Request,
    message: Message,
    refusal: Refusal,
    software: str | None,
    amend: Callable[[Message], Message] | None,
) -> Message:
    answer = request.api.refusal(message, refusal.code(request.api, software))
    return answer if amend is None else amend(answer)
