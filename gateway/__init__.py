"""Kafka-protocol proxy that follows the state in ZooKeeper."""
