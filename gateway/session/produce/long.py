"""Produce requests of very many partitions: a worker thread decodes them and cuts them into parts (`preparing`,
`LongProduceRequest`)."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from gateway.session.produce.judgement import Batches, batch_of_each, repeated
from gateway.session.request import Request
from ha_core.wire import RemoteProtocolError, read_request_header
from ha_core.wire.produce import Entry, ProduceScan, scan_produce
from ha_core.wire.records import IN_TRANSACTION

PARTITIONS_OF_A_PART = 200
"""The event loop judges and sends this many at once, or reads their answer, in some milliseconds."""


class ProducePart(NamedTuple):
    """Some partitions of a long produce request, as a request of their own."""

    request: Request
    scan: ProduceScan
    batches: Batches


class LongProduce:
    """:ivar acks: as the client set it.
    :ivar in_transaction: True if a batch has the transactional flag.
    :ivar topics: all topics of the request.
    :ivar repeated: partitions that the request names more than once. The parts hold one batch of each.
    :ivar left: number of parts that are not taken yet.
    """

    def __init__(self, request: Request) -> None:
        """:raises RemoteProtocolError: it is malformed. None of it has been sent by then."""
        self._request, self._buf = request, request.buf
        self._scan = scan = _scanned(request)
        batches = batch_of_each(request, scan)
        self.acks = scan.acks
        self.in_transaction = any(batch is not None and batch.attributes & IN_TRANSACTION for batch in batches.values())
        self.topics = tuple({entry[0] for entry in scan.partitions})
        try:
            self._names = {name: name.decode() for name in self.topics}
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"a produce request names a topic that is not UTF-8: {error}") from None
        self.repeated = repeated(scan, batches)
        entries = scan.partitions
        if self.repeated:  # parts are judged separately, and the client gets one answer per partition
            entries = list({entry[:2]: entry for entry in entries}.values())
        self._entries: list[list[Entry]] = [
            entries[at : at + PARTITIONS_OF_A_PART] for at in range(0, len(entries), PARTITIONS_OF_A_PART)
        ]
        self._entries.reverse()

    @property
    def left(self) -> int:
        return len(self._entries)

    @property
    def timeout_ms(self) -> int:
        return self._scan.timeout_ms

    @property
    def transactional_id(self) -> bytes | None:
        return self._scan.transactional_id

    def next_part(self) -> ProducePart:
        """Call this in a worker thread: it copies the records."""
        whole, entries = self._request, self._entries.pop()
        records = memoryview(self._buf)
        topics = [
            {
                "name": self._names[name],
                "partition_data": [
                    {"index": index, "records": None if size < 0 else bytes(records[at : at + size])}
                    for _, index, at, size in group
                ],
            }
            for name, group in groupby(entries, itemgetter(0))
        ]
        if not self._entries:
            # The session counts the request's bytes until its last part is taken, and the answer may come much later.
            records.release()
            self._buf = bytearray()
        scan, transactional_id = self._scan, self.transactional_id
        body = {
            "transactional_id": None if transactional_id is None else transactional_id.decode(),
            # With acks=0 the gateway closes the client's connection on an error, so it needs the broker's answer.
            "acks": scan.acks or 1,
            "timeout_ms": scan.timeout_ms,
            "topic_data": topics,
        }
        frame = bytearray(whole.rewritten(body))
        header = read_request_header(frame, 4, len(frame))
        assert header is not None
        part = Request(header, frame, 0, len(frame), whole.limits)
        found = _scanned(part)
        return ProducePart(part, found, batch_of_each(part, found))


def _scanned(request: Request) -> ProduceScan:
    start, end = request.start, request.end
    scan = scan_produce(request.buf, start, end, request.api_version, request.body_at, end)
    if scan is None or not scan.complete:
        raise RemoteProtocolError("a produce request ends inside its partitions")
    return scan
