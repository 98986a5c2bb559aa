"""Gives copies back to a real MirrorMaker 2, when the process that copied them may be dead."""

from collections.abc import Collection

from ha_core.kafka.admin import Admin
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror_maker.handover.errors import refused
from ha_core.plan.facts.clusters import Partition


def ended_copies(target: Admin, copies: Collection[CopyPartition]) -> dict[Partition, int]:
    """Partition of the source → offset at which a real MirrorMaker 2 goes on, for `write_source_offsets`.

    Fences the copiers, wherever they run, so that none appends afterwards. Copies that have not begun are left out.

    :raises HandoverError: a copy is damaged, so how far it came is unknown.
    :raises TakenOverError: another process took one over later.
    """
    found = target.take_over(copies)
    by_id = {copy.id: copy for copy in copies}
    if damaged := {by_id[id_].key: str(one) for id_, one in found.items() if isinstance(one, CopyDamagedError)}:
        raise refused(damaged)
    return {
        by_id[id_].source_key: one.progress.source
        for id_, one in found.items()
        if not isinstance(one, CopyDamagedError) and one.progress is not None
    }
