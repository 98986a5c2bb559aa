"""Batch boundaries in a cluster's log, which clients do not report."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.wire.codes import ApiKey
from ha_core.wire.records import Batch, batches
from ha_core.wire.sasl import SecurityProfile
from stack.history.history import HistoryCut

_TIMEOUT_S = 20.0
_MAX_BYTES = 1 << 20


def batch_at(brokers: Brokers, topic: str, partition: int, offset: int) -> Batch | None:
    """The batch with the offset, or the next one; None above the log end, or below the log start."""
    asking = brokers.asking()
    (found,) = asking.metadata({topic})["topics"]
    leader = next(one["leader_id"] for one in found["partitions"] if one["partition_index"] == partition)
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "partition_max_bytes": _MAX_BYTES,
    }
    request = {
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": _MAX_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answer = asking.call(leader, ApiKey.FETCH, request, 12)
    records = answer["responses"][0]["partitions"][0]["records"] or b""
    return next(batches(records, 0, len(records)), None)


def between_batches(
    cuts: Iterable[HistoryCut], bootstraps: Mapping[str, str], account: SecurityProfile = NO_SECURITY
) -> tuple[HistoryCut, ...]:
    """The cuts. A predicted cut that a log ran into is replaced by the end of the last batch below it: the target has
    the batch that straddles the cut."""
    return tuple(_between(cut, bootstraps[cut.origin], account) if cut.ahead else cut for cut in cuts)


def _between(cut: HistoryCut, bootstrap: str, account: SecurityProfile) -> HistoryCut:
    brokers = Brokers(Cluster(name=cut.origin, bootstrap=bootstrap), account, _TIMEOUT_S)
    try:
        batch = batch_at(brokers, cut.topic, cut.partition, cut.origin_end)
    finally:
        brokers.close()
    return cut if batch is None else replace(cut, origin_end=min(cut.origin_end, batch.base_offset))
