"""The last copied record, compared with the record of the source at its offset. Without a cluster."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from struct import pack_into, unpack_from
from typing import Any, Self, cast

import pytest

from ha_core.kafka import last_records
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import TopicMissingError
from ha_core.kafka.last_records import LastCopied, rewritten
from ha_core.mirror.split import Record, pack
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode
from ha_core.wire.copied_batch import LOG_APPEND_TIME

HERE, THERE = ("orders", 0), ("east.orders", 0)
LAST = LastCopied(HERE, 7, THERE, 9)


class Cluster:
    """Stands for the brokers of a cluster: partition → the batches that they answer with.

    :ivar asked: number of partitions and requested bytes of each, by request.
    :ivar deadlines: number of deadlines so far.
    """

    def __init__(self, **data: bytes | None) -> None:
        self.data = {(name.replace("_", "."), 0): found for name, found in data.items()}
        self.asked: list[tuple[int, int]] = []
        self.deadlines = 0

    def asking(self, _timeout_s: float) -> Self:
        self.deadlines += 1
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
        asking: Cluster, _node: int, places: Mapping[Partition, tuple[int, int]], max_bytes: int, each_bytes: int
    ) -> Iterator[tuple[Partition, int, bytes]]:
        asking.asked.append((len(places), each_bytes))
        room = max_bytes
        for key in places:
            if key not in asking.data:
                raise TopicMissingError("east", f"topic {key[0]} does not exist.")
            data = asking.data[key]
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if data is None else 0
            # Brokers cut a batch, unless it is the only one.
            sent = (data or b"") if len(places) == 1 else (data or b"")[: min(each_bytes, room)]
            room -= len(sent)
            yield key, code, sent

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
    return rewritten(cast(Admin, clusters[0]), cast(Admin, clusters[1]), [LAST])[HERE] is True


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


def test_large_batches_of_many_partitions_come_in_few_requests_that_each_have_time() -> None:
    """All but some forty of two hundred were asked for alone, in 161 requests."""
    names = [f"t{number}" for number in range(200)]
    wanted = [LastCopied((name, 0), 7, (f"east.{name}", 0), 9) for name in names]
    source = Cluster(**{name: batch(7, b"x" * 100_000) for name in names})
    target = Cluster(**{f"east_{name}": batch(9, b"x" * 100_000) for name in names})
    found = rewritten(cast(Admin, source), cast(Admin, target), wanted)
    assert found == {(name, 0): False for name in names}
    for cluster in (source, target):
        assert len(cluster.asked) <= 8
        assert all(partitions * each_bytes <= 4 << 20 for partitions, each_bytes in cluster.asked)
        assert cluster.deadlines == len(cluster.asked)


def test_a_topic_that_is_gone_is_an_error_of_its_own_partitions() -> None:
    gone = LastCopied(("gone", 0), 1, ("east.orders", 0), 9)
    source, target = Cluster(orders=batch(7, b"other")), Cluster(east_orders=batch(9, b"c"))
    found = rewritten(cast(Admin, source), cast(Admin, target), [LAST, gone])
    assert found[HERE] is True
    assert isinstance(found["gone", 0], TopicMissingError)
