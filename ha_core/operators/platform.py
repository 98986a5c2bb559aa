"""The platform in Airflow: its REST API for users of Airflow. The plugin (`plugins/switchyard_platform.py`) checks
who may call it."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from ha_core.hooks.airflow_names import AirflowException
from ha_core.hooks.platform import PlatformHook
from ha_core.hooks.zookeeper import SwitchyardHook

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment

log = logging.getLogger("switchyard.airflow")
RETRY_S = 5.0
"""Minimum interval of attempts to open a database that is away, for all callers."""


def platform_app(caller_of: Callable[..., str]) -> Any:
    """The ASGI application, over the database of the connection `switchyard_platform`.

    :param caller_of: a dependency of FastAPI that returns the caller's name, or refuses the caller.
    :raises PlatformError: the database is away, or has other tables.
    """
    from fastapi import Depends

    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.operations.access.enforcing import RestEnforcement
    from ha_core.operations.engine.errors import RefusedError
    from ha_core.platform.serving.app import make_operators_app
    from ha_core.platform.serving.tokens import Caller

    def caller(name: Annotated[str, Depends(caller_of)]) -> Caller:
        return Caller(name, "operator")

    platform = PlatformHook().get_conn()

    def opens() -> "Environment":
        try:
            return SwitchyardHook().get_conn("airflow:rest")
        except (AirflowException, SecurityProfileError, ValueError) as error:
            raise RefusedError(str(error)) from error

    enforcement = RestEnforcement(opens, platform.read.has_change_at, platform.database.name)
    return make_operators_app(platform, caller, enforcement)


class WhenCalled:
    """An ASGI application that is made on its first call. If that fails, a later call tries again."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._app: Any = None
        self._making: asyncio.Lock | None = None
        self._failed_s = float("-inf")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            self._making = self._making or asyncio.Lock()
            async with self._making:
                await self._try()
        if self._app is None:
            from ha_core.platform.serving.answers import error

            # The reason is only logged: the caller is not authenticated yet.
            refused = error(503, "database_away", "the platform is not available: the server's log has the reason")
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _try(self) -> None:
        if self._app is not None or time.monotonic() - self._failed_s < RETRY_S:
            return
        try:
            self._app = await asyncio.to_thread(self._make)
        # Any error: whatever is wrong with the database, an operator may mend it, and a later call tries again.
        except Exception as error:
            self._failed_s = time.monotonic()
            log.warning("the platform cannot be served: %s", error)
