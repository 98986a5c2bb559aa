"""Handles fetch requests: forwarded unchanged where possible, patched in place, or gathered from several clusters."""

from collections.abc import Mapping, Sequence
from functools import partial

from gateway.session.answers import PATIENCE_S
from gateway.session.client import SessionClient
from gateway.session.commands import BrokerLane, FindLeaders, Refresh
from gateway.session.fast.cached_decision import CachedDecision
from gateway.session.fast.fetch_patch import PatchedFetch, patch
from gateway.session.fetch.fetch_session import FetchSession, Gap, empty_answer
from gateway.session.fetch.long import LongFetch
from gateway.session.fetch.plan import FetchPlan, merge, stands
from gateway.session.handler import RequestHandler
from gateway.session.pending import Exchange, ExchangeAnswer, Frames, OffloadStep, Passed, Patched, Send
from gateway.session.refusal import Refusal
from gateway.session.request import Message, NeedsPreparingError, Request
from gateway.session.rights import Authorization
from gateway.session.routes import Routes
from ha_core.model import View
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import ApiKey
from ha_core.wire.fetch_request import FetchScan, scan_fetch_request, topics_named
from ha_core.wire.limits import FEW
from ha_core.wire.own_requests import EARLIEST, list_offsets
from ha_core.wire.templates import BEGINNING, OUTSIDE, STANDING, FetchTemplate

CROSSING_WAIT_MS = 20
"""Longest wait of a fetch that two clusters answer: the one with records waits for the one without."""
COLD_WAIT_MS = 500
STALE_DELAY_S = 0.1
MAX_DELAY_S = 1.0
MAX_COLD_BYTES = 16 << 20
"""Limit for one request's read from a closed extent: the whole answer is held in memory."""

MAX_COPY_BYTES = 4 << 20
"""Limit where copies, or remote topics under local names, are read. That happens all the time: other connections wait
while the answer is processed."""


_LEAST_ENTRY_BYTES = 16
"""Least size of a partition in a fetch: index, offset, and size limit."""


class FetchRequest(RequestHandler):
    """A complete fetch request."""

    __slots__ = ()

    def handle(self) -> None:
        session, request = self.session, self.request
        routes, long = session.client.routes(request.client_id), _long(request)
        if (long is None and names_many(request)) or (long is not None and not long.stands(routes)):
            raise NeedsPreparingError
        if long is None:
            scan = scan_fetch_request(request.buf, request.body_at, request.end, request.api_version)
            if _partitions(request, scan) > FEW and not routes.reads(scan.topics):
                raise NeedsPreparingError  # each partition is planned: 20,000 of one moved topic take 0.12 s
        else:
            scan, routes = long.scan, long.routes
        if scan.replica_id >= 0:
            self._read(routes, scan)
            return
        incremental = scan.session_id != 0 and scan.session_epoch > 0
        if not incremental:
            session.fetching.leave_session()
        topics = scan.topics
        for topic in topics if long is None else long.used:
            if (
                long is not None
                or routes.plain
                or routes.topic(topic).no_fetch not in (Refusal.DENIED, Refusal.CONCEALED)
            ):
                used = topic if routes.names is None else routes.used(topic)
                session.seen_uses.notice(request, "topic", used, "fetch")
        fetch_session = session.fetching.fetch_session
        if session.fetching.seen_again and incremental and fetch_session is not None:
            session.fetching.seen_again = False
            for topic in fetch_session.topics:
                session.seen_uses.notice(request, "topic", topic, "fetch")
        if incremental and (
            fetch_session is None or fetch_session.id != scan.session_id or not fetch_session.stands(routes)
        ):
            # A session from another connection, or an earlier one of this connection, may hold topics that are
            # translated.
            self._end_session()
        elif (routes.reads(topics) if long is None else long.reads) and not (
            fetch_session is not None and fetch_session.mapped
        ):
            self._pass(scan, topics)
        elif fetch_session is None:
            self._read(routes, scan)
        elif (patched := self._patch(routes, scan, fetch_session)) is not None:
            self._pass_patched(routes, scan, patched)
        else:
            self._end_session()

    def _end_session(self) -> None:
        """Makes the client send all its partitions."""
        self.session.fetching.leave_session()
        self.session.in_flight.reply(self.request, empty_answer(in_session=True))

    def _pass(self, scan: FetchScan, topics: list[bytes]) -> None:
        session, request = self.session, self.request
        in_session, begins = scan.session_epoch >= 0, None
        reads: Sequence[bytes] = tuple(topics)
        if in_session:
            fetch_session = session.fetching.fetch_session
            if fetch_session is None:
                fetch_session = session.fetching.fetch_session = begins = FetchSession()
            fetch_session.add(topics, session.client.routes(request.client_id))
            reads = fetch_session.topics
        self._remember(scan)
        _keep_at_leader(request, scan)
        if session.throttling.quotas is not None:
            session.throttling.cut_fetch(request, reads, self.context.now)
        pending = Passed(request, reads=reads, in_session=in_session, waits_ms=scan.max_wait_ms)
        pending.begins = begins
        session.in_flight.pass_on(pending, self.context.broker, request.frame)

    def _remember(self, scan: FetchScan, routes: Routes | None = None) -> None:
        """Caches the decision for similar fetches, unless each has to be examined.

        :param routes: routes of patched topics.
        """
        session, request = self.session, self.request
        if scan.session_id == 0:
            epochs = {0: BEGINNING, -1: OUTSIDE}.get(scan.session_epoch)
        else:  # any other epoch ends one session, and may begin another
            epochs = STANDING if scan.session_epoch > 0 else None
        if epochs is None or not session.throttling.unlimited(request, self.context.now):
            return
        buf, body_at, version = request.buf, request.body_at, request.api_version
        template = FetchTemplate.of(buf, request.start, body_at, request.end, version, scan, epochs)
        if template is None:
            return
        begins, state = session.client.routes(request.client_id) if epochs is BEGINNING else None, session.fetching
        decision = CachedDecision(
            template, request, session.client.auth_state, fetch_session=state.fetch_session if begins is None else None,
            begins=begins, routes=routes, rack=(request.end - scan.rack_at, scan.rack_bytes), waits_ms=scan.max_wait_ms,
        )  # fmt: skip
        session.decisions.remember(decision, state.fetch_session)

    def _read(self, routes: Routes, scan: FetchScan) -> None:
        """Reads topics of which at least one is mapped, or elsewhere, or refuses all of them."""
        session, context, request = self.session, self.context, self.request
        long = _long(request)
        if not scan.forgets and scan.replica_id < 0 and (long is None or long.planned is None):
            begins = FetchSession() if scan.session_epoch == 0 else None
            patched = self._patch(routes, scan, begins)
            if patched is not None:
                session.fetching.fetch_session = begins
                self._pass_patched(routes, scan, patched, begins)
                return
        if long is not None and long.planned is None:
            raise NeedsPreparingError  # Before newer findings, the port's broker could have answered it alone.
        if long is not None and long.planned is not None:
            message, plan = long.planned
        else:
            message = request.read()
            plan = FetchPlan(message, routes, session.fetching.gaps, context.shared.copies, context.now)
        asked: list[bytes] = []
        if session.throttling.quotas is not None:
            asked = [topic["topic"].encode() for topic in message["topics"]]
        if (max_bytes := session.throttling.max_bytes(request, asked, context.now)) is not None:
            message["max_bytes"] = min(message["max_bytes"], max_bytes)
        if plan.refused:
            if long is None:
                context.count_refused(plan.refused.values())
            else:
                context.shared.counts.refusals.update(long.refused)
            Authorization(session).audit_denied(request, plan.refused)
        wait_ms = message["max_wait_ms"]
        if not plan.parts:
            make = partial(_local_answer, plan, context.snapshot.view)
            due_at = context.now + min(wait_ms / 1000, self._look_for_leaders(plan))
            if plan.refused:
                session.in_flight.answer_refused(request, make, set(plan.refused.values()), (request.api_key,))
            elif request.prepared is not None:
                session.in_flight.reply_later(request, make, due_at=due_at)
            else:
                session.in_flight.reply(request, make(), due_at=due_at)
            return
        opens = any(read.opens for read in plan.reads.values())
        if (
            request.prepared is None
            and not plan.examined_lanes
            and not plan.local
            and not plan.real
            and not opens
            and len(plan.parts) == 1
        ):
            ((lane, topics),) = plan.parts.items()
            part = _part_of(message, plan, lane, wait_ms, message["max_bytes"])
            reads = tuple({topic.encode() for topic in topics})
            pending = Patched(request, reads=reads, waits_ms=wait_ms, shifts=plan.shifts())
            session.in_flight.pass_on(pending, lane, request.rewritten(part))
            return
        session.exchanges.start(request, self._gather(message, plan), leased=plan.reads_a_growing_log)

    def _patch(self, routes: Routes, scan: FetchScan, within: FetchSession | None) -> PatchedFetch | None:
        request = self.request
        if scan.entries is None or self.context.here is None:
            return None
        if routes.names is not None and routes.rename(scan.topics):
            return None
        named, version = tuple(scan.topics), request.api_version
        return patch(
            request.buf, request.body_at, version, named, scan.entries, routes, self.session.fetching.gaps, within
        )

    def _pass_patched(
        self,
        routes: Routes,
        scan: FetchScan,
        patched: PatchedFetch,
        begins: FetchSession | None = None,
    ) -> None:
        """:param begins: the fetch session that begins with it."""
        session, request = self.session, self.request
        fetch_session = session.fetching.fetch_session
        if fetch_session is not None:
            fetch_session.add(scan.topics, routes)
            patched = patched._replace(reads=fetch_session.topics)
        reads = patched.reads
        self._remember(scan, routes)
        patched.write(request.buf)
        _keep_at_leader(request, scan)
        if session.throttling.quotas is not None:
            session.throttling.cut_fetch(request, reads, self.context.now)
        pending = patched.pending(request)
        pending.begins, pending.waits_ms = begins, scan.max_wait_ms
        session.in_flight.pass_on(pending, self.context.broker, request.frame)

    def _look_for_leaders(self, plan: FetchPlan) -> float:
        """Makes the gateway look for leaders that the client cannot look for.

        :returns: seconds for which the client may wait for its answer: if a leader may be found, it should retry soon.
        """
        reachable = self.context.snapshot.topology.reachable
        # A cluster that is down is probed anyway, with pauses, and is not back in a moment.
        wanted = [
            FindLeaders(cluster, frozenset(names)) for cluster, names in plan.leaderless.items() if reachable(cluster)
        ]
        self.context.out += wanted
        return STALE_DELAY_S if wanted or plan.undecided_cut else MAX_DELAY_S

    def _gather(self, message: Message, plan: FetchPlan) -> Exchange:
        session, context, request = self.session, self.context, self.request
        parts, examined_lanes, wait_ms = plan.parts, frozenset(plan.examined_lanes), message["max_wait_ms"]
        wait_s = wait_ms / 1000
        longest_ms = int(1000 * self._look_for_leaders(plan))
        max_wait_ms = min(wait_ms, longest_ms, CROSSING_WAIT_MS if plan.both and len(parts) > 1 else COLD_WAIT_MS)
        hurry = bool(plan.refused) or (not plan.both and len(parts) > len(examined_lanes) > 0)
        # For all parts together: librdkafka drops a connection with an answer above its receive.message.max.bytes.
        bound = MAX_COPY_BYTES if plan.copies or plan.real else MAX_COLD_BYTES
        partition_bytes = min(max(message["max_bytes"] // len(parts), 1), bound)
        waits = {lane: 0 if hurry and lane not in examined_lanes else max_wait_ms for lane in parts}
        long = request.prepared is not None
        write = partial(_parts, request, message, plan, waits, partition_bytes)
        frames = (yield OffloadStep(write)) if long else write()
        answered = yield Send(
            frames, examined_lanes.issuperset(frames), spared=examined_lanes, patience_s=wait_s + PATIENCE_S
        )
        while True:
            view, gaps = context.snapshot.view, dict(session.fetching.gaps) if long else session.fetching.gaps
            read = partial(_merged, request, plan, answered, gaps, view)
            merged, stale = (yield OffloadStep(read)) if long else read()
            if view.topics is context.snapshot.view.topics:
                break  # otherwise the records may have other client offsets by now
        if long:
            session.fetching.gaps.update(gaps)
        self._account(plan, merged)
        for lane in dict.fromkeys(plan.gone.values()):
            question = Request.own(ApiKey.LIST_OFFSETS, 1, context.shared.limits)
            session.exchanges.ask_aside(question, self._log_starts(plan, lane, question))
        if stale:
            context.emit(Refresh())
        again = bool(stale or plan.gone or plan.doubted)
        delay_s = STALE_DELAY_S if again else min(wait_s, MAX_DELAY_S) if plan.undecided else 0.0
        return ExchangeAnswer(
            (yield OffloadStep(partial(request.answer, merged))) if long else request.answer(merged), delay_s
        )

    def _account(self, plan: FetchPlan, merged: Message) -> None:
        """Counts bytes from copies, and notes copies that did not serve."""
        context = self.context
        for key in plan.doubted:
            context.shared.copies.doubt(plan.copies[key].mirror, key[1], context.now)
        if not plan.copies:
            return
        counts, zone = context.shared.counts, context.snapshot.zone
        here = bool(zone) and context.shared.zones.zone_of(context.address) == zone
        near = {name for name, cluster in context.snapshot.view.clusters.items() if here and cluster.zone == zone}
        for topic in merged["responses"]:
            for entry in topic["partitions"]:
                read = plan.copies.get((topic["topic"], entry["partition_index"]))
                if read is not None:
                    size = len(entry["records"])
                    counts.mirror_fetch_bytes[read.cluster] += size
                    if read.cluster in near:
                        counts.mirror_fetch_near_bytes[read.cluster] += size

    # -- log start of an extent whose first records are gone -----------------------------------------------------------
    # Readers that come from an older extent continue there. Retention by size keeps all of a closed log, and removes
    # the first records of the open one: OFFSET_OUT_OF_RANGE would send a reader to the earliest offset, the old log's
    # start.

    def _log_starts(self, plan: FetchPlan, lane: BrokerLane, question: Request) -> Exchange:
        """Asks a broker of `plan.gone` over the client's own connection to it; the client's next fetch uses the
        answer."""
        body = list_offsets((key for key, other in plan.gone.items() if other == lane), EARLIEST)
        frames = yield Send({lane: question.rewritten(body)}, survives_loss=True)
        for topic in () if frames[lane] is None else question.decode_answer(frames[lane])["topics"]:
            for found in topic["partitions"]:
                key, start = (topic["name"], found["partition_index"]), found["offset"]
                read = plan.reads.get(key)
                if read is None or found["error_code"] or not stands(self.context.snapshot.view, key, read.extent):
                    continue
                extent = read.extent
                # It may have lost records at its end instead: the client learns of that as with any other log.
                lost = start <= read.physical
                self.session.fetching.gaps[key] = Gap(
                    read.client_offset, extent.to_client(read.physical) if lost else extent.clip(start), lost
                )
        return None


def names_many(request: Request) -> bool:
    """True if a fetch names more topics than the event loop may examine."""
    return topics_named(request.buf, request.body_at, request.end, request.api_version) > FEW


def _partitions(request: Request, scan: FetchScan) -> int:
    """Number of partitions that a fetch names; an upper bound if tags hide it."""
    if scan.entries is None:
        return (request.end - request.body_at) // _LEAST_ENTRY_BYTES
    return sum(topic.partitions for topic in scan.entries)


def _long(request: Request) -> LongFetch | None:
    """The result of examining a long fetch off the event loop."""
    found = None if request.prepared is None else request.prepared.found
    return found if isinstance(found, LongFetch) else None


def reads_here(client: SessionClient, request: Request) -> bool:
    """True if a fetch goes to the port's broker unchanged."""
    scan = scan_fetch_request(request.buf, request.body_at, request.end, request.api_version)
    return client.routes(request.client_id).reads(scan.topics)


def _keep_at_leader(request: Request, scan: FetchScan) -> None:
    """KIP-392: a broker would send this consumer to a replica by its own node id, which is not a virtual node."""
    if scan.rack_bytes:
        request.buf[scan.rack_at : scan.rack_at + scan.rack_bytes] = b"-" * scan.rack_bytes


def _local_answer(plan: FetchPlan, view: View) -> Message:
    """The answer to a fetch that no broker is asked for."""
    return merge(plan, {}, {}, view)[0]


def _parts(
    request: Request, message: Message, plan: FetchPlan, waits: Mapping[BrokerLane, int], partition_bytes: int
) -> dict[BrokerLane, bytes]:
    """Encoded request for each broker."""
    return {lane: request.rewritten(_part_of(message, plan, lane, waits[lane], partition_bytes)) for lane in plan.parts}


def _part_of(message: Message, plan: FetchPlan, lane: BrokerLane, max_wait_ms: int, max_bytes: int) -> Message:
    """The part of a fetch for one broker, without a fetch session: changes since the last answer are of no use if that
    one was for other offsets."""
    return {
        **message,
        "rack_id": "",
        "session_id": 0,
        "session_epoch": -1,
        "max_wait_ms": max_wait_ms,
        "max_bytes": max_bytes,
        "topics": [
            {"topic": plan.real.get(topic, topic), "partitions": entries} for topic, entries in plan.parts[lane].items()
        ],
        "forgotten_topics_data": [],
    }


def _merged(
    request: Request, plan: FetchPlan, answered: Frames, gaps: dict[Partition, Gap], view: View
) -> tuple[Message, set[str]]:
    decoded = {
        lane: None if frame is None else plan.in_local_names(request.decode_answer(frame))
        for lane, frame in answered.items()
    }
    return merge(plan, decoded, gaps, view)
