"""Access rules that mirrors have brought to their targets. Several processes sync a mirror, each at any time."""

from collections.abc import Callable, Collection, Iterable
from functools import partial

from ha_core.model import BroughtRights, UnreadableDocumentError
from ha_core.model.brought_rights import MAX_BROUGHT, BroughtRule
from ha_core.store import documents, paths
from ha_core.store.documents import nodes_of, readable
from ha_core.store.tree import Node, OnTree, once, placed, remove


class BroughtRightsOfMirrors(OnTree):
    def brought_rights(self, links: Collection[tuple[str, str]]) -> dict[str, frozenset[BroughtRule]]:
        """Key of a mirror → rules that it has brought; unreadable documents count as none.

        :param links: (key, link) of the mirrors.
        """
        wanted = [paths.path_of(BroughtRights, key) for key, _ in links]
        found = readable(self._tree, BroughtRights, wanted) if wanted else ()
        return {one.key: frozenset(one.rules) for one in found if (one.key, one.link) in links}

    def note_brought(
        self, key: str, link: str, added: Iterable[BroughtRule] = (), gone: Iterable[BroughtRule] = ()
    ) -> None:
        """Note rules that the mirror has brought, and forget those that are gone. A document that this version cannot
        read stays."""
        here, away = frozenset(added), frozenset(gone)

        def changed(before: BroughtRights) -> BroughtRights:
            rules = (frozenset(before.rules) if before.link == link else frozenset()) - away | here
            return BroughtRights(key=key, link=link, rules=tuple(sorted(rules)[:MAX_BROUGHT]))

        self._change_brought(key, changed)

    def pass_on_brought(self, key: str, old: str, new: str) -> None:
        """The mirror goes on from another source, under the link `new`: it keeps the rules that it has brought."""
        self._change_brought(key, lambda before: before.changed(link=new) if before.link == old else before)

    def forget_brought(self, keep: Callable[[str], bool]) -> None:
        """Remove the rules of mirrors that have ended, from the document and not from any cluster.

        :param keep: whether a mirror of this key stands, or may be written again.
        """
        for path in nodes_of(self._tree, BroughtRights.FOLDER):
            if not keep(paths.decode(path.rpartition("/")[2])):
                once(self._tree, f"the rules of {path}", partial(remove, self._tree, path))

    def _change_brought(self, key: str, changed: Callable[[BroughtRights], BroughtRights]) -> None:
        path = paths.path_of(BroughtRights, key)

        def write() -> None:
            node = self._tree.get(path)
            try:
                before = _parsed(path, node, key)
            except UnreadableDocumentError:
                return
            after = changed(before)
            if after != before:
                self._tree.write([placed(path, documents.to_bytes(after), node)])

        once(self._tree, f"the rules that mirror {key} has brought", write)


def _parsed(path: str, node: Node | None, key: str) -> BroughtRights:
    return BroughtRights(key=key, link="") if node is None else documents.from_bytes(BroughtRights, node.data, path)
