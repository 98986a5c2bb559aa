"""The one table of what the gateway does with each API: versions it offers, and how a request finds its cluster."""

from collections.abc import Iterable, Mapping
from enum import Enum
from struct import Struct
from typing import Any, NamedTuple

from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.header import flexible
from ha_core.wire.varint import read_uvarint

_SHORT = Struct(">h").unpack_from


class Route(Enum):
    """Who answers a request."""

    TOPIC = "the clusters of the topic partitions it names"
    GROUP = "the cluster of its group's coordinator"
    TRANSACTION = "the cluster of its transactional id's coordinator"
    NODE = "the broker it is addressed to"
    COMPOSED = "a handler that asks clusters and merges their answers"
    LOCAL = "the gateway itself"
    HIDDEN = "nobody: not advertised, refused"


class Policy(NamedTuple):
    """One line of the table. Both versions are included; a hidden API has (0, -1).

    :ivar completes: of what a handler may answer: it changes something, and is carried to its end when nobody waits for
        it any more.
    """

    key: ApiKey
    min_version: int
    max_version: int
    route: Route
    why: str = ""
    completes: bool = False


_K = ApiKey
_TOPIC, _GROUP, _TRANSACTION, _NODE = Route.TOPIC, Route.GROUP, Route.TRANSACTION, Route.NODE
_COMPOSED, _LOCAL = Route.COMPOSED, Route.LOCAL


def _hidden(key: ApiKey, why: str) -> Policy:
    return Policy(key, 0, -1, Route.HIDDEN, why)


_BROKERS = "between brokers"
_CONTROLLER = "with the controller (KRaft)"
_SHARE = "share groups (KIP-932): state lies in one cluster, no move of it is known"
_STREAMS = "streams groups (KIP-1071): as KIP-848 groups"
_TOKENS = "delegation tokens (KIP-48) are valid in one cluster only"
_QUOTAS = "quotas (KIP-546) are kept per cluster by its operator"

_TABLE = (
    Policy(_K.PRODUCE, 3, 9, _TOPIC, "10 brings node endpoints, i.e. broker addresses (KIP-951)"),
    Policy(_K.FETCH, 4, 12, _TOPIC, "13 names topics by id (KIP-516)"),
    Policy(_K.LIST_OFFSETS, 1, 7, _COMPOSED, "8 and 9 bring tiered storage's timestamps (KIP-405, KIP-1005)"),
    Policy(_K.METADATA, 0, 9, _COMPOSED, "10 brings topic ids (KIP-516), which differ between clusters"),
    _hidden(_K.LEADER_AND_ISR, _BROKERS),
    _hidden(_K.STOP_REPLICA, _BROKERS),
    _hidden(_K.UPDATE_METADATA, _BROKERS),
    _hidden(_K.CONTROLLED_SHUTDOWN, _BROKERS),
    Policy(_K.OFFSET_COMMIT, 2, 8, _GROUP, "9 serves KIP-848 groups, 10 names topics by id"),
    Policy(
        _K.OFFSET_FETCH, 1, 7, _GROUP, "8 asks for several groups at once (KIP-709), which may live in two clusters"
    ),
    Policy(
        _K.FIND_COORDINATOR, 0, 3, _COMPOSED, "4 asks for several keys (KIP-699); one answer comes from one cluster"
    ),
    Policy(_K.JOIN_GROUP, 0, 9, _GROUP),
    Policy(_K.HEARTBEAT, 0, 4, _GROUP),
    Policy(_K.LEAVE_GROUP, 0, 5, _GROUP),
    Policy(_K.SYNC_GROUP, 0, 5, _GROUP),
    Policy(_K.DESCRIBE_GROUPS, 0, 5, _COMPOSED, "6 brings an error text (KIP-1043)"),
    Policy(_K.LIST_GROUPS, 0, 5, _COMPOSED),
    Policy(_K.SASL_HANDSHAKE, 0, 1, _LOCAL),
    Policy(
        _K.API_VERSIONS, 0, 3, _LOCAL, "4 changes supported features only; KIP-1242 has 5 name the cluster asked for"
    ),
    Policy(_K.CREATE_TOPICS, 2, 6, _COMPOSED, "7 returns topic ids (KIP-516)", completes=True),
    Policy(_K.DELETE_TOPICS, 1, 5, _COMPOSED, "6 names topics by id (KIP-516)", completes=True),
    Policy(_K.DELETE_RECORDS, 0, 2, _COMPOSED, completes=True),
    # A request without transactional id is answered by the gateway: its producer ids are valid in every cluster.
    Policy(
        _K.INIT_PRODUCER_ID, 0, 4, _TRANSACTION, "5 and 6 bring TRANSACTION_ABORTABLE and two phases (KIP-890, KIP-939)"
    ),
    Policy(_K.OFFSET_FOR_LEADER_EPOCH, 2, 4, _COMPOSED),
    Policy(_K.ADD_PARTITIONS_TO_TXN, 0, 3, _TRANSACTION, "4 carries several transactions (KIP-890)"),
    Policy(_K.ADD_OFFSETS_TO_TXN, 0, 3, _TRANSACTION, "4 brings TRANSACTION_ABORTABLE (KIP-890)"),
    Policy(_K.END_TXN, 0, 3, _TRANSACTION, "5 raises the producer epoch on every end (KIP-890)", completes=True),
    _hidden(_K.WRITE_TXN_MARKERS, _BROKERS),
    Policy(_K.TXN_OFFSET_COMMIT, 0, 3, _TRANSACTION, "4 and 5 belong to the newer transactions (KIP-890)"),
    Policy(_K.DESCRIBE_ACLS, 1, 3, _COMPOSED),
    Policy(_K.CREATE_ACLS, 1, 3, _COMPOSED, completes=True),
    Policy(_K.DELETE_ACLS, 1, 3, _COMPOSED, completes=True),
    Policy(_K.DESCRIBE_CONFIGS, 1, 4, _COMPOSED),
    Policy(_K.ALTER_CONFIGS, 0, 2, _COMPOSED, completes=True),
    _hidden(_K.ALTER_REPLICA_LOG_DIRS, "disks of one cluster are its operator's"),
    Policy(_K.DESCRIBE_LOG_DIRS, 1, 4, _NODE),
    Policy(_K.SASL_AUTHENTICATE, 0, 2, _LOCAL),
    Policy(_K.CREATE_PARTITIONS, 0, 3, _COMPOSED, completes=True),
    _hidden(_K.CREATE_DELEGATION_TOKEN, _TOKENS),
    _hidden(_K.RENEW_DELEGATION_TOKEN, _TOKENS),
    _hidden(_K.EXPIRE_DELEGATION_TOKEN, _TOKENS),
    _hidden(_K.DESCRIBE_DELEGATION_TOKEN, _TOKENS),
    Policy(_K.DELETE_GROUPS, 0, 2, _COMPOSED, completes=True),
    _hidden(_K.ELECT_LEADERS, "leaders of one cluster are its operator's"),
    Policy(_K.INCREMENTAL_ALTER_CONFIGS, 0, 1, _COMPOSED, completes=True),
    _hidden(_K.ALTER_PARTITION_REASSIGNMENTS, "replicas of one cluster are its operator's"),
    _hidden(_K.LIST_PARTITION_REASSIGNMENTS, "names real broker ids, which clients never see"),
    Policy(_K.OFFSET_DELETE, 0, 0, _COMPOSED, completes=True),
    _hidden(_K.DESCRIBE_CLIENT_QUOTAS, _QUOTAS),
    _hidden(_K.ALTER_CLIENT_QUOTAS, _QUOTAS),
    _hidden(_K.DESCRIBE_USER_SCRAM_CREDENTIALS, "the gateway authenticates; a cluster's users are not its users"),
    _hidden(_K.ALTER_USER_SCRAM_CREDENTIALS, "the gateway authenticates; a cluster's users are not its users"),
    _hidden(_K.VOTE, _CONTROLLER),
    _hidden(_K.BEGIN_QUORUM_EPOCH, _CONTROLLER),
    _hidden(_K.END_QUORUM_EPOCH, _CONTROLLER),
    _hidden(_K.DESCRIBE_QUORUM, "carries controller addresses (KIP-853)"),
    _hidden(_K.ALTER_PARTITION, _BROKERS),
    _hidden(_K.UPDATE_FEATURES, "features belong to one cluster (KIP-584)"),
    _hidden(_K.ENVELOPE, _BROKERS),
    _hidden(_K.FETCH_SNAPSHOT, _CONTROLLER),
    Policy(_K.DESCRIBE_CLUSTER, 0, 1, _COMPOSED, "2 lists fenced brokers (KIP-1073)"),
    Policy(_K.DESCRIBE_PRODUCERS, 0, 0, _COMPOSED),
    _hidden(_K.BROKER_REGISTRATION, _CONTROLLER),
    _hidden(_K.BROKER_HEARTBEAT, _CONTROLLER),
    _hidden(_K.UNREGISTER_BROKER, _CONTROLLER),
    Policy(_K.DESCRIBE_TRANSACTIONS, 0, 0, _COMPOSED),
    Policy(_K.LIST_TRANSACTIONS, 0, 1, _COMPOSED, "2 filters by a pattern (KIP-1152)"),
    _hidden(_K.ALLOCATE_PRODUCER_IDS, _CONTROLLER),
    # KIP-848 groups name topics by id, so none is served. Without this librdkafka would wait for it and say nothing.
    Policy(_K.CONSUMER_GROUP_HEARTBEAT, 0, 1, _LOCAL, "answered as by brokers on which the protocol is off"),
    Policy(_K.CONSUMER_GROUP_DESCRIBE, 0, 1, _COMPOSED, "of clients that reach a cluster directly; without topic ids"),
    _hidden(_K.CONTROLLER_REGISTRATION, _CONTROLLER),
    _hidden(_K.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry (KIP-714) is kept per broker connection"),
    _hidden(_K.PUSH_TELEMETRY, "telemetry (KIP-714) is kept per broker connection"),
    _hidden(_K.ASSIGN_REPLICAS_TO_DIRS, _CONTROLLER),
    _hidden(_K.LIST_CONFIG_RESOURCES, "telemetry and group configurations of one cluster (KIP-1142)"),
    _hidden(_K.DESCRIBE_TOPIC_PARTITIONS, "carries topic ids (KIP-966); clients fall back to Metadata"),
    _hidden(_K.SHARE_GROUP_HEARTBEAT, _SHARE),
    _hidden(_K.SHARE_GROUP_DESCRIBE, _SHARE),
    _hidden(_K.SHARE_FETCH, _SHARE),
    _hidden(_K.SHARE_ACKNOWLEDGE, _SHARE),
    _hidden(_K.ADD_RAFT_VOTER, _CONTROLLER),
    _hidden(_K.REMOVE_RAFT_VOTER, _CONTROLLER),
    _hidden(_K.UPDATE_RAFT_VOTER, _CONTROLLER),
    _hidden(_K.INITIALIZE_SHARE_GROUP_STATE, _SHARE),
    _hidden(_K.READ_SHARE_GROUP_STATE, _SHARE),
    _hidden(_K.WRITE_SHARE_GROUP_STATE, _SHARE),
    _hidden(_K.DELETE_SHARE_GROUP_STATE, _SHARE),
    _hidden(_K.READ_SHARE_GROUP_STATE_SUMMARY, _SHARE),
    _hidden(_K.STREAMS_GROUP_HEARTBEAT, _STREAMS),
    _hidden(_K.STREAMS_GROUP_DESCRIBE, _STREAMS),
    _hidden(_K.DESCRIBE_SHARE_GROUP_OFFSETS, _SHARE),
    _hidden(_K.ALTER_SHARE_GROUP_OFFSETS, _SHARE),
    _hidden(_K.DELETE_SHARE_GROUP_OFFSETS, _SHARE),
)

POLICIES: dict[int, Policy] = {int(line.key): line for line in _TABLE}


def advertised(cluster_ranges: Iterable[Mapping[int, tuple[int, int]]]) -> list[dict[str, int]]:
    """What ApiVersions answers: the table cut down to what every cluster offers.

    cluster_ranges: per cluster, API key -> (min, max). An API that a cluster lacks, or of which no version is common,
    is left out, unless the gateway answers it itself. While no cluster is known the whole table is offered: a Java
    client that finds no METADATA ends, and one that asks for too much later is let go to ask for versions anew.
    """
    clusters = list(cluster_ranges)
    out = []
    for line in _TABLE:
        if line.route is Route.HIDDEN:
            continue
        low, high = line.min_version, line.max_version
        if line.route is not Route.LOCAL:
            ranges = [cluster.get(int(line.key)) for cluster in clusters]
            if None in ranges:
                continue
            spans = [span for span in ranges if span]
            # Older librdkafka does not compress where the minimum is above 0 (KAFKA-18659), which is why Kafka 4 still
            # claims 0. Where every cluster claims it, so do we; requests below 3 get UNSUPPORTED_VERSION.
            low = max([0 if line.key is ApiKey.PRODUCE else low, *(span[0] for span in spans)])
            high = min([high, *(span[1] for span in spans)])
        if low <= high:
            out.append({"api_key": int(line.key), "min_version": low, "max_version": high})
    return out


# The first string of the body is the group, or the transactional id.
_GROUP_FIRST = frozenset(
    (
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.OFFSET_DELETE,
    )
)
_TRANSACTION_FIRST = frozenset(
    (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
    )
)


def peek_group(api_key: int, version: int, buf: Any, body_at: int, end: int) -> bytes:
    """The group that a request names, without decoding the rest of it.

    For the APIs of Route.GROUP, OffsetDelete, TxnOffsetCommit and AddOffsetsToTxn; for others KeyError. OffsetFetch
    from 8 on names several and is refused, as is a group that is null or cut off: RemoteProtocolError.
    """
    if api_key in _GROUP_FIRST:
        if api_key == ApiKey.OFFSET_FETCH and version > POLICIES[api_key].max_version:
            raise RemoteProtocolError(f"OffsetFetch v{version} names several groups; 7 is the last version offered")
        group, _ = _first_string(api_key, version, buf, body_at, end)
    elif api_key == ApiKey.TXN_OFFSET_COMMIT:
        _, at = _first_string(api_key, version, buf, body_at, end)
        group, _ = _first_string(api_key, version, buf, at, end)
    elif api_key == ApiKey.ADD_OFFSETS_TO_TXN:
        _, at = _first_string(api_key, version, buf, body_at, end)
        group, _ = _first_string(api_key, version, buf, at + 10, end)  # behind producer id and epoch
    else:
        raise KeyError(f"API key {api_key} names no group in its first fields")
    if group is None:
        raise RemoteProtocolError(f"request of API key {api_key} v{version}: the group is null")
    return group


def peek_transactional_id(api_key: int, version: int, buf: Any, body_at: int, end: int) -> bytes | None:
    """The transactional id that a request of Route.TRANSACTION names; None for an InitProducerId without one.

    KeyError for other APIs; RemoteProtocolError if it is cut off, or null where it must not be.
    """
    if api_key not in _TRANSACTION_FIRST:
        raise KeyError(f"API key {api_key} names no transactional id in its first field")
    name, _ = _first_string(api_key, version, buf, body_at, end)
    if name is None and api_key != ApiKey.INIT_PRODUCER_ID:
        raise RemoteProtocolError(f"request of API key {api_key} v{version}: the transactional id is null")
    return name


def _first_string(api_key: int, version: int, buf: Any, pos: int, end: int) -> tuple[bytes | None, int]:
    start = pos
    width = 1 if flexible(api_key, version) else 2
    if pos + width <= end:
        if width == 1:
            window = bytes(buf[pos : min(end, pos + 5)])
            try:
                size, used = read_uvarint(window, 0)
            except IndexError:
                size, used = end - pos + 2, 0
            length, pos = size - 1, pos + used
        else:
            length, pos = _SHORT(buf, pos)[0], pos + 2
        if length == -1:
            return None, pos
        if 0 <= length <= end - pos:
            return bytes(buf[pos : pos + length]), pos + length
    raise RemoteProtocolError(f"request of API key {api_key} v{version}: {end - start} bytes end in its first strings")
