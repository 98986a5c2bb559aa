"""Single operations, each of one revision: masking, bindings, aging of old extents. Locks and history as for a switch.

The operation's document becomes `cut` in the very revision that makes the change, so that an executor that resumes it
knows whether the change was made.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, get_args

from ha_core.model import (
    Cluster,
    DirectGroups,
    Document,
    FlowDeclaration,
    LastSequences,
    LostTail,
    Mirror,
    MirrorPattern,
    SingleOperation,
    StrictHistory,
    Topic,
    UserBindings,
)
from ha_core.model.evidence import SingleEvidence
from ha_core.model.operation import SingleKind
from ha_core.operations.engine.await_gateways import SERVED_S, name_them, serves, wait_for_all
from ha_core.operations.engine.creating import require_sealable
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import Journal, new_operation_id
from ha_core.operations.engine.kind import Kind
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.engine.revisions import Touched, in_batches
from ha_core.plan.engine.revision import FINAL, Documents, entering
from ha_core.plan.facts.verdict import listed
from ha_core.store.commits import Key, key_of
from ha_core.store.errors import ConflictError, LockedError

MAX_NAMED = 20
"""Limit of names in an operation's document."""
Expected = Mapping[Key, int | None]
SERVED = "served by every gateway"


LOCKS: Mapping[type[Document], Callable[[str], str]] = {
    Cluster: "cluster:{}".format,
    Topic: "topic:{}".format,
    UserBindings: "user:{}".format,
    Mirror: lambda key: f"topic:{key.partition('@')[0]}",
    LostTail: lambda key: f"topic:{key.partition('@')[0]}",
    LastSequences: "topic:{}".format,
    MirrorPattern: "pattern:{}".format,
    FlowDeclaration: "flows:{}".format,
    DirectGroups: "group:{}".format,
    StrictHistory: "history:{}".format,
}
"""Document changed in the revision → its lock."""


def begin_single(
    environment: Environment, kind: SingleKind, reason: str, lock_keys: Sequence[str], deletes_in: str = ""
) -> Journal[SingleOperation]:
    """:raises LockedError: another operation has locked one of the keys. Nothing was changed.
    :raises RefusedError: it could not be sealed, and the history is strict.
    """
    if kind != "strict-history":
        require_sealable(environment)
    now = environment.now()
    operation = SingleOperation(
        id=new_operation_id(kind, now),
        kind=kind,
        state="running",
        by=environment.by,
        **environment.provenance.model_dump(),
        reason=reason,
        started=now,
        evidence=SingleEvidence(about=tuple(lock_keys[:MAX_NAMED]), deletes_in=deletes_in),
    )
    return Journal(environment, operation, environment.store.create_operation(operation, lock_keys))


@contextmanager
def beginning(
    environment: Environment, kind: SingleKind, reason: str, lock_keys: Sequence[str]
) -> Iterator[Journal[SingleOperation]]:
    """An operation with its locks, held while its revision is made. A failure before the commit leaves it undone.

    :raises LockedError: nothing was changed.
    """
    journal = begin_single(environment, kind, reason, lock_keys)
    try:
        with environment.store.hold(journal.operation.id, journal.epoch):
            yield journal
    except BaseException:
        # Only the store knows whether a commit without an answer was made. If it is `cut`, the next executor continues.
        left = environment.operation(journal.operation.id)
        if left is not None and left.state == "running":
            journal.finish("undone", "nothing was changed")
        raise


def commit_single(
    journal: Journal[SingleOperation], puts: Sequence[Document], expected: Expected, seen: dict[str, Any]
) -> None:
    """The one revision of a single operation.

    :param expected: the changed documents with the versions on which this rests. Those not in `puts` are deleted.
    :param seen: gets the revision.
    """
    written = set(map(key_of, puts))
    deletes = tuple(key for key in expected if key not in written)
    touched = Touched.read(journal)
    touched.versions.update(expected)
    documents = Documents((*puts, entering(journal.operation, "cut")), deletes)
    seen["revision"] = revision = touched.commit(documents, journal.operation.kind)
    journal.update(revision=revision)


def run_single(
    environment: Environment,
    kind: SingleKind,
    reason: str,
    puts: Sequence[Document],
    expected: Expected,
    detail: Mapping[str, Any],
) -> Report:
    """Lock, commit one revision, wait until every gateway serves it, release.

    :param expected: the changed documents with the versions on which this rests. Those not in `puts` are deleted.
    :raises LockedError, ConflictError: nothing was changed.
    :raises StoreUnavailableError: as far as is known nothing was changed; if it was, orphan recovery ends the
        operation.
    """
    keys = [LOCKS[document](name) for document, name in expected]
    with beginning(environment, kind, reason, keys) as journal:
        with journal.step(kind) as seen:
            seen.update(detail)
            commit_single(journal, puts, expected, seen)
        await_served(journal)
        return report_of(environment, journal.operation)


class Single(Kind):
    """Every kind of single operation. Until its one revision is committed there is nothing to take back."""

    names = get_args(SingleKind)

    def advance(self, journal: Journal[SingleOperation]) -> None:
        if journal.operation.state == "cut":
            self.end(journal)
        elif journal.operation.state in FINAL:
            journal.release()
        else:
            journal.finish("undone", "interrupted before anything was changed")

    def end(self, journal: Journal[SingleOperation]) -> None:
        """The part after its revision."""
        await_served(journal)

    def take_back(self, journal: Journal[SingleOperation], why: str) -> bool:
        journal.finish("undone", why)
        return True


def await_served(journal: Journal[SingleOperation]) -> None:
    """From the committed change to the end: wait for the gateways, write the result, release the locks."""
    if why := unserved(journal):
        journal.finish("failed", why)
    else:
        journal.finish("succeeded", SERVED)


def unserved(journal: Journal[SingleOperation]) -> str:
    """Wait for the gateways. Empty: all serve the change; else the text for the operator."""
    revision = journal.cut_revision()
    with journal.step("serve") as seen:
        late = wait_for_all(journal.environment, serves(revision), SERVED_S)
        seen["behind"] = [gateway.id for gateway in late]
    if not late:
        return ""
    return (
        f"Revision {revision} is in force, but not every gateway serves it yet: {name_them(late)}. "
        "Look at these gateways; they apply it, or stop serving when their lease ends."
    )


def write_maps(
    environment: Environment,
    kind: SingleKind,
    reason: str,
    names: Iterable[str],
    changed: Callable[[Topic], Topic | None],
    heading: str,
    evidence: Mapping[str, Any],
    put_off: list[str],
    **detail: str,
) -> tuple[Report, ...]:
    """Write the topics' maps after `changed`, one operation for each batch. Safe to break off and repeat.

    :param changed: gets the map as stored now; None: it differs from the judged one, and is put off.
    :param evidence: topic → detail for the history, JSON-able; below `heading`.
    :param put_off: gets the text of each map that was not written.
    :param detail: for the history, with every batch.
    """
    versions: dict[str, int] = {}

    def maps() -> Iterator[Topic]:
        for name in sorted(names):
            stored = environment.store.read(Topic, name)
            after = changed(stored[0]) if stored is not None else None
            if stored is None or after is None:
                put_off.append(f"{name}: its map has changed since it was judged")
            elif after != stored[0]:
                versions[name] = stored[1]
                yield after

    reports = []
    for batch in in_batches(maps(), evidence):
        note = {**detail, heading: {topic.name: evidence.get(topic.name, []) for topic in batch}}
        expected: Expected = {(Topic, topic.name): versions[topic.name] for topic in batch}
        try:
            reports.append(run_single(environment, kind, reason, batch, expected, note))
        except (LockedError, ConflictError) as error:
            put_off.append(f"{listed(topic.name for topic in batch)}: {error}")
    return tuple(reports)
