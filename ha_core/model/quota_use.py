"""Quota use of each gateway's clients, so that all gateways together enforce a quota."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.model.document import FEW_BYTES, Document


class QuotaUse(Document):
    """`/quota_use/{gateway}`, ephemeral: recently used scopes, those nearest to their quota first. No revision; it
    decides only how long clients wait."""

    FOLDER = "/quota_use"
    KEY = "id"
    PLAIN_BYTES = FEW_BYTES

    id: str
    """Id of the gateway."""
    since: str
    """Random, new whenever the counters restart from 0."""
    at_s: float
    """Time of counting, on its writer's own clock."""
    uses: Mapping[str, tuple[float, float]] = {}
    """Scope (`QuotaScope.key`) → use in seconds of the whole quota, and that use times the seconds of the wait after
    it. Both only grow."""
