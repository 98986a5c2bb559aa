"""Revisions of a move, and operations that no executor works on."""
