"""Changes of users, rights and quotas in bulk: shown first, then made in one transaction on the platform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from ha_core.hooks.platform import PlatformHook
from ha_core.operators.base import SwitchyardOperator
from ha_core.operators.dag_run import run_by
from ha_core.operators.forms import LinesField, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ha_core.platform.batch import ChangeBatch, Keys, Step
    from ha_core.platform.platform import Platform

MAX_KEYS_BYTES = 1 << 20
TO_DO = {"made": "to be made", "changed": "to be changed", "deleted": "to be deleted", "stands": "stands already"}
"""Effect of a step → the text before it is done."""
MAX_BY = 255
"""Characters. The platform accepts no more."""


class PlanAccessOperator(SwitchyardOperator):
    """Show what each line of the form would do, after checking everything that can be wrong with it.

    Neither the form nor a log has a password: keys come from a file; without one, a user gets a password by REST.

    :param create: users, one per line.
    :param disable: users who may do nothing until they are enabled.
    :param grant: rights, one per line.
    :param quotas: limits, one per line.
    :param keys_file: on the worker, written with `switchyard users entry`.
    :param platform_conn_id: the platform's database.
    """

    create: Any = LinesField(())
    disable: Any = LinesField(())
    enable: Any = LinesField(())
    grant: Any = LinesField(())
    revoke: Any = LinesField(())
    quotas: Any = LinesField(())
    keys_file: Any = Text(None)
    reason: Any = Text()

    def __init__(self, *, platform_conn_id: str = PlatformHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.platform_conn_id = platform_conn_id

    def work(self) -> dict[str, Any]:
        from ha_core.present.registry import batch_page

        steps = self._made(dry_run=True)
        self.propose(batch_page([(step.section, step.line, TO_DO[step.what]) for step in steps]))
        changes = _changes(steps)
        if not changes:
            raise AirflowSkipException("Nothing to change: all of it is in force already.")
        self.would(f"{changes} would be changed on the platform: {_counted(steps)}")
        return _result(steps)

    def _made(self, dry_run: bool) -> Sequence[Step]:
        from ha_core.platform.batch import made

        with _refused(), self._platform(creates=not dry_run) as registry:
            return made(registry, self._batch(), run_by(self.context)[:MAX_BY], self.reason, dry_run)

    def _platform(self, creates: bool = False) -> Platform:
        return PlatformHook(self.platform_conn_id).get_conn(creates)

    def _batch(self) -> ChangeBatch:
        from ha_core.platform.batch import ChangeBatch

        sections = (self.create, self.disable, self.enable, self.grant, self.revoke, self.quotas)
        return ChangeBatch(*sections, keys=_keys(self.keys_file) if self.keys_file else None)


class ChangeAccessOperator(PlanAccessOperator):
    """Make all changes in one transaction. Gateways enforce them within seconds."""

    preview_in = "what would be done is in the log of the task before"

    def work(self) -> dict[str, Any]:
        from ha_core.present.registry import batch_page

        steps = self._made(dry_run=False)
        self.say(batch_page([(step.section, step.line, step.what) for step in steps]))
        enforcement = self._enforcement(steps)
        self.done(f"{_changes(steps)} changed on the platform: {_counted(steps)}. {' '.join(enforcement)}".rstrip())
        return {**_result(steps), "enforcement": enforcement}

    def _enforcement(self, steps: Sequence[Step]) -> list[str]:
        """Whether gateways enforce the changes. They are already written."""
        from ha_core.operations.access.enforcement import enforced
        from ha_core.operations.engine.errors import RefusedError
        from ha_core.store.errors import StoreError

        kinds = {step.edit.kind for step in steps if step.edit is not None}
        try:
            with self._platform() as registry:
                newest = {kind: at_us for kind, at_us in registry.read.newest_us().items() if kind in kinds}
                return [*enforced(self.environment, newest, registry.read.has_change_at)] if newest else []
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
        if step.section == "create" and step.edit is not None and not getattr(step.edit.entry, "scram", None)
    )
    return {
        "lines": [f"{step.what}: {step.section} {step.line}" for step in steps],
        "users_without_a_password": without,
    }


def _keys(file: str) -> Keys:
    """:raises RegistryError: the file cannot be read, or has no keys. The text never contains its content."""
    import yaml

    from ha_core.platform.batch import keys_of
    from ha_core.platform.errors import InvalidError

    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_KEYS_BYTES + 1)
        if len(data) > MAX_KEYS_BYTES:
            raise InvalidError(f"{file} has more than {MAX_KEYS_BYTES} bytes: give fewer keys at once")
        found: object = yaml.safe_load(data)
    except OSError as error:
        raise InvalidError(f"{file} cannot be read on this worker: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise InvalidError(f"{file} is no YAML of keys; write it with `switchyard users entry`") from None
    return keys_of(found if isinstance(found, Mapping) else None)


@contextmanager
def _refused() -> Iterator[None]:
    """Errors that a retry cannot help. It helps if a database is away, or another operator changed an entry."""
    from ha_core.operations.engine.errors import unchanged
    from ha_core.platform.errors import InvalidError, NotThereError, SchemaError, StillUsedError

    try:
        yield
    except (InvalidError, NotThereError, SchemaError, StillUsedError) as error:
        raise unchanged(str(error)) from None
