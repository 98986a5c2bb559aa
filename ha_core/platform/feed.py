"""What gateways read: versions in the order of their change times, and a digest of the content at a time.

Every version is kept, deletions too. A reader that has all up to t lacks nothing that will ever have a time up to t:
times are allotted under the lock under which they are committed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select

from ha_core.datacache.core.digest import of_rows
from ha_core.datacache.core.source import MAX_US, Changes, Row
from ha_core.platform.database import Database
from ha_core.platform.entry import kind_of
from ha_core.platform.errors import InvalidError
from ha_core.platform.tables import CHANGES

MAX_ROWS = 10_000
_ROWS_AT_ONCE = 10_000


class DatabaseSource:
    """One kind, read from the database itself."""

    def __init__(self, database: Database, kind: str) -> None:
        """:raises InvalidError: there is no such kind."""
        self._database = database
        self._kind = kind_of(kind).KIND

    def changes(self, after_us: int, limit: int) -> Changes:
        """:raises InvalidError: a time or a limit out of range."""
        stored, through_us = self._stored(after_us, limit)
        rows = tuple(Row(key, changed_us, _value(text)) for key, changed_us, text in stored)
        return Changes(rows, through_us, exact_from_us=0)

    def changes_in_json(self, after_us: int, limit: int) -> str:
        """The same for whoever sends it: values are JSON where they lie, and to read and write a million takes long.

        :raises InvalidError: a time or a limit out of range.
        """
        stored, through_us = self._stored(after_us, limit)
        rows = ",".join(
            f"[{json.dumps(key)},{changed_us},{'null' if text is None else text}]" for key, changed_us, text in stored
        )
        times = Changes((), through_us, exact_from_us=0)._asdict()
        del times["rows"]
        return f'{{"rows":[{rows}],{json.dumps(times)[1:]}'

    def _stored(self, after_us: int, limit: int) -> tuple[Sequence[tuple[str, int, str | None]], int]:
        """Keys, times and values as they lie there, and through which time they are all."""
        _require_range(after_us)
        if not 1 <= limit <= MAX_ROWS:
            raise InvalidError(f"limit {limit}: 1 to {MAX_ROWS} rows")
        newest = select(func.max(CHANGES.c.changed_us)).where(CHANGES.c.kind == self._kind)
        with self._database.reading() as connection:
            # The newest time first: all that is committed later has a later one, and is not taken.
            through_us = connection.execute(newest).scalar() or 0
            asked = (
                select(CHANGES.c.key, CHANGES.c.changed_us, CHANGES.c.value)
                .where(
                    CHANGES.c.kind == self._kind, CHANGES.c.changed_us > after_us, CHANGES.c.changed_us <= through_us
                )
                .order_by(CHANGES.c.changed_us)
                .limit(limit)
            )
            stored = [(key, changed_us, text) for key, changed_us, text in connection.execute(asked)]
        return stored, stored[-1][1] if len(stored) == limit else through_us

    def digest(self, through_us: int) -> str | None:
        """:raises InvalidError: a time out of range."""
        _require_range(through_us)
        of_kind = (CHANGES.c.kind == self._kind, CHANGES.c.changed_us <= through_us)
        last = select(CHANGES.c.key, func.max(CHANGES.c.changed_us).label("last_us")).where(*of_kind)
        last_of = last.group_by(CHANGES.c.key).subquery()
        asked = (
            select(CHANGES.c.key, CHANGES.c.changed_us, CHANGES.c.value)
            .join(last_of, CHANGES.c.changed_us == last_of.c.last_us)
            .where(CHANGES.c.kind == self._kind, CHANGES.c.value.is_not(None))
        )
        newest = select(func.max(CHANGES.c.changed_us)).where(CHANGES.c.kind == self._kind)
        with self._database.reading() as connection:
            if (connection.execute(newest).scalar() or 0) < through_us:
                return None
            found = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(asked)
            return of_rows(Row(key, changed_us, _value(text)) for key, changed_us, text in found)


def _value(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)


def _require_range(said_us: int) -> None:
    if not 0 <= said_us <= MAX_US:
        raise InvalidError(f"a time of {said_us}: 0 to {MAX_US} microseconds")
