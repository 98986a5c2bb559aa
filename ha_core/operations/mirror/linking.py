"""Linking mirrors: judging the request, and the steps of `ha_core.plan.mirror.linking` on store and clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveOperation, MoveRequest, View
from ha_core.model.extent import open_extent
from ha_core.model.operation import LinkOperation, LinkRequest
from ha_core.model.portions import portions
from ha_core.operations.clusters.collect_facts import PATIENCE_S, gather, gather_beside_silent
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.passes import sync
from ha_core.operations.copies.syncing.topics import make_copies
from ha_core.operations.engine.creating import StartableProposal
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import MAX_REVISION_BYTES, Touched, commit_now, nested_by_topic
from ha_core.operations.engine.steps import Effect
from ha_core.operations.move.common_steps import MoveKind, MoveSteps
from ha_core.operations.proposal.proposal import with_known_names, with_trials
from ha_core.operations.proposal.requests import is_pattern, make_request
from ha_core.operations.proposal.usage import known_usage
from ha_core.plan.engine.revision import FINAL
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.linking import (
    BACK,
    LINK_RULES,
    PATTERN_RULES,
    Step,
    link_change,
    mirrors,
    remaining_steps,
    unlink_change,
)
from ha_core.plan.move.closure import closure
from ha_core.plan.preflight import PreflightCase, preflight
from ha_core.store.errors import StoreError


class LinkProposal(StartableProposal):
    """Mirrors to be linked on the state at `revision`."""

    THINGS = "mirrors"

    @property
    def operation_class(self) -> type[MoveOperation]:
        return LinkOperation

    @property
    def title(self) -> str:
        origin, target = self.request.origin, self.request.target
        what = amount(len(self.moves.topics), "topic")
        return f"{what} of {origin}, mirrored to {target}, on revision {self.revision}"

    def judged_again(self, environment: Environment) -> LinkProposal:
        """:raises RefusedError: a verdict is an error, or other topics would be mirrored now."""
        again = plan_link(environment, self.request)
        again.require_sound()
        if again.moves.topics != self.moves.topics:
            raise unchanged("Other topics would be mirrored now than were proposed. Look at a new proposal.")
        return again


def link_request(topics: Collection[str], source: str, target: str, reason: str, **policy: Any) -> LinkRequest:
    """
    :param policy: fields of `MirrorPolicy`, for each topic.
    :raises RefusedError: names the value and the allowed ones.
    """
    if patterns := [name for name in topics if is_pattern(name)]:
        raise unchanged(f"{listed(patterns)}: a link takes names of topics. Patterns are put by themselves.")
    scope = [f"topic:{name}" for name in topics]
    request = make_request(scope, source, target, reason=reason, include_other_users=True)
    return LinkRequest.model_validate(request.model_dump() | policy)


def plan_link(environment: Environment, request: MoveRequest) -> LinkProposal:
    """The effect of `request` on the current state. Changes nothing.

    :raises UnreadableDocumentError: this version cannot read the records that clients have deleted from a topic.
    """
    view, store = environment.store.load(), environment.store
    found = closure(view, known_usage(environment).counts, request)
    store.deleted_records(found.moves.topics)  # only for its error: the last step reads them, when copies are made
    by_pattern = isinstance(request, LinkRequest) and request.pattern != ""
    if by_pattern:
        facts = gather_beside_silent(environment, view, request, found.moves)
    else:
        facts = gather(environment, view, view.clusters, found.moves)
    case = PreflightCase(view, request, found, facts, store.locks(), store.gateways())
    case = with_trials(environment, with_known_names(environment, case), PATIENCE_S)
    verdicts = tuple(preflight(case, rules=PATTERN_RULES if by_pattern else LINK_RULES))
    judged = judgement(environment.now(), view.revision, verdicts)
    return LinkProposal(request=request, revision=view.revision, moves=case.moves, verdicts=verdicts, judged=judged)


class LinkSteps(MoveSteps[LinkOperation, Step]):
    """The effects of the steps of a link."""

    @property
    def effects(self) -> Mapping[Step, Effect]:
        return {
            "pin": self.pin,
            "prepare": self.prepare,
            "link": self.link,
            "record": self.record,
            "unlink": self.unlink,
            "discard": self.discard,
            "unpin": self.unpin,
            "undone": self.undone,
            "release": self.release,
        }

    def has_way_back(self, step: Step) -> bool:
        return self.journal.operation.state not in FINAL | {"cut"}

    def prepare(self) -> None:
        """New copies get the settings of a copy before their first record (`ha_core.plan.facts.settings`).

        :raises KafkaAdminError: brokers do not show them in time.
        """
        super().prepare()
        journal = self.journal
        made = {spec.name for spec in self._specs}
        wanted = {mirror.topic: mirror for mirror in mirrors(journal.operation) if mirror.topic in made}
        sides = journal.origin, journal.target
        make_copies(self.environment, *sides, wanted, journal.still_ours, keyless=True)

    def link(self) -> None:
        wanted = list(mirrors(self.journal.operation))
        with self.journal.step("link") as seen:
            touched = Touched.read(self.journal)
            self._believe_log_starts(touched.view)
            batches = list(portions(wanted, MAX_REVISION_BYTES, lambda mirror: len(mirror.to_bytes())))
            for number, some in enumerate(batches, 1):
                documents = link_change(self.journal.operation, touched.view, some, last=number == len(batches))
                revision = touched.commit(documents, "link")
            self.journal.update(revision=revision)
            seen.update(revision=revision, topics=len(wanted))

    def _believe_log_starts(self, view: View) -> None:
        """Records are deleted before the offset is stored. So a log that starts below that offset is a new one: the
        topic was recreated past the gateways, and a forced switch would hide records that its copy has."""
        store, origin = self.environment.store, self.journal.origin
        # A copy keeps what its source has deleted, and its offsets are not in the map.
        writers = [name for name in self.journal.moves.topics if origin.cluster.name in view.topics[name].writers]
        deleted = store.deleted_records(writers) if writers else {}
        counts = origin.partition_counts({topic for topic, _ in deleted}) if deleted else {}
        ends = origin.ends([key for key in deleted if key[1] < counts.get(key[0], 0)])
        starts = {
            key: open_extent(view.topics[key[0]].extents(key[1])).extrapolate(one.start) for key, one in ends.items()
        }
        lower = {key: start for key, offset in deleted.items() if (start := max(starts.get(key, 0), 0)) < offset}
        for topic, starts_of in nested_by_topic(lower).items():
            store.lower_deleted(topic, nested_by_topic(deleted)[topic], starts_of)

    def record(self) -> None:
        count = len(self.journal.moves.topics)
        are = "is" if count == 1 else "are"
        what = f"{amount(count, 'topic')} {are} mirrored: `switchyard mirrors` shows their lag"
        self.journal.finish("succeeded", what)
        self._bring_rights()

    def remove_guards(self) -> None:
        """Clients do not write to a copy: guards may stay."""

    def _bring_rights(self) -> None:
        """Sync rights at once. If that fails, the next sync of the mirrors does it."""
        journal, environment = self.journal, self.environment
        sides = journal.origin, journal.target
        try:
            synced = sync(environment.store, sides, "topics", environment.now(), Memory(), journal.moves.topics)
        except (KafkaAdminError, StoreError) as error:
            environment.say(f"rights are synced later: {error}")
            return
        for finding in synced.findings:
            if finding.what == "rights":
                environment.say(f"{finding.about}: {finding.reason}")

    def unlink(self) -> None:
        commit_now(self.journal, unlink_change, "unlink")


class Link(MoveKind):
    """Gives topics mirrors. No client waits for it."""

    names = ("link",)
    taken_back = "The link was undone: nothing is mirrored, no lock is left."

    def advance(self, journal: Journal[LinkOperation]) -> None:
        self.perform_steps(LinkSteps(journal, "interrupted on the way back"), remaining_steps(journal.operation))

    def take_back(self, journal: Journal[LinkOperation], why: str) -> bool:
        if journal.operation.state == "cut":
            return False
        effects = LinkSteps(journal, why)
        back: tuple[Step, ...] = ("release",) if journal.operation.state in FINAL else BACK
        for step in back:
            effects.perform(step)
        return True

    def undo(self, journal: Journal[LinkOperation]) -> None:
        """:raises RefusedError: its mirrors are linked."""
        operation = journal.operation
        if operation.state in {"cut", "succeeded"}:
            raise RefusedError(
                f"The mirrors of operation {operation.id} are linked. `switchyard mirror unlink TOPIC… --to "
                f"{operation.request.target}` ends them."
            )
        self.take_back(journal, journal.asked_for)
