"""Access rules that were revoked in the source of a mirror: those that the mirror has brought go, if it is asked to."""

import time
from collections.abc import Callable, Collection

import pytest

from ha_core.model import Document, Mirror
from ha_core.operations.copies.syncing.pair import FRESH_S, MirrorPair, SyncOvertakenError
from ha_core.operations.copies.syncing.rights import sync_rights
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.copy_guard import guards
from ha_core.store.commits import StateChange
from ha_core.store.store import Store
from stack.memory_store import MemoryStore
from tests.kit.access_rules import Rules

READ, WRITE, DESCRIBE = 3, 4, 8
MIRROR = Mirror.of("orders", "east", "west", "link", "2026-01-01T00:00:00Z", "test")


def rule(principal: str, operation: int = READ, name: str = "orders", allows: bool = True) -> TopicAcl:
    return TopicAcl("literal", name, f"User:{principal}", "*", operation, allows)


ANN, BOB, OWN, EVE = rule("ann"), rule("bob", DESCRIBE), rule("own"), rule("eve", allows=False)
OTHER = rule("zoe", name="bills")
"""A rule of the source for another topic."""


class Mirrored:
    """A mirror of `orders` from east to west."""

    def __init__(self, removes: bool = True) -> None:
        self.store = MemoryStore()
        self.east, self.west = Rules("east"), Rules("west")
        mirror = MIRROR.changed(remove_revoked_rights=removes)
        expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None}
        self.store.commit(StateChange(change_id="link", puts=(mirror,), expected=expected))

    def pair(self, store: Store | None = None, dry_run: bool = False) -> MirrorPair:
        clusters = self.east, self.west
        return MirrorPair(store or self.store.client(), *clusters, "2026-01-01T00:00:00Z", dry_run=dry_run)  # type: ignore[arg-type]

    def look(self, dry_run: bool = False) -> MirrorPair:
        pair = self.pair(dry_run=dry_run)
        sync_rights(pair, ["orders"])
        return pair

    @property
    def rules(self) -> set[TopicAcl]:
        """Those of the copy, without its guard."""
        return self.west.there - guards(["orders"])


def test_what_a_mirror_has_brought_goes_with_its_source_and_what_the_target_has_of_its_own_stays() -> None:
    # Given a mirror that has brought rules, and a rule of the target
    mirrored = Mirrored()
    mirrored.east.there, mirrored.west.there = {ANN, BOB, EVE, OTHER}, {OWN}
    mirrored.look()
    assert mirrored.rules == {ANN, BOB, EVE, OWN}
    # When some are revoked in the source, a dry run shows it and changes nothing
    mirrored.east.there = {BOB, OTHER}
    looked = mirrored.look(dry_run=True)
    assert mirrored.rules == {ANN, BOB, EVE, OWN}
    # Then the next look removes them, and says so
    done = mirrored.look()
    assert mirrored.rules == {BOB, OWN}
    assert [change.text for change in done.changes] == [change.text for change in looked.changes]
    assert [change.text.split(":")[1] for change in done.changes] == ["ann may no longer READ", "eve may again READ"]
    # And the rule of the target is told, as before
    assert [one.reason.split(" it in ")[0] for one in done.findings] == ["User:own may READ"]
    assert mirrored.look().changes == []


def test_by_default_nothing_is_removed() -> None:
    mirrored = Mirrored(removes=False)
    mirrored.east.there = {ANN, BOB}
    mirrored.look()
    mirrored.east.there = {BOB}
    assert [one.about for one in mirrored.look().findings] == ["topic orders"]
    assert mirrored.rules == {ANN, BOB}


def test_a_rule_that_was_there_before_or_was_made_again_by_hand_is_the_targets_own() -> None:
    # Given a rule that both clusters had, and one that was brought, taken away in the target, and revoked
    mirrored = Mirrored()
    mirrored.east.there, mirrored.west.there = {OWN, ANN, BOB}, {OWN}
    mirrored.look()
    mirrored.west.there -= {ANN}
    mirrored.east.there = {BOB}
    mirrored.look()
    # When the target's operators make it again
    mirrored.west.there |= {ANN}
    # Then it stays, as does the other
    mirrored.look()
    assert mirrored.rules == {OWN, ANN, BOB}


def test_a_source_that_lists_no_rule_at_all_takes_none_away() -> None:
    # Given rules that were brought, and a source whose rules are gone all at once
    mirrored = Mirrored()
    mirrored.east.there, mirrored.west.there = {ANN, BOB}, {OWN}
    mirrored.look()
    mirrored.east.there = set()
    # Then they stay, and that is told
    found = mirrored.look()
    assert mirrored.rules == {ANN, BOB, OWN}
    assert "east lists no rule at all: 2 rules stay that mirrors have brought" in found.findings[0].reason


def test_the_last_rules_of_a_topic_stay_because_brokers_may_let_everybody_in_without_any() -> None:
    mirrored = Mirrored()
    mirrored.east.there = {ANN, OTHER}
    mirrored.look()
    mirrored.east.there = {OTHER}
    found = mirrored.look()
    assert mirrored.rules == {ANN}
    (finding,) = found.findings
    assert finding.about == "topic orders"
    assert (
        "east has revoked rules of User:ann. They stay, as no other rule of west concerns the topic" in finding.reason
    )


def test_a_rule_that_was_added_by_a_process_that_died_before_it_noted_it_stays() -> None:
    # Given a process that dies when it has added a rule
    mirrored = Mirrored()
    mirrored.east.there, mirrored.west.there = {ANN, BOB}, {OWN}
    store = mirrored.store.client()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    store.note_brought = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        sync_rights(mirrored.pair(store), ["orders"])
    # When the rule is revoked, then it is the target's own, for no document says otherwise
    mirrored.east.there = {BOB}
    mirrored.look()
    assert mirrored.rules == {ANN, BOB, OWN}


def test_a_process_that_stands_still_until_the_mirror_has_ended_removes_nothing() -> None:
    # Given a look that stands still when it is about to remove a rule, until the mirror has ended
    mirrored = Mirrored()
    mirrored.east.there, mirrored.west.there = {ANN, BOB}, {OWN}
    mirrored.look()
    mirrored.east.there = {BOB}
    remove = mirrored.west.remove_access_rules

    def late(rules: Collection[TopicAcl], still_ours: Callable[[], None], _: object = None) -> None:
        store = mirrored.store.client()
        if (found := store.read(Mirror, MIRROR.key)) is not None:
            expected: dict[tuple[type[Document], str], int | None] = {(Mirror, MIRROR.key): found[1]}
            store.commit(StateChange(change_id="cut", deletes=((Mirror, MIRROR.key),), expected=expected))
            time.sleep(FRESH_S + 0.1)
        remove(rules, still_ours)

    mirrored.west.remove_access_rules = late  # type: ignore[method-assign]
    # When it goes on, then it finds that out
    with pytest.raises(SyncOvertakenError, match="has ended"):
        mirrored.look()
    assert mirrored.rules >= {ANN, BOB, OWN}
    # And the rules that the mirror had brought are the target's own from then on
    mirrored.look()
    assert mirrored.rules >= {ANN, BOB, OWN}
    assert mirrored.store.client().brought_rights([(MIRROR.key, MIRROR.link)]) == {}
