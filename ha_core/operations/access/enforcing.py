"""Whether gateways enforce the changes that REST makes, as its answers say."""

import threading
import time
from collections.abc import Callable, Mapping

from ha_core.operations.access.caches import Known, enforced
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.store.errors import StoreError

AGAIN_S = 30.0
"""While ZooKeeper does not answer, not each change waits for it."""
UNKNOWN = "Whether a gateway enforces it is not known"


class RestEnforcement:
    """Opens the environment at the first change, and again after an error. Callers do not wait for gateways: they would
    with each of a thousand users."""

    def __init__(self, opens: Callable[[], Environment], known: Known, database: str) -> None:
        """:param database: its name, without a password."""
        self._opens, self._known, self._database = opens, known, database
        self._environment: Environment | None = None
        self._guard = threading.Lock()
        self._failed: tuple[float, str] | None = None

    def __call__(self, changed_us: Mapping[str, int]) -> list[str]:
        """:param changed_us: kind → time of its newest change."""
        if self._failed is not None and time.monotonic() - self._failed[0] < AGAIN_S:
            return [f"{UNKNOWN}: {self._failed[1]}"]
        try:
            with self._guard:
                self._environment = self._environment or self._opens()
                environment = self._environment
            said = [*enforced(environment, changed_us, self._known, self._database, wait_s=0.0)]
        except (StoreError, RefusedError) as error:
            self._failed = time.monotonic(), str(error)
            return [f"{UNKNOWN}: {error}"]
        self._failed = None
        return said

    def close(self) -> None:
        with self._guard:
            opened, self._environment = self._environment, None
        if opened is not None:
            opened.close()
