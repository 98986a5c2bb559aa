"""Caches keyed by names from the wire are bounded: per table, over all tables, and by the lengths of names."""

from itertools import islice

from ha_core.model.access import AclOperation, ResourceType
from ha_core.plan.access.rights import Rights
from ha_core.plan.routing.bounded_cache import MAX_NAME, BoundedCache, CacheBudget

Table = BoundedCache[str, int]


def kept(room: CacheBudget, table: Table, name: str) -> None:
    room.keep(table, name, name, 7)


def test_a_cached_entry_is_found() -> None:
    room, table = CacheBudget(), Table()
    kept(room, table, "orders")
    assert table == {"orders": 7}


def test_a_name_that_is_longer_than_any_topic_can_have_is_not_kept() -> None:
    room, table = CacheBudget(), Table()
    kept(room, table, "x" * MAX_NAME)
    kept(room, table, "x" * (MAX_NAME + 1))
    assert list(table) == ["x" * MAX_NAME]


def test_a_table_never_exceeds_its_bound() -> None:
    room, table = CacheBudget(each=10), Table()
    for number in range(100):
        kept(room, table, str(number))
        assert len(table) <= 10
    assert "99" in table


def test_all_tables_together_never_have_more_than_they_may() -> None:
    room = CacheBudget(max_entries=100, each=20)
    tables = [Table() for _ in range(30)]
    for number in range(3000):
        kept(room, tables[number % 30], str(number))
        assert sum(map(len, tables)) <= 100
        assert str(number) in tables[number % 30]


def test_tables_that_are_gone_take_no_room_of_others() -> None:
    # Given a table that stays, and many that come and go
    room, stays = CacheBudget(max_entries=100, each=20), Table()
    kept(room, stays, "stays")
    for number in range(50):
        passing = Table()
        for name in range(10):
            kept(room, passing, f"{number}-{name}")
        del passing
    assert list(stays) == ["stays"]


def test_many_names_from_many_addresses_do_not_fill_memory() -> None:
    rights = Rights()
    asking = [rights.of("mallory", f"fe80::{number:x}") for number in range(200)]
    rights._room = room = CacheBudget(max_entries=1000, each=100)
    for verdicts in asking:
        verdicts._room = room
    for number, verdicts in enumerate(islice(asking * 50, 10_000)):
        assert not verdicts.allows(AclOperation.READ, ResourceType.GROUP, f"group-{number}")
        assert not verdicts.allows(AclOperation.READ, ResourceType.GROUP, f"{number}" + "x" * 1000)
    assert sum(len(verdicts._asked) for verdicts in asking) <= 1000
    assert max(len(name) for verdicts in asking for _, name in verdicts._asked) < 1000
