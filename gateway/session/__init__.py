"""Protocol state of one client connection, without I/O: bytes, answers and snapshots in, commands out."""
