"""One client connection as a pure machine: bytes, answers and snapshots in, commands out."""
