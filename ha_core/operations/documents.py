"""The documents that a move writes, with the versions that its decisions rest on."""

from __future__ import annotations

from dataclasses import dataclass

from ha_core.model import Document, Group, LastSequences, Operation, Topic, UserBindings, View
from ha_core.operations.journal import Journal
from ha_core.plan.move import Documents, touched
from ha_core.store.change import Change, Key
from ha_core.store.paths import name_of


@dataclass
class Touched:
    """What `touched(operation)` names, as it is in the store. After a commit it is as committed, without a read."""

    documents: dict[Key, Document]
    versions: dict[Key, int | None]

    @classmethod
    def read(cls, journal: Journal) -> Touched:
        """Read all of them side by side; the journal's operation becomes what is stored."""
        store = journal.environment.store
        keys = touched(journal.operation)
        found = list(journal.environment.pool.map(lambda key: store.read(*key), keys))
        documents = {key: one[0] for key, one in zip(keys, found, strict=True) if one is not None}
        versions = {key: None if one is None else one[1] for key, one in zip(keys, found, strict=True)}
        operation = documents[Operation, journal.operation.id]
        assert isinstance(operation, Operation)
        journal.operation = operation
        return cls(documents, versions)

    @property
    def view(self) -> View:
        """The documents as the planner takes them; its revision means nothing."""
        named: dict[type[Document], dict[str, Document]] = {}
        for (kind, name), document in self.documents.items():
            named.setdefault(kind, {})[name] = document
        return View(
            bindings=named.get(UserBindings, {}),  # type: ignore[arg-type]  # by the key's own kind
            topics=named.get(Topic, {}),  # type: ignore[arg-type]
            groups=named.get(Group, {}),  # type: ignore[arg-type]
            sequences=named.get(LastSequences, {}),  # type: ignore[arg-type]
        )

    def commit(self, journal: Journal, documents: Documents, step: str) -> int:
        """Write `documents` as one revision on behalf of the operation; returns the revision."""
        written: list[Key] = [(type(put), name_of(put)) for put in documents.puts] + list(documents.deletes)
        change = Change(
            puts=documents.puts,
            deletes=documents.deletes,
            expected={key: self.versions[key] for key in written},
            change_id=f"{journal.operation.id}:{journal.epoch}:{step}",
            operation=journal.operation.id,
            epoch=journal.epoch,
            step=step,
        )
        revision = journal.environment.store.commit(change)
        for put in documents.puts:
            key = (type(put), name_of(put))
            before = self.versions[key]
            self.documents[key] = put
            self.versions[key] = 0 if before is None else before + 1
            if isinstance(put, Operation):
                journal.operation = put
        for key in documents.deletes:
            self.documents.pop(key, None)
            self.versions[key] = None
        return revision
