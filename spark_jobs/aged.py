"""Whether the origin of a moved partition is still needed. Pure.

An extent has aged when nothing of it can still be read, no group will come for it, and nobody sends to its cluster any
more. What could not be found out counts against it: `unknown` is a reason to wait, never one to delete.
"""

from __future__ import annotations

from typing import NamedTuple

RECORDS, LIVE_GROUPS, IDLE_GROUPS, PRODUCERS, UNKNOWN = "records", "live groups", "idle groups", "producers", "unknown"


class Held(NamedTuple):
    """A closed extent and what is known of it. Offsets `start`, `end` and commits are client offsets."""

    topic: str
    partition: int
    cluster: str
    """The origin."""
    start: int
    end: int
    base: int
    """Offset of `start` in the origin."""
    ignored: bool
    """Readers skip it: records and groups do not count."""
    writer_again: bool
    """The origin is the partition's writer now: its producers and its growth are as they should be."""
    newest_end: int
    """Where the newest closed extent of this partition ends in the origin, as the origin counts."""
    exists: bool | None
    """The topic, in the origin. None: the origin could not be asked."""
    compacted: bool | None
    log_start: int | None
    log_end: int | None
    read_at_ms: int | None
    earlier_end: int | None
    """The origin's log end as a run of `facts` has recorded it, at least the time of silence before."""
    producers: int | None
    """That the origin's leader remembers."""
    newest_record_ms: int | None
    """The newest of their timestamps, by the producers' clocks."""
    live_groups: int
    """Groups with members whose committed offset lies below `end`."""
    idle_groups: int
    """The same without members."""
    lowest_commit: int | None
    groups: list[str] | None
    """Some of them."""
    trouble: str | None
    """What could not be asked."""


class Verdict(NamedTuple):
    """`aged` means: the extent may be dropped. Counts are of records."""

    topic: str
    partition: int
    cluster: str
    end: int
    aged: bool
    blocks: list[str]
    """What stands against it, of `RECORDS`, `LIVE_GROUPS`, `IDLE_GROUPS`, `PRODUCERS`, `UNKNOWN`."""
    why: str
    """The same with the evidence, for people."""
    readable: int | None
    """Offsets of the extent that the origin may still hold."""
    surplus: int | None
    """Offsets behind the extent, which no client ever sees."""
    producers: int | None
    newest_record_ms: int | None
    live_groups: int
    idle_groups: int
    lowest_commit: int | None


def verdict(held: Held, now_ms: int, quiet_s: float) -> Verdict:
    """Judges one extent; a producer whose newest record is younger than `quiet_s` still sends."""
    readable = _readable(held)
    blocks: dict[str, str] = {}
    if held.trouble:
        blocks[UNKNOWN] = held.trouble
    elif readable is None:
        blocks[UNKNOWN] = f"the ends of {held.topic}-{held.partition} in {held.cluster} are not known"
    elif held.exists and not held.writer_again and held.producers is None and held.earlier_end is None:
        blocks[UNKNOWN] = f"{held.cluster} tells nothing of producers, and no earlier end of its log is recorded"
    if readable and not held.ignored:
        slow = "; the topic is compacted, so its start does not pass the cut by itself" if held.compacted else ""
        blocks[RECORDS] = f"{held.cluster} may hold {readable} records below the cut{slow}"
    if not held.ignored:
        some = ", ".join(held.groups or ())
        if held.live_groups:
            blocks[LIVE_GROUPS] = (
                f"{held.live_groups} live groups are below the cut, from {held.lowest_commit} ({some})"
            )
        if held.idle_groups:
            blocks[IDLE_GROUPS] = f"{held.idle_groups} groups without members have committed below the cut ({some})"
    if sending := _sending(held, now_ms, quiet_s):
        blocks[PRODUCERS] = sending
    return Verdict(
        topic=held.topic,
        partition=held.partition,
        cluster=held.cluster,
        end=held.end,
        aged=not blocks,
        blocks=list(blocks),
        why="; ".join(blocks.values()) or "nothing is left of it, and nobody comes for it",
        readable=readable,
        surplus=_surplus(held),
        producers=held.producers,
        newest_record_ms=held.newest_record_ms,
        live_groups=held.live_groups,
        idle_groups=held.idle_groups,
        lowest_commit=held.lowest_commit,
    )


def _readable(held: Held) -> int | None:
    if held.exists is False:
        return 0
    if held.log_start is None or held.log_end is None:
        return None
    physical_end = held.base + (held.end - held.start)
    return max(0, min(held.log_end, physical_end) - max(held.log_start, held.base))


def _surplus(held: Held) -> int | None:
    if held.writer_again or held.log_end is None:
        return None
    return max(0, held.log_end - max(held.newest_end, held.log_start or 0))


def _sending(held: Held, now_ms: int, quiet_s: float) -> str:
    """Why it looks as if somebody still sends to the origin; empty if nobody does."""
    if held.writer_again or held.exists is False:
        return ""
    if held.earlier_end is not None and held.log_end is not None and held.log_end > held.earlier_end:
        return f"{held.cluster} has got {held.log_end - held.earlier_end} records since an earlier look"
    if held.newest_record_ms is not None and now_ms - held.newest_record_ms < quiet_s * 1000:
        ago_s = max(0, now_ms - held.newest_record_ms) // 1000
        return f"a producer sent to {held.cluster} {ago_s} s ago, and {quiet_s:g} s of silence are asked for"
    return ""
