"""Proposals: from an operator's words to a request, and what it would do."""
