"""The codec against input of peers and callers."""

import random
import tracemalloc
from collections.abc import Callable
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import ApiKey, RemoteProtocolError, WireLimits, decode, encode
from ha_core.wire.codec import decode_in_place, encode_in_pieces
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.schemas import SCHEMAS
from ha_core.wire.varint import read_uvarint, write_uvarint
from tests.wire.samples import CASES, damaged, message, seeds


@given(st.sampled_from(CASES), seeds)
@settings(max_examples=1500, deadline=None)
def test_a_damaged_body_is_read_or_refused_as_a_remote_error(case: Any, seed: int) -> None:
    key, version, kind = case
    rnd = random.Random(seed)
    body = damaged(encode(key, version, kind, message(SCHEMAS[key].fields(kind), version, rnd)), rnd)
    try:
        read = decode(key, version, kind, memoryview(body))
    except RemoteProtocolError:
        return
    assert decode(key, version, kind, encode(key, version, kind, read)) == read


def without_views(value: Any) -> Any:
    """Replaces all views by copies."""
    if isinstance(value, dict):
        return {name: without_views(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_views(one) for one in value]
    return bytes(value) if isinstance(value, memoryview) else value


def outcome(read: Callable[[], Any]) -> Any:
    """The decoded message, or the error."""
    try:
        return read()
    except RemoteProtocolError as error:
        return str(error)


@given(st.sampled_from(CASES), seeds, st.booleans())
@settings(max_examples=600, deadline=None)
def test_a_message_read_in_place_or_written_in_pieces_is_the_same(case: Any, seed: int, whole: bool) -> None:
    key, version, kind = case
    rnd = random.Random(seed)
    given_message = message(SCHEMAS[key].fields(kind), version, rnd)
    body = encode(key, version, kind, given_message)
    assert b"".join(encode_in_pieces(key, version, kind, given_message)) == body
    body = body if whole else damaged(body, rnd)
    view = memoryview(bytearray(body))
    assert outcome(lambda: without_views(decode_in_place(key, version, kind, view))) == outcome(
        lambda: decode(key, version, kind, body)
    )


def test_records_read_in_place_and_written_in_pieces_are_not_copied() -> None:
    # Given an answer with records of two partitions
    topic_id, texts = bytes(range(16)), (b"a" * 5000, b"b" * 9000)
    parts = [{"partition_index": index, "records": text} for index, text in enumerate(texts)]
    answer = {"responses": [{"topic_id": topic_id, "partitions": parts}]}
    buffer = bytearray(encode(ApiKey.FETCH, 13, "response", answer))
    # When it is decoded, and encoded for another cluster
    (topic,) = decode_in_place(ApiKey.FETCH, 13, "response", memoryview(buffer))["responses"]
    assert topic["topic_id"] == topic_id
    partitions = [{"index": part["partition_index"], "records": part["records"]} for part in topic["partitions"]]
    request = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": partitions}]}
    pieces = encode_in_pieces(ApiKey.PRODUCE, 9, "request", request)
    # Then a change in the receive buffer changes the sent bytes
    for text in texts:
        at = buffer.index(text)
        buffer[at : at + len(text)] = text.upper()
    sent = decode(ApiKey.PRODUCE, 9, "request", b"".join(pieces))["topic_data"][0]["partition_data"]
    assert [part["records"] for part in sent] == [text.upper() for text in texts]


def test_a_message_that_cannot_be_written_in_pieces_names_its_field() -> None:
    parts = [{"index": 0, "records": 7}]
    request = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": parts}]}
    with pytest.raises(LocalProtocolError, match=r"partition_data\[0\]\.records=7"):
        encode_in_pieces(ApiKey.PRODUCE, 9, "request", request)


@pytest.mark.parametrize(("key", "version", "kind"), CASES[::3])
def test_a_body_truncated_anywhere_is_refused(key: int, version: int, kind: Any) -> None:
    # Given a body
    body = encode(key, version, kind, message(SCHEMAS[key].fields(kind), version, random.Random(1)))
    # When it is cut anywhere
    # Then it is refused
    for cut in range(len(body)):
        with pytest.raises(RemoteProtocolError):
            decode(key, version, kind, body[:cut])
    # When a byte follows it
    # Then it is refused in a response, and ignored in a request
    if kind == "response":
        with pytest.raises(RemoteProtocolError, match="1 bytes follow"):
            decode(key, version, kind, body + b"\0")
    else:
        assert decode(key, version, kind, body + b"\0") == decode(key, version, kind, body)


def test_the_extra_byte_of_librdkafka_after_a_metadata_request_for_all_topics_is_ignored() -> None:
    # As captured from librdkafka 2.16: null topics, three flags, and two tag sections where one belongs.
    assert decode(ApiKey.METADATA, 9, "request", bytes.fromhex("000000000000"))["topics"] is None


def test_a_count_above_the_bytes_left_is_refused_before_anything_is_allocated() -> None:
    # Given decoders that are compiled already
    for version in (8, 9):
        decode(ApiKey.METADATA, version, "request", encode(ApiKey.METADATA, version, "request", {}))
    tracemalloc.start()
    try:
        # When a count claims more than there is, in either encoding
        # Then it is refused, and next to nothing was allocated
        for body in (pack(">i", 0x7FFFFFFF), pack(">i", 900_000) + bytes(100)):
            with pytest.raises(RemoteProtocolError, match="topics: "):
                decode(ApiKey.METADATA, 8, "request", body)
        with pytest.raises(RemoteProtocolError, match="topics: "):
            decode(ApiKey.METADATA, 9, "request", write_uvarint(0xFFFFFFFF) + bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_array_counts_and_strings_are_limited() -> None:
    body = encode(ApiKey.METADATA, 8, "request", {"topics": [{"name": "topic"}] * 30})
    assert len(decode(ApiKey.METADATA, 8, "request", body)["topics"]) == 30
    for limits in (WireLimits(max_array=29), WireLimits(max_elements=29), WireLimits(max_string=4)):
        with pytest.raises(RemoteProtocolError, match="topics"):
            decode(ApiKey.METADATA, 8, "request", body, limits=limits)
    with pytest.raises(LocalProtocolError, match="max_array=0"):
        WireLimits(max_array=0)


def test_elements_of_nested_arrays_are_limited_together() -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": n} for n in range(10)]} for _ in range(10)]
    body = encode(ApiKey.LIST_OFFSETS, 1, "request", {"topics": topics})
    decode(ApiKey.LIST_OFFSETS, 1, "request", body, limits=WireLimits(max_elements=110))
    with pytest.raises(RemoteProtocolError, match="partitions"):
        decode(ApiKey.LIST_OFFSETS, 1, "request", body, limits=WireLimits(max_elements=109))


def test_fields_that_a_version_lacks_are_dropped_and_read_as_defaults() -> None:
    old = decode(ApiKey.METADATA, 0, "response", encode(ApiKey.METADATA, 0, "response", {"controller_id": 7}))
    assert old["controller_id"] == -1
    assert old["cluster_id"] is None
    assert old["cluster_authorized_operations"] == -(2**31)


def test_defaults_of_lists_are_not_shared_between_messages() -> None:
    body = encode(ApiKey.API_VERSIONS, 3, "response", {})
    decode(ApiKey.API_VERSIONS, 3, "response", body)["supported_features"].append({"name": "x"})
    assert decode(ApiKey.API_VERSIONS, 3, "response", body)["supported_features"] == []


def test_unknown_tags_survive_at_every_level() -> None:
    # Given a message with unknown tags
    given_message = {
        "topics": [{"name": "t", "_tags": {0: b"zero", 300: b"x" * 200}}],
        "_tags": {5: b""},
    }
    # When it is written and read
    body = encode(ApiKey.METADATA, 9, "request", given_message)
    read = decode(ApiKey.METADATA, 9, "request", body)
    # Then it has them, if its version has tags at all
    assert read["topics"][0]["_tags"] == {0: b"zero", 300: b"x" * 200}
    assert read["_tags"] == {5: b""}
    assert encode(ApiKey.METADATA, 9, "request", read) == body
    assert b"zero" not in encode(ApiKey.METADATA, 8, "request", given_message)


def test_unknown_tags_are_kept_beside_known_ones() -> None:
    features = [{"name": "metadata.version", "min_version": 1, "max_version": 25}]
    body = encode(ApiKey.API_VERSIONS, 3, "response", {"supported_features": features, "_tags": {9: b"new"}})
    read = decode(ApiKey.API_VERSIONS, 3, "response", body)
    assert read["supported_features"] == features
    assert read["_tags"] == {9: b"new"}
    assert encode(ApiKey.API_VERSIONS, 3, "response", read) == body


@pytest.mark.parametrize(
    "section", [b"\x02\x05\x00\x05\x00", b"\x02\x05\x00\x04\x00", b"\x01\x05\x02x", b"\x7f", b"\x01\x01\x02\x00\x00"]
)
def test_tags_that_repeat_are_out_of_order_or_have_a_wrong_size_are_refused(section: bytes) -> None:
    body = encode(ApiKey.API_VERSIONS, 3, "response", {})
    assert body.endswith(b"\0")
    with pytest.raises(RemoteProtocolError):
        decode(ApiKey.API_VERSIONS, 3, "response", body[:-1] + section)


@pytest.mark.parametrize(
    ("key", "version", "kind", "wrong", "named"),
    [
        (ApiKey.METADATA, 9, "request", {"topics": [{"name": None}]}, r"topics\[0\].name"),
        (ApiKey.METADATA, 0, "request", {"topics": None}, "topics"),
        (ApiKey.METADATA, 9, "request", {"topics": "abc"}, "topics"),
        (ApiKey.METADATA, 9, "request", {"topic": []}, "topic"),
        (ApiKey.METADATA, 9, "request", {"topics": [{"nmae": "t"}]}, "nmae"),
        (ApiKey.METADATA, 9, "request", {"topics": [{"name": "x" * 32768}]}, "name"),
        (ApiKey.METADATA, 8, "request", {"topics": [{"name": "x" * 32768}]}, "name"),
        (ApiKey.METADATA, 9, "request", {"topics": [{"name": "\ud800"}]}, "name"),
        (ApiKey.METADATA, 9, "request", {"_tags": {1: "text"}}, "_tags"),
        (ApiKey.METADATA, 12, "request", {"topics": [{"topic_id": b"short"}]}, "topic_id"),
        (ApiKey.METADATA, 9, "response", {"brokers": [{"port": 1}, {"port": "9092"}]}, r"brokers\[1\].port"),
        (ApiKey.METADATA, 9, "response", {"topics": [{"partitions": [{"isr_nodes": [1, 2**31]}]}]}, r"isr_nodes\[1\]"),
        (ApiKey.PRODUCE, 3, "request", {"topic_data": [{"partition_data": [{"records": "no"}]}]}, "records"),
        (ApiKey.PRODUCE, 3, "request", {"topic_data": [17]}, "topic_data"),
        (ApiKey.PRODUCE, 3, "request", {"acks": 2**15}, "acks"),
        (ApiKey.FETCH, 12, "response", {"responses": [{"partitions": [{"current_leader": 3}]}]}, "current_leader"),
    ],
)
def test_a_message_that_cannot_be_written_names_its_field(
    key: int, version: int, kind: Any, wrong: Any, named: str
) -> None:
    with pytest.raises(LocalProtocolError, match=named):
        encode(key, version, kind, wrong)


def test_unknown_api_keys_and_versions_are_refused_in_both_directions() -> None:
    with pytest.raises(RemoteProtocolError, match="3 to 9"):
        decode(ApiKey.PRODUCE, 10, "request", b"")
    with pytest.raises(LocalProtocolError, match="3 to 9"):
        encode(ApiKey.PRODUCE, 2, "request", {})
    with pytest.raises(RemoteProtocolError, match="API key 999"):
        decode(999, 0, "request", b"")


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        decode(ApiKey.SASL_HANDSHAKE, 0, "request", b"\0\x02\xff\xfe")


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_a_varint_is_read_as_written(value: int) -> None:
    assert read_uvarint(write_uvarint(value) + b"\xff", 0) == (value, len(write_uvarint(value)))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\xff\x01"])
def test_a_varint_above_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="varint"):
        read_uvarint(data, 0)
