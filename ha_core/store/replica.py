"""A copy of the state, loaded at once and then caught up by change notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ha_core.model import (
    Cluster,
    Document,
    Group,
    LastSequences,
    Topic,
    UnreadableDocumentError,
    UserBindings,
    View,
)
from ha_core.store import documents, notes, paths
from ha_core.store.change import Key
from ha_core.store.cycles import no_search
from ha_core.store.tree import Node, Reads

_Tables = dict[type[Document], dict[str, Document]]


class Replica:
    """Documents by kind and name as of `view.revision`.

    :ivar unreadable: path → why. Such documents keep the last good state.
    """

    def __init__(self, tree: Reads, strict: bool = False) -> None:
        """:param strict: raise UnreadableDocumentError instead of keeping the last good document."""
        self._tree = tree
        self._strict = strict
        self._tables: _Tables = {kind: {} for kind in paths.VIEW_KINDS}
        self.view = View()
        self.unreadable: dict[str, str] = {}

    def reload(self, wake: Callable[[], None] | None = None) -> frozenset[str]:
        """Read everything; returns the paths that differ from before."""
        before = self._tables
        self.load(wake)
        return frozenset(
            paths.path_of(kind, name)
            for kind, table in self._tables.items()
            for name in table.keys() | before[kind].keys()
            if table.get(name) != before[kind].get(name)
        )

    def load(self, wake: Callable[[], None] | None = None) -> None:
        """Read everything."""
        self._tree.sync()
        revision: int | None = None
        while revision is None:
            start = notes.revision_of(self._tree.get(paths.CHANGES, wake))
            fresh: _Tables = {}
            unreadable: dict[str, str] = {}
            with no_search():
                for kind in paths.VIEW_KINDS:
                    fresh[kind] = self._read_folder(kind, unreadable)
            # What changed while this was read is named in the notes since; None: those were pruned meanwhile.
            revision = self._pass_notes(start, fresh, unreadable, set(), self._newest())
        self._publish(revision, fresh, unreadable)

    def catch_up(self, wake: Callable[[], None] | None = None) -> frozenset[str]:
        """Go to the newest revision by reading what the notes name; returns the paths of the view that they name."""
        own = self.view.revision
        newest = notes.revision_of(self._tree.get(paths.CHANGES, wake))
        if newest == own:
            return frozenset()
        if newest < own or newest - own > notes.KEPT:
            return self.reload(wake)
        tables, unreadable, changed = dict(self._tables), dict(self.unreadable), set[str]()
        with no_search():
            revision = self._pass_notes(own, tables, unreadable, changed, newest)
        if revision is None:
            return self.reload(wake)
        self._publish(revision, tables, unreadable)
        return frozenset(changed)

    def _newest(self) -> int:
        return notes.revision_of(self._tree.get(paths.CHANGES))

    def _pass_notes(
        self, own: int, tables: _Tables, unreadable: dict[str, str], changed: set[str], newest: int
    ) -> int | None:
        """Bring `tables` from `own` to the newest revision; None when a note on the way is gone or spoilt.

        A document may be read when it is newer already than `newest`. Then the revision read after it is higher,
        and the round goes on: no view ever holds a part of a change.
        """
        copied: set[type[Document]] = set()
        while own < newest:
            numbers = range(own + 1, newest + 1)
            keys: dict[str, Key] = {}
            for node in self._tree.get_many([paths.note(number) for number in numbers]):
                note = notes.Note.of(node)
                if note is None:
                    return None
                for path in note.paths:
                    key = paths.parse(path)
                    if key is not None and key[0] in tables:
                        keys[path] = key
                        changed.add(path)
            own = newest
            *nodes, after = self._tree.get_many([*keys, paths.CHANGES])
            for kind in {kind for kind, _ in keys.values()} - copied:
                tables[kind] = dict(tables[kind])
                copied.add(kind)
            for (path, key), node in zip(keys.items(), nodes, strict=True):
                self._place(key, path, node, tables[key[0]], unreadable)
            newest = notes.revision_of(after)
        return own

    def _read_folder(self, kind: type[Document], unreadable: dict[str, str]) -> dict[str, Document]:
        folder = paths.FOLDERS[kind]
        names = self._tree.children(folder)
        found = [f"{folder}/{name}" for name in names]
        table: dict[str, Document] = {}
        for name, path, node in zip(names, found, self._tree.get_many(found), strict=True):
            self._place((kind, paths.decode(name)), path, node, table, unreadable)
        return table

    def _place(
        self, key: Key, path: str, node: Node | None, table: dict[str, Document], unreadable: dict[str, str]
    ) -> None:
        kind, name = key
        unreadable.pop(path, None)
        if node is None:
            table.pop(name, None)
            return
        try:
            table[name] = _parse(kind, name, node.data, path)
        except UnreadableDocumentError as error:
            if self._strict:
                raise
            unreadable[path] = str(error)
            kept = self._tables[kind].get(name)
            if kept is not None:
                table[name] = kept

    def _publish(self, revision: int, tables: _Tables, unreadable: dict[str, str]) -> None:
        self._tables = tables
        self.unreadable = unreadable
        self.view = View(
            revision=revision,
            clusters=cast("dict[str, Cluster]", tables[Cluster]),
            bindings=cast("dict[str, UserBindings]", tables[UserBindings]),
            topics=cast("dict[str, Topic]", tables[Topic]),
            groups=cast("dict[str, Group]", tables[Group]),
            sequences=cast("dict[str, LastSequences]", tables[LastSequences]),
        )


def _parse(kind: type[Document], name: str, data: bytes, path: str) -> Document:
    document = documents.from_bytes(kind, data, path)
    if paths.name_of(document) != name:
        raise UnreadableDocumentError(f"{path}: the document inside is of {paths.name_of(document)!r}")
    return document
