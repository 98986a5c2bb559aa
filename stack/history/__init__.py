"""Histories of client programs, and checks for lost, duplicated and renumbered records."""
