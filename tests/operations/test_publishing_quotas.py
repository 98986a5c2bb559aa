"""The platform's quotas come into force by any publisher, wherever an earlier one was killed."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ha_core.datacache.core.source import Changes, Row
from ha_core.model.quota import DEFAULT, Limits, QuotaEntity, QuotaKind
from ha_core.operations.access import publishing
from ha_core.operations.access.publishing import PublishingQuotas, QuotaPublisher
from ha_core.platform.changing import Edit, put
from ha_core.platform.kinds.quotas import QuotaEntry
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.store.errors import OlderDatabaseError, StoreUnavailableError
from ha_core.store.quotas import Publication, noting
from ha_core.store.store import Store
from ha_core.store.tree import Put
from stack.memory_store import MemoryStore
from tests.kit.waiting import until

BYTES: Limits = {QuotaKind.PRODUCE: 1000}
ALICE, ORDERS, TOOL = QuotaEntity("alice"), QuotaEntity("alice", None, "orders"), QuotaEntity(None, "tool")


class PublishedPlatform:
    """A registry with users alice, a and a.b, and the quotas that a test sets."""

    def __init__(self, folder: Path) -> None:
        self.registry = Platform.open(f"sqlite:///{folder}/platform.db")
        self.registry.apply([put(UserEntry(name=name)) for name in ("alice", "a", "a.b")], "somebody", "test")

    def limit(self, *entities: QuotaEntity, rate: int = 1000) -> None:
        quotas = [QuotaEntry(**entity._asdict(), producer_byte_rate=rate) for entity in entities]
        entries = [self.registry.read.find("quotas", quota.key) for quota in quotas]
        versions = [None if entry is None else entry.version for entry in entries]
        self.registry.apply([put(*one) for one in zip(quotas, versions, strict=True)], "somebody", "test")

    def free(self, entity: QuotaEntity) -> None:
        key = QuotaEntry(**entity._asdict(), producer_byte_rate=1).key
        version = self.registry.read.get("quotas", key).version
        self.registry.apply([Edit("quotas", key, None, version)], "somebody", "test")

    def publisher(self, who: str = "here") -> QuotaPublisher:
        return QuotaPublisher(self.registry.source("quotas"), who)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PublishedPlatform]:
    made = PublishedPlatform(tmp_path)
    yield made
    made.registry.database.close()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def in_force(store: Store) -> dict[QuotaEntity, Limits]:
    return {quota.entity: quota.limits for quota in store.quotas().readable.values() if quota.entity is not None}


def test_quotas_of_the_platform_are_in_force_until_they_are_deleted_there(
    platform: PublishedPlatform, store: MemoryStore
) -> None:
    platform.limit(ALICE, ORDERS, TOOL, QuotaEntity(DEFAULT))
    publisher = platform.publisher()

    publisher.look(store)
    assert in_force(store) == dict.fromkeys((ALICE, ORDERS, TOOL, QuotaEntity(DEFAULT)), BYTES)

    platform.free(TOOL)
    platform.limit(ALICE, rate=5)
    assert dict(publisher.look(store)) == {ALICE: {QuotaKind.PRODUCE: 5}, TOOL: {}}
    assert in_force(store) == {ALICE: {QuotaKind.PRODUCE: 5}, ORDERS: BYTES, QuotaEntity(DEFAULT): BYTES}
    assert publisher.look(store) == []
    assert platform.publisher("another").look(store) == []


def test_quotas_of_others_stay_unless_the_platform_has_the_same(
    platform: PublishedPlatform, store: MemoryStore
) -> None:
    store.change_quota(QuotaEntity("bob"), BYTES)
    store.change_quota(ALICE, {QuotaKind.FETCH: 7})
    platform.limit(ALICE)
    publisher = platform.publisher()

    publisher.look(store)

    assert in_force(store) == {QuotaEntity("bob"): BYTES, ALICE: BYTES}
    assert publisher.plan(store, prune=True) == [(QuotaEntity("bob"), {})]
    publisher.once(store, prune=True)
    assert in_force(store) == {ALICE: BYTES}


def test_manual_edits_of_published_quotas_are_reverted_by_the_next_pass(
    platform: PublishedPlatform, store: MemoryStore
) -> None:
    platform.limit(ALICE, ORDERS)
    publisher = platform.publisher()
    publisher.look(store)
    # When an operator writes nodes by hand, with a note as Kafka's tools do
    other = store.client()
    for path, data in (("/config/users/alice", b'{"version":1,"config":{}}'), ("/config/clients/alice.orders", b"")):
        node = other.tree.get(path)
        assert node is not None
        other.tree.write([Put(path, data, node.version), *noting(other.tree, [path])])
    assert in_force(store) == {}

    publisher.look(store)

    assert in_force(store) == {ALICE: BYTES, ORDERS: BYTES}


@pytest.mark.parametrize("written", range(5))
def test_another_publisher_continues_after_a_crash_anywhere(
    platform: PublishedPlatform, store: MemoryStore, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that dies after so many of its writes
    monkeypatch.setattr(publishing, "AT_ONCE", 1)
    platform.limit(ALICE, ORDERS)
    platform.publisher().look(store)
    platform.limit(TOOL, QuotaEntity("a"), rate=5)
    platform.free(ALICE)
    killed = Killed(store, written)
    if written < 3:
        with pytest.raises(StoreUnavailableError):
            platform.publisher("killed").look(killed)  # type: ignore[arg-type]  # all that it asks of a store
    else:
        platform.publisher("killed").look(killed)  # type: ignore[arg-type]
    # When another one looks
    platform.publisher("next").look(store)
    # Then all is as the platform has it
    assert in_force(store) == {ORDERS: BYTES, TOOL: {QuotaKind.PRODUCE: 5}, QuotaEntity("a"): {QuotaKind.PRODUCE: 5}}


class Killed:
    """A store whose process dies before it writes once more."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store, self._left = store, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def publish(self, *arguments: Any) -> Publication:
        if not self._left:
            raise StoreUnavailableError("killed")
        self._left -= 1
        return self._store.publish(*arguments)


class Interrupted:
    """A source; something happens after it was read."""

    def __init__(self, platform: PublishedPlatform, meanwhile: Callable[[], object]) -> None:
        self._source, self._meanwhile = platform.registry.source("quotas"), meanwhile

    def changes(self, after_us: int, limit: int) -> Changes:
        found = self._source.changes(after_us, limit)
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return found

    def digest(self, through_us: int) -> str | None:
        return self._source.digest(through_us)


def test_a_publisher_with_older_rows_does_not_undo_a_newer_publication(
    platform: PublishedPlatform, store: MemoryStore
) -> None:
    platform.limit(ALICE, ORDERS)

    def meanwhile() -> None:
        platform.limit(ALICE, rate=5)
        platform.free(ORDERS)
        platform.publisher("there").look(store.client())

    QuotaPublisher(Interrupted(platform, meanwhile), "here").look(store)

    assert in_force(store) == {ALICE: {QuotaKind.PRODUCE: 5}}
    newest = platform.registry.read.newest_us()["quotas"]
    assert store.publication().through_us == newest


def test_an_older_database_publishes_nothing_until_an_operator_asks_for_it(
    platform: PublishedPlatform, store: MemoryStore, tmp_path: Path
) -> None:
    platform.limit(ALICE)
    (tmp_path / "backup").mkdir()
    backup = PublishedPlatform(tmp_path / "backup")
    backup.limit(ORDERS)
    platform.limit(ALICE, rate=5)
    platform.publisher().look(store)

    with pytest.raises(OlderDatabaseError, match="client-quotas publish"):
        backup.publisher("backup").look(store)
    assert in_force(store) == {ALICE: {QuotaKind.PRODUCE: 5}}

    backup.publisher("backup").once(store, prune=False)
    assert in_force(store) == {ORDERS: BYTES}
    backup.registry.database.close()


def test_two_quotas_with_one_name_are_reported_and_the_longer_user_name_wins(
    platform: PublishedPlatform, store: MemoryStore
) -> None:
    longer, shorter = QuotaEntity("a.b", None, "c"), QuotaEntity("a", None, "b.c")
    for first, second in ((longer, shorter), (shorter, longer)):
        platform.limit(first)
        platform.limit(second)
    publisher = platform.publisher()

    publisher.look(store)

    assert in_force(store) == {longer: BYTES}
    (problem,) = publisher.problems.values()
    assert "the quota for user 'a', topic 'b.c' is not in force" in problem


class Said:
    """A source of rows that no platform of this version writes."""

    def __init__(self, *rows: Row) -> None:
        self._rows = rows

    def changes(self, after_us: int, limit: int) -> Changes:
        rows = tuple(row for row in self._rows if row.changed_us > after_us)[:limit]
        return Changes(rows, self._rows[-1].changed_us, 0)

    def digest(self, through_us: int) -> str | None:
        return None


def test_an_unreadable_quota_leaves_the_earlier_one_in_force(store: MemoryStore) -> None:
    good = {"user": "alice", "producer_byte_rate": 1000}
    bad = {"user": "bob", "producer_byte_rate": 1000}
    publisher = QuotaPublisher(Said(Row("1", 1, good), Row("2", 2, bad)))
    publisher.look(store)

    worse = QuotaPublisher(
        Said(Row("1", 1, good), Row("2", 3, {**bad, "producer_byte_rate": "fast"}), Row("3", 4, {"user": 5}))
    )
    worse.look(store)

    assert in_force(store) == {ALICE: BYTES, QuotaEntity("bob"): BYTES}
    assert len(worse.problems) == 2


def test_the_thread_publishes_at_once_on_a_change_and_reports_each_problem_once(
    platform: PublishedPlatform, store: MemoryStore
) -> None:
    said: list[str] = []
    away = threading.Event()

    def connect() -> Store:
        if away.is_set():
            raise StoreUnavailableError("ZooKeeper is away")
        return store.client()

    away.set()
    publishing = PublishingQuotas(platform.registry.source("quotas"), connect, said.append, look_s=600)
    publishing.start()
    platform.limit(ALICE)
    until(lambda: bool(said))
    away.clear()
    publishing.now()
    until(lambda: in_force(store) == {ALICE: BYTES})
    platform.limit(QuotaEntity("a.b", None, "c"), QuotaEntity("a", None, "b.c"))
    publishing.now()
    until(lambda: len(said) == 2)
    publishing.close()
    assert said[0].endswith("those in ZooKeeper stay in force: ZooKeeper is away")
    assert "with its dots" in said[1]
