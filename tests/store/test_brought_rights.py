"""Access rules that mirrors have brought, as several processes note them."""

from ha_core.model.brought_rights import MAX_BROUGHT, BroughtRule
from ha_core.store.paths import encode
from ha_core.store.tree import Create, Put
from stack.memory_store import MemoryStore

KEY, LINK = "orders@west", "link-1"
ANN, BOB = (BroughtRule(f"User:{name}", "*", 3, True) for name in ("ann", "bob"))


def test_rules_of_a_mirror_are_noted_and_forgotten() -> None:
    store = MemoryStore()
    one, other = store.client(), store.client()
    one.note_brought(KEY, LINK, [ANN])
    other.note_brought(KEY, LINK, [BOB])
    assert one.brought_rights([(KEY, LINK), ("none@west", LINK)]) == {KEY: {ANN, BOB}}
    one.note_brought(KEY, LINK, gone=[ANN])
    assert other.brought_rights([(KEY, LINK)]) == {KEY: {BOB}}


def test_rules_of_an_earlier_mirror_are_the_targets_own() -> None:
    store = MemoryStore().client()
    store.note_brought(KEY, LINK, [ANN])
    # When the topic is linked anew
    assert store.brought_rights([(KEY, "link-2")]) == {}
    store.note_brought(KEY, "link-2", [BOB])
    # Then only what that mirror brings is its
    assert store.brought_rights([(KEY, "link-2")]) == {KEY: {BOB}}
    # But a mirror that goes on from another source keeps what it has brought
    store.pass_on_brought(KEY, "link-2", "switch-1")
    store.pass_on_brought(KEY, "link-2", "switch-2")
    store.pass_on_brought("none@west", "link-2", "switch-2")
    assert store.brought_rights([(KEY, "switch-1"), ("none@west", "switch-2")]) == {KEY: {BOB}}


def test_rules_of_ended_mirrors_are_forgotten() -> None:
    store = MemoryStore().client()
    for key in (KEY, "bills@west"):
        store.note_brought(key, LINK, [ANN])
    store.forget_brought(lambda key: key == KEY)
    assert store.brought_rights([(KEY, LINK), ("bills@west", LINK)]) == {KEY: {ANN}}


def test_a_document_of_a_later_version_counts_as_none_and_stays() -> None:
    memory = MemoryStore()
    store, path = memory.client(), f"/brought_rights/{encode(KEY)}"
    later = b'{"schema": 99, "key": "orders@west", "link": "link-1"}'
    store.tree.write([Create(path, later)])
    assert store.brought_rights([(KEY, LINK)]) == {}
    store.note_brought(KEY, LINK, [ANN])
    node = store.tree.get(path)
    assert node is not None
    assert node.data == later
    assert Put(path, later, node.version)


def test_no_more_rules_are_noted_than_a_document_can_hold() -> None:
    store = MemoryStore().client()
    store.note_brought(KEY, LINK, (BroughtRule(f"User:{n}", "*", 3, True) for n in range(MAX_BROUGHT + 5)))
    assert len(store.brought_rights([(KEY, LINK)])[KEY]) == MAX_BROUGHT
