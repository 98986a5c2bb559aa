"""The state in ZooKeeper: `connect` gives a `Store`; `stack.memory_store` has its twin for tests."""
