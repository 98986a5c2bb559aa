"""Copies that are to be deleted, by who stands still or comes again: without clusters."""

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace

import pytest

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Document, Mirror, Topic
from ha_core.model.extent import identity
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.single import beginning, commit_single
from ha_core.operations.mirror import unlinking
from ha_core.operations.running import engine
from ha_core.store.commits import StateChange, key_of
from stack.memory_store import MemoryStore

MIRROR = Mirror.of("orders", "east", "west", "link", "2026-01-01T00:00:00Z", "test")
KEY: tuple[type[Document], str] = (Mirror, MIRROR.key)
ORDERS = Topic(name="orders", writer="east", partitions={0: identity("east")})


class West:
    """Between the question and its request passes what `halts_s` says; meanwhile a group comes there."""

    def __init__(self, halts_s: float) -> None:
        self.cluster = SimpleNamespace(name="west")
        self.now_s, self.halts_s = 1000.0, halts_s
        self.groups: dict[str, set[str]] = {}
        self.deleted: list[str] = []

    def delete_topics(self, ids: Mapping[str, str], still_ours: Callable[[], None], _: float) -> tuple[str, ...]:
        self.now_s += self.halts_s
        if self.halts_s > 60:
            self.groups = {"orders": {"readers"}}
        still_ours()
        self.deleted += ids
        return tuple(ids)

    def topics(self, _: Collection[str]) -> dict[str, object]:
        """Its source, which answers, has none of them."""
        return {}

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        """Topic ids of brokers that have none."""
        return dict.fromkeys(names, "")

    def leaderships(self, _: Collection[object]) -> dict[object, object]:
        return {}


def use(west: West, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlinking, "admin_of", lambda *_: west)
    monkeypatch.setattr(unlinking, "now_s", lambda: west.now_s)
    monkeypatch.setattr(unlinking, "fence_copiers", lambda *_: None)
    monkeypatch.setattr(unlinking, "open_ended_copies", lambda *_: None)
    monkeypatch.setattr(unlinking, "_at_home", lambda *_: west.groups)


def ended(store: MemoryStore, environment: Environment, topic_id: str) -> str:
    """An operation whose process died right after the revision that ends its mirror."""
    store.commit(StateChange(change_id="link", puts=(ORDERS, MIRROR), expected={(Topic, "orders"): None, KEY: None}))
    with beginning(environment, "unlink", "not needed", ["topic:orders"]) as journal:
        journal.note(mirrors=(MIRROR,), deletes_in="west", topic_ids={"orders": topic_id})
        commit_single(journal, (), {KEY: 0}, {})
    return journal.operation.id


@pytest.mark.parametrize(("halts_s", "result"), [(1.0, "succeeded"), (3600.0, "failed")])
def test_a_stalled_process_does_not_delete_a_copy_by_a_check_of_an_hour_ago(
    store: MemoryStore, environment: Environment, monkeypatch: pytest.MonkeyPatch, halts_s: float, result: str
) -> None:
    west = West(halts_s)
    use(west, monkeypatch)
    # Given a mirror that has ended, and whose copy is to go
    operation = ended(store, environment, "01")
    # When the process that deletes it stands still, and goes on
    report = engine.resume(environment, operation)
    # Then it has deleted the copies that are not needed, and none for which a group keeps its offsets by now
    assert report.result == result
    assert west.deleted == ([] if west.groups else ["orders"])
    # And who says it again is told who needs it
    if west.groups:
        assert "is older than 30 s. Run `mirror unlink" in report.error


def test_a_topic_of_brokers_without_ids_is_not_deleted_for_a_mirror_that_has_ended_before(
    store: MemoryStore, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a copy that was deleted with its mirror, and a topic that was created under its name since
    west = West(0)
    use(west, monkeypatch)
    assert engine.resume(environment, ended(store, environment, "")).result == "succeeded"
    # When the same is said again
    with pytest.raises(RefusedError, match="orders has no mirror in west"):
        unlinking.unlink(environment, ["orders"], "west", "once more", delete_copy=True)
    # Then it stays
    assert west.deleted == ["orders"]


def test_a_failed_deletion_of_a_copy_reports_the_changes_that_were_made(
    store: MemoryStore, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a mirror that has ended, and beside whose copy a group keeps its offsets by the time it is to go
    west = West(0)
    use(west, monkeypatch)
    operation = ended(store, environment, "01")
    west.groups = {"orders": {"readers"}}
    # When it is gone on with
    report = engine.resume(environment, operation)
    # Then it says that the mirror has ended, and why the copy stays
    assert report.result == "failed"
    assert "Nothing was changed" not in report.error
    assert report.error.startswith("The mirrors of orders have ended. Not every copy is deleted: The copy of orders in")
    assert "readers" in report.error


def test_a_partly_failed_deletion_names_the_deleted_copies(
    store: MemoryStore, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two copies, of which the cluster deletes the first and refuses the second
    west = West(0)
    use(west, monkeypatch)
    there = {"orders": "01", "bills": "02"}

    def deletes_one(ids: Mapping[str, str], *_: object) -> tuple[str, ...]:
        del there["bills"]
        raise KafkaAdminError("west", "not now.")

    monkeypatch.setattr(west, "delete_topics", deletes_one)
    monkeypatch.setattr(west, "topic_ids", lambda names: {name: there[name] for name in names if name in there})
    bills = Mirror.of("bills", "east", "west", "link", "2026-01-01T00:00:00Z", "test")
    puts = ORDERS, MIRROR, Topic(name="bills", writer="east", partitions={0: identity("east")}), bills
    store.commit(StateChange(change_id="link", puts=puts, expected={key_of(one): None for one in puts}))
    with beginning(environment, "unlink", "not needed", ["topic:orders", "topic:bills"]) as journal:
        journal.note(mirrors=(MIRROR, bills), deletes_in="west", topic_ids=dict(there))
        commit_single(journal, (), {KEY: 0, (Mirror, bills.key): 0}, {})
    # When it goes on to its end
    report = engine.resume(environment, journal.operation.id)
    # Then it says which copy is gone
    assert "The mirrors of orders, bills have ended. Copies of bills are deleted." in report.error
