"""`switchyard migrate --cut predicted` as a process that tests may kill, and its outcome."""

import json
import time
from pathlib import Path

from ha_core.model import Operation, Topic
from ha_core.plan.engine.revision import FINAL
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from tests.kit.running import ZOOKEEPER_ROOT, CommandFailedError, operation_of, start_command, switchyard

PARTITIONS = 3
Cuts = dict[int, int]


class Migration:
    """The migration of one topic; the command waits until the topic has crossed."""

    def __init__(
        self, stack: Stack, topic: str, route: tuple[str, str], rate: float, preparation_s: float, folder: Path
    ) -> None:
        """Returns when its operation exists.

        :param rate: records per second of each partition; a cut is ahead by `preparation_s` at this rate, so the
            command need not measure it.
        """
        self.stack, self.topic = stack, topic
        origin, target = route
        rates = folder / f"rates-{topic}.json"
        rows = [{"cluster": origin, "topic": topic, "partition": p, "rate": rate} for p in range(PARTITIONS)]
        rates.write_text(json.dumps({"partitions": rows}))
        how = ("--cut", "predicted", "--preparation", str(preparation_s), "--rates", str(rates), "--wait")
        rest = ("--reason", "test", "--yes", "--drain-timeout", "30")
        self.process = start_command(stack, "migrate", topic, "--from", origin, "--to", target, *how, *rest)
        self._said: list[str] = []
        self.operation = operation_of(self.process, self._said)
        self._store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)

    def wait(self, timeout_s: float = 120.0) -> None:
        """Wait until the command ends, in any way."""
        _, said = self.process.communicate(timeout=timeout_s)
        self._said.append(said)

    @property
    def state(self) -> str:
        """State of the operation."""
        found = self._store.read(Operation, self.operation)
        assert found is not None
        return found[0].state

    @property
    def stage(self) -> str:
        """`proposed` or `open`; `no cut ahead` before and after that."""
        found = self._store.read(Topic, self.topic)
        return found[0].crossing.state if found is not None and found[0].crossing else "no cut ahead"

    @property
    def cuts(self) -> Cuts:
        """Partition → the newest cut of its map."""
        found = self._store.read(Topic, self.topic)
        return {} if found is None else {p: extents[-1].start for p, extents in found[0].partitions.items()}

    def settle(self, *command: str, timeout_s: float = 90.0) -> str:
        """Repeat a command, such as `resume`, until the operation has ended; returns its state."""
        deadline = time.monotonic() + timeout_s
        while (state := self.state) not in FINAL:
            assert time.monotonic() < deadline, f"{state} after {timeout_s:.0f} s: {self.words}"
            try:
                switchyard(self.stack, *command, self.operation)
            except CommandFailedError as error:
                self._said.append(f"{error}\n")
            time.sleep(0.2)
        return state

    def end(self) -> None:
        """The process is gone, and no fence, crossing or lock is left."""
        try:
            found = self._store.read(Topic, self.topic)
            assert found is None or (found[0].fence is None and found[0].crossing is None), self.words
            assert [lock for lock in self._store.locks() if lock.operation == self.operation] == [], self.words
        finally:
            self.process.kill()
            self._store.close()

    @property
    def words(self) -> str:
        """All output, and all entries of the history."""
        entries = switchyard(self.stack, "history", self.operation)["history"]
        return "\n".join([f"{self.operation}: {''.join(self._said)}", *map(str, entries)])
