"""Drills and their schedules in ZooKeeper."""

from functools import partial

from ha_core.model import Drill, DrillSchedule
from ha_core.model.drill import MAX_DRILLS
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, Remove, once, placed, remove


class Drills(OnTree):
    def write_drill(self, drill: Drill) -> None:
        """Store a drill in place of its earlier state; remove the oldest ended ones beyond `MAX_DRILLS`."""
        path = paths.path_of(Drill, drill.id)
        once(self._tree, f"drill {drill.id}", partial(self._put_drill, path, documents.to_bytes(drill)))
        ended = [one for one in self.drills() if one.result != "running"]
        for old in ended[MAX_DRILLS:]:
            once(self._tree, f"drill {old.id}", partial(remove, self._tree, paths.path_of(Drill, old.id)))

    def drills(self) -> list[Drill]:
        """All drills, the newest first; documents that this version cannot read are left out."""
        return sorted(readable(self._tree, Drill), key=lambda one: (one.started, one.id), reverse=True)

    def write_drill_schedule(self, schedule: DrillSchedule) -> None:
        path = paths.path_of(DrillSchedule, schedule.name)
        once(
            self._tree, f"drill schedule {schedule.name}", partial(self._put_drill, path, documents.to_bytes(schedule))
        )

    def remove_drill_schedule(self, name: str) -> bool:
        """Whether there was one."""
        path = paths.path_of(DrillSchedule, name)
        if (node := self._tree.get(path)) is None:
            return False
        once(self._tree, f"drill schedule {name}", partial(self._tree.write, [Remove(path, node.version)]))
        return True

    def drill_schedules(self) -> list[DrillSchedule]:
        """All schedules by name; documents that this version cannot read are left out."""
        return sorted(readable(self._tree, DrillSchedule), key=lambda one: one.name)

    def _put_drill(self, path: str, data: bytes) -> None:
        self._tree.write([placed(path, data, self._tree.get(path))])
