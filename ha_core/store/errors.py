"""Errors of the store. Each text names the thing, the value found and the way out."""

from __future__ import annotations


class StoreError(Exception):
    """Base of all errors of the store."""


class StoreUnavailableError(StoreError):
    """ZooKeeper cannot be reached, or does not answer in time."""


class StoreSecurityError(StoreError):
    """The configuration for reaching ZooKeeper cannot be used: names file, key and remedy."""


class NoStateError(StoreError):
    """ZooKeeper answers, and has no state at the given root."""

    @classmethod
    def at(cls, hosts: str, root: str, others: list[str]) -> NoStateError:
        """:param others: roots that have a state."""
        hint = f" There is one at {', '.join(others)}." if others else ""
        return cls(
            f"ZooKeeper at {hosts} has no state of Switchyard at {root or '/'}.{hint} Correct --root or "
            "SWITCHYARD_ROOT, or --zookeeper. A new installation begins with `switchyard clusters add`."
        )


class ConflictError(StoreError):
    """Another process changed a document since it was read. Nothing was written.

    :ivar path: the document, relative to the root.
    :ivar expected: the version that the change was based on; None: it must not exist.
    :ivar found: the version now; None: it does not exist.
    """

    def __init__(self, path: str, expected: int | None, found: int | None) -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(
            f"{path} is {_version(found)}, the change was based on {_version(expected)}: "
            "another process changed it; read the state again and repeat the change on it"
        )


def _version(version: int | None) -> str:
    return "absent" if version is None else f"at version {version}"


def _hex(session: int) -> str:
    """As in ZooKeeper's own logs, which print the 64 bits as unsigned."""
    return f"0x{session & 0xFFFF_FFFF_FFFF_FFFF:x}"


class TooLargeError(StoreError):
    """A write that ZooKeeper would refuse by closing the connection. Nothing was sent."""


class TooManyRemoteTopicsError(StoreError):
    """A flow would write more topics than gateways follow. Nothing was written."""

    def __init__(self, flow: str, topics: int, most: int) -> None:
        super().__init__(
            f"flow {flow} would write {topics} topics, and gateways keep clients out of {most} at most: "
            "copy fewer topics (key `topics`), or divide them between several clusters"
        )


class OvertakenError(StoreError):
    """Another process wrote first, or the write was made and its reply is lost. Read again, and repeat it."""


class OlderDatabaseError(StoreError):
    """The published state comes from a newer state of the platform's database than the present one."""


class QuotaPublishedError(StoreError):
    """A quota of the platform can be changed there only: the next publication would revert another change."""

    def __init__(self, entity: str) -> None:
        super().__init__(
            f"the quota for {entity} is one of the platform: change it there, by `switchyard quotas set` or `delete`"
        )


class QuotaNameTakenError(StoreError):
    """A quota would have another quota's path: names may have dots, so `user.topic` can equal a client id."""

    def __init__(self, path: str, found: str, wanted: str) -> None:
        super().__init__(
            f"{path} holds the quota for {found}, and that for {wanted} would have this path too, because of dots.  "
            "Nothing was written: remove that one first, or limit the user, or an instance of the user, instead."
        )


class UnknownOperationError(StoreError):
    """There is no such operation."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(f"operation {operation_id} does not exist: see `switchyard history` for those that do")


class FencedOffError(StoreError):
    """Another executor has taken the operation over; this one must stop. Nothing was written."""

    def __init__(self, operation_id: str, epoch: int, found: int) -> None:
        self.epoch, self.found = epoch, found
        super().__init__(
            f"operation {operation_id} was taken over: its epoch is {found}, this executor has {epoch}; "
            "it must stop, the other one goes on (see `switchyard history`)"
        )


class LockedError(StoreError):
    """Another operation runs on the scope. Nothing was written."""

    def __init__(self, key: str, operation_id: str, by: str, since: str, unreadable: str = "") -> None:
        """:param unreadable: the way out if this version cannot read the lock, so its operation is unknown."""
        self.key, self.operation_id, self.by, self.since = key, operation_id, by, since
        self.unreadable = unreadable
        super().__init__(
            f"{key} is locked by an operation that this version cannot read. {unreadable}"
            if unreadable
            else f"{key} is locked by operation {operation_id} of {by} since {since}: "
            f"see `switchyard history {operation_id}`; wait for its end, or run it again to continue or undo it"
        )


class StillHeldError(StoreError):
    """A live executor works on the operation."""

    def __init__(self, operation_id: str, by: str, session: int) -> None:
        super().__init__(
            f"operation {operation_id} of {by} is being executed by ZooKeeper session {_hex(session)}: "
            "wait for it, or stop that process; its hold ends with its session"
        )


class AlreadyRegisteredError(StoreError):
    """Another live session has registered that name."""

    def __init__(self, what: str, session: int, waited_s: float) -> None:
        """:param what: kind and name, as in `gateway gw-1`."""
        super().__init__(
            f"{what} is registered by ZooKeeper session {_hex(session)}, still after {waited_s:.1f} s: "
            "another process runs under this name; give each its own"
        )
