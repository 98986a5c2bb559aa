"""Moved topics that clients delete. Gateways run no operations: this one stores a request, which a caretaker executes.

The client gets its answer when no cluster has the topic any more and this gateway has seen that, or at its time-out.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

from gateway.composed.ask import Message
from gateway.composed.handlers import OK, DeleteMoved, failed
from gateway.runtime import clock
from ha_core.model import DeletionRequest, View
from ha_core.store.errors import StoreError
from ha_core.wire.codes import ErrorCode

AT_ONCE = 8
"""Clients' requests that wait for deletions at a time."""
LOOK_S = 0.2
FOLLOWS_S = 3.0
"""Between the end of a deletion and the view that has it."""
MAX_WAIT_S = 60.0
MIN_WAIT_S = 1.0
_AWAY = ErrorCode.REQUEST_TIMED_OUT


class Requests(Protocol):
    """The part of the store that is needed here."""

    def request_deletion(self, request: DeletionRequest) -> None: ...

    def settle_deletion(self, name: str) -> None: ...

    def read(self, kind: type[DeletionRequest], name: str) -> tuple[DeletionRequest, int] | None: ...


class DeletingMoved:
    def __init__(
        self,
        store: Requests,
        gateway: str,
        view: Callable[[], View],
        refresh: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """:param refresh: reads the topics of all clusters."""
        self._store, self._gateway, self._view, self._refresh = store, gateway, view, refresh
        self._waiting = 0

    async def carry_out(self, wanted: DeleteMoved) -> list[Message]:
        """The result of each deletion, in order."""
        if self._waiting >= AT_ONCE:
            busy = failed(_AWAY, f"{AT_ONCE} other requests wait here for topics to be deleted; try again")
            return [busy for _ in wanted.topics]
        self._waiting += 1
        try:
            until = clock.now() + min(max(wanted.wait_ms / 1000, MIN_WAIT_S), MAX_WAIT_S)
            return list(await asyncio.gather(*(self._delete(wanted.user, name, until) for name in wanted.topics)))
        finally:
            self._waiting -= 1

    async def _delete(self, user: str, name: str, until: float) -> Message:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        request = DeletionRequest(name=name, user=user, gateway=self._gateway, at=at)
        try:
            await asyncio.to_thread(self._store.request_deletion, request)
            while True:
                await asyncio.sleep(LOOK_S)
                stored = await asyncio.to_thread(self._store.read, DeletionRequest, name)
                if stored is None:
                    return await self._followed(name)
                if stored[0].refused:
                    await asyncio.to_thread(self._store.settle_deletion, name)
                    refused = ErrorCode.POLICY_VIOLATION if stored[0].refused == "asked" else _AWAY
                    return failed(refused, stored[0].why)
                if clock.now() >= until:
                    return failed(
                        _AWAY, f"topic {name} is not deleted yet; a gateway that takes care of operations goes on"
                    )
        except StoreError as error:
            return failed(_AWAY, f"{error}. It is not known whether topic {name} is deleted; try again")

    async def _followed(self, name: str) -> Message:
        """Waits until this gateway's view no longer has the topic, after the request was settled."""
        until = clock.now() + FOLLOWS_S
        while name in self._view().topics:
            if clock.now() >= until:
                why = f"topic {name} is not deleted in every cluster; `switchyard status --check` shows operators why"
                return failed(_AWAY, why)
            await asyncio.sleep(LOOK_S)
        await self._refresh()  # the client may create the topic again at once
        return OK
