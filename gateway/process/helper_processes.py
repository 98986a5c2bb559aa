"""Runs a gateway's helper processes, which keep work off the event loop, while the gateway is elected for it.

A helper gets its order on standard input, since it has passwords, and ends when that closes, however this process dies.
It answers in lines of JSON. The elected gateways follow from the gateways' records, which each gateway reads every
second.

Caretakers recover orphans: while a client waits at a fence, some gateway can have it lifted. They are the first two
gateways by id, since an executor may die together with one of them, whose end shows only when its session expires. Two
at once are harmless: each step is taken under an executor epoch.

The recorder keeps the recorded facts of clusters fresh; it is the first gateway by id that can. Two at once, or a
partitioned one that goes on until its lease ends, are harmless: both read the same clusters, records have the time of
their reading, and the next reading corrects facts that an older one has overwritten.
"""

import asyncio
import json
import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gateway.config import Config
from ha_core.kafka.security import fields_of
from ha_core.model import GatewayRecord
from ha_core.model.gateway import by_gateway

_log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 300.0
_MAX_LINE_BYTES = 4 * 1024 * 1024


class HelperProcess(ABC):
    """Runs the process while this gateway is elected; restarts it with growing pauses when it dies.

    During a pause this gateway is not `able`, so that another one is elected.
    """

    doing: str
    """The task, for log lines."""
    module: str
    ability: str
    """The field of a gateway's record that says that it is able."""
    elected_at_once: int
    """Number of gateways that are elected at once."""
    first_pause_s = 1.0
    """Pause after a process has died; doubled as long as none was of use."""
    silent_s = 60.0
    """A process without output for so long is restarted."""
    enabled = True

    def __init__(self, config: Config, changed: Callable[[], None], **more: Any) -> None:
        """:param changed: called when `able` has changed.
        :param more: parts of the order besides the addresses of ZooKeeper and the clusters.
        """
        order = {
            "by": f"gateway:{config.id}",
            "zookeeper": config.zookeeper.hosts,
            "root": config.zookeeper.root,
            "zookeeper_security": config.zookeeper.for_helpers,
            "profiles": {name: fields_of(profile) for name, profile in config.profiles.items()},
            **more,
        }
        self.order = json.dumps(order).encode() + b"\n"
        """The first line of its input."""
        self.command: Sequence[str] = (sys.executable, "-m", self.module)
        self._changed = changed
        self._resting = False
        self._useful = False
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self.running = False

    @abstractmethod
    def handle(self, line: Mapping[str, Any]) -> bool:
        """Handles one line of the process's output. Returns whether the process was of use."""

    def begun(self) -> None:  # noqa: B027 - most have nothing to do
        """A process has begun: what an earlier one told is old."""

    @property
    def able(self) -> bool:
        """Whether this gateway may be elected."""
        return self.enabled and not self._resting

    @classmethod
    def elected(cls, records: Iterable[GatewayRecord]) -> list[str]:
        """Ids of the elected gateways; of a gateway with workers at most one worker, since they would die together."""
        able = by_gateway(record for record in records if getattr(record, cls.ability))
        return sorted(workers[0].id for workers in able.values())[: cls.elected_at_once]

    def want(self, wanted: bool) -> None:
        """Whether this gateway is elected."""
        now, other = (self._wanted, self._unwanted) if wanted else (self._unwanted, self._wanted)
        other.clear()
        now.set()

    async def keep(self) -> None:
        """Runs the process whenever this gateway is elected; never returns."""
        pause_s = self.first_pause_s
        while True:
            await self._wanted.wait()
            self._useful = False
            why = await self._run()
            if not why:
                continue
            if self._useful:
                pause_s = self.first_pause_s
            _log.warning("%s has ended: %s; again in %g s", self.doing, why, pause_s)
            self._resting = True
            self._changed()
            await asyncio.sleep(pause_s)
            self._resting = False
            self._changed()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _run(self) -> str:
        """Why the process has ended; empty when another gateway is elected."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MAX_LINE_BYTES
            )
        except OSError as error:
            return str(error)
        self.begun()
        self.running = True
        _log.info("%s is done by this gateway (pid %d)", self.doing, process.pid)
        reading = asyncio.create_task(self._converse(process))
        ending = asyncio.create_task(self._unwanted.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                _log.info("%s is no longer done by this gateway", self.doing)
                return ""
            return reading.result() or f"exit code {await process.wait()}"
        finally:
            self.running = False
            for task in (reading, ending):
                task.cancel()
            # The next process continues from any state in which this one is killed.
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _converse(self, process: asyncio.subprocess.Process) -> str:
        """Sends the order and handles the output. Returns the process's fault; empty when it has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self.order)
            await process.stdin.drain()
            while line := await asyncio.wait_for(process.stdout.readline(), self.silent_s):
                self._useful |= self.handle(json.loads(line))
        except TimeoutError:
            return f"no output for {self.silent_s:g} s"
        except (ConnectionError, ValueError, KeyError, TypeError) as error:
            return f"its pipes failed ({error!r})"
        return ""


class OrphanRecoveryProcess(HelperProcess):
    doing, module = (
        "taking care of operations without an executor",
        "ha_core.operations.running.orphan_recovery_process",
    )
    ability, elected_at_once = "takes_care", 2

    def handle(self, line: Mapping[str, Any]) -> bool:
        """`{"operation": …, "outcome": …}`, or "topic" (a client wants it deleted), or an empty sign of life."""
        if "operation" in line:
            _log.warning("operation %s was recovered after its executor died: %s", line["operation"], line["outcome"])
        if "topic" in line:
            _log.info("deletion of topic %s for a client: %s", line["topic"], line["outcome"])
        return True


LOOK_S = 300.0
"""A round over unreachable clusters takes minutes."""


class RecorderProcess(HelperProcess):
    doing, module = "recording facts of clusters", "ha_core.operations.running.recorder_process"
    ability, elected_at_once = "records_facts", 1

    def __init__(self, config: Config, changed: Callable[[], None]) -> None:
        every_s = config.record_facts_s
        super().__init__(config, changed, session_timeout_s=config.zookeeper.session_timeout_ms / 1000, every_s=every_s)
        self.enabled = every_s > 0
        self.silent_s = every_s + LOOK_S
        self._failed: set[str] = set()
        self.looked_at: dict[str, float] = {}
        """Cluster → when this gateway's last complete reading ended, in seconds since 1970."""
        self.state: Mapping[str, Any] | None = None
        """The state in numbers (`StateMeasures`), as it was last looked at; None: the last look has failed."""
        self.state_at = 0.0
        """When that look ended, in seconds since 1970."""
        self.state_due_at = 0.0
        """When the next look should have ended."""

    def begun(self) -> None:
        self.state = None

    def handle(self, line: Mapping[str, Any]) -> bool:
        """Handles a round: `{"looks": [{"cluster": …, "error": …}]}`; of use if any cluster was read. Or handles a look
        at the state: `{"state": …, "again_s": …}`, with the time until the next look has ended."""
        if "state" in line:
            self.state, self.state_at = line["state"], time.time()
            self.state_due_at = self.state_at + line["again_s"]
            return False
        errors = {look["cluster"]: look["error"] for look in line["looks"]}
        failed = {cluster for cluster, error in errors.items() if error}
        for cluster in failed - self._failed:
            _log.warning("%s could not be read; its recorded facts stay: %s", cluster, errors[cluster])
        for cluster in self._failed & (errors.keys() - failed):
            _log.info("%s can be read again", cluster)
        self.looked_at |= dict.fromkeys(errors.keys() - failed, time.time())
        self._failed = failed
        return len(failed) < len(errors)
