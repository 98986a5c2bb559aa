"""Reads of the pages: each is one look at the installation, in an environment of its own."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from ha_core.hooks.airflow_names import AirflowException
from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.kafka.errors import SecurityProfileError
from ha_core.model import HistoryEntry, Operation, Topic
from ha_core.operations.access.connections import ConnectedClients, Explanations, connected, explained
from ha_core.operations.audit.answers import Answers, answers
from ha_core.operations.audit.exporting import moment
from ha_core.operations.audit.searching import FoundOperations, OperationFilter, search
from ha_core.operations.clusters.inventory import Overview, lag_of, overview
from ha_core.operations.clusters.registered import known_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration.listing import TopicMigration, migrations
from ha_core.operations.overview.fleet import Fleet, FleetWatch
from ha_core.plan.facts.lag import GroupLag
from ha_core.plan.facts.problem import Problem
from ha_core.present.mirrors import below_mirrors
from ha_core.present.page import Table
from ha_core.store.errors import StoreError

T = TypeVar("T")
MAX_CONNECTIONS = 1_000
"""ConnectedClients that one gateway lists for a page."""
HISTORY_ROWS = 100
READERS = 4
"""Requests that read for themselves at the same time; each blocks a thread of the API server."""
READERS_OF_ONE = 2
"""Requests of one viewer among these. A viewer who reloads as fast as possible leaves some to the others."""
READER_WAIT_S = 0.3
"""Short: each waiting request holds a thread of the API server, which has some 40 for all of Airflow."""
KNOWN_ERRORS = (StoreError, SecurityProfileError, AirflowException, RefusedError, ValueError)
"""Their texts are for people."""
LEFT_BEHIND = frozenset({"not-reconciled", "tail-differs", "tails-unreadable"})
viewer: ContextVar[str] = ContextVar("viewer", default="")
"""User of Airflow for whom the current request is answered."""


class ReadersBusyError(RuntimeError):
    """`READERS` requests are being answered, or `READERS_OF_ONE` of this viewer."""


class Readers:
    """Counts the requests that read for themselves. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self._now: Counter[str] = Counter()

    @contextmanager
    def one(self, of: str) -> Iterator[None]:
        """:raises ReadersBusyError: too many read at the same time."""
        with self._guard:
            if not self._guard.wait_for(lambda: self._free(of), READER_WAIT_S):
                others = self._now[of] < READERS_OF_ONE
                number, whose = (READERS, "other") if others else (READERS_OF_ONE, "of your")
                raise ReadersBusyError(f"{number} {whose} requests are being answered. Ask again in a moment.")
            self._now[of] += 1
        try:
            yield
        finally:
            with self._guard:
                self._now[of] -= 1
                self._now += Counter()  # forgets viewers without requests
                self._guard.notify_all()

    def _free(self, of: str) -> bool:
        return self._now.total() < READERS and self._now[of] < READERS_OF_ONE


_readers = Readers()


@dataclass(frozen=True, slots=True)
class FleetLook:
    """:ivar below_mirrors: blocks below the tables of mirrors: patterns, syncs, records left behind."""

    fleet: Fleet
    below_mirrors: Sequence[str | Table]

    @property
    def sources_away(self) -> Sequence[Problem]:
        """Clusters that do not answer, and have mirrors."""
        mirrored = {f"cluster {mirror.source}" for mirror, _ in self.fleet.picture.mirrors.totals}
        found = self.fleet.picture.assessment.problems
        return [one for one in found if one.code == "cluster-away" and one.about in mirrored]


@dataclass(frozen=True, slots=True)
class TopicLook:
    """:ivar topic: its map; None: it was never moved.
    :ivar clusters: those that have it, if it has no map.
    """

    topic: Topic | None
    clusters: Sequence[str]


@dataclass(frozen=True, slots=True)
class OperationAudit:
    operation: Operation
    answers: Answers
    entries: Sequence[HistoryEntry]


@contextmanager
def _opened() -> Iterator[Environment]:
    with SwitchyardHook().get_conn("airflow:page") as environment:
        yield environment


@contextmanager
def _reader() -> Iterator[Environment]:
    """:raises ReadersBusyError: too many read at the same time."""
    with _readers.one(viewer.get()), _opened() as environment:
        yield environment


def fleet_read() -> Callable[[], FleetLook]:
    watch = FleetWatch()

    def read() -> FleetLook:
        with _opened() as environment:
            fleet = watch.look(environment)
            now = fleet.picture
            left = left_behind_of(now.assessment.problems)
            below = below_mirrors(
                now.mirrors, now.more["mirror_patterns"], left, now.more["mirror_syncs"], environment.age_s
            )
            return FleetLook(fleet, [*below])

    return read


def left_behind_of(problems: Sequence[Problem]) -> list[Problem]:
    """Also those that end with another problem: the cluster that was left is away at first."""
    return [one for problem in problems for one in (problem, *problem.follows) if one.code in LEFT_BEHIND]


def migrations_read() -> tuple[TopicMigration, ...]:
    with _opened() as environment:
        return migrations(environment)


def topics_read() -> Overview:
    with _opened() as environment:
        return overview(environment)


def clients_read() -> ConnectedClients:
    with _opened() as environment:
        return connected(environment, {}, MAX_CONNECTIONS)


def some_clients(**fields: str) -> ConnectedClients:
    """:param fields: `user`, `client_id`, `address`, `cluster`; empty: any."""
    with _reader() as environment:
        return connected(environment, {name: value for name, value in fields.items() if value}, MAX_CONNECTIONS)


def explanations(user: str, client_id: str, name: str) -> Explanations:
    with _reader() as environment:
        return explained(environment, user, client_id, name)


def topic_read(name: str) -> TopicLook:
    with _reader() as environment:
        view = environment.store.load()
        found = view.topics.get(name)
        return TopicLook(found, () if found is not None else sorted(environment.clusters_with(name, view)))


def group_read(name: str) -> GroupLag:
    with _reader() as environment:
        return lag_of(environment, name)


def history_read(user: str, topic: str, cluster: str, by: str, since: str, until: str, before: str) -> FoundOperations:
    """:raises RefusedError: a time cannot be read."""
    first = moment(since, "From") if since else None
    last = moment(until, "Until") if until else None
    with _reader() as environment:
        wanted = OperationFilter(user, topic, cluster, by, first, last)
        return search(environment.store, wanted, HISTORY_ROWS, before or None)


def operation_read(operation_id: str) -> OperationAudit:
    with _reader() as environment:
        operation = known_operation(environment, operation_id, Operation)
        entries = environment.store.history(operation_id)
        return OperationAudit(operation, answers(operation, entries), entries)
