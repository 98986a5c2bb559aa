"""The brokers of one cluster: addresses, warm connections, metadata, and rounds of questions to those who know.

Only requests that may be repeated go through here: a connection that turns out to be stale is replaced and the request
sent again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ha_core.kafka.connection import CLIENT_ID, Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import (
    ClusterUnreachableError,
    ConnectionLostError,
    KafkaAdminError,
    NotSettledError,
)
from ha_core.model.cluster import Cluster, parse_bootstrap
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_PARALLEL = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.25
_LOOK_PAUSE_S = 0.05
_NAMED_IN_ERRORS = 5
_METADATA_VERSION = 9  # the last one before topic ids; epochs (7) and rights (8) are in it


class _Slot:
    """One broker's connection; its lock makes callers of several threads take turns."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Connection | None = None


class Brokers:
    """Opened lazily, safe for threads. `None` in place of a node id means any broker of the bootstrap list."""

    def __init__(self, cluster: Cluster, security: SecurityProfile, timeout_s: float) -> None:
        self.cluster = cluster.name
        try:
            self.bootstrap = parse_bootstrap(cluster.bootstrap)
        except ValueError as error:
            text = f"cannot be used: {error} Correct its bootstrap addresses."
            raise ClusterUnreachableError(cluster.name, cluster.bootstrap, text) from None
        self.security = security
        self.timeout_s = timeout_s
        self._nodes: dict[int, tuple[str, int]] = {}
        self._slots: dict[int | None, _Slot] = {}
        self._guard = threading.Lock()
        self._pool = ThreadPoolExecutor(_PARALLEL, f"kafka-{cluster.name}")

    @property
    def nodes(self) -> Mapping[int, tuple[str, int]]:
        """Node id → (host, port), as of the last metadata."""
        return self._nodes

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout_s)

    def call(
        self, node: int | None, api: ApiKey, message: Mapping[str, Any], deadline: Deadline, most: int = 32767
    ) -> dict[str, Any]:
        """One request to one broker."""
        return self.converse(node, lambda connection: connection.call(api, message, deadline, most), deadline)

    def converse(self, node: int | None, talk: Callable[[Connection], T], deadline: Deadline) -> T:
        """`talk` on a broker's connection, once more on a new one where the old one was stale."""
        slot = self._slot(node)
        with slot.lock:
            reused = slot.connection is not None and not slot.connection.closed
            if not reused:
                slot.connection = self.open(node, deadline)
            connection = slot.connection
            assert connection is not None
            try:
                try:
                    return talk(connection)
                except ConnectionLostError:
                    if not reused:
                        raise
                    slot.connection = connection = self.open(node, deadline)
                    return talk(connection)
            finally:
                if not connection.idle:  # interrupted: the next caller would read this one's answer
                    connection.close()

    def open(self, node: int | None, deadline: Deadline, client_id: str = CLIENT_ID) -> Connection:
        """A connection of its own that the caller closes.

        :raises ClusterUnreachableError: names every address that was tried.
        """
        if node is not None:
            host, port = self._nodes[node]
            try:
                return Connection(self.cluster, host, port, self.security, deadline, client_id=client_id)
            except ClusterUnreachableError as error:
                raise ClusterUnreachableError(
                    self.cluster, error.address, f"(broker {node}, as the cluster advertises it): {error}"
                ) from error
        failures: list[ClusterUnreachableError] = []
        for position, (host, port) in enumerate(self.bootstrap):
            share = deadline.within(deadline.left_s / (len(self.bootstrap) - position))
            try:
                return Connection(self.cluster, host, port, self.security, share, client_id=client_id)
            except ClusterUnreachableError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        tried = ",".join(failure.address for failure in failures)
        raise ClusterUnreachableError(self.cluster, tried, f"cannot be reached. {failures[0]}") from failures[0]

    def metadata(
        self, topics: Collection[str] | None, deadline: Deadline, node: int | None = None, rights: bool = False
    ) -> dict[str, Any]:
        """Metadata of `topics` (None: all). Never creates a topic."""
        answer = self.call(
            node,
            ApiKey.METADATA,
            {
                "topics": None if topics is None else [{"name": name} for name in sorted(topics)],
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": rights,
                "include_cluster_authorized_operations": rights,
            },
            deadline,
            _METADATA_VERSION,
        )
        nodes = {one["node_id"]: (one["host"], one["port"]) for one in answer["brokers"]}
        if nodes:
            with self._guard:
                moved = [key for key, address in nodes.items() if self._nodes.get(key, address) != address]
                self._nodes = nodes
                for key in moved:
                    self._slots.pop(key, None)
        return answer

    def on_each(self, work: Mapping[K, Callable[[], T]]) -> dict[K, T | KafkaAdminError]:
        """Runs every piece of work, at most 8 at once; this package's errors become results."""

        def safely(piece: Callable[[], T]) -> T | KafkaAdminError:
            try:
                return piece()
            except KafkaAdminError as error:
                return error

        if len(work) <= 1:
            return {key: safely(piece) for key, piece in work.items()}
        futures = {key: self._pool.submit(safely, piece) for key, piece in work.items()}
        return {key: future.result() for key, future in futures.items()}

    def rounds(
        self,
        what: str,
        keys: Collection[K],
        locate: Callable[[set[K]], tuple[dict[K, int], dict[K, str]]],
        ask: Callable[[int, list[K]], tuple[dict[K, T], dict[K, str]]],
        deadline: Deadline,
        partial: bool = False,
    ) -> dict[K, T]:
        """Asks the broker that knows each key, in one request per broker where `ask` can, until all have answered.

        With `partial` those that have not answered at the deadline are left out.
        `locate` gives node ids, and reasons where there is none yet; `ask` gives answers, and reasons to ask again.

        :raises NotSettledError: at the deadline; names some of the keys and why.
        """
        answers: dict[K, T] = {}
        left = set(keys)
        pause_s = _FIRST_PAUSE_S
        while left:
            located, reasons = locate(left)
            by_node: dict[int, list[K]] = {}
            for key, node in located.items():
                by_node.setdefault(node, []).append(key)
            results = self.on_each({node: _bind(ask, node, asked) for node, asked in by_node.items()})
            for node, result in results.items():
                if isinstance(result, ClusterUnreachableError):  # its partitions and groups may find another broker
                    reasons.update((key, str(result)) for key in by_node[node])
                elif isinstance(result, KafkaAdminError):
                    raise result
                else:
                    answers.update(result[0])
                    reasons.update(result[1])
            left -= answers.keys()
            if left and deadline.left_s <= pause_s and partial:
                break
            if left and deadline.left_s <= pause_s:
                raise self._unsettled(what, left, reasons, results, deadline)
            if left:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return {key: answers[key] for key in keys if key in answers}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._guard:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            if slot.connection is not None:
                slot.connection.close()

    def _slot(self, node: int | None) -> _Slot:
        with self._guard:
            return self._slots.setdefault(node, _Slot())

    def _unsettled(
        self,
        what: str,
        left: set[K],
        reasons: Mapping[K, str],
        results: Mapping[int, object],
        deadline: Deadline,
    ) -> KafkaAdminError:
        unreachable = [result for result in results.values() if isinstance(result, ClusterUnreachableError)]
        if unreachable:
            return unreachable[0]
        some = sorted(left, key=str)[:_NAMED_IN_ERRORS]
        named = "; ".join(f"{_shown(key)}: {reasons.get(key, 'no answer')}" for key in some)
        more = f" and {len(left) - len(some)} more" if len(left) > len(some) else ""
        return NotSettledError(
            self.cluster,
            f"could not {what} within {deadline.seconds:g} s ({named}{more}). Try again once its brokers are healthy.",
        )


def pages(keys: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """`keys` in runs of at most so many."""
    return (keys[at : at + most] for at in range(0, len(keys), most))


def by_topic(entries: Iterable[tuple[str, T]], parts: str = "partitions") -> list[dict[str, Any]]:
    """(topic, entry of a partition) as requests have them."""
    topics: dict[str, list[T]] = {}
    for topic, entry in entries:
        topics.setdefault(topic, []).append(entry)
    return [{"name": name, parts: several} for name, several in topics.items()]


def pause(brokers: Brokers, what: str, deadline: Deadline) -> None:
    """Before the next look at something that takes its time. :raises NotSettledError: it took too long."""
    if deadline.left_s <= _LOOK_PAUSE_S:
        raise NotSettledError(
            brokers.cluster,
            f"{what} after {deadline.seconds:g} s. Look whether its brokers are healthy, then try again.",
        )
    time.sleep(_LOOK_PAUSE_S)


def _bind(ask: Callable[[int, list[K]], T], node: int, keys: list[K]) -> Callable[[], T]:
    return lambda: ask(node, keys)


def _shown(key: object) -> str:
    return "-".join(str(part) for part in key) if isinstance(key, tuple) else str(key)
