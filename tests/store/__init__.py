"""The store's contract, on the twin in memory and on a real ZooKeeper."""
