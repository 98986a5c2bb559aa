"""Fetches that name many topics: decoded, judged and planned off the event loop (`preparing`).

A fetch that is forwarded unchanged is then handled like any other. If it needs a plan, its answer is made off the loop,
too.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gateway.model.copies import Copies
from gateway.session.fast.fetch_patch import patch
from gateway.session.fetch.fetch_session import Gap
from gateway.session.fetch.plan import FetchPlan
from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request
from gateway.session.routes import Routes
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import decode
from ha_core.wire.fetch_request import FetchScan, scan_fetch_request


class LongFetch(NamedTuple):
    """Result of examining a long fetch.

    :ivar routes: routes by which it was judged.
    :ivar reads: True if it is forwarded unchanged.
    :ivar used: topics whose use is reported.
    :ivar refused: number of refused partitions by metrics label.
    :ivar planned: message and plan, if the port's broker cannot answer it alone.
    """

    scan: FetchScan
    routes: Routes
    reads: bool
    used: list[bytes]
    refused: Counter[str]
    planned: tuple[Message, FetchPlan] | None

    def stands(self, routes: Routes) -> bool:
        """True if it would be judged alike now. Leaders may have changed, as with any fetch."""
        then, now = self.routes.snapshot, routes.snapshot
        return then is now or (
            then.view is now.view and then.fresh == now.fresh and self.routes.verdicts is routes.verdicts
        )


def look_at(
    request: Request, routes: Routes, gaps: Mapping[Partition, Gap], copies: Copies, served: bool, now: float
) -> LongFetch:
    """:param served: True if the port has a broker."""
    version = request.api_version
    scan = scan_fetch_request(request.buf, request.body_at, request.end, version)
    topics = scan.topics
    unseen = (Refusal.DENIED, Refusal.CONCEALED)
    used = [topic for topic in topics if routes.plain or routes.topic(topic).no_fetch not in unseen]
    reads = scan.replica_id < 0 and routes.reads(topics)
    refused, planned = Counter[str](), None
    if not reads and (scan.forgets or scan.replica_id >= 0 or not _patched(request, scan, routes, gaps, served)):
        message = decode(request.api_key, version, "request", request.body, limits=request.limits)
        plan = FetchPlan(message, routes, dict(gaps), copies, now)
        refused.update(why.label for why in plan.refused.values())
        planned = message, plan
    return LongFetch(scan, routes, reads, used, refused, planned)


def _patched(request: Request, scan: FetchScan, routes: Routes, gaps: Mapping[Partition, Gap], served: bool) -> bool:
    """True if the port's broker answers it alone, with offsets patched."""
    if scan.entries is None or not served or (routes.names is not None and routes.rename(scan.topics)):
        return False
    buf, at, version = request.buf, request.body_at, request.api_version
    return patch(buf, at, version, tuple(scan.topics), scan.entries, routes, gaps) is not None
