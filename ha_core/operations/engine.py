"""Running a switch: start, steps, undo, release. Every step can be killed anywhere and run again.

Invariant: a fence stands only while the operation's state is `fenced`, because fence and state change in one revision;
a map is published only in the revision that lifts the fence. So the state alone says what an interrupted run left
behind: before `cut` everything can be undone, from `cut` on there is only forward."""

from __future__ import annotations

from collections.abc import Callable

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveRequest, Operation
from ha_core.model.operation import Unread
from ha_core.operations import single
from ha_core.operations.caretaking import take_care
from ha_core.operations.creating import create, interrupted_twin
from ha_core.operations.crossing.advance import advance
from ha_core.operations.crossing.way_back import roll_back, undo_crossing
from ha_core.operations.crossing.without_origin import end_without_origin
from ha_core.operations.dependents import Runner, follow, unfollowed
from ha_core.operations.environment import Environment
from ha_core.operations.errors import MoveError, NotServedError, RefusedError, StepFailedError
from ha_core.operations.journal import ASKED_FOR, Journal, held, new_operation_id
from ha_core.operations.report import PartitionCut, Report, Result, StepTime, partition_cuts, step_times
from ha_core.operations.switch.cut_over import cut_over
from ha_core.operations.switch.proposal import Proposal, plan
from ha_core.operations.switch.targets import adopt_groups, prepare_targets
from ha_core.operations.switch.undoing import undo_all
from ha_core.operations.switch.verifying import verify
from ha_core.plan.closure import lock_keys
from ha_core.plan.move import FINAL, Decision, Done, MoveDamagedError, Undo
from ha_core.plan.move import resume as planned_resume
from ha_core.store.errors import FencedOffError, StoreError, StoreUnavailableError

UNDO_PATIENCE_S = 60.0

STEPS: tuple[str, ...] = ("prepare", "adopt", "cut_over", "verify", "record")
"""In this order. `prepare` begins with pin; `cut_over` is quiesce, fence, drain, ends, offsets and cut."""
_TASK_OF = {"pin": "prepare", **dict.fromkeys(("quiesce", "fence", "drain", "ends", "offsets", "cut"), "cut_over")}
"""Step of the planner → what runs it; the others have the same name."""
_RUN: dict[str, Callable[[Journal], None]] = {
    "prepare": prepare_targets,
    "adopt": adopt_groups,
    "cut_over": cut_over,
    "verify": verify,
}

_RESULTS: dict[str, Result] = {"succeeded": "succeeded", "undone": "undone", "crossing": "crossing"}


def start(
    environment: Environment, proposal: Proposal, by: str, operation_id: str | None = None, recheck: bool = True
) -> Operation:
    """Create the operation with all its locks; nothing else is changed.

    With `operation_id`, an operation that a killed run of the same id created is found again. With `recheck` the
    state is judged once more: somebody may have thought about the proposal for hours.

    :raises RefusedError: a verdict is an error, what moves has changed, or another operation has a lock.
    """
    if operation_id is not None:
        created = environment.operation(operation_id)
        if created is not None:
            return created
    take_care(environment, resume)
    proposal.require_sound()
    if recheck:
        again = plan(environment, proposal.request)
        again.require_sound()
        if again.moves.reasons.keys() != proposal.moves.reasons.keys():
            changed = sorted(again.moves.reasons.keys() ^ proposal.moves.reasons.keys())
            raise RefusedError(
                f"Nothing was changed. What moves is not what was proposed any more: {', '.join(changed)}. "
                "Look at a new proposal."
            )
        proposal = again
    request, now = proposal.request, environment.now()
    _end_crossings(environment, proposal)
    operation = Operation(
        id=operation_id or new_operation_id("switch", now),
        kind="switch",
        state="planned",
        by=by,
        reason=request.reason,
        started=now,
        request=request,
        moves=proposal.moves,
    )
    keys = {*lock_keys(request, proposal.moves), *(f"topic:{name}" for name in proposal.crossings)}
    ended = {"ended_without_origin": dict(proposal.crossings)} if proposal.crossings else {}
    return create(environment, operation, sorted(keys), ended)


def _end_crossings(environment: Environment, proposal: Proposal) -> None:
    """End what crosses over out of a cluster that a forced move takes for dead: it is where it belongs then.

    :raises RefusedError: it could not be ended.
    """
    request = proposal.request
    for operation_id in sorted(set(proposal.crossings.values())):
        environment.say(f"operation {operation_id} crosses over from {request.origin}: ending it without that")
        report = resume(environment, operation_id, without_origin=request.unread or "wait", force=request.force)
        if report.result != "succeeded":
            raise RefusedError(f"The crossing of operation {operation_id} could not be ended: {report.error}")


def run_step(environment: Environment, operation_id: str, step: str) -> Operation:
    """Run one of `STEPS` if it is still to be done. Before the cut, a failure undoes the operation at once.

    :raises StepFailedError: the step failed; the text says that the operation was undone.
    :raises RefusedError: no such operation, or somebody alive works on it.
    """
    if step not in STEPS:
        raise RefusedError(f"There is no step {step!r}. The steps are {', '.join(STEPS)}.")
    take_care(environment, resume)
    with held(environment, operation_id) as journal:
        if journal.operation.state not in FINAL:
            _go_on(journal, step)
        elif journal.operation.state != "succeeded":
            raise StepFailedError(
                f"Operation {operation_id} has ended as {journal.operation.state}: {_result(journal)}"
            )
        return journal.operation


def run_all(environment: Environment, operation_id: str) -> Report:
    """Run what is left of the operation to its end, or until its cuts are ahead of their logs.

    Failures are in the report, not raised.
    """
    with held(environment, operation_id) as journal:
        return _to_the_end(journal)


def resume(
    environment: Environment,
    operation_id: str,
    at_once: bool = False,
    *,
    without_origin: Unread | None = None,
    force: bool = False,
) -> Report:
    """Continue an interrupted operation of any kind, or one that crosses over.

    :param at_once: end a crossing now, behind a fence.
    :param without_origin: end it now although its origin is dead, and what readers below the cuts do then.
    :param force: with it, take the origin for dead although it answers.
    :raises RefusedError: no such operation, somebody alive works on it, or it has no crossing to end.
    """
    with held(environment, operation_id) as journal:
        operation = journal.operation
        if without_origin is not None:
            if operation.kind != "migrate":
                raise RefusedError(
                    f"Operation {operation_id} is a {operation.kind} and crosses nothing: leave --without-origin out."
                )
            try:
                end_without_origin(journal, without_origin, force)
            except MoveDamagedError as error:
                raise StepFailedError(f"{error}.") from error
        if operation.kind in {"switch", "migrate"}:
            return _to_the_end(journal, at_once)
        if operation.state in FINAL:
            journal.finish(operation.state, operation.result)  # type: ignore[arg-type]  # FINAL has these three
            return _report(journal)
        if operation.state == "cut":
            return single.settle(journal)
        journal.finish("undone", "interrupted before anything was changed")
        return _report(journal)


def undo(environment: Environment, operation_id: str) -> Report:
    """Undo what the operation did. Already undone: nothing is done.

    :raises RefusedError: the cut is published; the way back is a switch the other way.
    """
    with held(environment, operation_id) as journal:
        operation = journal.operation
        if operation.kind == "migrate":
            roll_back(journal)
            return _report(journal)
        if operation.state in {"cut", "succeeded"}:
            back = ""
            if operation.request is not None:
                back = f" with --from {operation.request.target} --to {operation.request.origin}"
            raise RefusedError(
                f"Operation {operation_id} has cut over in revision {operation.revision}: from there it only goes "
                f"forward. `switchyard resume {operation_id}` ends it; the way back is a new `switchyard switch`{back}."
            )
        if operation.state not in FINAL:
            _undo(journal, ASKED_FOR)
        else:
            journal.finish(operation.state, operation.result)  # type: ignore[arg-type]  # FINAL has these three
        return _report(journal)


def release(environment: Environment, operation_id: str) -> Report | None:
    """Teardown: leave neither a fence nor a lock, whatever happened. None if the operation was never created.

    A crossing that is open goes on: it holds nobody up, and keeps its locks until it ends.
    """
    if environment.operation(operation_id) is None:
        return None
    with held(environment, operation_id) as journal:
        state = journal.operation.state
        if state in FINAL:
            environment.store.release_locks(operation_id, journal.epoch)
        elif journal.operation.kind == "migrate":
            if state in {"planned", "running"}:
                undo_crossing(journal, "released before its cuts were proposed")
            else:
                return _to_the_end(journal)
        elif state == "cut":
            return _to_the_end(journal) if journal.operation.kind == "switch" else single.settle(journal)
        else:
            _undo(journal, "released before its cut")
        return _report(journal)


def settle_interrupted(environment: Environment, request: MoveRequest) -> Report | None:
    """Continue, before a new switch, an interrupted one of the same scope between the same clusters.

    Returns its report when it has thereby succeeded: then the new one has nothing to do.
    """
    take_care(environment, resume)
    found = interrupted_twin(environment, request)
    if found is None:
        return None
    environment.say(f"operation {found.id} of {found.by} was interrupted; continuing it")
    report = resume(environment, found.id)
    environment.say(f"operation {found.id}: {report.result}")
    return report if report.result == "succeeded" else None


def _go_on(journal: Journal, step: str) -> None:
    """One step of several processes. Behind a fence that an earlier one left, the planner decides."""
    operation = journal.operation
    if operation.state in {"fenced", "undoing"}:
        if isinstance(_decide(journal), Undo) and _undo(journal, f"interrupted in {step}"):
            raise StepFailedError(
                f"Operation {operation.id} was interrupted behind its fence, and is undone now. Start the move again."
            )
        if operation.state == "fenced" and step != "cut_over":
            raise StepFailedError(f"Operation {operation.id} is fenced: the step to run is cut_over, not {step}.")
    _guarded(journal, step)


def _to_the_end(journal: Journal, at_once: bool = False) -> Report:
    """Go on as the planner says for what stands in the state."""
    operation, store = journal.operation, journal.environment.store
    if operation.kind not in {"switch", "migrate"}:
        raise RefusedError(
            f"Operation {operation.id} is a {operation.kind}: `switchyard resume {operation.id}` ends it."
        )
    try:
        if operation.kind == "migrate":
            advance(journal, _groups_follow, at_once)
            return _report(journal)
        decision = _decide(journal)
        if isinstance(decision, Done):
            store.release_locks(operation.id, journal.epoch)
        elif isinstance(decision, Undo):
            _undo(journal, "interrupted before its cut")
        else:
            for step in STEPS[STEPS.index(_TASK_OF.get(decision.step, decision.step)) :]:
                _guarded(journal, step)
    except (MoveError, StoreError, KafkaAdminError, MoveDamagedError) as error:
        return _report(journal, str(error))
    return _report(journal)


def _decide(journal: Journal) -> Decision:
    operation = journal.operation
    if operation.state == "planned":
        # Nothing of it stands anywhere but in its own document: no need to look.
        return planned_resume(operation, {}, {})
    view = journal.environment.store.load()
    return planned_resume(operation, view.topics, view.groups)


def _guarded(journal: Journal, step: str) -> None:
    """Run a step that is still to be done; undo at once what fails before the cut."""
    state = journal.operation.state
    if state == "cut" and step not in {"verify", "record"}:
        return
    if step in {"verify", "record"} and state != "cut":
        raise StepFailedError(
            f"Operation {journal.operation.id} has not cut over yet (its state is {state}): run the steps in order."
        )
    try:
        if step == "record":
            journal.finish("succeeded", f"cut over and verified{_groups_follow(journal)}")
        else:
            _RUN[step](journal)
    except FencedOffError:
        raise  # another executor goes on with it: touching anything would be against its back
    except NotServedError as error:
        journal.finish("failed", f"{error}{unfollowed(journal.operation)}")
        raise
    except BaseException as error:
        if journal.operation.state == "cut" or not _undo(journal, f"{step}: {error}"):
            raise
        if not isinstance(error, Exception):
            raise
        raise StepFailedError(f"{error} The operation was undone: no fence and no lock is left.") from error


def _undo(journal: Journal, why: str) -> bool:
    """Undo and finish. False: the cut had been published after all, and there is only forward."""
    environment = journal.environment
    deadline = environment.monotonic() + UNDO_PATIENCE_S
    while True:
        try:
            if journal.operation.kind == "switch":
                undo_all(journal)
            journal.finish("undone", why)
        except MoveDamagedError:
            if journal.operation.state != "cut":
                raise
            return False
        except StoreUnavailableError as error:
            if environment.monotonic() < deadline:
                environment.say(f"the undo waits for ZooKeeper: {error}")
                environment.sleep(1.0)
                continue
            operation_id = journal.operation.id
            raise MoveError(
                f"Operation {operation_id} could not be undone ({error}); it failed because of: {why} Its fence and "
                f"locks may still stand. `switchyard undo {operation_id}` when ZooKeeper answers again."
            ) from error
        return True


def _groups_follow(journal: Journal) -> str:
    return follow(journal, Runner(_start_following, run_all))


def _start_following(environment: Environment, proposal: Proposal, operation_id: str) -> Operation:
    return start(environment, proposal, environment.by, operation_id, recheck=False)


def _result(journal: Journal) -> str:
    return journal.operation.result or "no reason was written"


def _report(journal: Journal, error: str = "") -> Report:
    """The report of what the operation has come to; an unfinished one has failed for now."""
    environment, operation = journal.environment, journal.operation
    state = operation.state
    result = _RESULTS.get(state, "failed")
    cuts: tuple[PartitionCut, ...] = ()
    times: tuple[StepTime, ...] = ()
    try:
        times = step_times(environment.store.history(operation.id))
        if operation.revision and result != "undone" and operation.moves is not None:
            topics = environment.store.load().topics
            cuts = partition_cuts(operation, [topics[name] for name in operation.moves.topics if name in topics])
    except StoreError as unread:
        # The result is known; that its details cannot be read now must not hide it.
        environment.say(f"the details of operation {operation.id} cannot be read: {unread}")
    quiet = result in {"succeeded", "crossing"} or operation.result == ASKED_FOR
    text = error or ("" if quiet else operation.result)
    return Report(operation.id, result, operation.revision, times, cuts, text)
