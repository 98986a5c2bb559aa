"""The state in ZooKeeper: `connect` returns a `Store`; `stack.memory_store` has an equal in memory, for tests."""
