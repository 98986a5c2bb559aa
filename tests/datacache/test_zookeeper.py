"""How nodes take part, on a tree in memory and on a real ZooKeeper."""

import pytest

from ha_core.datacache.core.cache import ContentCommit
from ha_core.datacache.core.errors import NodeIdTakenError, UnknownNodeError
from ha_core.datacache.core.uncommitted import Interval
from ha_core.datacache.nodes import LiveNode, Published
from ha_core.datacache.zookeeper import CacheNodes, Members
from ha_core.store.errors import StoreUnavailableError
from tests.kit.waiting import until
from tests.store.sessions import Session

FIRST = Published(Interval(1, 2), 1, "host-a process 7")


def nodes(session: Session, name: str = "users") -> CacheNodes:
    made = CacheNodes(session.store.tree, name)
    made.create()
    return made


def live(session: Session) -> dict[str, LiveNode]:
    seen = nodes(session)
    return {node.member.node: node for node in seen.members(session.store.tree, lambda: None).read()}


def test_a_node_is_visible_with_its_record_until_it_leaves(session: Session, other: Session) -> None:
    # Given a node that takes part
    own = nodes(session)
    own.join("gw-1", FIRST)
    assert live(other)["gw-1"].published == FIRST

    own.leave("gw-1")

    assert live(other) == {}


def test_a_second_process_with_a_live_node_id_is_refused_and_the_holder_is_named(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes(session).join("gw-1", FIRST)
    monkeypatch.setattr(other.store.tree, "session_timeout_s", 0.2)

    with pytest.raises(
        NodeIdTakenError, match=r"node gw-1 of the cache users is host-a process 7 \(ZooKeeper session 0x"
    ):
        nodes(other).join("gw-1", Published(who="host-b process 9"))

    assert live(session)["gw-1"].published == FIRST


def test_the_same_node_id_takes_part_in_several_caches(session: Session) -> None:
    nodes(session, "users").join("gw-1", FIRST)

    nodes(session, "rules").join("gw-1", FIRST)

    assert set(live(session)) == {"gw-1"}


def test_nodes_are_in_order_of_creation_and_a_node_whose_session_was_lost_is_the_last(
    session: Session, other: Session
) -> None:
    # Given two nodes, the one that is last by name created first
    own, theirs = nodes(session), nodes(other)
    own.join("z", FIRST)
    theirs.join("a", FIRST)
    live_nodes = live(other)
    assert live_nodes["z"].member.created < live_nodes["a"].member.created

    session.expire()
    own.publish("z", FIRST)

    live_nodes = live(other)
    assert live_nodes["a"].member.created < live_nodes["z"].member.created


def test_publishing_a_new_record_keeps_the_order_of_creation(session: Session, other: Session) -> None:
    own = nodes(session)
    own.join("z", FIRST)
    nodes(other).join("a", FIRST)

    own.publish("z", Published(Interval(1, 9), 2, "host-a process 7"))

    live_nodes = live(other)
    assert live_nodes["z"].member.created < live_nodes["a"].member.created
    assert live_nodes["z"].member.holds == Interval(1, 9)


def test_a_single_read_and_a_bulk_read_of_a_node_agree(session: Session) -> None:
    nodes(session).join("gw-1", FIRST)
    paths = ["/DataCache/users/sync/gw-1", "/DataCache/users/commit", "/DataCache/none"]

    many = session.store.tree.get_many(paths)

    assert many == [session.store.tree.get(path) for path in paths]
    assert many[0] is not None
    assert many[0].created > 0


@pytest.mark.parametrize("made", [True, False])
def test_publishing_survives_a_lost_reply(session: Session, other: Session, made: bool) -> None:
    own = nodes(session)
    session.lose_next_reply(made)

    own.join("gw-1", FIRST)

    assert live(other)["gw-1"].published == FIRST


def test_the_second_of_two_concurrent_commits_writes_nothing(session: Session, other: Session) -> None:
    # Given two that have read the same
    own, theirs = nodes(session), nodes(other)
    read, read_too = own.commit(session.store.tree)[1], theirs.commit(other.store.tree)[1]

    assert own.write_commit(ContentCommit(9, 1), "gw-1", read)
    assert not theirs.write_commit(ContentCommit(5, 2), "gw-2", read_too)

    assert theirs.commit(other.store.tree)[0] == ContentCommit(9, 1)


@pytest.mark.parametrize("made", [True, False])
def test_a_commit_with_a_lost_reply_is_read_back(session: Session, other: Session, made: bool) -> None:
    own = nodes(session)
    read = own.commit(session.store.tree)[1]
    session.lose_next_reply(made)

    assert not own.write_commit(ContentCommit(9, 1), "gw-1", read)

    assert nodes(other).commit(other.store.tree)[0] == (ContentCommit(9, 1) if made else None)


def test_watchers_are_woken_by_a_commit_a_reload_a_change_and_by_nodes_that_come_change_and_go(
    session: Session, other: Session
) -> None:
    # Given a node that watches everything
    own, theirs = nodes(session), nodes(other)
    woken: list[str] = []
    tree = session.store.tree
    own.commit(tree, lambda: woken.append("commit"))
    own.reloads(tree, lambda: woken.append("reload"))
    own.changed(tree, lambda: woken.append("changed"))
    members = own.members(tree, lambda: woken.append("members"))
    members.read()

    # When others do all that
    theirs.write_commit(ContentCommit(1, 1), "gw-2", theirs.commit(other.store.tree)[1])
    until(lambda: "commit" in woken, "commit")
    theirs.announce()
    until(lambda: "changed" in woken, "changed")
    theirs.join("gw-2", FIRST)
    until(lambda: woken.count("members") == 1, "came")
    until(lambda: [node.published for node in members.read()] == [FIRST], "read")
    theirs.publish("gw-2", Published(Interval(1, 3)))
    until(lambda: woken.count("members") == 2, "changed")
    until(lambda: [node.published.holds for node in members.read()] == [Interval(1, 3)], "read")
    theirs.ask_reload("gw-2")
    until(lambda: "reload" in woken, "reload")
    theirs.leave("gw-2")

    # Then it is woken by each
    until(lambda: members.read() == [], "gone")


def test_a_reload_is_for_the_named_node_or_for_all(session: Session, other: Session) -> None:
    # Given two nodes
    own, theirs = nodes(session), nodes(other)
    own.join("gw-1", FIRST)
    theirs.join("gw-2", FIRST)
    before = own.reloads(session.store.tree)

    assert own.ask_reload("gw-2") == ["gw-2"]
    reloads = own.reloads(session.store.tree)
    assert own.ask_reload() == ["gw-1", "gw-2"]
    everybody = own.reloads(session.store.tree)

    assert reloads.of("gw-1") == before.of("gw-1")
    assert reloads.of("gw-2") != before.of("gw-2")
    assert all(everybody.of(node) != reloads.of(node) for node in ("gw-1", "gw-2"))


def test_a_reload_of_an_unknown_node_is_refused_with_the_live_ones(session: Session) -> None:
    own = nodes(session)
    own.join("gw-1", FIRST)

    with pytest.raises(UnknownNodeError, match="no node gw-7: live are gw-1"):
        own.ask_reload("gw-7")


def test_a_record_of_another_version_counts_as_nothing_read(session: Session, other: Session) -> None:
    nodes(session).join("gw-1", FIRST)
    other.plant("/DataCache/users/sync/gw-1", b"{")

    assert live(other)["gw-1"].member.holds is None


def test_members_that_could_not_be_read_are_read_at_the_next_look(session: Session, other: Session) -> None:
    # Given members that were read, and a change that is known of
    own, theirs = nodes(session), nodes(other)
    theirs.join("gw-2", FIRST)
    woken: list[None] = []
    members: Members = own.members(session.store.tree.impatient(), lambda: woken.append(None))
    members.read()
    theirs.publish("gw-2", Published(Interval(1, 3)))
    until(lambda: bool(woken), "woken")
    session.suspend()

    with pytest.raises(StoreUnavailableError):
        until(lambda: members.read() is None, "cut off")
    session.resume()

    def seen() -> bool:
        try:
            return [node.published.holds for node in members.read()] == [Interval(1, 3)]
        except StoreUnavailableError:
            return False

    until(seen, "read")
