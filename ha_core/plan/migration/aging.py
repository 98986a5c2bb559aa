"""When an old extent may go: nothing of it can still be read, and nobody needs it.

What the rules are given is chosen here as well (`candidates`, `log_of`, `comparable`, `counts`), so that a command that
asks brokers and a job over recorded rows come to the same verdict.
Where that is in doubt the extent stays. It may be dropped when no rule speaks against it:

1. *unconfirmed*: its end is only an upper bound, because its cluster was dead at the cut. What it holds is not known.
2. *unasked*: its cluster, or one that coordinates groups, did not answer and nothing is recorded of it. If it never
   comes back, an operator gives it up (`ha_core.plan.absence.given_up`). *masked*: nobody asked it, because
   operators have taken it out of service: the way out is to unmask it, and never to give it up.
3. *held*: its log still has records below its end.
4. *lost*: its log ends below the extent's end, or the topic is not there: records are missing. That may as well be a
   wrong address, so an operator has to say that it is accepted.
5. *written*: its log grows behind what the map knows of it: somebody writes there past the gateways.
6. *lagging* and *dead*: a group has committed an offset below the extent's end. A group with members will get there;
   one without never will, and waits for somebody to reset or delete it. Of an `ignored` extent nobody waits for
   anything, so groups do not count there. Of a cluster that cannot be asked its groups count as they were last seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from ha_core.model import Extent, Lock, MigrateOperation, Operation, Topic
from ha_core.plan.absence.returned import gone_for_good
from ha_core.plan.facts.verdict import listed
from ha_core.plan.routing.resolve import at_home

RESTLESS_MS = 3_600_000
"""A log that was appended to this recently may be again."""

Reason = Literal["unconfirmed", "unasked", "masked", "held", "lost", "written", "lagging", "dead"]


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One partition's log in the cluster of the extent, in that cluster's own offsets."""

    start: int
    end: int
    """Log end, exclusive."""
    earlier_end: int | None = None
    """The same at an earlier look; None: there was none."""
    last_write_ms: int | None = None
    """When an idempotent producer last appended (milliseconds since 1970); None: not known."""
    config: Mapping[str, str] = field(default_factory=dict)
    """What is set for the topic itself."""
    exists: bool = True


GONE = LogFacts(0, 0, exists=False)
"""The cluster answers, and does not have the topic, or no longer."""


def crossed(operations: Iterable[Operation]) -> dict[tuple[str, str], int]:
    """(cluster, topic) → when its last crossing out of that cluster ended, in milliseconds since 1970.

    :param operations: the newest first.
    """
    found: dict[tuple[str, str], int] = {}
    for operation in operations:
        if not isinstance(operation, MigrateOperation) or operation.state == "undone" or operation.ended is None:
            continue
        ended_ms = int(datetime.fromisoformat(operation.ended).timestamp() * 1000)
        for name in operation.moved:
            found.setdefault((operation.request.origin, name), ended_ms)
    return found


def locked_topics(locks: Iterable[Lock]) -> dict[str, str]:
    """Topic → the operation that works on it."""
    keys = ((*lock.key.split(":", 1), lock.operation) for lock in locks)
    return {name: operation for kind, name, operation in keys if kind == "topic"}


def worked_on(topic: Topic, locked: Mapping[str, str]) -> str | None:
    """The operation that works on the topic, whose map is about to change; None: there is none.

    :param locked: as of `locked_topics`. A fence or a crossing may stand without a lock.
    """
    crossing = topic.crossing
    return locked.get(topic.name) or topic.fenced_by or (None if crossing is None else crossing.operation)


def candidates(topics: Iterable[Topic], locked: Mapping[str, str]) -> tuple[dict[str, Topic], dict[str, str]]:
    """Those of `topics` that have a map and may be judged now, by name; and of the others what has to end before."""
    free: dict[str, Topic] = {}
    put_off: dict[str, str] = {}
    for topic in topics:
        if topic.mapped and (operation := worked_on(topic, locked)):
            put_off[topic.name] = f"operation {operation} works on it"
        elif topic.mapped:
            free[topic.name] = topic
    return free, put_off


def passed(extents: Sequence[Extent], cluster: str, log_end: int) -> int | None:
    """Where the partition's last extent in `cluster` ends there, if the log goes on above it.

    None: it does not, or the cluster is the writer, whose log has to grow.
    """
    end = next((one.physical_end for one in reversed(extents) if one.cluster == cluster), None)
    return end if end is not None and log_end > end else None


def comparable(looks: Iterable[tuple[int, int]], now_ms: int, crossed_ms: int) -> int | None:
    """The earlier log end that growth counts from: of the newest look that is as old as a log has to rest, else of the
    oldest. None: there is none.

    Until a crossing out of the cluster has ended the gateways themselves wrote there above the cut: what was seen
    before is no sign of somebody past them.

    :param looks: (milliseconds since 1970, log end then).
    """
    since = sorted(look for look in looks if look[0] > crossed_ms)
    rested = [look for look in since if look[0] <= now_ms - RESTLESS_MS]
    return next((end for _, end in (*rested[-1:], *since)), None)


def log_of(
    partition: int,
    partitions: int | None,
    ends: tuple[int, int] | None,
    config: Mapping[str, str],
    looks: Iterable[tuple[int, int]],
    last_write_ms: int,
    now_ms: int,
    crossed_ms: int,
) -> LogFacts | None:
    """What is known of a partition's log in one cluster; None: nothing is.

    :param partitions: how many the topic has there; 0: it is not there. None: the cluster does not say.
    :param ends: its start and end. None: its leader does not say, or not who writes to what lies above the map.
    :param looks: as of `comparable`.
    :param last_write_ms: as the leader says it; 0: it does not know.
    :param crossed_ms: when the last crossing out of the cluster ended (`crossed`); 0: there was none.
    """
    if partitions is not None and partition >= partitions:
        return GONE
    if ends is None:
        return None
    written_ms = last_write_ms if last_write_ms > crossed_ms else None
    return LogFacts(*ends, comparable(looks, now_ms, crossed_ms), written_ms, config)


class CommittedOffset(NamedTuple):
    """A committed offset, which is a client offset, of one partition."""

    group: str
    cluster: str
    """Whose coordinator holds it."""
    offset: int
    live: bool
    """The group has members, or may have: see `is_live`."""


def counts(commit: CommittedOffset, homes: Mapping[str, Collection[str]]) -> bool:
    """Whether somebody may go on from it: a group that has moved leaves its old offsets where it was.

    :param homes: as of `group_homes`.
    """
    return commit.live or at_home(homes, commit.group, commit.cluster)


class Block(NamedTuple):
    """Why an extent stays, in words for the operator."""

    reason: Reason
    text: str


def blocks(
    extents: Sequence[Extent],
    extent: Extent,
    log: LogFacts | None,
    commits: Iterable[CommittedOffset],
    now_ms: int,
    unasked: Collection[str] = (),
    accept_loss: bool = False,
    masked: Mapping[str, str] | None = None,
    last_seen: Collection[str] = (),
) -> tuple[Block, ...]:
    """What speaks against dropping `extent`, a closed one of the partition's `extents`; nothing: it is aged.

    :param log: its partition in `extent.cluster`; None: that cluster did not answer.
    :param commits: of the same partition, in all clusters.
    :param unasked: clusters of whose groups nothing is known.
    :param accept_loss: the operator does without what was lost.
    :param masked: cluster → why it was taken out of service; nobody asks these.
    :param last_seen: clusters that could not be asked, and whose commits are those of the last look.
    :raises ValueError: the extent is open, so it is written.
    """
    if extent.end is None:
        raise ValueError(f"the extent of {extent.cluster} is open: it is the writer's and never ages")
    masked = masked or {}
    found = []
    if extent.known_end is not None:
        text = f"{extent.cluster} was dead at the cut, and its end is not confirmed: `switchyard origins check`"
        found.append(Block("unconfirmed", text))
    if log is None:
        found.append(_silent(extent.cluster, masked))
    else:
        said = _log_blocks(extents, extent, log, now_ms)
        found += [one for one in said if not (accept_loss and one.reason == "lost")]
    if not extent.ignored:
        found += [_silent(name, masked, f"nothing is known of the groups of {name}: ") for name in sorted(unasked)]
        away = {name: _silent(name, masked).text for name in last_seen}
        found += _group_blocks(extent, extent.end, commits, log is None, away)
    return tuple(found)


def closed(topic: Topic) -> Iterator[tuple[int, Extent]]:
    """Every (partition, closed extent) of the map."""
    return ((partition, extent) for partition, extent in topic.stays() if extent.end is not None)


def drop(extents: Sequence[Extent], starts: Collection[int]) -> tuple[Extent, ...]:
    """`extents` without the closed ones that start there. No two extents of a partition start at the same offset.

    :raises ValueError: one of them is open.
    """
    for extent in extents:
        if extent.start in starts and extent.end is None:
            raise ValueError(f"the extent from {extent.start} on in {extent.cluster} is open: it is the writer's")
    return tuple(extent for extent in extents if extent.start not in starts)


def undeletable(topic: Topic, cluster: str, logs: Mapping[int, LogFacts], groups: Collection[str] = ()) -> str:
    """Why the topic in `cluster` may not be deleted; empty: it is what an aged migration has left behind.

    :param topic: the map as it is once aged extents are dropped.
    :param logs: every partition of the topic in that cluster.
    :param groups: those that have committed offsets of it there.
    """
    if topic.writer == cluster:
        return f"{cluster} is its writer"
    if left := {partition for partition, extent in topic.stays() if extent.cluster == cluster}:
        return f"{len(left)} of {len(topic.partitions)} partitions are not aged there"
    if not logs:
        return f"{cluster} does not have it"
    for partition, log in sorted(logs.items()):
        if log.start < log.end:
            return f"partition {partition} holds offsets {log.start} to {log.end} that are in no map"
    if all(log.end == 0 for log in logs.values()):
        return "it was never used, so it is not what was left behind: it may be the beginning of another move"
    if groups:
        # A coordinator forgets the offsets of a topic that is deleted beside it, and takes no further ones.
        names = listed(f"group {group}" for group in sorted(groups))
        return f"{names} commits offsets of it there, and would lose them: switch it to another cluster, or delete it"
    return ""


def _silent(cluster: str, masked: Mapping[str, str], what: str = "") -> Block:
    if cluster in masked:
        text = f"{what}{cluster} is masked ({masked[cluster]}): `switchyard unmask {cluster}` when it is healthy"
        return Block("masked", text)
    return Block("unasked", f"{what}{cluster} does not answer: bring it back; {gone_for_good(cluster)}")


def _log_blocks(extents: Sequence[Extent], extent: Extent, log: LogFacts, now_ms: int) -> Iterator[Block]:
    end = extent.physical_end
    assert end is not None
    if not log.exists:
        yield Block("lost", f"{extent.cluster} does not have the topic: check its address, or say --accept-loss")
    elif log.end < end and extent.known_end is None:
        ends = f"its log in {extent.cluster} ends at {log.end}, below {end}"
        yield Block("lost", f"{ends}, so records were lost there: restore them, or say --accept-loss")
    first, last = extent.clip(log.start), extent.clip(log.end)
    if first < last:
        yield Block("held", f"{extent.cluster} holds offsets {first} to {last}: {_retention(log.config)}")
    mapped_end = passed(extents, extent.cluster, log.end)
    if mapped_end is not None:
        grown = log.earlier_end is not None and log.end > max(mapped_end, log.earlier_end)
        recent = log.last_write_ms is not None and now_ms - log.last_write_ms < RESTLESS_MS
        if grown or recent:
            text = f"somebody writes to {extent.cluster} past the gateways: it goes on from {mapped_end} to {log.end}"
            yield Block("written", text)


def _retention(config: Mapping[str, str]) -> str:
    if "delete" not in config.get("cleanup.policy", "delete"):
        return "a compacted log keeps the newest record of each key for ever, so it does not age by itself"
    time = config.get("retention.ms")
    if time == "-1" and config.get("retention.bytes", "-1") == "-1":
        return "its retention is unlimited, so it ages only when that is changed"
    return f"retention deletes them ({time} ms)" if time else "retention deletes them"


def _group_blocks(
    extent: Extent, end: int, commits: Iterable[CommittedOffset], away: bool, last_seen: Mapping[str, str]
) -> Iterator[Block]:
    """Who has not read all of it. Of a cluster that is away nobody can, and nobody is told to do without it.

    :param last_seen: cluster → how to learn more of its groups.
    """
    most = "" if extent.known_end is None else "at most "
    for commit in sorted(commits):
        if commit.offset >= end:
            continue
        at = f"at offset {commit.offset}, {most}{end - commit.offset} before the end ({commit.cluster})"
        if commit.cluster in last_seen:
            way = f"as it was last seen; {last_seen[commit.cluster]}"
        elif commit.live:
            way = f"it waits for {extent.cluster}" if away else "it gets there by itself"
        else:
            read_on = f"when {extent.cluster} is back, read on with it, or " if away else ""
            way = f"{read_on}reset or delete it"
        reason: Reason = "lagging" if commit.live else "dead"
        yield Block(reason, f"{reason} group {commit.group} {at}: {way}")
