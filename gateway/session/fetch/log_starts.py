"""Where an extent's log starts by now, when its first records are gone: readers who come from an older one go on there.

Retention by size keeps all of a log to which nothing is appended any more, and takes the first records of the one in
which the topic lives since. An offset out of range sends a reader to the earliest one, which is the old log's start.
"""

from __future__ import annotations

from gateway.session import streaming
from gateway.session.commands import BrokerLane
from gateway.session.fetch.plan import FetchPlan, Gap, Key, stands
from gateway.session.pending import PROBE, Frames, Kind, Slot
from gateway.session.state import ConnectionState
from ha_core.model import View
from ha_core.wire import ApiKey, ErrorCode, decode, encode, encode_request, response_body_at

_VERSION = 1
_EARLIEST = -2


def ask(session: ConnectionState, plan: FetchPlan) -> None:
    """Asks the brokers of `plan.gone`, on the client's own connections to them; the client's next fetch knows."""
    for lane in dict.fromkeys(plan.gone.values()):
        _ask(session, plan, lane, [key for key, other in plan.gone.items() if other == lane])


def _ask(session: ConnectionState, plan: FetchPlan, lane: BrokerLane, keys: list[Key]) -> None:
    topics: dict[str, list[dict[str, int]]] = {}
    for name, partition in keys:
        topics.setdefault(name, []).append({"partition_index": partition, "timestamp": _EARLIEST})
    body = {"replica_id": -1, "topics": [{"name": name, "partitions": asked} for name, asked in topics.items()]}

    def learn(frames: Frames) -> None:
        frame = frames[lane]
        if frame is None:
            return
        at = response_body_at(ApiKey.LIST_OFFSETS, _VERSION, frame, 4, len(frame))
        answer = decode(
            ApiKey.LIST_OFFSETS, _VERSION, "response", memoryview(frame)[at:], limits=session.settings.limits
        )
        for topic in answer["topics"]:
            for found in topic["partitions"]:
                if found["error_code"] == ErrorCode.NONE:
                    _learn(session, plan, (topic["name"], found["partition_index"]), found["offset"])

    slot = Slot(ApiKey.LIST_OFFSETS, _VERSION, PROBE, Kind.GATHER)
    slot.awaited = {lane}
    slot.finish = learn
    slot.survives_loss = True
    encoded = encode(ApiKey.LIST_OFFSETS, _VERSION, "request", body)
    streaming.aside(session, slot, lane, encode_request(ApiKey.LIST_OFFSETS, _VERSION, PROBE, None, encoded))


def _learn(session: ConnectionState, plan: FetchPlan, key: Key, start: int) -> None:
    read = plan.reads.get(key)
    if read is None or read.extent is None or not stands(session.snapshot.view, key, read.extent):
        return
    if start <= read.physical:
        # It has lost records instead: the client learns of it, as it would of any other log.
        session.gaps[key] = Gap(read.asked, read.extent.to_client(read.physical), sure=True)
        return
    session.gaps[key] = Gap(read.asked, read.extent.clip(start))


def forget(session: ConnectionState, before: View) -> None:
    """What was found out about a map that has changed is worth nothing."""
    after = session.snapshot.view.topics
    for key in tuple(session.gaps):
        then, now = before.topics.get(key[0]), after.get(key[0])
        if then is not now and then != now:
            del session.gaps[key]
