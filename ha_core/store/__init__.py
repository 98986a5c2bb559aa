"""The state in ZooKeeper: `connect` gives a `Store`; `stack.memory_store` has its twin for tests."""

from ha_core.store.commits import Change
from ha_core.store.errors import (
    AlreadyRegisteredError,
    ConflictError,
    FencedOffError,
    LockedError,
    NoStateError,
    StillHeldError,
    StoreError,
    StoreUnavailableError,
    TooLargeError,
    UnknownOperationError,
)
from ha_core.store.gateways import Registration
from ha_core.store.store import Store
from ha_core.store.tree import State
from ha_core.store.usage import Sighting
from ha_core.store.watching import Watcher
from ha_core.store.zookeeper import connect

__all__ = [
    "AlreadyRegisteredError",
    "Change",
    "ConflictError",
    "FencedOffError",
    "LockedError",
    "NoStateError",
    "Registration",
    "Sighting",
    "State",
    "StillHeldError",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "TooLargeError",
    "UnknownOperationError",
    "Watcher",
    "connect",
]
