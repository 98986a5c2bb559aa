"""Arbitrary content of ZooKeeper's nodes never ends a reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.datacache.core.cache import ContentCommit
from ha_core.datacache.core.source import MAX_US
from ha_core.datacache.core.uncommitted import Interval
from ha_core.datacache.nodes import (
    MAX_BYTES,
    Paths,
    Published,
    Reloads,
    commit_from_bytes,
    commit_to_bytes,
)

TIMES = st.integers(0, MAX_US)


@given(
    st.builds(
        Published,
        st.none() | st.builds(Interval, TIMES, TIMES),
        TIMES,
        st.text(max_size=200),
        st.text(max_size=200),
    )
)
def test_a_published_record_is_read_back(published: Published) -> None:
    assert Published.from_bytes(published.to_bytes(), "p") == published


@given(TIMES, st.integers(0, 1 << 61))
def test_a_commit_is_read_back(at_us: int, fingerprint: int) -> None:
    assert commit_from_bytes(commit_to_bytes(ContentCommit(at_us, fingerprint), "gw-1"), "p") == ContentCommit(
        at_us, fingerprint
    )


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_as_no_commit_no_reload_and_no_record(data: bytes) -> None:
    assert commit_from_bytes(data, "p") is None
    assert Reloads.from_bytes(data, "p") == Reloads()
    assert Published.from_bytes(data, "p") == Published()


@pytest.mark.parametrize(
    "data",
    [
        b'{"commit_us":-1,"fingerprint":"1"}',
        b'{"commit_us":true,"fingerprint":"1"}',
        b'{"commit_us":5}',
        b'{"commit_us":5,"fingerprint":"x"}',
        b'{"commit_us":9223372036854775808,"fingerprint":"1"}',
        b'{"commit_us":5,"fingerprint":"1","pad":"' + b"x" * MAX_BYTES + b'"}',
        b"[" * 5000,
    ],
)
def test_an_invalid_commit_is_ignored(data: bytes) -> None:
    assert commit_from_bytes(data, "p") is None


def test_names_of_caches_and_nodes_are_escaped() -> None:
    assert Paths("a/b").node("../gw") == "/DataCache/a%2Fb/sync/..%2Fgw"
