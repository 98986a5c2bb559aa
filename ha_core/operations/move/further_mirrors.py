"""Further mirrors of topics that a switch has moved to a copy: they go on from the new writer, or are kept out.

The cut has ended them: their source gets no more records. Before the former writer becomes a copy, each is repointed
(`operations/copies/repointing`). One that cannot be is left as it is: its copiers are fenced, its guard is removed, no
client is led there, and the result says why, and what it has that the new writer lacks. No client waits for this.
"""

from ha_core.kafka.errors import ClusterUnreachableError, TakenOverError
from ha_core.model import LostTail, Mirror, SwitchOperation
from ha_core.operations.copies.repointing import FAILURES, prepare_repointing, repointed_mirror
from ha_core.operations.copies.taken import fence_copiers
from ha_core.operations.copies.writers import open_ended_copies
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import Touched
from ha_core.plan.absence.reconciled import old_mirror
from ha_core.plan.engine.revision import Documents
from ha_core.plan.mirror.held_copies import to_repoint

ATTEMPTS = 3
"""A copier that stood still when its mirror ended may take its copy over once more."""


def repoint_all(journal: Journal[SwitchOperation]) -> None:
    """Prepare each, then write all mirrors in one revision. Safe to repeat."""
    if not journal.operation.evidence.further:
        return
    operation, environment = journal.operation, journal.environment
    with journal.step("repoint") as seen:
        touched = Touched.read(journal)
        made, kept_out, away = list[Mirror](), dict(operation.evidence.kept_out), dict[str, str]()
        for other in to_repoint(operation, touched.view):
            new = repointed_mirror(other, journal.request.target, operation.id, environment.now(), operation.by)
            # One look at a cluster that does not answer is enough for all of its copies.
            if why := away.get(other.target, "") or _prepare(journal, other, new, away):
                environment.say(f"the mirror of {other.topic} in {other.target} does not go on: {why}")
                kept_out[other.key] = why
            else:
                made.append(new)
        if kept_out != operation.evidence.kept_out:
            journal.note(kept_out=kept_out)
        if made:
            seen["revision"] = Touched.read(journal).commit(Documents((*made, journal.operation)), "repoint")
        seen.update(mirrors=[one.key for one in made], kept_out=kept_out)
        ended = journal.operation.evidence.ended_too
        fence_copiers(environment, ended)
        open_ended_copies(journal, ended)


def _prepare(journal: Journal[SwitchOperation], other: Mirror, new: Mirror, away: dict[str, str]) -> str:
    """Why the mirror is kept out; empty: it can be written.

    :param away: gets the cluster of the copy if that does not answer.
    """
    operation, environment, topic = journal.operation, journal.environment, other.topic
    if (damage := operation.evidence.partly.get(topic)) is not None:
        return f"only a part of the copy in {new.source} is known to be good ({damage})"
    chosen = _chosen(journal, topic)
    if chosen is None:
        return f"no copier had begun the copy in {new.source}"
    bases = {cut.partition: cut.base for cut in operation.evidence.cuts[topic]}
    whole = journal.request.mode == "planned"
    why = ""
    for _ in range(ATTEMPTS):
        try:
            prepare_repointing(environment, chosen, bases, other, new, whole, journal.still_ours)
        except TakenOverError as error:
            why = str(error)
        except FAILURES as error:
            if isinstance(error, ClusterUnreachableError) and error.cluster == other.target:
                away[other.target] = str(error)
            return str(error)
        else:
            environment.store.pass_on_brought(new.key, other.link, new.link)
            return ""
    return why


def _chosen(journal: Journal[SwitchOperation], topic: str) -> Mirror | None:
    """The mirror whose copy became the writer, as the cut has kept it; None: it had no copy to speak of."""
    operation = journal.operation
    if (ended := operation.evidence.ended.get(topic)) is not None:
        return ended
    key = LostTail.key_of(topic, operation.request.origin, operation.id)
    found = journal.environment.store.read(LostTail, key)
    return None if found is None else old_mirror(found[0])
