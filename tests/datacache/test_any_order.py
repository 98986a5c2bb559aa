"""Nodes that fail in any order never serve two contents with one commit time.

Real nodes on a tree in memory, without their threads: reads, looks, the arrival of answers, and the time
are drawn.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ha_core.datacache.cache import DataCache
from ha_core.datacache.core.cache import Cache, CommitOutcome, ContentCommit
from ha_core.datacache.core.errors import DataCacheError
from ha_core.datacache.core.source import Changes
from ha_core.datacache.core.uncommitted import UncommittedChanges
from ha_core.datacache.nodes import Paths, commit_from_bytes, commit_to_bytes
from ha_core.datacache.state import CacheSettings
from ha_core.store.errors import StoreError
from stack.memory_store import MemoryStore

from .sources import History, values

NODES = 3
HOLD_S = 10.0
PAGE = 3
KEYS = st.sampled_from("abcd")
NODE = st.integers(0, NODES - 1)


@dataclass
class Process:
    """One process: it may be dead, stand still, or be cut off, and answers to it may be late."""

    name: str
    store: MemoryStore
    cache: DataCache
    suspended: bool = False
    answers: list[tuple[int, Changes]] = field(default_factory=list)


class World(RuleBasedStateMachine):
    """The steps that are drawn, and the invariants."""

    KEEPS_ALL: ClassVar[bool] = True
    TRUE: ClassVar[bool] = True
    """The source never loses changes, so that there is one right content at each time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.history = History(self.KEEPS_ALL)
        self.first = MemoryStore()
        self.nodes: list[Process] = []
        self.served: dict[int, dict[str, Any]] = {}
        """Commit time → the content that the first node at that time served."""
        self.committed_us = -1
        self.mains: dict[int, int] = {}

    @initialize(keys=st.lists(KEYS, max_size=4))
    def begin(self, keys: list[str]) -> None:
        for key in keys:
            self.history.change(key, "first")
        for number in range(NODES):
            self.nodes.append(self._begun(number))

    def _begun(self, number: int) -> Process:
        store = self.first.client()
        cache = DataCache(
            "users",
            f"gw-{number}",
            self.history,
            store.tree,
            CacheSettings(hold_s=HOLD_S, page_rows=PAGE),
            clock_s=lambda: self.now_s,
        )
        cache._nodes.create()
        cache._nodes.join(cache.node, cache._published)
        cache._connected = True
        return Process(cache.node, store, cache)

    @rule(key=KEYS, value=st.sampled_from(["x", "y", None]), jump_us=st.integers(-5, 5))
    def the_source_is_changed(self, key: str, value: str | None, jump_us: int) -> None:
        self.history.change(key, value, self.history.last_us + jump_us)

    @precondition(lambda self: self.history.versions)
    @rule(data=st.data(), deletions=st.booleans())
    def the_source_forgets_old_versions(self, data: st.DataObject, deletions: bool) -> None:
        at_us = data.draw(st.integers(1, self.history.newest_us))
        (self.history.forget_deletions if deletions else self.history.prune)(at_us)

    @rule(number=NODE)
    def a_node_asks_the_source(self, number: int) -> None:
        node = self.nodes[number]
        after_us = node.cache._cache.after_us
        if len(node.answers) < 2:
            node.answers.append((after_us, self.history.changes(after_us, PAGE)))

    @rule(number=NODE)
    def an_answer_arrives(self, number: int) -> None:
        node = self.nodes[number]
        if node.answers:
            after_us, changes = node.answers.pop(0)
            with contextlib.suppress(DataCacheError):
                node.cache._cache.accept(changes, after_us, PAGE)

    @rule(number=NODE)
    def a_node_looks(self, number: int) -> None:
        self._look(self.nodes[number])

    @rule(number=NODE, other=NODE, calls=st.integers(0, 8))
    def a_node_stands_still_in_its_look_while_another_one_looks(self, number: int, other: int, calls: int) -> None:
        node, tree = self.nodes[number], self.nodes[number].store._memory_tree
        left = [calls]
        get: Callable[..., Any] = tree.get

        def interrupted(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == -1 and other != number:
                self._look(self.nodes[other])
            return get(*arguments)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tree, "get", interrupted)
            self._look(node)

    @rule(number=NODE, made=st.booleans())
    def a_reply_is_lost(self, number: int, made: bool) -> None:
        if not self.nodes[number].store.losses_left():
            self.nodes[number].store.lose_next_reply(made)

    @rule(number=NODE)
    def a_node_is_cut_off_or_back(self, number: int) -> None:
        node = self.nodes[number]
        (node.store.resume if node.suspended else node.store.suspend)()
        node.suspended = not node.suspended
        node.cache._members.forget()

    @rule(number=NODE)
    def a_session_is_lost(self, number: int) -> None:
        node = self.nodes[number]
        node.store.expire_session()
        node.suspended = False
        node.cache._members.forget()

    @rule(number=NODE)
    def a_node_dies_and_starts_anew(self, number: int) -> None:
        self.nodes[number].store.close()
        del self.mains[number]
        self.nodes[number] = self._begun(number)

    @rule(number=NODE)
    def a_node_reads_everything_anew(self, number: int) -> None:
        self.nodes[number].cache.reload()

    @rule(wait_s=st.sampled_from([1.0, HOLD_S, 3 * HOLD_S]))
    def time_passes(self, wait_s: float) -> None:
        self.now_s += wait_s

    @rule()
    def all_is_well_for_a_while(self) -> None:
        """Then all serve the source's content."""
        for node in self.nodes:
            if node.suspended:
                node.store.resume()
                node.suspended = False
            node.answers.clear()
        for _ in range(3 * NODES):
            for node in self.nodes:
                for _ in range(len(self.history.versions) + 2):
                    self._read(node)
                self._look(node)
            self.now_s += HOLD_S
        for node in self.nodes:
            main = node.cache.main
            assert main is not None, f"{node.name} serves nothing"
            assert main.at_us == self.history.newest_us, f"{node.name} has stopped at {main.at_us}"
            assert values(main.rows) == self.history.content(main.at_us)

    def _read(self, node: Process) -> None:
        after_us = node.cache._cache.after_us
        with contextlib.suppress(DataCacheError):
            node.cache._cache.accept(self.history.changes(after_us, PAGE), after_us, PAGE)

    def _look(self, node: Process) -> None:
        with contextlib.suppress(StoreError, DataCacheError):
            node.cache._look()

    @invariant()
    def one_commit_time_has_one_content(self) -> None:
        for number, node in enumerate(self.nodes):
            main = node.cache.main
            if main is None:
                self.mains.setdefault(number, 0)
                continue
            content = values(main.rows)
            assert self.served.setdefault(main.at_us, content) == content, f"two contents of {main.at_us}"
            if self.TRUE:
                assert content == self.history.content(main.at_us), f"not the content of {main.at_us}"
            assert main.at_us >= self.mains.get(number, 0), f"{node.name} went back"
            self.mains[number] = main.at_us

    @invariant()
    def the_commit_time_never_goes_back(self) -> None:
        node = self.first.tree.get(Paths("users").commit)
        commit = None if node is None else commit_from_bytes(node.data, "commit")
        if commit is not None:
            assert commit.at_us >= self.committed_us, f"the commit time went from {self.committed_us} to {commit.at_us}"
            self.committed_us = commit.at_us


class OnlyNewestVersions(World):
    """The source replaces rows in place."""

    KEEPS_ALL = False


class Restored(World):
    """The source is restored from a backup now and then, and loses changes that nodes have read."""

    TRUE = False

    @precondition(lambda self: self.history.versions)
    @rule(data=st.data())
    def the_source_is_restored(self, data: st.DataObject) -> None:
        self.history.restore(data.draw(st.integers(0, self.history.newest_us)))

    @rule()
    def all_is_well_for_a_while(self) -> None:
        """Comparing finds the lost changes, and the next change brings all nodes there."""
        for node in self.nodes:
            if node.suspended:
                node.store.resume()
                node.suspended = False
            node.answers.clear()
            node.cache.reload()
        self.history.change("a", "after")
        super().all_is_well_for_a_while()


FEW = settings(max_examples=60, stateful_step_count=50, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("world", [World, OnlyNewestVersions, Restored])
def test_one_commit_time_has_one_content_in_any_order_of_failures(world: type[World]) -> None:
    run_state_machine_as_test(world, settings=FEW)


def _read_and_look(world: World, *numbers: int) -> None:
    for number in numbers:
        world.a_node_asks_the_source(number)
        world.an_answer_arrives(number)
        world.a_node_looks(number)


def _a_commit_between_two_versions() -> World:
    """The second node reads between two changes of a key, the first one, which leads, after them."""
    world = OnlyNewestVersions()
    world.begin(["a"])
    _read_and_look(world, 1)
    world.history.change("a", "x")
    world.a_node_asks_the_source(1)
    world.an_answer_arrives(1)
    world.history.change("a", "y")
    _read_and_look(world, 0)
    world.a_node_looks(1)
    world.a_node_looks(0)
    return world


def _a_commit_without_one_that_cannot_read() -> World:
    world = World()
    world.begin(["a"])
    _read_and_look(world, 0, 1)
    world.history.change("a", "y")
    _read_and_look(world, 0)
    world.time_passes(HOLD_S)
    world.a_node_looks(0)
    world.a_node_looks(1)
    return world


def _a_deletion_that_was_forgotten() -> World:
    world = World()
    world.begin(["a"])
    _read_and_look(world, 0)
    world.history.change("a", None)
    world.history.forget_deletions(2)
    _read_and_look(world, 0)
    return world


def _all_well() -> World:
    world = World()
    world.begin(["a"])
    world.all_is_well_for_a_while()
    return world


def _adds_up_whatever_is_missing(held: UncommittedChanges, changes: Changes) -> None:
    _ADD(held, changes._replace(exact_from_us=0))


def _commits_whatever_was_read(cache: Cache, commit: ContentCommit) -> CommitOutcome:
    if cache._held is None or (cache.main is not None and commit.at_us <= cache.main.at_us):
        return CommitOutcome.THERE
    cache.main = cache._held.at(commit.at_us)
    cache._held.let_go(cache.main)
    return CommitOutcome.COMMITTED


def _keeps_keys_whose_deletion_was_forgotten(cache: Cache, changes: Changes, after_us: int, limit: int) -> bool:
    return _TAKE(cache, changes._replace(deletions_from_us=0), after_us, limit)


def _proposes_nothing(cache: Cache, at_us: int) -> ContentCommit | None:
    return None


_ADD, _TAKE = UncommittedChanges.add, Cache.accept
PLANTED = [
    (_a_commit_between_two_versions, UncommittedChanges, "add", _adds_up_whatever_is_missing, "not the content of 2"),
    (_a_commit_without_one_that_cannot_read, Cache, "commit", _commits_whatever_was_read, "two contents of 2"),
    (_a_deletion_that_was_forgotten, Cache, "accept", _keeps_keys_whose_deletion_was_forgotten, "not the content of 2"),
    (_all_well, Cache, "proposal", _proposes_nothing, "serves nothing"),
]


def _check(history: Callable[[], World]) -> None:
    world = history()
    world.one_commit_time_has_one_content()
    world.the_commit_time_never_goes_back()


@pytest.mark.parametrize(("history", "owner", "name", "planted", "found"), PLANTED)
def test_a_planted_fault_is_found_and_only_that(
    monkeypatch: pytest.MonkeyPatch,
    history: Callable[[], World],
    owner: type,
    name: str,
    planted: Callable[..., Any],
    found: str,
) -> None:
    _check(history)
    monkeypatch.setattr(owner, name, planted)

    with pytest.raises(AssertionError, match=found):
        _check(history)


def test_a_commit_time_that_goes_back_is_found_and_repaired_by_the_nodes() -> None:
    # Given a commit time of 2, and an operator with a shell
    world = _a_commit_without_one_that_cannot_read()
    world.the_commit_time_never_goes_back()
    world.first.plant(Paths("users").commit, commit_to_bytes(ContentCommit(1, 1), "somebody"))
    with pytest.raises(AssertionError, match="went from 2 to 1"):
        world.the_commit_time_never_goes_back()

    world.a_node_looks(0)

    world.the_commit_time_never_goes_back()
