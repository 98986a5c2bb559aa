"""The steps that every move takes, with a fence or without: topics in the target before, and the end after the cut.
Clients see nothing of the preparation: identity maps keep them in the origin before any topic is created
(`plan/move/identity_maps`).

After the cut every gateway has to serve it, and the origin's logs must not have grown since their ends were read.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

from ha_core.kafka.admin import Admin
from ha_core.kafka.adoption import remove_members
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.topics import TopicDescription
from ha_core.model import KnownTopic, Mirror, MoveOperation, MoveRequest, Scope, Topic
from ha_core.model.move_request import Verify
from ha_core.operations.copies.reversal import require_none_open
from ha_core.operations.copies.writers import open_to_writers
from ha_core.operations.engine.await_gateways import require_served, serves
from ha_core.operations.engine.cluster_admins import DYING_S, ask_dying, described, in_origin, origin_of
from ha_core.operations.engine.errors import BypassError, MoveError, NotServedError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.kind import Kind
from ha_core.operations.engine.revisions import Touched, bounded, in_batches
from ha_core.operations.engine.steps import AnyStep, Steps
from ha_core.operations.move import dependents
from ha_core.operations.move.client_costs import note_client_costs
from ha_core.operations.proposal.proposal import as_made
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import listed
from ha_core.plan.move.identity_maps import pin_change, pinned_map, to_pin, unpin_change
from ha_core.plan.move.step_verdicts import past_gateways

RETURN_S, RETURN_PAUSE_S = 15.0, 0.5
"""Wait for a vanished gateway. One that returns later finds its lease replaced, and does not acknowledge requests
that it continues."""
HOW_IT_IS_ASKED = (
    "reason",
    "drain_timeout_s",
    "warn_lag_records",
    "warn_lag_ms",
    "refuse_lag_records",
    "refuse_lag_ms",
    "verify",
)
"""Fields of a request that do not change what moves where."""
_WOULD_COMMIT_UNREAD = "it could still commit records from before the topic left by force, which no reader would get"
AnyMove = TypeVar("AnyMove", bound=MoveOperation)


class MoveSteps(Steps[AnyMove, AnyStep]):
    """The effects of the steps that every move takes."""

    def __init__(self, journal: Journal[AnyMove], why: str = "") -> None:
        super().__init__(journal, why)
        self._specs: list[TopicSpec] = []
        self._there: Mapping[str, TopicDescription] = {}

    def pin(self) -> None:
        """Keep all clients in the origin, for topics without a map.

        :raises StepFailedError: a gateway does not follow in time, or a topic is gone.
        """
        journal, moves = self.journal, self.journal.moves
        target, origin = journal.target, origin_of(self.environment, journal.request)
        brokers, defaults = len(target.probe().brokers), target.topic_defaults()
        topic_specs = specs(journal, origin, brokers)
        self._specs = [as_made(spec, defaults, brokers, journal.request) for spec in topic_specs]
        self._there = target.topics(moves.topics, offsets=False)
        if journal.request.mode == "forced":
            self._specs = [self._as_its_copy(spec) for spec in self._specs]
        # A dead origin may not describe a topic; then it exists in the target, which does.
        counts = {name: description.partitions for name, description in self._there.items()}
        counts |= {spec.name: spec.partitions for spec in self._specs}
        with journal.step("pin") as seen:
            touched = Touched.read(journal)
            names = [name for name in to_pin(journal.operation, touched.view) if name in counts]
            maps = [pinned_map(journal.request.origin, name, counts[name]) for name in names]
            for some in in_batches(maps, {}):
                partitions = {topic.name: counts[topic.name] for topic in some}
                touched.commit(pin_change(journal.operation, touched.view, partitions), "pin")
            revision = self.environment.store.confirm()
            seen.update(topics=len(names), revision=revision)
            way = (
                "Nothing was created yet: they would send clients to the new copies. Look at these gateways, or stop "
                "them, then try again."
            )
            require_served(self.environment, revision, StepFailedError, way)

    def _as_its_copy(self, spec: TopicSpec) -> TopicSpec:
        """A dead origin's topic may have grown, with its copy, since it was last seen: then the copy's count holds."""
        operation, there = self.journal.operation, self._there.get(spec.name)
        mirror = self.environment.store.read(Mirror, f"{spec.name}@{operation.request.target}")
        if there is None or mirror is None or mirror[0].source != operation.request.origin:
            return spec
        return replace(spec, partitions=max(spec.partitions, there.partitions))

    def prepare(self) -> None:
        """Create the topics that are missing in the target; their names are stored before the first is created."""
        journal = self.journal
        self.remove_guards()
        self._await_transactions_of_before()
        with journal.step("prepare") as seen:
            known = journal.operation.evidence
            missing = tuple(name for name in journal.moves.topics if name not in self._there)
            live = {gateway.id for gateway in self.environment.store.gateways()}
            journal.note(
                state="running",
                created=tuple(dict.fromkeys([*known.created, *missing])),
                gateways=tuple(sorted(live.union(known.gateways))),
                unsettled=missing,
            )
            try:
                made = journal.target.create_topics(self._specs, still_ours=journal.still_ours)
            except (ClusterUnreachableError, NotReadyError):
                raise  # may be created later, or is created and unknown to some broker
            except KafkaAdminError:
                journal.note(unsettled=())
                raise
            if missing:
                journal.note(unsettled=())
            seen.update(created=list(made.created), existing=list(made.existing), notes=list(made.notes))
            for note in made.notes:
                self.environment.say(note)

    def _await_transactions_of_before(self) -> None:
        """No extent has the records of a topic that left the target by force. A transaction that is still open there
        must end before the cut: after it, gateways would forward its commit like any other. None begins meanwhile.

        :raises StandsInTheWayError: one stays open for the drain timeout.
        """
        journal, target = self.journal, self.journal.request.target
        sequences = self.environment.store.load().sequences
        left = [
            (name, partition)
            for name, there in self._there.items()
            if (last_sequences := sequences.get(name)) is not None
            for partition in last_sequences.left_by_force.get(target, ())
            if partition < there.partitions
        ]
        if left:
            with journal.step("transactions") as seen:
                seen["partitions"] = len(left)
                timeout_s = journal.request.drain_timeout_s
                require_none_open(self.environment, journal.target, left, timeout_s, _WOULD_COMMIT_UNREAD)

    def remove_guards(self) -> None:
        """:raises StepFailedError: the target keeps a guard ACL on a moved topic. A forced move continues without."""
        open_to_writers(self.journal, must=self.journal.request.mode == "planned")

    def verify(self) -> None:
        """A failure ends the operation as failed: the cut stays in force.

        :raises NotServedError: a gateway does not serve it.
        :raises BypassError: the origin's logs have grown.
        """
        try:
            self._verify()
        except (NotServedError, BypassError) as error:
            self.unverified()
            self.journal.finish("failed", f"{error}{dependents.unfollowed(self.journal.operation)}")
            raise

    def unverified(self) -> None:
        """Store what an unverified cut, which stays in force, leaves to do, while the operation holds its locks."""

    def _verify(self) -> None:
        journal, environment = self.journal, self.environment
        revision = journal.cut_revision()
        with journal.step("verify") as seen:
            way = (
                "The cut is published in it. They refuse produce when their lease ends. Look at these gateways, "
                "restart them if need be."
            )
            require_served(environment, revision, NotServedError, way)
            note_client_costs(journal, revision, seen)
            self._take_leave()
            if not journal.operation.evidence.origin_ends:
                seen["origin"] = "not asked"
                return
            try:
                self._require_unmoved(seen)
            except KafkaAdminError as error:
                seen["origin"] = f"not asked: {error}"

    def groups(self) -> None:
        dependents.follow(self.journal)

    def discard(self) -> None:
        """Delete created topics that are still empty; those of an unreachable target stay, and do no harm."""
        journal = self.journal

        def delete() -> dict[str, Any]:
            return {"deleted": list(journal.target.delete_empty_topics(created, journal.still_ours))}

        if created := journal.operation.evidence.created:
            left = f"created topics may stay in {journal.request.target} ({', '.join(created)})"
            self.undone_step("discard", left, delete)

    def unpin(self) -> None:
        """Remove the identity maps of topics that exist only in the origin.

        The others stay: a copy without a map would be a second topic. So do those of topics whose creation was
        requested without an answer: they may still be created.
        """
        request = self.journal.request
        if self.journal.operation.evidence.pinned:
            left = f"{request.target} does not list the topics that it still has, so maps to {request.origin} stay"
            self.undone_step("unpin", left, self._unpin)

    def undone_step(self, step: str, left: str, action: Callable[[], dict[str, Any]]) -> None:
        """Undo something, with a history entry; `left` is the text if that fails."""
        before = self.environment.monotonic()
        try:
            detail = action()
        except (KafkaAdminError, MoveError) as error:
            self.environment.say(f"{left}: {error}")
            self.journal.append(step, "note", detail={"left": f"{left}: {error}"})
        else:
            self.journal.append(step, "undone", self.environment.ms_since(before), detail)

    def _unpin(self) -> dict[str, Any]:
        pinned = self.journal.operation.evidence.pinned
        kept = {*self.journal.target.topics(pinned, offsets=False), *self.journal.operation.evidence.unsettled}
        touched = Touched.read(self.journal)
        maps = [touched.view.topics[name] for name in pinned if name not in kept and name in touched.view.topics]
        for some in in_batches(maps, {}):
            documents = unpin_change(self.journal.operation, touched.view, [topic.name for topic in some])
            touched.commit(documents, "unpin")
        return {"topics": len(maps), "kept": sorted(kept.intersection(pinned))}

    def _take_leave(self) -> None:
        """Else the origin would wait for heartbeats of adopted members, and a move back with it."""
        request = self.journal.request
        if request.mode == "forced":
            return
        for name, adopted in self.journal.operation.evidence.adopted.items():
            try:
                remove_members(self.journal.origin, in_origin(name, adopted))
            except KafkaAdminError as error:
                self.environment.say(
                    f"members of group {name} stay in {request.origin} until their session ends: {error}"
                )

    def _require_unmoved(self, seen: dict[str, Any]) -> None:
        """Looks again if a gateway has vanished: one that was suspended may have resumed, and sent its buffers before
        it noticed."""
        beyond, live = self._beyond(), {gateway.id for gateway in self.environment.store.gateways()}
        # These were live when the operation was prepared.
        gone = [name for name in self.journal.operation.evidence.gateways if name not in live]
        if gone:
            seen["gone"] = gone
            self._await_return(gone)
            beyond = self._beyond()
        if not beyond:
            seen["origin"] = "unchanged"
            return
        seen.update(bounded("beyond", beyond))
        named = listed(f"{topic}-{part} from {low} to {high}" for (topic, part), (low, high) in beyond.items())
        who = (
            f"{', '.join(gone)} vanished during the move and may have sent the rest of requests that it had begun: "
            "these records were not acknowledged, and their producers send them again, to the target"
            if gone
            else "A producer writes there without passing through the gateways"
        )
        raise BypassError(
            f"The cut is published in revision {self.journal.operation.revision}, but {self.journal.request.origin} "
            f"has grown since: {named}. {who}. Clients do not see these records.",
            past_gateways(
                self.journal.request.origin,
                beyond,
                "Clients do not see these records: find their producer, and copy those that matter.",
            ),
        )

    def _beyond(self) -> dict[Partition, tuple[int, int]]:
        """Partition → the origin's own offsets from the cut to its log end."""
        ends = self.journal.operation.evidence.origin_ends
        known = {(topic, partition): end for topic, found in ends.items() for partition, end in found.items()}
        now = self.journal.origin.ends(known)
        return {key: (end, now[key].log_end) for key, end in sorted(known.items()) if now[key].log_end != end}

    def _await_return(self, gone: Collection[str]) -> None:
        """Wait until all of them follow the cut, at most `RETURN_S`: most have died, and never will."""
        environment = self.environment
        deadline = environment.monotonic() + RETURN_S
        follows = serves(self.journal.operation.revision)
        environment.say(f"{', '.join(gone)} vanished during the move: looking at the origin again in {RETURN_S:g} s")
        while environment.monotonic() < deadline:
            back = {gateway.id for gateway in environment.store.gateways() if follows(gateway)}
            environment.sleep(RETURN_PAUSE_S)  # requests that it sent when it resumed are in the log by then
            if back.issuperset(gone):
                return


class MoveKind(Kind):
    """A kind of move."""

    def repeats(self, operation: MoveOperation, request: MoveRequest) -> bool:
        """A migration of many topics is one request, and begins batch by batch (`migration/planning`). No request has
        cuts that were chosen by hand: a migration with such cuts is continued by its id."""
        if operation.cuts_chosen:
            return False
        begun, part, whole = operation.request, operation.request.scope, request.scope
        amounts = get_args(Verify)
        if operation.state != "cut" and amounts.index(begun.verify) < amounts.index(request.verify):
            return False  # it would move to copies that were compared less thoroughly
        topics_alone = part == Scope(topics=part.topics, partitions=part.partitions, user_groups=part.user_groups)
        if begun.include_other_users and topics_alone and part.topics and set(part.topics) <= set(whole.topics):
            named = {name: some for name, some in whole.partitions.items() if name in part.topics}
            # A batch of a predicted migration may take a fence after all; a prediction is no barrier. And groups that
            # were to come along do not come along with a request that leaves groups out.
            groups_too = request.groups == "move" or set(part.user_groups) <= set(whole.user_groups)
            if part.partitions == named and groups_too and begun.cut in {request.cut, "barrier"}:
                begun = begun.model_copy(update={"scope": whole, "cut": request.cut})
        return begun.model_copy(update={name: getattr(request, name) for name in HOW_IT_IS_ASKED}) == request


def specs(journal: Journal[MoveOperation], origin: Admin | None, brokers: int) -> list[TopicSpec]:
    """The topics' partitions and settings; for a dead origin as last seen, or from their maps."""
    moves = journal.moves
    if journal.request.mode == "planned":
        descriptions = described(journal.origin, moves.topics)
        return [descriptions[name] for name in moves.topics]
    answer = ask_dying(journal.environment, origin, lambda dying: described(dying, moves.topics, DYING_S))
    if answer is not None:
        return [answer[name] for name in moves.topics]
    store = journal.environment.store
    known = store.known(KnownTopic, journal.request.origin, moves.topics)
    some = []
    for name in moves.topics:
        stored = store.read(Topic, name)
        if (seen := known.get(name)) is not None:
            some.append(TopicSpec(name, seen.partitions, seen.replication, seen.config, defaults=seen.defaults))
        elif stored is not None and stored[0].mapped:
            some.append(TopicSpec(name, max(stored[0].partitions) + 1, max(1, brokers)))
    return some
