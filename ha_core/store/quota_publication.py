"""The quotas of the platform in the tree: several processes may publish them, and none undoes what a later one wrote.

`/quota_publication` says up to which change of the platform they are published, and is written with all that is. Who
publishes has read it before he has read the platform: whatever somebody else published meanwhile refuses his write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from ha_core.model.quota import Limits, QuotaEntity
from ha_core.store import quota_nodes
from ha_core.store.errors import OvertakenError
from ha_core.store.quota_nodes import path_of
from ha_core.store.quota_writes import noting, placing
from ha_core.store.quotas import FollowedQuotas
from ha_core.store.tree import Node, OnTree, Op, PreconditionError, ReplyLostError, placed

PATH = "/quota_publication"
AT_ONCE = 50
"""Quotas in one write."""


class Publication(NamedTuple):
    """:ivar through_us: time of the platform's change up to which its quotas are published; 0: none ever was.
    :ivar node: as it was read.
    """

    through_us: int
    by: str
    node: Node | None


class QuotaPublications(OnTree):
    def follow_quotas(self) -> FollowedQuotas:
        """For who reads them himself, again and again."""
        return FollowedQuotas(self._tree)

    def publication(self) -> Publication:
        node = self._tree.get(PATH)
        if node is None:
            return Publication(0, "", None)
        try:
            said = json.loads(node.data)
            return Publication(int(said["through_us"]), str(said["by"]), node)
        except (ValueError, TypeError, KeyError):
            # Whoever publishes next repairs it.
            return Publication(0, "", node)

    def publish(
        self, read: Publication, through_us: int, by: str, quotas: Sequence[tuple[QuotaEntity, Limits]]
    ) -> Publication:
        """Quotas as they are to be, `AT_ONCE` at most; of those that are to be no more without limits.

        :raises OvertakenError: somebody else has published, or changed one of them, since that was read.
        """
        data = json.dumps({"through_us": through_us, "by": by}, separators=(",", ":")).encode()
        # By path: a node that is above another one is made with what is its own.
        wanted = sorted(((path_of(entity), entity, limits) for entity, limits in quotas), key=itemgetter(0))
        paths = [path for path, _, _ in wanted]
        ops: dict[str, Op] = {PATH: placed(PATH, data, read.node)}
        for (path, entity, limits), node in zip(wanted, self._tree.get_many(paths), strict=True):
            written = quota_nodes.to_bytes(entity, limits, published=True) if limits else b""
            if node is not None or limits:
                for op in placing(self._tree, path, written, node, gone=not limits):
                    ops.setdefault(op.path, op)
        notes = noting(self._tree, paths) if paths else []
        try:
            self._tree.write([*ops.values(), *notes])
        except (PreconditionError, ReplyLostError):
            raise OvertakenError("quotas were published, or changed, by somebody else at the same time") from None
        return Publication(through_us, by, Node(data, 0 if read.node is None else read.node.version + 1, 0))
