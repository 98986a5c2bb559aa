"""Cache by client id: nearly all connections use one, but a client may make up any number."""

from typing import TypeVar

from ha_core.plan.routing.bounded_cache import MAX_NAME

V = TypeVar("V")

MAX_CLIENT_IDS = 16


class ByClientId(dict[str | None, V]):
    """Reads like any dict."""

    __slots__ = ()

    def keep(self, client_id: str | None, value: V) -> None:
        if len(self) >= MAX_CLIENT_IDS or len(client_id or "") > MAX_NAME:
            self.clear()  # A very long id is kept alone: it may have 32 kB.
        self[client_id] = value
