"""Which gateway keeps what is known of clusters fresh, and the process that does it for that one.

Of the live gateways that can record, the first by id does. Their records in ZooKeeper say who lives and who can, and
every gateway reads them each second, so there is nothing else to elect with. Two may differ for a moment, and a gateway
that was cut off may go on until its lease ends; that is harmless: both look at the same clusters, whatever is written
says when it was read, and what an older look has overwritten comes back with the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.config import Config
from gateway.driver import companion
from gateway.driver.companion import Companion
from ha_core.model import GatewayRecord

_log = logging.getLogger(__name__)

SILENT_S = 300.0
"""How much longer than the pause between two looks a process may say nothing; a look at dead clusters takes minutes."""


def elected(records: Iterable[GatewayRecord]) -> str | None:
    """The id of the gateway that records; None while none can."""
    return min((record.id for record in records if record.records_facts), default=None)


def order(config: Config) -> bytes:
    """What the process is told."""
    session_timeout_s = config.zookeeper.session_timeout_ms / 1000
    return companion.order(config, session_timeout_s=session_timeout_s, every_s=config.record_facts_s)


class Recorder(Companion):
    """Runs the process while this gateway is the elected one."""

    doing, module = "recording what is known of clusters", "ha_core.operations.recorder"

    def __init__(
        self, told: bytes, every_s: float, changed: Callable[[], None], *, silent_s: float = SILENT_S, **settings: Any
    ) -> None:
        """:param every_s: 0: this gateway never records."""
        super().__init__(told, changed, every_s + silent_s, enabled=every_s > 0, **settings)
        self._errors: dict[str, str] = {}
        self.looked_at: dict[str, float] = {}
        """Cluster → when its last complete look from here ended, in seconds since 1970."""

    def take(self, said: Mapping[str, Any]) -> bool:
        """One round: `{"looks": [{"cluster": …, "error": …}]}`; of use if a cluster could be looked at."""
        errors = {}
        useful = False
        for look in said["looks"]:
            cluster, error = look["cluster"], look["error"]
            if error:
                errors[cluster] = error
                if cluster not in self._errors:
                    _log.warning("%s could not be looked at, what was known of it stays: %s", cluster, error)
            else:
                useful = True
                self.looked_at[cluster] = time.time()
                if cluster in self._errors:
                    _log.info("%s is looked at again", cluster)
        self._errors = errors
        return useful
