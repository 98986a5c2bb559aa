"""A run of a DAG: its user, and the ids of its operations, derived so that cleared tasks find them again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ha_core.hooks.airflow_names import conf

if TYPE_CHECKING:
    from ha_core.model import MoveOperation, Operation, Provenance
    from ha_core.operations.engine.environment import Environment

MAX_ATTEMPTS = 99


def base_id(kind: str, dag_id: str, run_id: str, run_after: datetime) -> str:
    """`KIND-YYYYMMDD-HHMMSS-XXXXXXXX`: sorts by time, and is stable for a run."""
    digest = hashlib.sha256(f"{dag_id}/{run_id}".encode()).hexdigest()[:8]
    return f"{kind}-{run_after:%Y%m%d-%H%M%S}-{digest}"


def attempts(base: str) -> Iterator[str]:
    """`ID`, `ID.2`, `ID.3` …: an undone operation has ended for good, so the run's next attempt has its own id."""
    yield base
    yield from (f"{base}.{number}" for number in range(2, MAX_ATTEMPTS + 1))


def current_id(base: str, read: Callable[[str], Operation | None]) -> str:
    """The id under which the run works now: the newest attempt, or a new one if that was undone.

    :raises ValueError: the run has used up its attempts.
    """
    for operation_id in attempts(base):
        operation = read(operation_id)
        if operation is None or operation.state != "undone":
            return operation_id
    raise ValueError(f"{base} was undone {MAX_ATTEMPTS} times. Trigger a new run.")


def known_ids(base: str, read: Callable[[str], Operation | None]) -> list[str]:
    return list(takewhile(lambda operation_id: read(operation_id) is not None, attempts(base)))


def base_of(context: Any, kind: str) -> str:
    run = context["dag_run"]
    return base_id(kind, run.dag_id, run.run_id, run.run_after)


def started_by(context: Any, environment: Environment) -> list[str]:
    """Ids of the attempts of this run at its one operation, of any kind."""
    from ha_core.operations.running.engine import KINDS

    return [found for kind in KINDS for found in known_ids(base_of(context, kind), environment.operation)]


def newest_move(context: Any, environment: Environment) -> MoveOperation | None:
    from ha_core.model import MoveOperation

    newest = started_by(context, environment)[-1:]
    return environment.operation_of(MoveOperation, newest[0]) if newest else None


PLAN, APPROVAL = "plan", "approve"
"""Ids of the tasks that propose and ask, in all DAGs of Switchyard that have them."""
REJECT = "Reject"


def triggered_by(context: Any) -> str:
    """The user who triggered the run; empty for a scheduled run."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "")


def asked_words(context: Any, reason: object = None) -> str:
    """The heading of an approval: who asks, since when, and why."""
    at = getattr(context["dag_run"], "run_after", None)
    since = f" at {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if isinstance(at, datetime) else ""
    return f"Asked for by {triggered_by(context) or CLOCK}{since}" + (f": {reason}" if reason else "")


CLOCK = "the clock"
"""In place of the user who asked, for people; a run by a schedule has none."""


def responder(answer: Mapping[str, Any] | None) -> str:
    """The user who answered an approval; empty after a timeout."""
    user = (answer or {}).get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "")


def rejected(answer: Mapping[str, Any] | None) -> bool:
    """Whether the answer to an approval is a rejection. No answer is none."""
    return REJECT in ((answer or {}).get("chosen_options") or ())


def approver_of(answer: Mapping[str, Any] | None) -> str:
    """The user who approved; empty: none did, as after a rejection."""
    return "" if rejected(answer) else responder(answer)


def approval_of(context: Any) -> dict[str, Any] | None:
    """The answer to this run's approval; None without one."""
    task = context["task"]
    if APPROVAL not in task.dag.task_ids or task.task_id == APPROVAL:
        return None
    answer = context["ti"].xcom_pull(task_ids=APPROVAL)
    return answer if isinstance(answer, dict) else None


def run_owner(context: Any) -> str:
    """The run that an operation belongs to: `airflow:DAG/RUN`."""
    run = context["dag_run"]
    return f"airflow:{run.dag_id}/{run.run_id}"


def run_by(context: Any, with_time: bool = False) -> str:
    """The author of an operation: `alice, approved by bob (airflow:DAG/RUN)`; the run alone if it is scheduled.

    :param with_time: with the time of the approval, for records that have no field for it: `approved by bob at TIME`.
    """
    answer = approval_of(context)
    owner, who, approver, at = run_owner(context), triggered_by(context), approver_of(answer), _answered_at(answer)
    if approver:
        who = f"{who or CLOCK}, approved by {approver}{f' at {at}' if with_time and at else ''}"
    return f"{who} ({owner})" if who else owner


SCHEDULE = "the schedule"
"""In place of the user who asked, for a scheduled run."""


def provenance_of(context: Any) -> Provenance:
    """The people behind the run's operations, the run's page in Airflow, and the version of its DAGs."""
    from ha_core.model import Provenance

    run, answer = context["dag_run"], approval_of(context)
    approver = approver_of(answer)
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    scheduled = str(getattr(run, "run_type", "")).rpartition(".")[2].lower() == "scheduled"
    bundle = getattr(context["ti"], "bundle_instance", None)
    return Provenance(
        asked_by=triggered_by(context) or (SCHEDULE if scheduled else None),
        asked_at=_utc(asked) if (asked := getattr(run, "run_after", None)) is not None else None,
        approved_by=approver or None,
        approved_at=_answered_at(answer) if approver else None,
        run_url=f"{base}/dags/{quote(run.dag_id, safe='')}/runs/{quote(run.run_id, safe='')}" if base else None,
        bundle_version=getattr(bundle, "version", None),
    )


def _answered_at(answer: Mapping[str, Any] | None) -> str | None:
    at = (answer or {}).get("responded_at")
    return None if at is None else _utc(at)


def _utc(at: datetime | str) -> str:
    """As all times in documents are written."""
    read = datetime.fromisoformat(at) if isinstance(at, str) else at
    return read.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def of_run(by: str, owner: str) -> bool:
    """Whether `by` names the run `owner`, with any approver."""
    return by == owner or by.endswith(f" ({owner})")
