"""Aging: an old extent may be dropped once none of it can be read and no group needs it.

The inputs of the rules are chosen here as well (`candidates`, `log_of`, `comparable`, `counts`), so that a command that
queries brokers and a job over recorded rows reach the same verdict.
In doubt the extent stays. It may be dropped if no rule blocks it:

1. *unconfirmed*: its end is only an upper bound, because its cluster was dead at the cut. Its records are not known.
2. *unasked*: its cluster, or one that coordinates groups, did not answer, and no facts of it are recorded. If it never
   comes back, an operator gives it up (`ha_core.plan.absence.given_up`). *masked*: it was not queried, because
   operators have taken it out of service: the way out is to unmask it, never to give it up.
3. *held*: its log still has records below its end.
4. *lost*: its log ends below the extent's end, or the topic is missing, so records are missing. The reason may be a
   wrong address, so an operator has to accept it.
5. *written*: its log grows above the extent: a producer writes there past the gateways.
6. *lagging* and *dead*: a group has committed an offset below the extent's end. A group with members will get there;
   one without never will, and has to be reset or deleted. No group reads an `ignored` extent, so groups do not count
   there. For a cluster that does not answer, the last recorded commits count.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from ha_core.model import Extent, Lock, Operation, Topic
from ha_core.plan.absence.decision import gone_for_good, unmask
from ha_core.plan.facts.verdict import listed
from ha_core.plan.routing.resolve import at_home

RESTLESS_MS = 3_600_000
"""A log with a write this recent may grow again."""

Reason = Literal["unconfirmed", "unasked", "masked", "held", "lost", "written", "lagging", "dead"]


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One partition's log in the cluster of the extent, in that cluster's own offsets."""

    start: int
    end: int
    """Log end, exclusive."""
    earlier_end: int | None = None
    """Log end at an earlier reading; None: there was none."""
    last_write_ms: int | None = None
    """Last append of an idempotent producer (milliseconds since 1970); None: not known."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings."""
    exists: bool = True


GONE = LogFacts(0, 0, exists=False)
"""The cluster answers, and does not have the topic."""


def crossed(operations: Iterable[Operation]) -> dict[tuple[str, str], int]:
    """(cluster, topic) → end of its last crossing out of that cluster, in milliseconds since 1970.

    :param operations: newest first.
    """
    found: dict[tuple[str, str], int] = {}
    for operation in operations:
        if not (operation.CROSSES and operation.route and operation.ended) or operation.state == "undone":
            continue
        ended_ms = int(datetime.fromisoformat(operation.ended).timestamp() * 1000)
        for name in operation.moved:
            found.setdefault((operation.route[0], name), ended_ms)
    return found


def locked_topics(locks: Iterable[Lock]) -> dict[str, str]:
    """Topic → the operation that works on it."""
    keys = ((*lock.key.split(":", 1), lock.operation) for lock in locks)
    return {name: operation for kind, name, operation in keys if kind == "topic"}


def worked_on(topic: Topic, locked: Mapping[str, str]) -> str | None:
    """The operation that works on the topic and may change its map; None: there is none.

    :param locked: see `locked_topics`. A fence or a crossing may exist without a lock.
    """
    crossing = topic.crossing
    return locked.get(topic.name) or topic.fenced_by or (None if crossing is None else crossing.operation)


def candidates(topics: Iterable[Topic], locked: Mapping[str, str]) -> tuple[dict[str, Topic], dict[str, str]]:
    """Topics with a map that may be judged now, by name; and for the others with a map, what has to end before."""
    free: dict[str, Topic] = {}
    put_off: dict[str, str] = {}
    for topic in topics:
        if topic.mapped and (operation := worked_on(topic, locked)):
            put_off[topic.name] = f"operation {operation} works on it"
        elif topic.mapped:
            free[topic.name] = topic
    return free, put_off


def passed(extents: Sequence[Extent], cluster: str, log_end: int) -> int | None:
    """Physical end of the partition's last extent in `cluster`, if the log has grown above it.

    None: it has not, or the cluster is the writer, whose log has to grow.
    """
    end = next((extent.physical_end for extent in reversed(extents) if extent.cluster == cluster), None)
    return end if end is not None and log_end > end else None


def comparable(looks: Iterable[tuple[int, int]], now_ms: int, crossed_ms: int) -> int | None:
    """The earlier log end to measure growth from: the newest one that is at least `RESTLESS_MS` old, else the oldest.
    None: there is none.

    Until a crossing out of the cluster has ended, gateways themselves write there above the cut, so earlier growth is
    no sign of producers that bypass them.

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
    """Facts of a partition's log in one cluster; None: none are known.

    :param partitions: partitions of the topic there; 0: no topic. None: the cluster does not answer.
    :param ends: start and end of the log. None: its leader reports neither, or not the producers above the map's end.
    :param looks: see `comparable`.
    :param last_write_ms: as the leader reports it; 0: it does not know.
    :param crossed_ms: end of the last crossing out of the cluster (`crossed`); 0: there was none.
    """
    if partitions is not None and partition >= partitions:
        return GONE
    if ends is None:
        return None
    written_ms = last_write_ms if last_write_ms > crossed_ms else None
    return LogFacts(*ends, comparable(looks, now_ms, crossed_ms), written_ms, config)


class CommittedOffset(NamedTuple):
    """A group's commit of one partition; the offset is a client offset."""

    group: str
    cluster: str
    """Cluster of the coordinator that holds it."""
    offset: int
    may_have_members: bool
    """The group has members, or may have: see `may_have_members`."""


def counts(commit: CommittedOffset, homes: Mapping[str, Collection[str]]) -> bool:
    """Whether members may continue from it: a group that has moved leaves its old commits in the origin.

    :param homes: see `group_homes`.
    """
    return commit.may_have_members or at_home(homes, commit.group, commit.cluster)


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
    """Reasons not to drop `extent`, a closed one of the partition's `extents`; empty: it is aged.

    :param log: its partition in `extent.cluster`; None: that cluster did not answer.
    :param commits: of this partition, in all clusters.
    :param unasked: clusters whose groups are not known.
    :param accept_loss: the operator accepts that records are lost.
    :param masked: cluster → why it is masked; these are not queried.
    :param last_seen: clusters that did not answer, whose commits are the last recorded ones.
    :raises ValueError: the extent is open: it is the writer's.
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
        of_log = _log_blocks(extents, extent, log, now_ms)
        found += [block for block in of_log if not (accept_loss and block.reason == "lost")]
    if not extent.ignored:
        found += [_silent(name, masked, f"nothing is known of the groups of {name}: ") for name in sorted(unasked)]
        away = {name: _silent(name, masked).text for name in last_seen}
        found += _group_blocks(extent, extent.end, commits, log is None, away)
    return tuple(found)


def closed_extents(topic: Topic) -> Iterator[tuple[int, Extent]]:
    """Every (partition, closed extent) of the map."""
    return ((partition, extent) for partition, extent in topic.all_extents() if extent.end is not None)


def drop(extents: Sequence[Extent], starts: Collection[int]) -> tuple[Extent, ...]:
    """`extents` without the closed ones that start there. No two extents of a partition start at the same offset.

    :raises ValueError: one of them is open.
    """
    for extent in extents:
        if extent.start in starts and extent.end is None:
            raise ValueError(f"the extent from {extent.start} on in {extent.cluster} is open: it is the writer's")
    return tuple(extent for extent in extents if extent.start not in starts)


def undeletable(topic: Topic, cluster: str, logs: Mapping[int, LogFacts], groups: Collection[str] = ()) -> str:
    """Why the topic in `cluster` may not be deleted; empty: it may, as a leftover of an aged migration.

    :param topic: its map once aged extents are dropped.
    :param logs: every partition of the topic in that cluster.
    :param groups: groups that have committed offsets of it there.
    """
    if topic.writer == cluster:
        return f"{cluster} is its writer"
    if left := {partition for partition, extent in topic.all_extents() if extent.cluster == cluster}:
        return f"{len(left)} of {len(topic.partitions)} partitions are not aged there"
    if not logs:
        return f"{cluster} does not have it"
    for partition, log in sorted(logs.items()):
        if log.start < log.end:
            return f"partition {partition} holds offsets {log.start} to {log.end} that are in no map"
    if all(log.end == 0 for log in logs.values()):
        return "it was never used, so it is no leftover: it may be the beginning of another move"
    if groups:
        # A coordinator drops the commits of a topic that its cluster deletes, and refuses further ones.
        names = listed(f"group {group}" for group in sorted(groups))
        return f"{names} commits offsets of it there, and would lose them: switch it to another cluster, or delete it"
    return ""


def _silent(cluster: str, masked: Mapping[str, str], what: str = "") -> Block:
    if cluster in masked:
        text = f"{what}{cluster} is masked ({masked[cluster]}): {unmask(cluster)}"
        return Block("masked", text)
    return Block("unasked", f"{what}{cluster} does not answer: bring it back; {gone_for_good(cluster)}")


def _log_blocks(extents: Sequence[Extent], extent: Extent, log: LogFacts, now_ms: int) -> Iterator[Block]:
    end = extent.physical_end
    assert end is not None
    if not log.exists:
        yield Block("lost", f"{extent.cluster} does not have the topic: check its address, or give --accept-loss")
    elif log.end < end and extent.known_end is None:
        ends = f"its log in {extent.cluster} ends at {log.end}, below {end}"
        yield Block("lost", f"{ends}, so records were lost there: restore them, or give --accept-loss")
    first, last = extent.clip(log.start), extent.clip(log.end)
    if first < last:
        yield Block("held", f"{extent.cluster} holds offsets {first} to {last}: {_retention(log.config)}")
    mapped_end = passed(extents, extent.cluster, log.end)
    if mapped_end is not None:
        grown = log.earlier_end is not None and log.end > max(mapped_end, log.earlier_end)
        recent = log.last_write_ms is not None and now_ms - log.last_write_ms < RESTLESS_MS
        if grown or recent:
            text = (
                f"a producer writes to {extent.cluster} past the gateways: its log went from {mapped_end} to {log.end}"
            )
            yield Block("written", text)


def _retention(config: Mapping[str, str]) -> str:
    if "delete" not in config.get("cleanup.policy", "delete"):
        return "a compacted log keeps the newest record of each key, so it does not age by itself"
    time = config.get("retention.ms")
    if time == "-1" and config.get("retention.bytes", "-1") == "-1":
        return "its retention is unlimited, so it ages only when that is changed"
    return f"retention deletes them ({time} ms)" if time else "retention deletes them"


def _group_blocks(
    extent: Extent, end: int, commits: Iterable[CommittedOffset], away: bool, last_seen: Mapping[str, str]
) -> Iterator[Block]:
    """Groups that have not read all of it. If its cluster does not answer none can, and no way out skips its records.

    :param last_seen: cluster → way to learn more about its groups.
    """
    prefix = "" if extent.known_end is None else "at most "
    for commit in sorted(commits):
        if commit.offset >= end:
            continue
        at = f"at offset {commit.offset}, {prefix}{end - commit.offset} before the end ({commit.cluster})"
        if commit.cluster in last_seen:
            way = f"as it was last seen; {last_seen[commit.cluster]}"
        elif commit.may_have_members:
            way = f"it waits for {extent.cluster}" if away else "it gets there by itself"
        else:
            read_on = f"when {extent.cluster} is back, read on with it, or " if away else ""
            way = f"{read_on}reset or delete it"
        reason: Reason = "lagging" if commit.may_have_members else "dead"
        yield Block(reason, f"{reason} group {commit.group} {at}: {way}")
