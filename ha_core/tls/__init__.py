"""TLS: contexts made of files and made again when these change, and sockets that behave as plain ones."""
