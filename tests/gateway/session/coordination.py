"""Requests of groups and transactions, and the snapshots that route them to a cluster."""

from typing import Any

from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Fence, Group, Topic, UserBindings, View
from ha_core.model.producer import issued_id
from ha_core.wire import encode, encode_request
from tests.gateway.session.talk import CLUSTERS, NODES, snapshot, topology

COMMIT, OFFSETS, FIND, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14


def heartbeat(member: str = "m-1", generation: int = 4) -> dict[str, Any]:
    return {"group_id": "billing", "generation_id": generation, "member_id": member}


def commit(member: str = "m-1", generation: int = 4) -> dict[str, Any]:
    return {
        "group_id": "billing",
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [
            {
                "name": "orders",
                "partitions": [{"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}],
            }
        ],
    }


PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, TXN_COMMIT = 0, 22, 24, 25, 26, 28


EAST_PORT, WEST_PORT = Port("east", 1), Port("west", 1)


EASTS, WESTS = issued_id(7, NODES.ids["east", 1]), issued_id(7, NODES.ids["west", 1])
"""The clusters count alike: both have issued 7."""


def bound(cluster: str, *topics: Topic, group: Group | None = None, masked: str = "") -> Snapshot:
    """Every user is bound to `cluster`."""
    clusters = {name: c for name, c in CLUSTERS.items() if name != masked}
    bindings = {"anonymous": UserBindings(user="anonymous", cluster=cluster)}
    groups = {group.name: group} if group else {}
    leaders = {"orders": {0: 1}, "other": {0: 1}}
    view = View(1, clusters, bindings, topics={t.name: t for t in topics}, groups=groups)
    return snapshot(view, topology(east=leaders, west=leaders))


def add(producer_id: int, *topics: str) -> dict[str, Any]:
    named = [{"name": name, "partitions": [0]} for name in topics or ("orders",)]
    return {"transactional_id": "tx", "producer_id": producer_id, "producer_epoch": 0, "topics": named}


def added(error: int = 0, *topics: str) -> dict[str, Any]:
    result = [{"partition_index": 0, "partition_error_code": error}]
    return {"results_by_topic": [{"name": name, "results_by_partition": result} for name in topics or ("orders",)]}


def end(producer_id: int, committed: bool = True) -> dict[str, Any]:
    return {"transactional_id": "tx", "producer_id": producer_id, "producer_epoch": 0, "committed": committed}


def request(api_key: int, version: int, correlation: int, **body: object) -> bytes:
    return encode_request(api_key, version, correlation, "app", encode(api_key, version, "request", body))


def errors(answer: dict[str, Any]) -> list[int]:
    """Every error code in an answer, in order."""
    found = [value for key, value in answer.items() if key in ("error_code", "partition_error_code")]
    for value in answer.values():
        for entry in value if isinstance(value, list) else ():
            found += errors(entry) if isinstance(entry, dict) else []
    return found


QUIET = Fence(operation="op-1")
NOTHING: frozenset[bytes] = frozenset()
ORDERS = frozenset({b"orders"})
LATER = 9
"""Revision of the fence."""


def quiet(*names: str) -> Snapshot:
    """These topics are about to leave the east: no transaction may begin in them."""
    return bound("east", *(Topic(name=name, transaction_fence=QUIET) for name in names))
