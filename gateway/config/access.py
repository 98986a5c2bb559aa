"""The sections whose files are followed: access rules, and how often clients may ask."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from gateway.config.rules_file import RulesFile
from gateway.config.rules_file import parse as parse_rules
from gateway.config.section import ConfigSection, FaultyDocumentError, content_of
from gateway.config.settings_file import parse as parse_settings
from gateway.session.discovery_rates import DiscoverySettings


class Authorisation(ConfigSection):
    """Whether access rules apply, or every logged-in user may do everything."""

    rules_file: Path | None = None
    """YAML (`rules_file`); relative to the configuration file. None: off."""
    _rules: RulesFile | None = PrivateAttr(default=None)

    @property
    def rules(self) -> RulesFile | None:
        """The rules at the start; None: off."""
        return self._rules

    @model_validator(mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return {} if value is False or value == "off" else value  # to YAML `off` is false

    def read_files(self, folder: Path, key: str) -> None:
        """:raises ConfigError: the rules cannot be used."""
        if self.rules_file is not None:
            self._rules = read_rules(folder / self.rules_file, f"{key}.rules_file")


def _can_be_read(settings: dict[str, Any]) -> dict[str, Any]:
    try:
        parse_settings(settings)
    except FaultyDocumentError as error:
        raise ValueError("; ".join(error.faults)) from None
    return settings


class DiscoverySection(ConfigSection):
    """How often clients may ask for leaders, for coordinators and for producer ids."""

    settings: Annotated[dict[str, Any], AfterValidator(_can_be_read)] = Field(default_factory=dict)
    """In the form of `settings_file`, for settings that do not change while the gateway runs."""
    settings_file: Path | None = None
    """YAML; relative to the configuration file, and read again when it changes."""
    _read: DiscoverySettings = PrivateAttr(default=DiscoverySettings())

    @property
    def read(self) -> DiscoverySettings:
        """The settings at the start."""
        return self._read

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.settings and self.settings_file is not None:
            raise ValueError("settings and settings_file both say how often clients may ask; leave one out")
        return self

    def read_files(self, folder: Path, key: str) -> None:
        """:raises ConfigError: the settings cannot be used."""
        if self.settings_file is None:
            self._read = parse_settings(self.settings)
        else:
            self._read = read_settings(folder / self.settings_file, f"{key}.settings_file")


def read_rules(file: Path, key: str = "the access rules") -> RulesFile:
    """:raises ConfigError: one line per fault."""
    return content_of(file, key, parse_rules)


def read_settings(file: Path, key: str = "the settings of discovery") -> DiscoverySettings:
    """:raises ConfigError: one line per fault."""
    return content_of(file, key, parse_settings)
