"""Gateways that should be alive: what an ephemeral record cannot say once its gateway has died."""

from __future__ import annotations

from ha_core.model import ExpectedGateway
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, Remove, once, placed


class ExpectedGateways(OnTree):
    def expect_gateway(self, expected: ExpectedGateway) -> None:
        """Record a gateway that has registered. It is expected until `forget_gateway`."""
        path = paths.path_of(ExpectedGateway, expected.gateway)

        def write() -> None:
            self._tree.write([placed(path, documents.to_bytes(expected), self._tree.get(path))])

        once(self._tree, f"expecting gateway {expected.gateway}", write)

    def forget_gateway(self, gateway: str) -> bool:
        """Expect the gateway no longer. → whether it was expected."""
        path = paths.path_of(ExpectedGateway, gateway)

        def write() -> bool:
            node = self._tree.get(path)
            if node is not None:
                self._tree.write([Remove(path, node.version)])
            return node is not None

        return once(self._tree, f"forgetting gateway {gateway}", write)

    def expected_gateways(self) -> dict[str, ExpectedGateway]:
        """By name; documents that this version cannot read are left out."""
        return {one.gateway: one for one in readable(self._tree, ExpectedGateway)}
