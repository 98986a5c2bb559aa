"""Follows the two files of MirrorMaker 1 as the configuration of one flow."""

import os
from collections.abc import Mapping
from pathlib import Path

from ha_core.flows.configuration import Configuration
from ha_core.flows.mirror_maker_1 import MappedOptions, mapped_options
from ha_core.flows.properties import PROVIDERS, read, resolve
from ha_core.mirror_maker.flows_file import ReadConfiguration


class MirrorMaker1Files:
    """
    :ivar name: the names of both files, for errors.
    """

    def __init__(self, consumer: Path, producer: Path, include: str, others: Mapping[str, str]) -> None:
        """The parameters are those of `ha_core.flows.mirror_maker_1.mapped_options`."""
        self.name = f"{consumer} and {producer}"
        self._consumer, self._producer, self._include, self._others = consumer, producer, include, others
        self._read = ReadConfiguration()

    def mapped(self) -> MappedOptions:
        """:raises FlowError: a file cannot be read, or an option cannot be mapped."""
        return mapped_options(_keys(self._consumer), _keys(self._producer), self._include, self._others)

    def read(self) -> Configuration:
        """The current configuration: the same object until something changes.

        :raises FlowError: the configuration cannot be used.
        """
        return self._read.of(self.mapped().properties, self.name, like_3_9=False)


def _keys(file: Path) -> dict[str, str]:
    resolved = resolve(read(file), str(file), os.environ)
    return {key: found.value for key, found in resolved.items() if not key.startswith(PROVIDERS)}
