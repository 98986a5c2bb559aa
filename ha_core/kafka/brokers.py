"""The brokers of one cluster: addresses, open connections, metadata, and retries across the responsible brokers.

Only idempotent requests go through here: a stale connection is replaced and the request sent again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from ha_core.kafka.connection import CLIENT_ID, BlockingConnection, Deadline
from ha_core.kafka.errors import (
    ClusterUnreachableError,
    ConnectionLostError,
    KafkaAdminError,
    NotReadyError,
    refusal,
)
from ha_core.kafka.security import NO_SECURITY
from ha_core.model.cluster import parse_bootstrap
from ha_core.wire.client import NEWEST
from ha_core.wire.codes import RETRIABLE, ApiKey, name_of
from ha_core.wire.sasl import SecurityProfile

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")

DEFAULT_TIMEOUT_S = 10.0
_PARALLEL = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.25
_LOOK_PAUSE_S = 0.05
_NAMED_IN_ERRORS = 5
_METADATA_VERSION = 12
"""Version 7 has leader epochs, 8 authorized operations, 10 topic ids."""
RIGHTS_NOT_TOLD = -(1 << 31)
"""Value of the authorized operations when the broker does not report them."""


class ReachableCluster(Protocol):
    """A registered `Cluster`, or one of another origin, whose name may then be any text."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """`host:port[,host:port…]`"""

    @property
    def security(self) -> str:
        """Name of its security profile, for texts."""


@dataclass(frozen=True, slots=True)
class Again:
    """In place of an answer: retry, for this reason."""

    why: str


Answers = Iterator[tuple[K, T | Again]]
"""Answers or retries by key."""
StillOurs = Callable[[], None]
"""Raises if the caller must not change anything any more. It is called right before each request that changes the
cluster."""


class _Slot:
    """One broker's connection; its lock makes callers of several threads take turns."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: BlockingConnection | None = None


class Brokers:
    """One cluster's addresses and connections, opened lazily; safe for threads. Base of the parts of `Admin`."""

    def __init__(
        self,
        cluster: ReachableCluster,
        security: SecurityProfile = NO_SECURITY,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        client_id: str = CLIENT_ID,
    ) -> None:
        self.cluster = cluster
        try:
            self.bootstrap = parse_bootstrap(cluster.bootstrap)
        except ValueError as error:
            text = f"cannot be used: {error} Correct its bootstrap addresses."
            raise ClusterUnreachableError(cluster.name, cluster.bootstrap, text) from None
        self.security = security
        self.client_id = client_id
        self.nodes: Mapping[int, tuple[str, int]] = {}
        """Node id → (host, port), as of the last metadata."""
        self.pool = ThreadPoolExecutor(_PARALLEL, f"kafka-{cluster.name}")
        self._timeout_s = timeout_s
        self._slots: dict[int | None, _Slot] = {}
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def asking(self, timeout_s: float | None = None) -> Asking:
        """The brokers, for one request that takes at most `timeout_s`."""
        return Asking(self, Deadline.after(self._timeout_s if timeout_s is None else timeout_s))

    def open(self, node: int, timeout_s: float | None = None) -> BlockingConnection:
        """A connection to this broker, which the caller closes."""
        return self.asking(timeout_s).open(node)

    def slot(self, node: int | None) -> _Slot:
        with self._guard:
            return self._slots.setdefault(node, _Slot())

    def learn(self, nodes: Mapping[int, tuple[str, int]]) -> None:
        """Replaces the addresses; connections to old addresses are no longer used."""
        with self._guard:
            for node in [node for node, address in nodes.items() if self.nodes.get(node, address) != address]:
                self._slots.pop(node, None)
            self.nodes = nodes

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        with self._guard:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            if slot.connection is not None:
                slot.connection.close()


class Asking:
    """The brokers of a cluster under the deadline of one request.

    `None` in place of a node id means any broker of the bootstrap list.
    """

    def __init__(self, brokers: Brokers, deadline: Deadline) -> None:
        self.cluster = brokers.cluster.name
        self.deadline = deadline
        self._brokers = brokers

    @property
    def nodes(self) -> Mapping[int, tuple[str, int]]:
        """Node id → (host, port), as of the last metadata."""
        return self._brokers.nodes

    def by(self, deadline: Deadline) -> Asking:
        """These brokers under another deadline."""
        return Asking(self._brokers, deadline)

    def call(
        self, node: int | None, api: ApiKey, message: Mapping[str, Any], max_version: int = NEWEST
    ) -> dict[str, Any]:
        """One request to one broker."""
        return self.converse(node, lambda connection: connection.call(api, message, max_version))

    def calls(
        self,
        node: int | None,
        api: ApiKey,
        keys: Sequence[S],
        max_version: int,
        message: Callable[[Sequence[S]], Mapping[str, Any]],
        several_from: int = 0,
    ) -> list[tuple[Sequence[S], dict[str, Any]]]:
        """Answers about `keys`, at most `max_version` per request, each with the keys of its request.

        :param several_from: the first version that takes more than one key.
        """

        def talk(connection: BlockingConnection) -> list[tuple[Sequence[S], dict[str, Any]]]:
            at_once = max_version if connection.version(api) >= several_from else 1
            return [(some, connection.call(api, message(some))) for some in pages(keys, at_once)]

        return self.converse(node, talk) if keys else []

    def converse(self, node: int | None, talk: Callable[[BlockingConnection], T]) -> T:
        """Runs `talk` on a broker's connection; repeats it once on a new connection if the old one was stale."""
        slot = self._brokers.slot(node)
        with slot.lock:
            reused = slot.connection is not None and not slot.connection.closed
            if not reused:
                slot.connection = self.open(node)
            connection = slot.connection
            assert connection is not None
            connection.until = self.deadline
            try:
                try:
                    return talk(connection)
                except ConnectionLostError:
                    if not reused:
                        raise
                    slot.connection = connection = self.open(node)
                    return talk(connection)
            finally:
                if not connection.client.idle:  # interrupted: the next caller would read this call's answer
                    connection.close()

    def open(self, node: int | None, client_id: str | None = None) -> BlockingConnection:
        """A separate connection, which the caller closes.

        :param client_id: None: the one of all connections to this cluster.
        :raises ClusterUnreachableError: lists every address that was tried.
        """
        bootstrap = self._brokers.bootstrap
        client_id = self._brokers.client_id if client_id is None else client_id
        if node is not None:
            address = self.nodes.get(node)
            if address is None:  # another thread read metadata since, while the broker was away
                text = "is not among the brokers that the cluster names by now. It may be starting; try again."
                raise ClusterUnreachableError(self.cluster, f"broker {node}", text)
            try:
                return self._connect(*address, self.deadline, client_id)
            except ClusterUnreachableError as error:
                raise ClusterUnreachableError(
                    self.cluster, error.address, f"(broker {node}, as the cluster advertises it): {error}"
                ) from error
        failures: list[ClusterUnreachableError] = []
        for position, (host, port) in enumerate(bootstrap):
            share = self.deadline.within(self.deadline.left_s / (len(bootstrap) - position))
            try:
                return self._connect(host, port, share, client_id)
            except ClusterUnreachableError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        tried = ",".join(failure.address for failure in failures)
        raise ClusterUnreachableError(self.cluster, tried, f"cannot be reached. {failures[0]}") from failures[0]

    def metadata(
        self, topics: Collection[str] | None = (), node: int | None = None, rights: bool = False
    ) -> dict[str, Any]:
        """Metadata of `topics` (None: all). Never creates a topic."""
        message = {
            "topics": None if topics is None else [{"name": name} for name in sorted(topics)],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": rights,
        }
        answer = self.call(node, ApiKey.METADATA, message, _METADATA_VERSION)
        self._learn(answer)
        return answer

    def metadata_if_new(self, known: bytes) -> tuple[bytes, dict[str, Any] | None]:
        """Metadata of all topics, see `BlockingConnection.call_if_new`."""
        message = {"topics": None, "allow_auto_topic_creation": False}
        found = self.converse(
            None, lambda connection: connection.call_if_new(ApiKey.METADATA, message, known, _METADATA_VERSION)
        )
        if found[1] is not None:
            self._learn(found[1])
        return found

    def _learn(self, answer: Mapping[str, Any]) -> None:
        if nodes := {broker["node_id"]: (broker["host"], broker["port"]) for broker in answer["brokers"]}:
            self._brokers.learn(nodes)

    def controller(self, keys: Iterable[K]) -> Answers[K, int]:
        """Locates every key at the controller, see `rounds`."""
        node = self.metadata()["controller_id"]
        for key in keys:
            yield key, node if node in self.nodes else Again("the cluster has no controller")

    def on_each(self, things: Collection[S], work: Callable[[S], T]) -> list[T | KafkaAdminError]:
        """Runs `work` for everything in `things`, at most 8 at once; errors of this package become results."""

        def safely(thing: S) -> T | KafkaAdminError:
            try:
                return work(thing)
            except KafkaAdminError as error:
                return error

        return [*(self._brokers.pool.map if len(things) > 1 else map)(safely, things)]

    def rounds(
        self,
        what: str,
        keys: Collection[K],
        locate: Callable[[set[K]], Iterable[tuple[K, int | Again]]],
        ask: Callable[[int, list[K]], Iterable[tuple[K, T | Again]]],
        partial: bool = False,
    ) -> dict[K, T]:
        """Asks the broker responsible for each key, in one request per broker if `ask` can, until all have answered.

        With `partial`, keys without an answer at the deadline are left out. Keys that `locate` or `ask` omit are
        retried.

        :raises NotReadyError: at the deadline; lists some of the keys with their reasons.
        """
        answers: dict[K, T] = {}
        left = set(keys)
        pause_s = _FIRST_PAUSE_S
        while left:
            reasons: dict[K, str] = {}
            by_node: dict[int, list[K]] = {}
            for key, node in locate(left):
                if isinstance(node, Again):
                    reasons[key] = node.why
                else:
                    by_node.setdefault(node, []).append(key)
            unreachable: list[ClusterUnreachableError] = []
            for result in self.on_each(by_node.items(), lambda located: [*ask(*located)]):
                if isinstance(result, ClusterUnreachableError):  # its partitions and groups may find another broker
                    unreachable.append(result)
                elif isinstance(result, KafkaAdminError):
                    raise result
                else:
                    reasons.update((key, answer.why) for key, answer in result if isinstance(answer, Again))
                    answers.update((key, answer) for key, answer in result if not isinstance(answer, Again))
            left -= answers.keys()
            if left and self.deadline.left_s <= pause_s:
                if partial:
                    break
                raise unreachable[0] if unreachable else self._not_ready(what, left, reasons)
            if left:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return {key: answers[key] for key in keys if key in answers}

    def again(self, what: str, code: int, message: str | None = None) -> Again | None:
        """A retry if the code is retriable; None if there is no error.

        :raises KafkaAdminError: the error is not retriable, see `refusal`.
        """
        if code and code not in RETRIABLE:
            raise refusal(self.cluster, what, code, message)
        return Again(name_of(code)) if code else None

    def await_topics(
        self, node: int, names: Collection[str], lacking: Callable[[dict[str, Any]], bool], words: str
    ) -> None:
        """Waits until this broker shows no topic as `lacking`: clients may ask any broker.

        :param words: the error text, with {} for some of the names.
        :raises NotReadyError: the timeout passed.
        """
        while left := [topic["name"] for topic in self.metadata(names, node)["topics"] if lacking(topic)]:
            if self.deadline.left_s <= _LOOK_PAUSE_S:
                raise NotReadyError(
                    self.cluster,
                    f"{words.format(', '.join(left[:5]))} after {self.deadline.seconds:g} s. Check that its brokers "
                    "are healthy, then try again.",
                )
            time.sleep(_LOOK_PAUSE_S)

    def _connect(self, host: str, port: int, until: Deadline, client_id: str) -> BlockingConnection:
        connection = BlockingConnection(self.cluster, host, port, self._brokers.security, until, client_id=client_id)
        connection.until = self.deadline
        return connection

    def _not_ready(self, what: str, left: set[K], reasons: Mapping[K, str]) -> NotReadyError:
        some = sorted(left, key=str)[:_NAMED_IN_ERRORS]
        named = "; ".join(f"{_shown(key)}: {reasons.get(key, 'no answer')}" for key in some)
        more = f" and {len(left) - len(some)} more" if len(left) > len(some) else ""
        return NotReadyError(
            self.cluster,
            f"could not {what} within {self.deadline.seconds:g} s ({named}{more}). Try again once its brokers are "
            "healthy.",
        )


def pages(keys: Sequence[T], page_size: int) -> Iterator[Sequence[T]]:
    """`keys` in pages of at most `page_size`."""
    return (keys[at : at + page_size] for at in range(0, len(keys), page_size))


def topic_entries(entries: Iterable[tuple[str, T]], parts: str = "partitions") -> list[dict[str, Any]]:
    """(topic, entry of a partition), grouped by topic as in requests."""
    topics: dict[str, list[T]] = {}
    for topic, entry in entries:
        topics.setdefault(topic, []).append(entry)
    return [{"name": name, parts: several} for name, several in topics.items()]


def partitions_of(topics: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    """(topic, partition) and the partition's entry, from the topics of an answer."""
    return (((topic["name"], part["partition_index"]), part) for topic in topics for part in topic["partitions"])


def _shown(key: object) -> str:
    return "-".join(str(part) for part in key) if isinstance(key, tuple) else str(key)
