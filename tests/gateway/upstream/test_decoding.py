"""A long answer with unchanged bytes is decoded only once."""

import asyncio
from typing import Any

import pytest

from gateway.upstream.decoding import Decoder
from ha_core.wire import codec, encode_response
from ha_core.wire.codes import ApiKey
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.varint import write_uvarint

MANY = 2_000


def frame(version: int, *, controller: int = 1, leader: int = 1, correlation: int = 7) -> bytes:
    topics = [
        {"name": f"t{n}", "partitions": [{"partition_index": 0, "leader_id": leader if n == MANY - 1 else 1}]}
        for n in range(MANY)
    ]
    message: dict[str, Any] = {
        "brokers": [{"node_id": n, "host": "h", "port": 1} for n in (1, 2)],
        "cluster_id": "c",
        "controller_id": controller,
        "topics": topics,
    }
    return encode_response(ApiKey.METADATA, version, correlation, codec.encode(3, version, "response", message))[4:]


@pytest.mark.parametrize("version", [1, 7, 9])
async def test_a_list_of_topics_that_differs_only_in_the_controller_is_the_same_list(version: int) -> None:
    decoder = Decoder(DEFAULT_LIMITS)
    first = await decoder.decode(ApiKey.METADATA, version, frame(version))
    again = await decoder.decode(ApiKey.METADATA, version, frame(version, controller=2, correlation=8))
    moved = await decoder.decode(ApiKey.METADATA, version, frame(version, leader=2))
    assert again["topics"] is first["topics"]
    assert (first["controller_id"], again["controller_id"]) == (1, 2)
    assert moved["topics"][-1]["partitions"][0]["leader_id"] == 2


def test_a_brokers_string_may_be_longer_than_a_clients() -> None:
    # Given an answer with a text of 40,000 bytes, as only compact strings can have
    key, version = ApiKey.DESCRIBE_GROUPS, 5
    short = codec.encode(key, version, "response", {"groups": [{"group_id": "g", "protocol_data": "A" * 100}]})
    body = short.replace(bytes([101]) + b"A" * 100, write_uvarint(40_001) + b"A" * 40_000)
    # When it is decoded
    answer = asyncio.run(Decoder(DEFAULT_LIMITS).decode(key, version, bytes(5) + body))
    # Then the text is complete
    assert answer["groups"][0]["protocol_data"] == "A" * 40_000


async def test_only_one_of_many_equal_answers_that_arrive_together_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    ordinary = codec.decode

    def counted(*arguments: Any) -> Any:
        read.append(1)
        return ordinary(*arguments)

    monkeypatch.setattr(codec, "decode", counted)
    decoder = Decoder(DEFAULT_LIMITS)
    answers = await asyncio.gather(*(decoder.decode(ApiKey.METADATA, 9, frame(9, correlation=n)) for n in range(20)))
    assert len(read) == 1
    assert all(answer["topics"] is answers[0]["topics"] for answer in answers)
