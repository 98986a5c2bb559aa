"""The forced end of a crossing: its origin has died, and its topics go on in the target.

Nothing is asked of the origin. It may be killed anywhere: until its one revision the fence is lifted and the crossing
stands as before; after it the topics have crossed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import LogEnds
from ha_core.model import Extent, MoveSet, Topic
from ha_core.model.operation import Unread
from ha_core.operations.crossing.below import Below, kept_below, without_below
from ha_core.operations.crossing.fence import lift
from ha_core.operations.crossing.steps import CrossingSteps, reopen
from ha_core.operations.errors import RefusedError
from ha_core.operations.gateways import await_drained
from ha_core.operations.journal import Journal
from ha_core.operations.last_seen import LastKnown
from ha_core.operations.moving import patiently
from ha_core.operations.revisions import Touched, by_topic, in_parts, in_revisions
from ha_core.operations.sides import PROBE_S
from ha_core.plan.crossing import hold_change
from ha_core.plan.crossing_stages import BACK, crossings, fenced, stages
from ha_core.plan.crossing_without_origin import crossed_with, end_change
from ha_core.plan.facts import Partition, Surplus
from ha_core.plan.revision import FINAL

READ_S = 120.0
DYING_S = 2.0


def end_without_origin(journal: Journal, unread: Unread, force: bool) -> None:
    """End the crossing of every topic of the operation that stands in it; what has crossed over stays as it is.

    :param unread: what readers below the cuts do.
    :param force: take the origin for dead although it answers.
    :raises RefusedError: the origin answers, or no cut of the operation was ever proposed.
    :raises NotDrainedError, KafkaAdminError: the crossing stands as before.
    """
    operation, request = journal.operation, journal.request
    if operation.state in FINAL | {"cut"}:
        return
    _require_lost(journal, force)
    topics = Touched.read(journal).view.topics
    if any(fenced(operation, topic) for topic in topics.values()):
        lift(journal)
    if journal.operation.state == "undoing":
        if not journal.operation.crossing.retreated:
            effects = CrossingSteps(journal, "interrupted on the way back")
            for step in BACK[1:]:
                effects.perform(step)  # the target was never written, so the origin has nothing to say to it
            raise RefusedError(
                f"Operation {operation.id} was on its way back, and is undone now. {_afterwards(request.origin)}"
            )
        reopen(journal, f"{request.origin} is taken for dead")
    topics = Touched.read(journal).view.topics
    found = stages(journal.operation, topics)
    if "ahead" in found.values():
        raise RefusedError(
            f"Operation {operation.id} has not proposed its cuts yet: `switchyard undo {operation.id}`. "
            f"{_afterwards(request.origin)}"
        )
    names = [name for name, one in found.items() if one in {"proposed", "open"}]
    for run in in_revisions(journal, names, topics):
        in_parts(run, partial(_end, journal, unread))


def _afterwards(origin: str) -> str:
    return f"Its topics are those of {origin} again: `switchyard migrate-from-fault` gives them a new home."


def _require_lost(journal: Journal, force: bool) -> None:
    environment, request = journal.environment, journal.request
    cluster = environment.store.load().clusters.get(request.origin)
    if force or cluster is None or cluster.masked is not None:
        return
    if environment.admin(cluster).probe(timeout_s=PROBE_S).reachable:
        raise RefusedError(
            f"Nothing was changed. Origin {request.origin} answers: `switchyard resume {journal.operation.id}` goes on "
            "with what it says, and loses nothing. To take it for dead all the same, say --force."
        )


def _end(journal: Journal, unread: Unread, names: Sequence[str]) -> None:
    environment, request = journal.environment, journal.request
    touched = Touched.read(journal)
    topics = touched.view.topics
    sides = {(name, p): (origin, there) for name in names for p, origin, there in crossings(topics[name])}
    known = LastKnown.read(environment, request.origin, MoveSet(topics=tuple(names)))
    written = _Written(journal.target, sides)
    written.read()
    begun = environment.monotonic()
    try:
        revision = touched.commit(hold_change(journal.operation, touched.view, names, "proposed", "open"), "hold")
        await_drained(environment, revision, journal.operation.id, request.drain_timeout_s)
        written.read()
        here = _last_words(journal, sides)
        ends = {key: known.ends(environment, key, end, here.get(key)) for key, end in written.ends.items()}
        below = {key: found for key, found in kept_below(journal).items() if key in sides}
        below.update({key: found for key, found in written.below().items() if below.get(key) is None})
        producers = {key: found for key, found in below.items() if found is not None}
        operation = without_below(journal.operation, names)
        documents = end_change(operation, touched.view, names, ends, producers, unread, read_ms=environment.now_ms())
        revision = touched.commit(documents, "finish")
    except BaseException:
        patiently(environment, lambda: lift(journal))
        raise
    fenced_ms = (environment.monotonic() - begun) * 1000
    journal.update(revision=revision)
    after = {put.name: put for put in documents.puts if isinstance(put, Topic)}
    detail = _said(after.values(), sides, request.origin)
    journal.append(
        "finish",
        "done",
        fenced_ms,
        {"revision": revision, "topics": list(names), "status": "Migrated", "without": request.origin, "unread": unread}
        | detail,
    )
    environment.say(
        f"finish {fenced_ms:.1f} ms without {request.origin} ({len(names)} topics, {revision=}): what it alone held "
        f"below the cuts {'is skipped' if unread == 'skip' else 'is waited for'} until it returns"
    )


class _Written:
    """The target's ends, and who has written there since the cuts: read before the fence, and its rest behind it."""

    def __init__(self, target: Admin, sides: Mapping[Partition, tuple[Extent, Extent]]) -> None:
        self.ends: dict[Partition, int] = {key: there.base for key, (_, there) in sides.items()}
        self._target, self._sides = target, sides
        self._found: dict[Partition, Surplus] = {}

    def read(self) -> None:
        before = self.ends
        now = {key: one.log_end for key, one in self._target.ends(list(self._sides)).items()}
        regions = {key: (before[key], end) for key, end in now.items() if end > before[key]}
        for key, more in (self._target.surplus(regions, timeout_s=READ_S) if regions else {}).items():
            had = self._found.get(key, Surplus())
            self._found[key] = Surplus({**more.first, **had.first}, had.whole and more.whole)
        self.ends = now

    def below(self) -> Below:
        return {
            key: crossed_with(found, self._sides[key][1], self._sides[key][0]) for key, found in self._found.items()
        }


def _last_words(journal: Journal, keys: Iterable[Partition]) -> dict[Partition, int]:
    """Log ends of an origin that is taken for dead and answers all the same."""
    found: Mapping[Partition, LogEnds] = {}
    with suppress(KafkaAdminError, RefusedError):
        origin = journal.origin
        if origin.probe(timeout_s=DYING_S).reachable:
            found = origin.ends(list(keys), timeout_s=DYING_S)
    return {key: one.log_end for key, one in found.items()}


def _said(
    topics: Iterable[Topic], sides: Mapping[Partition, tuple[Extent, Extent]], origin: str
) -> dict[str, dict[str, dict[int, list[int]]]]:
    """For the history: partition → known end and cut, between which nobody knows what the origin held."""
    ends: dict[Partition, list[int]] = {}
    for topic in topics:
        for partition, extents in topic.partitions.items():
            last = extents[-2] if len(extents) > 1 else None
            if (topic.name, partition) in sides and last is not None and last.cluster == origin:
                ends[topic.name, partition] = [last.known_end or last.start, extents[-1].start]
    return {"known_end_and_cut": by_topic(ends)}
