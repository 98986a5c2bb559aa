"""Mirrors: link, throttle, unlink, reconcile, sync, and the verdict of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ha_core.hooks.airflow_names import AirflowFailException, AirflowSkipException
from ha_core.operators.base import MAX_LISTED, DryRunEnds, SwitchyardOperator
from ha_core.operators.dag_run import base_of, current_id
from ha_core.operators.forms import Flag, FormField, LinesField, Text
from ha_core.plan.facts.verdict import amount

if TYPE_CHECKING:
    from ha_core.model import Mirror
    from ha_core.model.operation import LinkRequest
    from ha_core.operations.engine.report import Report
    from ha_core.operations.mirror.linking import LinkProposal
    from ha_core.operations.mirror.patterns import PatternProposal


class PlanMirrorOperator(SwitchyardOperator):
    """Judge the mirrors that would be made, and log the proposal; `table` has it as a page. Changes nothing.

    :param topics: names, or patterns, which are kept for later topics; one per line.
    :param origin: the cluster in which they are written.
    :param target: the cluster that gets the copies.
    :param exclude: topics that the patterns leave out, names or patterns.
    :param settings_left_alone: settings not to sync from the source, names or patterns.
    :param max_bytes_s: maximum bytes per second copied, per topic; empty: unlimited.
    :param remove_revoked_rights: whether access rules that the mirror has brought go when the source has revoked them.
    """

    topics: Any = LinesField()
    origin: Any = Text(name="from")
    target: Any = Text(name="to")
    reason: Any = Text()
    exclude: Any = LinesField(())
    settings_left_alone: Any = LinesField(())
    max_bytes_s: Any = Text("none")
    remove_revoked_rights: Any = Flag()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.mirror.patterns import are_patterns
        from ha_core.plan.facts.verdict import amount
        from ha_core.present.mirror_patterns import would_put
        from ha_core.present.moves import objections

        if are_patterns(self.topics):
            patterns = self._plan_patterns()
            patterns.require_sound()
            self.would(would_put(patterns), objections=objections([*patterns.refused_topics, *patterns.verdicts]))
            return patterns.to_json()
        proposal = self._plan()
        proposal.require_sound()
        what = amount(len(proposal.moves.topics), "topic")
        would = f"would mirror {what} from {self.origin} to {self.target}"
        self.would(would, objections=objections(proposal.verdicts))
        return proposal.to_json()

    def _plan(self) -> LinkProposal:
        from ha_core.operations.mirror.linking import plan_link
        from ha_core.present.moves import startable_page

        proposal = plan_link(self.environment, self.request())
        self.propose(startable_page(proposal))
        return proposal

    def request(self) -> LinkRequest:
        from ha_core.operations.engine.errors import unchanged
        from ha_core.operations.mirror.linking import link_request

        if self.exclude:
            raise unchanged("Topics are left out of patterns only: of named topics, leave out the others.")
        return link_request(self.topics, self.origin, self.target, self.reason, **self._policy())

    def _policy(self) -> dict[str, Any]:
        from ha_core.operations.mirror.throttling import limit_of

        return {
            "settings_left_alone": tuple(self.settings_left_alone),
            "max_bytes_s": limit_of(self.max_bytes_s),
            "remove_revoked_rights": self.remove_revoked_rights,
        }

    def _plan_patterns(self) -> PatternProposal:
        from ha_core.operations.mirror.patterns import pattern_request, plan_patterns
        from ha_core.present.mirror_patterns import pattern_proposal_page

        route = self.origin, self.target
        request = pattern_request(self.topics, *route, self.exclude, self.reason, **self._policy())
        proposal = plan_patterns(self.environment, request)
        self.propose(pattern_proposal_page(proposal), MAX_LISTED)
        return proposal


class LinkMirrorOperator(PlanMirrorOperator):
    """Create the topics on the standby with their settings, and copy them from now on.

    A killed run goes on with its operation; an undone operation gets a successor.
    """

    preview_in = "the proposal is in the log of the task before"

    def work(self) -> dict[str, Any]:
        from ha_core.operations.mirror.patterns import are_patterns
        from ha_core.operations.running import engine
        from ha_core.plan.facts.verdict import amount

        if are_patterns(self.topics):
            return self._put_patterns()
        operation_id = current_id(base_of(self.context, "link"), self.environment.operation)
        if self.environment.operation(operation_id) is None:
            engine.start(self.environment, self._plan(), operation_id)
        report = engine.resume(self.environment, operation_id)
        self.require_served(report)
        what = amount(len(set(self.topics)), "topic")
        self.done(
            f"mirrored from {self.origin} to {self.target} from now on: {what}, by {operation_id}. The page Mirrors "
            "shows their lag"
        )
        return report.to_json()

    def _put_patterns(self) -> dict[str, Any]:
        from ha_core.operations.mirror.patterns import put_patterns
        from ha_core.plan.facts.verdict import listed

        finished = self.finish_own()
        report = finished[-1] if finished else put_patterns(self.environment, self._plan_patterns())
        if report is None:
            raise AirflowSkipException("nothing was changed: the patterns stand like this already")
        self.require_served(report)
        self.done(
            f"topics of {self.origin} that {listed(self.topics)} chooses are mirrored to {self.target} from now on, "
            f"later ones too, by {report.operation}. The page Mirrors shows how far that has come"
        )
        return report.to_json()


class ThrottleMirrorOperator(SwitchyardOperator):
    """Limit the copy rate of topics, in one revision. Copiers go on undisturbed.

    Skipped if every topic has that limit already.

    :param topics: names or patterns, one per line.
    :param target: the cluster that has the copies, if a topic has several.
    :param max_bytes_s: maximum bytes per second copied, per topic; `none`: unlimited.
    """

    topics: Any = LinesField()
    target: Any = Text("", name="to")
    max_bytes_s: Any = Text()
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.mirror.throttling import limit_of, limit_words, throttle, to_throttle
        from ha_core.plan.facts.verdict import amount

        limit = limit_of(self.max_bytes_s)
        words = limit_words(limit)
        if finished := self.finish_own():
            report = finished[-1]
        else:
            others = to_throttle(self.environment, self.topics, self.target, limit)
            if not others:
                raise AirflowSkipException(f"nothing was changed: each is copied {words} already")
            self.would(f"would have {amount(len(others), 'mirror')} copied {words}", objections=["none"])
            if self.dry_run:
                raise DryRunEnds("This is a dry run: nothing is changed.")
            result = throttle(self.environment, self.topics, self.target, limit, self.reason)
            if result.report is None:
                raise AirflowSkipException(result.words)
            report = result.report
        self.require_served(report)
        self.done(f"each topic is copied {words} from now on, by {report.operation}")
        return report.to_json()


class UnlinkMirrorOperator(SwitchyardOperator):
    """Stop copying topics, in one revision, or in several if there are many. The copies stay, or are deleted.
    Fails if a mirror does not exist, or if a copy to be deleted is still needed. Patterns are removed; their mirrors
    stay.

    :param topics: names, or patterns as they were given, one per line.
    :param target: the cluster that has the copies.
    :param source: the cluster of a pattern, if it has several.
    :param delete_copy: delete the copies.
    """

    topics: Any = LinesField()
    target: Any = Text(name="cluster")
    source: Any = Text("", name="from")
    delete_copy: Any = Flag()
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.mirror.patterns import are_patterns
        from ha_core.operations.mirror.unlinking import judged, unlink
        from ha_core.plan.facts.verdict import amount, listed

        if are_patterns(self.topics):
            return self._remove_patterns()
        reports = [*self.finish_own()]
        what = f"{amount(len(set(self.topics)), 'mirror')} in {self.target}"
        for report in reports:
            self.require_served(report)
        ended = {mirror.topic for report in reports for mirror in self._ended_by(report)}
        if left := [name for name in dict.fromkeys(self.topics) if name not in ended]:
            judged(self.environment, left, self.target, self.delete_copy)
            copies = ", and delete what was copied" if self.delete_copy else ""
            self.would(f"would end {what}{copies}", objections=["none"])
            if self.dry_run:
                raise DryRunEnds("This is a dry run: nothing is changed.")
            for report in unlink(self.environment, left, self.target, self.reason, self.delete_copy):
                self.require_served(report)
                reports.append(report)
        copies = "what was copied is deleted" if self.delete_copy else "what was copied stays"
        by = listed(report.operation for report in reports)
        self.done(f"ended {what}, and {copies}, by {by}")
        return reports[-1].to_json()

    def _remove_patterns(self) -> dict[str, Any]:
        from ha_core.operations.engine.errors import unchanged
        from ha_core.operations.mirror.patterns import remove_patterns, to_remove
        from ha_core.plan.facts.verdict import listed
        from ha_core.present.mirror_patterns import removed_words

        if self.delete_copy:
            raise unchanged("Copies are deleted of topics by their names: a pattern has none of its own.")
        words = f"{listed(self.topics)}: later topics get no mirror by it"
        if finished := self.finish_own():
            report = finished[-1]
        else:
            words = removed_words(to_remove(self.environment, self.topics, self.target, self.source))
            self.would(f"would remove {words}", objections=["none"])
            if self.dry_run:
                raise DryRunEnds("This is a dry run: nothing is changed.")
            report = remove_patterns(self.environment, self.topics, self.target, self.reason, self.source)
        self.require_served(report)
        self.done(f"removed {words}, by {report.operation}")
        return report.to_json()

    def _ended_by(self, report: Report) -> tuple[Mirror, ...]:
        from ha_core.model import SingleOperation

        operation = self.environment.operation_of(SingleOperation, report.operation)
        return () if operation is None else operation.evidence.mirrors


class ReconcileOperator(SwitchyardOperator):
    """Count the lost tail of a cluster that is back, and make the cluster the standby of its copies.

    Skipped if no switch has moved topics from it to copies while it was away. Fails if something cannot be counted or
    mirrored back: an operator has to look. Clear the task to go on with the rest.

    :param cluster: the cluster that is back.
    :param topics: names or patterns; empty: all.
    :param mirror: mirror the topics to it from now on.
    :param accept_loss: accept losses that cannot be counted; name the topics.
    :param verify: the share of the mirrored records to compare with the copies first: `none`, `sample` or `full`.
    """

    cluster: Any = Text()
    topics: Any = LinesField(())
    mirror: Any = Flag(True)
    accept_loss: Any = Flag()
    verify: Any = FormField("sample")
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.absence.reconciling import reconcile
        from ha_core.operations.copies.comparing import verify_of
        from ha_core.plan.facts.verdict import amount
        from ha_core.present.mirrors import nothing_left_in, reconciled_attention, reconciled_page

        self.finish_own()
        arguments = {**self.arguments, "verify": verify_of(self.verify)}
        result = reconcile(self.environment, dry_run=self.dry_run, **arguments)
        self.say(reconciled_page(result), MAX_LISTED)
        document, open_ = result.to_json(), reconciled_attention(result)
        if not result.tails:
            raise AirflowSkipException(f"{nothing_left_in(self.cluster)}.")
        wrong = amount(
            len(result.open),
            "partition",
            "cannot be counted, or differs from its copy",
            "cannot be counted, or differ from their copies",
        )
        mirrored = amount(len(result.mirrored), "topic")
        if result.needs_attention and not self.dry_run:
            self.push_result(document)
            lines = [
                wrong if result.open else "",
                f"not mirrored to it: {amount(len(result.not_mirrored), 'topic')}" if result.not_mirrored else "",
                f"left for another time: {amount(len(result.put_off), 'topic')}" if result.put_off else "",
                f"mirrored to it from now on: {mirrored}" if result.mirrored else "",
            ]
            raise AirflowFailException(
                f"Of {self.cluster}: {'; '.join(filter(None, lines))}. The first: {open_[0]}. The log has all of it."
            )
        counted = len(result.tails) - len(result.open)
        were = "was" if result.records == 1 else "were"
        found = f"{amount(result.records, 'record')} of {amount(counted, 'partition')} of {self.cluster}"
        counted_words = f"{found} {were} not mirrored"
        fetch = ": no client gets them, and the log has the commands that fetch them" if result.records else ""
        if self.dry_run:
            along = f", and mirror {mirrored} to it" if result.mirrored else ""
            would = f"would keep that {counted_words}{along}"
            if result.open:
                would = f"{would}; {wrong}" if counted else wrong
            if open_:
                would = f"{would}. The log has all of it. The first: {open_[0]}"
            self.would(would, objections=open_ or ["none"])
        elif result.mirrored:
            self.done(f"{counted_words}{fetch}; mirrored to it from now on: {mirrored}")
        else:
            self.done(f"{counted_words}{fetch}; no further topic is mirrored to it")
        return document


class SyncMirrorsOperator(SwitchyardOperator):
    """Sync partitions, settings, access rules and groups' offsets of mirrors to their copies. Fails if an operator has
    to act.

    :param topics: names or patterns; empty: all mirrors.
    :param target: the cluster that has the copies, if a topic has several.
    """

    topics: Any = LinesField(())
    target: Any = Text("", name="to")

    def work(self) -> dict[str, Any]:
        from ha_core.operations.copies.syncing.passes import sync_mirrors
        from ha_core.plan.facts.verdict import amount
        from ha_core.present.mirrors import synced_page

        syncs = sync_mirrors(self.environment, self.topics, self.target, self.dry_run)
        if not syncs.parts:
            raise AirflowSkipException("No topic is mirrored.")
        self.say(synced_page(syncs), MAX_LISTED)
        stops = [f"{finding.about}, {finding.what}: {finding.reason}" for finding in syncs.stops]
        left = f"left to an operator: {amount(len(stops), 'thing')}. The first: {stops[0]}" if stops else ""
        if self.dry_run:
            would = f"would change {amount(len(syncs.changes), 'thing')} on standbys"
            self.would("; ".join(filter(None, (would, left))), objections=stops or ["none"])
        elif stops:
            self.push_result(syncs.to_json())
            raise AirflowFailException(f"Not as in their sources, and {left}")
        else:
            self.done(f"changed {amount(len(syncs.changes), 'thing')} on standbys, which are as their sources")
        return syncs.to_json()


COMPARE = "compare"
"""The task that compares."""


class MirrorsEqualOperator(SwitchyardOperator):
    """Fail if a copy differs from its source, or could not be compared."""

    def __init__(self, *, proposal_of: str = COMPARE, **kwargs: Any) -> None:
        super().__init__(proposal_of=proposal_of, **kwargs)

    def work(self) -> dict[str, Any]:
        summary: dict[str, Any] = self.proposal()
        if not summary["partitions"] and not summary["failed"]:
            raise AirflowSkipException("No topic is mirrored.")
        partitions = amount(summary["partitions"], "partition")
        if not summary["equal"]:
            raise AirflowFailException(
                f"{summary['differing']} of {partitions} differ, {summary['failed']} could not be compared"
                f"{_incomplete(summary)}. {_words(summary['worst'][0]) if summary['worst'] else ''}"
            )
        sample = summary["sample"]
        what = f"a sample ({sample['share']:.1%}, seed {sample['seed']}) of" if sample else "all of"
        equal = f"{amount(summary['compared'], 'record', 'is', 'are')} equal in {what} {partitions}"
        self.done("; ".join([equal, *_not(summary)]))
        return summary


def _incomplete(summary: dict[str, Any]) -> str:
    lacking, nothing = summary["incomplete"], summary["not_compared"]
    words = f", {lacking} lack records of their sources" if lacking else ""
    return f"{words}, {nothing} not compared at all" if nothing else words


def _not(summary: dict[str, Any]) -> list[str]:
    """Offsets that were not compared, although they do not differ: operators who rely on a copy must know of them."""
    counts = ((summary["behind"], "not copied yet"), (summary["gone_in_source"], "deleted in the source since"))
    return [f"{amount(count, 'offset', 'is', 'are')} {words}" for count, words in counts if count]


def _words(worst: dict[str, Any]) -> str:
    place = f"{worst['topic']} from {worst['source']} to {worst['target']}"
    if worst["error"] is not None and worst["difference"] is None:
        return f"{place}: {worst['error']}"
    if worst["difference"] is None:
        return f"{place}, partition {worst['partition']}: {worst['why']}"
    return f"{place}, partition {worst['partition']}, offset {worst['first_difference']}: {worst['difference']}"
