"""Runs composed handlers: carries their questions to the clusters and the answers back.

Where a request or what clusters say to it is long, the handler's own work is done beside the event loop, and its answer
is encoded there: everybody else's requests go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gateway.composed import BrokerKey, Context, Handler, NeedNodes, NodeAddress, handler
from gateway.composed.ask import ClusterUnavailableError
from gateway.driver.listings import Listings, lists_all, placement
from gateway.heavy import beside, heavy
from gateway.links.links import Links
from gateway.nodes import NodeBook
from gateway.session.commands import Compose
from ha_core.wire import decode, encode

Placing = Callable[[Mapping[BrokerKey, NodeAddress]], dict[BrokerKey, NodeAddress]]
"""Own virtual nodes → the same at the ports of the gateway that serves this client."""

Body = dict[str, Any] | bytes
"""Of an answer; encoded where that would hold up the loop."""


class _Done(NamedTuple):
    body: dict[str, Any]


def _advance(work: Handler, answer: Any) -> Any:
    """The handler's next step, or `_Done`: StopIteration cannot be carried between threads."""
    try:
        return work.send(answer)
    except StopIteration as done:
        return _Done(done.value)


class Composer:
    def __init__(self, links: Links, nodes: NodeBook) -> None:
        self._links, self._nodes = links, nodes
        self._listings = Listings()
        self._listing = asyncio.Lock()
        """All topics: who waits for it mostly finds the list made. Nobody else waits here, above all not for what a
        cluster takes to answer somebody: the work itself is done one after the other anyway (`heavy`)."""

    async def compose(self, context: Context, command: Compose, placing: Placing) -> Body:
        """The response body of one composed request.

        :raises RemoteProtocolError: the request is not what it should be.
        """
        if isinstance(command.request, bytes):
            request = await beside(
                decode, command.api_key, command.api_version, "request", command.request, limits=context.limits
            )
            command = command._replace(request=request)
        work = handler(command.api_key)(context, command.api_version, command.request)
        if heavy(command.request):
            return await self._long(command, work, await beside(_advance, work, None), placing)
        step = _advance(work, None)
        while not isinstance(step, _Done):
            answer = await self._answer(step, placing)
            if isinstance(answer, list) and any(_long(reply) for reply in answer):
                if lists_all(command):
                    return await self._all(context, command, work, answer, placing)
                return await self._long(command, work, await beside(_advance, work, answer), placing)
            step = _advance(work, answer)
        return step.body

    async def _answer(self, step: Any, placing: Placing) -> Any:
        if isinstance(step, NeedNodes):
            return placing(await self._nodes.ensure(step.brokers))
        return await self._links.ask_all(step)

    async def _long(self, command: Compose, work: Handler, step: Any, placing: Placing) -> bytes:
        while not isinstance(step, _Done):
            step = await beside(_advance, work, await self._answer(step, placing))
        return await beside(encode, command.api_key, command.api_version, "response", step.body)

    async def _all(self, context: Context, command: Compose, work: Handler, replies: Any, placing: Placing) -> bytes:
        """The list of all topics, made anew only where it would be another one than the last."""
        async with self._listing:
            known = self._listings.listing(context, command, replies)
            if known.brokers is not None:
                nodes = placing(await self._nodes.ensure(known.brokers))
                body = known.bodies.get(placement(nodes, known.brokers))
                if body is not None:
                    return body
            step = await beside(_advance, work, replies)
            while isinstance(step, NeedNodes):
                known.brokers = step.brokers
                nodes = placing(await self._nodes.ensure(step.brokers))
                step = await beside(_advance, work, nodes)
            body = await self._long(command, work, step, placing)
            if known.brokers is not None:
                known.bodies[placement(nodes, known.brokers)] = body
            return body


def _long(reply: Any) -> bool:
    return not isinstance(reply, ClusterUnavailableError) and heavy(reply)
