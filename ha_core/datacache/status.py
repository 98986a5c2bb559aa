"""The state of caches, as their nodes have published it: for commands and other observers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ha_core.datacache.nodes import ROOT, LiveNode
from ha_core.datacache.zookeeper import CacheNodes
from ha_core.store.paths import decode
from ha_core.store.tree import Tree


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """
    :ivar commit_us: the commit time that all nodes go to; None: there was none yet.
    :ivar nodes: live nodes, by id.
    """

    name: str
    commit_us: int | None
    nodes: tuple[LiveNode, ...]

    @property
    def lagging(self) -> Iterator[LiveNode]:
        """Nodes that serve an older state than the agreed one."""
        return (node for node in self.nodes if node.published.main_us < (self.commit_us or 0))

    @property
    def troubled(self) -> Iterator[LiveNode]:
        """Nodes that cannot read."""
        return (node for node in self.nodes if node.published.trouble)


def statuses(tree: Tree) -> tuple[CacheStatus, ...]:
    """All caches with live nodes, by name."""
    found = []
    for name in sorted(map(decode, tree.children(ROOT))):
        nodes = CacheNodes(tree, name)
        live = sorted(nodes.members(tree, lambda: None).read(), key=lambda node: node.member.node)
        if live:
            commit, _ = nodes.commit(tree)
            found.append(CacheStatus(name, None if commit is None else commit.at_us, tuple(live)))
    return tuple(found)
