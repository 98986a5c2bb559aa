"""The produce scan and the response patch against the codec, which decodes the same bytes in another way."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import ApiKey, RemoteProtocolError, decode, encode, encode_response
from ha_core.wire.produce import ProduceScan, patch_produce_response, scan_produce
from ha_core.wire.schemas import SCHEMAS
from tests.wire.samples import damaged, message, seeds

VERSIONS = range(3, 10)


def request(version: int, seed: int) -> tuple[dict[str, Any], bytes]:
    rnd = random.Random(seed)
    found = message(SCHEMAS[0].fields("request"), version, rnd)
    if version >= 9:
        for struct in [found, *found["topic_data"], *(p for t in found["topic_data"] for p in t["partition_data"])]:
            if rnd.random() < 0.3:
                struct["_tags"] = {rnd.randrange(9): rnd.randbytes(rnd.randrange(200))}
    return found, encode(ApiKey.PRODUCE, version, "request", found)


def entries(scan: ProduceScan, buf: bytes) -> list[Any]:
    return [(t.decode(), p, buf[at : at + size] if size >= 0 else None) for t, p, at, size in scan.partitions]


def expected(found: dict[str, Any]) -> list[Any]:
    return [(t["name"], p["index"], p["records"]) for t in found["topic_data"] for p in t["partition_data"]]


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=300, deadline=None)
def test_a_produce_request_is_scanned_as_the_codec_reads_it(version: int, seed: int) -> None:
    # Given a request within a larger buffer
    found, body = request(version, seed)
    buf = b"12345" + body + b"\xff" * 20
    # When it is scanned
    scan = scan_produce(buf, 0, len(buf), version, 5, 5 + len(body))
    # Then the scan equals the codec's result
    assert scan is not None
    assert scan.complete
    assert entries(scan, buf) == expected(found)
    wanted_id = found["transactional_id"]
    assert scan.transactional_id == (None if wanted_id is None else wanted_id.encode())
    assert (scan.acks, scan.timeout_ms) == (found["acks"], found["timeout_ms"])


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=100, deadline=None)
def test_the_scan_of_a_truncated_produce_request_is_a_prefix_of_the_whole_scan(version: int, seed: int) -> None:
    # Given a request, and the scan of all of it
    _, body = request(version, seed)
    whole = scan_produce(body, 0, len(body), version, 0, len(body))
    assert whole is not None
    last = 0
    # When less of it has arrived
    # Then its scan is a prefix of the whole one
    for end in range(len(body)):
        shared = body[:end] + b"\xff" * 20
        part = scan_produce(shared, 0, end, version, 0, len(body))
        if part is None:
            assert last == 0
            assert end < 10 or not whole.partitions or end < whole.partitions[0][2]
            continue
        assert part.partitions == whole.partitions[: len(part.partitions)]
        if part.complete:
            assert part.partitions == whole.partitions
        assert len(part.partitions) >= last
        last = len(part.partitions)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "tx-7"])
def test_a_produce_request_of_one_partition_is_complete_once_its_header_has_arrived(
    version: int, transactional_id: str | None
) -> None:
    # Given a request of one partition
    partition = {"index": 3, "records": b"r" * 5000}
    topics = [{"name": "orders", "partition_data": [partition]}]
    body = encode(
        0,
        version,
        "request",
        {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 30, "topic_data": topics},
    )
    at = body.index(b"rrrr")
    name = None if transactional_id is None else transactional_id.encode()
    wanted = ProduceScan(-1, 30, name, [(b"orders", 3, at, 5000)], True)
    # When it has arrived up to its records
    # Then the scan is complete, and not before
    assert scan_produce(body, 0, at - 1, version, 0, len(body)) is None
    for end in (at, at + 1, at + 4999, at + 5000, len(body)):
        assert scan_produce(body, 0, end, version, 0, len(body)) == wanted


@given(st.sampled_from(VERSIONS), seeds, st.floats(0, 1))
@settings(max_examples=500, deadline=None)
def test_a_damaged_produce_request_is_scanned_or_refused(version: int, seed: int, share: float) -> None:
    # Given a damaged request
    body = damaged(request(version, seed)[1], random.Random(seed))
    # When it is scanned
    try:
        scan = scan_produce(body, 0, int(len(body) * share), version, 0, len(body))
    except RemoteProtocolError as error:
        if "follow the produce request" not in str(error):
            with pytest.raises(RemoteProtocolError):
                decode(ApiKey.PRODUCE, version, "request", body)
        return
    # Then it is refused like by the codec, or is within its frame
    for _, _, at, size in scan.partitions if scan else ():
        assert at + max(size, 0) <= len(body)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_produce_request_without_partitions_is_refused_after_a_bounded_length(version: int) -> None:
    body = encode(0, version, "request", {"topic_data": [{"name": "t" * 90}] * 1000})
    assert scan_produce(body, 0, 60_000, version, 0, len(body)) is None
    with pytest.raises(RemoteProtocolError, match="names no partition"):
        scan_produce(body, 0, 80_000, version, 0, len(body))


def test_records_longer_than_the_frame_are_refused_before_they_arrive() -> None:
    body = encode(0, 7, "request", {"topic_data": [{"name": "t", "partition_data": [{"records": b"x" * 50}]}]})
    header = body[: body.index(b"xx")]
    with pytest.raises(RemoteProtocolError, match="records of 50"):
        scan_produce(header, 0, len(header), 7, 0, len(body) - 1)


def test_other_versions_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="version 10"):
        scan_produce(b"", 0, 0, 10, 0, 0)
    with pytest.raises(RemoteProtocolError, match="version 2"):
        patch_produce_response(bytearray(), 2, {})


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=300, deadline=None)
def test_a_patched_produce_response_equals_the_codecs(version: int, seed: int) -> None:
    # Given a response, and shifts for some of its partitions
    rnd = random.Random(seed)
    answer = message(SCHEMAS[0].fields("response"), version, rnd)
    shift = {}
    for topic in answer["responses"]:
        for partition in topic["partition_responses"]:
            partition["base_offset"] = rnd.choice((-1, 0, 100, 2**40))
            if version >= 9 and rnd.random() < 0.3:
                partition["_tags"] = {4: rnd.randbytes(9)}
            if rnd.random() < 0.6:
                shift[topic["name"].encode(), partition["index"]] = rnd.randrange(1000)
    # When it is patched, and the same is done to its fields
    frame = bytearray(encode_response(0, version, 9, encode(0, version, "response", answer))[4:])
    changed = 0
    for topic in answer["responses"]:
        for partition in topic["partition_responses"]:
            delta = shift.get((topic["name"].encode(), partition["index"]))
            if delta is not None:
                partition["log_start_offset"] = -1
                if partition["base_offset"] >= 0:
                    partition["base_offset"] += delta
                    changed += 1
    # Then both are the same bytes
    assert patch_produce_response(frame, version, shift) == changed
    assert frame == encode_response(0, version, 9, encode(0, version, "response", answer))[4:]


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=300, deadline=None)
def test_a_damaged_produce_response_is_patched_or_refused(version: int, seed: int) -> None:
    # Given a damaged response
    rnd = random.Random(seed)
    answer = message(SCHEMAS[0].fields("response"), version, rnd)
    frame = encode_response(0, version, 9, encode(0, version, "response", answer))[4:]
    broken = bytearray(damaged(frame, rnd))
    size = len(broken)
    # When it is patched
    try:
        patch_produce_response(broken, version, {(b"t", 0): 5})
    except RemoteProtocolError:
        return
    # Then it is refused, or keeps its length
    assert len(broken) == size
