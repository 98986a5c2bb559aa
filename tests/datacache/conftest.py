"""The trees of the store's own tests: memory, and a real ZooKeeper."""

from tests.store.conftest import backend, other, session, zookeeper

__all__ = ["backend", "other", "session", "zookeeper"]
