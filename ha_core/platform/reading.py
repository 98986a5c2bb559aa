"""Queries: single entries, pages, histories, and settings by their versions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, exists, func, select

from ha_core.model.seal import NONE_BEFORE
from ha_core.platform.database import Database
from ha_core.platform.entry import KINDS, kind_of
from ha_core.platform.errors import InvalidError, NotThereError
from ha_core.platform.stored import EntryPage, RecordedChange, StoredEntry, sealed_of, stored_of
from ha_core.platform.tables import CHANGES, CLOCK, ENTRIES, MENTIONS, TYPE_VERSIONS
from ha_core.platform.words import short, storable

MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class OfType:
    """:ivar values: by key; None if the reader has this version."""

    version: int
    values: Mapping[str, Mapping[str, Any]] | None


class EntryReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, kind: str, key: str) -> StoredEntry:
        """:raises NotThereError: it does not exist, or was deleted."""
        entry = self.find(kind, key)
        if entry is None:
            raise NotThereError(f"{kind} {short(key)} does not exist, or was deleted")
        return entry

    def find(self, kind: str, key: str) -> StoredEntry | None:
        """The entry; None if it does not exist."""
        kind_of(kind)
        with self._database.reading() as connection:
            entry = newest(connection, kind, key)
        return entry if entry is not None and entry.entry is not None else None

    def newest_us(self) -> dict[str, int]:
        """Time of the newest change by kind; 0: none. One index look-up per kind."""
        with self._database.reading() as connection:
            return {
                kind: connection.execute(select(func.max(CHANGES.c.changed_us)).where(CHANGES.c.kind == kind)).scalar()
                or 0
                for kind in sorted(KINDS)
            }

    def has_change_at(self, kind: str, at_us: int) -> bool:
        """Whether a change of the kind has exactly this time. Times are unique in a database."""
        query = exists().where(CHANGES.c.kind == kind, CHANGES.c.changed_us == at_us)
        with self._database.reading() as connection:
            return bool(connection.execute(select(query)).scalar())

    def page(
        self, kind: str, after: str = "", limit: int = MAX_PAGE, mentioned: Mapping[str, str] | None = None
    ) -> EntryPage:
        """Entries in the order of their keys.

        :param after: `after` of the page before.
        :param mentioned: role → name: only entries that mention all of these.
        """
        kind_of(kind)
        if not all(map(storable, (mentioned or {}).values())):
            return EntryPage((), None)
        if not storable(after):
            raise InvalidError(f"after {short(after)}: give `after` of the page before")
        query = _newest().where(ENTRIES.c.kind == kind, ENTRIES.c.key > after, ENTRIES.c.live.is_(True))
        for role, name in (mentioned or {}).items():
            query = query.where(
                exists().where(
                    MENTIONS.c.kind == kind,
                    MENTIONS.c.key == ENTRIES.c.key,
                    MENTIONS.c.role == role,
                    MENTIONS.c.name == name,
                )
            )
        return self._page(query.order_by(ENTRIES.c.key), limit, lambda stored: stored.key)

    def history(
        self, kind: str, key: str | None = None, before_us: int | None = None, limit: int = MAX_PAGE
    ) -> EntryPage:
        """Changes of one key or all, newest first. `after` of the page is the next one's `before_us`."""
        kind_of(kind)
        if key is not None and not storable(key):
            return EntryPage((), None)
        query = select(CHANGES).where(CHANGES.c.kind == kind)
        if key is not None:
            query = query.where(CHANGES.c.key == key)
        if before_us is not None:
            query = query.where(CHANGES.c.changed_us < before_us)
        return self._page(query.order_by(CHANGES.c.changed_us.desc()), limit, lambda stored: str(stored.changed_us))

    def with_before(self, stored: StoredEntry) -> dict[str, Any]:
        """The document of a change; that of a deletion has the value `before` it, too."""
        document = stored.to_json()
        if stored.entry is None:
            earlier = self.history(stored.kind, stored.key, stored.changed_us, 1).stored
            document["before"] = earlier[0].to_json()["value"] if earlier else None
        return document

    def changes(self, first: datetime | None = None, last: datetime | None = None) -> Iterator[RecordedChange]:
        """All changes of all kinds from `first` on and before `last`, in their order, a page of them at a time."""
        after_us = -1 if first is None else _us(first) - 1
        seal = self._seal_through(after_us)
        while True:
            query = select(CHANGES).where(CHANGES.c.changed_us > after_us)
            if last is not None:
                query = query.where(CHANGES.c.changed_us < _us(last))
            with self._database.reading() as connection:
                rows = connection.execute(query.order_by(CHANGES.c.changed_us).limit(MAX_PAGE)).all()
                deleted = {row.changed_us: _value_before(connection, row) for row in rows if row.value is None}
            for row in rows:
                change = row._asdict()
                sealed = sealed_of(change, deleted.get(row.changed_us), seal, row.seal)
                yield RecordedChange(stored_of(change), sealed)
                seal = row.seal or seal
            if len(rows) < MAX_PAGE:
                return
            after_us = rows[-1].changed_us

    def newest_seal(self) -> str:
        """Seal of the newest change, as its writer noted it beside the changes."""
        with self._database.reading() as connection:
            return connection.execute(select(CLOCK.c.seal)).scalar_one() or NONE_BEFORE

    def _seal_through(self, at_us: int) -> str | None:
        query = select(CHANGES.c.seal).where(CHANGES.c.changed_us <= at_us, CHANGES.c.seal.is_not(None))
        with self._database.reading() as connection:
            return connection.execute(query.order_by(CHANGES.c.changed_us.desc()).limit(1)).scalar()

    def type_versions(self, kind: str = "settings") -> dict[str, int]:
        """Version of each type that ever had a setting."""
        with self._database.reading() as connection:
            rows = connection.execute(select(TYPE_VERSIONS).where(TYPE_VERSIONS.c.kind == kind)).all()
        return {row.type: row.version for row in rows}

    def of_type(self, type_: str, known: int = 0, kind: str = "settings") -> OfType:
        """All settings of one type, unless its version is the `known` one. Version 0: it never had one."""
        query = _newest().where(
            ENTRIES.c.kind == kind,
            ENTRIES.c.live.is_(True),
            exists().where(
                MENTIONS.c.kind == kind,
                MENTIONS.c.key == ENTRIES.c.key,
                MENTIONS.c.role == "type",
                MENTIONS.c.name == type_,
            ),
        )
        version_of = select(func.max(TYPE_VERSIONS.c.version)).where(
            TYPE_VERSIONS.c.kind == kind, TYPE_VERSIONS.c.type == type_
        )
        with self._database.reading() as connection:
            # The version first: settings read after it are at least as new, and are read again if they are newer.
            version = connection.execute(version_of).scalar() or 0
            if version == known:
                return OfType(version, None)
            entries = [stored_of(row._asdict()) for row in connection.execute(query)]
        return OfType(version, {entry.key: entry.entry.summary() for entry in entries if entry.entry is not None})

    def _page(self, query: Select[Any], limit: int, place: Any) -> EntryPage:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidError(f"limit {limit}: pages have 1 to {MAX_PAGE} items")
        with self._database.reading() as connection:
            entries = tuple(stored_of(row._asdict()) for row in connection.execute(query.limit(limit + 1)))
        shown = entries[:limit]
        return EntryPage(shown, place(shown[-1]) if len(entries) > limit else None)


def _us(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


def newest(connection: Connection, kind: str, key: str) -> StoredEntry | None:
    """The newest version of a key, which may be its deletion; None: it never existed."""
    if not storable(key):
        return None
    row = connection.execute(_newest().where(ENTRIES.c.kind == kind, ENTRIES.c.key == key)).first()
    return None if row is None else stored_of(row._asdict())


def _value_before(connection: Connection, row: Row[Any]) -> str | None:
    """The stored value that a deletion has ended."""
    earlier = select(CHANGES.c.value).where(CHANGES.c.kind == row.kind, CHANGES.c.key == row.key)
    query = earlier.where(CHANGES.c.changed_us < row.changed_us).order_by(CHANGES.c.changed_us.desc()).limit(1)
    return connection.execute(query).scalar()


def _newest() -> Select[Any]:
    same = and_(CHANGES.c.kind == ENTRIES.c.kind, CHANGES.c.changed_us == ENTRIES.c.changed_us)
    return select(CHANGES).select_from(ENTRIES.join(CHANGES, same))
