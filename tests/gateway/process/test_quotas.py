"""Quotas followed, changed for clients, and reported in the audit log."""

import asyncio
import json
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from gateway.composed.handlers import ChangeQuotas, QuotaChange
from gateway.follow import quotas as driven
from gateway.follow.quota_shares import Sharing
from gateway.follow.quotas import FollowingQuotas
from gateway.process.audit import AuditLog
from gateway.quotas.charges import Meters
from gateway.quotas.sharing import QuotaShares
from gateway.runtime import clock
from ha_core.model import Identity
from ha_core.model.quota import DEFAULT, MAX_NAME, QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas, QuotaScope
from ha_core.store.tree import Create
from ha_core.wire import ErrorCode
from stack.memory_store import MemoryStore

BYTES = {QuotaKind.PRODUCE: 1000.0}
ALICE = QuotaEntity("alice")


async def until(condition: Callable[[], bool]) -> None:
    deadline = clock.now() + 30
    while not condition():
        assert clock.now() < deadline
        await asyncio.sleep(0.01)


class Following:
    """A follower of a store, with the quotas that it has passed on."""

    def __init__(self, store: MemoryStore, users: frozenset[str] = frozenset()) -> None:
        self.told: list[Quotas | None] = []
        self.meters, self.audit = Meters(), AuditLog()
        self.quotas = FollowingQuotas(store, users, self.meters, self.audit, self.told.append)
        self.quotas.begin()

    @property
    def limits(self) -> dict[QuotaEntity, Any]:
        return {} if not self.told or self.told[-1] is None else dict(self.told[-1].limits)


async def test_quotas_are_followed_and_gone_when_the_last_one_is() -> None:
    store = MemoryStore()
    other = store.client()
    following = Following(store)
    other.change_quota(ALICE, BYTES)
    await until(lambda: following.limits == {ALICE: BYTES})
    other.change_quota(ALICE, dict.fromkeys(QuotaKind))
    await until(lambda: following.told[-1] is None)
    following.quotas.close()


async def test_quotas_stay_in_force_while_the_store_is_away() -> None:
    store = MemoryStore()
    following = Following(store)
    store.client().change_quota(ALICE, BYTES)
    await until(lambda: following.limits == {ALICE: BYTES})
    store.suspend()
    await asyncio.sleep(0.1)
    assert following.limits == {ALICE: BYTES}
    following.quotas.close()


async def test_names_with_dots_are_resolved_by_the_known_users() -> None:
    store = MemoryStore()
    data = b'{"version":1,"config":{"producer_byte_rate":"1000"}}'
    for name in ("cn.shop.orders.eu", "tool.v1"):
        store.tree.write([Create(f"/config/clients/{name}", data)])
    following = Following(store, frozenset({"cn.shop"}))
    await until(lambda: len(following.limits) == 2)
    assert set(following.limits) == {QuotaEntity("cn.shop", None, "orders.eu"), QuotaEntity(instance="tool.v1")}
    following.quotas.close()


async def test_changes_are_made_one_by_one_and_each_has_its_result() -> None:
    store = MemoryStore()
    following = Following(store)
    store.change_quota(QuotaEntity("a", None, "b.c"), BYTES)
    wanted = ChangeQuotas(
        "ops",
        (
            QuotaChange(ALICE, BYTES),
            QuotaChange(QuotaEntity("a.b", None, "c"), BYTES),
            QuotaChange(QuotaEntity("bob"), {QuotaKind.PRODUCE: -1.0}),
        ),
    )
    said = await asyncio.to_thread(following.quotas.change, wanted)
    assert [one["error_code"] for one in said] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    await until(lambda: ALICE in following.limits)
    following.quotas.close()


async def test_the_audit_log_has_the_begin_and_the_end_of_throttling(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driven, "LOOK_S", 0.01)
    monkeypatch.setattr(driven, "CALM_S", 0.0)
    following = Following(MemoryStore())
    keeping = asyncio.create_task(following.quotas.keep())
    with caplog.at_level(logging.INFO, "gateway.audit"):
        # When a client has to wait for a moment
        charges = following.meters.charges(Quotas({ALICE: BYTES}), Identity("alice", "app"), clock.now())
        assert charges is not None
        assert charges.produce is not None
        assert charges.produce.spend(10_100, {}, clock.now()) > 0
        # Then a line says so, and another one that it is over
        await until(lambda: len(caplog.records) == 2)
    keeping.cancel()
    begun, ended = (json.loads(record.message) for record in caplog.records)
    assert begun.items() >= {"event": "throttled", "quota": "user 'alice'", "cause": "produce", "limit": "1000"}.items()
    assert ended["event"] == "throttled_no_more"
    following.quotas.close()


async def test_gateways_exchange_use_and_share_a_quota() -> None:
    # Given two gateways, and clients of one user at both
    store = MemoryStore()
    gateways = []
    for name in ("gw-1", "gw-2"):
        shares = QuotaShares(name)
        meters = Meters(shares)
        gateways.append((Sharing(name, store.client(), meters, shares, lambda: 2, lambda: True), shares, meters))
    quotas, identity = Quotas({ALICE: BYTES}), Identity("alice", "app")
    # When one uses twice as much as the other, and time passes
    for _ in range(20):
        for number, (sharing, _, meters) in enumerate(gateways):
            charges = meters.charges(quotas, identity, clock.now())
            assert charges is not None
            assert charges.produce is not None
            charges.produce.spend(5_000 * (number + 1), {}, clock.now())
            await sharing.look()
        await asyncio.sleep(0.05)
    # Then both have come to the same shares, and the larger one has more
    (first,), (second,) = (list(shares.own.values()) for _, shares, _ in gateways)
    assert first + second == pytest.approx(1.0, abs=0.05)
    assert second > first
    # and when there is one gateway only, it has all
    gateways[0][1].alone()
    gateways[0][2].share()
    assert [charge.meter.share for charge in gateways[0][2].kept()] == [1.0]


async def test_nothing_is_written_without_quotas() -> None:
    store = MemoryStore()
    shares = QuotaShares("gw-1")
    sharing = Sharing("gw-1", store, Meters(shares), shares, lambda: 2, lambda: False)
    await sharing.look()
    assert store.tree.children("/quota_use") == []


async def test_client_ids_of_the_greatest_length_do_not_end_the_sharing_of_quotas() -> None:
    # Given a quota of each instance by itself, and a gateway that reports a user
    store = MemoryStore()
    shares = QuotaShares("gw-1")
    meters = Meters(shares)
    sharing = Sharing("gw-1", store.client(), meters, shares, lambda: 2, lambda: True)
    quotas = Quotas({QuotaEntity(None, DEFAULT): BYTES, ALICE: BYTES})

    def uses(identity: Identity, size: int) -> None:
        charges = meters.charges(quotas, identity, clock.now())
        assert charges is not None
        assert charges.produce is not None
        charges.produce.spend(size, {}, clock.now())

    uses(Identity("alice", "app"), 100)
    await sharing.look()
    # When a client makes up a thousand ids that nothing can shorten
    chance = random.Random(7)
    for _ in range(1000):
        uses(Identity("mallory", "".join(chr(chance.randrange(0x10000, 0x20000)) for _ in range(8000))), 1000)
    await sharing.look()
    # Then the reports that fit are sent, and later ones, too
    own = QuotaScope(QuotaKind.PRODUCE, "alice", None).key
    uses(Identity("alice", "app"), 50_000)

    def told() -> bool:
        return any(use.uses.get(own, (0.0, 0.0))[0] > 50 for use in store.quota_uses())

    deadline = clock.now() + 30
    while not told():
        assert clock.now() < deadline
        await sharing.look()
        await asyncio.sleep(0.05)
    # and no name is kept that is longer than that of any quota
    assert max(len(charge.scope.instance or "") for charge in meters.kept()) <= MAX_NAME


class Shared:
    """Gateways that share quotas: a second passes with each round."""

    def __init__(self, gateways: int, quotas: Quotas, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self._quotas, self.limited = 1_000.0, quotas, True
        monkeypatch.setattr(clock, "now", lambda: self.now)
        store = MemoryStore()
        self.shares = [QuotaShares(f"gw-{number}") for number in range(gateways)]
        self._meters = [Meters(shares) for shares in self.shares]
        self._sharing = [
            Sharing(
                f"gw-{number}", store.client(), self._meters[number], shares, lambda: gateways, lambda: self.limited
            )
            for number, shares in enumerate(self.shares)
        ]

    def write(self, gateway: int, user: str, instance: str, size: int) -> float:
        """For how many seconds nothing more may be."""
        charges = self._meters[gateway].charges(self._quotas, Identity(user, instance), self.now)
        assert charges is not None
        assert charges.produce is not None
        return charges.produce.spend(size, {}, self.now)

    async def round(self, *still: int) -> None:
        """:param still: gateways that stand still."""
        self.now += 1.0
        for number, sharing in enumerate(self._sharing):
            if number not in still:
                await sharing.look()
        await asyncio.sleep(0.02)  # until the reports are written


ALICES = QuotaScope(QuotaKind.PRODUCE, "alice", None).key


async def test_a_gateway_whose_clients_have_left_gives_its_share_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a user who has exhausted a quota at one gateway
    world = Shared(2, Quotas({ALICE: BYTES}), monkeypatch)
    for _ in range(20):
        world.write(0, "alice", "app", 1_500)
        await world.round()
    # When all clients of that user go to the other one
    for _ in range(27):
        world.write(1, "alice", "app", 800)
        await world.round()
    # Then the whole quota is there, and not half of it at the gateway that they have left
    assert world.shares[1].own[ALICES] > 0.9


async def test_a_gateway_that_starts_beside_others_does_not_reset_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given three gateways, at one of which a user exhausts a quota
    world = Shared(3, Quotas({ALICE: BYTES}), monkeypatch)
    for _ in range(20):
        world.write(0, "alice", "app", 1_000)
        await world.round(2)
    # When the third one has started, and the user comes there in that second
    await world.round()
    # Then no more is allowed there at once than at the others
    assert world.write(2, "alice", "app", 1_000) > 2.0


async def test_a_gateway_that_was_stopped_does_not_reset_a_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a user who exhausts a quota at three gateways
    world = Shared(3, Quotas({ALICE: BYTES}), monkeypatch)
    for _ in range(20):
        for number in range(3):
            world.write(number, "alice", "app", 350)
        await world.round()
    # When one of them is stopped for a while, and continues
    for _ in range(20):
        for number in range(2):
            world.write(number, "alice", "app", 525)
        await world.round(2)
    await world.round()
    # Then no more is allowed there at once than at the others
    assert world.write(2, "alice", "app", 1_000) > 2.0


async def test_a_users_first_quota_is_shared_and_not_granted_at_each_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given three gateways without a quota
    world = Shared(3, Quotas({ALICE: BYTES}), monkeypatch)
    world.limited = False
    for _ in range(10):
        await world.round()
    # When there is one, and the user writes at all of them in the same second
    world.limited = True
    waits = [world.write(number, "alice", "app", 3_000) for number in range(3)]
    # Then ten seconds' worth is written at once, at all gateways together
    assert waits == [0.0] * 3
    assert [world.write(number, "alice", "app", 1_000) > 1.0 for number in range(3)] == [True] * 3


async def test_made_up_client_ids_take_nothing_of_another_users_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given ten gateways, and a user whose clients are at one of them: it has all of the quota
    world = Shared(10, Quotas({ALICE: BYTES, QuotaEntity("mallory", DEFAULT): BYTES}), monkeypatch)
    for _ in range(15):
        world.write(0, "alice", "app", 1_000)
        await world.round()
    assert world.shares[0].own[ALICES] == 1.0
    # When another one uses far too much, as more clients than a gateway reports
    for _ in range(10):
        for number in range(600):
            world.write(0, "mallory", f"client-{number}", 20_000)
        world.write(0, "alice", "app", 1_000)
        await world.round()
    # Then it has all of it still
    assert world.shares[0].own[ALICES] == 1.0
