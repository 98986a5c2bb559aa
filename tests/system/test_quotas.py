"""Quotas of gateways, compared with those of a real broker."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from statistics import mean
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.store.store import Store
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.system.used_by_hand import Place, Used, brokers_place, gateways_places, limit, read, write

pytestmark = pytest.mark.stack

RATE = 400_000
SIZE = 150_000


stack = own_stack({"east": "3.9.2"}, gateways=3)


@pytest.fixture
def topic(stack: Stack, name: str) -> str:
    create_topic(bootstrap(stack, "east"), name, 1)
    return name


def side_by_side(*works: Callable[[], Used]) -> list[Used]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(work) for work in works]]


def limit_both(stack: Stack, store: Store, user: str, **limits: float) -> tuple[str, str]:
    """Client ids with equal quotas: through gateways, by user, and at the broker, which sees the former, too."""
    direct = f"direct-{user}"
    assert limit(brokers_place(stack), {"client-id": direct}, **limits)[0]["error_code"] == 0
    store.change_quota(QuotaEntity(user=user), {QuotaKind(key): value for key, value in limits.items()})
    time.sleep(1.0)
    return f"HA#{user}#orders", direct


def alike(ours: Any, theirs: Any) -> bool:
    return bool(ours == pytest.approx(theirs, rel=0.1))


@pytest.mark.soak  # it compares times, which a busy machine stretches for one side only
def test_clients_are_throttled_like_by_a_broker_with_an_equal_quota(stack: Stack, store: Store, topic: str) -> None:
    # Given equal quotas at a broker and at the gateways, for writers that throttle themselves, for writers that do not,
    # and for readers
    broker, gateway = brokers_place(stack), gateways_places(stack, store, topic)[0]
    write(broker, "filler", topic, SIZE, 0.2)
    pace_s = 1.1 * SIZE / RATE
    works: list[Callable[[], Used]] = []
    for user, version in (("newer", 9), ("older", 5)):
        for place, who in zip((gateway, broker), limit_both(stack, store, user, producer_byte_rate=RATE), strict=True):
            works.append(partial(write, place, who, topic, SIZE, 9.0, pace_s, version))
    for place, who in zip((gateway, broker), limit_both(stack, store, "reader", consumer_byte_rate=RATE), strict=True):
        works.append(partial(read, place, who, topic, SIZE, 9.0, pace_s))
    # When clients write and read at full speed on both sides
    used = side_by_side(*works)
    # Then they get equal throttle times, and equal throughput. (A broker returns no records with a throttled fetch, and
    # is asked again, or makes the reader wait a second time for them: the sum is equal.)
    for ours, theirs in zip(used[::2], used[1::2], strict=True):
        assert len(theirs.throttled) > 10
        assert alike(ours.waited_ms, theirs.waited_ms), (ours, theirs)
        assert alike(ours.size, theirs.size), (ours, theirs)
    for ours, theirs in zip(used[:-2:2], used[1:-2:2], strict=True):
        assert alike(mean(ours.throttled), mean(theirs.throttled)), (ours, theirs)


@pytest.mark.soak  # compares times, too
def test_a_quota_holds_over_three_gateways_as_at_one_broker(stack: Stack, store: Store, topic: str) -> None:
    # Given a quota, and a writer at each of three gateways; beside them three at the broker
    places = gateways_places(stack, store, topic)
    through, direct = limit_both(stack, store, "spread", producer_byte_rate=RATE)
    works = [(place, through) for place in places] + [(brokers_place(stack), direct)] * len(places)
    size = 50_000
    # When all write at full speed
    used = side_by_side(
        *(partial(write, place, who, topic, size, 20.0, 1.1 * len(places) * size / RATE) for place, who in works)
    )
    ours, theirs = used[: len(places)], used[len(places) :]
    # Then they have written equal amounts
    said = [(one.size, one.throttle_ms) for one in used]
    assert alike(*(sum(one.size for one in side) for side in (ours, theirs))), said
    # and get equal throttle times
    assert alike(*(mean(ms for one in side for ms in one.throttle_ms) for side in (ours, theirs))), said
    # and none of them has written much more than the others
    assert max(one.size for one in ours) < 1.3 * min(one.size for one in ours), said


def test_a_gateway_that_starts_again_lets_no_second_burst_through(stack: Stack, store: Store, topic: str) -> None:
    # Given writers at two gateways that have used up their burst
    places = gateways_places(stack, store, topic)
    store.change_quota(QuotaEntity(user="restarted"), {QuotaKind.PRODUCE: RATE})
    who, size = f"HA#restarted#{topic}", 50_000
    with ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(write, place, who, topic, size, 30.0) for place in places[:2]]
        time.sleep(12.0)
        # When the third gateway restarts, and a writer connects there at once
        stack.restart("gateway/3")
        used = write(places[2], who, topic, size, 3.0)
        elsewhere = [one.result() for one in writing]
    # Then it may use no more than its share
    assert used.size < 3.0 * RATE, used
    assert sum(one.size for one in elsewhere) > 10 * RATE


class Pair:
    """A producer and a consumer of one user at full speed within their quotas."""

    def __init__(self, stack: Stack, topic: str, user: str) -> None:
        self.topic, self.wrong, self.told, self.waits_s = topic, list[Any](), list[Any](), list[float]()
        self.sent = self.read = 0
        common = {
            "bootstrap.servers": stack.bootstrap,
            "client.id": f"HA#{user}#{topic}",
            "error_cb": self.wrong.append,
            "throttle_cb": lambda event: self.waits_s.append(event.throttle_time),
            "socket.timeout.ms": 15_000,
        }
        self.producer = Producer(common | {"enable.idempotence": True, "queue.buffering.max.kbytes": 4096})
        self.reader = Consumer(common | {"group.id": f"{topic}-{user}", "auto.offset.reset": "earliest"})
        self.reader.subscribe([topic])

    def work(self, seconds: float) -> tuple[int, int]:
        """Returns the bytes that were written and read."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(BufferError):
                self.producer.produce(self.topic, b"x" * 10_000, on_delivery=lambda error, _: self.told.append(error))
                self.sent += 1
            self.producer.poll(0)
            self._consume(0.02)
        return len(self.told) * 10_000, self.read * 10_000

    def finish(self, records: Callable[[], int]) -> None:
        """Flushes the producer, and reads until the end."""
        assert self.producer.flush(60) == 0
        until = time.monotonic() + 60
        while self.read < records() and time.monotonic() < until:
            self._consume(0.2)
        self.reader.close()

    def _consume(self, wait_s: float) -> None:
        for message in self.reader.consume(500, wait_s):
            assert message.error() is None, message.error()
            self.read += 1


def test_unmodified_clients_at_a_quota_never_time_out(stack: Stack, store: Store, topic: str) -> None:
    # Given a producer and a consumer that may use 300 kB a second
    user = QuotaEntity(user="unmodified")
    store.change_quota(user, {QuotaKind.PRODUCE: 300_000, QuotaKind.FETCH: 300_000})
    time.sleep(1.0)
    pair = Pair(stack, topic, "unmodified")
    # When they write and read at full speed, many times their burst
    written, read = pair.work(30)
    # Then no request has failed
    assert not pair.wrong, pair.wrong
    assert 300 * 10_000 < read <= written
    assert written < 300_000 * (10 + 30) * 1.1
    # When the limit is removed, then the rest goes at once
    store.change_quota(user, dict.fromkeys(QuotaKind))
    assert pair.producer.flush(20) == 0
    pair.reader.close()
    assert not pair.wrong, pair.wrong
    assert pair.told == [None] * pair.sent


@pytest.mark.long(
    "gateway/session/throttling.py", "gateway/session/fast/fast_path.py", "gateway/session/fetch/handle.py"
)
def test_a_brokers_quota_for_the_gateways_account_caps_all_clients_together_without_timeouts(
    stack: Stack, topic: str
) -> None:
    # Given a broker quota of 300 kB/s for the gateways' account (anonymous, as they do not log in here)
    place, rate, seconds = brokers_place(stack), 300_000.0, 25.0
    account: dict[str, str | None] = {"user": "ANONYMOUS"}
    (said,) = limit(place, account, producer_byte_rate=rate, consumer_byte_rate=rate)
    assert said["error_code"] == 0
    pairs = [Pair(stack, topic, user) for user in ("capped-1", "capped-2")]
    with ThreadPoolExecutor(len(pairs)) as pool:
        # When clients of two users write and read as fast as the quota allows
        used = list(pool.map(lambda pair: pair.work(seconds), pairs))
        limit(place, account, producer_byte_rate=None, consumer_byte_rate=None)
        list(pool.map(lambda pair: pair.finish(lambda: sum(one.sent for one in pairs)), pairs))
    # Then all of them together stay below it, and are throttled
    assert sum(written for written, _ in used) < rate * (10 + seconds) * 1.1, used
    assert sum(read for _, read in used) < rate * (10 + seconds) * 1.1, used
    assert all(sum(pair.waits_s) > 0 for pair in pairs)
    # And no request fails, and no record is missing
    for pair, (written, _) in zip(pairs, used, strict=True):
        assert written > rate
        assert not pair.wrong, pair.wrong
        assert pair.told == [None] * pair.sent
        assert pair.read == sum(one.sent for one in pairs)


def test_a_change_takes_effect_within_a_second_while_clients_write(stack: Stack, store: Store, topic: str) -> None:
    # Given a writer without a quota
    gateway = gateways_places(stack, store, topic)[0]
    user, client_id = QuotaEntity(user="changing"), f"HA#changing#{topic}"
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, gateway, client_id, topic, SIZE, 6.0)
        time.sleep(2.0)
        # When a quota is set
        store.change_quota(user, {QuotaKind.PRODUCE: 100_000})
        time.sleep(2.0)
        # and removed
        store.change_quota(user, {QuotaKind.PRODUCE: None})
        used = writing.result()
    # Then it was throttled in between, and not in the last second
    told = used.throttle_ms
    first, last = next(at for at, ms in enumerate(told) if ms), max(at for at, ms in enumerate(told) if ms)
    assert first > 50
    assert len(told) - last > 50
    assert last - first < 10


@pytest.mark.parametrize("place", ["one gateway", "the broker"])
def test_kafkas_own_tool_changes_quotas(stack: Stack, store: Store, topic: str, place: str) -> None:
    at: Place = gateways_places(stack, store, topic)[0] if place == "one gateway" else brokers_place(stack)
    for entity, limits, code in (
        ({"user": "tool"}, {"producer_byte_rate": 1000.0}, 0),
        ({"user": "tool", "client-id": "app"}, {"request_percentage": 12.5}, 0),
        ({"user": None}, {"consumer_byte_rate": 1e6}, 0),
        ({"user": "tool"}, {"producer_byte_rate": 0.0}, 42),
        ({"user": "tool"}, {"producer_byte_rate": -5.0}, 42),
        ({"user": "tool"}, {"producer_byte_rate": 1.5}, 42),
        ({"user": "tool"}, {"bytes": 1.0}, 42),
        ({"user": ""}, {"producer_byte_rate": 1.0}, 42),
        ({"nobody": "x"}, {"producer_byte_rate": 1.0}, 42),
        ({}, {"producer_byte_rate": 1.0}, 42),
        ({"user": "tool"}, {"producer_byte_rate": None, "no_such": None}, 0),
        ({"user": "tool", "client-id": "app"}, {"request_percentage": None}, 0),
        ({"user": None}, {"consumer_byte_rate": None}, 0),
    ):
        (said,) = limit(at, dict(entity), **limits)
        assert said["error_code"] == code, (entity, limits, said)
