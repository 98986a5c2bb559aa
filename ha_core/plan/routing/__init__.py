"""Routing: which cluster serves a request, and the explanation of it."""
