"""An interruptible move: its command as a process, and an observer that acts at its fence and its cut."""

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator

from ha_core.model import View
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from tests.kit.running import ZOOKEEPER_ROOT, operation_of, start_command
from tests.kit.waiting import until


class Onlooker:
    """Sees fence and cut of a topic's next move like a gateway, and acts at once."""

    def __init__(
        self, stack: Stack, topic: str, on_fence: Callable[[], None] | None, on_cut: Callable[[], None] | None
    ) -> None:
        self.topic = topic
        self.fenced, self.cut = threading.Event(), threading.Event()
        self.cut_revision = 0
        self._on_fence, self._on_cut = on_fence, on_cut
        self._writer: str | None = None
        self._loaded = threading.Event()
        self.store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
        self._watcher = self.store.watch(self._look)
        assert self._loaded.wait(20), "the state was not loaded"

    def _look(self, view: View, _changed: frozenset[str]) -> None:
        topic = view.topics.get(self.topic)
        writer = topic.writer if topic else None
        if not self._loaded.is_set():
            self._writer = writer
            self._loaded.set()
        elif self._writer is None:
            self._writer = writer  # an identity map keeps the topic in the origin while a copy is made
        elif writer is not None and writer != self._writer and not self.cut.is_set():
            if self._on_cut:
                self._on_cut()
            self.cut_revision = view.revision
            self.cut.set()
        elif topic and topic.fence and not self.fenced.is_set():
            if self._on_fence:
                self._on_fence()
            self.fenced.set()

    def revision_of(self, gateway: int) -> int:
        return next((one.revision for one in self.store.gateways() if one.id == f"gw-{gateway}"), 0)

    def wait_until_drained(self) -> None:
        """Wait until every gateway has reported that nothing of the fenced topic is in flight."""
        topic = self.store.load().topics.get(self.topic)
        assert topic is not None
        assert topic.fence is not None
        operation = topic.fence.operation
        until(
            lambda: all(operation in gateway.drained for gateway in self.store.gateways()),
            "every gateway has drained",
            20,
        )

    def close(self) -> None:
        self._watcher.close()
        self.store.close()


@contextlib.contextmanager
def looking(
    stack: Stack,
    topic: str,
    on_fence: Callable[[], None] | None = None,
    on_cut: Callable[[], None] | None = None,
) -> Iterator[Onlooker]:
    onlooker = Onlooker(stack, topic, on_fence, on_cut)
    try:
        yield onlooker
    finally:
        onlooker.close()


class Command:
    """`switchyard switch` from one cluster to the other, as a process that can be killed."""

    def __init__(self, stack: Stack, user: str, origin: str, target: str) -> None:
        route = ("--from", origin, "--to", target, "--reason", "test", "--yes", "--drain-timeout", "30")
        self.arguments = ("switch", f"user:{user}", *route)
        self.process = start_command(stack, *self.arguments)
        self.said: list[str] = []

    def operation(self) -> str:
        """Wait until it has begun; returns the id of its operation."""
        return operation_of(self.process, self.said)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def result(self) -> str:
        """Wait for its end: `succeeded`, `undone` … or `killed`."""
        out, said = self.process.communicate(timeout=90)
        self.said.append(said)
        lines = out.strip().splitlines()
        if not lines:
            assert self.process.returncode == -signal.SIGKILL, "".join(self.said)
            return "killed"
        return str(json.loads(lines[-1])["result"])
