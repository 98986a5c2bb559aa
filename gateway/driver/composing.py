"""Runs a composed handler: carries its questions to the clusters and its answers back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.composed import BrokerKey, Context, NeedNodes, NodeAddress, handler
from gateway.links.links import Links
from gateway.nodes import NodeBook
from gateway.session.commands import Compose

Placing = Callable[[Mapping[BrokerKey, NodeAddress]], dict[BrokerKey, NodeAddress]]
"""Own virtual nodes → the same at the ports of the gateway that serves this client."""


async def compose(
    context: Context, command: Compose, links: Links, nodes: NodeBook, placing: Placing
) -> dict[str, Any]:
    """The response body of one composed request."""
    work = handler(command.api_key)(context, command.api_version, command.request)
    answer: Any = None
    while True:
        try:
            step = work.send(answer)
        except StopIteration as done:
            body: dict[str, Any] = done.value
            return body
        if isinstance(step, NeedNodes):
            answer = placing(await nodes.ensure(step.brokers))
        else:
            answer = await links.ask_all(step)
