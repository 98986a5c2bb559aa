"""Histories of client programs, and the checks that say whether anything was lost, doubled or renumbered."""
