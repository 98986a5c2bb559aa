"""A cache on one node: reads its source, agrees with the other nodes through ZooKeeper, and serves the main part.

One thread reads (`source_reader`), one agrees and commits, and a third writes the content to a file if there is one
(`cache_file`). Readers of the main part never wait.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue

from ha_core.datacache.cache_file import CacheFile, CacheFileWriter
from ha_core.datacache.core.agreement import Agreement, CacheMember, CommitDecision, FutureTimestampFilter
from ha_core.datacache.core.cache import Cache, CommitOutcome, ContentCommit
from ha_core.datacache.core.errors import DataCacheError, NodeIdTakenError, SourceWentBackError
from ha_core.datacache.core.source import Source
from ha_core.datacache.core.uncommitted import Content
from ha_core.datacache.nodes import LiveNode, Published
from ha_core.datacache.source_reader import SourceReader
from ha_core.datacache.state import CacheSettings, CacheState
from ha_core.datacache.zookeeper import RETRY_S, CacheNodes, holder
from ha_core.store.errors import StoreError
from ha_core.store.tree import Node, Reads, State, Tree

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How long a watch that got lost, or a failed look, can go unnoticed."""
_CLOSE_S = 5.0
"""Longest wait for the source's answer in `close`."""
_COMMIT, _NODES = "/commit", "/sync"
"""Kinds of claims to check. No node has such a name."""


class DataCache:
    """Begins with `start`. Thread-safe.

    The content outlives every fault but the end of the process, and with a file that, too: a source or a ZooKeeper that
    is away, a lost session, another process that takes the node id. Then it may be older than that of other nodes, with
    its own commit time.
    """

    def __init__(
        self,
        name: str,
        node: str,
        source: Source,
        tree: Tree,
        settings: CacheSettings | None = None,
        on_main: Callable[[Content], object] = lambda content: None,
        clock_s: Callable[[], float] = time.monotonic,
        file: CacheFile | None = None,
    ) -> None:
        """
        :param name: of the cache; all nodes with this name read one source.
        :param node: unique among live nodes.
        :param on_main: called with each new main part, in order, from one thread, before it is visible.
        :param clock_s: for waiting only; it must never go back.
        :param file: keeps the content; from `start` on, an earlier process's content is served, with its commit time.
        """
        self.name, self.node = name, node
        self._settings = settings or CacheSettings()
        self._tree, self._reads, self._nodes = tree, tree.impatient(), CacheNodes(tree, name)
        self._on_main, self._clock_s = on_main, clock_s
        self._who = f"{socket.gethostname()} process {os.getpid()}"
        kept = None if file is None else file.load()
        self._cache, self._guard = Cache(None if kept is None else kept.content), threading.Lock()
        self._agreement = Agreement(self._settings.hold_s)
        self._doubts = {what: FutureTimestampFilter() for what in (_COMMIT, _NODES)}
        self._false: frozenset[str] = frozenset()
        self._events: SimpleQueue[State | None] = SimpleQueue()
        self._reading = SourceReader(name, source, self._cache, self._guard, self._settings, self._wake, clock_s)
        self._members = self._nodes.members(self._reads, self._wake)
        self._main: Content | None = None
        if kept is not None:
            self._reading.goes_on(kept.content.at_us, kept.age_s)
        self._keeping = None if file is None else CacheFileWriter(name, file, self._age_s)
        self._ready = threading.Event()
        self._judgement, self._live = CommitDecision(), 0
        self._agreed_us: int | None = None
        self._error = ""
        self._published, self._published_s = Published(who=self._who), 0.0
        """The newest published record, and its time."""
        self._connected = self._closing = False
        self._heeded: tuple[tuple[int, int], tuple[int, int]] | None = None
        """Versions of the nodes for reloads and changes at the last look; None: there was none."""
        self._asked_us = 0
        """The newest position of other nodes that this node has been woken for."""
        self._unlisten: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name=f"datacache-agreement-{name}", daemon=True)

    @property
    def main(self) -> Content | None:
        """The served content; None before the first commit. It never changes: take it once per request."""
        return self._main

    def start(self) -> None:
        """Take part. The content that an earlier process kept is served even before.

        :raises NodeIdTakenError: another live process has the node id.
        :raises StoreUnavailableError: ZooKeeper cannot be reached.
        """
        if self._cache.main is not None and self._main is None:
            log.info("cache %s: the content of %d is served, from the file", self.name, self._cache.main.at_us)
            self._serve()
        self._nodes.create()
        self._nodes.join(self.node, self._published)
        self._heed(self._tree)  # Before the first read, so that later requests count as new.
        self._unlisten = self._tree.listen(self._events.put)
        self._thread.start()
        self._reading.start()
        if self._keeping is not None:
            self._keeping.start(self._main)

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is content to serve."""
        return self._ready.wait(timeout_s)

    def read_now(self) -> None:
        """Read the source at once, instead of at the next time."""
        self._reading.now()

    def reload(self) -> None:
        """Read everything anew. The served content stays in force meanwhile."""
        with self._guard:
            self._cache.reload()
        self._reading.now()

    def state(self) -> CacheState:
        main, now_s, age_s = self._main, self._clock_s(), self._age_s()
        with self._guard:
            holds, uncommitted = self._cache.holds, self._cache.uncommitted
            reloads, refused = self._cache.reloads, self._cache.refused
        checked_s = self._reading.checked_s
        return CacheState(
            name=self.name,
            node=self.node,
            commit_us=None if main is None else main.at_us,
            agreed_us=self._agreed_us,
            read_us=None if holds is None else holds.through_us,
            rows=0 if main is None else len(main.rows),
            uncommitted=uncommitted,
            age_s=age_s,
            checked_s=None if checked_s is None else now_s - checked_s,
            error=self._reading.error or self._error,
            kept_error="" if self._keeping is None else self._keeping.error,
            connected=self._connected,
            members=self._live,
            leader=self._judgement.leader,
            holding_up=self._judgement.holding_up,
            left_out=self._judgement.left_out,
            reloads=reloads,
            refused_us=refused,
        )

    def close(self) -> None:
        """Leave. The last main part can still be read."""
        if self._closing:
            return
        self._closing = True
        self._unlisten()
        self._wake()
        self._reading.close(_CLOSE_S)
        if self._keeping is not None:
            self._keeping.close()
        # A thread that ends late has left this node's record in ZooKeeper.
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join()
            try:
                self._nodes.leave(self.node)
            except StoreError as error:
                log.warning("cache %s: %s", self.name, error)

    def _age_s(self) -> float | None:
        main = self._main
        current_s = None if main is None else self._reading.current_s(main.at_us)
        return None if current_s is None else self._clock_s() - current_s

    def _wake(self) -> None:
        self._events.put(None)

    def _run(self) -> None:
        pause_s = 0.0
        while True:
            self._wait(pause_s)
            if self._closing:
                return
            pause_s = LOOK_S
            if not self._connected:
                continue
            try:
                pause_s = min(LOOK_S, self._look())
                self._error = ""
            except (StoreError, DataCacheError) as error:
                self._note(str(error))
                pause_s = RETRY_S
            except Exception:
                # A bug must not end the thread: nothing would ever be committed again.
                log.exception("cache %s: a look at the agreement has failed", self.name)
                pause_s = LOOK_S

    def _wait(self, timeout_s: float) -> None:
        """Wait for events; all that have come by then count as one."""
        try:
            event = self._events.get(timeout=timeout_s)
            while True:
                if event is not None:
                    self._connected = event == "connected"
                    self._members.forget()
                event = self._events.get_nowait()
        except Empty:
            return

    def _look(self) -> float:
        """Publish, commit and judge from the state in ZooKeeper; returns the time until the next look."""
        self._adopt()
        self._heed(self._reads, self._wake)
        other = self._publish()
        commit, read = self._nodes.commit(self._reads, self._wake)
        live = [node.member for node in self._members.read()]
        self._live = len(live)
        false = self._doubt({member.node: _claimed(member) for member in live}, _NODES)
        if commit is not None and self._doubt({_COMMIT: commit.at_us}, _COMMIT):
            commit = None
        self._go(commit)
        now_s = self._clock_s()
        commit_us, doubtful = None if commit is None else commit.at_us, bool(self._doubts[_COMMIT].far)
        self._judgement = self._agreement.judge(live, commit_us, now_s, false, doubtful)
        top = (member.holds.through_us for member in live if member.holds and member.node not in false)
        self._follow(max(top, default=0))
        if other is not None:
            raise NodeIdTakenError(self.name, self.node, holder(other), 0.0)
        # After its source has lost changes a node does not write: others may know the current content.
        writes = self._agreement.writes(self._judgement, self.node, now_s) and not self._reading.went_back
        if writes and self._propose(read):
            return 0.0
        after_s = self._agreement.next_s(now_s)
        return LOOK_S if after_s is None else after_s

    def _doubt(self, claims: Mapping[str, int], what: str) -> frozenset[str]:
        """Claimants of times that the source does not have."""
        done = self._reading.done  # Before the position: a later position only proves more.
        with self._guard:
            holds = self._cache.holds
        read_us = None if holds is None else holds.through_us
        doubt = self._doubts[what]
        before = doubt.far
        false = doubt.false(claims, read_us, self._reading.begun, done, time.time_ns() // 1000)
        if doubt.far - before:
            self._reading.now()
        for who in false - self._false:
            whose = "the commit time" if what == _COMMIT else f"node {who}"
            us = claims[who]
            log.error("cache %s: %s is of %d, which the source does not have: ignored", self.name, whose, us)
        self._false = (self._false - claims.keys()) | false
        return false

    def _adopt(self) -> None:
        """Take the complete reload. It replaces the main part at its time if the fingerprint is the agreed one."""
        try:
            with self._guard:
                replaced = self._cache.adopt()
        except SourceWentBackError as error:
            log.warning("cache %s: the reload is not used: %s", self.name, error)
            return
        if replaced:
            self._serve()

    def _heed(self, reads: Reads, wake: Callable[[], None] | None = None) -> None:
        """Heed requests since the last look: to reload, or to read a changed source."""
        seen = self._nodes.reloads(reads, wake).of(self.node), self._nodes.changed(reads, wake)
        before, self._heeded = self._heeded, seen
        if before is None or seen == before:
            return
        if seen[0] != before[0]:
            log.info("cache %s: asked to reload, everything is read anew", self.name)
            self.reload()
        self._reading.now()

    def _publish(self) -> LiveNode | None:
        """Publish this node's record; returns the other process that has the node id, if any."""
        with self._guard:
            holds = self._cache.holds
        main_us = 0 if self._main is None else self._main.at_us
        reading, now_s = self._reading, self._clock_s()
        record = Published(holds, main_us, self._who, reading.trouble, reading.trouble_since_s)
        if replace(record, main_us=self._published.main_us) == self._published and now_s - self._published_s < LOOK_S:
            # Publishing wakes all nodes, and none waits for `main_us`: the next record has it.
            record = self._published
        holder_of_id = self._nodes.publish(self.node, record)
        if record is not self._published:
            self._published, self._published_s = record, now_s
        return holder_of_id

    def _go(self, commit: ContentCommit | None) -> None:
        if commit is None:
            return
        self._agreed_us = max(0 if self._main is None else self._main.at_us, commit.at_us)
        with self._guard:
            known = self._cache.refused
            moved = self._cache.commit(commit)
        if moved is CommitOutcome.COMMITTED:
            self._serve()
        elif moved is CommitOutcome.REFUSED and known != commit.at_us:
            log.error(
                "cache %s: the content read up to %d is not the agreed one: it is not served, everything is read anew",
                self.name,
                commit.at_us,
            )
            self._reading.now()

    def _propose(self, read: Node | None) -> bool:
        """Whether a write was tried, so that everything is to be looked at again."""
        assert self._judgement.commit_us is not None
        with self._guard:
            proposal = self._cache.proposal(self._judgement.commit_us)
        if proposal is None:
            return False  # The content of that time was let go since it was published; the next record has that.
        if self._nodes.write_commit(proposal, self.node, read):
            self._go(proposal)
        return True

    def _follow(self, top_us: int) -> None:
        """Read at once when another node has read further, so that all nodes have a change soon after the first."""
        with self._guard:
            holds = self._cache.holds
        self._asked_us = min(self._asked_us, top_us)  # A claim may have been withdrawn.
        if holds is not None and max(holds.through_us, self._asked_us) < top_us:
            self._asked_us = top_us
            self._reading.now()

    def _serve(self) -> None:
        main = self._cache.main
        assert main is not None
        try:
            self._on_main(main)
        except Exception:
            log.exception("cache %s: its user has failed to take the content of %d", self.name, main.at_us)
        self._main = main
        if self._keeping is not None:
            self._keeping.keep(main)
        self._ready.set()

    def _note(self, error: str) -> None:
        if error != self._error:
            log.warning("cache %s: not agreed, the served content stays in force: %s", self.name, error)
        self._error = error


def _claimed(member: CacheMember) -> int:
    return max(member.main_us, 0 if member.holds is None else member.holds.through_us)
