"""Reverses mirrors: the copy has become the writer, and the former writer gets a copy of it again.

Both logs stay as they are: records that were copied one way need not be copied the other way
(`ha_core.mirror.reversing`). After a crash it is repeated; a mirror is written only when all of its partitions have
begun, so that no job copies from unknown offsets.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.errors import KafkaAdminError, StandsInTheWayError, UnsupportedByClusterError
from ha_core.kafka.takeover import Fenced
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import Note, Notes
from ha_core.mirror.progress import CopyDamagedError, Progress
from ha_core.mirror.reversing import copied_below, last_mirrored, reversed_notes
from ha_core.model import Mirror, Run
from ha_core.operations.copies.syncing.topics import make_copies
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed

OPEN_S = 5.0
"""Time limit for a transaction that is open in the new copy: only this reversal waits for it."""
_WOULD_LIE_IN_COPY = "its end would be written into what becomes a copy"


def reversed_mirror(old: Mirror, link: str, since: str, by: str) -> Mirror:
    """The mirror in the other direction, linked by the operation `link`."""
    new = Mirror.of(old.topic, old.target, old.source, link, since, by, **old.policy)
    return new.changed(log=old.log, log_partitions=old.log_partitions)


def prepare_reversal(
    environment: Environment,
    old: Mirror,
    bases: Mapping[int, int],
    new: Mirror,
    still_ours: Callable[[], None] = lambda: None,
) -> None:
    """Prepare everything but the document: the copies of `new` begin at the ends of those of `old`. Safe to repeat.

    :param bases: partition → offset of the new writer's log at which its own records begin.
    :param still_ours: raises if another executor continues; called before the copies are fenced.
    :raises KafkaAdminError: a cluster cannot be asked, does not have the topic, or a transaction is open in it.
    :raises CopyDamagedError: the notes of the old mirror do not show the places of its records, or the old source has
        lost mirrored records, or may lose them to its cleaner.
    """
    writer, standby = (admin_of(environment, name) for name in (new.source, new.target))
    notes = notes_of(writer, old, bases)
    require_none_open(environment, standby, [(old.topic, partition) for partition in bases], OPEN_S, _WOULD_LIE_IN_COPY)
    compacted = any(is_compacted(admin, old.topic) for admin in (writer, standby))
    ensure_copy_log(standby, new.log, new.log_partitions)
    # Before the mirror is written: after that it is copied with the times and sizes of its source.
    make_copies(environment, writer, standby, {old.topic: new}, still_ours, keyless=False)
    still_ours()

    def first(fenced: Fenced) -> Iterator[Note]:
        partition = fenced.copy.id.partition
        base = bases[partition]
        progress, runs = state_at(writer, notes[partition], base)
        at = last_mirrored(runs)
        last = (piece.batch for piece in standby.log((old.topic, partition), at, at + 1))
        cleaned = standby.log((old.topic, partition), at + 1, fenced.end, committed=True) if compacted else None
        pages, begun = reversed_notes(progress, runs, base, fenced.writer, fenced.end, last, cleaned)
        yield from pages
        yield begun

    standby.seed(copies_of(new, sorted(bases)), first)


def is_compacted(admin: Admin, topic: str) -> bool:
    """One of both is enough: a copy gets the settings of its source."""
    description = admin.topics([topic], offsets=False).get(topic)
    return description is not None and "compact" in description.config.get("cleanup.policy", "")


def notes_of(writer: Admin, old: Mirror, partitions: Collection[int]) -> dict[int, Notes]:
    """Partition → notes of its copy in the new writer, with the whole map; each part of the copy log is read once."""
    by_log = grouped((copy.log, copy.id) for copy in copies_of(old, sorted(partitions)))
    read = (writer.read_notes(log, dict.fromkeys(ids, 0), whole_map=True) for log, ids in by_log.items())
    return {id_.partition: notes for some in read for id_, notes in some.items()}


def state_at(writer: Admin, known: Notes, base: int) -> tuple[Progress, tuple[Run, ...]]:
    """How far a copy was that became the writer, and all its runs.

    :param base: its first own offset.
    :raises CopyDamagedError: its notes do not cover everything below.
    """
    start = base if known.progress is None else known.progress.target
    tail = (piece.batch for piece in writer.log((known.copy.topic, known.copy.partition), start, base))
    return copied_below(known, tail, base)


FAILURES = (KafkaAdminError, CopyDamagedError)
"""Reasons why a mirror cannot be reversed now."""


LOOK_S = 0.1


def require_none_open(
    environment: Environment, admin: Admin, partitions: Collection[Partition], wait_s: float, why: str
) -> None:
    """Wait until no transaction is open in logs that become copies, or are written to again.

    If a topic leaves a cluster by force during a transaction, only the coordinator ends it, after its timeout. Until
    then the marker would be written into a copy; or, if the topic returns, the client could still commit records that
    no extent has, and the commit would be acknowledged. No client may append to these logs meanwhile.

    :param why: the harm that an open one would do.
    :raises StandsInTheWayError: one stays open.
    """
    deadline = environment.monotonic() + wait_s
    while restless := sorted(key for key, ends in admin.ends(partitions).items() if ends.open_transaction):
        if environment.monotonic() >= deadline:
            (topic, partition), named = restless[0], listed(_open_words(admin, restless))
            raise StandsInTheWayError(
                admin.cluster.name,
                f"a transaction is open in {named}, and {why}. Its coordinator ends it after its producer's "
                f"transaction.timeout.ms; `kafka-transactions.sh --bootstrap-server {admin.cluster.bootstrap} abort "
                f"--topic {topic} --partition {partition} --start-offset OFFSET` ends it at once. Then run this again.",
            )
        environment.sleep(LOOK_S)


def _open_words(admin: Admin, partitions: Collection[Partition]) -> list[str]:
    """With producers and offsets, if brokers list them (from 2.8 on)."""
    try:
        facts = admin.producers(partitions)
    except UnsupportedByClusterError:
        facts = {}
    return [
        f"{topic}-{partition}"
        + "".join(
            f" (producer {producer_facts.producer_id}, since offset {producer_facts.transaction_start_offset})"
            for producer_facts in facts.get((topic, partition), ())
            if producer_facts.in_transaction
        )
        for topic, partition in partitions
    ]
