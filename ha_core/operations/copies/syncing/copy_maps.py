"""Maps of copies over the passes of a process, for groups whose commits are translated.

A pass reads only notes that were written since the one before, and only of copies that have grown. Copiers' reports
give the records above the newest progress; where no copier reports, the log itself is read once it stands still. In
doubt a map ends lower than its copy, and a group there goes on at the map's end: records come twice, none is missed.
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ha_core.flows.translation import CopiedEnd, Translation, Untranslated, by_runs
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.known_map import KnownMap, RunTable
from ha_core.mirror.notes import CopyId, copy_of, decode, is_intent, is_page
from ha_core.mirror.progress import CopyDamagedError, Progress, RunPage, TopicIds
from ha_core.model import CopiedPartition, MirrorCopies
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped

MAX_RUNS = 20_000_000
"""Over all copies of a pair: some 500 MB. A compacted topic may have millions of gaps."""
MAX_LOGS_READ = 100
"""Copies whose logs are read in one pass, because no copier reports them."""
MAX_PLACES = 1_000
"""Translations of a copy that are remembered."""
_NOT_BEGUN = "nothing is copied yet"
_AT_ONCE = 4
"""Partitions of the copy log."""


@dataclass
class _Copy:
    """
    :ivar known: its map.
    :ivar ids: of its topics, as its copiers wrote them down.
    :ivar pages: pages of the map that no progress has claimed yet.
    :ivar log: its start and end in this pass; None: it has no leader.
    :ivar end_before: log end in the pass before; None: there was none.
    :ivar read_up_to: log end up to which the log itself was read.
    :ivar too_long: why its map is not kept; empty: it is.
    :ivar trouble: why no offset is translated; empty: they are.
    """

    known: KnownMap = field(default_factory=KnownMap)
    ids: TopicIds = field(default_factory=TopicIds)
    pages: dict[int, RunTable] = field(default_factory=dict)
    log: LogEnds | None = None
    end_before: int | None = None
    read_up_to: int | None = None
    too_long: str = ""
    trouble: str = ""
    _places_of: tuple[int, int] = (0, 0)
    _places: dict[int, Translation] = field(default_factory=dict)
    """Offset → its translation, by the map of this version and the log start."""

    def place(self, offset: int) -> Translation:
        """Groups at one place, and groups that stand still, are translated once."""
        known, start = self.known, 0 if self.log is None else self.log.start
        if (known.version, start) != self._places_of or len(self._places) > MAX_PLACES:
            self._places_of, self._places = (known.version, start), {}
        found = self._places.get(offset)
        if found is None:
            end = CopiedEnd(known.source, known.target)
            found = self._places[offset] = by_runs(known.runs, offset, end, start)
        return found

    @property
    def has_grown(self) -> bool:
        return self.log is not None and not self.too_long and self.known.target < self.log.high_watermark


@dataclass
class CopyMaps:
    """The maps of one pair's copies.

    :ivar patient: wait for the next progress of a log that may be growing. A single pass reads the log at once.
    :ivar unknown: why no map is known in this pass; empty: they are.
    """

    patient: bool = True
    unknown: str = ""
    _copies: dict[CopyId, _Copy] = field(default_factory=dict)
    _read_to: dict[Partition, tuple[str, int]] = field(default_factory=dict)
    """Partition of the copy log → its topic's id, and the offset up to which its notes are known."""

    @property
    def runs(self) -> int:
        return sum(len(copy.known.runs) for copy in self._copies.values())

    def follow(
        self,
        target: Admin,
        wanted: Mapping[CopyPartition, int],
        reported: Mapping[CopyId, CopiedPartition],
        source_ids: Mapping[str, str],
    ) -> None:
        """Bring the maps of these copies up to date, and forget all others.

        :param wanted: copy → the highest source offset that is to be translated.
        :param reported: copiers' reports.
        :param source_ids: topic → its id in the source, in hexadecimal; missing: not known.
        :raises KafkaAdminError: the target does not answer.
        """
        self.unknown = ""
        named = {copy.id for copy in wanted}
        self._copies = {id_: copy for id_, copy in self._copies.items() if id_ in named}
        if not wanted:
            return
        leaders = target.leaderships({key for copy in wanted for key in (copy.key, copy.log)})
        led = {key for key, leader in leaders.items() if leader.node >= 0}
        logs = target.ends([copy.key for copy in wanted if copy.key in led])
        for copy in wanted:
            state = self._copies.setdefault(copy.id, _Copy())
            state.end_before = None if state.log is None else state.log.high_watermark
            state.log, state.trouble = logs.get(copy.key), state.too_long
        ids = {key: leader.topic_id for key, leader in leaders.items()}
        self._read_notes(target, [copy for copy in wanted if copy.log in led], ids)
        lacking = list[CopyPartition]()
        for copy, offset in wanted.items():
            state = self._copies[copy.id]
            state.trouble = state.trouble or _trouble(state, copy, target.cluster.name, ids, source_ids)
            if (report := reported.get(copy.id)) is not None:
                state.known.report(report.runs, report.end)
            if not state.trouble and state.known.begun and state.has_grown and offset > state.known.source:
                lacking.append(copy)
        self._read_logs(target, lacking)
        self._bound()

    def translate(self, copy: CopyId, offset: int) -> Translation:
        """Translate an offset of the source by the map as it was last followed."""
        state = self._copies.get(copy)
        if self.unknown:
            return Untranslated(self.unknown)
        if state is None or state.trouble or not state.known.begun:
            return Untranslated((state.trouble if state is not None else "") or _NOT_BEGUN)
        return state.place(offset)

    def _read_notes(self, target: Admin, copies: Iterable[CopyPartition], ids: Mapping[Partition, str]) -> None:
        """Read the new notes of the partitions of the copy log in which a copy that has grown has its notes."""
        by_log = {
            log: some
            for log, some in grouped((copy.log, copy.id) for copy in copies).items()
            if any(self._copies[id_].has_grown for id_ in some)
        }

        def read(log: Partition) -> tuple[Partition, int, dict[CopyId, "_NewNotes"] | CopyDamagedError]:
            log_id, at = self._read_to.get(log, ("", 0))
            new = any(not self._copies[id_].known.begun for id_ in by_log[log])
            try:
                return log, *_notes(target, log, 0 if new or log_id != ids[log] else at, by_log[log])
            except CopyDamagedError as error:
                return log, 0, error

        if not by_log:
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(by_log)), f"notes-{target.cluster.name}") as pool:
            for log, end, found in pool.map(read, by_log):
                self._read_to[log] = ids[log], end
                if isinstance(found, CopyDamagedError):
                    for id_ in by_log[log]:
                        self._copies[id_].trouble = str(found)
                    continue
                for id_, notes in found.items():
                    self._take(id_, log, notes)

    def _take(self, id_: CopyId, log: Partition, notes: "_NewNotes") -> None:
        state, progress = self._copies[id_], notes.progress
        state.pages |= notes.pages
        if progress is None:
            return
        state.ids = progress.topics
        try:
            state.known.note(progress, state.pages)
        except CopyDamagedError as error:
            state.trouble = str(error)
            self._read_to.pop(log, None)  # the next pass reads it from the start
        else:
            state.pages = {number: page for number, page in state.pages.items() if number >= state.known.pages}

    def _read_logs(self, target: Admin, lacking: Collection[CopyPartition]) -> None:
        """Read the logs above the newest progress. While a log grows, the next progress is not far."""
        due = [copy for copy in lacking if self._is_to_read(self._copies[copy.id])][:MAX_LOGS_READ]
        for id_, read in target.read_copies(due).items() if due else ():
            state, copied = self._copies[id_], read.copied
            state.read_up_to = read.ends.high_watermark
            if copied is not None and copied.source > state.known.source:
                state.known.whole(copied.runs, copied.source, copied.target)

    def _is_to_read(self, state: _Copy) -> bool:
        end = None if state.log is None else state.log.high_watermark
        return state.read_up_to != end and (not self.patient or state.end_before == end)

    def _bound(self) -> None:
        """Forget the longest maps if all together are too long: their groups are not translated."""
        longest = sorted(self._copies.values(), key=lambda state: -len(state.known.runs))
        total = self.runs
        for state in longest:
            if total <= MAX_RUNS:
                return
            count = len(state.known.runs)
            total -= count
            state.known = KnownMap()
            state.trouble = state.too_long = (
                f"its map has {count:,} runs: all maps of the pair together have more than {MAX_RUNS:,}"
            )


def reported_copies(documents: Iterable[MirrorCopies], links: Collection[str]) -> dict[CopyId, CopiedPartition]:
    """Copiers' reports of the copies of these links. Where two report one, the newer knows more."""
    found: dict[CopyId, CopiedPartition] = {}
    for mirror in (mirror for document in documents for mirror in document.mirrors if mirror.link in links):
        topic = mirror.mirror.rpartition("@")[0]
        for number, partition in mirror.partitions.items():
            id_ = CopyId(mirror.link, topic, number)
            if id_ not in found or found[id_].end < partition.end:
                found[id_] = partition
    return found


def _trouble(
    state: _Copy, copy: CopyPartition, target: str, ids: Mapping[Partition, str], source_ids: Mapping[str, str]
) -> str:
    """Why the map is not that of the topics that are there now; empty: it is."""
    if state.log is None:
        return f"its copy in {target} {'has no leader' if copy.key in ids else 'does not exist'}"
    found = TopicIds(source_ids.get(copy.source_key[0], ""), ids.get(copy.key, ""))
    for known, now, what in zip(state.ids, found, ("it", f"its copy in {target}"), strict=True):
        if known and now and known != now:
            return f"{what} was deleted and created again since the mirror was linked"
    return ""


@dataclass
class _NewNotes:
    """Notes of one copy since the pass before; later progresses replace earlier ones."""

    progress: Progress | None = None
    pages: dict[int, RunTable] = field(default_factory=dict)


def _notes(
    target: Admin, log: Partition, start: int, copies: Collection[CopyId]
) -> tuple[int, dict[CopyId, _NewNotes]]:
    """The end of the copy log's partition, and the progresses and pages of these copies from `start` on."""
    found = {copy: _NewNotes() for copy in copies}
    followed = target.notes_from(log, start)
    newest: dict[CopyId, tuple[bytes, bytes]] = {}
    for key, value in followed.records:
        if is_intent(key) or (copy := copy_of(key)) not in found:
            continue
        if is_page(key):
            page = decode(key, value)[1]
            assert isinstance(page, RunPage)
            found[copy].pages[page.number] = RunTable(page.runs)
        else:
            newest[copy] = key, value
    for copy, raw in newest.items():
        progress = decode(*raw)[1]
        assert isinstance(progress, Progress)
        found[copy].progress = progress
    return followed.end, found
