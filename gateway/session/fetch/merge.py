"""Makes one answer, in client offsets, of what the brokers of a fetch have answered."""

from __future__ import annotations

from itertools import takewhile

from gateway.session.commands import BrokerLane
from gateway.session.fetch.plan import STALE, FetchPlan, Gap, Key, Read, no_records_of, stands
from gateway.session.request import Message
from ha_core.model import Extent, View
from ha_core.wire import ErrorCode
from ha_core.wire.records import shift_batches, trim


def merge(
    plan: FetchPlan, answers: dict[BrokerLane, Message | None], gaps: dict[Key, Gap], view: View
) -> tuple[Message, set[str]]:
    """One answer in client offsets; and the clusters whose topology is stale.

    :param answers: None where the broker was lost.
    :param view: the newest one: by a map that has changed, what was read may lie at other offsets.
    """
    entries = dict(plan.local)
    stale: set[str] = set()
    undecided = False
    throttle_ms = 0
    for lane, answer in answers.items():
        if answer is None:
            stale.add(lane.cluster)
            continue
        throttle_ms = max(throttle_ms, answer["throttle_time_ms"])
        told = _told(plan.parts[lane], answer)
        for topic in answer["responses"]:
            for entry in topic["partitions"]:
                key = (topic["topic"], entry["partition_index"])
                read = plan.reads.get(key)
                if read is None or read.extent is None:
                    entries[key] = entry
                elif not stands(view, key, read.extent):
                    continue
                elif read.closed and entry["error_code"] in STALE:
                    stale.add(lane.cluster)
                elif read.extent.known_end is not None and entry["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
                    # A cluster that was dead at the cut is back with less than it may have had. A client that learnt
                    # of it would jump to another offset before anybody has said that the rest is lost.
                    undecided = True
                elif read.opens and entry["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
                    plan.gone[key] = lane
                else:
                    entries[key], hollow = _translate(key, entry, read, key in told)
                    if hollow:
                        gaps[key] = Gap(read.asked, read.extent.end or 0)
                    elif read.opens and entry["error_code"] == ErrorCode.NONE:
                        gaps[key] = Gap(read.asked, read.extent.to_client(read.physical), sure=True)
    plan.undecided = undecided and not any(entry["records"] for entry in entries.values())
    topics: dict[str, list[Message]] = {}
    for key in plan.order:
        read = plan.reads.get(key)
        entry = entries.get(key) or no_records_of(key, read.extent if read else None)
        topics.setdefault(key[0], []).append(entry)
    return {
        "throttle_time_ms": throttle_ms,
        "error_code": 0,
        "session_id": 0,
        "responses": [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }, stale


def _told(asked: dict[str, list[Message]], answer: Message) -> set[Key]:
    """The partitions whose emptiness tells something: those before the first one with records. After it used up limits
    leave partitions empty (KIP-74). Clients let those go first, so each has its turn.
    """
    full = {
        (topic["topic"], entry["partition_index"])
        for topic in answer["responses"]
        for entry in topic["partitions"]
        if entry["records"]
    }
    order = ((topic, entry["partition"]) for topic, entries in asked.items() for entry in entries)
    return set(takewhile(lambda key: key not in full, order))


def _translate(key: Key, entry: Message, read: Read, told: bool) -> tuple[Message, bool]:
    """The partition in client offsets; and whether its closed extent holds nothing at or after what was asked for.

    :param told: if it is empty, that is because the broker has nothing to give.
    """
    extent = read.extent
    assert extent is not None
    shift, physical_end = extent.shift, extent.physical_end
    records = bytearray(entry["records"] or b"")
    end = len(records)
    hollow = False
    held = entry["high_watermark"]
    if physical_end is not None:
        seen = min(held, entry["last_stable_offset"]) if entry["last_stable_offset"] >= 0 else held
        hollow = told and entry["error_code"] == ErrorCode.NONE and seen >= physical_end
        if end:
            end = trim(records, 0, end, physical_end)
            hollow = end == 0
    shift_batches(records, 0, end, shift)
    marks = {name: _mark(extent, entry[name]) for name in ("high_watermark", "last_stable_offset")}
    if extent.end is not None and not read.ahead:
        # A log that ends before its extent (its true end is not known yet) is not the partition's end.
        marks = {name: mark if mark < 0 else extent.end for name, mark in marks.items()}
    return {
        **entry,
        **marks,
        "log_start_offset": _mark(extent, entry["log_start_offset"]) if read.first else -1,
        "aborted_transactions": [
            {**aborted, "first_offset": aborted["first_offset"] + shift}
            for aborted in entry["aborted_transactions"] or ()
            if physical_end is None or aborted["first_offset"] < physical_end
        ],
        "preferred_read_replica": -1,
        "records": bytes(memoryview(records)[:end]),
    }, hollow


def _mark(extent: Extent, physical: int) -> int:
    """The client offset, at most the extent's end; negative words stay."""
    if physical < 0:
        return physical
    offset = extent.extrapolate(physical)
    return offset if extent.end is None else min(offset, extent.end)
