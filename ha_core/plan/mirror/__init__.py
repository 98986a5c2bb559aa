"""Mirrors: making and ending one, copies that a move goes to, access rules of copies, syncing."""
