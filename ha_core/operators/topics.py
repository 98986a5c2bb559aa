"""Topics deleted in all clusters."""

from __future__ import annotations

from typing import Any

from ha_core.operators.base import MAX_LISTED, DryRunEnds, SwitchyardOperator
from ha_core.operators.forms import Flag, LinesField, Text


class DeleteTopicsOperator(SwitchyardOperator):
    """Delete topics in all clusters, with their maps, mirrors and recorded facts.

    A killed run goes on with its operation. Fails if a cluster could not be reached.

    :param topics: names, one per line.
    :param accept_away: even if a cluster does not answer; the names stay taken until it does.
    """

    topics: Any = LinesField()
    accept_away: Any = Flag()
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        from ha_core.model import SingleOperation
        from ha_core.operations.migration.topic_deletion import delete, plan_deletion
        from ha_core.plan.facts.verdict import amount, listed
        from ha_core.present.moves import objections
        from ha_core.present.topics import deletion_page, would_delete

        reports = [*self.finish_own()]
        done = set[str]()
        for report in reports:
            self.require_served(report)
            operation = self.environment.operation_of(SingleOperation, report.operation)
            done |= set() if operation is None else {key.removeprefix("topic:") for key in operation.about}
        if left := [name for name in dict.fromkeys(self.topics) if name not in done]:
            proposal = plan_deletion(self.environment, left, self.accept_away)
            self.say(deletion_page(proposal), MAX_LISTED)
            self.would(would_delete(proposal), objections=objections(proposal.verdicts))
            proposal.require_sound()
            if self.dry_run:
                raise DryRunEnds("This is a dry run: nothing is changed.")
            for report in delete(self.environment, left, self.reason, self.accept_away):
                self.require_served(report)
                reports.append(report)
        by = listed(report.operation for report in reports)
        self.done(f"deleted {amount(len(set(self.topics)), 'topic')} in all clusters, by {by}")
        return reports[-1].to_json()
