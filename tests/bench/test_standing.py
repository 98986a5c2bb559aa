"""The requests and the connections of the benchmark `standing`."""

import struct

import pytest

from bench.ground import BenchError
from bench.long_requests import frame
from bench.standing import fitting
from ha_core.wire import ApiKey, decode, read_request_header
from ha_core.wire.limits import DEFAULT_LIMITS, inline


@pytest.mark.parametrize("name", ["CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_ACLS", "FETCH"])
def test_a_gateway_reads_the_largest_request_of_an_api(name: str) -> None:
    sent = frame(name)
    (size,) = struct.unpack_from(">i", sent)
    head = read_request_header(sent, 4, len(sent))

    assert head is not None
    limits = DEFAULT_LIMITS if name in ("PRODUCE", "FETCH") else inline(DEFAULT_LIMITS)
    assert size == len(sent) - 4 <= DEFAULT_LIMITS.max_request_bytes
    assert decode(ApiKey[name], head.api_version, "request", sent[head.body_at :], limits=limits)


def test_all_connections_are_used_if_the_process_may_open_as_many_files() -> None:
    assert fitting(9_000, 1_000, 20_000) == (9_000, 1_000)


def test_fewer_connections_in_their_proportion_are_used_if_files_are_short() -> None:
    assert fitting(9_000, 1_000, 512 + 5_500) == (4_500, 500)


def test_a_process_with_too_few_files_is_told_the_way_out() -> None:
    with pytest.raises(BenchError, match="ulimit -Hn"):
        fitting(9_000, 1_000, 400)
