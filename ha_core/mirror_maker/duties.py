"""Runs the repeated tasks of a flow: each duty has its own thread, so that none waits for another."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ha_core.flows.errors import FlowError, MirrorClientError
from ha_core.kafka.errors import KafkaAdminError
from ha_core.store.errors import StoreError

log = logging.getLogger(__name__)
_LONGEST_PAUSE_S = 30.0
_END_S = 30.0
EXPECTED = (KafkaAdminError, StoreError, FlowError, MirrorClientError)


@dataclass
class Duty:
    """
    :ivar every_s: pause between rounds, in seconds. After failures it is 1 s, then doubles up to 30 s.
    :ivar round: does one round; raises an error of `EXPECTED` if the reason is outside this process.
    :ivar done_s: monotonic time at which a round last succeeded; None: no round has succeeded yet.
    :ivar trouble: why the last round failed; "": it succeeded.
    """

    name: str
    every_s: float
    round: Callable[[], None]
    done_s: float | None = None
    trouble: str = ""
    took_ms: float = 0.0
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, flow: str) -> None:
        self._thread = threading.Thread(target=self._run, args=(flow,), name=f"{flow} {self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and return at once; `join` waits for the current round."""
        self._ending.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(_END_S)

    def _run(self, flow: str) -> None:
        failures = 0
        while not self._ending.is_set():
            began_s = time.monotonic()
            trouble = self._once(flow)
            self.took_ms = 1000 * (time.monotonic() - began_s)
            failures = failures + 1 if trouble else 0
            if trouble and trouble != self.trouble:
                log.warning("%s: %s: %s", flow, self.name, trouble)
            elif not trouble and self.trouble:
                log.info("%s: %s: works again", flow, self.name)
            if not trouble:
                self.done_s = time.monotonic()
            self.trouble = trouble
            pause_s = min(2.0 ** min(failures - 1, 10), _LONGEST_PAUSE_S) if failures else self.every_s
            self._ending.wait(pause_s)

    def _once(self, flow: str) -> str:
        """Run one round. Returns why it failed; "": it succeeded."""
        try:
            self.round()
        except EXPECTED as error:
            return str(error) or type(error).__name__
        except Exception as error:
            log.exception("%s: %s", flow, self.name)
            return f"{type(error).__name__}: {error}"
        return ""
