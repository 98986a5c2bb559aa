"""The configuration in a file, followed while it changes."""

import os
from pathlib import Path

from ha_core.flows.configuration import Configuration, configuration
from ha_core.flows.properties import read, resolve


class FlowsFile:
    """Reads the file, and files and variables that it refers to, anew at each call; parses it if anything changed."""

    def __init__(self, path: Path, like_3_9: bool = False) -> None:
        """:param like_3_9: use Kafka 3.9's defaults where they differ."""
        self.path, self._like_3_9 = path, like_3_9
        self._resolved: object = None
        self._found: Configuration | None = None

    def read(self) -> Configuration:
        """The configuration as it is now: one object until something changes.

        :raises FlowError: it cannot be used.
        """
        resolved = resolve(read(self.path), str(self.path), os.environ)
        if self._found is None or resolved != self._resolved:
            found = configuration(resolved, str(self.path), like_3_9=self._like_3_9)
            self._resolved, self._found = resolved, found
        return self._found
