"""Publishes the platform's quotas in the tree: several processes may, and none reverts a later publication.

`/quota_publication` has the time of the platform's change up to which quotas are published, and each publication writes
it. A publisher reads it before it reads the platform: a publication of another process in between fails its write.
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
        """For callers that read the quotas again and again."""
        return FollowedQuotas(self._tree)

    def publication(self) -> Publication:
        node = self._tree.get(PATH)
        if node is None:
            return Publication(0, "", None)
        try:
            fields = json.loads(node.data)
            return Publication(int(fields["through_us"]), str(fields["by"]), node)
        except (ValueError, TypeError, KeyError):
            # The next publication repairs it.
            return Publication(0, "", node)

    def publish(
        self, read: Publication, through_us: int, by: str, quotas: Sequence[tuple[QuotaEntity, Limits]]
    ) -> Publication:
        """Writes at most `AT_ONCE` quotas; a quota without limits is removed.

        :raises OvertakenError: another process has published, or changed one of them, since `read`.
        """
        data = json.dumps({"through_us": through_us, "by": by}, separators=(",", ":")).encode()
        # In order of paths, so that a node is created before nodes below it, with its own content.
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
            raise OvertakenError("quotas were published, or changed, by another process at the same time") from None
        return Publication(through_us, by, Node(data, 0 if read.node is None else read.node.version + 1, 0))
