"""Operations and what they leave, with fields from the test and defaults for the rest."""

from typing import Any

from ha_core.model import LostTail, MigrateOperation, MoveRequest, MoveSet, Scope, SwitchOperation, Tail


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


def a_tail(topic: str = "orders", cluster: str = "east", target: str = "west", **said: Any) -> LostTail:
    """A lost tail that the forced operation switch-1 left, by default of one partition and not counted."""
    operation = said.get("operation", "switch-1")
    default = {"since": "2026-11-23T10:00:00Z", "link": "link-1", "log": "switchyard-copies", "log_partitions": 16}
    key = LostTail.key_of(topic, cluster, operation)
    partitions = {0: Tail(mirrored=20, client=20)}
    own = {"key": key, "topic": topic, "cluster": cluster, "target": target, "operation": operation}
    return LostTail(**{**own, **default, "partitions": partitions, **said})
