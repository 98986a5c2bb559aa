"""How much each gateway's clients have used of quotas, so that a quota holds over all gateways together."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.model.document import FEW_BYTES, Document


class QuotaUse(Document):
    """`/quota_use/{gateway}`, ephemeral: of the scopes that were used lately, those nearest to their quota first. No
    revision, and nobody's decision but how long clients wait."""

    FOLDER = "/quota_use"
    KEY = "id"
    PLAIN_BYTES = FEW_BYTES

    id: str
    """The gateway's."""
    since: str
    """Drawn anew by whoever begins to count from 0."""
    at_s: float
    """When it was counted, on a clock that only its writer knows."""
    uses: Mapping[str, tuple[float, float]] = {}
    """Scope (`plan.quotas.Scope.key`) → what was used, in seconds of the whole quota, and the same times the seconds of
    the wait behind it. They only grow."""
