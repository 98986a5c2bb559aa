"""Gateways share quotas by use."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quotas.charges import Meters
from gateway.quotas.sharing import QuotaShares, ScopeUse, UsageReport, divided
from ha_core.model import Identity
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas, QuotaScope

KEY = QuotaScope(QuotaKind.PRODUCE, "alice", None).key
RATE = 100.0
QUOTAS = Quotas({QuotaEntity(user="alice"): {QuotaKind.PRODUCE: RATE}})
MUTE_S = 5.0
SIZE = 20


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.builds(ScopeUse, st.floats(0.002, 3.0), st.just(0.0) | st.floats(0.002, 50.0)),
        min_size=1,
    )
)
def test_shares_sum_to_one_and_none_is_zero(rates: dict[str, ScopeUse]) -> None:
    shares = divided(rates)
    assert shares.keys() == rates.keys()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares.values()) > 0.04 / len(rates)


def test_gateways_with_waiting_clients_share_by_the_waiting_amount() -> None:
    shares = divided({"a": ScopeUse(0.3, 0.5), "b": ScopeUse(0.3, 1.0), "c": ScopeUse(0.2, 0.0)})
    assert shares["c"] == pytest.approx(0.25)
    assert shares["b"] == pytest.approx(2 * shares["a"])


@dataclass
class World:
    """Gateways with clients that write as fast as allowed, in steps of 10 ms."""

    clients: dict[str, int]
    now: float = 0.0
    used: dict[str, float] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=dict)
    begin: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shares = {name: QuotaShares(name) for name in self.clients}
        self.meters = {name: Meters(shares) for name, shares in self.shares.items()}
        self.ready_at = {
            (name, client): self.begin.get(name, 0.0) for name, n in self.clients.items() for client in range(n)
        }
        self._learn()

    def run(self, seconds: float, heard: bool = True) -> None:
        self.used, self.waits = dict.fromkeys(self.clients, 0.0), {name: [] for name in self.clients}
        for _ in range(int(seconds * 100)):
            self.now += 0.01
            for who, at in self.ready_at.items():
                if at <= self.now:
                    self.ready_at[who] = self.now + max(0.01, min(self._write(who[0]), MUTE_S))
            if heard and int(self.now * 100) % 100 == 0:
                self._learn()

    def _write(self, name: str) -> float:
        charges = self.meters[name].charges(QUOTAS, Identity("alice", "app"), self.now)
        assert charges is not None
        assert charges.produce is not None
        wait_s = charges.produce.spend(SIZE, {}, self.now)
        self.used[name] += SIZE
        self.waits[name].append(wait_s)
        return wait_s

    def _learn(self) -> None:
        tellings = [
            UsageReport(
                name,
                "a",
                self.now,
                {charge.scope.key: ScopeUse(charge.meter.used_s, charge.meter.waited) for charge in meters.kept()},
            )
            for name, meters in self.meters.items()
        ]
        for name, shares in self.shares.items():
            shares.learn(tellings, len(self.clients))
            self.meters[name].share()

    def rates(self, seconds: float) -> dict[str, float]:
        return {name: amount / seconds for name, amount in self.used.items()}

    def mean_wait_s(self, name: str) -> float:
        return sum(self.waits[name]) / len(self.waits[name])


def test_shares_follow_use_so_that_all_clients_wait_equally_long() -> None:
    # Given three gateways with 1, 2 and 5 clients
    world = World({"gw-1": 1, "gw-2": 2, "gw-3": 5})
    world.run(30)
    # When time passes
    world.run(100)
    # Then together they use what the quota allows
    assert sum(world.rates(100).values()) == pytest.approx(RATE, rel=0.03)
    # and each client waits as at one broker with all eight
    for name in world.clients:
        assert world.mean_wait_s(name) == pytest.approx(8 * SIZE / RATE, rel=0.1)


def test_the_only_gateway_with_clients_has_all_of_the_quota() -> None:
    world = World({"gw-1": 3, "gw-2": 0, "gw-3": 0})
    world.run(30)
    world.run(60)
    assert world.shares["gw-1"].own == {KEY: 1.0}


def test_clients_that_come_to_another_gateway_get_their_part_and_not_more() -> None:
    # Given a gateway whose clients use the quota up
    world = World({"gw-1": 2, "gw-2": 2}, begin={"gw-2": 60.0})
    world.run(59)
    # When others come to the next one
    world.run(30)
    # Then meanwhile no more was used than after a pause at one broker, where ten seconds' worth may go at once
    assert sum(world.used.values()) < (30 + 10) * RATE
    # and afterwards they share it
    world.run(60)
    assert world.rates(60)["gw-2"] == pytest.approx(RATE / 2, rel=0.15)


def test_the_last_shares_stay_while_gateways_cannot_publish() -> None:
    # Given shares that have settled
    world = World({"gw-1": 1, "gw-2": 3})
    world.run(60)
    # When no report is heard any more
    world.run(60, heard=False)
    # Then the quota holds
    assert sum(world.rates(60).values()) == pytest.approx(RATE, rel=0.05)
    assert world.rates(60)["gw-2"] == pytest.approx(RATE * 3 / 4, rel=0.1)


def test_the_share_of_a_dead_gateway_goes_to_the_others() -> None:
    shares = QuotaShares("a")
    for second in range(10):
        uses = {name: {KEY: ScopeUse(0.5 * second, 0.5 * second)} for name in "ab"}
        shares.learn([UsageReport(name, "x", second, use) for name, use in uses.items()], 2)
    assert shares.own[KEY] == pytest.approx(0.5)
    assert shares.seed_s(KEY) == pytest.approx(5.0, rel=0.1)
    shares.learn([UsageReport("a", "x", 10.0, {KEY: ScopeUse(5.0, 5.0)})], 1)
    assert shares.own[KEY] == 1.0


def test_a_gateway_that_restarts_its_counts_has_no_negative_use() -> None:
    shares = QuotaShares("a")
    for second in range(5):
        shares.learn([UsageReport("b", "x", second, {KEY: ScopeUse(100.0 + second, 0.0)})], 2)
    shares.learn([UsageReport("b", "y", 5.0, {KEY: ScopeUse(0.1, 0.0)})], 2)
    shares.learn([UsageReport("b", "y", 6.0, {KEY: ScopeUse(1.1, 0.0)})], 2)
    assert shares.seed_s(KEY) > 0
