"""Pages of Switchyard in Airflow's UI: *Fleet* and *Mirrors* in the navigation, the others as tabs of them, and
*Outcome*, a tab on the page of a run.

Users who may read runs of `sync_mirrors` may read the pages, which have the contents of their logs. Airflow does not
authenticate callers of a plugin's app: without the dependency below it would answer everybody. The pages change
nothing: their forms trigger runs by Airflow's own API. `/switchyard/metrics` alone is for everybody, as Airflow's own
`/api/v2/monitor/health` is, whose content it has for Prometheus.

Every process of Airflow executes this file, that of each task too, so the app is built at its first call.
"""

from typing import Annotated, Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/switchyard"
RUNS = "runs"
GUARDS = "sync_mirrors"
HEADERS = {
    # Nothing but the page's own script and style: names in it come from clients.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _app() -> Any:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
    from fastapi import Depends, FastAPI, Request
    from fastapi.responses import HTMLResponse, Response

    from ha_core.operators.pages.site import FILES, Site

    may_read = Depends(requires_access_dag("GET", DagAccessEntity.RUN, GUARDS))
    app = FastAPI(title="Switchyard", dependencies=[may_read], docs_url=None, redoc_url=None, openapi_url=None)
    site = Site()

    def page(request: Request, user: Annotated[BaseUser, Depends(get_user)]) -> Response:
        name = request.url.path.rpartition("/")[2]
        answer = site.answer(name, dict(request.query_params), str(user.get_id()))
        return HTMLResponse(answer.html, answer.status, HEADERS)

    def asset(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return Response(site.file(name), headers=HEADERS, media_type=FILES[name])

    for path in site.pages:
        app.add_api_route(f"/{path}", page, methods=["GET"], response_model=None)
    for name in FILES:
        app.add_api_route(f"/{name}", asset, methods=["GET"], response_model=None)
    app.mount(f"/{RUNS}", _runs_app())
    app.add_route("/metrics", _metrics_page(), methods=["GET"])  # a plain route: dependencies do not hold for it
    return app


def _metrics_page() -> Any:
    from fastapi import Request
    from fastapi.responses import Response

    from ha_core.operators.pages.health import HealthBusyError, airflow_health

    health = airflow_health()

    def metrics(_: Request) -> Response:
        try:
            return Response(health.render(), headers=HEADERS, media_type=health.media_type)
        except HealthBusyError as error:
            return Response(f"{error}\n", 503, HEADERS, media_type="text/plain")

    return metrics


def _runs_app() -> Any:
    """Pages of single runs: users who may read the results of a DAG's tasks may read them."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse, Response

    from ha_core.operators.pages.outcome import outcome_html

    app = FastAPI(title="Switchyard runs", docs_url=None, redoc_url=None, openapi_url=None)

    def page(dag_id: str, run_id: str) -> Response:
        return HTMLResponse(outcome_html(dag_id, run_id, f"{PREFIX}/"), 200, HEADERS)

    may_read = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
    app.add_api_route("/{dag_id}/{run_id}", page, methods=["GET"], dependencies=[may_read], response_model=None)
    return app


class _WhenCalled:
    """An ASGI application."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            self._app = _app()
        await self._app(scope, receive, send)


def _view(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "href": f"{PREFIX}/{name.lower()}",
        "destination": "nav",
        "nav_top_level": True,
        "url_route": f"switchyard-{name.lower()}",
    }


OUTCOME = {
    "name": "Outcome",
    "href": f"{PREFIX}/{RUNS}/{{DAG_ID}}/{{RUN_ID}}",
    "destination": "dag_run",
    "url_route": "switchyard-outcome",
}
"""A tab on the page of each run."""


class SwitchyardPages(AirflowPlugin):  # type: ignore[misc]  # airflow is not typed here
    name = "switchyard_pages"
    fastapi_apps = [{"app": _WhenCalled(), "url_prefix": PREFIX, "name": "Switchyard"}]  # noqa: RUF012 - Airflow's own
    external_views = [_view("Fleet"), _view("Mirrors"), OUTCOME]  # noqa: RUF012 - Airflow's own
