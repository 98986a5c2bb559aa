"""The process that records facts about all clusters on behalf of a gateway: `python -m
ha_core.operations.clusters.recorder_process`.

Each round of looks is a line on standard output.
"""

import os
import sys
from dataclasses import asdict
from typing import Any

from ha_core.operations.clusters.last_seen import record_always
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.helper_process import say, serve

NICE = 10
"""The event loop of the gateway comes first on a core that they share."""


def _record(environment: Environment, message: dict[str, Any]) -> None:
    os.nice(NICE)
    record_always(environment, message["every_s"], looked=lambda looks: say(looks=[asdict(look) for look in looks]))


if __name__ == "__main__":
    sys.exit(serve(_record, "facts cannot be recorded"))
