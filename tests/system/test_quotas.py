"""Quotas that gateways keep, beside those of a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from tests.kit.running import ZOOKEEPER_ROOT, bootstrap, create_topic
from tests.system.used_by_hand import Place, Used, brokers_place, gateways_places, limit, read, write

pytestmark = pytest.mark.stack

RATE = 400_000
SIZE = 150_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2"}, gateways=3) as running:
        yield running


@pytest.fixture(scope="module")
def store(stack: Stack) -> Iterator[Store]:
    opened = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    yield opened
    opened.close()


@pytest.fixture
def topic(stack: Stack, name: str) -> str:
    create_topic(bootstrap(stack, "east"), name, 1)
    return name


def side_by_side(*works: Callable[[], Used]) -> list[Used]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(work) for work in works]]


def limit_both(stack: Stack, store: Store, user: str, **limits: float) -> tuple[str, str]:
    """The client ids that have the same quota: through gateways, by user, and at the broker. It sees the former too."""
    direct = f"direct-{user}"
    assert limit(brokers_place(stack), {"client-id": direct}, **limits)[0]["error_code"] == 0
    store.change_quota(QuotaEntity(user=user), {QuotaKind(key): value for key, value in limits.items()})
    time.sleep(1.0)
    return f"HA#{user}#orders", direct


def alike(ours: Any, theirs: Any) -> bool:
    return bool(ours == pytest.approx(theirs, rel=0.1))


@pytest.mark.parametrize("version", [9, 5])
def test_a_writer_is_throttled_as_by_a_broker_with_the_same_quota(
    stack: Stack, store: Store, topic: str, version: int
) -> None:
    # Given the same quota at a broker and at the gateways
    through, direct = limit_both(stack, store, f"writer-{version}", producer_byte_rate=RATE)
    gateway = gateways_places(stack, store, topic)[0]
    # When a client writes as fast as it is let, here and there
    ours, theirs = side_by_side(
        lambda: write(gateway, through, topic, SIZE, 20, version),
        lambda: write(brokers_place(stack), direct, topic, SIZE, 20, version),
    )
    # Then it is told the same, and has written as much
    assert theirs.throttled
    assert alike(len(ours.throttle_ms), len(theirs.throttle_ms)), (ours, theirs)
    assert alike(ours.waited_ms, theirs.waited_ms), (ours, theirs)
    assert alike(ours.size, theirs.size), (ours, theirs)


def test_a_reader_is_throttled_as_by_a_broker_with_the_same_quota(stack: Stack, store: Store, topic: str) -> None:
    # Given a topic with something in it, and the same quota at a broker and at the gateways
    broker, gateway = brokers_place(stack), gateways_places(stack, store, topic)[0]
    write(broker, "filler", topic, SIZE, 0.2)
    through, direct = limit_both(stack, store, "reader", consumer_byte_rate=RATE)
    # When it is read as fast as clients are let
    ours, theirs = side_by_side(
        lambda: read(gateway, through, topic, 2 * SIZE, 20), lambda: read(broker, direct, topic, 2 * SIZE, 20)
    )
    # Then they are told the same, and have read as much. (A broker gives nothing with the answer that says it.)
    assert theirs.throttled
    assert alike(ours.waited_ms, theirs.waited_ms), (ours, theirs)
    assert alike(ours.size, theirs.size), (ours, theirs)


def test_a_change_takes_effect_within_a_second_while_clients_write(stack: Stack, store: Store, topic: str) -> None:
    # Given a writer that nobody limits
    gateway = gateways_places(stack, store, topic)[0]
    user, client_id = QuotaEntity(user="changing"), f"HA#changing#{topic}"
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, gateway, client_id, topic, SIZE, 6.0)
        time.sleep(2.0)
        # When a quota is set
        store.change_quota(user, {QuotaKind.PRODUCE: 100_000})
        time.sleep(2.0)
        # and taken away
        store.change_quota(user, {QuotaKind.PRODUCE: None})
        used = writing.result()
    # Then it was throttled in between, and not in the last second
    told = used.throttle_ms
    first, last = next(at for at, ms in enumerate(told) if ms), max(at for at, ms in enumerate(told) if ms)
    assert first > 50
    assert len(told) - last > 50
    assert last - first < 10


@pytest.mark.parametrize("place", ["one gateway", "the broker"])
def test_kafkas_own_tool_changes_what_is_limited(stack: Stack, store: Store, topic: str, place: str) -> None:
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
