"""Results of parity checks in ZooKeeper."""

from functools import partial

from ha_core.model import Parity
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, once, placed


class ParityResults(OnTree):
    def write_parity(self, parity: Parity) -> None:
        """Store the result of a pair in place of the one before."""
        path = paths.path_of(Parity, parity.pair)
        once(self._tree, f"parity of {parity.pair}", partial(self._put_parity, path, documents.to_bytes(parity)))

    def parities(self) -> list[Parity]:
        """The last result of each pair; documents that this version cannot read are left out."""
        return sorted(readable(self._tree, Parity), key=lambda one: one.pair)

    def _put_parity(self, path: str, data: bytes) -> None:
        self._tree.write([placed(path, data, self._tree.get(path))])
