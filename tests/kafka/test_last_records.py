"""The last copied record, compared with the record of the source at its offset. Without a cluster."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from struct import pack_into, unpack_from
from typing import Any, Self, cast

import pytest

from ha_core.kafka import last_records
from ha_core.kafka.admin import Admin
from ha_core.kafka.last_records import LastCopied, rewritten
from ha_core.mirror.split import Record, pack
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode
from ha_core.wire.copied_batch import LOG_APPEND_TIME

HERE, THERE = ("orders", 0), ("east.orders", 0)
LAST = LastCopied(HERE, 7, THERE, 9)


class Cluster:
    """Stands for the brokers of a cluster: partition → the batches that they answer with."""

    def __init__(self, **data: bytes | None) -> None:
        self.data = {(name.replace("_", "."), 0): found for name, found in data.items()}

    def asking(self, _timeout_s: float) -> Self:
        return self

    def rounds(
        self, _what: str, keys: list[Partition], _locate: object, ask: Any, partial: bool
    ) -> dict[Partition, Any]:
        return dict(ask(1, keys))


class AllAtOne:
    """One broker leads all partitions."""

    def __init__(self, _asking: object) -> None:
        self.epochs: Mapping[Partition, int] = defaultdict(int)
        self.locate = None


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(
        asking: Cluster, _node: int, places: Mapping[Partition, tuple[int, int]], _max_bytes: int, each_bytes: int
    ) -> Iterator[tuple[Partition, int, bytes]]:
        for key in places:
            data = asking.data[key]
            fits = data is None or len(data) <= each_bytes or len(places) == 1
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if data is None else 0
            yield key, code, (data or b"") if fits else (data or b"")[:each_bytes]  # brokers cut a batch

    monkeypatch.setattr(last_records, "fetched_several", fetched)
    monkeypatch.setattr(last_records, "Leaders", AllAtOne)


def batch(offset: int, *values: bytes, time_ms: int = 1_000, stamped: bool = False) -> bytes:
    """The first record of `values` is at this offset."""
    records = [Record.of(number, time_ms, b"k", value) for number, value in enumerate(values)]
    data = bytearray(pack(records, 0))
    pack_into(">q", data, 0, offset)
    if stamped:
        (attributes,) = unpack_from(">h", data, 21)
        pack_into(">h", data, 21, attributes | LOG_APPEND_TIME)
    return bytes(data)


def differs(source: bytes | None, target: bytes | None) -> bool:
    clusters = Cluster(orders=source), Cluster(east_orders=target)
    return rewritten(cast(Admin, clusters[0]), cast(Admin, clusters[1]), [LAST])[HERE]


def test_the_same_record_in_batches_of_different_sizes_is_no_difference() -> None:
    assert not differs(batch(5, b"a", b"b", b"c", b"d"), batch(9, b"c"))


@pytest.mark.parametrize("source", [batch(7, b"other"), batch(7, b"c", time_ms=2_000), batch(5, b"c", b"c", b"other")])
def test_another_record_at_the_offset_is_a_difference(source: bytes) -> None:
    assert differs(source, batch(9, b"c"))


@pytest.mark.parametrize("source", [b"", None, batch(8, b"later"), batch(5, b"a", b"b"), b"\0" * 99])
def test_a_record_that_is_gone_or_may_not_be_read_tells_nothing(source: bytes | None) -> None:
    assert not differs(source, batch(9, b"c"))
    assert not differs(batch(7, b"c"), source)


def test_times_that_brokers_of_the_target_have_set_are_not_compared() -> None:
    assert not differs(batch(7, b"c"), batch(9, b"c", time_ms=5_000, stamped=True))
    assert differs(batch(7, b"other"), batch(9, b"c", time_ms=5_000, stamped=True))


def test_a_batch_that_is_too_large_beside_others_is_asked_for_alone() -> None:
    large = b"x" * 100_000
    more = LastCopied(("small", 0), 1, ("east.small", 0), 1)
    source = Cluster(orders=batch(7, large + b"1"), small=batch(1, b"s"))
    target = Cluster(east_orders=batch(9, large + b"2"), east_small=batch(1, b"s"))
    assert rewritten(cast(Admin, source), cast(Admin, target), [LAST, more]) == {HERE: True, ("small", 0): False}
