"""Sockets of clients and brokers: listening, admission, TLS, reading, writing, closing."""
