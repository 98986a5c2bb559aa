"""Waiting for clients of a test: for their first records, for more of them, and for the end of what they read."""

from collections.abc import Collection

from stack.clients.process import PATIENCE_S, ClientProcess
from stack.history.events import Acked, Delivered
from tests.kit.waiting import until


def acked(producer: ClientProcess) -> list[Acked]:
    return [event for event in producer.history().clients[producer.name] if isinstance(event, Acked)]


def given(consumer: ClientProcess) -> list[Delivered]:
    return [event for event in consumer.history().clients[consumer.name] if isinstance(event, Delivered)]


def await_records(count: int, *clients: ClientProcess, timeout_s: float = PATIENCE_S) -> None:
    """Wait until each producer has this many acknowledged records, and each consumer as many delivered ones."""
    for client in clients:
        client.wait_for(count, _progress(client), timeout_s)


def await_more(count: int, *clients: ClientProcess, timeout_s: float = PATIENCE_S) -> None:
    """Wait until each client has this many records more than now."""
    wanted = [(client, client.count(_progress(client)) + count) for client in clients]
    for client, number in wanted:
        client.wait_for(number, _progress(client), timeout_s)


def read_all(promised: Collection[str], *consumers: ClientProcess, timeout_s: float = PATIENCE_S) -> None:
    """Wait until each consumer has got these values, and stop it."""
    for consumer in consumers:
        missing = set(promised)
        await_records(min(1, len(missing)), consumer, timeout_s=timeout_s)

        def has_all(consumer: ClientProcess = consumer, missing: set[str] = missing) -> bool:
            missing.difference_update(record.value for record in given(consumer))
            return not missing

        until(has_all, lambda missing=missing: f"{len(missing)} records are not read", timeout_s)  # type: ignore[misc]
        consumer.stop()


def _progress(client: ClientProcess) -> str:
    return "delivered" if client.kind.endswith(("-consumer", "-reader")) else "acknowledged"
