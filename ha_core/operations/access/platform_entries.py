"""The platform's entries of a kind, read change by change by the publishers that put them in force."""

from __future__ import annotations

from ha_core.datacache.core.source import Row, Source

_PAGE = 5000


class PlatformEntries:
    """Not thread-safe.

    :ivar rows: by key, the entries that exist.
    :ivar through_us: time of the newest change that was read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.rows: dict[str, Row] = {}
        self.through_us = 0

    def read(self) -> bool:
        """Read all new changes; False if there were none. Errors of the source are raised."""
        before = self.through_us
        while True:
            found = self._source.changes(self.through_us, _PAGE)
            if found.through_us < self.through_us:
                # Perhaps restored from a backup: everything read before is invalid.
                self.rows, self.through_us = {}, 0
                continue
            for row in found.rows:
                if row.value is None:
                    self.rows.pop(row.key, None)
                else:
                    self.rows[row.key] = row
            self.through_us = found.through_us
            if len(found.rows) < _PAGE:
                return self.through_us != before
