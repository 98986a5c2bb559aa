"""Immutable state that sessions and composed answers decide on: topology, virtual nodes, copies, rights, counts."""
