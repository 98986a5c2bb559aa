"""Reconciles a returned cluster: its records above its copies are counted, and it becomes the standby.

A forced switch to a copy leaves a `LostTail` for each topic. The records of the tail are counted, reported with a
command that fetches them, and stored with the document (`plan/absence/reconciled`). Then the mirror is reversed
(`operations/copies/reversal`), so that the cluster gets the records written since, and a switch back is an ordinary
one.

Safe to break off and to repeat: a mirror is written in the same revision as the count, and until then only markers and
notes were added to the cluster.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.counting import Counted, count
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError
from ha_core.kafka.verifying import MirrorEnd, copies_of, plan_ended
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Cluster, Document, LostTail, Mirror, MoveOperation, Topic, View
from ha_core.model.judgement import Judgement
from ha_core.model.move_request import Verify
from ha_core.operations.absence.given_up import end_interrupted
from ha_core.operations.absence.reconciled import Reconciled, summary_of
from ha_core.operations.copies.comparing import SAMPLE_S, MirrorsCompared, PlannedComparison, compare_all, coverage
from ha_core.operations.copies.reversal import FAILURES, prepare_reversal, reversed_mirror
from ha_core.operations.engine.cluster_admins import LOOK_S, admin_of, logs_there, no_such_cluster
from ha_core.operations.engine.creating import JUDGED
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError, unchanged
from ha_core.operations.engine.report import report_of
from ha_core.operations.engine.single import await_served, beginning, commit_single
from ha_core.operations.proposal.requests import chosen_by, require_named
from ha_core.plan.absence.decision import LogHeld, Presence, State, compare, out_of_service, settled
from ha_core.plan.absence.reconciled import (
    TailFound,
    TailOutcome,
    counted_before,
    filled,
    moved_since,
    old_mirror,
    verdicts_on,
    written_again_from,
)
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.verdict import Verdict, amount, error, listed
from ha_core.store.errors import ConflictError, LockedError


def reconcile(
    environment: Environment,
    cluster: str,
    topics: Collection[str] = (),
    *,
    mirror: bool = True,
    accept_loss: bool = False,
    verify: Verify = "sample",
    dry_run: bool = False,
    reason: str,
    shown: Mapping[str, Judgement] | None = None,
) -> Reconciled:
    """Count the records of `cluster` above its copies, and make it the standby of these topics. Safe to repeat.

    :param topics: names or patterns; none: all.
    :param mirror: make it their standby; else only count.
    :param accept_loss: the operator accepts the loss of tails that cannot be counted; for named topics, also while the
        cluster is away. While another cluster is away nothing is accepted: both are needed for the count.
    :param verify: how much of the mirrored records is compared with the copies first. Differences are reported, and
        their topic is not mirrored to the cluster. Only a `full` comparison revokes an earlier difference.
    :param shown: `judged` of a dry run on which people decided: the history keeps it, too.
    :raises RefusedError: unknown or masked cluster, no reason, a decision of the operator without topics, a name or
        pattern that matches none of the topics with lost tails; or the cluster is still away.
    :raises StepFailedError: it went away after some topics were done.
    :raises KafkaAdminError: a cluster cannot be asked.
    """
    if accept_loss:
        require_named(topics)
    if not dry_run and not reason.strip():
        raise unchanged("Reconciling a cluster needs a reason. Give --reason.")
    if not dry_run:
        end_interrupted(environment, "reconcile")
    view = environment.store.load()
    registered = view.clusters.get(cluster)
    if registered is None:
        raise no_such_cluster(cluster, view.clusters)
    if (out := out_of_service(view, cluster)) is not None:
        raise unchanged(f"Cluster {cluster} cannot be reconciled: {out.words}.")
    lost = environment.store.lost_tails(cluster=cluster)
    tails = [one for one in lost if chosen_by(topics, one.topic)]
    # Also refuses a misspelt name among right ones: a report that all is counted has to name the right topics.
    if lost and (wrong := [entry for entry in topics if not any(chosen_by([entry], one.topic) for one in lost)]):
        there = listed(sorted({one.topic for one in lost}))
        raise unchanged(
            f"No switch has moved {listed(wrong)} from {cluster} to a copy while that was away, but it has {there}. "
            "Correct the name."
        )
    reconciled = Reconciled(cluster, registered.bootstrap, security=registered.security)
    if not tails:
        return reconciled
    reconciled.dry_run = dry_run
    work = _Reconciling(environment, view, registered, reason, verify, reconciled, shown or {})
    for tail in sorted(tails, key=lambda lost_tail: (lost_tail.topic, lost_tail.since)):
        try:
            work.take(tail, mirror=mirror, accept_loss=accept_loss)
        except ClusterUnreachableError as gone:
            earlier = listed(report.operation for report in reconciled.reports)
            done = f" Earlier operations stay in force: operations {earlier}." if earlier else ""
            if gone.cluster != cluster:
                raise unchanged(_writer_away(cluster, tail.topic, gone) + done) from gone
            away = still_away(cluster, [one.topic for one in tails], {one.target for one in tails}, str(gone))
            if done:
                raise StepFailedError(away.words + done, [away]) from gone
            raise unchanged(away.words, [away]) from gone
    return reconciled


def still_away(cluster: str, topics: Iterable[str], targets: Iterable[str], why: str) -> Verdict:
    """The verdict while a lost cluster is not back."""
    named = dict.fromkeys(topics)
    return error(
        "unreachable-cluster",
        f"cluster {cluster}",
        "It is not back yet, so its records cannot be counted.",
        "Start it, and run this again when `switchyard status` shows it as reachable; if it is gone for good, "
        "--accept-loss with the topics skips the count. Until then no client waits for it: "
        f"{listed(named)} {'is' if len(named) == 1 else 'are'} written in {listed(sorted(targets))}. Asked just now: "
        f"{why}",
        cause="away",
    )


def _writer_away(cluster: str, topic: str, gone: ClusterUnreachableError) -> str:
    return (
        f"{gone.cluster} does not answer, not {cluster}: {gone} Its notes show whether the topic {topic} "
        f"of {cluster} is the one that was copied. No record of {cluster} is given up: its log may be the last that "
        f"has these records. Run this again when {gone.cluster} is back. To continue in {cluster} without it: "
        f"`switchyard switch topic:{topic} --mode forced --from {gone.cluster} --to {cluster}`."
    )


class _Reconciling:
    def __init__(
        self,
        environment: Environment,
        view: View,
        cluster: Cluster,
        reason: str,
        verify: Verify,
        into: Reconciled,
        shown: Mapping[str, Judgement],
    ) -> None:
        """:param into: gets the outcome of each tail."""
        self._environment, self._view, self._reason, self._verify = environment, view, reason, verify
        self._cluster, self._admin, self._into = cluster, environment.admin(cluster), into
        self._shown = shown

    def take(self, tail: LostTail, *, mirror: bool, accept_loss: bool) -> None:
        if tail.counted is not None and any(part.records is None for part in tail.partitions.values()):
            tail = self._counted_late(tail)
        first = tail.counted is None
        differed = not first and any(part.differs_at is not None for part in tail.partitions.values())
        mirror = mirror and not differed
        found = [] if first else [*counted_before(tail)]
        try:
            if first:
                found = [*self._look(tail)]
            if first or mirror:  # a new standby is compared now, whenever its tail was counted
                found = self._compare(tail, found)
        except KafkaAdminError as error:
            state: State = "away" if isinstance(error, ClusterUnreachableError) else "refuses"
            presence = Presence(error.cluster, state, str(error))
            if error.cluster != self._cluster.name or not presence.permits("reconcile", accept_loss):
                raise
            mirror = mirror and first
            found = [TailFound.of(tail, partition, "unknown") for partition in tail.partitions] if first else found
            self._environment.say(f"{tail.topic}: continuing without a count: {error}")
        self._into.tails += tuple(found)
        whole = all(settled(one.outcome, "tail", accepted=False) for one in found)
        done = all(settled(one.outcome, "tail", accept_loss) for one in found)
        bases = self._bases(tail) if mirror and whole else None
        new = bases is not None
        left = {topic: why for topic, why in self._into.not_mirrored.items() if topic == tail.topic}
        self._into.judged[tail.key] = judgement(
            self._environment.now(), self._view.revision, [*verdicts_on(self._cluster.name, found, left)]
        )
        if self._into.dry_run:
            self._into.mirrored += (tail.topic,) if new else ()
            return
        if not first and whole and not new:
            return
        try:
            self._write(tail, found, bases if new else None, done)
        except (LockedError, ConflictError, RefusedError) as error:
            self._into.put_off += (f"{tail.topic}: {error}",)

    def _counted_late(self, tail: LostTail) -> LostTail:
        """The tail as uncounted, if its loss was accepted without a count and it can be counted after all; else
        unchanged."""
        try:
            tails = [*self._look(tail)]
        except KafkaAdminError:
            return tail
        return tail.changed(counted=None) if all(one.outcome == "counted" for one in tails) else tail

    def _look(self, tail: LostTail) -> Iterator[TailFound]:
        """:raises KafkaAdminError: the cluster cannot be asked."""
        logs = logs_there(self._admin, [(tail.topic, partition) for partition in sorted(tail.partitions)])
        if None in logs.values() or self._made_again(tail):
            outcome: TailOutcome = "gone" if None in logs.values() else "other"
            yield from (TailFound.of(tail, partition, outcome) for partition in tail.partitions)
            return
        for (_, partition), log in logs.items():
            if not isinstance(log, LogHeld):
                yield TailFound.of(tail, partition, "unknown")
            elif compare(log.end, tail.partitions[partition].mirrored) == "less":
                yield TailFound.of(tail, partition, "less", end=log.end)
            else:
                yield self._count(tail, partition, log)

    def _count(self, tail: LostTail, partition: int, log: LogHeld) -> TailFound:
        # Records after a later return of the writer are read by clients, and are no loss.
        again = written_again_from(self._view.topics.get(tail.topic), tail, partition)
        end = log.end if again is None else min(again, log.end)
        start = min(max(tail.partitions[partition].mirrored, log.start), end)
        counted = count(self._admin, (tail.topic, partition), start, end, log.last_stable)
        found = TailFound.of(tail, partition, "counted", end=end)
        return found._replace(start=start, records=counted.records, bytes=counted.bytes, aborted=counted.aborted)

    def _made_again(self, tail: LostTail) -> bool:
        """Whether the topic is not the one that was copied, as far as its brokers have ids."""
        key = (tail.topic, min(tail.partitions))
        place = self._admin.leaderships([key]).get(key)
        first = next(copy for copy in copies_of(old_mirror(tail), key[1] + 1) if copy.key == key)
        writer = admin_of(self._environment, tail.target)
        progress = writer.read_notes(first.log, {first.id: 0})[first.id].progress
        known = "" if progress is None else progress.topics.source
        return bool(known and place is not None and place.topic_id and place.topic_id != known)

    def _compare(self, tail: LostTail, tails: list[TailFound]) -> list[TailFound]:
        """Compare below the tails as well. Only a full comparison revokes a difference that was found before.

        :raises KafkaAdminError: a cluster cannot be asked.
        """
        there = {one.partition for one in tails if one.outcome == "counted"}
        differing = dict[int, tuple[int, str]]()
        if self._verify != "full":
            parts = tail.partitions.items()
            differing = {p: (part.differs_at, part.difference) for p, part in parts if part.differs_at is not None}
        bases, _ = self._led_there(tail)
        if bases is not None and self._verify != "none" and (left := there - differing.keys()):
            try:
                compared = compare_below(
                    self._environment, self._admin, old_mirror(tail), tail, bases, left, self._verify
                )
            except CopyDamagedError as error:  # for the same reason it will not be reversed
                self._environment.say(f"{tail.topic}: its mirrored records cannot be compared: {error}")
            else:
                self._into.compared[tail.topic] = compared
                differing |= {partition: first for (_, partition), first in compared.differing.items()}
        return [one.differing(*differing[one.partition]) if one.partition in differing else one for one in tails]

    def _bases(self, tail: LostTail) -> dict[int, int] | None:
        """First offsets of the new writer's own records; None: the mirror cannot be reversed."""
        bases, why = self._led_there(tail)
        if bases is not None and (why := self._added(tail)):
            self._into.not_mirrored[tail.topic] = why
            return None
        if why and tail.counted is None:  # else it was reported before
            self._into.not_mirrored[tail.topic] = why
        return bases

    def _added(self, tail: LostTail) -> str:
        """Why the cluster is no standby: the topic got partitions there, past the gateways, that no switch has seen. No
        copy has their records, and no map refers to them. Empty: it got none, or they have no records.

        :raises KafkaAdminError: the cluster cannot be asked.
        """
        described = self._admin.topics([tail.topic], timeout_s=LOOK_S).get(tail.topic)
        known = max(self._view.topics[tail.topic].partitions)
        ends = {} if described is None else {p: one for p, one in described.ends.items() if p > known}
        written = {p: one.log_end - one.start for p, one in sorted(ends.items()) if one.log_end > 0}
        if not written:
            return ""
        named = (f"partition {p} with {amount(records, 'record')}" for p, records in written.items())
        return (
            f"it got partitions in {tail.cluster} that were unknown when it went on in {tail.target}: "
            f"{listed(named)}. No copy has "
            "them: fetch the records that you need, then delete the topic there and link it again"
        )

    def _led_there(self, tail: LostTail) -> tuple[dict[int, int] | None, str]:
        """As `_bases`, while the topic is written in its copy as the switch has left it; else None, and the reason."""
        topic = self._view.topics.get(tail.topic)
        operation = self._environment.operation_of(MoveOperation, tail.operation)
        cuts = {} if operation is None else {cut.partition: cut for cut in operation.evidence.cuts.get(tail.topic, ())}
        if f"{tail.topic}@{self._cluster.name}" in self._view.mirrors:
            return None, ""
        why = moved_since(topic, tail, {partition: cut.writer_epoch for partition, cut in cuts.items()})
        return None if why else {partition: cuts[partition].base for partition in tail.partitions}, why

    def _write(self, tail: LostTail, tails: Collection[TailFound], bases: Mapping[int, int] | None, done: bool) -> None:
        environment, name = self._environment, self._cluster.name
        with beginning(environment, "reconcile", self._reason, [f"topic:{tail.topic}"]) as journal:
            with journal.step("reconcile") as seen:
                # Facts that were read before the lock may have changed.
                stored, topic = environment.store.read(LostTail, tail.key), environment.store.read(Topic, tail.topic)
                same = None if topic is None else topic[0]
                if (
                    stored is None
                    or stored[0].changed(counted=tail.counted) != tail
                    or self._view.topics.get(tail.topic) != same
                ):
                    raise unchanged(f"Topic {tail.topic} has changed since it was looked at. Run it again.")
                expected: dict[tuple[type[Document], str], int | None] = {(LostTail, tail.key): stored[1]}
                linked: Mirror | None = None
                if bases is not None:
                    new = reversed_mirror(old_mirror(tail), journal.operation.id, environment.now(), environment.by)
                    try:
                        prepare_reversal(environment, old_mirror(tail), bases, new, journal.still_ours)
                        linked = new
                        expected[Mirror, new.key] = None
                    except FAILURES as error:
                        self._into.not_mirrored[tail.topic] = str(error)
                tails = [*self._with_late(tails)] if linked else tails
                counted = filled(tail, tails, environment.now() if done else None)
                noted = [one.noted for one in tails]
                judged = [self._shown.get(tail.key), self._into.judged[tail.key]]
                seen.update(cluster=name, topic=tail.topic, tails=noted, mirror=linked is not None)
                seen[JUDGED] = [one.model_dump(mode="json") for one in judged if one is not None]
                if (compared := self._into.compared.get(tail.topic)) is not None:
                    seen["compared"] = summary_of(compared)
                commit_single(journal, (counted,) if linked is None else (linked, counted), expected, seen)
            await_served(journal)
            self._into.reports += (report_of(environment, journal.operation),)
        if linked is not None:
            self._into.mirrored += (tail.topic,)

    def _with_late(self, tails: Iterable[TailFound]) -> Iterator[TailFound]:
        """Adds records that were appended past the gateways since the count: below the markers of the new copier they
        are part of the tail as well."""
        counted = [one for one in tails if one.end is not None]
        ends = self._admin.ends([(one.topic, one.partition) for one in counted])
        for tail in counted:
            key = tail.topic, tail.partition
            end = ends[key].log_end
            assert tail.end is not None
            late = count(self._admin, key, tail.end, end, ends[key].last_stable)
            every = Counted(tail.records or 0, tail.bytes or 0, tail.aborted or 0).plus(late)
            end = end if late.records else tail.end
            yield tail._replace(records=every.records, bytes=every.bytes, aborted=every.aborted, end=end)


def compare_below(
    environment: Environment,
    cluster: Admin,
    old: Mirror,
    tail: LostTail,
    bases: Mapping[int, int],
    partitions: Collection[int],
    verify: Verify,
) -> MirrorsCompared:
    """Compare a returned cluster with its copy from its log start up to its mirrored end. Changes nothing.

    Both should have the mirrored records, but after an unclean election, a restored disk, or writes past the gateways a
    log may be long enough and have other records. As the standby it would be trusted.

    :param old: the mirror that was cut off.
    :param bases: partition → the first offset that the copy got as the writer.
    :param partitions: those of `bases` to compare.
    :param verify: not `none`. A sample takes no longer than `SAMPLE_S`, and is the same each time.
    :raises KafkaAdminError: a cluster does not answer.
    :raises CopyDamagedError: the notes do not show which records were copied.
    """
    extent = coverage(verify, tail.key)
    ended = {p: MirrorEnd(tail.partitions[p].mirrored, bases[p]) for p in partitions}
    writer = admin_of(environment, tail.target)
    planned = [
        PlannedComparison(old, cluster, writer, ranges) for ranges in plan_ended(cluster, writer, old, ended, extent)
    ]
    within_s = SAMPLE_S if verify == "sample" else None
    return MirrorsCompared(extent, compare_all(environment, planned, extent.seed, within_s))
