"""The REST API: the same paths for each kind, and the gateways' paths.

Bodies and answers are JSON; `/openapi.json` describes them. Every call but those of it and of `/metrics` needs
`Authorization: Bearer TOKEN`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, SecretStr, create_model
from starlette.exceptions import HTTPException

from ha_core.metrics.http import CONTENT_TYPE, render
from ha_core.metrics.process import ProcessMetrics
from ha_core.platform.changing import Edit, put
from ha_core.platform.entry import KINDS, Entry, kind_of
from ha_core.platform.errors import InvalidError, NotThereError
from ha_core.platform.feed import MAX_ROWS
from ha_core.platform.kinds.settings import TYPES
from ha_core.platform.platform import Platform
from ha_core.platform.reading import MAX_PAGE
from ha_core.platform.scram import ITERATIONS
from ha_core.platform.serving.answers import NO_TOKEN, BodyLimit, TokenFirst, TypedBody, shape_errors
from ha_core.platform.serving.client_changes import add_client_changes
from ha_core.platform.serving.discovery import DiscoveryFeed, add_discovery
from ha_core.platform.serving.tokens import Caller, CallerTokens, Role
from ha_core.platform.stored import StoredEntry
from ha_core.platform.words import MAX_REASON, short

ROLES = ("user", "group", "topic", "cluster", "instance", "owner", "type")
"""Filters of lists: roles of the references in entries."""
OPENAPI = "/openapi.json"
METRICS = "/metrics"
_Reason = Annotated[str, Field(min_length=1, max_length=MAX_REASON)]
_Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
_bearer = HTTPBearer(auto_error=False)


class _ChangeBody(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class Password(_ChangeBody):
    """The password is turned into keys at once, and never stored."""

    user: str
    password: SecretStr
    reason: _Reason
    version: int | None = None
    iterations: int = ITERATIONS


class GeneratedPassword(_ChangeBody):
    """The answer has the password, once."""

    user: str
    reason: _Reason
    replace: bool = False


class NewInstance(_ChangeBody):
    """The answer contains the client id."""

    user: str
    topics: tuple[str, ...]
    reason: _Reason
    description: str = ""


CallerOf = Callable[..., Caller]
"""A dependency of FastAPI that returns the caller, or refuses it."""


Enforcement = Callable[[Mapping[str, int]], Sequence[str]]
"""Kind → time of its newest change, to sentences that say where the changes are in force."""
NO_ZOOKEEPER = "Whether a gateway enforces it is not known: the service has no ZooKeeper (--zookeeper)."


class _Answers:
    """Answers to changes."""

    def __init__(self, enforcement: Enforcement | None) -> None:
        self._enforcement = enforcement

    def changed(self, made: StoredEntry, dry_run: bool) -> dict[str, Any]:
        """The entry, and where its change is in force; not for a dry run, which changes nothing."""
        if dry_run:
            return made.to_json()
        said = [NO_ZOOKEEPER] if self._enforcement is None else self._enforcement({made.kind: made.changed_us})
        return {**made.to_json(), "enforcement": [*said]}


def make_app(
    registry: Platform,
    tokens: CallerTokens,
    publishes_quotas: bool = False,
    enforcement: Enforcement | None = None,
) -> FastAPI:
    """:param publishes_quotas: whether quotas that clients change come into force.
    :param enforcement: None: no ZooKeeper is known.
    """
    app = _app(OPENAPI)
    app.state.tokens = tokens
    app.add_middleware(TokenFirst, known=lambda token: tokens.caller(token) is not None, open_paths={OPENAPI, METRICS})
    app.add_route(METRICS, _metrics_page(), methods=["GET"], include_in_schema=False)
    app.include_router(_of_gateways(registry, publishes_quotas))
    add_operators(app, registry, _only("operator"), enforcement)
    return app


def _metrics_page() -> Callable[[Request], Response]:
    """Metrics of the process, for every caller: Prometheus has no token, and sees by them that it runs."""
    process = ProcessMetrics()

    def metrics(_: Request) -> Response:
        return Response(render(process), media_type=CONTENT_TYPE)

    return metrics


def make_operators_app(registry: Platform, caller_of: CallerOf, enforcement: Enforcement | None = None) -> FastAPI:
    """The operators' paths, without tokens: for a server that authenticates callers itself."""
    app = _app(None)
    add_operators(app, registry, caller_of, enforcement)

    def described() -> dict[str, Any]:
        return app.openapi()

    app.add_api_route("/openapi.json", described, include_in_schema=False, dependencies=[Depends(caller_of)])
    return app


def _app(openapi_url: str | None) -> FastAPI:
    app = FastAPI(title="Switchyard platform", version="1", docs_url=None, redoc_url=None, openapi_url=openapi_url)
    app.add_middleware(TypedBody)
    app.add_middleware(BodyLimit)
    shape_errors(app)
    return app


def add_operators(
    app: FastAPI, registry: Platform, caller_of: CallerOf, enforcement: Enforcement | None = None
) -> None:
    answers = _Answers(enforcement)
    app.include_router(_of_operators(registry, caller_of, answers))
    for kind in KINDS.values():
        app.include_router(_of_kind(registry, kind, caller_of, answers))


def _caller(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Caller:
    tokens = cast(CallerTokens, request.app.state.tokens)
    found = None if credentials is None else tokens.caller(credentials.credentials)
    if found is None:
        raise HTTPException(401, NO_TOKEN)
    return found


def _only(role: Role) -> CallerOf:
    def allowed(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
        if caller.role != role:
            raise HTTPException(403, f"{caller.name} is a {caller.role}; this is for a {role}")
        return caller

    return allowed


def _of_gateways(registry: Platform, publishes_quotas: bool) -> APIRouter:
    discovery = DiscoveryFeed(registry)
    router = APIRouter(prefix="/v1/gateway", tags=["gateways"], dependencies=[Depends(_only("gateway"))])

    @router.get("/changes/{kind}")
    def changes(
        kind: str,
        after_us: Annotated[int, Query(ge=0, lt=1 << 63)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 1000,
    ) -> Response:
        found = registry.source(_known(kind).KIND).changes_in_json(after_us, limit)
        return Response(found, media_type="application/json")

    @router.get("/digest/{kind}")
    def digest(kind: str, through_us: Annotated[int, Query(ge=0, lt=1 << 63)]) -> dict[str, Any]:
        return {"digest": registry.source(_known(kind).KIND).digest(through_us)}

    @router.get("/settings")
    def versions() -> dict[str, Any]:
        return {"versions": discovery.type_versions()}

    @router.get("/settings/{type_name}")
    def settings(type_name: str, version: Annotated[int, Query(ge=0)] = 0) -> dict[str, Any]:
        if type_name not in TYPES:
            raise NotThereError(f"type {short(type_name)} is not known; one of {', '.join(TYPES)}")
        newest, values = discovery.part(type_name, version)
        return {"type": type_name, "version": newest, "settings": values}

    add_discovery(router, discovery)
    add_client_changes(router, registry, _caller, publishes_quotas)
    return router


def _of_operators(registry: Platform, caller_of: CallerOf, answers: _Answers) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["operators"], dependencies=[Depends(caller_of)])

    @router.get("/history/{kind}")
    def history(
        kind: str,
        key: str | None = None,
        before_us: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
        limit: _Limit = 100,
    ) -> dict[str, Any]:
        return registry.read.history(_known(kind).KIND, key, before_us, limit).to_json()

    @router.post("/passwords")
    def password(
        body: Password, caller: Annotated[Caller, Depends(caller_of)], dry_run: bool = False
    ) -> dict[str, Any]:
        secret = body.password.get_secret_value()
        made = registry.set_password(
            body.user, secret, caller.name, body.reason, body.version, body.iterations, dry_run
        )
        return answers.changed(made, dry_run)

    @router.post("/passwords/generated")
    def generated(
        body: GeneratedPassword,
        caller: Annotated[Caller, Depends(caller_of)],
        answer: Response,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        made, secret = registry.generate_password(body.user, caller.name, body.reason, body.replace, dry_run)
        answer.headers["Cache-Control"] = "no-store"
        return {**answers.changed(made, dry_run), "password": None if dry_run else secret}

    @router.post("/instances/issued", status_code=201)
    def issued(
        body: NewInstance, caller: Annotated[Caller, Depends(caller_of)], dry_run: bool = False
    ) -> dict[str, Any]:
        made = registry.new_instance(body.user, body.topics, body.description)
        return answers.changed(registry.create(made, caller.name, body.reason, dry_run), dry_run)

    return router


def _of_kind(registry: Platform, kind: type[Entry], caller_of: CallerOf, answers: _Answers) -> APIRouter:
    router = APIRouter(prefix=f"/v1/{kind.KIND}", tags=[kind.KIND], dependencies=[Depends(caller_of)])
    who = Annotated[Caller, Depends(caller_of)]
    new = create_model(f"New{kind.__name__}", __base__=_ChangeBody, value=(kind, ...), reason=(_Reason, ...))
    changed = create_model(f"Changed{kind.__name__}", __base__=new, version=(int, ...))

    def items(request: Request, after: str = "", limit: _Limit = 100) -> dict[str, Any]:
        mentioned = {role: request.query_params[role] for role in ROLES if role in request.query_params}
        if unknown := request.query_params.keys() - {"after", "limit", *ROLES}:
            raise InvalidError(f"{short(sorted(unknown)[0])} is no filter; filters are {', '.join(ROLES)}")
        return registry.read.page(kind.KIND, after, limit, mentioned).to_json()

    def one(key: str) -> dict[str, Any]:
        return registry.read.get(kind.KIND, key).to_json()

    def create(body: Any, caller: who, dry_run: bool = False) -> dict[str, Any]:
        return answers.changed(registry.apply([put(body.value)], caller.name, body.reason, dry_run)[0], dry_run)

    def change(key: str, body: Any, caller: who, dry_run: bool = False) -> dict[str, Any]:
        if body.value.key != key:
            raise InvalidError(
                f"{short(key)} is not the key of this value, {short(body.value.key)} is: create an entry"
            )
        made = registry.apply([put(body.value, body.version)], caller.name, body.reason, dry_run)[0]
        return answers.changed(made, dry_run)

    def delete(
        key: str, caller: who, version: int, reason: Annotated[str, Query(min_length=1)], dry_run: bool = False
    ) -> dict[str, Any]:
        edit = Edit(kind.KIND, key, None, version)
        return answers.changed(registry.apply([edit], caller.name, reason, dry_run)[0], dry_run)

    create.__annotations__["body"], change.__annotations__["body"] = new, changed
    router.add_api_route("", items, methods=["GET"])
    router.add_api_route("", create, methods=["POST"], status_code=201)
    # Keys may have any characters; in a path they are encoded, `/` too.
    router.add_api_route("/{key:path}", one, methods=["GET"])
    router.add_api_route("/{key:path}", change, methods=["PUT"])
    router.add_api_route("/{key:path}", delete, methods=["DELETE"])
    return router


def _known(kind: str) -> type[Entry]:
    try:
        return kind_of(kind)
    except InvalidError as error:
        raise NotThereError(str(error)) from None
