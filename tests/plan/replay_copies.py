"""The world of moves, with a mirror that is turned round: either cluster may have the copy, and any step may be the
last of its process."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from ha_core.model import Mirror, Run, Topic
from ha_core.model.extent import identity
from ha_core.plan.engine.revision import Documents
from ha_core.plan.facts.clusters import CopyFacts
from ha_core.plan.mirror.held_copies import unturned
from tests.plan.replay import MARKER, PARTITIONS, TOPIC, World

Copier = Literal["nobody", "job", "stalled", "operation"]


@dataclass
class CopiedLog:
    """A copy, as the target's broker and the notes of copiers have it."""

    link: str
    source: str
    target: str
    copier: Copier = "nobody"
    """The copier that may append: that of the last takeover."""
    next: int = 0
    """The source offset to copy."""
    runs: list[Run] = field(default_factory=list)


class MirroredWorld(World):
    """Its topic is mirrored from the east to the west, as a link leaves it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.topics.add("west")
        mirror = Mirror.of(TOPIC, "east", "west", "link-0", "now", "t")
        self.copied = {(mirror.link, partition): CopiedLog(mirror.link, "east", "west") for partition in PARTITIONS}
        self.assigned: set[tuple[str, int]] = set()
        """Copies that a copier of the job was assigned before it stalled."""
        for partition in PARTITIONS:
            self.logs["west", partition] = []
        partitions = {partition: identity("east") for partition in PARTITIONS}
        self.publish(Documents((mirror, Topic(name=TOPIC, writer="east", partitions=partitions))))
        for gateway in self.gateways:
            gateway.view, gateway.revision = self.view, self.revision

    def tick(self) -> None:
        super().tick()
        for key in self.copied:
            self.copy_as_the_job(*key)

    def ours(self, link: str) -> bool:
        """Whether the job assigns the copy to its copier now."""
        return any(mirror.link == link and mirror.held is None for mirror in self.view.mirrors.values())

    def copy_as_the_job(self, link: str, partition: int) -> None:
        """A copier of the job asks, takes over, or copies; another one stood still after its question, and goes on."""
        copy, event = self.copied[link, partition], self.random.randrange(8)
        if event == 0 and self.ours(link):
            self.assigned.add((link, partition))
        elif event == 1 and (link, partition) in self.assigned:
            self.assigned.discard((link, partition))
            self.fence_copy(
                copy, partition, "job" if self.ours(link) else "stalled"
            )  # checks its assignment again, after it
        elif event == 2 and copy.copier != "job" and self.ours(link):
            self.fence_copy(copy, partition, "job")
        elif event > 2 and copy.copier == "job":
            self.copy_one(copy, partition)

    def fence_copy(self, copy: CopiedLog, partition: int, copier: Copier) -> None:
        """Markers of copiers are in no extent; after a cut each is a hole in the writer's log."""
        self.logs[copy.target, partition].append(MARKER)
        copy.copier = copier

    def copy_one(self, copy: CopiedLog, partition: int) -> bool:
        """Copy the next record of the source; False: there is none. Markers of another mirror's copiers are gaps."""
        source, target = self.logs[copy.source, partition], self.logs[copy.target, partition]
        while copy.next < len(source) and source[copy.next] == MARKER:
            copy.next += 1
        if copy.next >= len(source):
            return False
        last = copy.runs[-1] if copy.runs else None
        if last is not None and (last.after, last.target + last.records) == (copy.next, len(target)):
            copy.runs[-1] = Run(last.source, last.target, last.records + 1)
        else:
            copy.runs.append(Run(copy.next, len(target), 1))
        target.append(source[copy.next])
        copy.next += 1
        return True

    # --- steps of an executor

    def _own(self) -> list[tuple[int, CopiedLog]]:
        """The copies that the operation has taken for itself."""
        held = [mirror for mirror in self.view.mirrors.values() if mirror.held == self.operation.id]
        return [(partition, self.copied[mirror.link, partition]) for mirror in held for partition in PARTITIONS]

    def _take_over(self) -> None:
        """A planned switch does so when it levels."""

    def _level(self) -> Iterator[str]:
        for partition, copy in self._own():
            self.fence_copy(copy, partition, "operation")
            yield "taken over"
        for partition, copy in self._own():
            if copy.copier == "operation" and self.copy_one(copy, partition):
                yield "copying"

    def _mirrored(self) -> Iterator[str]:
        for partition, copy in self._own():
            while True:
                if copy.copier != "operation":
                    self.fence_copy(copy, partition, "operation")
                    yield "taken over again"
                elif self.copy_one(copy, partition):
                    yield "copying the rest"
                else:
                    break
            self.taken[TOPIC, partition] = CopyFacts(copy.next, tuple(copy.runs), whole=True)
        self._read_copies()
        yield "the ends of copies are known"

    def _read_copies(self) -> None:
        _, target = self._sides
        for partition, _ in self._own():
            end = len(self.logs[target, partition])
            self.ends[TOPIC, partition] = replace(self.ends[TOPIC, partition], target=end)

    def _reverse(self) -> Iterator[str]:
        made = []
        for name, old in unturned(self.operation, self.view).items():
            for cut in self.operation.evidence.cuts[name]:
                runs = [run.reversed for run in self.copied[old.link, cut.partition].runs]
                yield "about to begin a copy"
                begun = CopiedLog(self.operation.id, old.target, old.source, next=cut.base, runs=runs)
                self.fence_copy(begun, cut.partition, "nobody")
                self.copied.setdefault((begun.link, cut.partition), begun)
            made.append(Mirror.of(name, old.target, old.source, self.operation.id, "now", "t"))
        if made:
            yield "about to write the mirror"
            self.publish(Documents((*made, self.operation)))
