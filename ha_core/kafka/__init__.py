"""The one Kafka admin adapter: what an operation reads of clusters and does to them."""
