"""Requests of every API that requires a right, made from given names."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import google_crc32c

from ha_core.wire import ApiKey
from ha_core.wire.records import IN_TRANSACTION
from tests.gateway.session.batch import batch

K = ApiKey
Message = dict[str, Any]
Names = Sequence[str]
"""Names of topics, groups or transactional ids, depending on the API: all three use the same names."""

BROKER = "(the broker)"
"""Placeholder for the broker's node id, which differs through a gateway."""
_UNKNOWN = 1 << 43
"""A producer id that was never issued."""


class Case(NamedTuple):
    what: str
    message: Message


def _topics(**partition: Any) -> Callable[[Names], Message]:
    return lambda names: {
        "topics": [{"name": name, "partitions": [{"partition_index": 0, **partition}]} for name in names]
    }


def _numbers(field: str) -> Callable[[Names], Message]:
    return lambda names: {"topics": [{"name": name, field: [0]} for name in names]}


_PRODUCER = {"producer_id": _UNKNOWN, "producer_epoch": 0}
_COMMITTED = {"committed_offset": 0, "committed_metadata": ""}
_ACL = {"resource_type": 2, "resource_name": "new", "principal": "User:x", "host": "*", "operation": 3}
_QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "somebody"}],
    "ops": [{"key": "producer_byte_rate", "value": 0.0, "remove": False}],
}


def _produce(transactional_id: str | None, transactional: bool, names: Names) -> Message:
    records = _transactional() if transactional else batch()
    topics = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name in names]
    return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5000, "topic_data": topics}


def _transactional() -> bytes:
    """A batch of a transaction."""
    changed = bytearray(batch(producer_id=_UNKNOWN, epoch=0, sequence=0))
    changed[22] |= IN_TRANSACTION
    changed[17:21] = google_crc32c.value(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def _fetch(names: Names) -> Message:
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 16}
    topics = [{"topic": name, "partitions": [asked]} for name in names]
    return {
        "max_wait_ms": 10,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "isolation_level": 0,
        "topics": topics,
    }


def _resources(kinds: Sequence[tuple[int, str]], more: Message) -> Message:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more} for kind, name in kinds]}


_ALL_FROM = {K.METADATA: 1, K.OFFSET_FETCH: 2}
"""The first version in which an empty list means all topics."""
_NOT_TO_CREATE_FROM = 4
"""The first version of METADATA that can name a topic without creating it."""


def cases(key: int, version: int, sets: Sequence[Names]) -> Iterator[Case]:
    """Requests of one API: for each set of names, alone and mixed."""
    make = MADE[key]
    for names in sets:
        for label, message in make(names):
            if message.get("topics", ()) is None and version < _ALL_FROM[ApiKey(key)]:
                continue
            if key == K.METADATA and version < _NOT_TO_CREATE_FROM and "seen-none" in names:
                continue  # one side would create it, and the other find it
            yield Case(f"{label}{', '.join(names)}", message)


Maker = Callable[[Names], Iterator[tuple[str, Message]]]


def _one(message: Callable[[Names], Message]) -> Maker:
    return lambda names: iter([("", message(names))])


def _first(message: Callable[[str], Message]) -> Maker:
    """An API that names one resource: single names only."""
    return lambda names: iter([("", message(names[0]))] if len(names) == 1 else [])


def _in_group(message: Callable[[Names], Message]) -> Maker:
    """Topics of a request that names a group, too: each group, with these topics."""

    def made(names: Names) -> Iterator[tuple[str, Message]]:
        for group in ("seen-1", "hidden-1"):
            yield f"group {group}: ", {"group_id": group, **message(names)}

    return made


def _in_transaction_of(message: Callable[[Names], Message]) -> Maker:
    def made(names: Names) -> Iterator[tuple[str, Message]]:
        for transactional_id in ("seen-1", "hidden-1"):
            yield f"id {transactional_id}: ", {"transactional_id": transactional_id, **_PRODUCER, **message(names)}

    return made


def _transactional_commits(names: Names) -> Iterator[tuple[str, Message]]:
    for transactional_id, group in (("seen-1", "seen-1"), ("seen-1", "hidden-1"), ("hidden-1", "seen-1")):
        more = {"transactional_id": transactional_id, "group_id": group, "member_id": "", **_PRODUCER}
        yield f"id {transactional_id}, group {group}: ", {**more, **_topics(**_COMMITTED)(names)}


def _produces(names: Names) -> Iterator[tuple[str, Message]]:
    yield "", _produce(None, False, names)
    yield "no transaction: ", _produce("hidden-1", False, names)
    yield "in a transaction: ", _produce("hidden-1", True, names)


def _metadata(names: Names) -> Iterator[tuple[str, Message]]:
    named = {"topics": [{"name": name} for name in names]}
    creatable = "seen-none" in names
    for create in (False,) if creatable else (False, True):
        flags = {
            "allow_auto_topic_creation": create,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        }
        yield f"create {create}: ", {**named, **flags}
    yield "all: ", {"topics": None, "include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    yield "none: ", {"topics": [], "allow_auto_topic_creation": False}


def _commits_fetched(names: Names) -> Iterator[tuple[str, Message]]:
    for group in ("seen-1", "hidden-1"):
        yield f"group {group}: ", {"group_id": group, **_numbers("partition_indexes")(names)}
        yield f"group {group}, all: ", {"group_id": group, "topics": None}


def _coordinators(names: Names) -> Iterator[tuple[str, Message]]:
    for kind in (0, 1):
        if len(names) == 1:
            yield f"kind {kind}: ", {"key": names[0], "key_type": kind}


def _producer_ids(names: Names) -> Iterator[tuple[str, Message]]:
    yield "none: ", {"transactional_id": None, "transaction_timeout_ms": 10_000}
    if len(names) == 1:
        yield "", {"transactional_id": names[0], "transaction_timeout_ms": 10_000}


def _described_configs(names: Names) -> Iterator[tuple[str, Message]]:
    kinds = [*((2, name) for name in names), (4, BROKER)]
    more = {"configuration_keys": ["cleanup.policy", "log.cleaner.threads"]}
    yield "", _resources(kinds, more)


def _altered_configs(entry: Message) -> Maker:
    def made(names: Names) -> Iterator[tuple[str, Message]]:
        yield "", _resources([(2, name) for name in names], {"configs": [entry]}) | {"validate_only": True}

    return made


def _named(field: str, **more: Any) -> Maker:
    return _one(lambda names: {field: list(names), **more})


_PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
_JOIN = {
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "member_id": "",
    "protocol_type": "",
    "protocols": [],
}
_NEW_TOPIC = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
_SETTING = {"name": "retention.ms", "value": "1000000"}
_FILTER = {
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
    "operation": 1,
    "permission_type": 1,
    "resource_name_filter": "none",
}

MADE: dict[int, Maker] = {
    K.PRODUCE: _produces,
    K.FETCH: _one(_fetch),
    K.LIST_OFFSETS: _one(lambda names: {"replica_id": -1, **_topics(timestamp=-1)(names)}),
    K.METADATA: _metadata,
    K.OFFSET_COMMIT: _in_group(_topics(**_COMMITTED)),
    K.OFFSET_FETCH: _commits_fetched,
    K.FIND_COORDINATOR: _coordinators,
    K.JOIN_GROUP: _first(lambda group: {"group_id": group, **_JOIN}),
    K.HEARTBEAT: _first(lambda group: {"group_id": group, "generation_id": 1, "member_id": "m"}),
    K.LEAVE_GROUP: _first(lambda group: {"group_id": group, "member_id": "m", "members": [{"member_id": "m"}]}),
    K.SYNC_GROUP: _first(lambda group: {"group_id": group, "generation_id": 1, "member_id": "m", **_PROTOCOL}),
    K.DESCRIBE_GROUPS: _named("groups", include_authorized_operations=True),
    K.LIST_GROUPS: lambda names: iter([("", {"states_filter": [], "types_filter": []})]),
    K.CREATE_TOPICS: _one(
        lambda names: {
            "topics": [{"name": f"{name}-new", **_NEW_TOPIC} for name in names],
            "timeout_ms": 10_000,
            "validate_only": True,
        }
    ),
    K.DELETE_TOPICS: _one(lambda names: {"topic_names": [f"{name}-none" for name in names], "timeout_ms": 10_000}),
    K.DELETE_RECORDS: _one(lambda names: {**_topics(offset=0)(names), "timeout_ms": 10_000}),
    K.INIT_PRODUCER_ID: _producer_ids,
    K.OFFSET_FOR_LEADER_EPOCH: _one(
        lambda names: {
            "replica_id": -1,
            "topics": [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in names],
        }
    ),
    K.ADD_PARTITIONS_TO_TXN: _in_transaction_of(_numbers("partitions")),
    K.ADD_OFFSETS_TO_TXN: _in_transaction_of(lambda names: {"group_id": names[0]}),
    K.END_TXN: _first(lambda name: {"transactional_id": name, **_PRODUCER, "committed": True}),
    K.TXN_OFFSET_COMMIT: _transactional_commits,
    K.DESCRIBE_ACLS: lambda names: iter([("", _FILTER)]),
    K.CREATE_ACLS: lambda names: iter([("", {"creations": [{**_ACL, "permission_type": 3}]})]),
    K.DELETE_ACLS: lambda names: iter([("", {"filters": [_FILTER]})]),
    K.DESCRIBE_CLIENT_QUOTAS: lambda names: iter([("", {"components": [], "strict": False})]),
    K.ALTER_CLIENT_QUOTAS: lambda names: iter([("", {"entries": [_QUOTA], "validate_only": True})]),
    K.DESCRIBE_CONFIGS: _described_configs,
    K.ALTER_CONFIGS: _altered_configs(_SETTING),
    K.INCREMENTAL_ALTER_CONFIGS: _altered_configs({**_SETTING, "config_operation": 0}),
    K.DESCRIBE_LOG_DIRS: _one(lambda names: {"topics": [{"topic": name, "partitions": [0]} for name in names]}),
    K.CREATE_PARTITIONS: _one(
        lambda names: {
            "topics": [{"name": name, "count": 2, "assignments": None} for name in names],
            "timeout_ms": 10_000,
            "validate_only": True,
        }
    ),
    K.DELETE_GROUPS: _one(lambda names: {"groups_names": [f"{name}-none" for name in names]}),
    K.OFFSET_DELETE: _in_group(lambda names: _topics()([f"{name}-none" for name in names])),
    K.DESCRIBE_CLUSTER: lambda names: iter([("", {"include_cluster_authorized_operations": True})]),
    K.DESCRIBE_PRODUCERS: _one(_numbers("partition_indexes")),
    K.DESCRIBE_TRANSACTIONS: _named("transactional_ids"),
    K.LIST_TRANSACTIONS: lambda names: iter([("", {"state_filters": [], "producer_id_filters": []})]),
    K.CONSUMER_GROUP_DESCRIBE: _named("group_ids", include_authorized_operations=True),
}
