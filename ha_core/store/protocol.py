"""The store as its users see it: ZooKeeper, or memory in tests. Synchronous and thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeVar

from ha_core.model import (
    Cluster,
    Document,
    GatewayRecord,
    HistoryEntry,
    KnownGroup,
    KnownTopic,
    Lock,
    Operation,
    Usage,
    Use,
    View,
)
from ha_core.store.change import Change

D = TypeVar("D", bound=Document)
K = TypeVar("K", KnownTopic, KnownGroup)

State = Literal["connected", "suspended", "lost"]
"""`suspended`: no connection, the session may live on. `lost`: the session is over, its ephemeral nodes are gone."""


class Sighting(NamedTuple):
    """One use of a topic or group."""

    what: Literal["topic", "group"]
    name: str
    use: Use


class Holding(NamedTuple):
    """Who works on an operation: the executor of `epoch`, as long as it is held."""

    epoch: int
    held: bool


class Follower(Protocol):
    """A running `Store.follow`."""

    @property
    def view(self) -> View | None:
        """The newest view delivered; None before the first."""

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Path → why, of documents that this version cannot read.

        The view holds their last good state, or nothing where none was ever read: refuse what depends on those.
        """

    def wait_for(self, revision: int, timeout_s: float) -> View:
        """Block until `on_view` has returned for a view of at least `revision`.

        :raises TimeoutError: it was not delivered in time.
        """

    def close(self) -> None:
        """Stop; no callback runs after it returns (unless called from a callback)."""


class Registration(Protocol):
    """A gateway's ephemeral node, kept up over session losses."""

    @property
    def record(self) -> GatewayRecord:
        """The newest record given."""

    @property
    def stored(self) -> GatewayRecord | None:
        """The record known to be in the store; None while the session is lost and the node not yet made again."""

    def update(self, record: GatewayRecord) -> None:
        """Store a newer record soon; returns at once, never raises for want of a connection. The newest wins."""

    def close(self) -> None:
        """Delete the node (by itself at the session's end if ZooKeeper is out of reach)."""


class Store(Protocol):
    """The state tree. Every method may raise StoreUnavailableError; `ha_core.store.errors` has the others."""

    # State
    def load(self) -> View:
        """The whole state at one revision.

        :raises UnreadableDocumentError: who decides on this view must not miss a document; followers do not raise.
        """

    def clusters(self) -> dict[str, Cluster]:
        """The registered clusters by name; those that this version cannot read are left out."""

    def read(self, kind: type[D], name: str) -> tuple[D, int] | None:
        """One document and its version; None if there is none.

        :raises UnreadableDocumentError: this version cannot read it.
        """

    def commit(self, change: Change) -> int:
        """Make the change as one revision, all or nothing; returns the revision.

        A change that was made already (same change_id, as far as the kept notes reach) returns its revision again.

        :raises ConflictError: a document is not at its expected version.
        :raises FencedOffError: another executor has taken the operation over.
        :raises TooLargeError: more than ZooKeeper takes in one request.
        """

    def follow(
        self, on_view: Callable[[View, frozenset[str]], None], on_state: Callable[[State], None] | None = None
    ) -> Follower:
        """Deliver the state and then each newer one, with the paths (`/topics/orders`) that differ from the one before.

        Returns at once; both callbacks come from one thread, in order. Several revisions may arrive as one view.
        Gateways register first and follow then: an operation that does not see them waits for nobody.
        """

    # Operations
    def create_operation(self, operation: Operation, lock_keys: Sequence[str]) -> int:
        """Create the operation and all its locks, or nothing; returns the epoch, 0.

        :raises LockedError: another operation has one of the locks.
        :raises ConflictError: the operation's id exists.
        """

    def take_over(self, operation_id: str, wait_s: float = 0.0) -> int:
        """Fence off every earlier executor; returns the new epoch.

        :param wait_s: how long to wait for a dead executor's hold to vanish: up to the session timeout.
        :raises StillHeldError: an executor works on it.
        :raises UnknownOperationError: there is no such operation.
        """

    def hold(self, operation_id: str, epoch: int) -> AbstractContextManager[None]:
        """While inside, nobody can take the operation over, as long as this session lives.

        :raises FencedOffError: taken over before.
        :raises StillHeldError: another executor holds it.
        """

    def require_epoch(self, operation_id: str, epoch: int) -> None:
        """Ask ZooKeeper's leader whether the epoch still is the operation's. :raises FencedOffError:"""

    def holding(self, operation_id: str) -> Holding | None:
        """Whether an executor works on the operation now; None for an unknown one."""

    def update_operation(self, operation: Operation, epoch: int) -> None:
        """Replace the operation's document. :raises FencedOffError:"""

    def append_history(self, operation_id: str, epoch: int, entry: HistoryEntry) -> None:
        """Add one line to the operation's history. :raises FencedOffError:"""

    def release_locks(self, operation_id: str, epoch: int) -> None:
        """Delete all locks of the operation; none left is fine. :raises FencedOffError:"""

    def operations(self, limit: int, before: str | None = None) -> list[Operation]:
        """A page of all operations ever run, newest first by the time in their ids; no more than it are read.

        Those that this version cannot read are left out.

        :param before: an operation's id: only older ones, as the last of one page names the next.
        """

    def running(self) -> list[Operation]:
        """The operations that hold a lock, newest first: every one that has not ended does, from the write that creates
        it on. Costs what runs now, however many have ever run. One that has just ended may be among them.
        """

    def history(self, operation_id: str, newest: int | None = None) -> list[HistoryEntry]:
        """The operation's history, oldest first; empty for an unknown operation.

        :param newest: only so many of its last entries.
        """

    def locks(self) -> list[Lock]:
        """All locks by key."""

    def lock_keys(self) -> frozenset[str]:
        """The keys of all locks, without reading whose they are."""

    # Gateways
    def gateways(self) -> list[GatewayRecord]:
        """All live gateways by id."""

    def register_gateway(self, record: GatewayRecord) -> Registration:
        """Announce a gateway until it is closed or its session ends; announced again by itself after a session loss.

        Waits up to a session timeout for the node of a predecessor that was killed.

        :raises AlreadyRegisteredError: another live session has this gateway id.
        """

    def confirm(self) -> int:
        """The newest revision, from ZooKeeper's leader through the live session, or StoreUnavailableError at once.

        A gateway's lease counts from the moment *before* a successful confirm, and only if the gateway follows that
        revision already: after a session loss, operations went on without it.
        """

    # Allocation
    def allocate_node(self, key: str) -> int:
        """The virtual node id of `key`, from 1; the same for the same key for ever."""

    def nodes(self) -> dict[str, int]:
        """All virtual node ids by key."""

    def cluster_id(self) -> str:
        """The id that clients see of all clusters together: made with the tree, the same for ever."""

    def allocate_producer_ids(self, count: int = 1000) -> int:
        """First id of a block of `count` client producer ids that nobody else gets."""

    # Usage
    def record_usage(self, user: str, uses: Iterable[Sighting]) -> int:
        """Merge first uses into the user's usage; returns how many did not fit.

        Per user and topic or group, the first use of each (instance, how) is kept. Bounds: 1000 topics and 1000 groups
        per user, 20 uses per entry, 900,000 bytes in all. What lies beyond is not stored and counted in the return
        value: the closure of a move then rests on what is stored, so callers report it.
        """

    def usage(self) -> dict[str, Usage]:
        """Usage of all users by user; entries that this version cannot read are left out."""

    # What was last seen of clusters
    def keep_known(self, kind: type[K], cluster: str, seen: Collection[K]) -> None:
        """Replace all that is known of a cluster's topics, or groups, by what was just `seen`. It is no revision."""

    def known(self, kind: type[K], cluster: str, names: Collection[str] | None = None) -> dict[str, K]:
        """What was last seen of topics or groups of `cluster` (None: all), by name; unreadable ones are left out."""

    def known_ages_s(self, kind: type[K], cluster: str, names: Collection[str]) -> dict[str, float]:
        """Seconds since what is known of each was written, by ZooKeeper's clock alone: of whoever wrote it and whoever
        asks only that one counts. Below zero where that clock was set back since."""

    def close(self) -> None:
        """End followers, registrations and the session."""
