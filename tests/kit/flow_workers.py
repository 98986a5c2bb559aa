"""Flow workers that are restarted whenever they end, as a container supervisor would."""

import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests.kit.flows import FlowProcess

_AGAIN_S = 1.0


class KeptWorker:
    """`switchyard mirror-maker FILE`, kept running; it may be killed and stopped at any time.

    :ivar ended: exit code and output of each process that ended by itself.
    """

    def __init__(self, file: Path, options: Iterable[str]) -> None:
        self.ended: list[tuple[int, str]] = []
        self._file, self._options = file, tuple(options)
        self._outputs: list[Path] = []
        self._process: FlowProcess | None = None
        self._wanted, self._ending = threading.Event(), threading.Event()
        self._wanted.set()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._ending.set()
        self._keeper.join()
        if self._process is not None and self._process.process.poll() is None:
            self._process.process.send_signal(signal.SIGCONT)
            self._process.stop()

    def text(self) -> str:
        """The output of all processes so far."""
        return "\n".join(output.read_text("utf-8", "replace") for output in self._outputs)

    def kill(self) -> None:
        self._wanted.clear()
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        self._wanted.set()

    def pause(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.process.poll() is None:
            self._process.process.send_signal(number)

    def _keep(self) -> None:
        while not self._ending.is_set():
            running = self._process
            if running is not None and not running.killed and (code := running.process.poll()) is not None:
                self.ended.append((code, running.text()))
                self._process = running = None
            if self._wanted.is_set() and (running is None or running.process.poll() is not None):
                self._process = FlowProcess(self._file, self._options)
                self._outputs.append(self._process.log)
            time.sleep(_AGAIN_S / 10)
