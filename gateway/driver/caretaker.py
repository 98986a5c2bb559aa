"""Which gateways see to it that no operation is left behind by its executor, and the process that does it for them.

Clients stand at a fence, and only gateways have clients: so as long as somebody stands there is a gateway that can have
it lifted. Of those that can, the first two by id do: the executor may have died together with one of them, whose end is
seen only when its session ends. Two at once are harmless, as each step is taken under an epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.driver.companion import Companion
from ha_core.model import GatewayRecord

_log = logging.getLogger(__name__)

ELECTED = 2
SILENT_S = 60.0


def elected(records: Iterable[GatewayRecord]) -> tuple[str, ...]:
    """The ids of the gateways that take care."""
    return tuple(sorted(record.id for record in records if record.takes_care)[:ELECTED])


class Caretaker(Companion):
    """Runs the process while this gateway is one of the elected."""

    doing, module = "taking care of operations without an executor", "ha_core.operations.caretaker"

    def __init__(
        self, told: bytes, changed: Callable[[], None], *, silent_s: float = SILENT_S, **settings: Any
    ) -> None:
        super().__init__(told, changed, silent_s, **settings)

    def take(self, said: Mapping[str, Any]) -> bool:
        """`{"operation": …, "outcome": …}`, or nothing but that it still looks."""
        if "operation" in said:
            _log.warning("operation %s was left behind by its executor: %s", said["operation"], said["outcome"])
        return True
