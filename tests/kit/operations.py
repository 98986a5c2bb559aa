"""Operations, with fields from the test and defaults for the rest."""

from __future__ import annotations

from typing import Any

from ha_core.model import MigrateOperation, MoveRequest, MoveSet, Scope, SwitchOperation


def _defaults(topics: tuple[str, ...], said: dict[str, Any]) -> dict[str, Any]:
    request = MoveRequest(scope=Scope(topics=topics), origin="east", target="west", reason="a test")
    default = {"by": "test", "reason": "a test", "started": "2026-11-21T10:00:00Z"}
    return {**default, "request": request, "moves": MoveSet(topics=topics), **said}


def a_switch(*topics: str, **said: Any) -> SwitchOperation:
    """A switch, by default of `orders` from east to west."""
    return SwitchOperation(**{"id": "switch-1", **_defaults(topics or ("orders",), said)})


def a_migration(*topics: str, **said: Any) -> MigrateOperation:
    """Like `a_switch`, without a fence."""
    return MigrateOperation(**{"id": "migrate-1", **_defaults(topics or ("orders",), said)})
