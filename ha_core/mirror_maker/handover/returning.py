"""Gives copies back to a real MirrorMaker 2 if the process that copied them may be dead."""

from collections.abc import Collection

from ha_core.kafka.admin import Admin
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror_maker.handover.errors import refused
from ha_core.plan.facts.clusters import Partition


def ended_copies(target: Admin, copies: Collection[CopyPartition]) -> dict[Partition, int]:
    """Fence the copiers, wherever they run, so that none appends afterwards, and read how far they have copied.

    :return: partition of the source → offset at which a real MirrorMaker 2 goes on, for `write_source_offsets`. Copies
        that have not begun are left out.
    :raises HandoverError: a copy is damaged, so it is unknown how far it was copied.
    :raises TakenOverError: another process took over a copy later.
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
