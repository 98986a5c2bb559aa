import threading
from collections.abc import Callable, Sequence

import pytest

from ha_core.model import Extent, Topic, UserBindings, View
from ha_core.store.commits import StateChange
from ha_core.store.tree import Node, Reads
from ha_core.store.watching import StateReplica, StateWatcher
from tests.kit.waiting import until

from .documents import binding, operation, put
from .sessions import Session
from .waiting import DEADLINE_S, delivered


class Recorder:
    """Arguments of a watcher's callbacks, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[View, frozenset[str]] | str] = []
        self.threads: set[int] = set()

    def on_view(self, view: View, changed: frozenset[str]) -> None:
        self.threads.add(threading.get_ident())
        self.events.append((view, changed))

    def on_state(self, state: str) -> None:
        self.threads.add(threading.get_ident())
        self.events.append(state)

    @property
    def views(self) -> list[tuple[View, frozenset[str]]]:
        return [event for event in self.events if not isinstance(event, str)]

    @property
    def states(self) -> list[str]:
        return [event for event in self.events if isinstance(event, str)]


def watch(session: Session) -> tuple[Recorder, StateWatcher]:
    recorder = Recorder()
    return recorder, session.store.watch(recorder.on_view, recorder.on_state)


def test_the_first_view_is_whole_and_names_everything_in_it(session: Session, other: Session) -> None:
    other.store.commit(put(binding("ann"), Topic(name="orders", writer="east")))

    recorder, watcher = watch(session)
    view = delivered(watcher, 1)

    assert recorder.events == ["connected", (view, frozenset({"/bindings/ann", "/topics/orders"}))]
    assert view == other.store.load()


def test_each_commit_arrives_with_the_paths_that_changed(session: Session, other: Session) -> None:
    # Given a watcher
    recorder, watcher = watch(session)
    delivered(watcher, 0)
    # When documents are put and deleted
    other.store.commit(put(binding("ann")))
    delivered(watcher, 1)
    other.store.commit(StateChange("bye", deletes=((UserBindings, "ann"),), expected={(UserBindings, "ann"): 0}))
    delivered(watcher, 2)
    # Then each view comes with its changed paths
    assert [(view.revision, set(view.bindings), changed) for view, changed in recorder.views] == [
        (0, set(), frozenset()),
        (1, {"ann"}, frozenset({"/bindings/ann"})),
        (2, set(), frozenset({"/bindings/ann"})),
    ]


def test_a_view_that_was_delivered_never_changes(session: Session, other: Session) -> None:
    _, watcher = watch(session)
    other.store.commit(put(binding("ann")))
    first = delivered(watcher, 1)

    other.store.commit(put(binding("bob")))
    delivered(watcher, 2)

    assert first.revision == 1
    assert set(first.bindings) == {"ann"}


def test_callbacks_come_in_order_from_one_thread(session: Session, other: Session) -> None:
    recorder, watcher = watch(session)
    for number in range(30):
        other.store.commit(put(binding(f"user-{number}")))
    delivered(watcher, 30)

    revisions = [view.revision for view, _ in recorder.views]
    assert revisions == sorted(set(revisions))
    assert len(recorder.threads) == 1
    assert threading.get_ident() not in recorder.threads


class _Interrupted:
    """Reads during which another client commits: once, just before documents are read."""

    def __init__(self, reads: Reads, commit: Callable[[], object]) -> None:
        self._commit: Callable[[], object] | None = commit
        self.get, self.children, self.sync = reads.get, reads.children, reads.sync
        self._get_many = reads.get_many

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        if self._commit is not None and any(path.startswith("/topics/") for path in paths):
            commit, self._commit = self._commit, None
            nodes = self._get_many(paths[:1])
            commit()
            return nodes + self._get_many(paths[1:])
        return self._get_many(paths)


def _both_topics(writer_epoch: int) -> StateChange:
    extent = Extent(cluster="east", start=writer_epoch, base=0, writer_epoch=writer_epoch)
    topics = [Topic(name=name, writer="east", partitions={0: (extent,)}) for name in "ab"]
    return put(*topics, at=writer_epoch - 1 if writer_epoch else None)


def _writer_epochs(view: View) -> list[int]:
    return [view.topics[name].partitions[0][0].writer_epoch for name in "ab"]


def test_a_loaded_view_never_has_part_of_a_change(session: Session, other: Session) -> None:
    other.store.commit(_both_topics(0))
    replica = StateReplica(_Interrupted(session.store._tree, lambda: other.store.commit(_both_topics(1))))

    replica.load()

    assert (replica.view.revision, _writer_epochs(replica.view)) == (2, [1, 1])


def test_a_followed_view_never_has_part_of_a_change(session: Session, other: Session) -> None:
    other.store.commit(_both_topics(0))
    replica = StateReplica(session.store._tree)
    replica.load()
    replica._tree = _Interrupted(session.store._tree, lambda: other.store.commit(_both_topics(2)))

    other.store.commit(_both_topics(1))
    changed = replica.catch_up()

    assert (replica.view.revision, _writer_epochs(replica.view)) == (3, [2, 2])
    assert changed == frozenset({"/topics/a", "/topics/b"})


def test_a_commit_without_documents_of_the_view_still_raises_its_revision(session: Session, other: Session) -> None:
    recorder, watcher = watch(session)
    epoch = other.store.create_operation(operation(), [])
    delivered(watcher, 0)

    other.store.commit(StateChange("empty", operation="switch-1", epoch=epoch))

    assert delivered(watcher, 1).revision == 1
    assert recorder.views[-1][1] == frozenset()


@pytest.mark.parametrize("data", [b"{", b'{"user":"ann","schema":2}', b'{"user":"bob"}', b"\xff"])
def test_an_unreadable_document_keeps_its_last_good_state(session: Session, other: Session, data: bytes) -> None:
    # Given a watcher that is suspended while a document becomes unreadable
    recorder, watcher = watch(session)
    other.store.commit(put(binding("ann", "east")))
    delivered(watcher, 1)
    session.suspend()
    until(lambda: recorder.states[-1] == "suspended", "suspended")
    other.store.commit(put(binding("ann", "west"), at=0))
    other.plant("/bindings/ann", data)
    # When it is connected again
    session.resume()
    view = delivered(watcher, 2)
    # Then the view has the last state that could be read, and the document is named
    assert view.bindings["ann"] == binding("ann", "east")
    assert set(watcher.unreadable) == {"/bindings/ann"}


def test_an_unreadable_document_is_used_once_it_is_readable(session: Session, other: Session) -> None:
    # When an unreadable document is watched
    other.plant("/bindings/ann", b"{")
    _, watcher = watch(session)
    view = delivered(watcher, 0)
    # Then it is left out, and named
    assert "ann" not in view.bindings
    assert set(watcher.unreadable) == {"/bindings/ann"}
    # When it is written again
    other.store.commit(put(binding("ann"), at=0))
    view = delivered(watcher, 1)
    # Then the view has it
    assert view.bindings["ann"] == binding("ann")
    assert not watcher.unreadable


def test_after_an_interruption_the_watcher_catches_up_without_a_reload(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a watcher that is suspended while something is committed
    recorder, watcher = watch(session)
    delivered(watcher, 0)
    reloads = _count_reloads(watcher, monkeypatch)
    session.suspend()
    until(lambda: recorder.states == ["connected", "suspended"], "suspended")
    other.store.commit(put(binding("ann")))
    before = watcher.view
    # When it is connected again
    session.resume()
    delivered(watcher, 1)
    # Then it has caught up by the change notes
    assert before is not None
    assert before.revision == 0
    assert recorder.states == ["connected", "suspended", "connected"]
    assert reloads == []


def test_the_watcher_reports_an_interruption_at_once_even_while_it_reads(session: Session, other: Session) -> None:
    # Given a watcher whose calls wait long for a lost connection
    session.set_patience(10 * DEADLINE_S)
    recorder, watcher = watch(session)
    delivered(watcher, 0)
    # When the session is suspended right after commits
    # Then that is reported at once, each time
    for number in range(5):
        other.store.commit(put(binding(f"user-{number}")))
        session.suspend()
        until(lambda: recorder.states[-1] == "suspended", "suspended")
        session.resume()
        until(lambda: recorder.states[-1] == "connected", "connected")
    # And all is read in the end
    delivered(watcher, 5)


def test_after_a_session_loss_the_watcher_reloads_everything(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a watcher, and a change without a note, which only a reload can see
    recorder, watcher = watch(session)
    other.store.commit(put(binding("ann")))
    delivered(watcher, 1)
    reloads = _count_reloads(watcher, monkeypatch)
    # Without a note: only a full reload can see it.
    other.plant("/bindings/bob", binding("bob").to_bytes())
    # When its session ends
    session.expire()
    until(lambda: len(recorder.views) >= 3 or bool(reloads and "bob" in recorder.views[-1][0].bindings), "the reload")
    # Then it has the change, and continues
    assert reloads
    assert [state for state in recorder.states if state != "suspended"] == ["connected", "lost", "connected"]
    assert recorder.views[-1][1] == frozenset({"/bindings/bob"})
    other.store.commit(put(binding("eve")))
    assert set(delivered(watcher, 2).bindings) == {"ann", "bob", "eve"}


@pytest.mark.parametrize("note", [None, b"", b"{", b"[]", b'{"revision":1}'])
def test_the_watcher_reloads_everything_when_a_change_note_is_missing_or_unreadable(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch, note: bytes | None
) -> None:
    # Given a suspended watcher, commits meanwhile, and one of their notes damaged
    recorder, watcher = watch(session)
    delivered(watcher, 0)
    reloads = _count_reloads(watcher, monkeypatch)
    session.suspend()
    until(lambda: recorder.states[-1] == "suspended", "suspended")
    for user in ("ann", "bob", "eve"):
        other.store.commit(put(binding(user)))
    if note is None:
        other.remove("/changes/change-0000000001")
    else:
        other.plant("/changes/change-0000000001", note)
    # When it is connected again
    session.resume()
    view = delivered(watcher, 3)
    # Then it has reloaded everything
    assert reloads
    assert set(view.bindings) == {"ann", "bob", "eve"}


def test_the_watcher_reloads_a_state_restored_from_a_backup(session: Session, other: Session) -> None:
    # Given a watcher at revision 2
    _, watcher = watch(session)
    other.store.commit(put(binding("ann")))
    other.store.commit(put(binding("bob")))
    delivered(watcher, 2)
    # When the state is set back to revision 1
    other.remove("/bindings/bob")
    other.plant("/changes", b'{"revision":1}')
    # Then it has the older state
    until(lambda: watcher.view is not None and watcher.view.revision == 1, "the older state")
    assert watcher.view is not None
    assert set(watcher.view.bindings) == {"ann"}


def test_a_failing_callback_does_not_stop_the_watcher(session: Session, other: Session) -> None:
    # Given a callback that always fails
    seen: list[int] = []

    def on_view(view: View, changed: frozenset[str]) -> None:
        seen.append(view.revision)
        raise RuntimeError("planted")

    # When two views are delivered
    watcher = session.store.watch(on_view)
    delivered(watcher, 0)
    other.store.commit(put(binding("ann")))
    delivered(watcher, 1)
    # Then it has been called for both
    assert seen == [0, 1]


def test_a_closed_watcher_delivers_nothing(session: Session, other: Session) -> None:
    recorder, closed = watch(session)
    delivered(closed, 0)
    closed.close()
    witness = session.store.watch(lambda view, changed: None)

    other.store.commit(put(binding("ann")))
    delivered(witness, 1)

    assert [view.revision for view, _ in recorder.views] == [0]


def _count_reloads(watcher: StateWatcher, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    assert isinstance(watcher, StateWatcher)
    calls: list[None] = []
    replica = watcher._replica
    reload = replica.reload

    def counted(wake=None):  # type: ignore[no-untyped-def]
        calls.append(None)
        return reload(wake)

    monkeypatch.setattr(replica, "reload", counted)
    return calls
