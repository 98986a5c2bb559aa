"""Produce and fetch messages, topics that have moved, and the snapshots that hold them."""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from gateway.session.snapshot import Snapshot
from ha_core.model import Extent, LastSequences, Topic, View
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.wire import encode, encode_request
from tests.gateway.session.talk import CLUSTERS, Talk, snapshot, topology

PRODUCE, FETCH = 0, 1


CLIENT_PID = (1 << 44) + 5


def moved(cut: int = 100, base: int = 0, **fields: Any) -> Topic:
    """`orders`, moved from east to west at `cut`."""
    extents = (
        Extent(cluster="east", start=0, end=cut, base=0, writer_epoch=0),
        Extent(cluster="west", start=cut, base=base, writer_epoch=1),
    )
    return Topic(name="orders", writer="west", partitions={0: extents}, **fields)


def state(*topics: Topic, sequences: LastSequences | None = None, revision: int = 1) -> Any:
    view = View(
        revision,
        CLUSTERS,
        topics={t.name: t for t in topics},
        sequences={sequences.name: sequences} if sequences else {},
    )
    leaders = {"orders": {0: 1, 1: 1}, "other": {0: 1}}
    return snapshot(view, topology(east=leaders, west=leaders))


def limited(base: Snapshot | None = None, **quotas: float) -> Snapshot:
    """The user of an anonymous client has these limits."""
    limits = {QuotaKind[kind.upper()]: value for kind, value in quotas.items()}
    return replace(base or state(), quotas=Quotas({QuotaEntity(user="anonymous"): limits}))


def produce(*partitions: tuple[str, int, bytes | None], acks: int = -1) -> dict[str, Any]:
    """Adjacent partitions of one topic are named together, as clients do."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 1000,
        "topic_data": [
            {"name": name, "partition_data": [{"index": p, "records": r} for _, p, r in those]}
            for name, those in groupby(partitions, key=itemgetter(0))
        ],
    }


def produced(*partitions: tuple[str, int, int, int]) -> dict[str, Any]:
    return {
        "responses": [
            {
                "name": name,
                "partition_responses": [
                    {"index": p, "error_code": e, "base_offset": o, "log_start_offset": 0} for _, p, e, o in those
                ],
            }
            for name, those in groupby(partitions, key=itemgetter(0))
        ],
        "throttle_time_ms": 0,
    }


def fetch(*partitions: tuple[str, int, int], session: tuple[int, int] = (0, -1)) -> dict[str, Any]:
    return {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [
            {
                "topic": t,
                "partitions": [
                    {"partition": p, "fetch_offset": o, "current_leader_epoch": 3, "partition_max_bytes": 1 << 20}
                ],
            }
            for t, p, o in partitions
        ],
    }


def fetched(*partitions: tuple[str, int, int, bytes], session_id: int = 0, error: int = 0) -> dict[str, Any]:
    """(topic, partition, high watermark, records)."""
    return {
        "session_id": session_id,
        "responses": [
            {
                "topic": t,
                "partitions": [
                    {
                        "partition_index": p,
                        "error_code": error,
                        "high_watermark": hw,
                        "last_stable_offset": hw,
                        "log_start_offset": 0,
                        "aborted_transactions": [{"producer_id": 7, "first_offset": hw - 1}],
                        "records": r,
                    }
                ],
            }
            for t, p, hw, r in partitions
        ],
    }


def entry(answer: dict[str, Any]) -> dict[str, Any]:
    topic = answer["responses"][0]
    found: dict[str, Any] = (topic.get("partition_responses") or topic["partitions"])[0]
    return found


CHUNKINGS = {
    "whole": lambda data: [data],
    "byte by byte": lambda data: [data[i : i + 1] for i in range(len(data))],
    "in sevens": lambda data: [data[i : i + 7] for i in range(0, len(data), 7)],
}


LARGE = b"r" * 4000


def frame(body: dict[str, Any], version: int = 9) -> bytes:
    return encode_request(PRODUCE, version, 1, "app", encode(PRODUCE, version, "request", body))


def half(talk: Talk, *partitions: tuple[str, int, bytes], acks: int) -> bytes:
    """Sends one half of a request; returns the other."""
    data = frame(produce(*partitions, acks=acks))
    talk.versions.append((1, PRODUCE, 9)) if acks else None
    middle = len(data) // 2
    talk.send(data[:middle])
    return data[middle:]
