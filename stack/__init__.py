"""The local stack for demo, tests and benchmarks: ZooKeeper, Kafka clusters, gateways, Airflow."""
