"""The state in ZooKeeper: `connect` gives a `Store`; `MemoryStore` is its twin for tests."""

from ha_core.store.change import Change
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
from ha_core.store.memory import MemoryStore
from ha_core.store.protocol import Follower, Registration, Sighting, State, Store
from ha_core.store.zookeeper import ZooKeeperStore, connect

__all__ = [
    "AlreadyRegisteredError",
    "Change",
    "ConflictError",
    "FencedOffError",
    "Follower",
    "LockedError",
    "MemoryStore",
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
    "ZooKeeperStore",
    "connect",
]
