"""Repoints further mirrors of a topic whose writer has changed: each goes on from the new writer, from where it is.

A standby that is not chosen in a switch is no worse than before. Its copy has records of the old writer, and the chosen
copy has them too, so nothing of it is copied again (`ha_core.mirror.repointing`). Its earlier copiers are fenced first,
so that the copy does not change while it is looked at, and gets nothing that is written to the old source later.

After a crash it is repeated: a copy that is fenced is fenced again, and notes are written once.
"""

from collections.abc import Callable, Iterator, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, TopicMissingError
from ha_core.kafka.takeover import CopyPartition, Fenced
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import Note
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror.repointing import CopyState, only_in, repointed_notes, require_one_source, surplus
from ha_core.model import Mirror
from ha_core.operations.copies.reversal import is_compacted, notes_of, state_at
from ha_core.operations.copies.taken import begun_copies
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.verdict import amount, listed


class SurplusError(Exception):
    """The copy has records that the new writer lacks, or may have: it does not go on from there."""


FAILURES = (KafkaAdminError, CopyDamagedError, RefusedError, SurplusError)
"""Reasons why a mirror cannot be repointed."""


def repointed_mirror(other: Mirror, writer: str, link: str, since: str, by: str) -> Mirror:
    """The mirror from the new writer to the same copy, linked by the operation `link`."""
    new = Mirror.of(other.topic, writer, other.target, link, since, by, **other.policy)
    return new.changed(log=other.log, log_partitions=other.log_partitions)


def prepare_repointing(
    environment: Environment,
    chosen: Mirror,
    bases: Mapping[int, int],
    other: Mirror,
    new: Mirror,
    whole: bool,
    still_ours: Callable[[], None] = lambda: None,
) -> None:
    """Prepare everything but the document: the copies of `new` are those of `other`, and begin where these are. Safe to
    repeat until the document is written.

    :param chosen: the mirror whose copy became the writer.
    :param bases: partition → offset of the new writer's log at which its own records begin.
    :param other: a mirror of the source of `chosen`.
    :param whole: the new writer has all committed records of that source.
    :param still_ours: raises if another executor continues; called before the copies are fenced.
    :raises KafkaAdminError: a cluster cannot be asked, or does not have the topic.
    :raises CopyDamagedError: the notes do not show the places of the records of one of both copies.
    :raises SurplusError: the copy has records that the new writer lacks.
    """
    writer, standby = (admin_of(environment, name) for name in (new.source, new.target))
    there = standby.topics([other.topic], offsets=False).get(other.topic)
    if there is None:
        raise TopicMissingError(other.target, f"topic {other.topic} does not exist, so there is no copy.")
    still_ours()
    here = _taken(environment, standby, copies_of(other, [p for p in sorted(bases) if p < there.partitions]))
    if not here:
        return  # no copier has begun: the first one of the new mirror does
    notes = notes_of(writer, chosen, here)
    states = {partition: CopyState(*state_at(writer, notes[partition], bases[partition])) for partition in here}
    for partition, state in here.items():
        require_one_source(states[partition].progress, state.progress)
    _require_no_surplus(other, new.source, states, here)
    if not whole and any(is_compacted(admin, other.topic) for admin in (writer, standby)):
        _require_nothing_else(other, new.source, states, here)

    def first(fenced: Fenced) -> Iterator[Note]:
        partition = fenced.copy.id.partition
        pages, begun = repointed_notes(states[partition], here[partition], bases[partition], fenced.writer, fenced.end)
        yield from pages
        yield begun

    standby.seed(copies_of(new, sorted(here)), first)


def _taken(environment: Environment, standby: Admin, copies: list[CopyPartition]) -> dict[int, CopyState]:
    """Partition → state of its copy, which no earlier copier changes any more; those that are not begun are missing.

    :raises CopyDamagedError: one holds records of no copier, or has lost records.
    """
    begun, without_log = begun_copies(environment, standby, copies)
    for (topic, partition), log in sorted(without_log.items()):
        raise CopyDamagedError(f"{topic}-{partition} holds records, and the log with their offsets ({log}) is missing")
    states = {}
    for id_, found in standby.take_over(begun, whole_map=True).items():
        if isinstance(found, CopyDamagedError):
            raise found
        if found.progress is not None:
            states[id_.partition] = CopyState(found.progress, found.runs)
    return states


def _require_no_surplus(
    other: Mirror, writer: str, states: Mapping[int, CopyState], here: Mapping[int, CopyState]
) -> None:
    found = {partition: surplus(states[partition], state) for partition, state in sorted(here.items())}
    more = {partition: one for partition, one in found.items() if one is not None}
    if more:
        where = listed(f"{other.topic}-{partition} from offset {one.offset} on" for partition, one in more.items())
        raise SurplusError(
            f"it has {amount(sum(one.records for one in more.values()), 'record')} of {other.source} that {writer} "
            f"lacks ({where})"
        )


def _require_nothing_else(
    other: Mirror, writer: str, states: Mapping[int, CopyState], here: Mapping[int, CopyState]
) -> None:
    """In a compacted topic a record that the writer lacks removes those of its key that both have."""
    records = sum(only_in(states[partition], state) for partition, state in here.items())
    if records:
        raise SurplusError(
            f"the topic is compacted, and the copy has {amount(records, 'record')} of {other.source} that {writer} "
            "lacks: for their sake its brokers take away what both have of their keys"
        )
