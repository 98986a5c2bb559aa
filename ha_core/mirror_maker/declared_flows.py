"""Follows a configuration that is declared in ZooKeeper (`ha_core.model.flow_declaration`)."""

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.properties import parse
from ha_core.mirror_maker.flows_file import ReadConfiguration
from ha_core.model import FlowDeclaration, UnreadableDocumentError
from ha_core.store.errors import StoreError
from ha_core.store.store import Store


def declared_in(name: str) -> str:
    """The declaration's name in errors, in place of a file's name."""
    return f"declaration {name}"


class DeclaredFlows:
    """Each `read` reads the declaration, and the files and variables of this host to which it refers."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._read = ReadConfiguration()
        self._withdrawn: Configuration | None = None
        self._seen = False

    def read(self) -> Configuration:
        """The current configuration: the same object until something changes; one without flows after a withdrawal.

        :raises FlowError: this object has never seen a declaration, the declaration cannot be used, or ZooKeeper does
            not answer.
        """
        try:
            found = self._store.read(FlowDeclaration, self._name)
        except (StoreError, UnreadableDocumentError) as error:
            raise FlowError(f"{declared_in(self._name)} cannot be read: {error}") from error
        if found is None:
            if not self._seen:
                raise FlowError(
                    f"There is no {declared_in(self._name)}. `switchyard flows declared` lists all declarations; "
                    f"`switchyard flows declare {self._name} FILE` creates this one."
                )
            if self._withdrawn is None:
                self._withdrawn = Configuration(declared_in(self._name), (), (), (), ())
            return self._withdrawn
        self._seen, self._withdrawn = True, None
        document, _ = found
        name = declared_in(self._name)
        return self._read.of(parse(document.text, name), name, document.like_3_9)
