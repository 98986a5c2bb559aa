"""The `switchyard` command."""

from ha_core.cli.app import main

__all__ = ["main"]
