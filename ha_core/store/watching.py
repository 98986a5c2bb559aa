"""Follows the tree by rereading it, and the state: a replica, loaded as a whole, then updated by notes of revisions."""

import gc
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from ha_core.model import Document, UnreadableDocumentError, View
from ha_core.model.document import DOCUMENT_KINDS
from ha_core.store import documents, paths
from ha_core.store.commits import KEPT, Key, Note, revision_of
from ha_core.store.errors import StoreError
from ha_core.store.tree import Node, Reads, State, Tree

log = logging.getLogger(__name__)
POLL_S = 5.0
"""How long a failed read, or a wake-up that got lost, can go unnoticed."""
_Tables = dict[type[Document], dict[str, Document]]


class Rereading:
    """A thread that follows a part of the tree by rereading it: when woken, by the clock, and in each new session.

    Runs from its creation until `close`. Wake-ups are never counted: each means "read again"."""

    def __init__(
        self,
        tree: Tree,
        name: str,
        read: Callable[[Callable[[], None], bool], Callable[[], object] | None],
        poll_s: float,
        on_state: Callable[[State], object] = lambda state: None,
    ) -> None:
        """
        :param read: called only while connected, with `wake`, and whether earlier reads cannot be trusted: there was
            none, or the session was lost; this stays true until a read has not raised. Returns a callback that passes
            the result on; if that fails, the read still counts.
        :param poll_s: how long a failed read, or a wake-up that got lost, can go unnoticed.
        :param on_state: called with each state of the connection, in this thread.
        """
        self._name, self._reader, self._poll_s, self._on_state = name, read, poll_s, on_state
        self._events: SimpleQueue[State | None] = SimpleQueue()
        self._connected, self._anew, self._closing = False, True, False
        self._unlisten = tree.listen(self._events.put)
        self._thread = threading.Thread(target=self._run, name=f"store-{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; nothing is called after it returns (unless called from a callback)."""
        self._closing = True
        self._unlisten()
        self._events.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        self._events.put(None)

    def _run(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=self._poll_s)
            except Empty:
                event = None
            if self._closing:
                return
            if event is not None:
                self._enter(event)
            if self._connected:
                self._read()

    def _enter(self, state: State) -> None:
        self._connected = state == "connected"
        # Our ephemeral nodes are gone, and other processes may have acted on that.
        self._anew = self._anew or state == "lost"
        self._tell(lambda: self._on_state(state))

    def _read(self) -> None:
        try:
            callback = self._reader(self._wake, self._anew)
        except (StoreError, UnreadableDocumentError) as error:
            log.warning("%s not read, the last content stays in force: %s", self._name, error)
            return
        except Exception:
            # A bug that some node's content has triggered: it must not end the thread.
            log.exception("%s not read, the last content stays in force", self._name)
            return
        self._anew = False
        if callback is not None:
            self._tell(callback)

    def _tell(self, callback: Callable[[], object]) -> None:
        """A failing callback must not end the thread: every later change would go unseen."""
        try:
            callback()
        except Exception:
            log.exception("a follower of %s failed", self._name)


class StateReplica:
    """Documents by kind and name as of `view.revision`.

    :ivar unreadable: path → why. Such documents keep their last good content.
    """

    def __init__(self, tree: Reads, strict: Collection[type[Document]] = ()) -> None:
        """:param strict: kinds for which to raise UnreadableDocumentError instead of keeping the last good document."""
        self._tree = tree
        self._strict = strict
        self._tables: _Tables = {kind: {} for kind in DOCUMENT_KINDS.values() if kind.REPLICATED}
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
            start = revision_of(self._tree.get(paths.CHANGES, wake))
            fresh: _Tables = {}
            unreadable: dict[str, str] = {}
            with no_search():
                for kind in self._tables:
                    fresh[kind] = self._read_folder(kind, unreadable)
            # Notes name the changes made while this was read; None: they were pruned meanwhile.
            revision = self._pass_notes(start, fresh, unreadable, set(), revision_of(self._tree.get(paths.CHANGES)))
        self._publish(revision, fresh, unreadable)

    def catch_up(self, wake: Callable[[], None] | None = None) -> frozenset[str]:
        """Go to the newest revision by reading the documents that the notes name; returns the paths of those in the
        view."""
        own = self.view.revision
        newest = revision_of(self._tree.get(paths.CHANGES, wake))
        if newest == own:
            return frozenset()
        if newest < own or newest - own > KEPT:
            return self.reload(wake)
        tables, unreadable, changed = dict(self._tables), dict(self.unreadable), set[str]()
        with no_search():
            revision = self._pass_notes(own, tables, unreadable, changed, newest)
        if revision is None:
            return self.reload(wake)
        self._publish(revision, tables, unreadable)
        return frozenset(changed)

    def _pass_notes(
        self, own: int, tables: _Tables, unreadable: dict[str, str], changed: set[str], newest: int
    ) -> int | None:
        """Bring `tables` from `own` to the newest revision; None when a note on the way is gone or damaged.

        A document may be newer than `newest` when it is read. Then the revision read after it is higher, and the round
        goes on: no view ever has a part of a change.
        """
        copied: set[type[Document]] = set()
        while own < newest:
            numbers = range(own + 1, newest + 1)
            keys: dict[str, Key] = {}
            for node in self._tree.get_many([paths.note(number) for number in numbers]):
                note = Note.of(node)
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
            newest = revision_of(after)
        return own

    def _read_folder(self, kind: type[Document], unreadable: dict[str, str]) -> dict[str, Document]:
        names = self._tree.children(kind.FOLDER)
        found = [f"{kind.FOLDER}/{name}" for name in names]
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
            if kind in self._strict:
                raise
            unreadable[path] = str(error)
            kept = self._tables[kind].get(name)
            if kept is not None:
                table[name] = kept

    def _publish(self, revision: int, tables: _Tables, unreadable: dict[str, str]) -> None:
        self._tables = tables
        self.unreadable = unreadable
        self.view = View.of(revision, tables)


def _parse(kind: type[Document], name: str, data: bytes, path: str) -> Document:
    document = documents.from_bytes(kind, data, path)
    if paths.name_of(document) != name:
        raise UnreadableDocumentError(f"{path}: the document inside is of {paths.name_of(document)!r}")
    return document


@contextmanager
def no_search() -> Iterator[None]:
    """Half of the time of a large load would go into garbage collections, which stop all threads.

    The objects made meanwhile count as old afterwards: as young ones all of them would be collected at once.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.freeze()
            gc.unfreeze()
            gc.enable()


class StateWatcher:
    """Calls back, from one thread, for each new view."""

    def __init__(
        self,
        tree: Tree,
        on_view: Callable[[View, frozenset[str]], None],
        on_state: Callable[[State], object],
        poll_s: float = POLL_S,
    ) -> None:
        self._replica = StateReplica(tree.impatient())
        self._on_view = on_view
        self._view: View | None = None
        self._rereading = Rereading(tree, "state", self._read, poll_s, on_state)

    @property
    def view(self) -> View | None:
        """The newest view passed to `on_view`; None before the first."""
        return self._view

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Path → error, of documents that this version cannot read.

        The view has their last good content, or nothing where there was none: refuse requests that depend on those.
        """
        return self._replica.unreadable

    def close(self) -> None:
        """Stop; no callback runs after it returns (unless called from a callback)."""
        self._rereading.close()

    def _read(self, wake: Callable[[], None], anew: bool) -> Callable[[], None] | None:
        changed = self._replica.reload(wake) if anew else self._replica.catch_up(wake)
        view = self._replica.view
        if self._view is None or view.revision != self._view.revision or changed:
            return lambda: self._tell(view, changed)
        return None

    def _tell(self, view: View, changed: frozenset[str]) -> None:
        try:
            self._on_view(view, changed)
        finally:
            self._view = view
