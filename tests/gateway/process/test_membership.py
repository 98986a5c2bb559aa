"""A gateway's name belongs to one gateway, with or without workers."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.config import Config
from gateway.process import membership
from gateway.process.membership import Membership
from gateway.process.usage_reporter import UsageReporter
from ha_core.model import GatewayRecord
from ha_core.store.errors import StoreError
from stack.memory_store import MemoryStore

CONFIG = Config.model_validate(
    {
        "id": "gw-1",
        "workers": 2,
        "zookeeper": {"hosts": "zk:1", "session_timeout_ms": 1000, "lease_ms": 500},
        "authentication": {"anonymous": True},
    }
)
ALONE = GatewayRecord(id="gw-1", host="h", port=1, node_id=1)
WORKERS = [ALONE.changed(id=f"gw-1.{number}", worker_of="gw-1") for number in range(2)]


def register(store: MemoryStore, record: GatewayRecord, meanwhile: Callable[[], None] = lambda: None) -> None:
    async def scene() -> None:
        members = Membership(CONFIG, store.client(), UsageReporter(lambda *_: 0), lambda: record)
        registering = asyncio.create_task(members.register())
        await asyncio.sleep(0.3)
        meanwhile()
        await registering

    asyncio.run(scene())


@pytest.mark.parametrize(("first", "second"), [(ALONE, WORKERS[0]), (WORKERS[1], ALONE)])
def test_a_gateways_name_is_refused_to_a_second_one_with_or_without_workers(
    first: GatewayRecord, second: GatewayRecord
) -> None:
    store = MemoryStore()
    store.client().register_gateway(first)
    with pytest.raises(StoreError, match=r"gateway gw-1 is registered as .* another process runs under this name"):
        register(store, second)


def test_workers_that_replace_a_gateway_wait_until_it_has_gone() -> None:
    store = MemoryStore()
    before = store.client().register_gateway(ALONE)
    register(store, WORKERS[0], before.close)
    assert [gateway.id for gateway in store.client().gateways()] == ["gw-1.0"]


async def test_a_gateway_is_expected_from_its_registration_until_it_is_stopped() -> None:
    store = MemoryStore()
    members = Membership(CONFIG, store.client(), UsageReporter(lambda *_: 0), lambda: WORKERS[0])
    await members.leave()  # before it has registered, it may be another process's name
    await members.register()
    assert [*store.expected_gateways()] == ["gw-1"]
    members.close()  # as it ends by a fault of its own
    assert [*store.expected_gateways()] == ["gw-1"]
    await members.leave()
    assert [*store.expected_gateways()] == []


def test_workers_of_one_gateway_live_side_by_side() -> None:
    store = MemoryStore()
    for worker in WORKERS:
        register(store, worker)
    assert [gateway.id for gateway in store.client().gateways()] == ["gw-1.0", "gw-1.1"]


async def test_gateways_of_a_zone_are_listed_while_one_of_them_answers_and_all_of_them_else() -> None:
    members = Membership(CONFIG, MemoryStore().client(), UsageReporter(lambda *_: 0), lambda: ALONE)
    near, far = (ALONE.changed(id=zone, host=zone, zone=zone) for zone in ("zone-1", "zone-2"))
    members._lately.see([near, far], 0.0)
    members.peers = (near, far)
    assert [address.host for address in members.listed("zone-1")] == ["zone-1"]
    assert [address.host for address in members.listed("")] == ["zone-1", "zone-2"]
    members.peers = (far,)
    assert [address.host for address in members.listed("zone-1")] == ["zone-1", "zone-2"]


async def test_a_gateway_that_leaves_is_shown_to_no_client_and_still_counts_for_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "LEAVE_S", 0.1)
    store, other = MemoryStore(), ALONE.changed(id="gw-2")
    store.client().register_gateway(other)
    members = Membership(
        CONFIG, store.client(), UsageReporter(lambda *_: 0), lambda: ALONE.changed(leaving=members.leaving)
    )
    await members.register()
    members.peers = (ALONE, other)
    assert await members.announce_leaving() is True
    assert [peer.id for peer in members.peers] == ["gw-2"]
    # The others read it in its record, and operations, which read all records, go on waiting for it
    told = [("gw-1", True), ("gw-2", False)]
    for _ in range(50):
        if [(one.id, one.leaving) for one in store.client().gateways()] == told:
            break
        await asyncio.sleep(0.02)
    assert [(one.id, one.leaving) for one in store.client().gateways()] == told


async def test_gateways_that_leave_together_do_not_wait_for_one_another() -> None:
    members = Membership(CONFIG, MemoryStore().client(), UsageReporter(lambda *_: 0), lambda: ALONE)
    await members.register()
    members.peers = (ALONE,)
    assert await members.announce_leaving() is False
    members.peers = (ALONE, ALONE.changed(id="gw-2"))
    leaving = asyncio.create_task(members.announce_leaving())
    await asyncio.sleep(0.1)
    members.peers = ()  # as the next look at the records finds them
    assert await asyncio.wait_for(leaving, 1.0) is False
