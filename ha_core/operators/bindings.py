"""Declared bindings, applied in one revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ha_core.hooks.airflow_names import AirflowSkipException
from ha_core.operators.base import SwitchyardOperator
from ha_core.operators.forms import DocumentField, Flag, Text
from ha_core.present.page import Marked

if TYPE_CHECKING:
    from ha_core.operations.access.bindings import BindingsPlan


class CompareBindingsOperator(SwitchyardOperator):
    """Show how the stored bindings differ from the declared ones. Skipped if they do not differ.

    :param declaration: YAML text. If it is empty, `path` is read instead, on the worker.
    :param path: a YAML file.
    :param accept_warnings: succeed in spite of warnings.
    """

    declaration: Any = DocumentField(None)
    path: Any = Text(None)
    reason: Any = Text()
    accept_warnings: Any = Flag()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.engine.errors import unchanged
        from ha_core.plan.facts.verdict import amount

        plan = self._plan()
        if not plan.differences:
            raise AirflowSkipException("Nothing differs: the bindings are as declared.")
        if plan.warnings and not self.accept_warnings:
            raise unchanged(f"{' '.join(plan.warnings)} Accept the warnings if this is meant.")
        text = f"{amount(len(plan.differences), 'user')} would get other bindings"
        self.would(text, objections=[*plan.warnings] or ["none"])
        return plan.to_json()

    def _plan(self) -> BindingsPlan:
        from ha_core.operations.access import bindings_file
        from ha_core.operations.access.bindings import plan_bindings
        from ha_core.operations.engine.errors import RefusedError

        if self.declaration.strip():
            declared = bindings_file.parse(self.declaration, "the declaration")
        elif self.path:
            declared = bindings_file.read(Path(self.path))
        else:
            raise RefusedError("There is no declaration: give its text, or the path of a file on the workers.")
        plan = plan_bindings(self.environment, declared)
        self.propose(chain((line for one in plan.differences for line in one.lines()), _marked(plan.warnings)))
        return plan


def _marked(warnings: Iterable[str]) -> Iterator[str]:
    return (Marked(warning, "warning") for warning in warnings)


class RefreshBindingsOperator(CompareBindingsOperator):
    """Apply the declared bindings, and wait for all gateways. Skipped if nothing differs."""

    preview_in = "the difference is in the log of the task before"

    def work(self) -> dict[str, Any]:
        from ha_core.operations.access.bindings import apply_bindings
        from ha_core.plan.facts.verdict import amount

        finished = self.finish_own()
        plan = self._plan()
        if plan.differences:
            report = apply_bindings(self.environment, plan, self.reason)
        elif finished:
            report = finished[-1]
        else:
            raise AirflowSkipException("Nothing differs: the bindings are as declared.")
        self.require_served(report)
        users = amount(len(plan.differences), "user", "has", "have")
        self.done(f"{users} the bindings that are declared, in {report.operation}")
        return {**plan.to_json(), **report.to_json()}
