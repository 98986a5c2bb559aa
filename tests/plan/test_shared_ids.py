"""A client id in use at several addresses at once is reported; idle connections do not count."""

from typing import Any

from ha_core.plan.access.shared_ids import IDLE_MS, SharedId, in_use, shared_ids


def row(user: str | None, client_id: str | None, address: str, **more: int) -> dict[str, Any]:
    return {"user": user, "client_id": client_id, "address": address, "idle_ms": 0, "in_flight": 0, **more}


def test_a_client_id_is_shared_if_one_user_uses_it_at_two_addresses() -> None:
    rows = [
        row("ann", "till", "10.0.0.2"),
        row("ann", "till", "10.0.0.1"),
        row("ann", "till", "10.0.0.1"),
        row("ann", "books", "10.0.0.1"),
        row("bo", "till", "10.0.0.3"),
        row("bo", "", "10.0.0.4"),
        row("bo", "", "10.0.0.5"),
        row(None, "till", "10.0.0.6"),
    ]

    assert list(shared_ids(rows)) == [SharedId("ann", "till", ("10.0.0.1", "10.0.0.2"))]


def test_a_connection_is_in_use_while_it_has_requests() -> None:
    assert in_use(row("ann", "till", "10.0.0.1"))
    assert in_use(row("ann", "till", "10.0.0.1", idle_ms=IDLE_MS, in_flight=1))
    assert not in_use(row("ann", "till", "10.0.0.1", idle_ms=IDLE_MS))
