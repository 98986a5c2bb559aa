"""Which gateway keeps what is known of clusters fresh, and the process that does it for that one.

Of the live gateways that can record, the first by id does. Their records in ZooKeeper say who lives and who can, and
every gateway reads them each second, so there is nothing else to elect with. Two may differ for a moment, and a gateway
that was cut off may go on until its lease ends; that is harmless: both look at the same clusters, whatever is written
says when it was read, and what an older look has overwritten comes back with the next one.

The looks are taken by a process of its own (`ha_core.moves.fault.recorder`), so that the event loop pays nothing. It
ends with its standard input, however this process dies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from gateway.config import Config
from ha_core.model import GatewayRecord

_log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "ha_core.moves.fault.recorder")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
"""After a process that died; doubled while none comes as far as a look."""
SILENT_S = 300.0
"""How much longer than the pause between two looks a process may say nothing; a look at dead clusters takes minutes."""
_MOST_LINE_BYTES = 4 * 1024 * 1024


def elected(records: Iterable[GatewayRecord]) -> str | None:
    """The id of the gateway that records; None while none can."""
    return min((record.id for record in records if record.records_facts), default=None)


def order(config: Config) -> bytes:
    """What the process is told, as its first line: by its standard input, since it holds passwords."""
    profiles = {
        name: {"mechanism": one.mechanism, "username": one.username, "password": one.password} if one.mechanism else {}
        for name, one in config.security_profiles.items()
    }
    told = {
        "by": f"gateway:{config.id}",
        "zookeeper": config.zookeeper.hosts,
        "root": config.zookeeper.root,
        "session_timeout_s": config.zookeeper.session_timeout_ms / 1000,
        "every_s": config.record_facts_s,
        "profiles": profiles,
    }
    return json.dumps(told).encode() + b"\n"


class Recorder:
    """Runs the process while this gateway is the elected one; one that dies is started again, later and later.

    Until then this gateway is not `able`, so that another one records.
    """

    def __init__(
        self,
        told: bytes,
        every_s: float,
        changed: Callable[[], None],
        command: Sequence[str] = COMMAND,
        first_pause_s: float = FIRST_PAUSE_S,
        silent_s: float = SILENT_S,
    ) -> None:
        """:param every_s: 0: this gateway never records.
        :param changed: called when `able` has changed.
        """
        self._told, self._every_s, self._changed, self._command = told, every_s, changed, command
        self._first_pause_s, self._silent_s = first_pause_s, silent_s
        self._resting = False
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self._errors: dict[str, str] = {}
        self.recording = False
        """Whether the process runs."""
        self.looked_at: dict[str, float] = {}
        """Cluster → when its last complete look from here ended, in seconds since 1970."""

    @property
    def able(self) -> bool:
        """Whether this gateway may be elected."""
        return self._every_s > 0 and not self._resting

    def want(self, wanted: bool) -> None:
        """Whether this gateway is the elected one."""
        now, other = (self._wanted, self._unwanted) if wanted else (self._unwanted, self._wanted)
        other.clear()
        now.set()

    async def keep(self) -> None:
        """Records whenever it is wanted, for ever."""
        pause_s = self._first_pause_s
        while True:
            await self._wanted.wait()
            before = dict(self.looked_at)
            why = await self._run()
            if not why:
                continue
            if self.looked_at != before:
                pause_s = self._first_pause_s
            _log.warning("recording what is known of clusters has ended: %s; again in %g s", why, pause_s)
            await self._rest(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _rest(self, pause_s: float) -> None:
        self._resting = True
        self._changed()
        await asyncio.sleep(pause_s)
        self._resting = False
        self._changed()

    async def _run(self) -> str:
        """Why the process has ended; empty when another gateway is to record."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MOST_LINE_BYTES
            )
        except OSError as error:
            return str(error)
        self.recording = True
        _log.info("this gateway records what is known of clusters, every %g s (pid %d)", self._every_s, process.pid)
        reading = asyncio.create_task(self._converse(process))
        ending = asyncio.create_task(self._unwanted.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                _log.info("this gateway no longer records what is known of clusters")
                return ""
            return reading.result() or f"exit code {await process.wait()}"
        finally:
            self.recording = False
            for task in (reading, ending):
                task.cancel()
            # It holds nothing that this could spoil: each document is written whole, with the time of its look.
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _converse(self, process: asyncio.subprocess.Process) -> str:
        """Tells the process what to do and takes in what it says; what it did wrong, empty when it has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._told)
            await process.stdin.drain()
            while line := await asyncio.wait_for(process.stdout.readline(), self._every_s + self._silent_s):
                self._take(line)
        except TimeoutError:
            return f"it has said nothing for {self._every_s + self._silent_s:g} s"
        except (ConnectionError, ValueError, KeyError, TypeError) as error:
            return f"it could not be talked to ({error!r})"
        return ""

    def _take(self, line: bytes) -> None:
        """One round: `{"looks": [{"cluster": …, "error": …}]}`."""
        errors = {}
        for look in json.loads(line)["looks"]:
            cluster, error = look["cluster"], look["error"]
            if error:
                errors[cluster] = error
                if cluster not in self._errors:
                    _log.warning("%s could not be looked at, what was known of it stays: %s", cluster, error)
            else:
                self.looked_at[cluster] = time.time()
                if cluster in self._errors:
                    _log.info("%s is looked at again", cluster)
        self._errors = errors
