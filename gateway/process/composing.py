"""Runs the handlers of composed requests: passes their questions to the clusters and the answers back.

Long requests and long answers are handled and encoded in a thread beside the event loop, so that other requests go on
meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from gateway.composed.ask import Ask, ClusterUnavailableError, Reply
from gateway.composed.handlers import (
    BrokerKey,
    Change,
    Context,
    DeletedRules,
    Handler,
    Long,
    NeedNodes,
    NodeAddress,
    compose,
)
from gateway.composed.lookups import know_much
from gateway.model.nodes import NodeBook
from gateway.process.listings import Listings, lists_all, placement
from gateway.runtime.offload import free, heavy, offload
from gateway.session.commands import Compose
from gateway.upstream.clusters import Clusters
from ha_core.wire import decode, encode, inline
from ha_core.wire.codes import ApiKey

T = TypeVar("T")
DESCRIBED: Mapping[int, str] = {
    ApiKey.DESCRIBE_CONFIGS: "resources",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
}
"""API → the field that lists the names to describe. An answer has about 100 times the bytes of its request, and no
client needs it to read or write."""
FEW_DESCRIBED = 20
MAX_LARGE_TOPICS = 16
"""Concurrent requests of one user for metadata of topics with many partitions. A cluster's answer, once decoded, takes
30 times its bytes of memory until its turn comes. The limit is above `MAX_DESCRIBING` because clients need metadata to
work, and because each request takes seconds while a cluster hangs."""
MAX_DESCRIBING = 2
"""Concurrent requests of one user that describe many groups or resources, or list groups. Clusters' answers wait in
memory for the one thread that reads long answers, and other users' requests wait for them."""
MANY_RULES = 1000
"""Deletions of more rules than this are encoded in a thread: that takes milliseconds."""


class SingleFlight(Generic[T]):
    """Shares one question to a cluster among all callers that ask it at one time.

    A question's answer is only for callers that asked before it was sent: a client that creates a topic and then
    lists all topics has to find it. Requests that arrive while a question is in flight share the next one.
    """

    def __init__(self) -> None:
        self._asked: dict[Hashable, asyncio.Task[T]] = {}
        """In flight."""
        self._next: dict[Hashable, asyncio.Task[T]] = {}
        """Not sent yet."""

    async def ask(self, key: Hashable, put: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to the question `key`, which `put` sends. Cancelling one caller cancels no other."""
        if key not in self._next:
            self._next[key] = asyncio.create_task(self._put(key, put))
        return await asyncio.shield(self._next[key])

    async def _put(self, key: Hashable, put: Callable[[], Coroutine[Any, Any, T]]) -> T:
        before = self._asked.get(key)
        if before is not None:
            await asyncio.wait({before})
        own = self._asked[key] = self._next.pop(key)
        try:
            return await put()
        finally:
            if self._asked.get(key) is own:
                del self._asked[key]


Placing = Callable[[Mapping[BrokerKey, NodeAddress]], dict[BrokerKey, NodeAddress]]
"""Own virtual nodes → the same nodes at the ports of the gateway that serves this client."""

Body = dict[str, Any] | bytes
"""Body of an answer; encoded already where encoding would block the loop."""


class _Done(NamedTuple):
    body: dict[str, Any]


def _advance(work: Handler, answer: Any) -> Any:
    """The handler's next step, or `_Done`: StopIteration cannot be passed between threads."""
    try:
        return work.send(answer)
    except StopIteration as done:
        return _Done(done.value)


def _advance_and_encode(work: Handler, answer: Any, api_key: int, version: int) -> Any:
    """As `_advance`, with the answer encoded. Its lists are emptied: they belong to the handler, not to a cluster."""
    step = _advance(work, answer)
    if not isinstance(step, _Done):
        return step
    encoded = encode(api_key, version, "response", step.body)
    for items in step.body.values():
        if isinstance(items, list):
            free(items)
    return encoded


class Composer:
    def __init__(
        self, upstream: Clusters, nodes: NodeBook, carry_out: Callable[[Change], Coroutine[Any, Any, Any]]
    ) -> None:
        """:param carry_out: makes changes outside the clusters, and returns the result of each."""
        self._upstream, self._nodes, self._carry_out = upstream, nodes, carry_out
        self._listings = Listings()
        self._joint = SingleFlight[list[Reply]]()
        self._one_at_a_time = asyncio.Lock()
        """Serialises the steps of long answers: in parallel they would take as long and more memory. It is not held
        during a question to a cluster or to ZooKeeper."""
        self._of_user: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Lets one request per user compete for that lock, so that users with few requests wait less."""
        self._describing: WeakValueDictionary[tuple[str, int], asyncio.Semaphore] = WeakValueDictionary()
        self._one_list = asyncio.Lock()
        """Serialises lists of all topics: equal requests that arrive meanwhile get the same list."""

    async def compose(self, context: Context, command: Compose, placing: Placing) -> Body:
        """The response body of one composed request.

        :raises RemoteProtocolError: the request is malformed.
        """
        at_once = _most_at_once(context, command)
        if at_once is None:
            return await self._composed(context, command, placing)
        turn = self._describing.setdefault((command.identity.user, at_once), asyncio.Semaphore(at_once))
        async with turn:
            return await self._composed(context, command, placing)

    async def _composed(self, context: Context, command: Compose, placing: Placing) -> Body:
        if isinstance(command.request, bytes):
            async with self._users_turn(command.identity.user):
                key, version, limits = command.api_key, command.api_version, inline(context.limits)
                request = await offload(decode, key, version, "request", command.request, limits=limits)
            command = command._replace(request=request)
        lists = lists_all(command) and not context.direct  # Direct lists are built differently, and are short.
        work = compose(context, command.api_key, command.api_version, command.request)
        if heavy(command.request):
            return await self._long(context, command, work, None, placing)
        step = _advance(work, None)
        while not isinstance(step, _Done):
            if isinstance(step, Long):
                return await self._long(context, command, work, None, placing)
            if lists and not isinstance(step, NeedNodes):
                answer: Any = await asyncio.gather(*map(self._topics, step))
            else:
                answer = await self._answer(context, step, placing)
            if isinstance(answer, list) and any(_long(reply) for reply in answer):
                if lists:
                    return await self._all(context, command, work, answer, placing)
                return await self._long(context, command, work, answer, placing)
            step = _advance(work, answer)
        return step.body

    async def offload(self, user: str, work: Callable[[], T]) -> T:
        """Runs other work of a long request in a thread, in its user's turn."""
        async with self._users_turn(user):
            return await offload(work)

    async def _answer(self, context: Context, step: Any, placing: Placing) -> Any:
        if isinstance(step, NeedNodes):
            return placing(await self._nodes.ensure(step.brokers))
        if isinstance(step, Change):
            return await self._carry_out(step)
        if isinstance(step, Long):
            return None  # The answer is handled in a thread already.
        return await self._upstream.ask_all(step, context.user)

    async def _topics(self, ask: Ask) -> Reply:
        """All topics of a cluster. An answer may have many megabytes; twenty at once would block the loop. It is shared
        by all users who ask meanwhile, so it counts for none of them."""
        key = ask.cluster, ask.message["include_topic_authorized_operations"]
        (reply,) = await self._joint.ask(key, partial(self._upstream.ask_all, (ask,)))
        return reply

    @asynccontextmanager
    async def _users_turn(self, user: str) -> AsyncIterator[None]:
        mine = self._of_user.setdefault(user, asyncio.Lock())
        async with mine, self._one_at_a_time:
            yield

    async def _long(self, context: Context, command: Compose, work: Handler, answer: Any, placing: Placing) -> bytes:
        while True:
            async with self._users_turn(command.identity.user):
                step = await offload(_advance_and_encode, work, answer, command.api_key, command.api_version)
            if isinstance(step, bytes):
                return step
            answer = await self._answer(context, step, placing)

    async def _all(self, context: Context, command: Compose, work: Handler, replies: Any, placing: Placing) -> bytes:
        """The list of all topics, rebuilt only if its inputs have changed."""
        async with self._one_list:
            listing = self._listings.listing(context, command, replies)
            if listing.brokers is not None:
                nodes = placing(await self._nodes.ensure(listing.brokers))
                body = listing.bodies.get(placement(nodes, listing.brokers))
                if body is not None:
                    await asyncio.sleep(0)  # one per iteration of the loop: each sends megabytes
                    return body
            answer = replies
            # Outside the user's turn: others that wait for this list would wait for all of the user's requests.
            while not isinstance(
                body := await offload(_advance_and_encode, work, answer, command.api_key, command.api_version), bytes
            ):
                answer = await self._answer(context, body, placing)
                if isinstance(body, NeedNodes):
                    listing.brokers, nodes = body.brokers, answer
            if listing.brokers is not None:
                listing.bodies[placement(nodes, listing.brokers)] = body
            return body


def _most_at_once(context: Context, command: Compose) -> int | None:
    """How many such requests a user may have in flight; None: no limit, since the answer is short or shared."""
    key, request = command.api_key, command.request
    if key == ApiKey.LIST_GROUPS:
        return MAX_DESCRIBING
    if key == ApiKey.METADATA:
        if lists_all(command):
            return None  # Clients whose answers are equal share one list.
        topics = None if isinstance(request, bytes) else request["topics"]
        large = topics is None or know_much(context, [topic["name"] or "" for topic in topics])
        return MAX_LARGE_TOPICS if large else None
    names = DESCRIBED.get(key)
    long = names is not None and (isinstance(request, bytes) or len(request[names]) > FEW_DESCRIBED)
    return MAX_DESCRIBING if long else None


def _long(reply: Any) -> bool:
    if isinstance(reply, DeletedRules):
        return len(reply.rules) >= MANY_RULES
    return not isinstance(reply, ClusterUnavailableError) and heavy(reply)


class Errands:
    """Requests in progress, and what happens to them when their connection ends.

    A client that asks much and leaves must not leave work to the gateway, so reads end with their connection. Changes
    are completed: otherwise some topics of a request would be deleted and others not.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: dict[Hashable, set[asyncio.Task[None]]] = {}
        """By the connection whose end cancels them; None: they are completed."""

    def __len__(self) -> int:
        return sum(map(len, self._tasks.values()))

    def start(self, connection: Hashable, work: Coroutine[Any, Any, None], completes: bool) -> None:
        """:param completes: whether the work goes on after the connection has ended."""
        task = self._loop.create_task(work)
        owner = None if completes else connection
        self._tasks.setdefault(owner, set()).add(task)
        task.add_done_callback(lambda done: self._done(owner, done))

    def gone(self, connection: Hashable) -> None:
        for task in self._tasks.get(connection, ()):
            task.cancel()

    async def close(self) -> None:
        """Cancels everything that is left."""
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, owner: Hashable, task: asyncio.Task[None]) -> None:
        self._tasks[owner].remove(task)
        if not self._tasks[owner]:
            del self._tasks[owner]
