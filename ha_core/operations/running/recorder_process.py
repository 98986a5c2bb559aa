"""The process that records facts about all clusters on behalf of a gateway, and measures the state: `python -m
ha_core.operations.running.recorder_process`.

Each round of looks is a line on standard output, and so is each look at the state.
"""

import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ha_core.operations.clusters.last_seen import LOOK_S, RecordedCluster, record_always
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.helper_process import say, serve
from ha_core.operations.overview.measures import measure_always

NICE = 10
"""The event loop of the gateway comes first on a core that they share."""


ROUND_S = 10 * LOOK_S
"""A round over clusters that do not answer takes less."""


class _Recorder:
    def __init__(self, environment: Environment, every_s: float) -> None:
        self._environment, self._every_s = environment, every_s
        self._recorded_at = environment.monotonic()

    def looked(self, looks: Sequence[RecordedCluster]) -> None:
        self._recorded_at = self._environment.monotonic()
        say(looks=[asdict(look) for look in looks])

    def measured(self, state: dict[str, Any] | None, again_s: float) -> bool:
        """Tells the gateway, unless recording hangs: the gateway ends a process that says nothing."""
        if self._environment.monotonic() - self._recorded_at > self._every_s + ROUND_S:
            return False
        say(state=state, again_s=again_s)
        return True


def _record(environment: Environment, message: dict[str, Any]) -> None:
    os.nice(NICE)
    recorder = _Recorder(environment, message["every_s"])
    # Looks at the state wait for no cluster that hangs, and have connections of their own: those are not shared by
    # threads.
    looking = Environment(environment.store, environment.by, profiles=environment.profiles)
    threading.Thread(target=measure_always, args=(looking, recorder.measured), daemon=True).start()
    record_always(environment, message["every_s"], looked=recorder.looked)


if __name__ == "__main__":
    sys.exit(serve(_record, "facts cannot be recorded"))
