"""Declared bindings, made true in one revision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, DryRunEnds, SwitchyardOperator, truth
from ha_core.operators.dag_run import run_owner


class RefreshBindingsOperator(SwitchyardOperator):
    """Show how the stored bindings differ from the declared ones; with `apply`, make them so and wait for all gateways.

    :param declaration: YAML text. If it is empty, `path` is read instead, on the worker.
    :param path: a YAML file.
    :param apply: False shows the difference only. Where nothing differs the task is skipped either way.
    """

    template_fields: Sequence[str] = (
        *SwitchyardOperator.template_fields,
        "declaration",
        "path",
        "reason",
        "accept_warnings",
        "dry_run",
    )

    def __init__(
        self,
        *,
        declaration: str = "",
        path: str = "",
        reason: str = "",
        apply: bool = True,
        accept_warnings: Any = False,
        dry_run: Any = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.declaration = declaration
        self.path = path
        self.reason = reason
        self.apply = apply
        self.accept_warnings = accept_warnings
        self.dry_run = dry_run

    def work(self, context: Context) -> dict[str, Any]:
        if self.apply and truth(self.dry_run):
            raise DryRunEnds("This is a dry run: the difference is in the log of the task before.")
        from ha_core.operations.bindings import apply_bindings, plan_bindings
        from ha_core.operations.errors import NotServedError, RefusedError
        from ha_core.operators.base import settle_own
        from ha_core.present.moves import report_page

        with self.environment(context) as environment:
            settled = settle_own(environment, run_owner(context)) if self.apply else ()
            plan = plan_bindings(environment, self._declared())
            for difference in plan.differences:
                for line in difference.lines():
                    self.log.info("%s", line)
            for warning in plan.warnings:
                self.log.warning("%s", warning)
            if not self.apply:
                if not plan.differences:
                    raise AirflowSkipException("Nothing differs: the bindings are as declared.")
                if plan.warnings and not truth(self.accept_warnings):
                    raise RefusedError(
                        f"Nothing was changed. {' '.join(plan.warnings)} Accept the warnings if this is meant."
                    )
                found = f"{len(plan.differences)} users would get other bindings"
                self.would(context, found, objections=[*plan.warnings] or ["none"])
                return plan.to_json()
            if plan.differences:
                report = apply_bindings(environment, plan, self.reason)
            elif settled:
                report = settled[-1]
            else:
                raise AirflowSkipException("Nothing differs: the bindings are as declared.")
        self.say(report_page(report))
        if report.result != "succeeded":
            raise NotServedError(report.error)
        self.done(context, f"{len(plan.differences)} users have the bindings that are declared, in {report.operation}")
        return {**plan.to_json(), **report.to_json()}

    def _declared(self) -> Any:
        from ha_core import bindings_file
        from ha_core.operations.errors import RefusedError

        if self.declaration.strip():
            return bindings_file.parse(self.declaration, "the declaration")
        if not self.path.strip():
            raise RefusedError("There is no declaration: give its text, or the path of a file on the workers.")
        return bindings_file.read(Path(self.path.strip()))
