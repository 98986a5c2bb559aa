"""When offset syncs are emitted."""

from dataclasses import dataclass

from ha_core.flows.records import OffsetSync


@dataclass
class SyncEmission:
    """When a partition's offset sync is due, as MirrorMaker 2 emits it: first in a copier's life, after a gap of the
    source, where the copy went back, and each `offset.lag.max` records. Others wait for the next interval.

    :ivar max_lag: `offset.lag.max`, in records.
    """

    max_lag: int
    _emitted: OffsetSync | None = None
    _last: OffsetSync | None = None

    def emit(self, sync: OffsetSync) -> bool:
        """Note a sync; whether it is to be emitted at once.

        :param sync: of a record that was copied after those of earlier calls.
        """
        last, self._last = self._last, sync
        if (
            self._emitted is None
            or last is None
            or sync.upstream_offset != last.upstream_offset + 1
            or sync.downstream_offset < last.downstream_offset
            or sync.downstream_offset - (self._emitted.downstream_offset + 1) >= self.max_lag
        ):
            self._emitted = sync
            return True
        return False

    def take_waiting(self) -> OffsetSync | None:
        """The newest sync that was not due, for the interval's end; None: the newest one was emitted."""
        if self._last is self._emitted:
            return None
        self._emitted = self._last
        return self._last
