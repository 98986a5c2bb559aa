"""The Kafka admin adapter: everything that operations read from clusters or change in them."""
