"""Handlers that declare themselves: a table of APIs is where they are written, and nowhere else."""

from __future__ import annotations

from typing import TypeVar

from ha_core.wire.codes import ApiKey

H = TypeVar("H")


def declare(table: dict[int, H], api_key: ApiKey, handler: H) -> H:
    """Takes the handler into the table.

    :raises ValueError: there is another one for this API.
    """
    if table.setdefault(api_key, handler) is not handler:
        raise ValueError(f"{api_key.name} has two handlers: {table[api_key]} and {handler}")
    return handler
