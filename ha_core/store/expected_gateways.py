"""Gateways that should be alive: an ephemeral record is gone when its gateway has died."""

from __future__ import annotations

from functools import partial

from ha_core.model import ExpectedGateway
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, once, placed, remove


class ExpectedGateways(OnTree):
    def expect_gateway(self, expected: ExpectedGateway) -> None:
        """Record a gateway that has registered. It is expected until `forget_gateway`."""
        path = paths.path_of(ExpectedGateway, expected.gateway)

        def write() -> None:
            self._tree.write([placed(path, documents.to_bytes(expected), self._tree.get(path))])

        once(self._tree, f"expecting gateway {expected.gateway}", write)

    def forget_gateway(self, gateway: str) -> bool:
        """Expect the gateway no longer; returns whether it was expected."""
        forget = partial(remove, self._tree, paths.path_of(ExpectedGateway, gateway))
        return once(self._tree, f"forgetting gateway {gateway}", forget)

    def expected_gateways(self) -> dict[str, ExpectedGateway]:
        """By name; documents that this version cannot read are left out."""
        return {one.gateway: one for one in readable(self._tree, ExpectedGateway)}
