"""Changes of users, rights and quotas in bulk: shown first, then made in one transaction on the platform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ha_core.hooks.airflow_names import AirflowException, AirflowSkipException
from ha_core.hooks.platform import PlatformHook
from ha_core.operators.base import SwitchyardOperator
from ha_core.operators.dag_run import run_by
from ha_core.operators.forms import DocumentField, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ha_core.platform.batch import Step
    from ha_core.platform.platform import Platform

TO_DO = {"made": "will be made", "changed": "will be changed", "deleted": "will be deleted", "stands": "stands already"}
"""Effect of a step → the text before it is done."""
MAX_BY = 255
"""Characters. The platform accepts no more."""


class PlanAccessOperator(SwitchyardOperator):
    """Show what each entry of the form would change, after checking everything that can be wrong with it.

    Neither the form nor a log has a password: keys come from a file; without one, a user gets a password by REST.

    :param put: entries that shall be so, by kind, as JSON or YAML.
    :param delete: entries that shall not exist.
    :param keys_file: on the worker, written with `switchyard users entry`.
    :param platform_conn_id: the platform's database.
    """

    put: Any = DocumentField(None)
    delete: Any = DocumentField(None)
    keys_file: Any = Text(None)
    reason: Any = Text()

    def __init__(self, *, platform_conn_id: str = PlatformHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.platform_conn_id = platform_conn_id

    def work(self) -> dict[str, Any]:
        from ha_core.present.registry import batch_page

        steps = self._made(dry_run=True)
        self.propose(batch_page([(step.kind, step.value, TO_DO[step.what]) for step in steps]))
        changes = _changes(steps)
        if not changes:
            raise AirflowSkipException("Nothing to change: all of it is in force already.")
        self.would(f"{changes} would be changed on the platform: {_counted(steps)}")
        return _result(steps)

    def _made(self, dry_run: bool) -> Sequence[Step]:
        from ha_core.platform import documents
        from ha_core.platform.batch import keys_of, made, wanted_entries

        with _refused():
            keys = keys_of(documents.read(Path(self.keys_file))) if self.keys_file else None
            put, delete = (documents.parsed(getattr(self, name), f"the field {name}") for name in ("put", "delete"))
            wanted = wanted_entries(put, delete, keys)
            with self._platform(creates=not dry_run) as registry:
                return made(registry, wanted, run_by(self.context, with_time=True)[:MAX_BY], self.reason, dry_run)

    def _platform(self, creates: bool = False) -> Platform:
        return PlatformHook(self.platform_conn_id).get_conn(creates)


class ChangeAccessOperator(PlanAccessOperator):
    """Make all changes in one transaction. Gateways enforce them within seconds."""

    preview_in = "what would be done is in the log of the task before"

    def work(self) -> dict[str, Any]:
        from ha_core.present.registry import batch_page

        steps = self._made(dry_run=False)
        by = f"Changed by {run_by(self.context)}: {self.reason}"
        self.say([by, *batch_page([(step.kind, step.value, step.what) for step in steps])])
        enforcement = self._enforcement(steps)
        self.done(f"{_changes(steps)} changed on the platform: {_counted(steps)}. {' '.join(enforcement)}".rstrip())
        return {**_result(steps), "enforcement": enforcement}

    def _enforcement(self, steps: Sequence[Step]) -> list[str]:
        """Whether gateways enforce the changes. They are already written."""
        from ha_core.operations.access.caches import enforced
        from ha_core.operations.engine.errors import RefusedError
        from ha_core.store.errors import StoreError

        kinds = {step.edit.kind for step in steps if step.edit is not None}
        try:
            with self._platform() as registry:
                newest = {kind: at_us for kind, at_us in registry.read.newest_us().items() if kind in kinds}
                if not newest:
                    return []
                return [*enforced(self.environment, newest, registry.read.has_change_at, registry.database.name)]
        except (AirflowException, StoreError, RefusedError) as error:
            self.log.warning("cannot check whether gateways enforce the change: %s", error)
            return [f"Whether a gateway enforces it is not known: {error}"]


def _changes(steps: Sequence[Step]) -> int:
    return sum(step.edit is not None for step in steps)


def _counted(steps: Sequence[Step]) -> str:
    counts = Counter(f"{step.edit.kind} {step.what}" for step in steps if step.edit is not None)
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing"


def _result(steps: Sequence[Step]) -> dict[str, Any]:
    without = sorted(
        step.edit.key
        for step in steps
        if step.kind == "users" and step.what == "made" and step.edit and not getattr(step.edit.entry, "scram", None)
    )
    return {
        "entries": [f"{step.what}: {step.kind} {step.value}" for step in steps],
        "users_without_a_password": without,
    }


@contextmanager
def _refused() -> Iterator[None]:
    """Errors that a retry cannot help. It helps if a database is away, or another operator changed an entry."""
    from ha_core.operations.engine.errors import unchanged
    from ha_core.platform.errors import InvalidError, NotThereError, SchemaError, StillUsedError

    try:
        yield
    except (InvalidError, NotThereError, SchemaError, StillUsedError) as error:
        raise unchanged(str(error)) from None
