"""The effects of a crossing's steps (order: `plan/migration/crossing_stages`). Each may be killed anywhere."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MigrateOperation, Topic
from ha_core.operations.engine.await_gateways import require_drained
from ha_core.operations.engine.errors import NotDrainedError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import Touched, bounded, commit_now, write_all
from ha_core.operations.engine.steps import Effect
from ha_core.operations.migration.crossing.below import keep_below
from ha_core.operations.migration.crossing.cuts import client_ends, first_cuts, higher_cuts
from ha_core.operations.migration.crossing.ends import (
    EndsOfBoth,
    as_clients,
    progress_of,
    read_ends,
    read_sides,
    remaining_words,
    went_back_words,
)
from ha_core.operations.migration.crossing.fence import BehindFence, CrossingEnd, EndOfWhatWentBack, lift
from ha_core.operations.move import dependents
from ha_core.operations.move.common_steps import MoveSteps
from ha_core.operations.move.settings import follow_origin
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.clusters import Partition, PartitionEnds
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.migration.crossing import (
    open_change,
    propose_change,
    reopen_change,
    retreat_change,
    settle_change,
    withdraw_change,
)
from ha_core.plan.migration.crossing_stages import BEFORE_OPEN, Step, crossing_partitions, passed, stages

LEADERS_S = 180.0
"""Time for a cluster to elect leaders of thousands of new partitions. No client waits for it."""
MAX_PROPOSALS = 5
"""Each proposal's cuts are twice as far ahead as those before."""


class CrossingSteps(MoveSteps[MigrateOperation, Step]):
    """The effects of a crossing's steps."""

    def __init__(self, journal: Journal[MigrateOperation], why: str = "") -> None:
        super().__init__(journal, why)
        self.proposals = 0
        """Number of proposals that this process has looked at."""
        self.ends_before: Mapping[Partition, int] = {}
        """Client ends at the choice of the cuts."""
        self.replicated: Mapping[Partition, int] = {}
        """The origin's high watermarks at that time."""

    @property
    def effects(self) -> Mapping[Step, Effect]:
        return {
            "pin": self.pin,
            "prepare": self.prepare,
            "propose": self.propose,
            "serve": self.serve,
            "ends": self.ends,
            "open": self.open,
            "settle": self.settle,
            "end": self.end,
            "verify": self.verify,
            "groups": self.groups,
            "record": self.record,
            "lift": self.lift,
            "retreat": self.retreat,
            "withdraw": self.withdraw,
            "reopen": self.reopen,
            "discard": self.discard,
            "unpin": self.unpin,
            "undone": self.undone,
            "release": self.release,
        }

    def has_way_back(self, step: Step) -> bool:
        return step in BEFORE_OPEN

    def read_state(self) -> tuple[MigrateOperation, Mapping[str, Topic]]:
        """The documents as they are now."""
        topics = Touched.read(self.journal).view.topics
        return self.journal.operation, topics

    def propose(self) -> None:
        names = self.at("before")
        with self.journal.step("propose") as seen:
            sides = read_sides(self.environment, self.journal.operation, names, LEADERS_S)
            self.replicated = {key: ends.high_watermark for key, ends in sides.origin.items()}
            seen.update(self._publish(names, sides, first_cuts(self.journal, sides)))

    def serve(self) -> None:
        with self.journal.step("serve") as seen:
            seen["revision"] = self._await_gateways()

    def ends(self) -> None:
        names = self.at("proposed")
        follow_origin(self.journal, names)  # gateways that serve the proposal refuse changes
        self.sides = read_sides(self.environment, self.journal.operation, names)
        self.counts = self.journal.origin.partition_counts(names)

    def open(self) -> None:
        """Open all topics, or propose higher cuts where the log was faster: then the plan repeats the step.

        :raises StepFailedError: the log was faster every time.
        """
        journal, touched = self.journal, Touched.read(self.journal)
        topics = touched.view.topics
        names = self.at("proposed", topics)
        late = {(name, p) for name in names for p in passed(topics[name], self.sides.ends)}
        ends = client_ends(journal, topics, self.sides)
        self._require_kept()
        self.proposals += 1
        if late and self.proposals < MAX_PROPOSALS:
            cuts = higher_cuts(journal, topics, ends, late, self.ends_before, self.proposals)
            self.ends_before = ends
            detail = self._publish(sorted({name for name, _ in late}), self.sides, cuts)
            journal.append("propose", "note", detail={**detail, "why": "the log had passed the cuts before"})
            self.environment.say(
                f"{amount(len(late), 'partition')} passed their cuts before these were served: proposed again"
            )
            return
        with journal.step("open") as seen:
            if late:
                named = listed(f"{name}-{p}" for name, p in sorted(late))
                raise StepFailedError(
                    f"The logs of {len(late)} partitions ({named}) passed their cuts {MAX_PROPOSALS} times before "
                    "every gateway served them. Take a longer --preparation, or a higher rate."
                )
            opened_at = bounded("opened_at", ends).get("opened_at", {})
            operation = journal.operation.noting(opened=self.environment.now(), opened_at=opened_at)
            documents = open_change(operation, touched.view, names, self.sides.ends, self.counts)
            revision = touched.commit(documents, "open")
            seen.update(revision=revision, topics=len(names), proposals=self.proposals)
            seen.update(bounded("client_ends", ends))

    def settle(self) -> None:
        """End the crossing of topics that have reached their cuts."""
        operation, topics = self.read_state()
        progress = progress_of(self.environment, operation, topics)
        self.environment.say(progress.words)
        if progress.went_back:
            self._end_at_cuts(progress.went_back, topics)
            return
        keep_below(self.journal, topics, progress)
        write_all(self.journal, progress.ready, topics, self._settle)

    def end(self) -> None:
        """End the crossing of every open topic under a fence.

        :raises StepFailedError: the fence is lifted, and the crossing continues as before.
        """
        self.environment.say("partitions that have not reached their cut are cut at their log end now, under a fence")
        operation, topics = self.read_state()
        progress = progress_of(self.environment, operation, topics)
        if progress.went_back:
            self._end_at_cuts(progress.went_back, topics)
            return
        keep_below(self.journal, topics, progress)
        write_all(self.journal, self.at("open", topics), topics, lambda some: BehindFence(self.journal, some).end())

    def record(self) -> None:
        """:raises StepFailedError: the operation has failed, since the origin has lost records."""
        operation = self.journal.operation
        if operation.evidence.went_back:
            lost = f"The cuts stay in force, but {went_back_words(operation, operation.evidence.went_back)}."
            self.journal.finish("failed", lost)
            raise StepFailedError(lost)
        words = ["crossed over and verified", dependents.words(operation), remaining_words(operation)]
        self.journal.finish("succeeded", "; ".join(filter(None, words)))

    def lift(self) -> None:
        lift(self.journal)

    def retreat(self) -> None:
        """Begin the way back, from any stage of the crossing."""
        revision = commit_now(self.journal, retreat_change, "retreat")
        self.journal.append("retreat", "undone", detail={"revision": revision, "why": self.why})

    def withdraw(self) -> None:
        """Withdraw cuts that are all `proposed` again.

        :raises StepFailedError: gateways do not follow in time, or the target was written: the crossing is open again.
        """
        journal = self.journal
        try:
            with journal.step("withdraw") as seen:
                ends: Mapping[Partition, PartitionEnds] = {}
                if journal.operation.evidence.retreated:
                    self._await_gateways()
                    _, topics = self.read_state()
                    keys = crossing_partitions(topics, self.at("proposed", topics))
                    ends = read_ends(self.environment, journal.operation, keys).ends
                seen["revision"] = commit_now(journal, partial(withdraw_change, ends=ends), "withdraw")
        except (MoveDamagedError, NotDrainedError, KafkaAdminError) as error:
            if not journal.operation.evidence.retreated:
                raise
            self.why = str(error)
            self.reopen()
            text = f"There is no way back: {self.why.rstrip('.')}. The migration continues as before."
            raise StepFailedError(text) from error

    def reopen(self) -> None:
        """Give up the way back: topics that were open are open again."""
        revision = commit_now(self.journal, reopen_change, "reopen")
        self.journal.append("reopen", "done", detail={"revision": revision, "why": self.why})

    def _require_kept(self) -> None:
        """:raises StepFailedError: a log ends below its high watermark at the proposal of its cut."""
        here = self.sides.origin
        lost = sorted(key for key, end in self.replicated.items() if key in here and here[key].log_end < end)
        if lost:
            raise StepFailedError(
                f"The log of {listed(f'{name}-{p}' for name, p in lost)} in {self.journal.request.origin} ends below "
                "its high watermark of a moment ago: its brokers have lost acknowledged records. "
                "Check that unclean.leader.election.enable is false and that disks are sound, then migrate again."
            )

    def _end_at_cuts(self, went_back: Mapping[str, tuple[int, ...]], topics: Mapping[str, Topic]) -> None:
        self.journal.note(went_back={**self.journal.operation.evidence.went_back, **went_back})
        names = {name: list(some) for name, some in went_back.items()}
        self.journal.append("went_back", "note", detail={"partitions": names})
        write_all(self.journal, list(went_back), topics, lambda some: EndOfWhatWentBack(self.journal, some).end())

    def at(self, stage: str, topics: Mapping[str, Topic] | None = None) -> list[str]:
        known = self.read_state()[1] if topics is None else topics
        return [name for name, found in stages(self.journal.operation, known).items() if found == stage]

    def _publish(self, names: Collection[str], sides: EndsOfBoth, cuts: Mapping[Partition, int]) -> dict[str, Any]:
        """Commit proposed cuts; returns the detail for the history."""
        touched = Touched.read(self.journal)
        documents = propose_change(self.journal.operation, touched.view, names, sides.ends, cuts)
        revision = touched.commit(documents, "propose")
        ends = client_ends(self.journal, touched.view.topics, sides)
        return {
            "revision": revision,
            "topics": len(names),
            "partitions": len(cuts),
            "status": "Migrating",
            **bounded("cuts", cuts),
            **bounded("client_ends", {key: ends[key] for key in cuts}),
        }

    def _await_gateways(self) -> int:
        """Wait until every live gateway follows this revision, with nothing in flight from before."""
        revision = self.environment.store.confirm()
        require_drained(self.journal, revision)
        return revision

    def _settle(self, names: Sequence[str]) -> None:
        journal = self.journal
        with journal.step("settle") as seen:
            end = CrossingEnd(journal, names)
            sides = read_ends(self.environment, journal.operation, end.cuts)
            counts = journal.origin.partition_counts(names)
            end.read_below(end.cuts)
            end.write("settle", partial(settle_change, counts=counts), sides.replicated)
            journal.update(revision=end.revision)
            clients = as_clients(end.before, {key: ends.high_watermark for key, ends in sides.origin.items()})
            seen.update(end.detail(), producers=sum(len(facts or ()) for facts in end.below.values()))
            seen.update(end.origin_detail(clients))
