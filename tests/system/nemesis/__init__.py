"""Moves in any order of events: steps with gaps between them, processes that stop, requests sent by halves."""
