"""One row per API: how the gateway handles it, and all that is needed to pass on its requests and answers.

Deny by default: an API is offered only if its row says so, in the versions of the row. Besides the row an API needs its
message tables (`schemas`), and a composed one its handler (`gateway/composed`); `tests/wire/test_apis.py` finds missing
parts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import partial
from typing import Any, Literal, NamedTuple

from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.rights import (
    NOTHING,
    Asks,
    AuthorizedOperationsField,
    Each,
    Operation,
    RequiredRight,
    Resource,
    Shown,
    When,
)


class Destination(Enum):
    """Where a request is answered."""

    TOPIC = "the clusters of the topic partitions it names"
    GROUP = "the cluster of the coordinator of its group, which its first field names"
    TRANSACTION = "the cluster of the coordinator of its transactional id, which its first field names"
    NODE = "the broker it is addressed to"
    COMPOSED = "a handler that asks clusters and merges their answers"
    LOCAL = "the gateway itself"
    HIDDEN = "nowhere: not advertised, refused"


LOGS, GROUPS, TOPICS = 1, 2, 4
NEVER = 1 << 15


class Effect(NamedTuple):
    """State that a request reads, and state that it changes: `LOGS`, `GROUPS`, `TOPICS`."""

    reads: int
    writes: int

    def clashes(self, other: "Effect") -> bool:
        """True if the order of the two matters."""
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


EVERYTHING = Effect(LOGS | GROUPS | TOPICS, LOGS | GROUPS | TOPICS)


class BrokerPace(IntEnum):
    """How long a broker takes. It works on one request per connection at a time, so each pace has its own
    connections."""

    QUICK = 0
    """Available in every broker, and needed by every client: metadata, coordinators."""
    USUAL = 1
    SLOW = 2
    """Waits for the whole cluster, or for disks."""
    LONG = 3
    """A short request with a long answer: a LIST_OFFSETS must not wait for megabytes."""


class ErrorShape(NamedTuple):
    """Where an answer has error codes: for the whole of it, for each partition of the request, or both."""

    whole: bool = True
    topics: str = ""
    """The answer's list of topics; "": it names no partition."""
    partitions: str = ""
    """The list of partitions in each of them."""
    request_partitions: str = "partitions"
    """That list in the request: structs with a `partition_index`, or bare numbers."""
    code: str = "error_code"
    """The code of a partition."""
    more: Mapping[str, Any] = {}
    """Further fields beside the code, per partition if there are any, where the codec's default is wrong."""
    echo: tuple[str, ...] = ()
    """Fields copied from the request."""
    each: tuple[str, str] | None = None
    """A list of the request, and the answer's list with an error for each of its elements."""
    each_echo: tuple[str, ...] = ()
    """Fields copied from those elements."""
    worded: bool = False
    """True if there is an error message beside the code."""
    null: tuple[str, int] | None = None
    """A field that is null, and the first version in which it is."""
    until: int = NEVER
    """The last version with partitions: later ones have only an error for the whole."""


@dataclass(frozen=True, slots=True)
class Api:
    key: ApiKey
    min_version: int
    max_version: int
    """The last version offered; a hidden API has (0, -1)."""
    flexible_from: int
    """First version with compact lengths and tags (KIP-482); `NEVER` for hidden APIs too, which are not read, but for
    those that the admin asks."""
    why: str = ""
    """Why it is hidden, or no later version offered: those contain topic ids, node ids, broker addresses or other keys
    of a single cluster."""
    destination: Destination = Destination.HIDDEN
    effect: Effect = EVERYTHING
    error: ErrorShape | None = None
    """The shape of a refusal, for requests to a coordinator."""
    fenced: ErrorCode | None = None
    """The error while the group, or a topic of the transaction, is fenced. NONE: it passes the fence."""
    lease_guarded: bool = False
    """The answer promises something that an operation carries over: it is sent only while the lease holds."""
    leased_read: bool = False
    """The answer reports contents or ends of logs. A gateway that was suspended or cut off may ask a cluster that the
    topic has left: what that cluster took meanwhile has offsets that now belong to other records."""
    by_map: bool = False
    """A composed change that follows maps and bindings: a stale gateway would delete in the wrong cluster."""
    use: Literal["commit", "join"] | None = None
    """The kind of use that is recorded about the client, with its group."""
    rebalance: Literal["waits", "follows"] | None = None
    """A coordinator answers it when the other members have asked too; or clients send it while such a one waits."""
    pace: BrokerPace = BrokerPace.USUAL
    asks: Asks = NOTHING
    """The rights that it requires."""
    denial: ErrorShape | None = None
    """The shape of a refusal for lack of rights, if it differs from `error`."""

    @property
    def changes(self) -> bool:
        """True if it must be completed even if no client waits for it any more."""
        return bool(self.effect.writes)

    def denied(self, version: int, request: Mapping[str, Any], error: ErrorCode, words: str) -> dict[str, Any]:
        """The answer to a client that lacks a right which the whole request requires."""
        shape = self.denial or self.error
        if shape is not None and version > shape.until:
            shape = shape._replace(topics="", more={})
        answer = self._refusal(shape, request, error)
        if shape is not None and shape.each is not None:
            requested, answered = shape.each
            answer[answered] = [
                {"error_code": int(error), "error_message": words, **{name: one[name] for name in shape.each_echo}}
                for one in request[requested]
            ]
        if shape is not None and shape.null is not None and version >= shape.null[1]:
            answer[shape.null[0]] = None
        return {"error_message": words, **answer} if shape is not None and shape.worded else answer

    def refusal(self, request: Mapping[str, Any], error: ErrorCode) -> dict[str, Any]:
        """The answer with `error` in all its places."""
        return self._refusal(self.error, request, error)

    def _refusal(self, shape: ErrorShape | None, request: Mapping[str, Any], error: ErrorCode) -> dict[str, Any]:
        code = int(error)
        if shape is None:
            raise ValueError(f"{self.key.name} cannot be refused with {error}: its row has no error shape")
        answer: dict[str, Any] = {"error_code": code} if shape.whole else {}
        if not shape.topics:
            return {**answer, **shape.more, **{name: request[name] for name in shape.echo}}
        answer[shape.topics] = [
            {
                "name": topic["name"],
                shape.partitions: [
                    {
                        "partition_index": requested if isinstance(requested, int) else requested["partition_index"],
                        shape.code: code,
                        **shape.more,
                    }
                    for requested in topic[shape.request_partitions]
                ],
            }
            for topic in request["topics"] or ()
        ]
        return answer


_K = ApiKey
_READS_LOGS, _READS_GROUPS, _READS_TOPICS = Effect(LOGS, 0), Effect(GROUPS, 0), Effect(TOPICS, 0)
_BY_PARTITION = ErrorShape(False, "topics", "partitions")
_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

_topic = partial(Api, destination=Destination.TOPIC)
_group = partial(
    Api, destination=Destination.GROUP, effect=Effect(GROUPS, GROUPS), error=ErrorShape(), lease_guarded=True
)
_transaction = partial(
    Api,
    destination=Destination.TRANSACTION,
    effect=Effect(LOGS | GROUPS, LOGS | GROUPS),
    error=ErrorShape(),
    lease_guarded=True,
)
_node = partial(Api, destination=Destination.NODE, effect=_READS_LOGS)
_composed = partial(Api, destination=Destination.COMPOSED)
_local = partial(Api, destination=Destination.LOCAL, effect=Effect(0, 0))

_NAMED, _UNNAMED = When("transactional_id", (None,), otherwise=True), When("transactional_id", (None,))
_GROUP_READ = Asks((RequiredRight("READ", "GROUP", "group_id"),))
_TRANSACTION_WRITE = (RequiredRight("WRITE", "TRANSACTIONAL_ID", "transactional_id"),)
_ENTERS = Asks(free="asked before anybody is known")


def _configs(operation: Operation, answers: str) -> Asks:
    """Rights on configs of topics, of groups, and of brokers and all else, which belongs to the cluster."""
    kinds: tuple[tuple[Resource, When], ...] = (
        ("TOPIC", When("resource_type", (2,))),
        ("GROUP", When("resource_type", (32,))),
        ("CLUSTER", When("resource_type", (4, 8, 16))),
    )
    return Asks(
        each=tuple(
            Each(
                operation,
                resource,
                "resources",
                "resource_name",
                answers,
                when=when,
                echo=("resource_type",),
                worded=True,
            )
            for resource, when in kinds
        )
    )


# fmt: off
_OFFERED = (
    _topic(_K.PRODUCE, 3, 9, 9, "10 brings node endpoints, i.e. broker addresses (KIP-951)", effect=Effect(LOGS, LOGS),
        lease_guarded=True,
        asks=Asks((RequiredRight("WRITE", "TRANSACTIONAL_ID", "transactional_id", _NAMED),),
            (Each("WRITE", "TOPIC", "topic_data", answer_list="responses", partitions="partition_data",
                numbered="index"),))),
    _topic(_K.FETCH, 4, 12, 12, "13 names topics by id (KIP-516)", effect=_READS_LOGS, leased_read=True,
        asks=Asks(each=(Each("READ", "TOPIC", "topics", "topic", "responses", partitions="partitions"),))),
    _composed(_K.LIST_OFFSETS, 1, 7, 6, "8 and 9 bring tiered storage's timestamps (KIP-405, KIP-1005)",
        effect=_READS_LOGS, leased_read=True,
        asks=Asks(each=(Each("DESCRIBE", "TOPIC", "topics", partitions="partitions"),))),
    _composed(_K.METADATA, 0, 8, 9, "from 9 on clients rely on leader epochs (KAFKA-9212), and gateways tell none",
        effect=_READS_TOPICS, pace=BrokerPace.QUICK,
        asks=Asks(
            each=(Each("DESCRIBE", "TOPIC", "topics", asks_for_none=True),),
            shown=(Shown("DESCRIBE", "TOPIC", "topics", "name"),),
            reported=(AuthorizedOperationsField("TOPIC", "topic_authorized_operations", "topics"),
                AuthorizedOperationsField("CLUSTER", "cluster_authorized_operations")))),
    _group(_K.OFFSET_COMMIT, 2, 8, 8, "9 serves KIP-848 groups, 10 names topics by id", fenced=_LOADING,
        error=_BY_PARTITION, use="commit",
        asks=Asks((RequiredRight("READ", "GROUP", "group_id"),),
        (Each("READ", "TOPIC", "topics", partitions="partitions"),))),
    _group(_K.OFFSET_FETCH, 1, 7, 6, "8 asks for several groups at once (KIP-709), which may live in two clusters",
        effect=_READS_GROUPS, fenced=_LOADING,
        error=ErrorShape(True, "topics", "partitions", "partition_indexes", more={"committed_offset": -1}),
        denial=ErrorShape(True, "topics", "partitions", "partition_indexes", more={"committed_offset": -1}, until=1),
        asks=Asks(
            (RequiredRight("DESCRIBE", "GROUP", "group_id"),),
            (Each("DESCRIBE", "TOPIC", "topics", partitions="partition_indexes", answered="partitions",
                more={"committed_offset": -1}),),
            (Shown("DESCRIBE", "TOPIC", "topics", "name"),))),
    _composed(_K.FIND_COORDINATOR, 0, 3, 3, "4 asks for several keys (KIP-699); one answer comes from one cluster",
        effect=_READS_TOPICS, pace=BrokerPace.QUICK,
        denial=ErrorShape(more={"node_id": -1, "port": -1}, worded=True),
        asks=Asks((RequiredRight("DESCRIBE", "GROUP", "key", When("key_type", (None, 0))),
            RequiredRight("DESCRIBE", "TRANSACTIONAL_ID", "key", When("key_type", (1,)))))),
    _group(_K.JOIN_GROUP, 0, 9, 6, fenced=_LOADING, error=ErrorShape(echo=("member_id",)), use="join",
        rebalance="waits",
        denial=ErrorShape(null=("protocol_name", 7)), asks=_GROUP_READ),
    # A member whose heartbeat fails gives up its partitions; the fence is far shorter than its session.
    _group(_K.HEARTBEAT, 0, 4, 4, fenced=ErrorCode.NONE, use="join", rebalance="follows",
        asks=_GROUP_READ),
    # Clients do not retry it: the member stays in the group until its session ends.
    _group(_K.LEAVE_GROUP, 0, 5, 4, fenced=ErrorCode.COORDINATOR_NOT_AVAILABLE, rebalance="follows",
        asks=_GROUP_READ),
    # Ends this rebalance: the member joins the next one at once. After NOT_COORDINATOR it would first look for the
    # coordinator, which gateways do not name while the fence stands.
    _group(_K.SYNC_GROUP, 0, 5, 4, fenced=ErrorCode.REBALANCE_IN_PROGRESS, rebalance="waits",
        asks=_GROUP_READ),
    _composed(_K.DESCRIBE_GROUPS, 0, 5, 5, "6 brings an error text (KIP-1043)", effect=_READS_GROUPS,
        pace=BrokerPace.LONG,
        asks=Asks(
            each=(Each("DESCRIBE", "GROUP", "groups", "", called="group_id"),),
            reported=(AuthorizedOperationsField("GROUP", "authorized_operations", "groups", "group_id"),))),
    _composed(_K.LIST_GROUPS, 0, 5, 3, effect=_READS_GROUPS, pace=BrokerPace.LONG,
        asks=Asks(shown=(Shown("DESCRIBE", "GROUP", "groups", "group_id", on_cluster="DESCRIBE"),))),
    _local(_K.SASL_HANDSHAKE, 0, 1, NEVER,
        asks=_ENTERS),
    _local(_K.API_VERSIONS, 0, 3, 3, "4 changes supported features only; KIP-1242 has 5 name the cluster asked for",
        asks=_ENTERS),
    _composed(_K.CREATE_TOPICS, 2, 6, 5, "7 returns topic ids (KIP-516)", by_map=True, lease_guarded=True,
        pace=BrokerPace.SLOW,
        asks=Asks(each=(Each("CREATE", "TOPIC", "topics", on_cluster="CREATE", unique=True, worded=True,
            words="Authorization failed."),))),
    # If the topic may be seen, its handler reports whether it exists before whether it may be deleted.
    _composed(_K.DELETE_TOPICS, 1, 5, 4, "6 names topics by id (KIP-516)", by_map=True, lease_guarded=True,
        pace=BrokerPace.SLOW,
        asks=Asks(
            each=(Each("DESCRIBE", "TOPIC", "topic_names", "", "responses", "name", on_cluster="DELETE", unique=True,
                worded=True),))),
    _composed(_K.DELETE_RECORDS, 0, 2, 2, effect=Effect(LOGS, LOGS), by_map=True,
              lease_guarded=True, pace=BrokerPace.SLOW,
        asks=Asks(
            each=(Each("DELETE", "TOPIC", "topics", partitions="partitions", more={"low_watermark": -1}),))),
    # The gateway itself answers a request without transactional id: its producer ids are valid in every cluster.
    _transaction(_K.INIT_PRODUCER_ID, 0, 4, 2, "5 and 6 bring TRANSACTION_ABORTABLE and two phases (KIP-890, KIP-939)",
        error=ErrorShape(more={"producer_epoch": -1}),
        asks=Asks(
            (RequiredRight("WRITE", "TRANSACTIONAL_ID", "transactional_id", _NAMED),
                RequiredRight("IDEMPOTENT_WRITE", "CLUSTER", when=_UNNAMED, or_any=("WRITE", "TOPIC"))))),
    _composed(_K.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4, effect=_READS_LOGS, leased_read=True,
        asks=Asks(
            each=(Each("DESCRIBE", "TOPIC", "topics", "topic", partitions="partitions", numbered="partition",
                on_cluster="CLUSTER_ACTION"),))),
    # Under a fence the answer is the one for a transaction whose end is still being written to the partitions: the only
    # one after which every client retries the same request soon.
    _transaction(_K.ADD_PARTITIONS_TO_TXN, 0, 3, 3, "4 carries several transactions (KIP-890)",
        fenced=ErrorCode.CONCURRENT_TRANSACTIONS,
        error=ErrorShape(False, "results_by_topic", "results_by_partition", "partitions", "partition_error_code"),
        asks=Asks(_TRANSACTION_WRITE,
            (Each("WRITE", "TOPIC", "topics", answer_list="results_by_topic", partitions="partitions",
                answered="results_by_partition", code="partition_error_code",
                rest=ErrorCode.OPERATION_NOT_ATTEMPTED),))),
    _transaction(_K.ADD_OFFSETS_TO_TXN, 0, 3, 3, "4 brings TRANSACTION_ABORTABLE (KIP-890)",
        asks=Asks((*_TRANSACTION_WRITE, RequiredRight("READ", "GROUP", "group_id")))),
    # Composed where the transaction began in another cluster than the one that its client asks.
    _transaction(_K.END_TXN, 0, 3, 3, "5 raises the producer epoch on every end (KIP-890)",
        asks=Asks(_TRANSACTION_WRITE)),
    _transaction(_K.TXN_OFFSET_COMMIT, 0, 3, 3, "4 and 5 belong to the newer transactions (KIP-890)", fenced=_LOADING,
        error=_BY_PARTITION,
        asks=Asks((*_TRANSACTION_WRITE, RequiredRight("READ", "GROUP", "group_id")),
            (Each("READ", "TOPIC", "topics", partitions="partitions"),))),
    _composed(_K.DESCRIBE_ACLS, 1, 3, 2, effect=_READS_TOPICS,
        denial=ErrorShape(worded=True), asks=Asks((RequiredRight("DESCRIBE", "CLUSTER"),))),
    _composed(_K.CREATE_ACLS, 1, 3, 2,
        denial=ErrorShape(False, each=("creations", "results")), asks=Asks((RequiredRight("ALTER", "CLUSTER"),))),
    _composed(_K.DELETE_ACLS, 1, 3, 2,
        denial=ErrorShape(False, each=("filters", "filter_results")), asks=Asks((RequiredRight("ALTER", "CLUSTER"),))),
    _composed(_K.DESCRIBE_CONFIGS, 1, 4, 4, effect=_READS_TOPICS, pace=BrokerPace.LONG,
        asks=_configs("DESCRIBE_CONFIGS", "results")),
    _composed(_K.ALTER_CONFIGS, 0, 2, 2, by_map=True, lease_guarded=True, pace=BrokerPace.SLOW,
        asks=_configs("ALTER_CONFIGS", "responses")),
    _node(_K.DESCRIBE_LOG_DIRS, 1, 4, 2, pace=BrokerPace.SLOW,
        denial=ErrorShape(), asks=Asks((RequiredRight("DESCRIBE", "CLUSTER"),))),
    _local(_K.SASL_AUTHENTICATE, 0, 2, 2,
        asks=_ENTERS),
    _composed(_K.CREATE_PARTITIONS, 0, 3, 2, by_map=True, lease_guarded=True, pace=BrokerPace.SLOW,
        asks=Asks(each=(Each("ALTER", "TOPIC", "topics", answer_list="results", unique=True),))),
    _composed(_K.DELETE_GROUPS, 0, 2, 2, effect=Effect(GROUPS, GROUPS), by_map=True, lease_guarded=True,
        asks=Asks(each=(Each("DELETE", "GROUP", "groups_names", "", "results", "group_id"),))),
    _composed(_K.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1, by_map=True, lease_guarded=True, pace=BrokerPace.SLOW,
        asks=_configs("ALTER_CONFIGS", "responses")),
    _composed(_K.OFFSET_DELETE, 0, 0, NEVER, effect=Effect(GROUPS, GROUPS), by_map=True, lease_guarded=True,
        denial=ErrorShape(),
        asks=Asks((RequiredRight("DELETE", "GROUP", "group_id"),),
        (Each("READ", "TOPIC", "topics", partitions="partitions"),))),
    _composed(_K.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1, effect=_READS_TOPICS,
        denial=ErrorShape(worded=True, null=("entries", 0)),
        asks=Asks((RequiredRight("DESCRIBE_CONFIGS", "CLUSTER"),))),
    _composed(_K.ALTER_CLIENT_QUOTAS, 0, 1, 1,
        denial=ErrorShape(False, each=("entries", "entries"), each_echo=("entity",)),
        asks=Asks((RequiredRight("ALTER_CONFIGS", "CLUSTER"),))),
    _composed(_K.DESCRIBE_CLUSTER, 0, 1, 0, "2 lists fenced brokers (KIP-1073)", effect=_READS_TOPICS,
        asks=Asks(reported=(AuthorizedOperationsField("CLUSTER", "cluster_authorized_operations"),))),
    _composed(_K.DESCRIBE_PRODUCERS, 0, 0, 0, effect=_READS_LOGS,
        asks=Asks(each=(Each("READ", "TOPIC", "topics", partitions="partition_indexes", answered="partitions",
            worded=True),))),
    _composed(_K.DESCRIBE_TRANSACTIONS, 0, 0, 0, effect=Effect(LOGS | GROUPS, 0),
        asks=Asks(
            each=(Each("DESCRIBE", "TRANSACTIONAL_ID", "transactional_ids", "", "transaction_states",
                "transactional_id"),),
            shown=(Shown("DESCRIBE", "TOPIC", "transaction_states.topics", "topic"),))),
    _composed(_K.LIST_TRANSACTIONS, 0, 1, 0, "2 filters by a pattern (KIP-1152)", effect=Effect(LOGS | GROUPS, 0),
        asks=Asks(
            shown=(Shown("DESCRIBE", "TRANSACTIONAL_ID", "transaction_states", "transactional_id"),))),
    # KIP-848 groups name topics by id, so none is served. Without this row librdkafka would wait for it silently.
    _local(_K.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0, "answered as by brokers on which the protocol is off",
        asks=Asks(free="such groups have no members")),
    _composed(_K.CONSUMER_GROUP_DESCRIBE, 0, 1, 0, "of clients that reach a cluster directly; without topic ids",
        effect=_READS_GROUPS, pace=BrokerPace.LONG,
        asks=Asks(
            each=(Each("DESCRIBE", "GROUP", "group_ids", "", "groups", "group_id"),),
            reported=(AuthorizedOperationsField("GROUP", "authorized_operations", "groups", "group_id"),))),
)
_HIDDEN: Mapping[str, tuple[ApiKey, ...]] = {
    "between brokers": (
        _K.LEADER_AND_ISR, _K.STOP_REPLICA, _K.UPDATE_METADATA, _K.CONTROLLED_SHUTDOWN,
        _K.WRITE_TXN_MARKERS, _K.ALTER_PARTITION, _K.ENVELOPE,
    ),
    "disks of one cluster are its operator's": (_K.ALTER_REPLICA_LOG_DIRS,),
    "delegation tokens (KIP-48) are valid in one cluster only": (
        _K.CREATE_DELEGATION_TOKEN, _K.RENEW_DELEGATION_TOKEN, _K.EXPIRE_DELEGATION_TOKEN,
        _K.DESCRIBE_DELEGATION_TOKEN,
    ),
    "leaders of one cluster are its operator's": (_K.ELECT_LEADERS,),
    "replicas of one cluster are its operator's": (_K.ALTER_PARTITION_REASSIGNMENTS,),
    "names real broker ids, which clients never see": (_K.LIST_PARTITION_REASSIGNMENTS,),
    "the gateway authenticates; a cluster's users are not its users": (
        _K.DESCRIBE_USER_SCRAM_CREDENTIALS, _K.ALTER_USER_SCRAM_CREDENTIALS,
    ),
    "with the controller (KRaft)": (
        _K.VOTE, _K.BEGIN_QUORUM_EPOCH, _K.END_QUORUM_EPOCH, _K.FETCH_SNAPSHOT, _K.BROKER_REGISTRATION,
        _K.BROKER_HEARTBEAT, _K.UNREGISTER_BROKER, _K.ALLOCATE_PRODUCER_IDS, _K.CONTROLLER_REGISTRATION,
        _K.ASSIGN_REPLICAS_TO_DIRS, _K.ADD_RAFT_VOTER, _K.REMOVE_RAFT_VOTER, _K.UPDATE_RAFT_VOTER,
    ),
    "carries controller addresses (KIP-853)": (_K.DESCRIBE_QUORUM,),
    "features belong to one cluster (KIP-584)": (_K.UPDATE_FEATURES,),
    "telemetry (KIP-714) is kept per broker connection": (_K.GET_TELEMETRY_SUBSCRIPTIONS, _K.PUSH_TELEMETRY),
    "telemetry and group configurations of one cluster (KIP-1142)": (_K.LIST_CONFIG_RESOURCES,),
    "carries topic ids (KIP-966); clients fall back to Metadata": (_K.DESCRIBE_TOPIC_PARTITIONS,),
    "share groups (KIP-932): state lies in one cluster, no move of it is known": (
        _K.SHARE_GROUP_HEARTBEAT, _K.SHARE_GROUP_DESCRIBE, _K.SHARE_FETCH, _K.SHARE_ACKNOWLEDGE,
        _K.INITIALIZE_SHARE_GROUP_STATE, _K.READ_SHARE_GROUP_STATE, _K.WRITE_SHARE_GROUP_STATE,
        _K.DELETE_SHARE_GROUP_STATE, _K.READ_SHARE_GROUP_STATE_SUMMARY, _K.DESCRIBE_SHARE_GROUP_OFFSETS,
        _K.ALTER_SHARE_GROUP_OFFSETS, _K.DELETE_SHARE_GROUP_OFFSETS,
    ),
    "streams groups (KIP-1071): as KIP-848 groups": (_K.STREAMS_GROUP_HEARTBEAT, _K.STREAMS_GROUP_DESCRIBE),
}
"""Reason → hidden APIs."""
# fmt: on

_ASKED_BY_ADMIN: Mapping[ApiKey, int] = {_K.DESCRIBE_USER_SCRAM_CREDENTIALS: 0}
"""Hidden APIs that an operator's command asks brokers, and their first flexible version."""

ROWS = _OFFERED + tuple(
    Api(key, 0, -1, _ASKED_BY_ADMIN.get(key, NEVER), why, effect=Effect(0, 0))
    for why, keys in _HIDDEN.items()
    for key in keys
)

APIS: Mapping[int, Api] = {int(row.key): row for row in ROWS}

_LAST_KEY = max(ApiKey)
_FLEXIBLE_FROM = [APIS[key].flexible_from for key in range(_LAST_KEY + 1)]
"""A list, because it is read for every request."""


def flexible(api_key: int, version: int) -> bool:
    """True if this version has compact lengths and tags. Keys that are not offered count as not flexible."""
    return 0 <= api_key <= _LAST_KEY and version >= _FLEXIBLE_FROM[api_key]


def advertised(cluster_ranges: Iterable[Mapping[int, tuple[int, int]]]) -> list[dict[str, int]]:
    """The answer to ApiVersions: the table reduced to versions that every cluster offers.

    cluster_ranges: per cluster, API key -> (min, max). An API that a cluster lacks, or that has no common version, is
    left out, unless the gateway answers it itself. While no cluster is known the whole table is offered: a Java client
    that finds no METADATA exits, and one that uses too new a version later is disconnected to ask for versions again.
    """
    clusters = list(cluster_ranges)
    out = []
    for row in ROWS:
        if row.destination is Destination.HIDDEN:
            continue
        low, high = row.min_version, row.max_version
        if row.destination is not Destination.LOCAL:
            ranges = [cluster.get(int(row.key)) for cluster in clusters]
            if None in ranges:
                continue
            spans = [span for span in ranges if span]
            # librdkafka before the fix does not compress if the minimum is above 0 (KAFKA-18659), so Kafka 4 still
            # claims 0. If every cluster claims it, so do we; requests below 3 get UNSUPPORTED_VERSION.
            low = max([0 if row.key is ApiKey.PRODUCE else low, *(span[0] for span in spans)])
            high = min([high, *(span[1] for span in spans)])
        if low <= high:
            out.append({"api_key": int(row.key), "min_version": low, "max_version": high})
    return out
