"""The way back of a crossing: no fence, and nothing is lost as long as the target was not written."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError
from ha_core.model import Operation, Topic
from ha_core.operations.crossing.ends import read_ends, way_on
from ha_core.operations.environment import Environment
from ha_core.operations.errors import NotDrainedError, RefusedError, StepFailedError
from ha_core.operations.gateways import await_drained
from ha_core.operations.journal import ASKED_FOR, Journal
from ha_core.operations.revisions import Touched, commit
from ha_core.operations.sides import asked
from ha_core.operations.switch.undoing import take_back
from ha_core.plan.crossing import reopen_change, retreat_change, withdraw_change
from ha_core.plan.crossing_stages import crossing_partitions, crossings, stages
from ha_core.plan.move import FINAL, MoveDamagedError


def roll_back(journal: Journal) -> None:
    """Withdraw the cuts of the whole operation, and undo what was prepared. Ended already: nothing is done.

    :raises RefusedError: a topic has crossed over, or has records in the target; the crossing goes on as it was.
    """
    if journal.operation.state in FINAL - {"succeeded"}:
        return
    require_way_back(journal.environment, journal.operation, Touched.read(journal).view.topics)
    undo_crossing(journal, ASKED_FOR)


def require_way_back(environment: Environment, operation: Operation, topics: Mapping[str, Topic]) -> None:
    """Changes nothing.

    :raises RefusedError: a topic has crossed over, or has records in the target.
    """
    request, _ = asked(operation)
    if operation.state in {"cut", "succeeded"} and operation.moves is not None:
        raise RefusedError(_no_way_back(operation.id, list(operation.moves.topics), request.origin, request.target))
    found = stages(operation, topics)
    over = [name for name, one in found.items() if one == "settled"]
    if not over and operation.state != "undoing":
        opened = [name for name, one in found.items() if one == "open"]
        try:
            target = read_ends(environment, operation, crossing_partitions(topics, opened)).target if opened else {}
        except ClusterUnreachableError as error:
            raise StepFailedError(f"{error} Nothing was changed. {way_on(operation)}") from error
        over = [
            name
            for name in opened
            if any(target[name, p].log_end != extent.base for p, _, extent in crossings(topics[name]))
        ]
    if over:
        raise RefusedError(_no_way_back(operation.id, over, request.origin, request.target))


def undo_crossing(journal: Journal, why: str) -> None:
    """Go back from wherever the crossing is; `way_back` says what may prevent it."""
    touched = Touched.read(journal)
    revision = commit(journal, touched, retreat_change(journal.operation, touched.view), "retreat")
    journal.append("retreat", "undone", detail={"revision": revision, "why": why})
    way_back(journal, why)


def way_back(journal: Journal, why: str = "interrupted on the way back") -> None:
    """Withdraw cuts that are all `proposed` again; afterwards the operation is undone. May be repeated.

    :raises StepFailedError: gateways do not follow in time, or the target was written: the crossing is open again.
    """
    environment = journal.environment
    if journal.operation.state in FINAL:
        return
    try:
        with journal.step("withdraw") as seen:
            ends = {}
            if journal.operation.crossing.retreated:
                _wait_for_gateways(journal)
                topics = Touched.read(journal).view.topics
                names = [name for name, one in stages(journal.operation, topics).items() if one == "proposed"]
                ends = read_ends(environment, journal.operation, crossing_partitions(topics, names)).ends
            touched = Touched.read(journal)
            documents = withdraw_change(journal.operation, touched.view, ends)
            seen["revision"] = commit(journal, touched, documents, "withdraw")
    except (MoveDamagedError, NotDrainedError, KafkaAdminError) as error:
        touched = Touched.read(journal)
        if not journal.operation.crossing.retreated:
            raise
        revision = commit(journal, touched, reopen_change(journal.operation, touched.view), "reopen")
        journal.append("reopen", "done", detail={"revision": revision, "why": str(error)})
        why = str(error).rstrip(".")
        raise StepFailedError(f"There is no way back: {why}. The migration goes on as before.") from error
    take_back(journal)
    journal.finish("undone", why)


def _wait_for_gateways(journal: Journal) -> None:
    environment = journal.environment
    request, _ = asked(journal.operation)
    revision = environment.store.confirm()
    await_drained(environment, revision, journal.operation.id, request.drain_timeout_s)


def _no_way_back(operation_id: str, names: list[str], origin: str, target: str) -> str:
    named = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"Nothing was changed. {named} of operation {operation_id} has records in {target} already, which clients were "
        f"told of: there is no way back without them. Let it end (`switchyard resume {operation_id}`), then migrate it "
        f"back: `switchyard migrate {' '.join(names[:5])} --from {target} --to {origin}`."
    )


def would_roll_back(environment: Environment, operation_id: str) -> str:
    """What a roll-back would do now, in words. Changes nothing.

    :raises RefusedError: no such operation, or there is no way back; the text names the move that does the same job.
    """
    operation = environment.operation(operation_id)
    if operation is None or operation.kind != "migrate":
        raise RefusedError(
            f"Nothing was changed. There is no migration {operation_id!r}. `switchyard migrations` lists them."
        )
    if operation.state in FINAL - {"succeeded"}:
        return f"{operation_id} has ended as {operation.state}: nothing is to be taken back"
    require_way_back(environment, operation, environment.store.load().topics)
    request, moves = asked(operation)
    return f"would take back {len(moves.topics)} topics of {operation_id} from {request.target} to {request.origin}"
