"""Pages of Switchyard in Airflow's UI: *Mirrors*, in the navigation.

Users who may read runs of `sync_mirrors` may read the page, which has the contents of their logs. Airflow does not
authenticate callers of a plugin's app: without the dependency below it would answer everybody.

Every process of Airflow executes this file, that of each task too, so the app is built at its first call.
"""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/switchyard"
GUARDS = "sync_mirrors"
HEADERS = {
    # Nothing but the page itself: names in it come from clients.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def _app() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse, PlainTextResponse, Response

    from ha_core.operators.pages import REFRESH_S, MirrorsPage, PageError

    may_read = Depends(requires_access_dag("GET", DagAccessEntity.RUN, GUARDS))
    app = FastAPI(title="Switchyard", dependencies=[may_read], docs_url=None, redoc_url=None, openapi_url=None)
    shown = MirrorsPage()
    headers = {**HEADERS, "Refresh": str(REFRESH_S)}

    def mirrors() -> Response:
        try:
            return HTMLResponse(shown.html(), headers=headers)
        except PageError as error:
            return PlainTextResponse(str(error), 503, headers)

    app.add_api_route("/mirrors", mirrors, methods=["GET"], response_model=None)
    return app


class _WhenCalled:
    """An ASGI application."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            self._app = _app()
        await self._app(scope, receive, send)


class SwitchyardPages(AirflowPlugin):  # type: ignore[misc]  # airflow is not typed here
    name = "switchyard_pages"
    fastapi_apps = [{"app": _WhenCalled(), "url_prefix": PREFIX, "name": "Switchyard"}]  # noqa: RUF012 - Airflow's own
    external_views = [  # noqa: RUF012 - Airflow's own
        {
            "name": "Mirrors",
            "href": f"{PREFIX}/mirrors",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "switchyard-mirrors",
        }
    ]
