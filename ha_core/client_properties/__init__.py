"""Reads Java clients' properties for clients that are not Java: raw requests and librdkafka."""
