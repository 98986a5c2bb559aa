"""Airflow connections: the state in ZooKeeper, and the service accounts for the clusters."""
