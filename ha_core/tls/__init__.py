"""TLS: contexts made of files and made anew when these change, and sockets that behave as plain ones."""
