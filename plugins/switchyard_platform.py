"""The platform's REST API in Airflow, below /switchyard-platform: users, rights and quotas, for users of Airflow.

Users who may see runs of `change_access` may read, and users who may trigger it may change: the API allows what its
form allows. Airflow does not authenticate callers of a plugin's app: without the dependency below it would answer
everybody. The gateways' feed, and their tokens, are not here: `switchyard platform serve` has them.

Every process of Airflow executes this file, that of each task too, so the app is built at its first call.
"""

from typing import Annotated, Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/switchyard-platform"
GUARDS = "change_access"
READING = frozenset({"GET", "HEAD"})


def _app() -> Any:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
    from fastapi import Depends, Request

    from ha_core.operators.platform import platform_app

    may = {method: requires_access_dag(method, DagAccessEntity.RUN, GUARDS) for method in ("GET", "POST")}

    def caller(request: Request, user: Annotated[BaseUser, Depends(get_user)]) -> str:
        may["GET" if request.method in READING else "POST"](request, user)
        return str(user.get_name())

    return platform_app(caller)


class _Platform:
    """An ASGI application."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from ha_core.operators.platform import WhenCalled

            self._app = WhenCalled(_app)
        await self._app(scope, receive, send)


class SwitchyardPlatform(AirflowPlugin):  # type: ignore[misc]  # airflow is not typed here
    name = "switchyard_platform"
    fastapi_apps = [  # noqa: RUF012 - Airflow's own
        {"app": _Platform(), "url_prefix": PREFIX, "name": "Switchyard platform"}
    ]
