"""Guards that an ordinary account places around its copies, by the principal that its security profile names."""

import pytest

from ha_core.model import Document, Mirror
from ha_core.operations.copies.syncing.pair import MirrorPair
from ha_core.operations.copies.syncing.rights import sync_rights
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.copy_guard import guard, guards
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore
from tests.kit.access_rules import Rules

MIRROR = Mirror.of("orders", "east", "west", "link", "2026-01-01T00:00:00Z", "test")
COPIER, ANN = "User:copier", "User:ann"
ALLOWED = {TopicAcl("literal", "orders", principal, "*", 4, True) for principal in (COPIER, ANN)}


@pytest.fixture
def mirrored(store: MemoryStore) -> MemoryStore:
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, MIRROR.key): None}
    store.commit(StateChange(change_id="link", puts=(MIRROR,), expected=expected))
    return store


def looked_at(store: MemoryStore, west: Rules, copies: bool = True) -> MirrorPair:
    pair = MirrorPair(store.client(), Rules("east"), west, "2026-01-01T00:00:00Z", copies=copies)  # type: ignore[arg-type]
    sync_rights(pair, ["orders"])
    return pair


def findings(pair: MirrorPair) -> str:
    return " ".join(finding.reason for finding in pair.findings if finding.about == "cluster west")


def test_all_other_writers_are_denied_when_the_profile_names_the_account(mirrored: MemoryStore) -> None:
    west = Rules("west", COPIER, named=COPIER)
    west.there = {*ALLOWED}
    assert findings(looked_at(mirrored, west)) == ""
    assert west.there == {*ALLOWED, *guard("orders", ANN)}


@pytest.mark.parametrize("named", ["", "User:eve"])
def test_no_rule_is_written_when_the_profile_names_no_writer(mirrored: MemoryStore, named: str) -> None:
    west = Rules("west", COPIER, named=named)
    west.there = {*ALLOWED}
    # When the copy is looked at
    text = findings(looked_at(mirrored, west))
    # Then nothing has changed, and the finding has the writers and the way out
    assert west.there == ALLOWED
    assert f"brokers do not refuse {ANN}, {COPIER}" in text
    assert "security profile sasl (`principal: User:NAME`)" in text


def test_an_account_that_its_own_guards_would_lock_out_is_let_in_again(mirrored: MemoryStore) -> None:
    """The profile names another account that may write."""
    west = Rules("west", COPIER, named=ANN)
    west.there = {*ALLOWED}
    # When the copy is looked at
    pair = looked_at(mirrored, west)
    # Then no guard is left
    assert west.there == ALLOWED
    assert f"may not write to orders under guards that spare {ANN}" in findings(pair)
    assert "Correct `principal` in the job's security profile sasl" in findings(pair)
    assert pair.changes == []


def test_an_account_that_its_profile_does_not_name_is_let_in_where_an_earlier_accounts_guards_deny_it(
    mirrored: MemoryStore,
) -> None:
    # Given guards that an earlier account has placed, which spare it and deny the present one
    west = Rules("west", COPIER, named="")
    west.there = {*ALLOWED, *guard("orders", COPIER)}
    # When the copy is looked at
    text = findings(looked_at(mirrored, west))
    # Then the account may write, and the finding says what was removed
    assert west.there == ALLOWED
    assert "guards of another account there kept the account that copies out of orders. They are removed" in text


def test_guards_against_the_account_from_an_earlier_look_are_removed(mirrored: MemoryStore) -> None:
    # Given a job that died after it had placed guards for the wrong principal
    west = Rules("west", COPIER, named=ANN)
    west.there = {*ALLOWED, *guard("orders", COPIER)}
    # When the next one looks at the copy
    looked_at(mirrored, west)
    # Then no writer is denied
    assert west.there == ALLOWED


@pytest.mark.parametrize("named", ["", ANN])
def test_guards_that_leave_only_the_account_stay_whatever_its_profile_names(mirrored: MemoryStore, named: str) -> None:
    west = Rules("west", COPIER, named=named)
    west.there = {*ALLOWED, *guard("orders", ANN)}
    assert findings(looked_at(mirrored, west)) == ""
    assert west.there == {*ALLOWED, *guard("orders", ANN)}


def test_a_newly_named_account_is_spared_in_place_of_the_old_one(mirrored: MemoryStore) -> None:
    west = Rules("west", ANN, named=ANN)
    west.there = {*ALLOWED, *guard("orders", ANN)}
    text = findings(looked_at(mirrored, west))
    assert west.there == {*ALLOWED, *guard("orders", COPIER)}
    assert f"Now {ANN} is spared" in text


def test_a_guard_against_all_gives_way_to_one_that_spares_the_account(mirrored: MemoryStore) -> None:
    west = Rules("west", COPIER, named=COPIER)
    west.there = {*ALLOWED, *guards(["orders"])}
    text = findings(looked_at(mirrored, west))
    assert west.there == {*ALLOWED, *guard("orders", ANN)}
    assert "Use one account, or super users" in text


def test_a_process_that_does_not_copy_places_no_guard_by_name(mirrored: MemoryStore) -> None:
    west = Rules("west", COPIER, named=COPIER)
    west.there = {*ALLOWED}
    text = findings(looked_at(mirrored, west, copies=False))
    assert west.there == ALLOWED
    assert "then the job that copies denies others by name" in text
