"""Rules that keep writers out of a copy, placed by who stood still while it became the writer: without clusters."""

import pytest

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Document, Mirror
from ha_core.operations.copies.syncing.pair import MirrorPair, SyncOvertakenError
from ha_core.operations.copies.syncing.rights import remove_guards, sync_rights
from ha_core.plan.mirror.copy_guard import guard, guards
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore
from tests.kit.access_rules import Rules

MIRROR = Mirror.of("orders", "east", "west", "link", "2026-01-01T00:00:00Z", "test")


@pytest.fixture
def mirrored(store: MemoryStore) -> MemoryStore:
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, MIRROR.key): None}
    store.commit(StateChange(change_id="link", puts=(MIRROR,), expected=expected))
    return store


def looked_at(store: MemoryStore, west: Rules) -> None:
    sync_rights(MirrorPair(store.client(), Rules("east"), west, "2026-01-01T00:00:00Z"), ["orders"])  # type: ignore[arg-type]


def switched(store: MemoryStore, west: Rules) -> None:
    """A switch: ends the mirror, and removes the guard if there is one."""
    found = store.client().read(Mirror, MIRROR.key)
    assert found is not None
    store.client().commit(
        StateChange(change_id="cut", deletes=((Mirror, MIRROR.key),), expected={(Mirror, MIRROR.key): found[1]})
    )
    remove_guards(west, west.access_rules(), ["orders"], lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("halted", [0, 1], ids=["before the marker", "before the rule"])
def test_a_copier_that_stalled_over_the_switch_leaves_no_guard_on_the_new_writer(
    mirrored: MemoryStore, halted: int
) -> None:
    # Given a look at the mirror that stands still when it may place its rules, until a switch is over
    west = Rules("west")
    west.halt[guard("orders")[halted]] = lambda: switched(mirrored, west)
    # When it goes on
    with pytest.raises(SyncOvertakenError, match="has ended"):
        looked_at(mirrored, west)
    # Then no writer is denied, and no later pass has to know whose the rule was
    assert not west.there - {guard("orders")[0]}


def test_the_copy_of_a_linked_mirror_is_guarded(mirrored: MemoryStore) -> None:
    west = Rules("west")
    looked_at(mirrored, west)
    assert west.there == guards(["orders"])


@pytest.mark.parametrize("dead", ["east", "west"])
def test_a_leftover_guard_is_removed_although_the_other_cluster_is_dead(mirrored: MemoryStore, dead: str) -> None:
    # Given a cluster with the guard of a mirror that has ended, and a mirror that stands, whose other side is dead
    clusters = {name: Rules(name) for name in ("east", "west")}
    clusters[dead].refusal = KafkaAdminError(dead, "not now.")
    (lives,) = clusters.keys() - {dead}
    clusters[lives].there = {*guards(["bills"])}
    # When the pair is looked at
    pair = MirrorPair(mirrored.client(), clusters["east"], clusters["west"], "2026-01-01T00:00:00Z")  # type: ignore[arg-type]
    with pytest.raises(KafkaAdminError):
        sync_rights(pair, ["orders"])
    # Then no writer is denied
    assert clusters[lives].there == set()
