"""Copies, as moves and mirrors handle them: taken over, synced, compared, reversed, opened to writers."""
