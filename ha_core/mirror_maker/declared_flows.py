"""The configuration that is declared in ZooKeeper, followed while it changes (`ha_core.model.flow_declaration`)."""

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.properties import parse
from ha_core.mirror_maker.flows_file import ReadConfiguration
from ha_core.model import FlowDeclaration, UnreadableDocumentError
from ha_core.store.errors import StoreError
from ha_core.store.store import Store


def declared_in(name: str) -> str:
    """Name of the declaration for errors, in place of a file's."""
    return f"declaration {name}"


class DeclaredFlows:
    """Reads the declaration, and files and variables of this host that it refers to, anew at each call."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._read = ReadConfiguration()
        self._withdrawn: Configuration | None = None
        self._seen = False

    def read(self) -> Configuration:
        """The configuration as it is now, one object until something changes. Without flows if it was withdrawn.

        :raises FlowError: there never was one while this object lives, it cannot be used, or ZooKeeper is away.
        """
        try:
            found = self._store.read(FlowDeclaration, self._name)
        except (StoreError, UnreadableDocumentError) as error:
            raise FlowError(f"{declared_in(self._name)} cannot be read: {error}") from error
        if found is None:
            if not self._seen:
                raise FlowError(
                    f"There is no {declared_in(self._name)}. `switchyard flows declared` lists all; "
                    f"`switchyard flows declare {self._name} FILE` makes it."
                )
            if self._withdrawn is None:
                self._withdrawn = Configuration(declared_in(self._name), (), (), (), ())
            return self._withdrawn
        self._seen, self._withdrawn = True, None
        document, _ = found
        name = declared_in(self._name)
        return self._read.of(parse(document.text, name), name, document.like_3_9)
