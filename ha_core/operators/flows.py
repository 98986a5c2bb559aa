"""Operators for MirrorMaker 2 flows: declare and withdraw flows, and move groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ha_core.hooks.airflow_names import AirflowSkipException
from ha_core.operators.base import MAX_LISTED, DryRunEnds, SwitchyardOperator
from ha_core.operators.forms import DocumentField, Flag, FormField, RefusedRequestError, Text

if TYPE_CHECKING:
    from ha_core.flows.configuration import Configuration
    from ha_core.operations.flows.declaring import Declaring
    from ha_core.operations.flows.moving_group import GroupWay

DECLARE, WITHDRAW, CHECK = ACTIONS = ("declare", "withdraw", "check")


class LookAtFlowsOperator(SwitchyardOperator):
    """Log the flows of a declaration, remarks about its keys and clusters, and all its errors. Changes nothing.

    Fails if there are errors.

    :param declaration: the declaration's name.
    :param properties: the keys of an `mm2.properties`, as properties or as YAML; empty for a withdrawal.
    :param reason: kept with the declaration and in the history.
    :param action: `declare`, `withdraw` or `check`.
    :param unprobed: whether not to ask the clusters.
    """

    declaration: Any = Text(name="name")
    properties: Any = DocumentField(None)
    reason: Any = Text()
    action: Any = Text(DECLARE)
    unprobed: Any = Flag()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.flows.declaring import withdraw

        self._require_action()
        if self.action == WITHDRAW:
            words = withdraw(self.environment, self.declaration, self.reason, dry_run=True).words
            self.say([words])
            self.would(words, objections=["none"])
            return {"name": self.declaration, "words": words}
        plan = self._plan()
        change = (
            f"would declare {plan.words}" if plan.changed else f"{self.declaration} is already declared with these keys"
        )
        if self.action == CHECK:
            self.done(f"checked, nothing was changed: {plan.words}")
        else:
            self.would(change, objections=["none"])
        return plan.to_json()

    def _plan(self) -> Declaring:
        from ha_core.operations.flows.declaring import plan_declaration
        from ha_core.present.flows import declaring_page

        plan = plan_declaration(
            self.environment, self.declaration, self.properties, self.reason, probe=not self.unprobed
        )
        self.say(declaring_page(plan), MAX_LISTED)
        return plan

    def _require_action(self) -> None:
        if self.action not in ACTIONS:
            raise RefusedRequestError(f"The action {self.action!r} is unknown; give one of {', '.join(ACTIONS)}.")


class ChangeFlowsOperator(LookAtFlowsOperator):
    """Store or delete the declaration, in one revision. Skipped for a check, and if there is nothing to change."""

    preview_in: ClassVar[str] = "its flows are in the log of the previous task"

    def work(self) -> dict[str, Any]:
        from ha_core.operations.flows.declaring import declare, withdraw

        self._require_action()
        if self.action == CHECK:
            raise DryRunEnds("A check changes nothing.")
        if finished := self.finish_own():
            report, words = finished[-1], f"{self.declaration}: {self.action} is done"
        else:
            outcome = (
                withdraw(self.environment, self.declaration, self.reason)
                if self.action == WITHDRAW
                else declare(self.environment, self._plan())
            )
            if outcome.report is None:
                raise AirflowSkipException(outcome.words)
            report, words = outcome.report, outcome.words
        self.require_served(report)
        self.done(f"{words}, by {report.operation}")
        return report.to_json()


class LookAtGroupOperator(SwitchyardOperator):
    """Log each offset of a group in both clusters of a flow. Changes nothing.

    Fails if the group has members, or an offset cannot be moved.

    :param group: the group's name.
    :param flow: `SOURCE->TARGET`.
    :param declaration: name of the flow's declaration; empty: the only one that has the flow.
    :param repeat: whether to accept lower offsets where exact ones are unknown.
    :param wait_s: seconds to wait until the group has no members.
    """

    group: Any = Text()
    flow: Any = Text()
    declaration: Any = Text("")
    repeat: Any = Flag()
    wait_s: Any = FormField(0)
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.flows.moving_group import plan_group_move
        from ha_core.present.flows import group_move_page

        plan = plan_group_move(*self._way(), self.group, float(self.wait_s))
        self.propose(group_move_page(plan), MAX_LISTED)
        self.push_result(plan.to_json())
        plan.require(self.repeat)
        self.would(f"would move {plan.words}", objections=["none"])
        return plan.to_json()

    def _way(self) -> tuple[Configuration, GroupWay]:
        from ha_core.operations.flows.moving_group import configured, way_of

        found = configured(self.environment, self.flow, None, self.declaration or None)
        return found, way_of(found, self.flow)


class MoveGroupOperator(LookAtGroupOperator):
    """Commit the group's offsets in the other cluster, at its exact records."""

    preview_in: ClassVar[str] = "its offsets are in the log of the previous task"

    def work(self) -> dict[str, Any]:
        from ha_core.operations.flows.moving_group import move_group

        self.finish_own()
        plan, report = move_group(self.environment, *self._way(), self.group, self.reason, self.repeat)
        self.require_served(report)
        self.done(f"moved {plan.words}, by {report.operation}")
        return report.to_json()
