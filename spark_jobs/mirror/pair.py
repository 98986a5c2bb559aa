"""The part of a task that copies from one cluster to another: a loop in its own thread, and its partitions."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict

from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import BUFFER_BYTES, ELSEWHERE, TAKEN_OVER, Copying, CopyTotals
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.takeover import CopyPartition
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import CopyId
from ha_core.mirror.pace import LinkedTopic
from ha_core.model import CopiedPartition, MirrorShare, PairWork, PartitionReport

log = logging.getLogger(__name__)
RETRY_S = 5.0
RETAKE_S = 15.0
"""Time after which a partition that another task took over is taken back, if it is still assigned here. By then the
other task, which checks every second, has noticed. If both fenced at once, they would do so endlessly."""
_MAX_REASON = 300
_STOP_S = 20.0


class CopyPair:
    """Copies from `source` to `target`. One thread uses it, beside its own."""

    def __init__(
        self, source: str, target: str, opens: Callable[[str], Admin], still_ours: Callable[[CopyId], bool]
    ) -> None:
        """
        :param opens: connects to a cluster; raises KafkaAdminError.
        :param still_ours: called before each takeover, by several threads; raises if the answer is unknown.
        """
        self.source, self.target = source, target
        self._opens, self._still_ours = opens, still_ours
        self._shares: tuple[MirrorShare, ...] = ()
        self._max_bytes_s: float | None = None
        self._copies: dict[CopyId, CopyPartition] = {}
        self._mirrors: dict[CopyId, str] = {}
        self._log_partitions: dict[str, int] = {}
        self._logs_there: set[str] = set()
        self._buffer_bytes = BUFFER_BYTES
        self._copying: Copying | None = None
        self._work, self._work_id = CopyTotals(), uuid.uuid4().hex[:12]
        self._reason = "it has not begun"
        self._lost_s: dict[CopyId, float] = {}
        self._guard, self._log_guard = threading.Lock(), threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mirror-{source}-{target}", daemon=True)
        self._thread.start()

    def follow(self, shares: tuple[MirrorShare, ...], max_bytes_s: float | None = None) -> None:
        """Sets the partitions to copy and the limit; partitions in common continue undisturbed."""
        if (shares, max_bytes_s) == (self._shares, self._max_bytes_s):
            return
        wanted = {copy.id: (copy, share) for share in shares for copy in copies_of(share, share.partitions)}
        with self._guard:
            self._shares, self._max_bytes_s = shares, max_bytes_s
            self._log_partitions = {share.log: share.log_partitions for share in shares}
            self._mirrors = {id_: share.mirror for id_, (_, share) in wanted.items()}
            gone = [id_ for id_ in self._copies if id_ not in wanted]
            new = [copy for id_, (copy, _) in wanted.items() if self._copies.get(id_) != copy]
            self._copies = {id_: copy for id_, (copy, _) in wanted.items()}
            if self._copying is not None:
                self._copying.drop(gone)
                self._copying.add(new)
                self._copying.limit(max_bytes_s, self._limits())
        for id_ in gone:
            self._lost_s.pop(id_, None)

    def hold(self, buffer_bytes: int) -> None:
        """Limits bytes in flight."""
        with self._guard:
            changed, self._buffer_bytes = buffer_bytes != self._buffer_bytes, buffer_bytes
            if changed and self._copying is not None:
                self._copying.hold(buffer_bytes)

    def report(self) -> Iterator[PartitionReport]:
        """Reports of its partitions. Partitions that another task has taken over by mistake are taken back."""
        now_s = time.monotonic()
        copying, reason = self._copying, self._reason
        statuses = {} if copying is None else copying.statuses()
        for id_, mirror in self._mirrors.items():
            status = statuses.get(id_)
            if copying is None or status is None:
                yield _report(mirror, id_, "waiting", reason=reason)
                continue
            if status.state == "stopped" and status.reason in {TAKEN_OVER, ELSEWHERE}:
                self._retake(copying, id_, now_s)
            yield PartitionReport(
                mirror=mirror,
                topic=id_.topic,
                partition=id_.partition,
                state=status.state,
                source=status.source,
                source_end=None if status.ends is None else status.ends.copyable,
                source_start=status.source_start or None,
                lag_records=status.lag_records,
                lag_bytes=status.lag_bytes,
                lag_ms=status.lag_ms,
                rpo_s=None if status.rpo_s is None else math.ceil(status.rpo_s),
                bytes_s=round(status.bytes_s),
                reason=status.reason[:_MAX_REASON],
                unheard_s=None if status.unheard_s is None else math.ceil(status.unheard_s),
            )

    def work(self) -> PairWork:
        """Totals since it began."""
        return PairWork(id=self._work_id, source=self.source, target=self.target, **asdict(self._work))

    def copied(self) -> Iterator[tuple[str, CopyId, CopiedPartition]]:
        """(key of the mirror, partition, coverage of its copy) for partitions that are being copied."""
        copying = self._copying
        for id_, coverage in () if copying is None else copying.known.items():
            mirror = self._mirrors.get(id_)
            if mirror is not None and coverage.runs:
                yield mirror, id_, CopiedPartition.of(coverage.end, coverage.level, coverage.runs, coverage.start)

    def stop(self) -> None:
        """Starts nothing more."""
        self._ending.set()
        with self._guard:
            if self._copying is not None:
                self._copying.stop()

    def join(self) -> None:
        """Returns when its thread has ended."""
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            log.warning("%s to %s: the copier still waits for an answer", self.source, self.target)

    def _retake(self, copying: Copying, id_: CopyId, now_s: float) -> None:
        if now_s - self._lost_s.setdefault(id_, now_s) >= RETAKE_S:
            del self._lost_s[id_]
            log.info("%s: taking it back", id_)
            copying.add([self._copies[id_]])

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._copy()
            except KafkaAdminError as error:
                self._reason = str(error)[:_MAX_REASON]
            except Exception as error:
                log.exception("%s to %s: beginning anew", self.source, self.target)
                self._reason = f"{error!r}: see the log of the task"[:_MAX_REASON]
            with self._guard:
                self._copying = None
            self._ending.wait(RETRY_S)

    def _copy(self) -> None:
        with self._opens(self.source) as source, self._opens(self.target) as target:
            self._logs_there.clear()

            def ready(ids: Collection[CopyId]) -> set[CopyId]:
                known = {id_: copy for id_ in ids if (copy := self._copies.get(id_)) is not None}
                for name in {copy.log[0] for copy in known.values()}:
                    self._need_log(target, name)
                return {id_ for id_ in known if self._still_ours(id_)}

            with self._guard:
                if self._ending.is_set():
                    return
                copies, max_bytes = list(self._copies.values()), self._buffer_bytes
                copying = Copying(source, target, copies, still_ours=ready, work=self._work, buffer_bytes=max_bytes)
                copying.limit(self._max_bytes_s, self._limits())
                self._copying = copying
            copying.run()

    def _limits(self) -> dict[LinkedTopic, float]:
        return {(share.link, share.topic): share.max_bytes_s for share in self._shares if share.max_bytes_s is not None}

    def _need_log(self, target: Admin, name: str) -> None:
        with self._log_guard:
            if name not in self._logs_there:
                ensure_copy_log(target, name, self._log_partitions[name])
                self._logs_there.add(name)


def _report(mirror: str, id_: CopyId, state: str, reason: str) -> PartitionReport:
    return PartitionReport.model_validate(
        {"mirror": mirror, "topic": id_.topic, "partition": id_.partition, "state": state, "reason": reason}
    )
