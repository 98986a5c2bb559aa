"""Handlers that register themselves: the table of APIs is filled only where they are defined."""

from typing import TypeVar

from ha_core.wire.codes import ApiKey

H = TypeVar("H")


def declare(table: dict[int, H], api_key: ApiKey, handler: H) -> H:
    """Adds the handler to the table.

    :raises ValueError: the API has another handler.
    """
    if table.setdefault(api_key, handler) is not handler:
        raise ValueError(f"{api_key.name} has two handlers: {table[api_key]} and {handler}")
    return handler
