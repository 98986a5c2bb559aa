"""The effects of a switch's steps (order: `plan/move/planner`) on the store and the clusters.

Clients wait only from fence to cut, so as little as possible is done in that time. Facts that can be known before are
read before: documents with their versions, partitions, leaders, coordinators. After the fence there are two writes to
ZooKeeper (fence and cut) and one round of requests to each cluster, in parallel; the history is written afterwards. Any
failure before the cut lifts the fence at once.

After a fence an open transaction could not end: its records are refused, and the cut waits for it. So if leaders
remember transactional producers, a transaction fence comes first. Producers without transactions do not notice it.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from ha_core.kafka.adoption import remove_members
from ha_core.model import Group, SwitchOperation, Topic, Usage
from ha_core.operations.clusters.last_seen import LastKnown
from ha_core.operations.copies.catch_up import OwnCopies
from ha_core.operations.copies.taken import Taken, require_usable, take_over
from ha_core.operations.copies.writers import BEHIND_CUT_S, open_to_writers
from ha_core.operations.engine.await_gateways import drained, name_them, require_drained, serves, wait_for_all
from ha_core.operations.engine.cluster_admins import DYING_S, ask_dying, described, in_target, origin_of
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal, Lap, why_failed
from ha_core.operations.engine.revisions import Touched, nested_by_topic
from ha_core.operations.engine.steps import Effect
from ha_core.operations.move import dependents
from ha_core.operations.move.adoption import adopt_groups, renew_adoption, still_adopted
from ha_core.operations.move.client_costs import note_client_costs
from ha_core.operations.move.common_steps import MoveSteps
from ha_core.operations.move.direct_groups import carry_direct_groups
from ha_core.operations.move.fenced_reads import FencedReads
from ha_core.operations.move.further_mirrors import repoint_all
from ha_core.operations.move.outcome import CUT_OVER, of_copies, over_holes
from ha_core.operations.move.settings import (
    Shapes,
    apply_source_settings,
    copy_late_changes,
    follow_origin,
    without_settings,
)
from ha_core.operations.move.switch_mirrors import (
    compare_copies,
    compared_words,
    reverse_all,
    store_unreversed,
    without_copy,
)
from ha_core.operations.proposal.usage import counts_days
from ha_core.plan.access.usage_age import split
from ha_core.plan.engine.revision import FINAL
from ha_core.plan.facts.verdict import listed
from ha_core.plan.mirror.held_copies import MAX_EXTENTS_AT_ONCE, also_mirrored, fitting, held, hold_change, to_hold
from ha_core.plan.move.closure import closure
from ha_core.plan.move.partitions import of_all
from ha_core.plan.move.planner import (
    TASKS,
    Step,
    cut_change,
    fence_change,
    quiesce_change,
    undo_change,
)
from ha_core.store.errors import TooLargeError

OURS_FOR_S = 1.0
"""Time for which a hold is not checked again: far below the session time of an executor. A check costs a write."""
PAUSE_S = 0.02
COST_S = 0.5
"""How long an undone move waits for gateways that report the cost of its lifted fence; no client waits meanwhile."""
KEEP_ALIVE_S = 3.0
"""Interval of heartbeats for adopted members: the default of clients."""


class SwitchSteps(MoveSteps[SwitchOperation, Step]):
    """The effects of a switch's steps. `fenced_reads`, and its results, belong to one run of `cut_over`."""

    def __init__(self, journal: Journal[SwitchOperation], why: str = "") -> None:
        super().__init__(journal, why)
        self.begun = self.fenced_at = self.environment.monotonic()
        self.fence_revision: int | None = None
        self.lifted_revision: int | None = None
        self.levelling: OwnCopies | None = None
        self.settings: Shapes = {}

    @cached_property
    def touched(self) -> Touched:
        """Read once; later revisions of this run update it without a read."""
        return Touched.read(self.journal)

    @property
    def effects(self) -> Mapping[Step, Effect]:
        return {
            "compare": self.compare,
            "pin": self.pin,
            "prepare": self.prepare,
            "adopt": self.adopt,
            "hold": self.hold,
            "level": self.level,
            "warm": self.warm,
            "quiesce": self.quiesce,
            "fence": self.fence,
            "drain": self.drain,
            "ends": self.ends,
            "mirrored": self.mirrored,
            "offsets": self.offsets,
            "cut": self.cut,
            "verify": self.verify,
            "repoint": self.repoint,
            "reverse": self.reverse,
            "groups": self.groups,
            "record": self.record,
            "lift": self.lift,
            "leave": self.leave,
            "discard": self.discard,
            "unpin": self.unpin,
            "undone": self.undone,
            "release": self.release,
        }

    def perform(self, step: Step) -> None:
        """A failure after the fence goes into the history when the fence is lifted, since clients wait for it."""
        try:
            super().perform(step)
        except BaseException as error:
            if self.levelling is not None:
                self.levelling.stop()
            if step in TASKS["cut_over"] and self.journal.operation.state != "cut":
                ms = self.environment.ms_since(self.begun)
                self.journal.pending.append(Lap("cut_over", "failed", ms, why_failed(error), self.environment.now()))
            raise

    def close(self) -> None:
        """Stop the copiers of this run."""
        if self.levelling is not None:
            self.levelling.close()

    def has_way_back(self, step: Step) -> bool:
        return self.journal.operation.state not in FINAL | {"cut"}

    def compare(self) -> None:
        compare_copies(self.journal)

    def adopt(self) -> None:
        adopt_groups(self.journal)

    def hold(self) -> None:
        """Hold the copies of mirrored topics. Copies of a dead origin are taken over at once: it sends no more
        records."""
        operation, mirrors = self.journal.operation, self.environment.store.mirrors()
        if mirrored := to_hold(operation, mirrors):
            others, known = also_mirrored(operation, mirrored, mirrors), operation.evidence
            if (mirrored, others) != (known.mirrored, known.also_mirrored):
                self.journal.note(mirrored=mirrored, also_mirrored=others)  # lets its revisions write these
            with self.journal.lap("hold") as seen:
                documents = hold_change(self.journal.operation, self.touched.view)
                seen.update(revision=self.touched.commit(documents, "hold"), topics=len(mirrored))
            if self.journal.request.mode == "forced":
                self.taking_over  # noqa: B018  in parallel with the fence and the wait for the gateways
            else:
                del self.touched  # notes before the fence change versions

    def level(self) -> None:
        """Copy until little is missing, and keep copying.

        :raises StepFailedError: a copier has stopped, or does not catch up.
        """
        journal, mirrored = self.journal, self.journal.operation.evidence.mirrored
        if mirrored:
            with journal.step("level") as seen:
                view = self.environment.store.load()
                mirrors = {name: held(journal.operation, view, name) for name in mirrored}
                partitions = {
                    name: description.partitions for name, description in described(journal.origin, mirrors).items()
                }
                ours = partial(journal.still_ours, OURS_FOR_S)
                self.levelling = OwnCopies(self.environment, journal.origin, journal.target, mirrors, partitions, ours)
                seen.update(partitions=len(self.levelling.partitions), missing_records=self.levelling.level())

    def warm(self) -> None:
        self.begun = self.environment.monotonic()
        self.journal.append("cut_over", "started")
        self.settings = follow_origin(self.journal, self.journal.moves.topics)
        self.fenced_reads.warm()
        self._refuse_latecomers()

    def quiesce(self) -> None:
        """Fence transactions, and wait until none is open in the moved topics. Without any, does nothing.

        :raises StepFailedError: one stays open for the drain timeout.
        """
        topics = {topic for topic, _ in self.fenced_reads.transactional()}
        if topics:
            with self.journal.lap("quiesce") as seen:
                documents = quiesce_change(self.journal.operation, self.touched.view, topics)
                revision = self.touched.commit(documents, "quiesce")
                seen.update(revision=revision, topics=len(topics))
                self._await_transactions(revision)

    def fence(self) -> None:
        with self.journal.lap("fence") as seen:
            documents = fence_change(self.journal.operation, self.touched.view)
            self.fence_revision = seen["revision"] = self.touched.commit(documents, "fence")
        self.fenced_at = self.environment.monotonic()

    def drain(self) -> None:
        """:raises NotDrainedError: a gateway does not follow in time."""
        # The fence of an interrupted run is in the newest revision.
        revision = self.fence_revision or self.environment.store.load().revision
        with self.journal.lap("drain"):
            require_drained(self.journal, revision)
        self._refuse_latecomers()

    def ends(self) -> None:
        reads, adopted = self.fenced_reads, self.journal.operation.evidence.adopted
        with self.journal.lap("ends") as seen:
            checked = None
            if adopted and reads.origin is not None:
                checked = self.environment.pool.submit(still_adopted, reads.origin, reads.target, adopted)
            taken = self.taking_over.result()  # the takeover's markers end the copies
            require_usable(self.journal.request, self.journal.moves.topics, taken)
            self.partly = {name: why for name, why in taken.partly.items() if name not in taken.damaged}
            self.copies, self.stay = taken.without(taken.damaged), taken.damaged
            self.found = reads.read()
            self.alive = adopted if checked is None else checked.result()
            producers = sum(len(known) for known in self.found.producers.values())
            seen.update(partitions=len(self.found.ends), producers=producers)

    def mirrored(self) -> None:
        """:raises StepFailedError: the copies do not reach the origin's end within the drain timeout."""
        if self.levelling is not None:
            with self.journal.lap("mirrored") as seen:
                found, keys = self.found, self.levelling.partitions
                ends = {key: found.origin[key].log_end for key in keys}
                self.copies = self.levelling.finish(ends, self.journal.request.drain_timeout_s)
                there = self.fenced_reads.target.ends(keys)
                copied = {
                    key: replace(found.ends[key], target=one.log_end, target_start=one.start)
                    for key, one in there.items()
                }
                self.found = replace(found, ends={**found.ends, **copied})
                seen.update(partitions=len(keys), runs=sum(len(copy.runs) for copy in self.copies.values()))

    def offsets(self) -> None:
        """Groups that have changed since their adoption are dropped from it: their members rejoin."""
        adopted = self.journal.operation.evidence.adopted
        with self.journal.lap("offsets") as seen:
            for name in adopted.keys() - self.alive.keys():
                remove_members(self.fenced_reads.target, in_target(name, adopted[name]))
            counts = self.fenced_reads.copy_offsets(self.alive)
            seen.update(groups=len(counts), offsets=sum(counts.values()), adopted=len(self.alive))

    def cut(self) -> None:
        journal, environment, found = self.journal, self.environment, self.found
        with self.journal.lap("cut") as seen:
            view = self.touched.view
            # Other partitions of a topic continue to grow in the origin.
            leaving = of_all(journal.request, view.topics, found.origin)
            origin_ends = nested_by_topic({key: found.origin[key].log_end for key in leaving})
            operation = journal.operation.noting(origin_ends=origin_ends, partly=self.partly)
            read_ms = environment.now_ms()
            max_extents = fitting(self.copies, MAX_EXTENTS_AT_ONCE)
            tails = environment.store.lost_tails(journal.moves.topics) if journal.request.mode == "forced" else ()
            while True:
                documents = cut_change(
                    operation,
                    view,
                    found.ends,
                    found.producers,
                    self.alive,
                    read_ms,
                    self.copies,
                    max_extents,
                    self.stay,
                    tails,
                )
                try:
                    revision = seen["revision"] = self.touched.commit(documents, "cut")
                    break
                except TooLargeError:  # nothing was sent
                    if not self.copies or max_extents == 1:
                        raise
                    max_extents = max(max_extents // 4, 1)
            seen.update(copies=len(self.copies), stayed=len(self.stay))
            if others := journal.operation.evidence.further:
                seen.update(further=listed(one.key for one in others))
        fenced_ms = environment.ms_since(self.fenced_at)
        journal.update(revision=revision)
        journal.write_pending()
        detail = {"revision": revision, "fenced_ms": round(fenced_ms, 1), "left_out": list(self.fenced_reads.left_out)}
        journal.append("cut_over", "done", environment.ms_since(self.begun), detail)
        environment.say(f"clients waited {fenced_ms:.1f} ms under the fence (fenced_ms)")
        apply_source_settings(journal)
        copy_late_changes(journal, self.settings)

    def verify(self) -> None:
        """Done once: after the first step of `reverse` the origin grows by the records that are copied to it."""
        if not self.journal.operation.evidence.ended_mirrors_verified:
            open_to_writers(self.journal, must=False, timeout_s=BEHIND_CUT_S)
            # Again in case the executor died after the cut. A reversed mirror has given the origin a copy's settings.
            apply_source_settings(self.journal)
            carry_direct_groups(self.journal)
            super().verify()
            if self.journal.operation.evidence.ended:
                self.journal.note(ended_mirrors_verified=True)

    def repoint(self) -> None:
        """Further mirrors go on from the new writer. Their copiers are fenced before the former writer gets records of
        the new one."""
        repoint_all(self.journal)

    def reverse(self) -> None:
        """The former writer gets a copy. If that fails, it is linked later."""
        reverse_all(self.journal)

    def unverified(self) -> None:
        """A failure ends the operation, and no executor would return to these."""
        repoint_all(self.journal)
        store_unreversed(self.journal)

    def record(self) -> None:
        words = [
            CUT_OVER,
            compared_words(self.journal.operation),
            *of_copies(self.journal.operation),
            over_holes(self.journal.operation),
            self.journal.operation.evidence.direct_groups,
            without_copy(self.journal),
            without_settings(self.journal.operation),
            dependents.words(self.journal.operation),
        ]
        self.journal.finish("succeeded", "; ".join(filter(None, words)))

    def lift(self) -> None:
        """:raises MoveDamagedError: the operation has cut."""
        before, touched = self.environment.monotonic(), Touched.read(self.journal)
        documents = undo_change(self.journal.operation, touched.view)
        revision = self.lifted_revision = touched.commit(documents, "undo")
        self.journal.write_pending()
        fences = sum(isinstance(put, Topic | Group) for put in documents.puts) + len(documents.deletes)
        ms = self.environment.ms_since(before)
        self.journal.append("lift", "undone", ms, {"fences": fences, "revision": revision})
        self.environment.say(f"lift {ms:.1f} ms ({fences} fences, revision {revision})")

    def undone(self) -> None:
        """As for all operations; before that, the history gets the cost of a fence that was lifted."""
        if self.fence_revision is not None and (lifted := self.lifted_revision) is not None:
            detail: dict[str, Any] = {}
            wait_for_all(self.environment, serves(lifted), COST_S)
            note_client_costs(self.journal, lifted, detail)
            self.journal.append("clients", "done", detail=detail)
        super().undone()

    def leave(self) -> None:
        """Remove adopted members from their groups."""
        adopted = self.journal.operation.evidence.adopted

        def left() -> dict[str, list[str]]:
            for name, one in adopted.items():
                remove_members(self.journal.target, in_target(name, one))
            return {"groups": sorted(adopted)}

        if adopted:
            text = f"adopted members may stay in {self.journal.request.target} until their session ends"
            self.undone_step("leave", text, left)

    @cached_property
    def fenced_reads(self) -> FencedReads:
        journal, environment = self.journal, self.environment
        request, moves = journal.request, journal.moves
        target, origin = journal.target, origin_of(environment, request)
        forced = request.mode == "forced"
        if forced:
            answer = ask_dying(environment, origin, lambda dying: described(dying, moves.topics, DYING_S))
            found = answer or described(target, moves.topics)
        else:
            found = described(journal.origin, moves.topics)
            renew_adoption(journal)
        partitions = tuple((name, partition) for name in moves.topics for partition in range(found[name].partitions))
        return FencedReads(
            environment,
            origin,
            target,
            partitions,
            moves.groups,
            request.drain_timeout_s,
            of_all(request, self.touched.view.topics, partitions),
            forced=forced,
            last_known=LastKnown.read(environment, request.origin, moves) if forced else LastKnown(),
            still_ours=partial(journal.still_ours, OURS_FOR_S),
        )

    @cached_property
    def taking_over(self) -> Future[Taken]:
        """The takeover of copies whose origin is dead. One run of `cut_over` needs it once."""
        journal, mirrors = self.journal, self.touched.view.mirrors.values()
        held = [
            mirror for mirror in mirrors if mirror.held == journal.operation.id and journal.request.mode == "forced"
        ]
        partitions = self.fenced_reads.partitions if held else ()
        good_part = journal.request.damaged_copies == "good-part"
        return self.environment.pool.submit(take_over, self.environment, journal.target, held, partitions, good_part)

    def _await_transactions(self, revision: int) -> None:
        """Gateways know transactions that have not written yet; the origin knows those that no gateway has seen."""
        environment, request, reads = self.environment, self.journal.request, self.fenced_reads
        reached = drained(revision, self.journal.operation.id)
        begun = alive_at = environment.monotonic()
        while True:
            late = tuple(gateway for gateway in environment.store.gateways() if not reached(gateway))
            found = {} if late else reads.open_transactions()
            if not late and not found:
                return
            now = environment.monotonic()
            if now - begun >= request.drain_timeout_s:
                named = [f"{t}-{p} (producer {who.producer_id})" for (t, p), known in found.items() for who in known]
                where = listed(named) or f"as these gateways see it: {name_them(late)}"
                raise StepFailedError(
                    f"Transactions stay open in cluster {request.origin} for more than {request.drain_timeout_s:g} s: "
                    f"{where}. Let them end, or give the move a --drain-timeout that is longer than they take. One "
                    "whose producer is gone is aborted by its coordinator after the producer's transaction.timeout.ms."
                )
            if now - alive_at > KEEP_ALIVE_S and reads.origin is not None:
                still_adopted(reads.origin, reads.target, self.journal.operation.evidence.adopted)
                alive_at = now
            environment.sleep(PAUSE_S)

    def _refuse_latecomers(self) -> None:
        """Topics and groups that the scope began to use after the move was planned would stay in the origin: a group
        without its committed offsets, a topic with two writers. After a drained fence all usage is in the store:
        gateways report a revision when the usage that they saw before it is there (`gateway/process/membership.py`).

        :raises StepFailedError: names them. A forced move continues: no client waits for a dead cluster.
        """
        environment, request, moves = self.environment, self.journal.request, self.journal.moves
        read = environment.pool.map(lambda user: environment.store.read(Usage, user), request.scope.named_users)
        known = {found[0].user: found[0] for found in read if found is not None}
        usage = split(known, environment.now(), counts_days()).counts
        judged = moves.reasons.keys() | set(moves.left_out)
        late = sorted(closure(self.touched.view, usage, request).moves.reasons.keys() - judged)
        if not late:
            return
        named = listed(late)
        if request.mode == "forced":
            environment.say(f"used for the first time since the move was planned, and left in the origin: {named}")
            return
        raise StepFailedError(
            f"Clients of the scope began to use {named} after the move was planned: it would stay in the origin. "
            "Start the move again, and it is taken along."
        )
