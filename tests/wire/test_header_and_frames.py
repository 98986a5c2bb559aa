"""Headers and frames, whole and in pieces."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import (
    ApiKey,
    RemoteProtocolError,
    RequestHeader,
    encode_request,
    encode_response,
    read_request_header,
    response_body_at,
)
from ha_core.wire.apis import flexible
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.frames import CLOSED, NEED_DATA, FrameReader
from ha_core.wire.header import header_versions
from tests.wire.samples import cut_lists, pieces

client_ids = st.none() | st.text(max_size=20)


@given(st.sampled_from(list(ApiKey)), st.integers(0, 15), st.integers(-(2**31), 2**31 - 1), client_ids, st.binary())
@settings(deadline=None)
def test_a_request_header_is_read_as_soon_as_it_is_whole(
    key: int, version: int, correlation: int, client_id: str | None, body: bytes
) -> None:
    # Given a request in a shared buffer
    frame = encode_request(key, version, correlation, client_id, body)
    shared = frame + b"\xee" * 64  # other bytes after those that have arrived
    body_at = len(frame) - len(body)
    # When more and more of it has arrived
    # Then its header is read once it is complete, and not before
    for end in range(4, len(frame) + 1):
        header = read_request_header(shared, 4, end)
        if end < body_at:
            assert header is None
        else:
            assert header == RequestHeader(key, version, correlation, client_id, body_at)


def test_tags_in_a_request_header_are_skipped() -> None:
    head = pack(">hhih", ApiKey.METADATA, 9, 5, 2) + b"me" + b"\x02\x00\x03abc\x07\x00"
    assert read_request_header(head + b"body", 0, len(head)) == RequestHeader(3, 9, 5, "me", len(head))
    for end in range(len(head)):
        assert read_request_header(head, 0, end) is None


@pytest.mark.parametrize("tags", [b"\x01\x00\xff\xff\x7f", b"\xff\xff\x7f" + bytes(5000), b"\xff\xff\xff\xff\xff"])
def test_endless_tags_in_a_request_header_are_refused(tags: bytes) -> None:
    head = pack(">hhih", ApiKey.METADATA, 9, 5, -1) + tags
    with pytest.raises(RemoteProtocolError):
        read_request_header(head, 0, len(head))


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_a_random_request_header_is_read_refused_or_incomplete(data: bytes) -> None:
    try:
        header = read_request_header(data, 0, len(data))
    except RemoteProtocolError:
        return
    assert header is None or header.body_at <= len(data)


def test_a_client_id_of_a_negative_length_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="client id"):
        read_request_header(pack(">hhih", 3, 1, 5, -2), 0, 10)


def test_an_api_versions_answer_never_has_tags_in_its_header() -> None:
    assert header_versions(ApiKey.API_VERSIONS, 4) == (2, 0)
    assert header_versions(ApiKey.METADATA, 9) == (2, 1)
    assert header_versions(ApiKey.METADATA, 8) == (1, 0)
    assert header_versions(ApiKey.SASL_HANDSHAKE, 1) == (1, 0)
    assert encode_response(ApiKey.API_VERSIONS, 3, 9, b"b") == pack(">ii", 5, 9) + b"b"
    assert encode_response(ApiKey.METADATA, 9, 9, b"b") == pack(">ii", 6, 9) + b"\0b"


def test_an_unknown_api_key_is_not_flexible() -> None:
    assert not flexible(-1, 20)
    assert not flexible(1000, 20)


@pytest.mark.parametrize(("key", "version"), [(3, 8), (3, 9), (18, 3)])
def test_the_body_of_a_response_is_found_after_its_header(key: int, version: int) -> None:
    frame = encode_response(key, version, 77, b"body")
    at = response_body_at(key, version, frame, 4)
    assert frame[at:] == b"body"
    with pytest.raises(RemoteProtocolError):
        response_body_at(key, version, frame, 4, end=at - 1)


def test_the_body_of_a_response_is_found_after_header_tags() -> None:
    assert response_body_at(3, 9, b"\0\0\0\x01\x01\x09\x02xybody", 0) == 9
    with pytest.raises(RemoteProtocolError):
        response_body_at(3, 9, b"\0\0\0\x01\x01\x09\x09xy", 0)


def test_numbers_that_do_not_fit_a_header_are_a_local_error() -> None:
    with pytest.raises(LocalProtocolError, match="correlation_id"):
        encode_request(3, 9, 2**31, "me", b"")
    with pytest.raises(LocalProtocolError):
        encode_request(3, 9, 1, "m" * 40_000, b"")
    with pytest.raises(LocalProtocolError, match="correlation_id"):
        encode_response(3, 9, 2**31, b"")


@given(st.lists(st.binary(min_size=8, max_size=50), max_size=8), cut_lists)
@settings(deadline=None)
def test_frames_are_the_same_however_their_bytes_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    # Given frames one after the other
    stream = b"".join(pack(">i", len(body)) + body for body in bodies)
    reader = FrameReader()
    out = []
    # When they arrive in any pieces
    for piece in pieces(stream, cuts):
        reader.receive_data(piece)
        while (event := reader.next_event()) is not NEED_DATA:
            out.append(event)
    reader.receive_data(b"")
    # Then the frames are those that were sent
    assert reader.next_event() is CLOSED
    assert out == bodies


def test_complete_frame_after_its_size_is_not_copied() -> None:
    reader, memory = FrameReader(), bytearray(b"12345678")
    reader.receive_data(pack(">i", 8))
    reader.receive_frame(memoryview(memory))
    frame = reader.next_event()
    memory[:] = b"abcdefgh"
    assert isinstance(frame, memoryview)
    assert frame.tobytes() == b"abcdefgh"
    assert reader.next_event() is NEED_DATA


@pytest.mark.parametrize("before", [b"", pack(">i", 8)[:3], pack(">i", 9), pack(">i", 8) + b"1"])
def test_incomplete_frame_is_copied(before: bytes) -> None:
    # Given bytes in reused memory
    stream = pack(">i", 8) + b"12345678" if len(before) < 4 else pack(">i", before[3]) + b"123456789"[: before[3]]
    reader, memory = FrameReader(), bytearray(stream[len(before) :])
    reader.receive_data(before)
    # When they arrive in place of a frame, without its last byte
    last = memory.pop() if len(before) == 4 and before[3] == 9 else None
    reader.receive_frame(memoryview(memory))
    memory[:] = bytes(len(memory))
    if last is not None:
        assert reader.next_event() is NEED_DATA
        reader.receive_data(bytes([last]))
    # Then the frame is a copy
    assert reader.next_event() == stream[4:]


def test_a_frame_too_large_is_refused_before_its_bytes_arrive() -> None:
    reader = FrameReader(1000)
    reader.receive_data(pack(">i", 1001))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="frame of 1001 bytes: 4 to 1000"):
            reader.next_event()


@pytest.mark.parametrize("size", [-1, 0, 3, -(2**31)])
def test_size_too_small_for_an_answer_is_refused(size: int) -> None:
    reader = FrameReader()
    reader.receive_data(pack(">i", size))
    with pytest.raises(RemoteProtocolError, match="frame of"):
        reader.next_event()


def test_frames_of_the_largest_and_the_smallest_size_are_read() -> None:
    reader = FrameReader(20)
    reader.receive_data(pack(">i", 20) + bytes(20))
    assert reader.next_event() == bytes(20)
    reader.receive_data(pack(">i", 4) + bytes(4))
    assert reader.next_event() == bytes(4)


@pytest.mark.parametrize(
    ("first", "named"),
    [
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"\x15\x03\x03\x00\x02", "TLS"),
        (b"GET / HTTP/1.1", "HTTP"),
        (b"POST /topics HTTP/1.1", "HTTP"),
        (b"HTTP/1.1 400", "HTTP"),
    ],
)
def test_other_protocols_are_named(first: bytes, named: str) -> None:
    reader = FrameReader()
    reader.receive_data(first)
    with pytest.raises(RemoteProtocolError, match=named):
        reader.next_event()


def test_a_close_inside_a_frame_differs_from_one_between_frames() -> None:
    reader = FrameReader()
    reader.receive_data(pack(">i", 100) + b"part")
    assert reader.next_event() is NEED_DATA
    reader.receive_data(b"")
    with pytest.raises(RemoteProtocolError, match="closed inside a frame"):
        reader.next_event()


def test_frames_received_before_the_first_is_taken_keep_their_order() -> None:
    # Given a long frame that arrived separately from its size
    reader = FrameReader()
    reader.receive_data(b"\0\0\0\4")
    reader.receive_data(b"1234")
    # When more arrives before it is taken
    reader.receive_data(b"\0\0\0\5")
    reader.receive_data(b"abcde")
    # Then nothing is lost
    assert [reader.next_event() for _ in range(3)] == [b"1234", b"abcde", NEED_DATA]
