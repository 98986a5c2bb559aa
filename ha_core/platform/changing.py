"""Changes are made together or not at all, and only if every entry still has the expected version."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, delete, exists, insert, select, update

from ha_core.platform.database import Database
from ha_core.platform.entry import KINDS, Entry, Reference, first_problem, kind_of
from ha_core.platform.errors import InvalidError, NotThereError, StaleVersionError, StillUsedError
from ha_core.platform.reading import newest
from ha_core.platform.stored import StoredEntry, sealed_of
from ha_core.platform.tables import CHANGES, CLOCK, ENTRIES, MENTIONS, TYPE_VERSIONS
from ha_core.platform.words import Name, Reason, short

MAX_EDITS = 10_000
"""Edits in one transaction: about ten seconds, in which no other writer gets in."""
_WHY: TypeAdapter[str] = TypeAdapter(Reason)
_WHO: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True, slots=True)
class Edit:
    """
    :ivar entry: the new value; None: delete it.
    :ivar version: the expected version; None: it must not exist.
    """

    kind: str
    key: str
    entry: Entry | None
    version: int | None


def put(entry: Entry, version: int | None = None) -> Edit:
    return Edit(entry.KIND, entry.key, entry, version)


def wall_clock_us() -> int:
    return time.time_ns() // 1000


class Changer:
    def __init__(self, database: Database, clock_us: Callable[[], int] = wall_clock_us) -> None:
        self._database = database
        self._clock_us = clock_us

    def apply(self, edits: Sequence[Edit], by: str, reason: str, dry_run: bool = False) -> tuple[StoredEntry, ...]:
        """Returns the entry after each edit. An edit that changes nothing makes no version.

        :param dry_run: check everything, write nothing.
        :raises StaleVersionError: another caller has changed one of the entries.
        :raises InvalidError: the reason is missing, or a required entry does not exist.
        :raises StillUsedError: another entry needs one that is to be deleted.
        """
        _require_sound(edits, by, reason)
        with self._database.writing(kept=not dry_run) as connection:
            return _Round(connection, self._clock_us, by, reason).run(edits)


class _Round:
    """One transaction, under the lock of the clock."""

    def __init__(self, connection: Connection, clock_us: Callable[[], int], by: str, reason: str) -> None:
        self._connection = connection
        self._by, self._reason = by, reason
        row = connection.execute(select(CLOCK.c.last_us, CLOCK.c.seal).with_for_update()).one()
        self._last_us: int = row.last_us
        self._seal: str | None = row.seal
        self._clock_us = clock_us

    def run(self, edits: Sequence[Edit]) -> tuple[StoredEntry, ...]:
        made = tuple(self._one(edit) for edit in edits)
        # Checked after all edits: one of them may create what another one needs, or delete what needs it.
        self._require_needed(edits)
        self._require_unneeded(edits)
        self._connection.execute(update(CLOCK).values(last_us=self._last_us, seal=self._seal))
        return made

    def _one(self, edit: Edit) -> StoredEntry:
        stored_entry = newest(self._connection, edit.kind, edit.key)
        exists_now = stored_entry is not None and stored_entry.entry is not None
        current = stored_entry.version if stored_entry is not None and exists_now else None
        if edit.version != current:
            if edit.entry is None and current is None:
                raise NotThereError(f"{edit.kind} {short(edit.key)} is not there, or was deleted")
            raise StaleVersionError(edit.kind, edit.key, edit.version, current)
        entry = edit.entry
        if entry is not None and stored_entry is not None and stored_entry.entry is not None:
            entry = keeping_hidden(stored_entry.entry, entry)
            if entry.text() == stored_entry.entry.text():
                return stored_entry
        self._last_us = max(self._clock_us(), self._last_us + 1)
        version = (stored_entry.version if stored_entry is not None else 0) + 1
        made = StoredEntry(edit.kind, edit.key, version, self._last_us, self._by, self._reason, entry)
        self._write(made, stored_entry)
        for kind in filter(None, {_version_type(stored_entry.entry if stored_entry else None), _version_type(entry)}):
            self._raise_version(edit.kind, kind)
        return made

    def _write(self, made: StoredEntry, before: StoredEntry | None) -> None:
        of_entry = {"version": made.version, "changed_us": made.changed_us, "live": made.entry is not None}
        change = made.row()
        deleted = before.row()["value"] if made.entry is None and before is not None else None
        self._seal = sealed_of(change, deleted, self._seal).hash
        self._connection.execute(insert(CHANGES).values(**change, seal=self._seal))
        if before is None:
            self._connection.execute(insert(ENTRIES).values(kind=made.kind, key=made.key, **of_entry))
        else:
            where = (ENTRIES.c.kind == made.kind, ENTRIES.c.key == made.key)
            self._connection.execute(update(ENTRIES).where(*where).values(**of_entry))
            self._connection.execute(delete(MENTIONS).where(MENTIONS.c.kind == made.kind, MENTIONS.c.key == made.key))
        mentions = set(made.entry.mentions()) if made.entry is not None else set()
        if mentions:
            rows = [{"kind": made.kind, "key": made.key, **reference._asdict()} for reference in mentions]
            self._connection.execute(insert(MENTIONS), rows)

    def _raise_version(self, kind: str, type_: str) -> None:
        of_type = (TYPE_VERSIONS.c.kind == kind, TYPE_VERSIONS.c.type == type_)
        raised = update(TYPE_VERSIONS).where(*of_type).values(version=TYPE_VERSIONS.c.version + 1)
        if not self._connection.execute(raised).rowcount:
            self._connection.execute(insert(TYPE_VERSIONS).values(kind=kind, type=type_, version=1))

    def _require_needed(self, edits: Sequence[Edit]) -> None:
        needed = {mention for edit in edits if edit.entry is not None for mention in edit.entry.mentions()}
        missing = [reference for reference in sorted(needed) if reference.needed and not self._exists(reference)]
        if missing:
            names = ", ".join(f"{reference.role} {short(reference.name)}" for reference in missing[:10])
            raise InvalidError(
                f"these do not exist: {names}; register them first (a group exists while a user names it)",
                missing=[{"role": reference.role, "name": reference.name} for reference in missing],
            )

    def _exists(self, needed: Reference) -> bool:
        home = next((kind for kind in KINDS.values() if needed.role == kind.ROLE), None)
        if home is None:
            there = exists().where(
                MENTIONS.c.role == needed.role, MENTIONS.c.name == needed.name, MENTIONS.c.needed.is_(False)
            )
        else:
            there = exists().where(ENTRIES.c.kind == home.KIND, ENTRIES.c.key == needed.name, ENTRIES.c.live.is_(True))
        return bool(self._connection.execute(select(there)).scalar())

    def _require_unneeded(self, edits: Sequence[Edit]) -> None:
        for edit in edits:
            role = kind_of(edit.kind).ROLE
            if edit.entry is not None or not role:
                continue
            found = self._connection.execute(
                select(MENTIONS.c.kind, MENTIONS.c.key)
                .where(MENTIONS.c.role == role, MENTIONS.c.name == edit.key, MENTIONS.c.needed.is_(True))
                .limit(100)
            ).all()
            if found:
                counts = {kind: sum(row.kind == kind for row in found) for kind in sorted({row.kind for row in found})}
                named_by = ", ".join(f"{count} {kind}" for kind, count in counts.items())
                more = " or more" if len(found) == 100 else ""
                raise StillUsedError(
                    f"{edit.kind} {short(edit.key)} is still named by {named_by}{more}: delete those first",
                    named_by=[{"kind": row.kind, "key": row.key} for row in found],
                )


def _require_sound(edits: Sequence[Edit], by: str, reason: str) -> None:
    if not 1 <= len(edits) <= MAX_EDITS:
        raise InvalidError(f"{len(edits)} changes at once: give 1 to {MAX_EDITS}")
    for what, checked, value in (("reason", _WHY, reason), ("by", _WHO, by)):
        try:
            checked.validate_python(value)
        except ValidationError as error:
            raise InvalidError(f"{what}: {first_problem(error)}") from None
    if twice := _twice((edit.kind, edit.key) for edit in edits):
        raise InvalidError(f"{twice[0]} {short(twice[1])} is changed twice at once: give the last change only")


def _twice(keys: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    seen: set[tuple[str, str]] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _version_type(entry: Entry | None) -> str:
    return entry.version_type() if entry is not None else ""


def keeping_hidden(before: Entry, after: Entry) -> Entry:
    """The new value, with the hidden fields of the old one where it has none."""
    unsaid = after.HIDDEN - after.model_fields_set
    return after.model_copy(update={name: getattr(before, name) for name in unsaid}) if unsaid else after
