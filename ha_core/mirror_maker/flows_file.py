"""Follows a configuration in a file."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ha_core.flows.configuration import Configuration, configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.own_filters import FilterClass
from ha_core.flows.policies import ReplicationPolicy
from ha_core.flows.properties import Property, read, resolve

POLICIES = "switchyard.replication_policies"
"""Group of entry points for an operator's own policies. Their names are values of `replication.policy.class`."""
FILTERS = "switchyard.flow_filters"
"""Group of entry points for an operator's own filters. Their names are values of `topic.filter.class` and others."""
SETTLED_S = 2.0
"""Time without a change after which a file counts as completely written."""


class ReadConfiguration:
    """Parses properties again only if a value has changed, including the values of references."""

    def __init__(self) -> None:
        self._parsed: object = None
        self.found: Configuration | None = None
        """The last one."""

    def of(self, properties: Mapping[str, Property], name: str, like_3_9: bool) -> Configuration:
        """The configuration: the same object until something changes.

        :raises FlowError: the configuration cannot be used.
        """
        resolved = resolve(properties, name, os.environ)
        if self.found is None or (resolved, like_3_9) != self._parsed:
            found = with_own_classes(resolved, name, like_3_9)
            self._parsed, self.found = (resolved, like_3_9), found
        return self.found


class FlowsFile:
    """Each `read` reads the file, and the files and variables to which it refers.

    A file that was changed less than `SETTLED_S` ago may be half written, and half a file can be a valid one: without
    the line that names its topics a flow copies all of them. So the last configuration counts until then.
    """

    def __init__(self, path: Path, like_3_9: bool = False) -> None:
        """:param like_3_9: use Kafka 3.9's defaults where they differ from 4.3's."""
        self.path, self._like_3_9 = path, like_3_9
        self._read = ReadConfiguration()

    def read(self) -> Configuration:
        """The current configuration: the same object until something changes.

        :raises FlowError: the configuration cannot be used.
        """
        if self._read.found is not None and self._is_being_written():
            return self._read.found
        return self._read.of(read(self.path), str(self.path), self._like_3_9)

    def _is_being_written(self) -> bool:
        with suppress(OSError):  # `read` tells what is wrong with it
            return 0 <= time.time() - self.path.stat().st_mtime < SETTLED_S
        return False


def with_own_classes(properties: Mapping[str, Property], name: str, like_3_9: bool) -> Configuration:
    """The configuration, with the policies and filters that installed packages register.

    :raises FlowError: the configuration cannot be used, or one of these classes cannot be imported.
    """
    policies: dict[str, type[ReplicationPolicy]] = _registered(POLICIES, "replication policy")
    filters: dict[str, type[FilterClass]] = _registered(FILTERS, "filter")
    return configuration(properties, name, policies, like_3_9, filters)


def _registered(group: str, what: str) -> dict[str, Any]:
    """Classes that installed packages register, by name.

    :raises FlowError: one cannot be imported.
    """
    found: dict[str, Any] = {}
    for entry in entry_points(group=group):
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # a package of the operator's may fail in any way
            raise FlowError(f"the {what} {entry.name} ({entry.value}) cannot be imported: {error}") from error
    return found
