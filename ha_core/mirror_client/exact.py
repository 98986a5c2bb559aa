"""Translates any source offset exactly, by the notes of a flow's copiers (`ha_core.mirror.notes`).

MirrorMaker 2 keeps only samples, so its tools translate only groups' offsets, at their checkpoints. Our copiers note
the offset of each record.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ha_core.flows.errors import MirrorClientError
from ha_core.flows.remote_plan import link_prefix
from ha_core.flows.translation import Translation, Untranslated, by_runs
from ha_core.mirror.notes import CopyId, Notes
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror_client.copy_notes import read_copy_notes
from ha_core.mirror_client.topic_ids import topic_ids
from ha_core.model import Run


@dataclass(frozen=True)
class ExactMap:
    """The offsets in its copy of one partition's records.

    :ivar runs: ascending, as of the copier's last progress: at most some seconds ago.
    :ivar begins_at: copy offset below which another program, as MirrorMaker 2, copied; 0: none did.
    :ivar source_id: id of the topic of the source, in hexadecimal; "": its brokers have none. A topic of that name with
        another id was made again, and this is no map of it.
    """

    runs: tuple[Run, ...]
    begins_at: int = 0
    source_id: str = ""

    def translate(self, offset: int) -> Translation:
        """:param offset: next offset to read in the source."""
        if self.runs and self.begins_at and offset < self.runs[0].source:
            return Untranslated(f"records below offset {self.runs[0].source} were not copied by Switchyard")
        return by_runs(self.runs, offset)


def exact_maps(
    settings: Mapping[str, Any], flow: str, partitions: Iterable[tuple[str, int]], timeout_s: float = 60.0
) -> dict[tuple[str, int], ExactMap]:
    """Remote partition → its map. Partitions without notes are missing.

    :param settings: librdkafka's settings for the target.
    :param flow: `SOURCE->TARGET`.
    :param partitions: (remote topic, partition) of each partition to translate.
    :raises MirrorClientError: the notes cannot be read.
    """
    wanted = frozenset(partitions)
    prefix = link_prefix(flow)
    notes = read_copy_notes(
        settings, lambda id_: (id_.topic, id_.partition) in wanted and id_.link.startswith(prefix), timeout_s
    )
    found: dict[tuple[str, int], ExactMap] = {}
    for key, its in _present(notes, topic_ids(settings, {topic for topic, _ in wanted}, timeout_s)).items():
        assert its.progress is not None
        try:
            found[key] = ExactMap(its.runs, its.progress.base, its.progress.topics.source)
        except CopyDamagedError as error:
            raise MirrorClientError(f"{key[0]}-{key[1]}: {error}") from error
    return found


def _present(notes: Mapping[CopyId, Notes], ids: Mapping[str, str]) -> dict[tuple[str, int], Notes]:
    """Choose the notes of the current copies. The copy log also has notes of earlier copies: those of a deleted remote
    topic have another topic id; those of a source topic that was deleted and created again end lower.

    :param ids: remote topic → its id; "": the brokers have no topic ids.
    """
    present: dict[tuple[str, int], Notes] = {}
    for id_, its in notes.items():
        key, progress = (id_.topic, id_.partition), its.progress
        if progress is None or (progress.topics.target and progress.topics.target != ids.get(id_.topic)):
            continue
        other = present.get(key)
        if other is None or other.progress is None or progress.target > other.progress.target:
            present[key] = its
    return present
