"""Airflow connections: the state in ZooKeeper, and the service accounts that reach the clusters."""
