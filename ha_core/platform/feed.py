"""The feed of gateways: versions in the order of their change times, and a digest of the content at a time.

All versions are kept, deletions too. A reader that has everything up to t will never miss a change with a time up to t:
times are assigned under the lock under which they are committed.
"""

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
    """One kind, read from the database."""

    def __init__(self, database: Database, kind: str) -> None:
        """:raises InvalidError: the kind is unknown."""
        self._database = database
        self._kind = kind_of(kind).KIND

    def changes(self, after_us: int, limit: int) -> Changes:
        """:raises InvalidError: a time or a limit out of range."""
        stored, through_us = self._stored(after_us, limit)
        rows = tuple(Row(key, changed_us, _value(text)) for key, changed_us, text in stored)
        return Changes(rows, through_us, exact_from_us=0)

    def changes_in_json(self, after_us: int, limit: int) -> str:
        """Changes as JSON text. Values are stored as JSON; parsing and writing a million of them would take long.

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
        """Keys, times and stored values, and the time through which they are complete."""
        _require_range(after_us)
        if not 1 <= limit <= MAX_ROWS:
            raise InvalidError(f"limit {limit}: 1 to {MAX_ROWS} rows")
        newest = select(func.max(CHANGES.c.changed_us)).where(CHANGES.c.kind == self._kind)
        with self._database.reading() as connection:
            # The newest time first: later commits have later times, and are not read.
            through_us = connection.execute(newest).scalar() or 0
            query = (
                select(CHANGES.c.key, CHANGES.c.changed_us, CHANGES.c.value)
                .where(
                    CHANGES.c.kind == self._kind, CHANGES.c.changed_us > after_us, CHANGES.c.changed_us <= through_us
                )
                .order_by(CHANGES.c.changed_us)
                .limit(limit)
            )
            stored = [(key, changed_us, text) for key, changed_us, text in connection.execute(query)]
        return stored, stored[-1][1] if len(stored) == limit else through_us

    def digest(self, through_us: int) -> str | None:
        """:raises InvalidError: a time out of range."""
        _require_range(through_us)
        of_kind = (CHANGES.c.kind == self._kind, CHANGES.c.changed_us <= through_us)
        last = select(CHANGES.c.key, func.max(CHANGES.c.changed_us).label("last_us")).where(*of_kind)
        last_of = last.group_by(CHANGES.c.key).subquery()
        query = (
            select(CHANGES.c.key, CHANGES.c.changed_us, CHANGES.c.value)
            .join(last_of, CHANGES.c.changed_us == last_of.c.last_us)
            .where(CHANGES.c.kind == self._kind, CHANGES.c.value.is_not(None))
        )
        newest = select(func.max(CHANGES.c.changed_us)).where(CHANGES.c.kind == self._kind)
        with self._database.reading() as connection:
            if (connection.execute(newest).scalar() or 0) < through_us:
                return None
            found = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query)
            return of_rows(Row(key, changed_us, _value(text)) for key, changed_us, text in found)


def _value(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)


def _require_range(time_us: int) -> None:
    if not 0 <= time_us <= MAX_US:
        raise InvalidError(f"a time of {time_us}: 0 to {MAX_US} microseconds")
