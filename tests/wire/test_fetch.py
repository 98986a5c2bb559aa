"""Fetch requests and the streaming patch of fetch responses, against the codec."""

import copy
import random
import tracemalloc
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import ApiKey, RemoteProtocolError, decode, encode, encode_response
from ha_core.wire.fetch_answer import MAX_CARRY_BYTES, FetchPatcher, FetchShift, patch_usual
from ha_core.wire.fetch_request import FetchEntries, leave_session, scan_fetch_request
from ha_core.wire.records import shift_batches
from ha_core.wire.schemas import SCHEMAS
from tests.wire.samples import batch, cut_lists, damaged, legacy, message, seeds

VERSIONS = range(4, 13)
Shifts = dict[tuple[bytes, int], FetchShift]


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=300, deadline=None)
def test_a_fetch_request_is_scanned_as_the_codec_reads_it(version: int, seed: int) -> None:
    # Given a request within a larger buffer
    found = message(SCHEMAS[1].fields("request"), version, random.Random(seed))
    body = encode(ApiKey.FETCH, version, "request", found)
    found = decode(ApiKey.FETCH, version, "request", body)
    buf = b"123" + body + b"\xff" * 9
    # When it is scanned
    scan = scan_fetch_request(buf, 3, 3 + len(body), version)
    # Then the scan equals the codec's result
    assert scan[:3] == tuple(found[name] for name in ("replica_id", "session_id", "session_epoch"))
    assert buf[scan.rack_at : scan.rack_at + scan.rack_bytes] == found["rack_id"].encode()
    assert scan.topics == [t["topic"].encode() for t in found["topics"]]


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=200, deadline=None)
def test_partitions_of_a_fetch_request_are_read_and_patched_in_place(version: int, seed: int) -> None:
    # Given a request without tags
    found = message(SCHEMAS[1].fields("request"), version, random.Random(seed))
    body = bytearray(encode(ApiKey.FETCH, version, "request", {k: v for k, v in found.items() if k != "_tags"}))
    scan, asked = scan_fetch_request(body, 0, len(body), version), decode(ApiKey.FETCH, version, "request", body)
    if scan.entries is None:
        return
    # When its partitions are read at the scanned positions
    entries = FetchEntries(version)
    read = [list(entries.read(body, at, partitions)) for at, partitions in scan.entries]
    # Then they equal the codec's result
    assert read == [[(p["partition"], p["fetch_offset"]) for p in t["partitions"]] for t in asked["topics"]]
    # And when other offsets are written there, and the request leaves its session
    for at, partitions in scan.entries:
        for number in range(partitions):
            entries.write(body, at + number * entries.bytes, 1_000 + number)
    leave_session(body, 0, version)
    # Then nothing else has changed, and the named session ends
    for topic in asked["topics"]:
        for number, partition in enumerate(topic["partitions"]):
            partition |= {"fetch_offset": 1_000 + number, "current_leader_epoch": -1, "last_fetched_epoch": -1}
    asked["session_epoch"] = -1
    assert decode(ApiKey.FETCH, version, "request", body) == asked


@given(st.sampled_from(VERSIONS), seeds)
@settings(max_examples=400, deadline=None)
def test_damaged_fetch_requests_are_scanned_or_refused(version: int, seed: int) -> None:
    rnd = random.Random(seed)
    body = damaged(encode(1, version, "request", message(SCHEMAS[1].fields("request"), version, rnd)), rnd)
    try:
        scan_fetch_request(body, 0, len(body), version)
    except RemoteProtocolError as error:
        if "its fields take" not in str(error):
            with pytest.raises(RemoteProtocolError):
                decode(ApiKey.FETCH, version, "request", body)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_request_truncated_anywhere_is_refused(version: int) -> None:
    body = encode(1, version, "request", {"topics": [{"topic": "t", "partitions": [{"partition": 1}] * 2}]})
    for end in range(len(body)):
        with pytest.raises(RemoteProtocolError):
            scan_fetch_request(body + bytes(50), 0, end, version)


def response(version: int, rnd: random.Random) -> tuple[dict[str, Any], Shifts]:
    shifts: Shifts = {}
    topics = []
    for name in rnd.sample(["a", "orders", "t" * 200, "long" * 300], rnd.randrange(4)):
        partitions = []
        for index in range(rnd.randrange(4)):
            records = b"".join(
                batch(rnd.randrange(10**6), rnd.randint(1, 9), body=rnd.randbytes(rnd.choice((0, 40, 900))))
                if rnd.random() < 0.9
                else legacy(rnd.randrange(10**6), 1, rnd.randrange(2))
                for _ in range(rnd.randrange(4))
            )
            partition: dict[str, Any] = {
                "partition_index": index,
                "error_code": rnd.choice((0, 1, 6)),
                "high_watermark": rnd.choice((-1, 0, 5, 10**9)),
                "last_stable_offset": rnd.choice((-1, 0, 5, 10**9)),
                "log_start_offset": rnd.choice((-1, 0, 5)),
                "preferred_read_replica": rnd.choice((-1, 2)),
                "aborted_transactions": rnd.choice(
                    (None, [], [{"producer_id": 5, "first_offset": 70 + n} for n in range(rnd.randint(1, 200))])
                ),
                "records": rnd.choice((None, b"", records, records, records[: rnd.randrange(len(records) + 1)])),
            }
            if version >= 12 and rnd.random() < 0.5:
                partition["diverging_epoch"] = {"epoch": 4, "end_offset": rnd.choice((-1, 44))}
                partition["current_leader"] = {"leader_id": 3, "leader_epoch": 8}
                partition["snapshot_id"] = {"end_offset": 91, "epoch": 2}
                partition["_tags"] = {7: rnd.randbytes(rnd.choice((0, 5, 3000)))}
            partitions.append(partition)
            if rnd.random() < 0.6:
                shifts[name.encode(), index] = FetchShift(
                    rnd.choice((0, 1, 10**7)), rnd.random() < 0.5, rnd.choice((0, 3, 10**8))
                )
        topics.append({"topic": name, "partitions": partitions})
    return {"throttle_time_ms": 0, "session_id": 77, "responses": topics}, shifts


def moved(offset: int, delta: int, least: int = -1) -> int:
    return max(offset + delta, least) if offset >= 0 else offset


def patched_by_codec(version: int, answer: dict[str, Any], shifts: Shifts) -> bytes:
    answer = copy.deepcopy(decode(1, version, "response", encode(1, version, "response", answer)))
    for topic in answer["responses"]:
        for p in topic["partitions"]:
            shift = shifts.get((topic["topic"].encode(), p["partition_index"]))
            if shift is None:
                continue
            p["high_watermark"] = moved(p["high_watermark"], shift.delta)
            p["last_stable_offset"] = (
                # The usual case, in which both are one offset, is not checked.
                p["high_watermark"]
                if p["high_watermark"] == moved(p["last_stable_offset"], shift.delta) >= 0
                else moved(p["last_stable_offset"], shift.delta, shift.least)
            )
            start = moved(p["log_start_offset"], shift.delta, shift.least)
            p["log_start_offset"] = -1 if shift.log_start_unknown else start
            for aborted in p["aborted_transactions"] or ():
                aborted["first_offset"] += shift.delta
            if p["records"]:
                records = bytearray(p["records"])
                shift_batches(records, 0, len(records), shift.delta)
                p["records"] = bytes(records)
            if "_tags" in p:
                p["diverging_epoch"]["end_offset"] = moved(p["diverging_epoch"]["end_offset"], shift.delta)
                p["snapshot_id"]["end_offset"] = moved(p["snapshot_id"]["end_offset"], shift.delta)
                # In place a tagged field cannot vanish, so -1 is written instead of leaving it out.
                p["_tags"][1] = pack(">ii", -1, -1) + b"\0"
                p["current_leader"] = {"leader_id": -1, "leader_epoch": -1}
    return encode_response(1, version, 5, encode(1, version, "response", answer))[4:]


def stream(patcher: FetchPatcher, frame: bytes, cuts: list[int], after: bytes = b"") -> tuple[bytes, int]:
    """Feeds a frame like a relay: one buffer with stale bytes after it, carry in front. (forwarded, longest carry)"""
    out, carry, longest, at = bytearray(), b"", 0, 0
    data = frame + after
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        chunk, at = carry + data[at:cut], cut
        buf = bytearray(b"\xee" * 3 + chunk + b"\xff" * 40)
        if patcher.done:
            carry = chunk
            continue
        released = patcher.feed(buf, 3, 3 + len(chunk))
        out += buf[3:released]
        carry = bytes(buf[released : 3 + len(chunk)])
        longest = max(longest, 0 if patcher.done else len(carry))
    assert carry == after
    return bytes(out), longest


@given(st.sampled_from(VERSIONS), seeds, cut_lists)
@settings(max_examples=400, deadline=None)
def test_a_fetch_response_patched_in_chunks_equals_the_codecs(version: int, seed: int, cuts: list[int]) -> None:
    answer, shifts = response(version, random.Random(seed))
    frame = encode_response(1, version, 5, encode(1, version, "response", answer))[4:]
    patcher = FetchPatcher(version, len(frame), shifts)
    forwarded, longest = stream(patcher, frame, cuts, after=b"the next frame")
    assert patcher.done
    assert forwarded == patched_by_codec(version, answer, shifts)
    assert longest <= MAX_CARRY_BYTES


@given(st.sampled_from(VERSIONS), seeds, cut_lists)
@settings(max_examples=600, deadline=None)
def test_a_damaged_fetch_response_has_the_same_outcome_in_any_chunks(version: int, seed: int, cuts: list[int]) -> None:
    # Given a damaged response
    rnd = random.Random(seed)
    answer, shifts = response(version, rnd)
    frame = damaged(encode_response(1, version, 5, encode(1, version, "response", answer))[4:], rnd)
    # When it is patched in chunks and as a whole
    outcomes = []
    for chunks in (cuts, []):
        patcher = FetchPatcher(version, len(frame), shifts)
        try:
            outcomes.append(stream(patcher, frame, chunks)[0])
        except RemoteProtocolError:
            outcomes.append(b"refused")
        except AssertionError:
            assert not patcher.done
            outcomes.append(b"refused")
    # Then both are refused, or have the same bytes
    assert outcomes[0] == outcomes[1]


def test_a_fetch_response_of_a_wrong_length_is_refused() -> None:
    answer, shifts = response(12, random.Random(2))
    frame = encode_response(1, 12, 5, encode(1, 12, "response", answer))[4:]
    with pytest.raises(RemoteProtocolError, match="ends inside"):
        stream(FetchPatcher(12, len(frame) - 1, shifts), frame[:-1], [50])
    with pytest.raises(RemoteProtocolError, match="follow"):
        stream(FetchPatcher(12, len(frame) + 1, shifts), frame + b"\0", [50])


def test_a_topic_name_longer_than_kafka_allows_is_refused_at_its_length() -> None:
    frame = pack(">i", 1) + b"\0" + bytes(10) + b"\x02" + b"\xff\xff\xff\x7f"
    patcher = FetchPatcher(12, 10**9, {})
    with pytest.raises(RemoteProtocolError, match="topic of"):
        patcher.feed(bytearray(frame), 0, len(frame))
    with pytest.raises(RemoteProtocolError):
        patcher.feed(bytearray(frame), 0, len(frame))


def test_huge_records_pass_the_patcher_without_being_buffered() -> None:
    # Given a response with 200 MB of records
    head = pack(">iihi", 1, 0, 0, 0) + pack(">ih1sii", 1, 1, b"t", 1, 0) + pack(">hqqqii", 0, 9, 9, 0, -1, -1)
    head += pack(">i", 200_000_000)
    patcher = FetchPatcher(11, len(head) + 200_000_000, {})
    # When it is fed in chunks
    assert patcher.feed(bytearray(head), 0, len(head)) == len(head)
    chunk = bytearray(65536)
    tracemalloc.start()
    try:
        while patcher.left > len(chunk):
            assert patcher.feed(chunk, 0, len(chunk)) == len(chunk)
        assert patcher.feed(chunk, 0, len(chunk)) < len(chunk)
        # Then next to nothing of it is buffered; threads of earlier tests may allocate a little meanwhile
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert patcher.done


def test_other_versions_are_refused() -> None:
    for version in (3, 13):
        with pytest.raises(RemoteProtocolError, match="Fetch version"):
            FetchPatcher(version, 100, {})
        with pytest.raises(RemoteProtocolError, match="Fetch version"):
            scan_fetch_request(b"", 0, 0, version)


def usual(rnd: random.Random) -> bytearray:
    """A frame, with its size: a broker's usual answer to a reader of one topic."""
    high = rnd.choice([9] * 20 + [0, -1, 1 << 62])
    records = b"".join(batch(rnd.choice([7] * 9 + [1 << 62]), 1) for _ in range(rnd.choice([0, 1, 1, 3])))
    partition = {
        "partition_index": rnd.randrange(2),
        "error_code": rnd.choice([0] * 9 + [1]),
        "high_watermark": high,
        "last_stable_offset": rnd.choice([high] * 9 + [4]),
        "log_start_offset": rnd.choice([0, 3, 40, -1]),
        "aborted_transactions": rnd.choice([None, [], [], [{"producer_id": 1, "first_offset": 2}]]),
        "records": records[: rnd.choice([None, None, -5])],
    }
    topics = [{"topic": rnd.choice(["orders"] * 9 + ["other"]), "partitions": [partition] * rnd.choice([1] * 9 + [2])}]
    body = {"throttle_time_ms": 0, "session_id": 77, "responses": topics * rnd.choice([0, 1, 1, 1, 1, 1, 1, 1, 2])}
    return bytearray(encode_response(ApiKey.FETCH, 12, 3, encode(ApiKey.FETCH, 12, "response", body)))


@given(seeds, st.sampled_from([0, 5, -7, -100]), st.booleans(), st.floats(0, 1))
@settings(deadline=None, max_examples=600)
def test_usual_answer_is_patched_like_any_other(seed: int, delta: int, unknown: bool, damage: float) -> None:
    # Given an answer, which may be damaged, with more bytes after it
    rnd = random.Random(seed)
    frame, shifts = usual(rnd), {(b"orders", 0): FetchShift(delta, unknown, rnd.choice((0, 2)))}
    if damage < 0.3:
        body = damaged(bytes(frame[8:]), rnd)
        frame = bytearray((4 + len(body)).to_bytes(4, "big")) + frame[4:8] + body
    as_it_was, end = bytearray(frame), len(frame)
    frame += b"\1" * 40
    # When it is patched as a usual one
    if patch_usual(frame, 0, end, b"orders", shifts):
        # Then the result equals the full decoder's
        patcher = FetchPatcher(12, end - 4, shifts)
        assert patcher.feed(as_it_was, 4, end) == end
    # else it is unchanged
    assert frame == as_it_was + b"\1" * 40


@pytest.mark.parametrize(("records", "end"), [(b"", 3), (batch(3, 2), 5)])
@pytest.mark.parametrize("whole", [True, False])
def test_a_log_that_begins_before_its_only_extent_has_the_extents_start(records: bytes, end: int, whole: bool) -> None:
    """Copiers leave markers in an empty copy: its extent begins above them, at client offset 0. A consumer's connection
    was closed at each fetch of such a partition, with those of all other partitions."""
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": 0,
        "preferred_read_replica": -1,
        "aborted_transactions": None,
        "records": records,
    }
    body = {"throttle_time_ms": 0, "session_id": 77, "responses": [{"topic": "orders", "partitions": [partition]}]}
    frame = bytearray(encode_response(ApiKey.FETCH, 12, 3, encode(ApiKey.FETCH, 12, "response", body)))
    shifts = {(b"orders", 0): FetchShift(-3, log_start_unknown=False, least=0)}
    if not (whole and patch_usual(frame, 0, len(frame), b"orders", shifts)):
        assert not (whole and records)  # an empty answer is patched as any other
        FetchPatcher(12, len(frame) - 4, shifts).feed(frame, 4, len(frame))
    (found,) = decode(ApiKey.FETCH, 12, "response", bytes(frame[9:]))["responses"][0]["partitions"]
    assert [found[name] for name in ("high_watermark", "last_stable_offset", "log_start_offset")] == [end - 3] * 2 + [0]


def test_most_answers_to_a_reader_of_one_topic_are_usual() -> None:
    shifts = {(b"orders", number): FetchShift(5) for number in range(2)}
    frames = [usual(random.Random(seed)) for seed in range(300)]
    assert sum(patch_usual(frame, 0, len(frame), b"orders", shifts) for frame in frames) > 100
