"""The gateway's configuration: one file for each idea in it, the whole (`config`), and how it is read (`loading`)."""

from gateway.config.access import read_rules, read_settings
from gateway.config.config import Config, open_passwords
from gateway.config.listeners import Http
from gateway.config.loading import load, read
from gateway.config.section import ConfigError

__all__ = ["Config", "ConfigError", "Http", "load", "open_passwords", "read", "read_rules", "read_settings"]
